//! The lines of the table.

use crate::{
    Options,
    client::{Connection, ls_refs},
    http_backend::{self, Request},
    lists,
    polls::{self, BRANCH, Poller, Way, percentile, poll_on},
    pushes,
    repository::{Repository, git},
    server::Server,
    updates, usage,
};
use anyhow::{Context, Result};
use std::{
    sync::{Barrier, Mutex},
    thread,
    time::{Duration, Instant},
};

/// Measures and prints the groups of lines that `--only` names, or all, for a repository.
pub(crate) fn measure(options: &Options, repository: &Repository) -> Result<()> {
    let root = repository.path.parent().context("a repository is in a folder")?;
    let wants = |name: &str| options.only.is_empty() || options.only.iter().any(|word| name.contains(&word[..]));
    println!("| | refdb serve | git http-backend |\n|-|-|-|");
    if wants("poll") {
        let server = Server::start(options, root)?;
        let began = Instant::now();
        Poller::new(&server.target, repository, BRANCH, Way::New).poll()?;
        println!("| first poll after start, ms | {:.2} | |", milliseconds(began.elapsed()));
        let git = git_polls(options, repository)?;
        for (name, way) in [("kept connection", Way::Kept), ("new connections", Way::New)] {
            let polls = polls::rate(options, &server.target, repository, way)?;
            println!(
                "| polls per second of server CPU, {name} | {:.0} (p99 {:.2} ms) | {git:.0} |",
                polls.a_second(),
                milliseconds(polls.p99)
            );
        }
        let p99 = polls::paced(options, &server.target, repository, 2000)?;
        println!("| p99 of a poll at 2,000 a second, ms | {:.2} | |", milliseconds(p99));
    }
    if wants("updates") {
        let server = Server::start(options, root)?;
        updates::measure(options, &server.target, repository)?;
    }
    if wants("list") {
        let server = Server::start(options, root)?;
        lists::measure(options, &server, repository)?;
    }
    if wants("storm") {
        let server = Server::start(options, root)?;
        for arrivals in [Duration::ZERO, Duration::from_secs(1)] {
            storm(options, &server, repository, arrivals)?;
        }
    }
    if wants("push") {
        pushes::measure(options, repository)?;
    }
    Ok(())
}

pub(crate) fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// Returns git's polls per second of CPU, without that of a web server.
fn git_polls(options: &Options, repository: &Repository) -> Result<f64> {
    const POLLS: u32 = 200;
    let before = usage::of_children()?;
    let body = ls_refs(BRANCH);
    let discovery = Request { path: "info/refs", query: "service=git-upload-pack", version: 2, body: b"" };
    let list = Request { path: "git-upload-pack", query: "", version: 2, body: &body };
    for _ in 0..POLLS {
        http_backend::run(options, repository, &discovery)?;
        http_backend::run(options, repository, &list)?;
    }
    Ok(f64::from(POLLS) / (usage::of_children()? - before).as_secs_f64())
}

/// Many clients poll, each over a connection of its own, after a ref was updated. The polls are due all at once, over
/// connections that are open already, or evenly within the time `arrivals`, over new ones. Each of 64 threads sends its
/// share one after the other. A poll's time begins when it is due.
fn storm(options: &Options, server: &Server, repository: &Repository, arrivals: Duration) -> Result<()> {
    const THREADS: usize = 64;
    let address = &server.target.address;
    let requests = polls::requests(address, repository, BRANCH);
    Poller::new(&server.target, repository, BRANCH, Way::New).poll()?;
    for words in [["-d", "refs/heads/pushed"], ["refs/heads/pushed", &repository.commit]] {
        git(&options.git, &repository.path, &[&["update-ref"][..], &words].concat(), "")?;
    }
    let barrier = Barrier::new(THREADS);
    let (times, failed) = (Mutex::new(Vec::new()), Mutex::new(0));
    let began = Instant::now();
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (barrier, times, failed, requests) = (&barrier, &times, &failed, &requests);
            scope.spawn(move || {
                let clients = options.clients / THREADS;
                let is_at_once = arrivals.is_zero();
                let connect = |_| is_at_once.then(|| Connection::open(address));
                let connections: Vec<_> = (0..clients).map(connect).collect();
                barrier.wait();
                let (began, mut own, mut open) = (Instant::now(), Vec::new(), Vec::new());
                for (at, connection) in connections.into_iter().enumerate() {
                    let due = began + arrivals.mul_f64((at * THREADS + thread) as f64 / options.clients as f64);
                    thread::sleep(due.saturating_duration_since(Instant::now()));
                    let connection = connection.unwrap_or_else(|| Connection::open(address));
                    let done = connection.and_then(|mut connection| {
                        poll_on(&mut connection, requests, repository)?;
                        Ok(connection)
                    });
                    match done {
                        Ok(connection) => {
                            own.push(due.elapsed());
                            open.extend(is_at_once.then_some(connection));
                        }
                        Err(_) => *failed.lock().expect("no client panics") += 1,
                    }
                }
                times.lock().expect("no client panics").extend(own);
            });
        }
    });
    let mut times = times.into_inner()?;
    let (answered, p99) = (times.len(), percentile(&mut times, 99.0));
    let (_, most) = server.memory()?;
    println!(
        "| {answered} clients poll within {} s: p99 ms (failed, all s, MiB at most) | {:.0} ({}, {:.2}, {most}) | |",
        arrivals.as_secs(),
        milliseconds(p99),
        failed.into_inner()?,
        began.elapsed().as_secs_f64(),
    );
    Ok(())
}
