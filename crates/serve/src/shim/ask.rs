//! The shim's side: asks the server to serve a client.

use super::message::{GO, HandOver, LENGTH_BYTES, REPLY_BYTES_MAX, REQUEST_BYTES_MAX, Reply, Request, length};
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketType, connect, sendmsg,
    socket,
    sockopt::{Timeout, set_socket_timeout, socket_peercred},
};
use std::{
    io::{self, IoSlice, Read, Write},
    mem::MaybeUninit,
    os::{fd::BorrowedFd, unix::net::UnixStream},
    path::Path,
    time::Duration,
};

/// How long a server may take until it says whether it takes a client over.
const ACCEPT_TIME: Duration = Duration::from_secs(2);

/// What the server has done for a client.
#[derive(Debug)]
pub enum Answered {
    /// Everything. The shim ends with this exit code, after it has shown the error, if there is one.
    Ended {
        /// The exit code.
        code: u8,
        /// A message for standard error; may be empty.
        error: String,
    },
    /// The first part; git is to do the rest.
    Continue(HandOver),
    /// Perhaps something: the server ended without saying what. Nobody may begin anew.
    Lost(io::Error),
}

/// Why the server does not serve a client. It has neither read nor written anything for the client, so that the shim
/// can do the work itself.
#[derive(Debug, thiserror::Error)]
pub enum NotAsked {
    /// The server does not answer.
    #[error("no server answers there: {0}")]
    Absent(io::Error),
    /// A process of another user has the socket.
    #[error("the server runs as another user")]
    Foreign,
    /// The server, or this program before it asked, declines for this reason.
    #[error("{0}")]
    Declined(String),
}

/// Asks the server at a socket to serve a client, whose input and output are pipes or sockets. Blocks until the server
/// has finished or gives the client back.
///
/// # Errors
///
/// Fails if the server has not begun, and will not.
pub fn ask(server: &Path, request: &Request, client: [BorrowedFd<'_>; 2]) -> Result<Answered, NotAsked> {
    let message = request.encode();
    if message.len() > REQUEST_BYTES_MAX {
        return Err(NotAsked::Declined("the environment is too large".into()));
    }
    let mut stream = reach(server).map_err(NotAsked::Absent)?;
    let peer = socket_peercred(&stream).map_err(|error| NotAsked::Absent(error.into()))?;
    if peer.uid != rustix::process::geteuid() {
        return Err(NotAsked::Foreign);
    }
    stream.write_all(&message).map_err(NotAsked::Absent)?;
    match receive(&mut stream).map_err(NotAsked::Absent)? {
        Reply::Accepted => {}
        Reply::Declined(why) => return Err(NotAsked::Declined(why)),
        reply => return Err(NotAsked::Declined(format!("it says {reply:?} too early"))),
    }
    // A server that does not get this does nothing.
    send_go(&stream, client).map_err(NotAsked::Absent)?;
    Ok(await_end(&mut stream).unwrap_or_else(Answered::Lost))
}

/// Connects to the server, within a time.
fn reach(server: &Path) -> io::Result<UnixStream> {
    let socket = socket(AddressFamily::UNIX, SocketType::STREAM, None)?;
    rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC)?;
    set_socket_timeout(&socket, Timeout::Send, Some(ACCEPT_TIME))?;
    set_socket_timeout(&socket, Timeout::Recv, Some(ACCEPT_TIME))?;
    connect(&socket, &SocketAddrUnix::new(server)?)?;
    Ok(socket.into())
}

fn send_go(stream: &UnixStream, client: [BorrowedFd<'_>; 2]) -> io::Result<()> {
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut ancillary = SendAncillaryBuffer::new(&mut room);
    if !ancillary.push(SendAncillaryMessage::ScmRights(&client)) {
        return Err(io::Error::other("there is no room for descriptors"));
    }
    sendmsg(stream, &[IoSlice::new(&[GO])], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

fn await_end(stream: &mut UnixStream) -> io::Result<Answered> {
    stream.set_read_timeout(None)?;
    match receive(stream)? {
        Reply::Ended { code, error } => Ok(Answered::Ended { code, error }),
        Reply::Continue(rest) => Ok(Answered::Continue(rest)),
        Reply::Declined(_) | Reply::Accepted => Err(io::Error::other("the server says what it has said before")),
    }
}

fn receive(stream: &mut UnixStream) -> io::Result<Reply> {
    let mut prefix = [0; LENGTH_BYTES];
    stream.read_exact(&mut prefix)?;
    let length = length(prefix, REPLY_BYTES_MAX).map_err(io::Error::other)?;
    let mut body = Vec::new();
    stream.take(length as u64).read_to_end(&mut body)?;
    if body.len() < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Reply::decode(&body).map_err(io::Error::other)
}
