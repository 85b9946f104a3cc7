//! Many clients that push at the same time.

use crate::{
    Options,
    client::{Connection, packet, post},
    http_backend::{self, Request},
    repository::Repository,
    rows::{milliseconds, percentile},
    server::Server,
};
use anyhow::{Context, Result};
use std::{
    sync::Mutex,
    thread,
    time::{Duration, Instant},
};

/// Clients that push at the same time.
const PUSHERS: usize = 64;

/// Measures many clients, each of which creates and deletes one ref again and again at a commit that the repository
/// has.
pub(crate) fn measure(options: &Options, repository: &Repository) -> Result<()> {
    let root = repository.path.parent().context("no root")?;
    let name = repository.name();
    let null = "0".repeat(repository.commit.len());
    let body = |name: &str, old: &str, new: &str| {
        let mut body = Vec::new();
        packet(&format!("{old} {new} {name}\0report-status object-format=sha1 agent=bench"), &mut body);
        body.extend_from_slice(b"0000");
        if new != null {
            // A pack without objects.
            body.extend_from_slice(b"PACK\0\0\0\x02\0\0\0\0");
            body.extend_from_slice(&[
                0x02, 0x9d, 0x08, 0x82, 0x3b, 0xd8, 0xa8, 0xea, 0xb5, 0x10, 0xad, 0x6a, 0xc7, 0x5c, 0x82, 0x3c, 0xfd,
                0x3e, 0xd3, 0x1e,
            ]);
        }
        body
    };
    let server = Server::start(options, root)?;
    let race = |send: &(dyn Fn(&[u8]) -> Result<bool> + Sync)| -> Result<(usize, usize, Duration)> {
        let until = Instant::now() + Duration::from_secs(options.seconds);
        let (times, refused) = (Mutex::new(Vec::new()), Mutex::new(0));
        thread::scope(|scope| {
            let threads: Vec<_> = (0..PUSHERS)
                .map(|pusher| {
                    let (times, refused, body, null, name) =
                        (&times, &refused, &body, &null, format!("refs/heads/p{pusher}"));
                    scope.spawn(move || -> Result<()> {
                        let (mut old, mut new) = (null.clone(), repository.commit.clone());
                        while Instant::now() < until || new == *null {
                            let began = Instant::now();
                            if send(&body(&name, &old, &new))? {
                                times.lock().expect("no client panics").push(began.elapsed());
                                std::mem::swap(&mut old, &mut new);
                            } else {
                                *refused.lock().expect("no client panics") += 1;
                            }
                        }
                        Ok(())
                    })
                })
                .collect();
            threads.into_iter().try_for_each(|thread| thread.join().expect("a client panicked"))
        })?;
        let mut times = times.into_inner()?;
        Ok((times.len(), refused.into_inner()?, percentile(&mut times, 99.0)))
    };
    let ours = race(&|body| {
        let mut connection = Connection::open(&server.address)?;
        let mut text = Vec::new();
        let request = post(&server.address, &name, "receive-pack", 0, body);
        connection.send(&request, |piece| text.extend_from_slice(piece))?;
        Ok(String::from_utf8_lossy(&text).contains("ok refs/"))
    })?;
    let gits = race(&|body| {
        let request = Request { path: "git-receive-pack", query: "", version: 0, body };
        let answer = http_backend::run(options, repository, &request)?;
        Ok(String::from_utf8_lossy(&answer).contains("ok refs/"))
    })?;
    let rate = |done: usize| done as f64 / options.seconds as f64;
    println!(
        "| {PUSHERS} clients push one ref, a second (refused, p99 ms) | {:.0} ({}, {:.0}) | {:.0} ({}, {:.0}) |",
        rate(ours.0),
        ours.1,
        milliseconds(ours.2),
        rate(gits.0),
        gits.1,
        milliseconds(gits.2),
    );
    Ok(())
}
