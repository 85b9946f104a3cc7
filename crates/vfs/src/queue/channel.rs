use super::{TURN, is_of_this_user, is_ready};
use rustix::{
    cmsg_space,
    fd::{AsFd, BorrowedFd, OwnedFd},
    io::Errno,
    net::{
        RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
        recv, recvmsg, sendmsg,
    },
};
use std::{
    cell::RefCell,
    io::{IoSlice, IoSliceMut},
    mem::MaybeUninit,
    time::Duration,
};

/// The longest message. The kernel takes it as a whole, since its default buffers are larger.
pub(super) const MESSAGE_BYTES_MAX: usize = 64 << 10;

/// Maximum number of waiting writers that are passed on together with the queue: the kernel passes at most 253
/// descriptors at once.
pub(super) const PASSED_MAX: usize = 250;

thread_local! {
    /// Room for the longest message. New memory for each message would have to be zeroed.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A connection between two writers of a queue. Messages arrive whole and in order, and the end of the connection is
/// reported after all of them.
#[derive(Debug)]
pub struct Channel(OwnedFd);

/// What came out of a channel.
#[derive(Debug)]
pub enum Received {
    /// A message, and the descriptors that came with it.
    Message(Vec<u8>, Vec<OwnedFd>),
    /// Nothing in the given time.
    Nothing,
    /// The other end is closed, for example because its process has died, or the channel cannot be read.
    Ended,
}

impl Channel {
    pub(super) fn new(socket: OwnedFd) -> Self {
        Channel(socket)
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    pub(super) fn is_of_this_user(&self) -> bool {
        is_of_this_user(&self.0)
    }

    /// Returns the byte that the other side sends first, if it arrives within `pause`.
    pub(super) fn kind(&self, pause: Duration) -> Option<u8> {
        let mut kind = [0];
        let mut read = || recv(&self.0, &mut kind, RecvFlags::DONTWAIT).map(|(_, len)| len);
        let len = match read() {
            Err(Errno::AGAIN) if is_ready(&self.0, pause) => read(),
            done => done,
        };
        (len == Ok(1)).then_some(kind[0])
    }

    /// Gives the writer at the other end its turn. Returns whether the kernel has taken the message.
    pub fn give_turn(&self, content: &[u8]) -> bool {
        self.send_bytes(&[&[TURN], content].concat())
    }

    /// Sends a message, and returns whether the kernel has taken it.
    pub fn send_bytes(&self, message: &[u8]) -> bool {
        message.len() <= MESSAGE_BYTES_MAX && self.send(message, &[])
    }

    pub(super) fn send(&self, message: &[u8], passed: &[BorrowedFd<'_>]) -> bool {
        debug_assert!(passed.len() <= PASSED_MAX + 1, "the kernel takes no more: {}", passed.len());
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(PASSED_MAX + 1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !passed.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(passed)) {
            return false;
        }
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        sendmsg(&self.0, &[IoSlice::new(message)], &mut ancillary, flags).is_ok()
    }

    /// Waits for the next message, for `pause` at most.
    pub fn receive(&self, pause: Duration) -> Received {
        if !is_ready(&self.0, pause) {
            return Received::Nothing;
        }
        BUFFER.with_borrow_mut(|buffer| self.receive_into(buffer))
    }

    fn receive_into(&self, buffer: &mut Vec<u8>) -> Received {
        buffer.resize(MESSAGE_BYTES_MAX, 0);
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(PASSED_MAX + 1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        // If the other side has closed its end before it has read everything, this is reported once, before the
        // messages that it has sent.
        let received = match recvmsg(&self.0, &mut [IoSliceMut::new(buffer)], &mut ancillary, flags) {
            Err(Errno::CONNRESET) => recvmsg(&self.0, &mut [IoSliceMut::new(buffer)], &mut ancillary, flags),
            received => received,
        };
        match received {
            Ok(received) if received.bytes > 0 => {
                let message = buffer[..received.bytes].to_vec();
                let rights = ancillary.drain().filter_map(|message| match message {
                    RecvAncillaryMessage::ScmRights(passed) => Some(passed),
                    _ => None,
                });
                Received::Message(message, rights.flatten().collect())
            }
            Err(Errno::AGAIN | Errno::INTR) => Received::Nothing,
            _ => Received::Ended,
        }
    }
}
