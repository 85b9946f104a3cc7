//! Runs the server: sockets, connections, signals, reload and shutdown.

mod connection;
mod preface;
mod sockets;
mod status;
mod wakes;

use crate::{
    gate::{Authorizer, Gate},
    http::Server,
    options::Options,
    program::Git,
    push::Pushes,
    record::Records,
    repository::Repositories,
    roots::Roots,
    settings::{Limits, Settings},
    upload::capabilities::Capabilities,
};
use arc_swap::ArcSwap;
use connection::Connections;
use nix::unistd::{Gid, Uid, User, geteuid, initgroups, setgid, setuid};
use prometheus_client::metrics::counter::Counter;
use refdb::{Environment, messages::say};
use refdb_vfs::interrupt;
use rustix::process::{Resource, getrlimit};
use sockets::{Acceptor, Listener};
use std::{
    ffi::CString,
    io,
    sync::{Arc, mpsc},
    time::Duration,
};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

/// Why the server cannot start, or why it has ended before it was told to.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    #[error(transparent)]
    Settings(#[from] crate::settings::SettingsError),
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("the server was started by root: name the user that owns the repositories with --user")]
    IsRoot,
    #[error("there is no user '{0}'")]
    NoUser(String),
    #[error("cannot become the user '{0}': {1}")]
    User(String, nix::Error),
}

pub(crate) use status::show as show_status;

/// Serves until SIGTERM or SIGINT. `messages_lost` counts the lines of messages that are lost.
pub(crate) fn serve(options: &Options, messages_lost: Counter) -> Result<(), StartError> {
    let settings = Settings::read(options)?;
    let mut listeners = sockets::bind(options)?;
    become_user(options.user.as_deref())?;
    sockets::bind_for_shims(options, &mut listeners)?;
    interrupt::catch_faults()?;
    // Pushes are received in threads of the runtime, which get a stack as large as the usual one of a main thread.
    const STACK_BYTES: usize = 8 << 20;
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.enable_all().thread_stack_size(STACK_BYTES).max_blocking_threads(threads(&settings.limits));
    let runtime = runtime.build()?;
    // The runtime panics if it can start no thread for blocking work and has none. If it has one, such work waits.
    let (end, until_end) = mpsc::channel::<()>();
    runtime.spawn_blocking(move || until_end.recv());
    // The loop that accepts connections runs in a worker, which can serve a connection without waking another thread.
    let records = Records::new(messages_lost);
    let running = runtime.spawn(run(options.clone(), settings, listeners, Arc::clone(&records)));
    let ended = runtime.block_on(running).unwrap_or_else(|failed| Err(io::Error::other(failed).into()));
    drop(end);
    // A thread that is blocked by a disk that does not respond must not keep the process alive.
    runtime.shutdown_timeout(Duration::from_secs(1));
    records.close_log(Duration::from_secs(1));
    ended
}

/// Returns how many threads the runtime may start for blocking work: one for each push, and some for work on disks that
/// do not respond. A reload does not change this number.
fn threads(limits: &Limits) -> usize {
    const OTHERS: usize = 416;
    /// Keeps the sum from overflowing.
    const MAX: usize = 1 << 20;
    limits.pushes.min(MAX) + OTHERS
}

/// Switches to the user that owns the repositories, because their hooks run with the rights of the server. Without a
/// name, fails if the process runs as root.
fn become_user(name: Option<&str>) -> Result<(), StartError> {
    let Some(name) = name else {
        return if geteuid().is_root() { Err(StartError::IsRoot) } else { Ok(()) };
    };
    let failed = |error| StartError::User(name.to_owned(), error);
    let user = User::from_name(name).map_err(failed)?.ok_or_else(|| StartError::NoUser(name.to_owned()))?;
    if user.uid == geteuid() {
        return Ok(());
    }
    let login = CString::new(name).map_err(|_| StartError::NoUser(name.to_owned()))?;
    let become_them =
        |gid: Gid, uid: Uid| initgroups(&login, gid).and_then(|()| setgid(gid)).and_then(|()| setuid(uid));
    become_them(user.gid, user.uid).map_err(failed)
}

/// The state that survives a reload of the settings.
struct Kept {
    repositories: Arc<Repositories>,
    capabilities: Arc<Capabilities>,
    records: Arc<Records>,
    pushes: Pushes,
}

impl Kept {
    /// Returns a server with these settings, under whose limits the requests that the server `before` has admitted
    /// count as well. Changes nothing if it fails.
    fn server(&self, settings: Settings, before: Option<&Server>) -> io::Result<Server> {
        let authorizer = settings.authorize.clone().map(|path| Authorizer::new(path, settings.authorize_timeout));
        let roots = Roots::new(&settings)?;
        self.records.open_log(settings.access_log.as_deref())?;
        Ok(Server {
            roots,
            gate: match before {
                None => Gate::new(settings.limits.clone()),
                Some(before) => before.gate.with_limits(settings.limits.clone()),
            },
            authorizer,
            git: Git::new(settings.git.clone(), self.pushes.clone()),
            repositories: Arc::clone(&self.repositories),
            capabilities: Arc::clone(&self.capabilities),
            records: Arc::clone(&self.records),
            settings,
        })
    }
}

async fn run(
    options: Options,
    settings: Settings,
    listeners: Vec<Listener>,
    records: Arc<Records>,
) -> Result<(), StartError> {
    let (limits, metrics) = (settings.limits.clone(), settings.metrics);
    let kept = Arc::new(Kept {
        repositories: Arc::new(Repositories::new(&limits, Environment::without_git(std::env::current_dir()?))),
        capabilities: Arc::default(),
        records,
        pushes: Pushes::new(tokio::runtime::Handle::current()),
    });
    let server = Arc::new(ArcSwap::from_pointee(kept.server(settings, None)?));
    let mut acceptor = Acceptor::new(listeners)?;
    let status = metrics.map(|address| status::listen(address, Arc::clone(&server))).transpose()?;
    let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let reloads = reload_on(signal(SignalKind::hangup())?, Arc::new(options), Arc::clone(&kept), Arc::clone(&server));
    let reloads = tokio::spawn(reloads);
    let connections = Connections::new(Arc::clone(&server));
    let permits = Arc::new(Semaphore::new(connections_max(&limits).min(Semaphore::MAX_PERMITS)));
    loop {
        tokio::select! {
            _ = term.recv() => break,
            _ = int.recv() => break,
            Some((stream, permit)) = next(&mut acceptor, &permits, &kept.records) => connections.attend(stream, permit),
        }
    }
    drop(acceptor);
    reloads.abort();
    let all_have_ended = async {
        connections.drain().await;
        // Pushes go on without a connection once their clients have disconnected.
        kept.pushes.ended().await;
    };
    if timeout(limits.drain, all_have_ended).await.is_err() {
        say("warning: ", b"requests or maintenance went on after serve.drainSeconds and were not waited for");
        kept.pushes.stop().await;
    }
    drop(status);
    drop_within(limits.drain, (kept, server)).await;
    Ok(())
}

/// Drops a value in another thread, and goes on after `limit` even if that takes longer. The last owner of the views
/// waits for the thread that packs loose refs, and thus for a disk that may not respond.
async fn drop_within(limit: Duration, value: impl Send + 'static) {
    let dropped = tokio::task::spawn_blocking(move || drop(value));
    if timeout(limit, dropped).await.is_err() {
        say("warning: ", b"the packing of loose refs went on after serve.drainSeconds and was not waited for");
    }
}

/// Returns how many connections may be open: `serve.maxConnections`, or fewer if the process may not open so many files
/// besides those that requests need, because a request on an open connection would otherwise fail for lack of a
/// descriptor. At least half of the limit on open files is left for connections.
fn connections_max(limits: &Limits) -> usize {
    /// Files of one fetch or push: its pipes, and what a push opens itself.
    const FILES_EACH: usize = 8;
    /// Files besides: listening sockets, the log, and files that lists read.
    const OTHERS: usize = 64;
    let files_max = getrlimit(Resource::Nofile).current.and_then(|files| usize::try_from(files).ok());
    let Some(files_max) = files_max else { return limits.connections };
    let needed = FILES_EACH
        .saturating_mul(limits.fetches.saturating_add(limits.pushes))
        .saturating_add(limits.open_files)
        .saturating_add(OTHERS);
    let left = files_max.saturating_sub(needed).max(files_max / 2);
    if left < limits.connections {
        let text =
            format!("at most {left} connections are open at a time, because the limit on open files is {files_max}");
        say("warning: ", text.as_bytes());
    }
    left.min(limits.connections)
}

/// Waits until another connection may be open (see [`connections_max`]), and then for that connection. A shim, which
/// passes on the two descriptors of its client, counts three times; if there is no room for these, its connection is
/// closed, so that it runs git, and counted as one that had no room.
async fn next(
    acceptor: &mut Acceptor,
    permits: &Arc<Semaphore>,
    records: &Records,
) -> Option<(sockets::Stream, OwnedSemaphorePermit)> {
    loop {
        let mut permit = Arc::clone(permits).acquire_owned().await.ok()?;
        let stream = acceptor.next().await;
        if let sockets::Stream::Shim(_) = stream {
            let Ok(others) = Arc::clone(permits).try_acquire_many_owned(2) else {
                records.shim("no room");
                continue;
            };
            permit.merge(others);
        }
        return Some((stream, permit));
    }
}

/// Reloads the settings when a signal comes, in a thread of its own, because a root may be on a network that hangs.
/// Signals that come during a reload lead to one more.
async fn reload_on(mut hup: Signal, options: Arc<Options>, kept: Arc<Kept>, server: Arc<ArcSwap<Server>>) {
    while hup.recv().await.is_some() {
        let (options, kept, server) = (Arc::clone(&options), Arc::clone(&kept), Arc::clone(&server));
        // A reload that panics leaves the old settings in use.
        let _ = tokio::task::spawn_blocking(move || reload(&options, &kept, &server)).await;
    }
}

/// Reads the settings and opens the access log again. The sockets, and the limits on connections, memory, open files,
/// open repositories and the time for draining, stay as they were at start. If the new settings cannot be used, the old
/// ones and the open log stay in use.
fn reload(options: &Options, kept: &Kept, server: &ArcSwap<Server>) {
    let read = Settings::read(options).map_err(io::Error::other);
    match read.and_then(|settings| kept.server(settings, Some(&server.load()))) {
        Ok(new) => {
            kept.repositories.forget();
            kept.capabilities.forget();
            server.store(Arc::new(new));
        }
        Err(error) => say("error: ", format!("the new settings are not used: {error}").as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{sync::mpsc::Receiver, time::Instant};

    /// Previously, such a shim appeared nowhere.
    #[tokio::test]
    async fn a_shim_for_whose_descriptors_there_is_no_room_is_counted() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let shims = Listener::Shims(std::os::unix::net::UnixListener::bind(&path).unwrap());
        let (mut acceptor, records) = (Acceptor::new(vec![shims]).unwrap(), Records::new(Counter::default()));
        let shim = std::os::unix::net::UnixStream::connect(&path).unwrap();
        let permits = Arc::new(Semaphore::new(2));
        let accepting = next(&mut acceptor, &permits, &records);
        assert!(timeout(Duration::from_millis(200), accepting).await.is_err(), "its connection is closed");
        assert!(records.text().contains("shims_total{result=\"no room\"} 1"), "{}", records.text());
        drop(shim);
    }

    /// Previously, the server never ended if the last packing waited for a disk that did not respond.
    #[test]
    fn what_waits_without_end_when_it_is_dropped_keeps_nobody() {
        struct Stuck(Receiver<()>);
        impl Drop for Stuck {
            fn drop(&mut self) {
                let _ = self.0.recv();
            }
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let (goes_on, stuck) = mpsc::channel();
        let began = Instant::now();
        runtime.block_on(drop_within(Duration::from_millis(50), Stuck(stuck)));
        assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
        drop(goes_on);
    }
}
