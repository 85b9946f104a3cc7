//! The write buffer: memory for segments that are not completely in their files yet, and its accounting.

use crate::log::{
    image::{Filling, Image},
    lease::Lease,
};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// Allocates images of segments, within a budget unless the caller overrides it.
pub(crate) struct Buffer {
    /// Bytes of all images, including spare ones.
    account: Arc<AtomicUsize>,
    budget_bytes: usize,
    segment_bytes: usize,
    /// Unused images of the usual size, kept because each page of new memory costs a page fault.
    spare: Vec<Image>,
}

impl Buffer {
    pub(crate) fn new(segment_bytes: usize, budget_bytes: usize) -> Self {
        assert!(budget_bytes >= segment_bytes && segment_bytes > 0, "the budget has room for a segment");
        Buffer { account: Arc::default(), budget_bytes, segment_bytes, spare: Vec::new() }
    }

    /// An image with room for `len` bytes; `None` if the budget does not allow it while `kept_back` images of the usual
    /// size stay available for others.
    pub(crate) fn take(&mut self, len: usize, kept_back: usize) -> Option<Filling> {
        let in_use = self.account.load(Ordering::Relaxed) - self.spare.len() * self.segment_bytes;
        let wanted = len.max(self.segment_bytes) + kept_back * self.segment_bytes;
        (in_use + wanted <= self.budget_bytes).then(|| self.take_anyway(len))
    }

    /// An image with room for `len` bytes, even beyond the budget.
    pub(crate) fn take_anyway(&mut self, len: usize) -> Filling {
        if len > self.segment_bytes {
            return Image::leased(len, Lease::new(&self.account, len));
        }
        let new = || Image::leased(self.segment_bytes, Lease::new(&self.account, self.segment_bytes));
        // An image that was given back has no writer any more.
        self.spare.pop().and_then(Image::refill).unwrap_or_else(new)
    }

    /// Takes back an image to which no thread writes any more. If a reader still holds it, its memory is freed when the
    /// reader is done.
    pub(crate) fn give_back(&mut self, image: Arc<Image>) {
        let most = (self.budget_bytes / self.segment_bytes).max(1);
        if let Ok(image) = Arc::try_unwrap(image)
            && image.capacity() == self.segment_bytes
            && self.spare.len() < most
        {
            self.spare.push(image);
        }
    }

    /// Removes and returns all spare images but one, to be dropped when no lock is held.
    pub(crate) fn trim(&mut self) -> Vec<Image> {
        let given_up = self.spare.split_off(self.spare.len().min(1));
        debug_assert!(self.spare.len() <= 1, "one stays for the next puts");
        given_up
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_leases_returned_leave_the_whole_budget_whatever_the_order() {
        let mut buffer = Buffer::new(64, 64 * 4);
        let used = |buffer: &Buffer| buffer.account.load(Ordering::Relaxed);
        for round in 0..10 {
            let all: Vec<_> = std::iter::from_fn(|| buffer.take(64, 0)).map(|filling| filling.image).collect();
            assert_eq!((all.len(), used(&buffer)), (4, 256), "round {round}");
            assert!(buffer.take(1, 0).is_none());
            let large = buffer.take_anyway(1000).image;
            let held = all[0].clone();
            all.into_iter().for_each(|image| buffer.give_back(image));
            buffer.give_back(large);
            assert_eq!(used(&buffer), 256, "three spare ones and one that a reader holds");
            drop(held);
            assert_eq!((used(&buffer), buffer.take(64, 4).is_some()), (192, false));
            drop(buffer.trim());
            assert_eq!(used(&buffer), 64);
        }
    }
}
