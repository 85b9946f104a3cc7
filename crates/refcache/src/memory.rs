//! The memory that all views of a process share: the reftables' block cache, names, and the count of the rest.

use crate::{ViewsSettings, direct_mapped::DirectMappedCache, name_cache::NameCache};
use refdb::files::{Charge, PageBudget};
use reftable::BlockCache;
use std::sync::{
    Arc,
    atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
};

/// The memory of a process's views.
///
/// One bound for all of it. Single names have a quarter at most. Single views hold pages of packed-refs, the index from
/// objects to refs, and listings of folders. They and the blocks of reftables share the rest as needed, but the blocks
/// need not go below a quarter. If it is too much, blocks are given up first, then text read for a listing or a
/// transaction. Then other views give up their content, those first that were not used for the longest time. The view that
/// is asked gives up pages that were not looked up in lately. In the end the others are closed.
pub(crate) struct Memory {
    pub(crate) blocks: Arc<BlockCache>,
    pub(crate) name_cache: NameCache,
    pub(crate) direct_mapped: DirectMappedCache,
    /// Counts everything but blocks.
    pub(crate) pages: Arc<PageBudget>,
    /// The bound.
    pub(crate) bytes_max: usize,
    /// What views take that have nothing open, which they cannot give up.
    pub(crate) closed_bytes: AtomicUsize,
    owners: AtomicU64,
}

/// What a view gives up while it stays open, in this order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    /// Packed-refs as it was read for listings and transactions.
    Text,
    /// These, and that number of bytes of the pages in which names are looked up.
    PagesOf(usize),
    /// All of those pages.
    Pages,
    /// Everything.
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

    /// A number for a reader that no other has.
    pub(crate) fn owner(&self) -> u64 {
        self.owners.fetch_add(1, Relaxed)
    }

    /// Counts what a view takes while it has nothing open, as long as the charge lives.
    pub(crate) fn charge_closed(self: &Arc<Self>, bytes: usize) -> ClosedCharge {
        self.closed_bytes.fetch_add(bytes, Relaxed);
        ClosedCharge { memory: Arc::clone(self), charge: self.pages.charge(bytes) }
    }

    /// Bytes in use.
    pub(crate) fn held_bytes(&self) -> usize {
        self.pages.used_bytes() + self.blocks.held_bytes()
    }

    /// How many bytes may be in use. There is room to work with, however many views there are.
    pub(crate) fn bound_bytes(&self) -> usize {
        self.bytes_max.max(self.closed_bytes.load(Relaxed) + self.bytes_max / 2)
    }

    /// Whether more is held than may be, in all or of text, which is not worth much.
    pub(crate) fn is_over(&self) -> bool {
        self.held_bytes() > self.bound_bytes() || self.pages.text_bytes() > self.bytes_max / 16
    }
}

/// Bytes that a view takes while it has nothing open.
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
