use crate::{broken::BrokenRefs, finding::Finding, ignored_trust::IgnoredTrust};
use refdb::{config::GitPacks, files::Disorder};
use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Instant,
};

/// Counters of what a view has done since it was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// The number of the view, which no other view of the process has.
    pub view: u64,
    /// Look-ups that were answered from memory, after it was checked, as far as the trust settings demand, that the
    /// answer is current.
    pub hits: u64,
    /// Look-ups that read from disk; in reftables some of these count as hits. Look-ups of pseudo-refs in a repository
    /// with reftables are counted neither here nor as hits.
    pub misses: u64,
    /// How often packed-refs or the list of tables was found changed, or the index from objects to the refs in
    /// packed-refs was built.
    pub loads: u64,
    /// Nanoseconds spent on building the index from objects to refs; the other loads are not timed.
    pub load_nanos: u64,
    /// How often the repository was opened again because it had been replaced, reconfigured or converted, or because
    /// of [`View::flush`](crate::View::flush).
    pub reopens: u64,
    /// Bytes of private memory that this view holds now, besides its share of the caches that all views use.
    pub bytes: u64,
    /// Batches that ended without an error, even if some or all of their edits were rejected.
    pub commits: u64,
    /// Groups in which the batches were written.
    pub groups: u64,
    /// The largest number of batches in a group.
    pub largest_group: u64,
    /// Batches that were rejected, or that failed because of a hook or the global ref database, and the rejected edits
    /// of other batches.
    pub rejections: u64,
    /// Refs for which a verification found that the view was wrong.
    pub stale: u64,
    /// Verifications that ended without an error.
    pub verifications: u64,
    /// Broken refs that were found and not seen intact or missing since; a thousand at most.
    pub broken: u64,
    /// Broken refs that [`View::take_unreported`](crate::View::take_unreported) has not returned yet.
    pub unreported: u64,
    /// 1 if packed-refs was found to be unsorted although its header says `sorted`, else 0.
    pub unsorted: u64,
    /// Which settings let git pack refs by itself, so that small batches go to packed-refs although
    /// `refdb.smallBatches` is `auto`.
    ///
    /// - 0: none, or `refdb.smallBatches` is not `auto`;
    /// - 1: `gc.packRefs`;
    /// - 2: `maintenance.pack-refs.enabled`;
    /// - 3: both.
    pub git_packs: u64,
    /// 1 if a trust setting says `always` although the repository is on a network file system, else 0.
    pub ignored_trust: u64,
}

/// What all views of a process hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Holdings {
    /// Views that somebody holds, except those that [`Views::close`](crate::Views::close) has forgotten.
    pub views: u64,
    /// Views that have their repository open.
    pub open_views: u64,
    /// How often a view was closed because others needed its files or its memory.
    pub closed: u64,
    /// Files that the views hold open.
    pub files: u64,
    /// The limit on the files that the views hold open.
    pub files_max: u64,
    /// Bytes of private memory that all caches and views take.
    pub bytes: u64,
    /// The limit on these bytes. If what views take even while closed is more than half of it, caches may still take
    /// half of it, so that the sum exceeds the limit.
    pub bytes_max: u64,
    /// How often loose refs were moved to packed-refs in the background.
    pub background_packs: u64,
    /// How often packing loose refs in the background failed. Attempts during which another process packs count from
    /// the third failure in a row on. Packing is retried after a pause.
    pub failed_background_packs: u64,
}

macro_rules! counters {
    ($($name:ident),*) => {
        /// The counters behind [`Stats`], which all threads update.
        #[derive(Default, Debug)]
        pub(crate) struct Counters {
            $(pub(crate) $name: AtomicU64,)*
            pub(crate) broken: BrokenRefs,
            pub(crate) disorders: Finding<Disorder>,
            pub(crate) git_packs: Finding<GitPacks>,
            pub(crate) failing_pack: Finding<String>,
            pub(crate) ignored_trust: Finding<IgnoredTrust>,
        }

        impl Counters {
            pub(crate) fn read(&self, view: u64, bytes: u64) -> Stats {
                let (broken, unreported) = (self.broken.count(), self.broken.unreported());
                let unsorted = self.disorders.count();
                let git_packs = self.git_packs.found();
                let git_packs = git_packs.map_or(0, |found| u64::from(found.gc) + 2 * u64::from(found.maintenance));
                let ignored_trust = self.ignored_trust.count();
                Stats {
                    view, bytes, broken, unreported, unsorted, git_packs, ignored_trust,
                    $($name: self.$name.load(Relaxed),)*
                }
            }
        }
    };
}

counters!(hits, misses, loads, load_nanos, reopens, commits, groups, largest_group, rejections, stale, verifications);

/// Adds to a counter.
pub(crate) fn count(counter: &AtomicU64, more: u64) {
    counter.fetch_add(more, Relaxed);
}

impl Counters {
    /// Forgets what was wrong with the files of refs, because the repository has reftables.
    pub(crate) fn forget_files(&self) {
        self.broken.clear();
        self.disorders.note(None);
        self.failing_pack.note(None);
    }

    /// Counts a load that began at `begun` and has ended now, and the time that it took.
    pub(crate) fn loaded(&self, begun: Instant) {
        count(&self.loads, 1);
        count(&self.load_nanos, begun.elapsed().as_nanos() as u64);
    }
}
