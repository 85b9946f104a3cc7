//! Descriptors of files that are read without a mapping: a few, however many segments there are.

use crate::sync::{Lock, Rank};
use refdb_vfs::{File, Fs};
use std::{collections::VecDeque, path::Path, sync::Arc};

/// Maximum number of files that stay open. With the lock file and the file that is being written, a cache has at most
/// four descriptors at rest.
const KEPT: usize = 2;

pub(crate) struct Handles {
    fs: Fs,
    /// Open files with the number of their segment, the one opened last at the end.
    kept: Lock<VecDeque<(u64, Arc<File>)>>,
}

impl Handles {
    pub(crate) fn new(fs: Fs) -> Arc<Self> {
        Arc::new(Handles { fs, kept: Lock::new(Rank::Leaf, VecDeque::new()) })
    }

    /// The file of a segment, opened if necessary; `None` if it cannot be opened.
    pub(crate) fn open(&self, seq: u64, path: &Path) -> Option<Arc<File>> {
        if let Some((_, file)) = self.kept.lock().iter().find(|(of, _)| *of == seq) {
            return Some(file.clone());
        }
        let file = Arc::new(self.fs.open(path).ok()?);
        let mut kept = self.kept.lock();
        let extra = if kept.len() >= KEPT { kept.pop_front() } else { None };
        kept.push_back((seq, file.clone()));
        debug_assert!(kept.len() <= KEPT, "a cache has few descriptors at rest");
        drop(kept);
        // Closed after the lock is released, because closing may take long.
        drop(extra);
        Some(file)
    }

    /// Closes the file of a deleted segment, so that it does not keep the segment's space.
    pub(crate) fn close(&self, seq: u64) {
        let mut kept = self.kept.lock();
        let (closed, open): (VecDeque<_>, _) = kept.drain(..).partition(|(of, _)| *of == seq);
        *kept = open;
        drop(kept);
        // Closed after the lock is released, because the last descriptor of a deleted file frees its blocks.
        drop(closed);
    }
}
