//! The lines of the table.

use crate::{
    Options,
    client::{Connection, discovery, ls_refs, post},
    cpu,
    http_backend::{self, Request},
    lists, pushes,
    repository::{Repository, git},
    server::Server,
};
use anyhow::{Context, Result, ensure};
use std::{
    sync::{Barrier, Mutex},
    thread,
    time::{Duration, Instant},
};

/// Connections over which polls come at the same time.
const CONNECTIONS: usize = 4;

/// Measures and prints the groups of lines that `--only` names, or all, for a repository.
pub(crate) fn measure(options: &Options, repository: &Repository) -> Result<()> {
    let root = repository.path.parent().context("a repository is in a folder")?;
    let wants = |name: &str| options.only.is_empty() || options.only.iter().any(|word| name.contains(&word[..]));
    println!("| | refdb serve | git http-backend |\n|-|-|-|");
    if wants("poll") {
        let server = Server::start(options, root)?;
        let first = poll(&server, repository)?;
        println!("| first poll after start, ms | {:.2} | |", milliseconds(first));
        let git = git_polls(options, repository)?;
        for (name, is_kept) in [("kept connection", true), ("new connections", false)] {
            let (rate, p99) = polls(options, &server, repository, is_kept)?;
            println!(
                "| polls per second of server CPU, {name} | {rate:.0} (p99 {:.2} ms) | {git:.0} |",
                milliseconds(p99)
            );
        }
        let p99 = paced(options, &server, repository, 2000)?;
        println!("| p99 of a poll at 2,000 a second, ms | {:.2} | |", milliseconds(p99));
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

/// The two requests of a poll.
pub(crate) fn poll_requests(host: &str, repository: &Repository) -> [Vec<u8>; 2] {
    let name = repository.name();
    [discovery(host, &name, "upload-pack", 2), post(host, &name, "upload-pack", 2, &ls_refs("main"))]
}

fn poll(server: &Server, repository: &Repository) -> Result<Duration> {
    let began = Instant::now();
    let mut connection = Connection::open(&server.address)?;
    poll_on(&mut connection, &poll_requests(&server.address, repository), repository)?;
    Ok(began.elapsed())
}

pub(crate) fn poll_on(connection: &mut Connection, requests: &[Vec<u8>; 2], repository: &Repository) -> Result<()> {
    let answer = connection.send(&requests[0], |_| {})?;
    ensure!(answer.status == 200, "discovery is answered with {}", answer.status);
    let mut text = Vec::new();
    let answer = connection.send(&requests[1], |piece| text.extend_from_slice(piece))?;
    let line = format!("{} refs/heads/main\n", repository.commit);
    ensure!(answer.status == 200 && String::from_utf8_lossy(&text).contains(&line), "the branch is not listed");
    Ok(())
}

/// Returns polls per second of server CPU, and the 99th percentile of their times.
fn polls(options: &Options, server: &Server, repository: &Repository, is_kept: bool) -> Result<(f64, Duration)> {
    let requests = poll_requests(&server.address, repository);
    let until = Instant::now() + Duration::from_secs(options.seconds);
    let before = server.cpu()?;
    let times = thread::scope(|scope| {
        let threads: Vec<_> = (0..CONNECTIONS)
            .map(|_| {
                scope.spawn(|| -> Result<Vec<Duration>> {
                    let mut connection = Connection::open(&server.address)?;
                    let mut times = Vec::new();
                    while Instant::now() < until {
                        let began = Instant::now();
                        if !is_kept {
                            connection = Connection::open(&server.address)?;
                        }
                        poll_on(&mut connection, &requests, repository)?;
                        times.push(began.elapsed());
                    }
                    Ok(times)
                })
            })
            .collect();
        let done = threads.into_iter().map(|thread| thread.join().expect("a client panicked"));
        done.collect::<Result<Vec<_>>>()
    })?;
    let taken = server.cpu()? - before;
    let mut times: Vec<Duration> = times.into_iter().flatten().collect();
    Ok((times.len() as f64 / taken.as_secs_f64(), percentile(&mut times, 99.0)))
}

pub(crate) fn percentile(times: &mut [Duration], percent: f64) -> Duration {
    times.sort_unstable();
    let at = (times.len() as f64 * percent / 100.0) as usize;
    times.get(at.min(times.len().saturating_sub(1))).copied().unwrap_or_default()
}

/// Sends `rate` polls a second, and returns the 99th percentile of their times, from the moment at which each was due.
fn paced(options: &Options, server: &Server, repository: &Repository, rate: u32) -> Result<Duration> {
    let requests = poll_requests(&server.address, repository);
    let interval = Duration::from_secs(1) * CONNECTIONS as u32 / rate;
    let until = Instant::now() + Duration::from_secs(options.seconds);
    let times = Mutex::new(Vec::new());
    thread::scope(|scope| {
        let client = || -> Result<()> {
            let mut connection = Connection::open(&server.address)?;
            let (mut due, mut own) = (Instant::now(), Vec::new());
            while due < until {
                thread::sleep(due.saturating_duration_since(Instant::now()));
                poll_on(&mut connection, &requests, repository)?;
                own.push(due.elapsed());
                due += interval;
            }
            times.lock().expect("no client panics").extend(own);
            Ok(())
        };
        let threads: Vec<_> = (0..CONNECTIONS).map(|_| scope.spawn(client)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("a client panicked"))
    })?;
    let mut times = times.into_inner()?;
    Ok(percentile(&mut times, 99.0))
}

/// Returns git's polls per second of CPU, without that of a web server.
fn git_polls(options: &Options, repository: &Repository) -> Result<f64> {
    const POLLS: u32 = 200;
    let before = cpu::of_children()?;
    let body = ls_refs("main");
    let discovery = Request { path: "info/refs", query: "service=git-upload-pack", version: 2, body: b"" };
    let list = Request { path: "git-upload-pack", query: "", version: 2, body: &body };
    for _ in 0..POLLS {
        http_backend::run(options, repository, &discovery)?;
        http_backend::run(options, repository, &list)?;
    }
    Ok(f64::from(POLLS) / (cpu::of_children()? - before).as_secs_f64())
}

/// Many clients poll, each over a connection of its own, after a ref was updated. The polls are due all at once, over
/// connections that are open already, or evenly within the time `arrivals`, over new ones. Each of 64 threads sends its
/// share one after the other. A poll's time begins when it is due.
fn storm(options: &Options, server: &Server, repository: &Repository, arrivals: Duration) -> Result<()> {
    const THREADS: usize = 64;
    let requests = poll_requests(&server.address, repository);
    poll(server, repository)?;
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
                let connect = |_| is_at_once.then(|| Connection::open(&server.address));
                let connections: Vec<_> = (0..clients).map(connect).collect();
                barrier.wait();
                let (began, mut own, mut open) = (Instant::now(), Vec::new(), Vec::new());
                for (at, connection) in connections.into_iter().enumerate() {
                    let due = began + arrivals.mul_f64((at * THREADS + thread) as f64 / options.clients as f64);
                    thread::sleep(due.saturating_duration_since(Instant::now()));
                    let connection = connection.unwrap_or_else(|| Connection::open(&server.address));
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
