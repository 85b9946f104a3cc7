//! The pages of packed-refs in which names are looked up, and which of them are given up first.

use crate::files::budget::{Charge, PageBudget};
use reftable::RefBlock;
use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
};

/// The block of a page, once known. `None`: its records are not all sound and in order, or there are none.
type Cell = OnceLock<Option<Arc<Kept>>>;

/// The blocks of a file. A block that is given up here stays in memory, and counted, while others still read it.
pub(crate) struct Blocks {
    cells: Box<[Cell]>,
    /// The pages that a name was looked up in.
    touched: Arc<[AtomicBool]>,
    loaded_bytes: AtomicUsize,
    /// Behind the page that was given up last.
    hand: usize,
    budget: Arc<PageBudget>,
}

struct Kept {
    block: RefBlock,
    /// Whether something was looked up in it since blocks were given up last. The look-up that it was made for does not count.
    is_used: AtomicBool,
    charge: Charge,
}

/// How often a page was looked up in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Touch {
    /// Never before.
    First,
    /// It was; there is no block yet.
    Again,
    /// There is a block, or it is known that there can be none.
    Block,
}

impl Blocks {
    /// None yet, of this number of pages.
    pub(crate) fn new(count: usize, budget: &Arc<PageBudget>) -> Self {
        let touched = std::iter::repeat_with(AtomicBool::default).take(count).collect();
        Self::with(touched, 0, budget)
    }

    fn with(touched: Arc<[AtomicBool]>, hand: usize, budget: &Arc<PageBudget>) -> Self {
        let cells = std::iter::repeat_with(OnceLock::new).take(touched.len()).collect();
        Blocks { cells, touched, loaded_bytes: AtomicUsize::new(0), hand, budget: Arc::clone(budget) }
    }

    /// The same with `bytes` less, or a little more than that. Blocks go first in which nothing was looked up since this was
    /// done last. Of the others it is each one's turn.
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

    /// The block of a page. Where it is not known yet, `make` is asked for it.
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
        // A write for each look-up would take the line from other processors.
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
        // Another thread may have been quicker; its block is the same.
        if cell.set(kept).is_ok() {
            self.loaded_bytes.fetch_add(bytes, Relaxed);
        }
    }

    /// The block of a page, if it is in memory.
    pub(crate) fn in_memory(&self, at: usize) -> Option<&RefBlock> {
        self.cells.get(at)?.get()?.as_ref().map(|kept| &kept.block)
    }

    /// What there is for a look-up in a page. The first look-up after an open is quicker without a block, since a block
    /// takes in the whole page. Most pages are looked up in never or often.
    pub(crate) fn touch(&self, at: usize) -> Touch {
        match (self.cells.get(at), self.touched.get(at)) {
            (Some(cell), _) if cell.get().is_some() => Touch::Block,
            (_, Some(touched)) if !touched.swap(true, Relaxed) => Touch::First,
            _ => Touch::Again,
        }
    }
}
