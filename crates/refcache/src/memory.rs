//! What all views of a process share: the block cache of reftables, what is known of names, and the count of the rest.

use crate::{View, ViewsSettings, hot::Hot, names::Names};
use refdb::files::PageBudget;
use reftable::BlockCache;
use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError, Weak,
    atomic::{AtomicU64, Ordering::Relaxed},
};

/// The memory of a process's views.
///
/// One bound for all of it. What is known of single names has a quarter at most. What single views hold (pages of
/// packed-refs, the index from objects to refs, listings of folders) and the blocks of reftables share the rest as they
/// need it, but the blocks need not go below a quarter. If it is too much, blocks are given up first, then text that was
/// read for a listing or a transaction, then views give up what they hold, those first that were not used for the longest
/// time.
pub(crate) struct Memory {
    pub(crate) blocks: Arc<BlockCache>,
    pub(crate) names: Names,
    pub(crate) hot: Hot,
    /// Counts what is not blocks.
    pub(crate) pages: Arc<PageBudget>,
    bytes_max: usize,
    views: Mutex<Vec<Weak<View>>>,
    /// How often views had to give up memory: the clock that tells who was used since.
    trims: AtomicU64,
    owners: AtomicU64,
}

/// What a view gives up, in this order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    /// Packed-refs as it was read for listings and transactions.
    Text,
    /// The pages of packed-refs in which names are looked up.
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
            names: Names::new(bytes_max / 4, &pages),
            hot: Hot::new(bytes_max, &pages),
            pages,
            bytes_max,
            views: Mutex::default(),
            trims: AtomicU64::new(1),
            owners: AtomicU64::new(1),
        })
    }

    /// A number for a reader that no other has.
    pub(crate) fn owner(&self) -> u64 {
        self.owners.fetch_add(1, Relaxed)
    }

    /// The time, as far as it matters who was used last.
    pub(crate) fn clock(&self) -> u64 {
        self.trims.load(Relaxed)
    }

    /// From now on this view may be asked to give up memory.
    pub(crate) fn add(&self, view: &Arc<View>) {
        let mut views = self.views();
        views.retain(|view| view.strong_count() > 0);
        views.push(Arc::downgrade(view));
    }

    /// Bytes in use.
    pub(crate) fn held_bytes(&self) -> usize {
        self.pages.used_bytes() + self.blocks.held_bytes()
    }

    /// Whether more is held than may be, in all or of text, which is not worth much.
    pub(crate) fn is_over(&self) -> bool {
        self.held_bytes() > self.bytes_max || self.pages.text_bytes() > self.bytes_max / 16
    }

    /// Has memory given up until there is room again.
    pub(crate) fn trim(&self) {
        self.blocks.trim();
        if !self.is_over() {
            return;
        }
        let mut views: Vec<Arc<View>> = self.views().iter().filter_map(Weak::upgrade).collect();
        views.sort_by_key(|view| view.used());
        self.trims.fetch_add(1, Relaxed);
        for view in &views {
            view.shed(Part::Text);
        }
        // What is left may be just what all questions are answered from.
        if self.held_bytes() <= self.bytes_max / 32 * 31 {
            return;
        }
        let enough = self.bytes_max.saturating_sub(self.blocks.held_bytes()) / 4 * 3;
        for view in views {
            for part in [Part::Pages, Part::All] {
                if self.pages.used_bytes() <= enough {
                    return;
                }
                view.shed(part);
            }
        }
    }

    fn views(&self) -> MutexGuard<'_, Vec<Weak<View>>> {
        self.views.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
