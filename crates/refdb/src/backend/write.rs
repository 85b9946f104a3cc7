//! Writing: claims, locks and steps.

use super::{Snapshot, TargetView};
use crate::{RejectionReason, Result};
use bstr::BStr;
use refdb_types::{Ident, ObjectId};
use std::path::PathBuf;

/// The claims of a transaction: sorted by name, each name once.
///
/// There may be millions, so claims and steps are not lists of owned values: a backend requests them one by one, and
/// they borrow from the transaction's compact memory.
pub trait Claims {
    /// The number of claims.
    fn count(&self) -> usize;

    /// The claim at this position.
    ///
    /// # Panics
    ///
    /// If the position is not less than [`count`](Claims::count).
    fn claim(&self, at: usize) -> Claim<'_>;

    /// Returns whether readers, including the first one after a crash, must see all changes or none, even if that costs
    /// more. [`TransactionOptions::atomic_visibility`](crate::TransactionOptions::atomic_visibility) says for which
    /// refs a backend does so.
    fn atomic_visibility(&self) -> bool {
        false
    }

    /// Returns whether the transaction commits as soon as it is staged, and can begin anew if that fails, so that
    /// another process may write the transaction's changes together with changes of its own. Only reftables make use of
    /// this.
    fn joins(&self) -> bool {
        false
    }
}

impl Claims for Vec<Claim<'_>> {
    fn count(&self) -> usize {
        self.len()
    }
    fn claim(&self, at: usize) -> Claim<'_> {
        self[at]
    }
}

/// A ref that a transaction will change or whose value it relies on.
#[derive(Clone, Copy, Debug)]
pub struct Claim<'a> {
    /// The canonical name of the ref that is locked. Where an edit follows symbolic refs, each of them and the ref to
    /// which they lead are claimed separately. The name may be ill-formed; if a symbolic ref on disk leads to it, it
    /// can be nearly anything.
    pub name: &'a BStr,
    /// What the transaction will do with the ref.
    pub kind: ClaimKind,
}

/// What a transaction will do with a claimed ref.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClaimKind {
    /// Make it hold an object.
    SetDirect,
    /// Make it a symbolic ref.
    SetSymbolic,
    /// Remove it.
    Delete,
    /// Only read the ref, or only add to its reflog: the ref must not change meanwhile.
    Hold,
}

/// What occupies the place of a ref's file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// The format has no file for each ref.
    NoFiles,
    /// Nothing, the ref's file, or a folder that contains no files except locks of this transaction or cannot be read.
    NoFolder,
    /// A folder with any other file at any depth, such as another ref's or a lock of somebody else. Git cannot lock the
    /// ref then, and says so.
    Folder,
}

/// The locks of the claimed refs. Dropping this value releases the locks and leaves the refs as they were.
#[must_use = "dropping it releases the locks and undoes what was staged"]
pub trait Locked: Send + Sync {
    /// The state of the refs under the locks. Writers that respect locks do not change locked refs meanwhile.
    fn snapshot(&self) -> &dyn Snapshot;

    /// The claims, by position, that could not be locked, and why.
    fn refused(&self) -> &[(usize, RejectionReason)];

    /// What occupies a ref's place. A transaction needs this to reject what git rejects in this format, in git's words.
    fn standing(&self, _name: &BStr) -> Standing {
        Standing::NoFiles
    }

    /// The folders of the locked stacks of reftables. A second transaction of the same thread that needs one of these
    /// locks is refused. Empty in files, where refs are locked one by one, and in memory, where the lock itself refuses
    /// the second transaction.
    fn stacks(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Prepares the changes of `steps` where no reader sees them. Called once.
    fn stage(&mut self, steps: &dyn Steps) -> Result<()>;

    /// Makes the staged changes visible and releases the locks. The locks of a small batch stay if its journal entry
    /// may still exist, as after [`Error::Unrecovered`](crate::Error::Unrecovered). `steps` are those that were staged.
    fn commit(self: Box<Self>, steps: &dyn Steps) -> Result<()>;
}

/// The steps of a transaction that has passed all checks, sorted by name. Each is for a claimed ref that was not
/// refused, each name once.
pub trait Steps {
    /// The number of steps.
    fn count(&self) -> usize;

    /// The step at this position.
    ///
    /// # Panics
    ///
    /// If the position is not less than [`count`](Steps::count).
    fn step(&self, at: usize) -> Step<'_>;

    /// The name of the ref that the step at this position changes.
    fn name(&self, at: usize) -> &BStr {
        self.step(at).name
    }

    /// For a rename: the old ref, whose reflog the ref of the step at this position takes over. The step's own entry is
    /// added to the reflog as the newest. `None` for any other step.
    fn log_source(&self, _at: usize) -> Option<&BStr> {
        None
    }

    /// The number of transactions that the steps come from: more than one in a group commit.
    fn members(&self) -> u32 {
        1
    }

    /// The number, from 0, of the transaction that the step at this position comes from. A format that numbers
    /// transactions gives each its own number.
    fn member(&self, _at: usize) -> u32 {
        0
    }
}

impl Steps for Vec<Step<'_>> {
    fn count(&self) -> usize {
        self.len()
    }
    fn step(&self, at: usize) -> Step<'_> {
        self[at]
    }
}

impl<'a> dyn Steps + 'a {
    /// All steps, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Step<'_>> {
        (0..self.count()).map(|at| self.step(at))
    }
}

impl<'a> dyn Claims + 'a {
    /// All claims, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Claim<'_>> {
        (0..self.count()).map(|at| self.claim(at))
    }
}

/// The change of one ref.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step<'a> {
    /// The name of the claimed ref.
    pub name: &'a BStr,
    /// The ref's value as read under the lock; `None` if the ref does not exist or is broken, or if its value was not
    /// read because the step only writes to the reflog.
    pub old: Option<TargetView<'a>>,
    /// Whether the ref's file is corrupt or cannot be read, so that the old value is not known.
    pub is_broken: bool,
    /// The ref's new state. `None` leaves the ref alone, in a step that only writes to the reflog.
    pub new: Option<NewValue<'a>>,
    /// The reflog entry to add; the reflog policy has been applied.
    pub log: Option<LogLine<'a>>,
}

/// A ref's new state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NewValue<'a> {
    /// An object, and the object that it peels to if it is an annotated tag.
    Direct(ObjectId, Option<ObjectId>),
    /// A symbolic ref.
    Symbolic(&'a BStr),
    /// Removed together with its reflog. Where
    /// [`Backend::keeps_symref_logs`](super::Backend::keeps_symref_logs) holds, the reflog of a symbolic ref stays.
    Deleted,
}

/// A [`LogEntry`](refdb_types::LogEntry) borrowed from the transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogLine<'a> {
    /// The object that the ref held or led to before the change; null where none is known.
    pub old: ObjectId,
    /// The object that the ref holds or leads to after the change; null where there is none.
    pub new: ObjectId,
    /// The committer and the time, which are the same for all steps of one transaction.
    pub committer: &'a Ident,
    /// One normalised line without its newline; may be empty.
    pub message: &'a BStr,
}
