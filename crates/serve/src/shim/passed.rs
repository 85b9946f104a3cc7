//! The server's side of the socket: receives the messages of a shim and the descriptors of its client, and reads from
//! and writes to these descriptors.

use super::message::{GO, LENGTH_BYTES, REQUEST_BYTES_MAX, Reply, Request, length};
use rustix::{
    fs::{FileType, Mode as FileMode, OFlags, fstat, open},
    net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendFlags, recv, recvmsg, send},
};
use std::{
    io::{self, IoSliceMut},
    mem::MaybeUninit,
    os::fd::{AsFd, AsRawFd, OwnedFd},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, Interest, unix::AsyncFd},
    net::UnixStream,
};

/// Maximum number of descriptors that are received with a message. It is more than the two of a correct message, and
/// the kernel reports whether there were still more.
const DESCRIPTORS_MAX: usize = 8;

/// Receives a request. Descriptors that come with it are closed by the kernel.
pub(super) async fn receive(stream: &mut UnixStream) -> io::Result<Request> {
    let mut prefix = [0; LENGTH_BYTES];
    stream.read_exact(&mut prefix).await?;
    let mut body = vec![0; length(prefix, REQUEST_BYTES_MAX).map_err(io::Error::other)?];
    stream.read_exact(&mut body).await?;
    Request::decode(&body).map_err(io::Error::other)
}

/// Waits until the shim passes its client. Returns the descriptors of the client's input and output.
pub(super) async fn receive_client(stream: &UnixStream) -> io::Result<[OwnedFd; 2]> {
    loop {
        stream.readable().await?;
        match stream.try_io(Interest::READABLE, || receive_descriptors(stream.as_fd())) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            received => {
                let bad =
                    |_: Vec<OwnedFd>| io::Error::other("a shim passed other descriptors than the two of its client");
                return received?.try_into().map_err(bad);
            }
        }
    }
}

/// Receives [`GO`] and all descriptors that come with it.
fn receive_descriptors(socket: impl AsFd) -> io::Result<Vec<OwnedFd>> {
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut room);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let mut byte = [0];
    let received = recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut ancillary, flags)?;
    let mut descriptors = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(passed) = message {
            descriptors.extend(passed);
        }
    }
    if received.bytes == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    if byte != [GO] || received.flags.contains(ReturnFlags::CTRUNC) {
        return Err(io::Error::other("a shim sent an invalid message"));
    }
    Ok(descriptors)
}

#[expect(deprecated, reason = "the other function is unsafe, for types that close or change their descriptor")]
fn watched(descriptor: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(descriptor, interest)
}

/// Sends a reply to the shim.
pub(super) async fn tell(stream: &mut UnixStream, reply: &Reply) -> io::Result<()> {
    stream.write_all(&reply.encode()).await
}

/// The input or the output of the client.
///
/// Other processes, such as sshd, share its open file description, so it must not be made non-blocking. Instead, a pipe
/// is opened again, which creates a new description, and each call on a socket has the flag `MSG_DONTWAIT`.
#[derive(Debug)]
pub(super) struct End {
    descriptor: AsyncFd<OwnedFd>,
    is_socket: bool,
}

/// Whether an end is read or written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Direction {
    In,
    Out,
}

impl End {
    /// Takes a descriptor of the client. Fails unless it is a socket, or a pipe that can be opened again.
    pub(super) fn new(descriptor: OwnedFd, direction: Direction) -> io::Result<Self> {
        let interest = match direction {
            Direction::In => Interest::READABLE,
            Direction::Out => Interest::WRITABLE,
        };
        match FileType::from_raw_mode(fstat(&descriptor)?.st_mode) {
            FileType::Socket => Ok(End { descriptor: watched(descriptor, interest)?, is_socket: true }),
            FileType::Fifo => {
                let path = format!("/proc/self/fd/{}", descriptor.as_raw_fd());
                let access = if direction == Direction::In { OFlags::RDONLY } else { OFlags::WRONLY };
                let again = open(path, access | OFlags::NONBLOCK | OFlags::CLOEXEC, FileMode::empty())?;
                Ok(End { descriptor: watched(again, interest)?, is_socket: false })
            }
            kind => {
                Err(io::Error::new(io::ErrorKind::Unsupported, format!("a {kind:?} is neither a pipe nor a socket")))
            }
        }
    }

    /// Reads some bytes and returns their number, which is 0 at the end.
    pub(super) async fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut read = |fd: &AsyncFd<OwnedFd>| match self.is_socket {
            true => Ok(recv(fd, &mut *buffer, RecvFlags::DONTWAIT)?.0),
            false => Ok(rustix::io::read(fd, &mut *buffer)?),
        };
        loop {
            let mut ready = self.descriptor.readable().await?;
            match ready.try_io(&mut read) {
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(done) => return done,
                Err(_would_block) => {}
            }
        }
    }

    /// Writes all of these bytes.
    pub(super) async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let mut ready = self.descriptor.writable().await?;
            let written = ready.try_io(|fd| match self.is_socket {
                true => Ok(send(fd, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?),
                false => Ok(rustix::io::write(fd, bytes)?),
            });
            match written {
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(count) => bytes = &bytes[count?..],
                Err(_would_block) => {}
            }
        }
        Ok(())
    }
}
