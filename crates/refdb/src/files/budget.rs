//! The memory that parts of packed-refs and other things take together.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

/// The bytes of private memory that the pages of any number of files take together. Other uses of memory may be charged
/// to it too. It only counts; its owner decides who has to give up what
/// ([`FilesBackend::shed`](crate::files::FilesBackend::shed)).
#[derive(Debug, Default)]
pub struct PageBudget {
    pub(crate) used_bytes: Arc<AtomicUsize>,
    pub(crate) text_bytes: AtomicUsize,
}

impl PageBudget {
    /// Bytes in memory now.
    pub fn used_bytes(&self) -> usize {
        self.used_bytes.load(Relaxed)
    }

    /// How many of them are pages as they are in the file.
    pub fn text_bytes(&self) -> usize {
        self.text_bytes.load(Relaxed)
    }

    /// Where all are counted, for caches that share memory with them.
    pub fn counter(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.used_bytes)
    }

    /// Counts these bytes for as long as the charge lives.
    pub fn charge(self: &Arc<Self>, bytes: usize) -> Charge {
        let mut charge = Charge { budget: Arc::clone(self), bytes: 0 };
        charge.add(bytes);
        charge
    }
}

/// Bytes that are counted in a [`PageBudget`].
#[derive(Debug)]
pub struct Charge {
    budget: Arc<PageBudget>,
    bytes: usize,
}

impl Charge {
    /// How many they are.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Counts more.
    pub fn add(&mut self, bytes: usize) {
        self.bytes += bytes;
        self.budget.used_bytes.fetch_add(bytes, Relaxed);
    }

    /// Counts this number from now on.
    pub fn set(&mut self, bytes: usize) {
        if bytes >= self.bytes { self.add(bytes - self.bytes) } else { self.sub(self.bytes - bytes) }
    }

    /// Counts less.
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

/// Takes back what was counted.
pub(crate) fn uncount(counter: &AtomicUsize, bytes: usize) {
    let before = counter.fetch_sub(bytes, Relaxed);
    debug_assert!(before >= bytes, "pages given up were counted: {bytes} of {before}");
}
