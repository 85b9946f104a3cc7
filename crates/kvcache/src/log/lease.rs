//! Shares of the write buffer.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// Bytes of the write buffer that somebody has. They are given back when it is dropped, and in no other way. The
/// account is the sum of the leases there are. So it can neither go below zero nor forget one.
pub(crate) struct Lease {
    account: Arc<AtomicUsize>,
    bytes: usize,
}

impl Lease {
    /// As many bytes more in the account.
    pub(super) fn new(account: &Arc<AtomicUsize>, bytes: usize) -> Self {
        account.fetch_add(bytes, Ordering::Relaxed);
        Lease { account: account.clone(), bytes }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let before = self.account.fetch_sub(self.bytes, Ordering::Relaxed);
        debug_assert!(before >= self.bytes, "a lease was counted when it was made");
    }
}
