//! A queue for writers of one user and one machine that wait for the same lock file.
//!
//! Removing a lock file wakes nobody, so writers that only poll for it sleep while it is free, and the one that has
//! just released it is the most likely to get it again. Here they wait in the backlog of a socket instead. The first of
//! them binds the socket and polls for the lock file, as git does; the others connect to it and sleep. The first one
//! passes the listening socket, with its backlog, to the next one once it has released the lock or given up.
//!
//! The socket has a name in the abstract namespace, so that no file is left behind, and the kernel closes it when its
//! owner dies: those who waited notice at once and begin again. Nothing depends on the queue. It only decides who tries
//! to create the lock file, and git, JGit, other users and other machines, which are not in the queue, compete for the
//! lock file itself.
//!
//! A message is a byte that says what it is, and its content. Both sides check that the other process belongs to the
//! same user, who could make the same changes to the repository without any message.

mod channel;
#[cfg(test)]
mod tests;

pub use channel::{Channel, Received};

use crate::Fs;
use channel::PASSED_MAX;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fd::{AsFd, OwnedFd},
    io::Errno,
    net::{
        AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, listen, socket_with,
        sockopt::socket_peercred,
    },
    process::{getegid, geteuid},
    time::{ClockId, clock_gettime},
};
use std::{
    collections::VecDeque,
    hash::{DefaultHasher, Hash, Hasher},
    os::unix::fs::MetadataExt,
    path::Path,
    sync::OnceLock,
    thread,
    time::{Duration, Instant},
};

/// The version of the messages. Programs of different versions do not meet in one queue.
const VERSION: u32 = 1;

/// The number of writers that may wait in the backlog before further ones poll for the lock file themselves, unless the
/// kernel's `net.core.somaxconn` is lower.
const BACKLOG: i32 = 4096;

/// The first message of a waiter that may take its turn while the head of the queue holds the lock.
pub(crate) const JOINS: u8 = b'j';
/// The first message of a waiter that wants the lock for itself.
pub(crate) const ALONE: u8 = b'a';
/// Stands for the kind of a writer whose first message was not read yet.
const UNREAD: u8 = b'?';
/// The message by which a waiter becomes the first. It contains the [`Relay`] and the kinds of the accepted waiters.
const LEAD: u8 = b'L';
/// The message by which a waiter takes its turn under the lock of another writer.
const TURN: u8 = b'T';

/// The queue for one lock file, which may not exist yet.
#[derive(Debug)]
pub(crate) struct Queue(SocketAddrUnix);

/// The result of entering a queue.
pub(crate) enum Entered {
    /// Nobody waited, so that this writer is the first.
    First(QueueHead),
    /// Others wait already.
    Behind(Channel),
    /// The writer has to poll for the lock file, for example because another user has taken the name of the queue, or
    /// because too many writers wait.
    Unavailable,
}

impl Queue {
    /// The queue for the lock of `target` among writers that agree on `terms`, or `None` where there is none: on a
    /// network file system, or in a folder that cannot be examined.
    pub(crate) fn of(fs: &Fs, target: &Path, terms: &str) -> Option<Self> {
        if fs.asks_server() {
            return None;
        }
        let folder = fs.stat(target.parent()?).ok()?;
        let mut hasher = DefaultHasher::new();
        (target.file_name(), terms).hash(&mut hasher);
        let (user, named) = (geteuid().as_raw(), hasher.finish());
        let name = format!("refdb-queue-{VERSION}-{user}-{:x}-{:x}-{named:x}", folder.device, folder.inode);
        SocketAddrUnix::new_abstract_name(name.as_bytes()).ok().map(Queue)
    }

    /// Enters the queue. `kind` is [`JOINS`] or [`ALONE`].
    pub(crate) fn enter(&self, kind: u8) -> Entered {
        // Another writer can become the head of the queue between a refused connection and the attempt to bind, and can
        // leave before the next connection.
        for _ in 0..3 {
            match self.connect() {
                Ok(channel) if channel.is_of_this_user() => {
                    if channel.send(&[kind], &[]) {
                        return Entered::Behind(channel);
                    }
                    continue;
                }
                Err(Errno::CONNREFUSED) => {}
                _ => return Entered::Unavailable,
            }
            match self.bind() {
                Ok(listener) => {
                    return Entered::First(QueueHead { listener, relay: Relay::default(), arrived: VecDeque::new() });
                }
                Err(Errno::ADDRINUSE) => {}
                Err(_) => return Entered::Unavailable,
            }
        }
        Entered::Unavailable
    }

    fn connect(&self) -> Result<Channel, Errno> {
        let socket = new_socket()?;
        connect(&socket, &self.0)?;
        Ok(Channel::new(socket))
    }

    fn bind(&self) -> Result<OwnedFd, Errno> {
        let socket = new_socket()?;
        bind(&socket, &self.0)?;
        listen(&socket, BACKLOG)?;
        Ok(socket)
    }
}

/// A socket that keeps the bounds of messages and never blocks.
fn new_socket() -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
}

/// What each head of a queue tells the next one.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Relay {
    /// A number for the state in which the last head left what the lock guards, such as the next update index of a
    /// stack; 0 if it is not known. If a head finds another number, strangers, which are writers that are not in the
    /// queue, may have written since.
    pub left: u64,
    /// Until when strangers are expected, in nanoseconds of the system's monotonic clock.
    pub strangers_until: u64,
    /// Until when the lock is left to strangers, by the same clock.
    pub free_until: u64,
}

impl Relay {
    /// The number of bytes of the encoding.
    pub const BYTES: usize = 24;

    /// Encodes the relay for a message.
    pub fn encode(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let numbers = [self.left, self.strangers_until, self.free_until];
        bytes.chunks_exact_mut(8).zip(numbers).for_each(|(room, number)| room.copy_from_slice(&number.to_le_bytes()));
        bytes
    }

    /// Decodes what [`encode`](Self::encode) has made; `None` if the number of bytes is another one.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; Self::BYTES] = bytes.try_into().ok()?;
        let number = |at: usize| bytes[at..].first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
        Some(Relay { left: number(0)?, strangers_until: number(8)?, free_until: number(16)? })
    }
}

/// The system's monotonic clock, which all processes share, in nanoseconds.
pub fn monotonic_nanos() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}

/// The longest time for which the lock is left to strangers.
const FREE_MAX: Duration = Duration::from_millis(10);

/// The first writer of a queue. Dropping it makes the next one the first.
#[derive(Debug)]
pub struct QueueHead {
    listener: OwnedFd,
    /// What the head before has told, and what the next one will be told.
    pub relay: Relay,
    /// The writers that have connected and were accepted, in the order in which they connected.
    arrived: VecDeque<Arrived>,
}

/// A writer that waits.
#[derive(Debug)]
struct Arrived {
    channel: Channel,
    /// [`JOINS`] or [`ALONE`]; `None` until its first message was read.
    kind: Option<u8>,
}

impl Arrived {
    fn joins(&mut self) -> bool {
        if self.kind.is_none() {
            // A writer sends its kind right after it has connected.
            self.kind = Some(self.channel.kind(Duration::from_millis(1)).unwrap_or(ALONE));
        }
        self.kind == Some(JOINS)
    }
}

impl QueueHead {
    /// Takes writers out of the backlog until it is empty, or as many have arrived as can be passed on.
    fn accept_all(&mut self) {
        while self.arrived.len() < PASSED_MAX {
            let Some(arrived) = self.accept() else { return };
            self.arrived.push_back(arrived);
        }
    }

    /// Takes the next writer out of the backlog.
    fn accept(&self) -> Option<Arrived> {
        loop {
            let socket = accept_with(&self.listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK).ok()?;
            let channel = Channel::new(socket);
            if channel.is_of_this_user() {
                return Some(Arrived { channel, kind: None });
            }
        }
    }

    /// Waits until `count` writers have arrived, but no longer than `pause`, and in any case until the lock is no
    /// longer left to strangers ([`Relay::free_until`]), but no longer than [`FREE_MAX`] for that.
    pub(crate) fn gather(&mut self, count: usize, pause: Duration) {
        let now = Instant::now();
        let free = Duration::from_nanos(self.relay.free_until.saturating_sub(monotonic_nanos())).min(FREE_MAX);
        let (free_until, end) = (now + free, now + pause.max(free));
        let mut was_ready = false;
        loop {
            let before = self.arrived.len();
            self.accept_all();
            let now = Instant::now();
            let end = if self.arrived.len() >= count.min(PASSED_MAX) { free_until } else { end };
            let left = end.saturating_duration_since(now);
            // A writer that waits is not accepted if this process has no file descriptor left.
            let is_refused = was_ready && self.arrived.len() == before;
            if self.arrived.len() >= PASSED_MAX || is_refused {
                // The writers in the backlog stay there, so waiting for one would return at once.
                return thread::sleep(left);
            }
            was_ready = !left.is_zero() && is_ready(&self.listener, left);
            if !was_ready && Instant::now() >= end {
                return;
            }
        }
    }

    /// Removes and returns the first of the accepted writers that does not want the lock for itself; `None` if there is
    /// no such writer. The others stay in their order. If no accepted writer joins, takes the writers out of the
    /// backlog first.
    pub fn next_joining(&mut self) -> Option<Channel> {
        if !self.arrived.iter_mut().any(Arrived::joins) {
            self.accept_all();
        }
        let at = self.arrived.iter_mut().position(Arrived::joins)?;
        self.arrived.remove(at).map(|next| next.channel)
    }

    /// Returns the queue that another writer passes on; `None` if the message is incomplete.
    fn of_message(message: &[u8], passed: Vec<OwnedFd>) -> Option<Self> {
        let (relay, kinds) = message.split_at_checked(Relay::BYTES)?;
        let mut passed = passed.into_iter();
        let listener = passed.next()?;
        let kinds = kinds.iter().map(|kind| (*kind != UNREAD).then_some(*kind));
        let arrived = passed.map(Channel::new).zip(kinds).map(|(channel, kind)| Arrived { channel, kind }).collect();
        Some(QueueHead { listener, relay: Relay::decode(relay)?, arrived })
    }
}

impl Drop for QueueHead {
    fn drop(&mut self) {
        // Those in the backlog wait there as well, and need not be passed on one by one.
        while let Some(next) = self.arrived.pop_front().or_else(|| self.accept()) {
            let sockets = self.arrived.iter().map(|arrived| arrived.channel.fd());
            let passed: Vec<_> = [self.listener.as_fd()].into_iter().chain(sockets).collect();
            let kinds = self.arrived.iter().map(|arrived| arrived.kind.unwrap_or(UNREAD));
            let message: Vec<_> = [LEAD].into_iter().chain(self.relay.encode()).chain(kinds).collect();
            if next.channel.send(&message, &passed) {
                return;
            }
        }
    }
}

/// A turn under a lock that another writer holds.
#[derive(Debug)]
pub struct Turn {
    /// The connection to the holder of the lock.
    pub channel: Channel,
    /// What the holder says about the state under the lock.
    pub content: Vec<u8>,
}

/// What a writer knows from its last turn about those who want the same lock.
#[derive(Clone, Copy, Debug)]
pub struct Crowd {
    /// The number of other writers that will probably come.
    pub others: usize,
    /// How long to wait for them before the lock is taken.
    pub pause: Duration,
    /// What the head of the queue left behind.
    pub relay: Relay,
}

/// What a writer that waits was told.
pub(crate) enum Told {
    /// The writer is the first now.
    Lead(QueueHead),
    /// The writer gets its turn. The bytes are [`Turn::content`].
    Turn(Vec<u8>),
    /// Nothing yet.
    Nothing,
    /// The queue is gone, for example because its first writer was killed.
    Gone,
}

/// Waits for a message from the head of the queue, for `pause` at most.
pub(crate) fn wait_behind(channel: &Channel, pause: Duration) -> Told {
    match channel.receive(pause) {
        Received::Message(mut message, passed) => match message.first() {
            Some(&LEAD) => QueueHead::of_message(&message[1..], passed).map_or(Told::Gone, Told::Lead),
            Some(&TURN) => {
                message.remove(0);
                Told::Turn(message)
            }
            _ => Told::Gone,
        },
        Received::Nothing => Told::Nothing,
        Received::Ended => Told::Gone,
    }
}

/// Waits until the socket can be read, for `pause` at most.
fn is_ready(socket: impl AsFd, pause: Duration) -> bool {
    let pause = Timespec { tv_sec: pause.as_secs() as i64, tv_nsec: i64::from(pause.subsec_nanos()) };
    let mut fds = [PollFd::new(&socket, PollFlags::IN)];
    matches!(poll(&mut fds, Some(&pause)), Ok(1..))
}

/// Whether the process at the other end belongs to this user.
fn is_of_this_user(socket: &OwnedFd) -> bool {
    socket_peercred(socket).is_ok_and(|peer| peer.uid == geteuid())
}

/// What decides, apart from a program's settings, which owner and which permissions the files have that this process
/// creates, and with which processes it can share the name of a socket. Only writers with the same text may write files
/// for one another.
pub fn writer_terms() -> &'static str {
    static TERMS: OnceLock<String> = OnceLock::new();
    TERMS.get_or_init(|| {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let umask = status.lines().find(|line| line.starts_with("Umask:")).unwrap_or("Umask: unknown");
        let network = std::fs::metadata("/proc/self/ns/net").map_or(0, |namespace| namespace.ino());
        format!("{umask} user {} group {} network {network}", geteuid().as_raw(), getegid().as_raw())
    })
}
