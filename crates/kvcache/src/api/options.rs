use crate::{age::Clock, format::seal::Key};
use std::time::Duration;

/// How a cache is opened. Only the limit has no default.
///
/// ```
/// # use refdb_kvcache::Options;
/// # use std::time::Duration;
/// let options = Options::new(64 << 20).max_age(Duration::from_secs(3600));
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// Maximum size of all files together, counted in whole disk blocks, in bytes. The limit holds as long as the cache
    /// is open, and lies between [`Options::SMALLEST_LIMIT_BYTES`] and [`Options::LARGEST_LIMIT_BYTES`].
    pub limit_bytes: u64,
    /// Age, counted from creation, beyond which an entry is a miss; so is one that was created more than a minute, or
    /// more than this age, in the future. `None`, the default: entries do not expire.
    pub max_age: Option<Duration>,
    /// Key with which keys and values are encrypted. `None`, the default: they are not.
    pub key: Option<Key>,
    /// Keys with which the cache may have been encrypted before. If `key` is set and does not fit, but one of these
    /// does, `key` replaces it.
    pub old_keys: Vec<Key>,
    /// How long a buffered put waits while the write buffer is full or the limit is reached, before it is refused; 200
    /// ms by default. The waiting put writes a segment to the page cache if there is one to write, no other thread is
    /// writing, and nothing in the cache was ever [`Durability::Synced`], or else yields the processor or sleeps. It
    /// waits for no lock that is held during a disk access.
    pub put_timeout: Duration,
    /// Source of the time; the system's clock by default.
    pub clock: Clock,
}

impl Options {
    /// The smallest limit: 1 MiB.
    pub const SMALLEST_LIMIT_BYTES: u64 = 1 << 20;

    /// The largest limit: 2 TiB.
    pub const LARGEST_LIMIT_BYTES: u64 = 2 << 40;

    /// The defaults with this limit in bytes. [`Cache::open`](crate::Cache::open) checks the limit.
    pub fn new(limit_bytes: u64) -> Self {
        Options {
            limit_bytes,
            max_age: None,
            key: None,
            old_keys: Vec::new(),
            put_timeout: Duration::from_millis(200),
            clock: Clock::system(),
        }
    }

    /// Sets [`Options::max_age`].
    pub fn max_age(mut self, max_age: impl Into<Option<Duration>>) -> Self {
        self.max_age = max_age.into();
        self
    }

    /// Sets [`Options::key`].
    pub fn key(mut self, key: impl Into<Option<Key>>) -> Self {
        self.key = key.into();
        self
    }

    /// Sets [`Options::old_keys`].
    pub fn old_keys(mut self, old_keys: impl Into<Vec<Key>>) -> Self {
        self.old_keys = old_keys.into();
        self
    }

    /// Sets [`Options::put_timeout`].
    pub fn put_timeout(mut self, put_timeout: Duration) -> Self {
        self.put_timeout = put_timeout;
        self
    }

    /// Sets [`Options::clock`].
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }
}

/// When a write counts as done.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Durability {
    /// As soon as every thread that uses this handle sees the write. It reaches the file within milliseconds while the
    /// disk keeps up; `kill -9` may undo the last of these writes, the newest first. Such a put or removal waits for no
    /// sync, and such a put may be refused.
    #[default]
    Buffered,
    /// As soon as the operating system has it, so that it survives `kill -9`. Such a write waits while the disk cannot
    /// keep up, and is refused only if it may not wait ([`PutOptions::at_once`](crate::PutOptions::at_once)).
    Written,
    /// As soon as stable storage has it, so that it survives a loss of power. Such a write waits for the disk, and is
    /// refused only if it may not wait ([`PutOptions::at_once`](crate::PutOptions::at_once)).
    Synced,
}
