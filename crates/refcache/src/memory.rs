//! What all views of a process share: the block cache of reftables, what is known of names, and the count of the rest.

use crate::{View, ViewsSettings, names::Names};
use refdb::files::PageBudget;
use reftable::BlockCache;
use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError, Weak,
    atomic::{AtomicU64, Ordering::Relaxed},
};

/// The memory of a process's views.
///
/// Blocks of reftables and names have a quarter each, which their caches keep to. What is left is for what single views
/// hold: pages of packed-refs, the index from objects to refs, listings of folders. If that grows beyond, the views that
/// were not used for the longest time give up theirs.
pub(crate) struct Memory {
    pub(crate) blocks: Arc<BlockCache>,
    pub(crate) names: Names,
    pub(crate) pages: Arc<PageBudget>,
    /// How much single views may hold together.
    held_bytes_max: usize,
    views: Mutex<Vec<Weak<View>>>,
    /// How often views had to give up memory: the clock that tells who was used since.
    trims: AtomicU64,
    owners: AtomicU64,
}

impl Memory {
    pub(crate) fn new(settings: &ViewsSettings) -> Arc<Self> {
        Arc::new(Memory {
            blocks: BlockCache::new(settings.memory_bytes / 4),
            names: Names::new(settings.memory_bytes / 4),
            pages: Arc::default(),
            held_bytes_max: settings.memory_bytes / 2,
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

    /// Whether views hold more than they may.
    pub(crate) fn is_over(&self) -> bool {
        self.pages.used_bytes() > self.held_bytes_max
    }

    /// Makes the views that were not used for the longest time give up what they hold, until there is room again.
    pub(crate) fn trim(&self) {
        let mut views: Vec<Arc<View>> = self.views().iter().filter_map(Weak::upgrade).collect();
        views.sort_by_key(|view| view.used());
        self.trims.fetch_add(1, Relaxed);
        for view in views {
            if self.pages.used_bytes() <= self.held_bytes_max / 4 * 3 {
                return;
            }
            view.shed();
        }
    }

    fn views(&self) -> MutexGuard<'_, Vec<Weak<View>>> {
        self.views.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
