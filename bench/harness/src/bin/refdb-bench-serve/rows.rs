//! The lines of the table.

use crate::{
    Options,
    client::ls_refs,
    http_backend::{self, Request},
    lists,
    polls::{self, BRANCH, Poller, Way},
    pushes,
    repository::Repository,
    server::Server,
    shims, storms, updates, usage,
};
use anyhow::{Context, Result};
use std::time::{Duration, Instant};

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
    if wants("ssh") {
        shims::measure(options, root, repository)?;
    }
    if wants("storm") {
        storms::measure(options, root, repository)?;
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
