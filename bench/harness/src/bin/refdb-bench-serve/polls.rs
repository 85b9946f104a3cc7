//! Clients that poll one branch.

use crate::{
    Options,
    client::{Connection, discovery, ls_refs, post},
    daemon,
    repository::Repository,
    server::Target,
};
use anyhow::{Result, ensure};
use std::{
    thread,
    time::{Duration, Instant},
};

/// Clients that poll at the same time, each in a thread of its own.
const CONNECTIONS: usize = 4;

/// How a client reaches the server.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Way {
    /// Over one HTTP connection that stays open.
    Kept,
    /// Over a new HTTP connection for each poll.
    New,
    /// Over a new connection to `git daemon` for each poll.
    Daemon,
}

/// A client that asks for one branch again and again.
pub(crate) struct Poller<'p> {
    target: &'p Target,
    repository: String,
    way: Way,
    /// The HTTP requests of a poll.
    requests: [Vec<u8>; 2],
    /// The request to `git daemon`.
    list: Vec<u8>,
    connection: Option<Connection>,
}

impl<'p> Poller<'p> {
    /// Prepares to ask for `refs/heads/BRANCH`. A connection that is kept is opened with the first poll.
    pub(crate) fn new(target: &'p Target, repository: &Repository, branch: &str, way: Way) -> Self {
        let requests = requests(&target.address, repository, branch);
        Poller { target, repository: repository.name(), way, requests, list: ls_refs(branch), connection: None }
    }

    /// Asks for the capabilities and for the branch, and returns the answer to the second request.
    pub(crate) fn poll(&mut self) -> Result<String> {
        let mut text = Vec::new();
        if self.way == Way::Daemon {
            daemon::ask(&self.target.address, &self.repository, &self.list, |line| text.extend_from_slice(line))?;
        } else {
            let connection = match self.connection.take() {
                Some(connection) if self.way == Way::Kept => connection,
                _ => Connection::open(&self.target.address)?,
            };
            ask(self.connection.insert(connection), &self.requests, &mut text)?;
        }
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
}

/// The branch that nearly all polls ask for.
pub(crate) const BRANCH: &str = "main";

/// The two HTTP requests of a poll.
pub(crate) fn requests(host: &str, repository: &Repository, branch: &str) -> [Vec<u8>; 2] {
    let name = repository.name();
    [discovery(host, &name, "upload-pack", 2), post(host, &name, "upload-pack", 2, &ls_refs(branch))]
}

/// Sends the requests of a poll, and appends the answer to the second one to `text`.
fn ask(connection: &mut Connection, requests: &[Vec<u8>; 2], text: &mut Vec<u8>) -> Result<()> {
    let answer = connection.send(&requests[0], |_| {})?;
    ensure!(answer.status == 200, "discovery is answered with {}", answer.status);
    let answer = connection.send(&requests[1], |piece| text.extend_from_slice(piece))?;
    ensure!(answer.status == 200, "ls-refs is answered with {}", answer.status);
    Ok(())
}

/// Polls once over an open connection, and checks that the branch is where it was at the start.
pub(crate) fn poll_on(connection: &mut Connection, requests: &[Vec<u8>; 2], repository: &Repository) -> Result<()> {
    let mut text = Vec::new();
    ask(connection, requests, &mut text)?;
    check(&String::from_utf8_lossy(&text), repository)
}

fn check(text: &str, repository: &Repository) -> Result<()> {
    ensure!(text.contains(&format!("{} refs/heads/{BRANCH}\n", repository.commit)), "the branch is not listed");
    Ok(())
}

/// Polls that were made for some time.
pub(crate) struct Polls {
    pub(crate) count: usize,
    /// The processor time that the server took for them.
    cpu: Duration,
    /// The 99th percentile of their times.
    pub(crate) p99: Duration,
}

impl Polls {
    /// Returns how many polls a second of the server's processor time makes.
    pub(crate) fn a_second(&self) -> f64 {
        self.count as f64 / self.cpu.as_secs_f64()
    }
}

/// Polls for the time that the options say, over several connections.
pub(crate) fn rate(options: &Options, target: &Target, repository: &Repository, way: Way) -> Result<Polls> {
    let until = Instant::now() + Duration::from_secs(options.seconds);
    let before = target.usage.cpu()?;
    let mut times = at_once(&|_| {
        let mut poller = Poller::new(target, repository, BRANCH, way);
        let mut times = Vec::new();
        while Instant::now() < until {
            let began = Instant::now();
            check(&poller.poll()?, repository)?;
            times.push(began.elapsed());
        }
        Ok(times)
    })?;
    let cpu = target.usage.cpu()? - before;
    Ok(Polls { count: times.len(), cpu, p99: percentile(&mut times, 99.0) })
}

/// Sends `rate` polls a second, and returns the 99th percentile of their times, from the moment at which each was due.
pub(crate) fn paced(options: &Options, target: &Target, repository: &Repository, rate: u32) -> Result<Duration> {
    let interval = Duration::from_secs(1) * CONNECTIONS as u32 / rate;
    let until = Instant::now() + Duration::from_secs(options.seconds);
    let mut times = at_once(&|_| {
        let mut poller = Poller::new(target, repository, BRANCH, Way::Kept);
        let (mut due, mut times) = (Instant::now(), Vec::new());
        while due < until {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            check(&poller.poll()?, repository)?;
            times.push(due.elapsed());
            due += interval;
        }
        Ok(times)
    })?;
    Ok(percentile(&mut times, 99.0))
}

/// Runs [`CONNECTIONS`] clients, each with its number in a thread of its own, and returns what all of them measured.
pub(crate) fn at_once<T: Send>(client: &(dyn Fn(usize) -> Result<Vec<T>> + Sync)) -> Result<Vec<T>> {
    thread::scope(|scope| {
        let threads: Vec<_> = (0..CONNECTIONS).map(|number| scope.spawn(move || client(number))).collect();
        let joined = threads.into_iter().map(|thread| thread.join().expect("a client panicked"));
        Ok(joined.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
    })
}

pub(crate) fn percentile(times: &mut [Duration], percent: f64) -> Duration {
    times.sort_unstable();
    let at = (times.len() as f64 * percent / 100.0) as usize;
    times.get(at.min(times.len().saturating_sub(1))).copied().unwrap_or_default()
}
