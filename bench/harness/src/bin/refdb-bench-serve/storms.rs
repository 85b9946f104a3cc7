//! Storms: many clients that poll after a ref was updated, or ask for all refs, while another client pushes to another
//! repository.

use crate::{
    Options,
    client::{Connection, discovery},
    polls::{self, BRANCH, Poller, Way, percentile, poll_on},
    pushes::{self, Push, Pusher},
    repository::{self, Repository, git},
    rows::milliseconds,
    server::Server,
};
use anyhow::{Result, ensure};
use refdb_bench::place::make_once;
use std::{
    io::{Read, Write},
    net::TcpStream,
    path::Path,
    sync::{
        Barrier, Mutex,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

/// Clients of the storm of lists.
const LISTS: usize = 400;

/// For how long a client pushes to another repository after the lists were asked for.
const LISTS_LAST: Duration = Duration::from_secs(4);

/// Measures a storm in which all polls are due at once, one in which they are due evenly within a second, and one of
/// clients that ask for all refs at once and read nothing meanwhile.
pub(crate) fn measure(options: &Options, root: &Path, repository: &Repository) -> Result<()> {
    let server = Server::start(options, root)?;
    let beside = beside(options, root)?;
    let mut usual = push_until(options, &server, &beside, &|count| count == 100)?;
    println!("| a push to another repository, p50 and p99 ms | {} | |", shown(&mut usual));
    for arrivals in [Duration::ZERO, Duration::from_secs(1)] {
        let is_over = AtomicBool::new(false);
        let mut times = thread::scope(|scope| {
            let pushes = scope.spawn(|| push_until(options, &server, &beside, &|_| is_over.load(Relaxed)));
            let done = storm(options, &server, repository, arrivals);
            is_over.store(true, Relaxed);
            done.and(pushes.join().expect("the pusher panicked"))
        })?;
        println!("| pushes to another repository meanwhile, p50 and p99 ms | {} | |", shown(&mut times));
    }
    let request = discovery(&server.target.address, &repository.name(), "upload-pack", 0);
    let connect = |_| TcpStream::connect(&server.target.address);
    let mut unread = (0..LISTS).map(connect).collect::<Result<Vec<_>, _>>()?;
    unread.iter_mut().try_for_each(|stream| stream.write_all(&request))?;
    let began = Instant::now();
    let times = push_until(options, &server, &beside, &|_| began.elapsed() > LISTS_LAST)?;
    for stream in &mut unread {
        let mut status = [0; 12];
        stream.read_exact(&mut status)?;
        ensure!(status == *b"HTTP/1.1 200", "a list was refused");
    }
    let slowest = times.into_iter().max().unwrap_or_default();
    println!(
        "| {LISTS} clients ask for all refs: slowest push to another repository, ms | {:.0} | |",
        milliseconds(slowest)
    );
    Ok(())
}

fn shown(times: &mut [Duration]) -> String {
    let [half, most] = [50.0, 99.0].map(|percent| milliseconds(percentile(times, percent)));
    format!("{half:.1}, {most:.1} of {}", times.len())
}

/// Returns the repository to which the client pushes, which has one branch.
fn beside(options: &Options, root: &Path) -> Result<Repository> {
    let path = root.join("beside.git");
    make_once(&path, |part| {
        std::fs::create_dir_all(part)?;
        repository::init(options, part, "files")?;
        let commit = repository::commit(options, part)?;
        git(&options.git, part, &["update-ref", "refs/heads/main", &commit], "")?;
        Ok(())
    })?;
    let commit = git(&options.git, &path, &["rev-parse", "refs/heads/main"], "")?;
    Ok(Repository { path, commit })
}

/// Pushes the creation and the deletion of a ref in turn, until the ref is deleted and `is_over` returns `true` for the
/// number of pushes so far. Returns how long each push took.
fn push_until(
    options: &Options,
    server: &Server,
    repository: &Repository,
    is_over: &(dyn Fn(usize) -> bool + Sync),
) -> Result<Vec<Duration>> {
    let pusher = Pusher::new(options, repository, Push::Existing)?;
    let (mut old, mut times) = (pusher.null.clone(), Vec::new());
    while !is_over(times.len()) || old != pusher.null {
        let (new, body) = pusher.request(0, &old)?;
        let began = Instant::now();
        ensure!(pushes::send(options, &server.target, repository, &body)?, "a push was refused");
        times.push(began.elapsed());
        old = new;
    }
    Ok(times)
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
