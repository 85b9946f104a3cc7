//! The order of a migration's steps, and what the next run does if one of them was the last. Values only.
//!
//! The tests below stop after each step, and let another program write between any two.

use crate::RefFormat;

/// A step of a migration. Each is done for all worktrees before the next begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// Holds off writers of the old format, as far as it has a lock for that.
    HoldOld,
    /// Notes that what follows is a migration's.
    Note,
    /// Writes the refs in the new format into a folder where nobody looks.
    Build,
    /// Puts the new files where the new format has them. Nobody reads them yet.
    Install,
    /// Holds off writers of the new format.
    HoldNew,
    /// Brings all new files to stable storage.
    Sync,
    /// Replaces the configuration: from now on the new format counts.
    Commit,
    /// Moves the old files away: a writer that was about to write them fails.
    Fence,
    /// Looks what was written to the old files since they were copied, and takes it over.
    Look,
    /// Notes that the old files hold nothing more of worth.
    Done,
}

/// There is no lock on all files: changes that others make while they are copied are found afterwards.
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

/// The lock of each stack holds all writers off, from before the copy until the stack is gone.
const TO_FILES: [Step; 8] =
    [Step::HoldOld, Step::Note, Step::Build, Step::Install, Step::Sync, Step::Commit, Step::Fence, Step::Done];

/// All steps to a format, in order.
pub(super) fn steps(to: RefFormat) -> &'static [Step] {
    match to {
        RefFormat::Reftable => &TO_REFTABLE,
        RefFormat::Files => &TO_FILES,
    }
}

/// How a migration that did not end is ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Remedy {
    /// The new format counts: go on with [`Step::Fence`], and all that follows.
    Finish,
    /// The old format counts: take the new files away.
    Undo,
}

/// What the configuration says decides.
pub(super) fn remedy(to: RefFormat, configured: RefFormat) -> Remedy {
    if configured == to { Remedy::Finish } else { Remedy::Undo }
}

#[cfg(test)]
mod tests;
