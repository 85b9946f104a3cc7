use crate::log::index::known;
use std::collections::{BTreeMap, HashSet};

/// Entries that were dropped from the index without a tombstone while the file of their segment still exists.
///
/// The segment of such an entry is the oldest, so no older value can reappear, but after a crash the entry itself
/// can. If its key is removed, the removal therefore needs a tombstone although the index does not have the key.
/// The entries are forgotten when the file is deleted, so there are at most as many as in the segments that are being
/// deleted.
#[derive(Default)]
pub(super) struct Unmarked(BTreeMap<u64, HashSet<u64>>);

impl Unmarked {
    /// Notes an entry that was dropped from segment `seq`.
    pub(super) fn add(&mut self, seq: u64, hash: u64) {
        debug_assert!(hash != 0, "no key has this hash");
        self.0.entry(seq).or_default().insert(known(hash));
    }

    /// Returns whether the removal of this key needs a tombstone. The caller writes it, so the key is forgotten.
    pub(super) fn take(&mut self, hash: u64) -> bool {
        let mut found = false;
        for hashes in self.0.values_mut() {
            found |= hashes.remove(&known(hash));
        }
        found
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.values().all(HashSet::is_empty)
    }

    /// Forgets a segment whose file was deleted.
    pub(super) fn forget(&mut self, seq: u64) {
        self.0.remove(&seq);
    }

    /// Forgets everything, because all segments are void.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}
