//! The blocks in which names of packed-refs are looked up, one for each page, and the choice of those to evict.

use crate::files::budget::{Charge, PageBudget};
use reftable::RefBlock;
use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
};

/// The block of a page, once it was built. `None` if its records are not all valid and in order, or there are none.
type Cell = OnceLock<Option<Arc<Kept>>>;

/// The blocks of a file. An evicted block stays in memory, and counted against the budget, while others still read it.
pub(crate) struct Blocks {
    cells: Box<[Cell]>,
    /// For each page, whether a name was looked up in it.
    touched: Arc<[AtomicBool]>,
    loaded_bytes: AtomicUsize,
    /// The clock hand: the index after that of the last page that was evicted although its block had been used.
    hand: usize,
    budget: Arc<PageBudget>,
}

struct Kept {
    block: RefBlock,
    /// Whether there was a look-up in the block since the last eviction, not counting the one for which it was built.
    is_used: AtomicBool,
    charge: Charge,
}

/// What is known of a page when a name is looked up in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Touch {
    /// The look-up is the first one in the page.
    First,
    /// There was a look-up before, and there is no block yet.
    Again,
    /// There is a block, or it is known that the page cannot have one.
    Block,
}

impl Blocks {
    /// The blocks of a file of `count` pages, none of which is built yet.
    pub(crate) fn new(count: usize, budget: &Arc<PageBudget>) -> Self {
        let touched = std::iter::repeat_with(AtomicBool::default).take(count).collect();
        Self::with(touched, 0, budget)
    }

    fn with(touched: Arc<[AtomicBool]>, hand: usize, budget: &Arc<PageBudget>) -> Self {
        let cells = std::iter::repeat_with(OnceLock::new).take(touched.len()).collect();
        Blocks { cells, touched, loaded_bytes: AtomicUsize::new(0), hand, budget: Arc::clone(budget) }
    }

    /// A copy from which blocks of `bytes` bytes, or slightly more, are evicted, or all if they have fewer: first those
    /// without a look-up since the last eviction, not counting the one for which they were built, then the others in
    /// turn (the clock algorithm).
    pub(crate) fn without(&self, bytes: usize) -> Self {
        let mut fresh = Self::with(Arc::clone(&self.touched), self.hand, &self.budget);
        let (behind, before) = self.cells.split_at(self.hand.min(self.cells.len()));
        let in_turn =
            before.iter().enumerate().map(|(at, cell)| (at + behind.len(), cell)).chain(behind.iter().enumerate());
        let mut kept: Vec<_> = in_turn
            .filter_map(|(at, cell)| Some((at, cell.get()?.as_ref()?)))
            .map(|(at, kept)| (kept.is_used.swap(false, Relaxed), at, kept))
            .collect();
        kept.sort_by_key(|(is_used, ..)| *is_used);
        let mut free = 0;
        for (is_used, at, kept) in kept {
            if free < bytes {
                free += kept.charge.bytes();
                if is_used {
                    fresh.hand = at + 1;
                }
            } else if fresh.cells[at].set(Some(Arc::clone(kept))).is_ok() {
                *fresh.loaded_bytes.get_mut() += kept.charge.bytes();
            }
        }
        debug_assert!(
            fresh.loaded_bytes() <= self.loaded_bytes() && Arc::ptr_eq(&self.budget, &fresh.budget),
            "blocks that stay are counted where they were"
        );
        fresh
    }

    /// Bytes of the blocks in memory.
    pub(crate) fn loaded_bytes(&self) -> usize {
        self.loaded_bytes.load(Relaxed)
    }

    /// The block of a page, which `make` builds if it is not known yet.
    #[inline]
    pub(crate) fn get<E>(
        &self,
        at: usize,
        make: impl FnOnce() -> Result<Option<RefBlock>, E>,
    ) -> Result<Option<&RefBlock>, E> {
        let Some(cell) = self.cells.get(at) else { return Ok(None) };
        let Some(known) = cell.get() else {
            self.add(cell, make()?);
            return Ok(self.in_memory(at));
        };
        let Some(kept) = known else { return Ok(None) };
        // The flag is written only if it is not set, because a write for each look-up would take the cache line from
        // other processors.
        if !kept.is_used.load(Relaxed) {
            kept.is_used.store(true, Relaxed);
        }
        Ok(Some(&kept.block))
    }

    #[cold]
    fn add(&self, cell: &Cell, block: Option<RefBlock>) {
        let kept = block.map(|block| {
            let bytes = block.len_bytes() + size_of::<Kept>() + size_of::<Cell>();
            Arc::new(Kept { block, is_used: AtomicBool::new(false), charge: self.budget.charge(bytes) })
        });
        let bytes = kept.as_ref().map_or(0, |kept| kept.charge.bytes());
        // Another thread may have built the block first; both are equal.
        if cell.set(kept).is_ok() {
            self.loaded_bytes.fetch_add(bytes, Relaxed);
        }
    }

    /// The block of a page, if it is in memory.
    pub(crate) fn in_memory(&self, at: usize) -> Option<&RefBlock> {
        self.cells.get(at)?.get()?.as_ref().map(|kept| &kept.block)
    }

    /// Notes a look-up in a page. The first look-up is faster without a block, because building one means reading the
    /// whole page, and most pages see either no look-up or many.
    pub(crate) fn touch(&self, at: usize) -> Touch {
        match (self.cells.get(at), self.touched.get(at)) {
            (Some(cell), _) if cell.get().is_some() => Touch::Block,
            (_, Some(touched)) if !touched.swap(true, Relaxed) => Touch::First,
            _ => Touch::Again,
        }
    }
}
