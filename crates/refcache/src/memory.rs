//! The memory limit that all caches of a process share.

use crate::{ViewsSettings, direct_mapped::DirectMappedCache, name_cache::NameCache};
use refdb::files::{Charge, PageBudget};
use reftable::BlockCache;
use std::sync::{
    Arc,
    atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
};

/// The caches that all views of a process share, and the count of what each view holds itself.
///
/// There is one limit for all memory. The name cache takes about a quarter of it at most, and the direct-mapped cache
/// about a hundredth at most. Views hold pages of packed-refs, the index from objects to refs, and listings of folders;
/// these and the blocks of reftables share the rest as needed, but blocks are not reduced below a quarter.
///
/// When the limit is exceeded, memory is released in this order until there is room: blocks; text that was read for
/// listings and transactions; the caches of other views, least recently used first; pages of the queried view, first
/// those in which no name was looked up lately; and the rest of its caches. In the end other views are closed.
pub(crate) struct Memory {
    pub(crate) blocks: Arc<BlockCache>,
    pub(crate) name_cache: NameCache,
    pub(crate) direct_mapped: DirectMappedCache,
    /// Counts the memory of everything but blocks.
    pub(crate) pages: Arc<PageBudget>,
    /// The limit on all memory.
    pub(crate) bytes_max: usize,
    /// What the views take even while they are closed, and therefore cannot release.
    pub(crate) closed_bytes: AtomicUsize,
    owners: AtomicU64,
}

/// What a view releases while it stays open; each part includes those before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    /// The text of packed-refs that was read for listings and transactions.
    Text,
    /// In addition, this number of bytes of the pages in which names are looked up.
    PagesOf(usize),
    /// All pages in which names are looked up.
    Pages,
    /// All that the view's caches hold, except for a packed-refs that was read completely.
    All,
}

impl Memory {
    pub(crate) fn new(settings: &ViewsSettings) -> Arc<Self> {
        let bytes_max = settings.memory_bytes;
        let pages: Arc<PageBudget> = Arc::default();
        Arc::new(Memory {
            blocks: BlockCache::beside(bytes_max, bytes_max / 4, pages.counter()),
            name_cache: NameCache::new(bytes_max / 4, &pages),
            direct_mapped: DirectMappedCache::new(bytes_max, &pages),
            pages,
            bytes_max,
            closed_bytes: AtomicUsize::new(0),
            owners: AtomicU64::new(1),
        })
    }

    /// A number that identifies a view, or the reader of a view: it is never 0, and is returned only once.
    pub(crate) fn owner(&self) -> u64 {
        self.owners.fetch_add(1, Relaxed)
    }

    /// Counts what a view takes even while it is closed, until the charge is dropped.
    pub(crate) fn charge_closed(self: &Arc<Self>, bytes: usize) -> ClosedCharge {
        self.closed_bytes.fetch_add(bytes, Relaxed);
        ClosedCharge { memory: Arc::clone(self), charge: self.pages.charge(bytes) }
    }

    /// The number of bytes that all caches and views take now.
    pub(crate) fn held_bytes(&self) -> usize {
        self.pages.used_bytes() + self.blocks.held_bytes()
    }

    /// The number of bytes that may be in use. However many closed views there are, half of the limit remains for
    /// caches.
    pub(crate) fn bound_bytes(&self) -> usize {
        self.bytes_max.max(self.closed_bytes.load(Relaxed) + self.bytes_max / 2)
    }

    /// Returns whether the limit is exceeded, or too much text is held; text is of little use once its query is
    /// answered.
    pub(crate) fn is_over(&self) -> bool {
        self.held_bytes() > self.bound_bytes() || self.pages.text_bytes() > self.bytes_max / 16
    }
}

/// Bytes that a view takes even while it is closed.
pub(crate) struct ClosedCharge {
    memory: Arc<Memory>,
    charge: Charge,
}

impl Drop for ClosedCharge {
    fn drop(&mut self) {
        let before = self.memory.closed_bytes.fetch_sub(self.charge.bytes(), Relaxed);
        debug_assert!(before >= self.charge.bytes(), "a view's bytes were counted when it was made: {before}");
    }
}
