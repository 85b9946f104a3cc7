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

/// How a run ended whose remains are checked.
#[derive(Clone, Debug)]
pub struct Crash {
    /// How many operations were done before.
    pub at: usize,
    /// The operation that came next, in words.
    pub next: String,
    /// What was done to it.
    pub how: String,
    /// Whether the workload said that it succeeded. Then everything it did must be there.
    pub claimed: bool,
}

impl fmt::Display for Crash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let claim = if self.claimed { "; the workload had claimed success" } else { "" };
        write!(f, "after {} operations, at '{}': {}{claim}", self.at, self.next, self.how)
    }
}

/// Says which crash was looked at when a check panics.
struct Context<'a>(&'a Crash);

impl Drop for Context<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the check failed for the crash {}", self.0);
        }
    }
}
