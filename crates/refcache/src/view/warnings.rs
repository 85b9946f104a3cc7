//! The warnings that a view has for a log.

use super::View;
use refdb::{BrokenRef, config::GitPacks, files::Disorder};
use std::sync::atomic::Ordering::Relaxed;

impl View {
    /// Takes the broken refs that were found since the last call, for a log. Each is reported once, and again only
    /// after it was found intact or missing in between. Does not touch the disk.
    pub fn take_unreported(&self) -> Vec<BrokenRef> {
        self.counters.broken.take_unreported()
    }

    /// Takes the place at which packed-refs was found to be unsorted although its header says `sorted`, for a log. It
    /// is not reported again until packed-refs was opened anew. Does not touch the disk.
    pub fn take_disorder(&self) -> Option<Disorder> {
        self.counters.disorders.take_unreported()
    }

    /// Takes the reason why small batches go to packed-refs although `refdb.smallBatches` is `auto`, for a log. A
    /// reason that no configuration file gives, such as a missing setting, is reported once in a process. Does not
    /// touch the disk.
    pub fn take_git_packs(&self) -> Option<GitPacks> {
        let found = self.counters.git_packs.take_unreported()?;
        (found.is_own || !self.process.is_git_told.swap(true, Relaxed)).then_some(found)
    }

    /// Takes the reason why packing loose refs in the background fails, for a log. A series of failures is reported
    /// once. Does not touch the disk.
    pub fn take_failing_pack(&self) -> Option<String> {
        self.counters.failing_pack.take_unreported()
    }

    /// Takes the warning that a trust setting says `always` although the repository is on a network file system, for
    /// a log. The warning is reported once in a process for each mount, and for 16 mounts at most. Does not touch the
    /// disk.
    pub fn take_ignored_trust(&self) -> Option<String> {
        let found = self.counters.ignored_trust.take_unreported()?;
        self.process.warned_mounts.is_new(found.device).then(|| found.to_string())
    }

    /// An upper bound on the number of warnings that [`take_unreported`](Self::take_unreported),
    /// [`take_disorder`](Self::take_disorder), [`take_git_packs`](Self::take_git_packs),
    /// [`take_failing_pack`](Self::take_failing_pack) and [`take_ignored_trust`](Self::take_ignored_trust) would
    /// return. Cheap enough to be called after every query.
    pub fn unreported(&self) -> u64 {
        let counters = &self.counters;
        let others = [
            counters.disorders.unreported(),
            counters.git_packs.unreported(),
            counters.failing_pack.unreported(),
            counters.ignored_trust.unreported(),
        ];
        counters.broken.unreported() + others.iter().sum::<u64>()
    }
}
