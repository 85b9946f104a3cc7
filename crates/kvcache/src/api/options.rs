use crate::{age::Clock, format::seal::Key};
use std::time::Duration;

/// How a cache is opened. Only the limit has no default.
#[derive(Clone, Debug)]
pub struct Options {
    /// The most bytes its files have together, at any time. From [`Options::SMALLEST_LIMIT_BYTES`] to
    /// [`Options::LARGEST_LIMIT_BYTES`].
    pub limit_bytes: u64,
    /// Entries older than this, counted from their creation, are misses. None: they do not age.
    pub max_age: Option<Duration>,
    /// Encrypts keys and values.
    pub key: Option<Key>,
    /// Keys it may have been encrypted with before; one that fits is replaced by `key`.
    pub old_keys: Vec<Key>,
    /// How long a put gives way to the writer before it is refused, when the whole write buffer is full. It yields the
    /// processor meanwhile. It never waits for a lock or a disk itself.
    pub patience: Duration,
    /// What time it is.
    pub clock: Clock,
}

impl Options {
    /// The smallest limit.
    pub const SMALLEST_LIMIT_BYTES: u64 = 1 << 20;

    /// The largest limit: 2 TiB.
    pub const LARGEST_LIMIT_BYTES: u64 = 2 << 40;

    /// The defaults with this limit.
    pub fn new(limit_bytes: u64) -> Self {
        Options {
            limit_bytes,
            max_age: None,
            key: None,
            old_keys: Vec::new(),
            patience: Duration::from_millis(200),
            clock: Clock::system(),
        }
    }
}

/// When a write counts as done.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Durability {
    /// When every reader of this process sees it. It reaches the file within milliseconds; `kill -9` may take back the
    /// last of these, in order. Never waits; may be refused.
    #[default]
    Buffered,
    /// When the operating system has it: it survives `kill -9`. Never refused; waits while the disk is behind.
    Written,
    /// When stable storage has it: it survives a power loss. Never refused; waits for the disk.
    Synced,
}
