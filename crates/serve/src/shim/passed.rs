//! The server's side of the socket: a message with descriptors, and reads and writes on those.

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

/// The number of descriptors for which there is room: more than there must be. With still more the kernel says that it
/// has dropped some.
const DESCRIPTORS_MAX: usize = 8;

/// Receives a request. Descriptors that come with it are closed by the kernel.
pub(super) async fn receive(stream: &mut UnixStream) -> io::Result<Request> {
    let mut prefix = [0; LENGTH_BYTES];
    stream.read_exact(&mut prefix).await?;
    let mut body = vec![0; length(prefix, REQUEST_BYTES_MAX).map_err(io::Error::other)?];
    stream.read_exact(&mut body).await?;
    Request::decode(&body).map_err(io::Error::other)
}

/// Waits until the shim leaves its client to the server. Returns the client's input and output.
pub(super) async fn receive_client(stream: &UnixStream) -> io::Result<[OwnedFd; 2]> {
    loop {
        stream.readable().await?;
        match stream.try_io(Interest::READABLE, || receive_descriptors(stream.as_fd())) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            received => {
                let bad = |_: Vec<OwnedFd>| io::Error::other("a shim passes other descriptors than it must");
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
        return Err(io::Error::other("a shim says what it must not say"));
    }
    Ok(descriptors)
}

#[expect(deprecated, reason = "the other function is unsafe, for types that close or change their descriptor")]
fn watched(descriptor: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(descriptor, interest)
}

/// Tells the shim something.
pub(super) async fn tell(stream: &mut UnixStream, reply: &Reply) -> io::Result<()> {
    stream.write_all(&reply.encode()).await
}

/// An end of the client's connection.
///
/// Its file description belongs to others, too, such as sshd. It is therefore never made non-blocking: a pipe is opened
/// again, which makes another description, and on a socket each call says that it must not wait.
#[derive(Debug)]
pub(super) struct End {
    descriptor: AsyncFd<OwnedFd>,
    is_socket: bool,
}

/// For what an end is used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Direction {
    In,
    Out,
}

impl End {
    /// Fails if the descriptor is neither a pipe that can be opened again nor a socket.
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
            kind => Err(io::Error::new(io::ErrorKind::Unsupported, format!("a {kind:?} is neither pipe nor socket"))),
        }
    }

    /// Reads some bytes; 0 at the end.
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
