//! The time after which git is asked what a walk in this process has not found out. Limits hold for git's programs.

use refdb_vfs::interrupt;
use std::time::{Duration, Instant};

/// Maximum duration of the walks of one kind that a push makes in this process. A push with tens of thousands of
/// objects takes a fraction of it, but a crafted chain of deltas can make every read of a small pack slow.
pub(super) const WALKS: Duration = Duration::from_secs(30);

/// When the walks in this process end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadline(Instant);

impl Deadline {
    pub(super) fn after(time: Duration) -> Self {
        Deadline(Instant::now() + time)
    }

    /// Returns `None` after the deadline, or once a signal has arrived, which ends the push when git is to be run.
    pub(super) fn check(self) -> Option<()> {
        (interrupt::check().is_ok() && Instant::now() < self.0).then_some(())
    }
}
