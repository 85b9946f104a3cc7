//! Many clients that push at the same time.

use crate::{
    Options,
    client::{Connection, packet, post},
    commits,
    http_backend::{self, Request},
    polls::percentile,
    repository::{Repository, git, git_patiently},
    rows::milliseconds,
    server::{Server, Target},
};
use anyhow::{Context, Result};
use std::{
    fmt::Write,
    sync::Mutex,
    thread,
    time::{Duration, Instant},
};

/// Clients that push at the same time, each to a ref of its own.
const PUSHERS: usize = 64;

/// What each push does.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Push {
    /// Creates the ref at a commit that the repository has, or deletes it.
    Existing,
    /// Moves the ref to a commit that only the client has, whose parent is the one before.
    New,
}

/// What came of all pushes.
pub(crate) struct Outcome {
    pub(crate) a_second: f64,
    pub(crate) refused: usize,
    pub(crate) p99: Duration,
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.0} ({}, {:.0})", self.a_second, self.refused, milliseconds(self.p99))
    }
}

/// Measures pushes to `refdb serve` and to git.
pub(crate) fn measure(options: &Options, repository: &Repository) -> Result<()> {
    let server = Server::start(options, repository.path.parent().context("no root")?)?;
    for push in [Push::Existing, Push::New] {
        let ours = over_http(options, &server.target, repository, push)?;
        let gits = race(options, repository, push, &|body| {
            let request = Request { path: "git-receive-pack", query: "", version: 0, body };
            let answer = http_backend::run(options, repository, &request)?;
            Ok(String::from_utf8_lossy(&answer).contains("ok refs/"))
        })?;
        let what = if push == Push::New { "a new commit each" } else { "one ref" };
        println!("| {PUSHERS} clients push {what}, a second (refused, p99 ms) | {ours} | {gits} |");
    }
    Ok(())
}

/// Measures pushes over HTTP, each over a new connection.
pub(crate) fn over_http(options: &Options, target: &Target, repository: &Repository, push: Push) -> Result<Outcome> {
    race(options, repository, push, &|body| send(options, target, repository, body))
}

/// Sends one push over a new connection, and returns whether it was accepted.
pub(crate) fn send(options: &Options, target: &Target, repository: &Repository, body: &[u8]) -> Result<bool> {
    let mut connection = Connection::open(&target.address)?;
    let mut text = Vec::new();
    let mut request = post(&target.address, &repository.name(), "receive-pack", 0, body);
    if let Some(header) = &options.push_header {
        let first = request.windows(2).position(|two| two == b"\r\n").context("a request has lines")? + 2;
        request.splice(first..first, format!("{header}\r\n").into_bytes());
    }
    connection.send(&request, |piece| text.extend_from_slice(piece))?;
    Ok(String::from_utf8_lossy(&text).contains("ok refs/"))
}

/// Lets all clients push for the time that the options say, with `send`, which returns whether a push was accepted.
fn race(
    options: &Options,
    repository: &Repository,
    push: Push,
    send: &(dyn Fn(&[u8]) -> Result<bool> + Sync),
) -> Result<Outcome> {
    remove_refs(options, repository)?;
    let pusher = Pusher::new(options, repository, push)?;
    let (times, refused) = (Mutex::new(Vec::new()), Mutex::new(0));
    let began = Instant::now();
    let until = began + Duration::from_secs(options.seconds);
    thread::scope(|scope| {
        let threads: Vec<_> = (0..PUSHERS)
            .map(|number| {
                let (times, refused, pusher) = (&times, &refused, &pusher);
                scope.spawn(move || -> Result<()> {
                    let mut old = pusher.null.clone();
                    let mut is_sure = true;
                    while Instant::now() < until {
                        let (new, body) = pusher.request(number, &old)?;
                        let began = Instant::now();
                        let answer = send(&body);
                        if matches!(answer, Ok(true)) {
                            times.lock().expect("no client panics").push(began.elapsed());
                            (old, is_sure) = (new, true);
                            continue;
                        }
                        *refused.lock().expect("no client panics") += 1;
                        is_sure &= answer.is_ok();
                        if !is_sure {
                            // A push that was not answered in time may have been accepted, or be so later.
                            old = pusher.present(options, repository, number)?;
                        }
                    }
                    Ok(())
                })
            })
            .collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("a client panicked"))
    })?;
    // The last pushes may take longer than the time allows.
    let took = began.elapsed();
    remove_refs(options, repository)?;
    let mut times = times.into_inner()?;
    let a_second = times.len() as f64 / took.as_secs_f64();
    Ok(Outcome { a_second, refused: refused.into_inner()?, p99: percentile(&mut times, 99.0) })
}

/// Removes the refs of all clients.
fn remove_refs(options: &Options, repository: &Repository) -> Result<()> {
    let mut commands = String::new();
    for number in 0..PUSHERS {
        writeln!(commands, "delete refs/heads/p{number}")?;
    }
    // Pushes that their clients gave up may still run, and hold locks.
    git_patiently(&options.git, &repository.path, &["update-ref", "--stdin"], &commands)?;
    Ok(())
}

/// Makes the requests of all clients.
pub(crate) struct Pusher<'r> {
    push: Push,
    commit: &'r str,
    pub(crate) null: String,
    tree: String,
    /// Keeps objects of an earlier race from being those of this one.
    race: u128,
}

impl<'r> Pusher<'r> {
    pub(crate) fn new(options: &Options, repository: &'r Repository, push: Push) -> Result<Self> {
        Ok(Pusher {
            push,
            commit: &repository.commit,
            null: "0".repeat(repository.commit.len()),
            tree: git(&options.git, &repository.path, &["mktree"], "")?,
            race: std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_nanos(),
        })
    }

    /// Returns the value that the ref of a client has.
    fn present(&self, options: &Options, repository: &Repository, number: usize) -> Result<String> {
        let words = ["for-each-ref", "--format=%(objectname)", &format!("refs/heads/p{number}")];
        let value = git(&options.git, &repository.path, &words, "")?;
        Ok(if value.is_empty() { self.null.clone() } else { value })
    }

    /// Returns the value to which a client moves its ref from `old`, and the body of the request.
    pub(crate) fn request(&self, number: usize, old: &str) -> Result<(String, Vec<u8>)> {
        let mut commits = Vec::new();
        let new = match self.push {
            Push::Existing if old == self.null => self.commit.to_owned(),
            Push::Existing => self.null.clone(),
            Push::New => {
                let parent = if old == self.null { self.commit } else { old };
                let (id, content) = commits::commit(&self.tree, parent, &format!("{number} {}", self.race))?;
                commits.push(content);
                id
            }
        };
        let mut body = Vec::new();
        let abilities = "report-status object-format=sha1 agent=bench";
        packet(&format!("{old} {new} refs/heads/p{number}\0{abilities}"), &mut body);
        body.extend_from_slice(b"0000");
        if new != self.null {
            body.extend(commits::pack(&commits)?);
        }
        Ok((new, body))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on shall panic")]
mod tests {
    use super::*;
    use crate::repository;
    use clap::Parser;
    use refdb_testkit::Git;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Previously, all later pushes of such a client were refused.
    #[test]
    fn a_client_that_got_no_answer_pushes_from_the_value_that_the_ref_has() {
        let folder = tempfile::tempdir().unwrap();
        let program = Git::find().program().to_owned();
        let git_option = program.to_str().unwrap();
        let words = ["bench", "--serve", "/", "--git", git_option, "--folder", "/", "--seconds", "2"];
        let options = Options::parse_from(words);
        repository::init(&options, folder.path(), "files").unwrap();
        let commit = repository::commit(&options, folder.path()).unwrap();
        let repository = Repository { path: folder.path().to_owned(), commit };
        let sent = AtomicUsize::new(0);
        let outcome = race(&options, &repository, Push::Existing, &|body| {
            let line = String::from_utf8_lossy(&body[4..]);
            let words: Vec<_> = line.split(['\0', ' ']).take(3).collect();
            let is_done =
                git_patiently(&options.git, &repository.path, &["update-ref", words[2], words[1], words[0]], "")
                    .is_ok();
            if sent.fetch_add(1, Ordering::Relaxed) < PUSHERS { Err(anyhow::anyhow!("no answer")) } else { Ok(is_done) }
        })
        .unwrap();
        assert_eq!(outcome.refused, PUSHERS);
        assert!(outcome.a_second > 0.0);
    }
}
