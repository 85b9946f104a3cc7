//! The sockets on which the server listens: those it was passed by systemd, or else those of the command line.

use crate::{http::Peer, options::Options};
use listenfd::ListenFd;
use std::{
    future::poll_fn,
    io::{self, Write},
    net::{SocketAddr, TcpListener},
    os::unix::{
        fs::FileTypeExt,
        net::{UnixListener, UnixStream},
    },
    path::Path,
    task::{Context, Poll},
    time::Duration,
};

/// A socket that is bound.
#[derive(Debug)]
pub(super) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// A connection.
#[derive(Debug)]
pub(super) enum Stream {
    Tcp(tokio::net::TcpStream, SocketAddr),
    Unix(tokio::net::UnixStream),
}

impl Stream {
    /// Only a proxy can connect to the Unix socket, whose permissions the host sets.
    pub(super) fn peer(&self) -> Peer {
        match self {
            Stream::Tcp(_, address) => Peer { address: address.ip().to_canonical().to_string(), is_proxy: false },
            Stream::Unix(_) => Peer { address: String::new(), is_proxy: true },
        }
    }
}

/// How many connections may wait to be accepted; the kernel's `net.core.somaxconn` may be less.
const BACKLOG: i32 = 16_384;

/// Binds the sockets and prints their addresses. Sockets that systemd passes take the place of those of the command
/// line, so that they outlive the server.
pub(super) fn bind(options: &Options) -> io::Result<Vec<Listener>> {
    let mut listeners = passed()?;
    if listeners.is_empty() {
        if let Some(address) = options.http {
            let socket = TcpListener::bind(address).map_err(|error| cannot_listen(&address.to_string(), &error))?;
            listeners.push(Listener::Tcp(socket));
        }
        if let Some(path) = &options.http_socket {
            listeners.push(Listener::Unix(bind_unix(path)?));
        }
    }
    for listener in &listeners {
        // The standard library's backlog of 128 makes clients that connect at the same time try again after a second.
        match listener {
            Listener::Tcp(socket) => rustix::net::listen(socket, BACKLOG)?,
            Listener::Unix(socket) => rustix::net::listen(socket, BACKLOG)?,
        }
    }
    let mut out = io::stdout().lock();
    for listener in &listeners {
        match listener {
            Listener::Tcp(socket) => writeln!(out, "listening on http://{}/", socket.local_addr()?)?,
            Listener::Unix(socket) => match socket.local_addr()?.as_pathname() {
                Some(path) => writeln!(out, "listening on {}", path.display())?,
                None => writeln!(out, "listening on a socket without a name")?,
            },
        }
    }
    out.flush()?;
    Ok(listeners)
}

fn passed() -> io::Result<Vec<Listener>> {
    let mut passed = ListenFd::from_env();
    let mut listeners = Vec::new();
    for at in 0..passed.len() {
        if let Ok(Some(socket)) = passed.take_tcp_listener(at) {
            listeners.push(Listener::Tcp(socket));
        } else if let Some(socket) = passed.take_unix_listener(at)? {
            listeners.push(Listener::Unix(socket));
        }
    }
    Ok(listeners)
}

/// Binds a Unix socket. A socket that a server has left there is replaced; one on which a server listens is not.
fn bind_unix(path: &Path) -> io::Result<UnixListener> {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
    if is_socket && UnixStream::connect(path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused) {
        std::fs::remove_file(path)?;
    }
    UnixListener::bind(path).map_err(|error| cannot_listen(&path.display().to_string(), &error))
}

fn cannot_listen(place: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot listen on {place}: {error}"))
}

/// Sockets from which connections are taken, one at a time. Dropping them leaves what waits in the backlog of a passed
/// socket to the next server.
#[derive(Debug)]
pub(super) struct Acceptor(Vec<Socket>);

#[derive(Debug)]
enum Socket {
    Tcp(tokio::net::TcpListener),
    Unix(tokio::net::UnixListener),
}

/// How long to wait if no descriptor is left for another connection.
const PAUSE: Duration = Duration::from_millis(20);

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
        };
        Ok(Acceptor(listeners.into_iter().map(socket).collect::<io::Result<_>>()?))
    }

    /// Waits for a connection. No connection is lost if this future is dropped.
    pub(super) async fn next(&mut self) -> Stream {
        loop {
            match poll_fn(|context| self.poll(context)).await {
                Ok(stream) => return stream,
                Err(error) => {
                    // The client has gone, or there are too many descriptors: then others must end first.
                    eprintln!("warning: cannot accept a connection: {error}");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Stream>> {
        for socket in &mut self.0 {
            let polled = match socket {
                Socket::Tcp(socket) => socket.poll_accept(context).map_ok(|(stream, from)| Stream::Tcp(stream, from)),
                Socket::Unix(socket) => socket.poll_accept(context).map_ok(|(stream, _)| Stream::Unix(stream)),
            };
            if polled.is_ready() {
                // The next look begins with another socket, so that a busy one does not starve it.
                self.0.rotate_left(1);
                return polled;
            }
        }
        Poll::Pending
    }
}
