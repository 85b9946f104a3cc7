//! How big the jobs are. One size is that of the targets, one is quick, and a tiny one is for the tests.

use std::time::Duration;

/// The size of each file of a large push, which no compression makes smaller.
pub const LARGE_FILE_BYTES: usize = 25_000;

/// The numbers every job is made from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Its name in folders and results.
    pub name: &'static str,
    /// Refs that exist before a job that creates refs beside others.
    pub existing: usize,
    /// Refs that a job creates or deletes; also the number of distinct object ids in a repository.
    pub edits: usize,
    /// Refs in the larger tombstone job and in the larger push of refs.
    pub tombstones: usize,
    /// Refs created by the S3 job.
    pub bulk: usize,
    /// Refs in the big repository.
    pub big: usize,
    /// Branches and tags in the repository that one ref is pushed to.
    pub branches: usize,
    /// Refs pushed at once where a hook runs for each.
    pub hooked: usize,
    /// Files of [`LARGE_FILE_BYTES`] in the commit of a large push.
    pub files: usize,
    /// Transactions of each of the eight writers.
    pub updates: usize,
    /// Fewest and most pairs of runs for a wall-time ratio.
    pub pairs: (usize, usize),
    /// No new pair is started after this time once there are as many as the fewest.
    pub timeout: Duration,
}

impl Size {
    /// The size that the targets are stated for.
    pub const FULL: Size = Size {
        name: "full",
        existing: 100_000,
        edits: 10_000,
        tombstones: 100_000,
        bulk: 1_000_000,
        big: 1_500_000,
        branches: 1_000_000,
        hooked: 1_000,
        files: 2_000,
        updates: 500,
        pairs: (3, 21),
        timeout: Duration::from_secs(12),
    };

    /// About a tenth of the full size, for a first impression in a minute or two.
    pub const QUICK: Size = Size {
        name: "quick",
        existing: 10_000,
        edits: 1_000,
        tombstones: 3_000,
        bulk: 100_000,
        big: 150_000,
        branches: 100_000,
        hooked: 100,
        files: 200,
        updates: 100,
        pairs: (3, 11),
        timeout: Duration::from_secs(2),
    };

    /// Every workload in seconds, so that the tests can run all of them.
    pub const SMALL: Size = Size {
        name: "small",
        existing: 300,
        edits: 60,
        tombstones: 90,
        bulk: 500,
        big: 700,
        branches: 500,
        hooked: 10,
        files: 4,
        updates: 10,
        pairs: (1, 1),
        timeout: Duration::ZERO,
    };
}
