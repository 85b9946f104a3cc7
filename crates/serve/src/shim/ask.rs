//! The shim's side of the socket: asks the server to serve a client.

use super::message::{GO, HandOver, LENGTH_BYTES, REPLY_BYTES_MAX, REQUEST_BYTES_MAX, Reply, Request, length};
use rustix::{
    io::{FdFlags, fcntl_setfd, retry_on_intr},
    net::{
        AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketType, connect,
        sendmsg, socket,
        sockopt::{Timeout, set_socket_timeout, socket_peercred},
    },
};
use std::{
    io::{self, IoSlice, Read, Write},
    mem::MaybeUninit,
    os::{fd::BorrowedFd, unix::net::UnixStream},
    path::Path,
    time::Duration,
};

/// The time that the server has for each step until it has accepted or declined a client.
const ACCEPT_TIME: Duration = Duration::from_secs(2);

/// How far the server has served a client.
#[derive(Debug)]
pub enum Answered {
    /// Nothing is left to do for the client. The shim prints the error, if there is one, and ends with this exit code.
    Ended {
        /// The exit code of the shim.
        code: u8,
        /// A message for standard error. Empty if there is none.
        error: String,
    },
    /// The server has done the first part, and git must do the rest.
    Continue(HandOver),
    /// The connection to the server broke, or the server sent an invalid reply. The client may have received part of
    /// the output, so git must not start from the beginning.
    Lost(io::Error),
}

/// Why the server does not serve a client. The server has read nothing from the client and sent it nothing, so git can
/// serve it from the beginning.
#[derive(Debug, thiserror::Error)]
pub enum NotAsked {
    /// No server listens on the socket, the server does not respond in time or validly, or the connection to it broke.
    #[error("no server answers there: {0}")]
    Absent(io::Error),
    /// The process that listens on the socket belongs to another user.
    #[error("the server runs as another user")]
    Foreign,
    /// The server declined for this reason, or the shim itself has found a reason not to pass its client.
    #[error("{0}")]
    Declined(String),
}

/// Asks the server at a socket to serve a client, whose input and output are pipes or sockets. Blocks until the server
/// has finished or hands the client back.
///
/// # Errors
///
/// Fails if the server does not serve the client at all.
pub fn ask(server: &Path, request: &Request, client: [BorrowedFd<'_>; 2]) -> Result<Answered, NotAsked> {
    let message = request.encode();
    if message.len() - LENGTH_BYTES > REQUEST_BYTES_MAX {
        return Err(NotAsked::Declined("the request is too large, usually because of the environment".into()));
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
        reply => return Err(NotAsked::Declined(format!("it sent {reply:?} too early"))),
    }
    // Until the server receives this, it can neither read from the client nor write to it.
    send_go(&stream, client).map_err(NotAsked::Absent)?;
    Ok(await_end(&mut stream).unwrap_or_else(Answered::Lost))
}

/// Connects to the server, with timeouts for the connection and for each read and write.
fn reach(server: &Path) -> io::Result<UnixStream> {
    let socket = socket(AddressFamily::UNIX, SocketType::STREAM, None)?;
    fcntl_setfd(&socket, FdFlags::CLOEXEC)?;
    set_socket_timeout(&socket, Timeout::Send, Some(ACCEPT_TIME))?;
    set_socket_timeout(&socket, Timeout::Recv, Some(ACCEPT_TIME))?;
    let address = SocketAddrUnix::new(server)?;
    retry_on_intr(|| connect(&socket, &address))?;
    Ok(socket.into())
}

fn send_go(stream: &UnixStream, client: [BorrowedFd<'_>; 2]) -> io::Result<()> {
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut ancillary = SendAncillaryBuffer::new(&mut room);
    if !ancillary.push(SendAncillaryMessage::ScmRights(&client)) {
        return Err(io::Error::other("the descriptors do not fit into a message"));
    }
    retry_on_intr(|| sendmsg(stream, &[IoSlice::new(&[GO])], &mut ancillary, SendFlags::NOSIGNAL))?;
    Ok(())
}

fn await_end(stream: &mut UnixStream) -> io::Result<Answered> {
    stream.set_read_timeout(None)?;
    match receive(stream)? {
        Reply::Ended { code, error } => Ok(Answered::Ended { code, error }),
        Reply::Continue(rest) => Ok(Answered::Continue(rest)),
        Reply::Declined(_) | Reply::Accepted => Err(io::Error::other("the server repeated an earlier message")),
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
