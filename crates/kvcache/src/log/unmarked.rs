use std::collections::{BTreeMap, HashSet};

/// Entries that were dropped of segments whose files are still there, without a mark in the log. Nothing older could
/// come back in their place, but they could. Their removal needs the mark that no other absent key needs.
///
/// It holds at most the entries of the segments that are going, and forgets them with the file.
#[derive(Default)]
pub(super) struct Unmarked(BTreeMap<u64, HashSet<u64>>);

impl Unmarked {
    /// An entry of the segment `seq` was dropped.
    pub(super) fn add(&mut self, seq: u64, hash: u64) {
        debug_assert!(hash != 0, "no key has this hash");
        self.0.entry(seq).or_default().insert(hash);
    }

    /// Whether the removal of this key needs a mark; after that it has one.
    pub(super) fn take(&mut self, hash: u64) -> bool {
        let mut found = false;
        for hashes in self.0.values_mut() {
            found |= hashes.remove(&hash);
        }
        found
    }

    /// The file is gone.
    pub(super) fn forget(&mut self, seq: u64) {
        self.0.remove(&seq);
    }

    /// All that was is void.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}
