//! What all views of a process share: the block cache of reftables, what is known of names, and the count of the rest.

use crate::{
    Holdings, ViewsSettings,
    hot::Hot,
    names::Names,
    open_views::{OpenViews, Slot},
};
use refdb::files::{Charge, PageBudget};
use reftable::BlockCache;
use std::sync::{
    Arc,
    atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
};

/// The memory of a process's views.
///
/// One bound for all of it. What is known of single names has a quarter at most. What single views hold (pages of
/// packed-refs, the index from objects to refs, listings of folders) and the blocks of reftables share the rest as they
/// need it, but the blocks need not go below a quarter. If it is too much, blocks are given up first, then text that was
/// read for a listing or a transaction, then views give up what they hold, those first that were not used for the longest
/// time, and are closed in the end.
pub(crate) struct Memory {
    pub(crate) blocks: Arc<BlockCache>,
    pub(crate) names: Names,
    pub(crate) hot: Hot,
    /// Counts what is not blocks.
    pub(crate) pages: Arc<PageBudget>,
    pub(crate) open_views: Arc<OpenViews>,
    bytes_max: usize,
    /// What views take that have nothing open, which they cannot give up.
    closed_bytes: AtomicUsize,
    owners: AtomicU64,
}

/// What a view gives up while it stays open, in this order.
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
            open_views: OpenViews::new(settings),
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

    /// The memory that this number of views holds together.
    pub(crate) fn holdings(&self, views: u64) -> Holdings {
        Holdings {
            views,
            open_views: self.open_views.count() as u64,
            closed: self.open_views.closed(),
            files: self.open_views.files() as u64,
            files_max: self.open_views.files_max() as u64,
            bytes: self.held_bytes() as u64,
            bytes_max: self.bytes_max as u64,
        }
    }

    /// Bytes in use.
    pub(crate) fn held_bytes(&self) -> usize {
        self.pages.used_bytes() + self.blocks.held_bytes()
    }

    /// How many bytes may be in use. There is room to work with, however many views there are.
    fn bound_bytes(&self) -> usize {
        self.bytes_max.max(self.closed_bytes.load(Relaxed) + self.bytes_max / 2)
    }

    /// Whether more is held than may be, in all or of text, which is not worth much.
    pub(crate) fn is_over(&self) -> bool {
        self.held_bytes() > self.bound_bytes() || self.pages.text_bytes() > self.bytes_max / 16
    }

    /// Has memory given up until there is room again. `spared`, of which a question is asked, is not closed for it.
    pub(crate) fn trim(&self, spared: &Arc<Slot>) {
        self.blocks.trim();
        if !self.is_over() {
            return;
        }
        let slots = self.open_views.by_use();
        self.open_views.tick();
        for opened in slots.iter().filter_map(|slot| slot.get()) {
            opened.shed(Part::Text);
        }
        // What is left may be just what all questions are answered from.
        let bound = self.bound_bytes();
        if self.held_bytes() <= bound / 32 * 31 {
            return;
        }
        let closed_bytes = self.closed_bytes.load(Relaxed);
        let enough = closed_bytes + bound.saturating_sub(closed_bytes + self.blocks.held_bytes()) / 4 * 3;
        for slot in &slots {
            for part in [Part::Pages, Part::All] {
                if self.pages.used_bytes() <= enough {
                    return;
                }
                if let Some(opened) = slot.get() {
                    opened.shed(part);
                }
            }
        }
        for slot in slots.iter().filter(|slot| !Arc::ptr_eq(slot, spared)) {
            if self.pages.used_bytes() <= enough {
                return;
            }
            self.open_views.close(slot);
        }
    }
}

/// Bytes that a view takes while it has nothing open.
pub(crate) struct ClosedCharge {
    memory: Arc<Memory>,
    charge: Charge,
}

impl Drop for ClosedCharge {
    fn drop(&mut self) {
        self.memory.closed_bytes.fetch_sub(self.charge.bytes(), Relaxed);
    }
}
