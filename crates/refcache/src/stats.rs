use crate::{broken::BrokenRefs, finding::Finding};
use refdb::{config::GitPacks, files::Disorder};
use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Instant,
};

/// What a view has done since it was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Which view's figures these are: it grows from view to view of the process.
    pub view: u64,
    /// Look-ups that were answered from memory, once their proof was checked.
    pub hits: u64,
    /// Look-ups that had to read.
    pub misses: u64,
    /// How often the refs, or a part of them, were found changed by someone else or for the first time.
    pub loads: u64,
    /// Time spent on that.
    pub load_nanos: u64,
    /// How often the repository was opened again: it was replaced or converted.
    pub reopens: u64,
    /// Bytes of private memory that this view holds now, besides its share of the block cache.
    pub bytes: u64,
    /// Batches committed.
    pub commits: u64,
    /// Groups they were made in.
    pub groups: u64,
    /// The most that were made together.
    pub largest_group: u64,
    /// Batches, or edits of one, that were refused.
    pub rejections: u64,
    /// Refs that a verification found to differ from the disk.
    pub stale: u64,
    /// Verifications made.
    pub verifications: u64,
    /// Refs whose files are no good, as far as they were met; a thousand at most.
    pub broken: u64,
    /// Those of them that [`View::take_unreported`](crate::View::take_unreported) has not given out.
    pub unreported: u64,
    /// 1 where packed-refs says that it is sorted and was found not to be.
    pub unsorted: u64,
    /// Which settings let git pack refs by itself, so that small batches go to packed-refs.
    ///
    /// - 0: none does, or `refdb.smallBatches` is not `auto`;
    /// - 1: `gc.packRefs`;
    /// - 2: `maintenance.pack-refs.enabled`;
    /// - 3: both.
    pub git_packs: u64,
}

/// What all views of a process hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Holdings {
    /// The views.
    pub views: u64,
    /// Those that have something open.
    pub open_views: u64,
    /// Times that a view was closed because others needed its room.
    pub closed: u64,
    /// Files that are open.
    pub files: u64,
    /// How many may be.
    pub files_max: u64,
    /// Bytes of private memory.
    pub bytes: u64,
    /// How many may be.
    pub bytes_max: u64,
    /// Times that loose refs were folded into packed-refs.
    pub background_packs: u64,
    /// Times that this failed. It is tried again.
    pub failed_background_packs: u64,
}

macro_rules! counters {
    ($($name:ident),*) => {
        /// The living form of [`Stats`].
        #[derive(Default, Debug)]
        pub(crate) struct Counters {
            $(pub(crate) $name: AtomicU64,)*
            pub(crate) broken: BrokenRefs,
            pub(crate) disorders: Finding<Disorder>,
            pub(crate) git_packs: Finding<GitPacks>,
            pub(crate) failing_pack: Finding<String>,
        }

        impl Counters {
            pub(crate) fn read(&self, view: u64, bytes: u64) -> Stats {
                let (broken, unreported) = (self.broken.count(), self.broken.unreported());
                let unsorted = self.disorders.count();
                let git_packs = self.git_packs.found();
                let git_packs = git_packs.map_or(0, |found| u64::from(found.gc) + 2 * u64::from(found.maintenance));
                Stats { view, bytes, broken, unreported, unsorted, git_packs, $($name: self.$name.load(Relaxed),)* }
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
    /// Something was read that was not known, or not any more.
    pub(crate) fn loaded(&self, begun: Instant) {
        count(&self.loads, 1);
        count(&self.load_nanos, begun.elapsed().as_nanos() as u64);
    }
}
