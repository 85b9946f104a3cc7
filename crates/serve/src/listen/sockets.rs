//! The sockets on which the server listens: those that systemd passed, and those of the command line. The command
//! line's sockets for HTTP are bound only if systemd passed none for HTTP, and the socket for shims that `--socket`
//! names only if systemd did not pass that one.

use crate::{http::Peer, options::Options};
use listenfd::ListenFd;
use refdb::messages::say;
use std::{
    fs::File,
    future::poll_fn,
    io::{self, Write},
    net::{SocketAddr, TcpListener},
    os::unix::{
        fs::{FileTypeExt, MetadataExt},
        net::{UnixListener, UnixStream},
    },
    path::Path,
    task::{Context, Poll},
    time::{Duration, Instant},
};

/// A bound socket.
#[derive(Debug)]
pub(super) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
    /// The socket for shims.
    Shims(UnixListener),
}

/// An accepted connection.
#[derive(Debug)]
pub(super) enum Stream {
    Tcp(tokio::net::TcpStream, SocketAddr),
    Unix(tokio::net::UnixStream),
    /// A connection of a shim, which has a protocol of its own; see [`crate::shim`].
    Shim(tokio::net::UnixStream),
}

/// Returns the peer of a TCP connection.
pub(super) fn client_at(address: SocketAddr) -> Peer {
    Peer { address: address.ip().to_canonical().to_string(), is_proxy: false }
}

/// Returns the peer of a connection to the Unix socket for HTTP. This peer is trusted as a proxy, because the
/// administrator decides by the permissions of the socket who can connect.
pub(super) fn proxy() -> Peer {
    Peer { address: String::new(), is_proxy: true }
}

/// Maximum number of connections that wait to be accepted. A lower `net.core.somaxconn` of the kernel takes precedence.
const BACKLOG: i32 = 16_384;

/// Binds the sockets for HTTP and prints the addresses of these and of the sockets that systemd has passed. If systemd
/// has passed sockets for HTTP, those are used instead of the ones of the command line.
pub(super) fn bind(options: &Options) -> io::Result<Vec<Listener>> {
    let mut listeners = passed(options)?;
    add_for_http(options, &mut listeners)?;
    for listener in &listeners {
        // With the standard library's backlog of 128 for TCP, many clients that connect at once would have to try again
        // after a second.
        match listener {
            Listener::Tcp(socket) => rustix::net::listen(socket, BACKLOG)?,
            Listener::Unix(socket) | Listener::Shims(socket) => rustix::net::listen(socket, BACKLOG)?,
        }
    }
    let mut out = io::stdout().lock();
    for listener in &listeners {
        match listener {
            Listener::Tcp(socket) => writeln!(out, "listening on http://{}/", socket.local_addr()?)?,
            Listener::Unix(socket) | Listener::Shims(socket) => match socket.local_addr()?.as_pathname() {
                Some(path) => writeln!(out, "listening on {}", path.display())?,
                None => writeln!(out, "listening on a socket without a name")?,
            },
        }
    }
    out.flush()?;
    Ok(listeners)
}

/// Binds the command line's sockets for HTTP, unless one of `listeners`, which systemd has passed, serves HTTP.
fn add_for_http(options: &Options, listeners: &mut Vec<Listener>) -> io::Result<()> {
    if listeners.iter().any(|listener| !matches!(listener, Listener::Shims(_))) {
        return Ok(());
    }
    if let Some(address) = options.http {
        let socket = TcpListener::bind(address).map_err(|error| cannot_listen(&address.to_string(), &error))?;
        listeners.push(Listener::Tcp(socket));
    }
    if let Some(path) = &options.http_socket {
        listeners.push(Listener::Unix(bind_unix(path)?));
    }
    Ok(())
}

/// Binds the socket for shims. Must be called after the server has switched to its user, who must own the socket's
/// folder. If systemd has passed that socket, only the folder is checked.
pub(super) fn bind_for_shims(options: &Options, listeners: &mut Vec<Listener>) -> io::Result<()> {
    let Some(path) = &options.socket else { return Ok(()) };
    check_folder(path)?;
    if listeners.iter().any(|listener| matches!(listener, Listener::Shims(_))) {
        return Ok(());
    }
    let socket = bind_unix(path)?;
    rustix::net::listen(&socket, BACKLOG)?;
    writeln!(io::stdout().lock(), "listening on {} for upload-pack", path.display())?;
    listeners.push(Listener::Shims(socket));
    Ok(())
}

/// Fails unless the folder of this path belongs to the server's user and gives others no rights, so that no other user
/// but root can reach a socket in it or put another one there.
fn check_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let found = std::fs::metadata(folder)
        .map_err(|error| io::Error::new(error.kind(), format!("cannot look at {}: {error}", folder.display())))?;
    if found.uid() == rustix::process::geteuid().as_raw() && found.mode() & 0o077 == 0 {
        return Ok(());
    }
    let text = format!("the folder {} must belong to the server's user and have the mode 0700", folder.display());
    Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
}

/// Returns the sockets that systemd has passed.
fn passed(options: &Options) -> io::Result<Vec<Listener>> {
    let mut passed = ListenFd::from_env();
    let mut listeners = Vec::new();
    for at in 0..passed.len() {
        if let Ok(Some(socket)) = passed.take_tcp_listener(at) {
            listeners.push(Listener::Tcp(socket));
        } else if let Some(socket) = passed.take_unix_listener(at)? {
            let is_for_shims = match (socket.local_addr()?.as_pathname(), &options.socket) {
                (Some(passed), Some(wanted)) => passed == wanted,
                _ => false,
            };
            listeners.push(if is_for_shims { Listener::Shims(socket) } else { Listener::Unix(socket) });
        }
    }
    Ok(listeners)
}

/// Binds a Unix socket. Replaces a socket on which nobody listens any more, and fails if a server listens there or
/// another file is there.
fn bind_unix(path: &Path) -> io::Result<UnixListener> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // Held until the socket is bound, so that servers that start together do not remove each other's socket. A folder
    // that cannot be locked is no reason not to start.
    let _locked = File::open(folder).and_then(|folder| folder.lock().map(|()| folder));
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
    if is_socket && UnixStream::connect(path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused) {
        std::fs::remove_file(path)?;
    }
    UnixListener::bind(path).map_err(|error| cannot_listen(&path.display().to_string(), &error))
}

fn cannot_listen(place: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot listen on {place}: {error}"))
}

/// Accepts connections from all sockets, one at a time. After a drop, connections that wait in the backlog of a socket
/// of systemd go to the next server.
#[derive(Debug)]
pub(super) struct Acceptor {
    sockets: Vec<Socket>,
    /// When a failed accept was last reported.
    last_report: Option<Instant>,
}

#[derive(Debug)]
enum Socket {
    Tcp(tokio::net::TcpListener),
    Unix(tokio::net::UnixListener),
    Shims(tokio::net::UnixListener),
}

/// The pause after a failed accept, for example because no file descriptor is free.
pub(super) const PAUSE: Duration = Duration::from_millis(20);

/// The time after which a failed accept is reported again. While descriptors are lacking, each accept fails.
const REPORT_AGAIN: Duration = Duration::from_secs(10);

impl Acceptor {
    pub(super) fn new(listeners: Vec<Listener>) -> io::Result<Self> {
        let socket = |listener| match listener {
            Listener::Tcp(socket) => {
                socket.set_nonblocking(true)?;
                tokio::net::TcpListener::from_std(socket).map(Socket::Tcp)
            }
            Listener::Unix(socket) => {
                socket.set_nonblocking(true)?;
                tokio::net::UnixListener::from_std(socket).map(Socket::Unix)
            }
            Listener::Shims(socket) => {
                socket.set_nonblocking(true)?;
                tokio::net::UnixListener::from_std(socket).map(Socket::Shims)
            }
        };
        let sockets = listeners.into_iter().map(socket).collect::<io::Result<_>>()?;
        Ok(Acceptor { sockets, last_report: None })
    }

    /// Waits for a connection. No connection is lost if this future is dropped.
    pub(super) async fn next(&mut self) -> Stream {
        loop {
            match poll_fn(|context| self.poll(context)).await {
                Ok(stream) => return stream,
                Err(error) => {
                    // The client has gone, or no descriptor is free until another connection ends.
                    if self.last_report.is_none_or(|last| last.elapsed() >= REPORT_AGAIN) {
                        self.last_report = Some(Instant::now());
                        say("warning: ", format!("cannot accept a connection: {error}").as_bytes());
                    }
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Stream>> {
        for socket in &mut self.sockets {
            let polled = match socket {
                Socket::Tcp(socket) => socket.poll_accept(context).map_ok(|(stream, from)| Stream::Tcp(stream, from)),
                Socket::Unix(socket) => socket.poll_accept(context).map_ok(|(stream, _)| Stream::Unix(stream)),
                Socket::Shims(socket) => socket.poll_accept(context).map_ok(|(stream, _)| Stream::Shim(stream)),
            };
            if polled.is_ready() {
                // The next poll begins one socket further on, so that a busy socket does not starve the others.
                self.sockets.rotate_left(1);
                return polled;
            }
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::tests::parse;
    use std::{sync::Barrier, thread};

    /// Previously, the server listened only for shims then, without a word.
    #[test]
    fn a_passed_socket_for_shims_alone_does_not_replace_the_sockets_for_http() {
        let dir = tempfile::tempdir().unwrap();
        let [socket, http] = ["s", "http"].map(|name| dir.path().join(name));
        let options = parse(&["--http", "127.0.0.1:0", "--http-socket", http.to_str().unwrap()]);
        let mut listeners = vec![Listener::Shims(UnixListener::bind(socket).unwrap())];
        add_for_http(&options, &mut listeners).unwrap();
        assert!(matches!(&listeners[..], [Listener::Shims(_), Listener::Tcp(_), Listener::Unix(_)]), "{listeners:?}");
        add_for_http(&options, &mut listeners).unwrap();
        assert_eq!(listeners.len(), 3, "systemd's sockets for HTTP replace those of the command line");
    }

    #[test]
    fn of_servers_that_replace_a_dead_socket_together_one_listens() {
        let dir = tempfile::tempdir().unwrap();
        for at in 0..50 {
            let path = dir.path().join(at.to_string());
            drop(UnixListener::bind(&path).unwrap());
            let together = Barrier::new(8);
            let bound = thread::scope(|scope| {
                let bind = || {
                    together.wait();
                    bind_unix(&path)
                };
                let servers: Vec<_> = (0..8).map(|_| scope.spawn(bind)).collect();
                servers.into_iter().map(|server| server.join().unwrap()).filter(Result::is_ok).collect::<Vec<_>>()
            });
            assert_eq!(bound.len(), 1);
            UnixStream::connect(&path).unwrap();
        }
    }
}
