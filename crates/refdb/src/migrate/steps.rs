//! Defines the order of the steps of a migration, and how the next run continues after any of them. All functions are
//! pure.
//!
//! The tests stop after each step, and let another program write between any two.

use crate::RefFormat;

/// A step of a migration. Each is done for all worktrees before the next begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// Holds off writers of the old format, as far as that format has a lock for it.
    HoldOld,
    /// Records that what follows belongs to a migration.
    Note,
    /// Writes the refs in the new format to a folder where no reader looks.
    Build,
    /// Puts the new files where the new format has them. Tables are linked or copied, because what was built is
    /// compared with the old files later. The new format is not in effect yet.
    Install,
    /// Holds off writers of the new format.
    HoldNew,
    /// Syncs all new files to stable storage.
    Sync,
    /// Replaces the configuration, which makes the new format take effect.
    Commit,
    /// Moves the old files away, so that a writer that was about to write to them fails.
    Fence,
    /// Takes over what was written to the old files since they were copied.
    Look,
    /// Records that the old files are no longer needed, or only by people.
    Done,
}

/// The steps to reftables. Because no lock covers all files, changes that others make while the files are copied are
/// taken over afterwards.
const TO_REFTABLE: [Step; 10] = [
    Step::HoldOld,
    Step::Note,
    Step::Build,
    Step::Install,
    Step::HoldNew,
    Step::Sync,
    Step::Commit,
    Step::Fence,
    Step::Look,
    Step::Done,
];

/// The steps to files. The lock of each stack excludes all writers from before the copy until the stack is gone.
const TO_FILES: [Step; 8] =
    [Step::HoldOld, Step::Note, Step::Build, Step::Install, Step::Sync, Step::Commit, Step::Fence, Step::Done];

/// Returns all steps of a migration to a format, in order.
pub(super) fn steps(to: RefFormat) -> &'static [Step] {
    match to {
        RefFormat::Reftable => &TO_REFTABLE,
        RefFormat::Files => &TO_FILES,
    }
}

/// The way in which an interrupted migration is completed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Remedy {
    /// The new format is in effect: continue with [`Step::Fence`] and all that follows.
    Finish,
    /// The old format is in effect: remove the new files.
    Undo,
}

/// Returns the remedy for a migration to `to`, which depends on the format in the configuration.
pub(super) fn remedy(to: RefFormat, configured: RefFormat) -> Remedy {
    if configured == to { Remedy::Finish } else { Remedy::Undo }
}

#[cfg(test)]
mod tests;
