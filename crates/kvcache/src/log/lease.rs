//! Shares of the write buffer.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// Bytes of the write buffer that an image takes. Only dropping the lease gives them back, so the account is always the
/// sum of the existing leases and can neither become negative nor lose one.
pub(crate) struct Lease {
    account: Arc<AtomicUsize>,
    bytes: usize,
}

impl Lease {
    /// Adds bytes to the account.
    pub(super) fn new(account: &Arc<AtomicUsize>, bytes: usize) -> Self {
        account.fetch_add(bytes, Ordering::Relaxed);
        Lease { account: account.clone(), bytes }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let before = self.account.fetch_sub(self.bytes, Ordering::Relaxed);
        debug_assert!(before >= self.bytes, "a lease was counted when it was taken");
    }
}
