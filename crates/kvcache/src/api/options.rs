use crate::format::seal::Key;
use std::{fmt, sync::Arc, time::Duration};

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
    /// How long a put gives way to the writer, yielding the processor, when the whole write buffer is full, before it is
    /// refused. It never waits for a lock or a disk itself.
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

/// Tells the time, in milliseconds since 1970.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> u64 + Send + Sync>);

impl Clock {
    /// The system's clock.
    pub fn system() -> Self {
        Clock::new(|| {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            now.map_or(0, |now| u64::try_from(now.as_millis()).unwrap_or(u64::MAX))
        })
    }

    /// A clock that a test winds.
    pub fn new(now_ms: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        Clock(Arc::new(now_ms))
    }

    /// Milliseconds since 1970.
    pub fn now_ms(&self) -> u64 {
        (self.0)()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}
