//! Counts the memory that pages of packed-refs and other caches take together.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

/// Counts the private memory, in bytes, that the pages of any number of packed-refs files take together. Other uses of
/// memory can be charged to the budget as well. The budget sets no limit itself: its owner decides which memory is
/// released ([`FilesBackend::shed`](crate::files::FilesBackend::shed)).
#[derive(Debug, Default)]
pub struct PageBudget {
    pub(crate) used_bytes: Arc<AtomicUsize>,
    pub(crate) text_bytes: AtomicUsize,
}

impl PageBudget {
    /// The number of bytes that are counted now.
    pub fn used_bytes(&self) -> usize {
        self.used_bytes.load(Relaxed)
    }

    /// The number of bytes that hold text of packed-refs files that are read page by page.
    pub fn text_bytes(&self) -> usize {
        self.text_bytes.load(Relaxed)
    }

    /// The counter itself, for caches that share a limit with the pages.
    pub fn counter(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.used_bytes)
    }

    /// Counts `bytes` until the returned charge is dropped.
    pub fn charge(self: &Arc<Self>, bytes: usize) -> Charge {
        let mut charge = Charge { budget: Arc::clone(self), bytes: 0 };
        charge.add(bytes);
        charge
    }
}

/// A number of bytes that is counted in a [`PageBudget`] until this is dropped.
#[derive(Debug)]
#[must_use = "the bytes are counted until this is dropped"]
pub struct Charge {
    budget: Arc<PageBudget>,
    bytes: usize,
}

impl Charge {
    /// The number of bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds bytes to the charge.
    pub fn add(&mut self, bytes: usize) {
        self.bytes += bytes;
        self.budget.used_bytes.fetch_add(bytes, Relaxed);
    }

    /// Changes the charge to this number of bytes.
    pub fn set(&mut self, bytes: usize) {
        if bytes >= self.bytes { self.add(bytes - self.bytes) } else { self.sub(self.bytes - bytes) }
    }

    /// Takes bytes off the charge, at most as many as it has.
    pub fn sub(&mut self, bytes: usize) {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        uncount(&self.budget.used_bytes, bytes);
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        uncount(&self.budget.used_bytes, self.bytes);
    }
}

/// Subtracts bytes from a counter.
pub(crate) fn uncount(counter: &AtomicUsize, bytes: usize) {
    let before = counter.fetch_sub(bytes, Relaxed);
    // This runs in destructors, where a second panic would abort the process.
    debug_assert!(before >= bytes || std::thread::panicking(), "pages given up were counted: {bytes} of {before}");
}
