//! Simulates crashes: stops a workload at every operation that changes the disk, and checks what it leaves behind.
//!
//! Read in this order: `record` (the workload's operations), `stop`, `disk` (what a disk may remember), `power`.

mod copy;
mod disk;
mod power;
mod record;
mod stop;

pub use disk::Disk;
pub use power::lose_power_everywhere;
pub use stop::{kill_everywhere, refuse_everywhere};

use std::fmt;

/// The way in which a run was interrupted, and what the workload claimed.
#[derive(Clone, Debug)]
pub struct Crash {
    /// The number of operations that were done before the crash.
    pub at: usize,
    /// A description of the operation that came next, or "the end".
    pub next: String,
    /// What happened to that operation, or to changes that were not synced.
    pub how: String,
    /// Whether the workload reported success, so that everything it did must have survived.
    pub claimed: bool,
}

impl fmt::Display for Crash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let claim = if self.claimed { "; the workload had claimed success" } else { "" };
        write!(f, "after {} operations, at '{}': {}{claim}", self.at, self.next, self.how)
    }
}

/// Prints the crash that was being checked if the check panics.
struct Context<'a>(&'a Crash);

impl Drop for Context<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the check failed for the crash {}", self.0);
        }
    }
}
