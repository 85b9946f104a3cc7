//! Why one edit is rejected, as a value, and git's sentences for it.

use super::{Error, LooseError, Misuse};
use bstr::{BStr, BString};
use refdb_types::{ObjectId, RefName, Target};
use std::{fmt, io, path::PathBuf};

/// Why one edit of a transaction is rejected. Its text follows git's, where git rejects such an edit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejection {
    /// The ref as the caller named it.
    pub given: RefName,
    /// The ref that cannot change: where the edit leads if `given` is a symbolic ref, as in git's batch updates.
    pub resolved: RefName,
    /// Why it cannot change.
    pub reason: RejectionReason,
}

/// What prevents an edit.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RejectionReason {
    /// The ref does not exist, and the edit expects that it does.
    Missing,
    /// The ref exists, and the edit expects that it does not.
    Exists {
        /// Whether the ref is symbolic and leads to no object.
        is_dangling: bool,
    },
    /// The ref has another value than the edit expects.
    Mismatch {
        /// The value that the edit expects.
        expected: Target,
        /// The value that the ref holds; `None` if it leads to a name that no ref can have. Where an object is
        /// expected, the object that the ref leads to, or `None` if there is none.
        actual: Option<Target>,
    },
    /// Another ref's name needs a folder where the name of this ref needs a file, or the reverse.
    Conflict {
        /// The other name.
        with: BString,
        /// Whether the other ref does not exist, but the same transaction has an edit of it.
        is_new: bool,
        /// Whether git notices the conflict while it locks the ref.
        prevents_lock: bool,
    },
    /// A folder that cannot be removed, usually because it is not empty, stands where the ref's file belongs or, in a
    /// rename, its reflog.
    Folder {
        /// The folder.
        path: PathBuf,
    },
    /// Reflogs lie in a folder where the ref's reflog belongs.
    LogsBelow {
        /// The folder.
        path: PathBuf,
    },
    /// The transaction also edits the ref that this symbolic ref leads to.
    TargetEdited {
        /// The ref that the symbolic ref leads to.
        target: BString,
    },
    /// The transaction edits HEAD itself, and also the ref that HEAD leads to.
    ReferentEdited {
        /// The ref that HEAD leads to.
        referent: BString,
    },
    /// The symbolic ref leads to a name that must not be written.
    BadTarget {
        /// The name that the symbolic ref leads to.
        target: BString,
    },
    /// The new value is an object that does not exist.
    NoObject {
        /// The object.
        id: ObjectId,
    },
    /// The new value is an object that is not a commit, and the ref is a branch or HEAD.
    NotACommit {
        /// The object.
        id: ObjectId,
    },
    /// The symbolic ref leads to itself, to a broken ref, to a name that no ref may have, or through too many others,
    /// so that it has no value to compare.
    Unreadable,
    /// The ref's own file is broken.
    Broken {
        /// The fault of the file.
        why: LooseError,
    },
    /// Another transaction or program holds the ref's lock, or left it behind when it was killed.
    Locked {
        /// The lock file.
        path: PathBuf,
        /// Seconds since the lock file was last written to.
        age_seconds: u64,
        /// The id of the user to whom the lock file belongs.
        uid: u32,
    },
    /// The name is too long for the index of a reftable.
    TooLarge,
    /// The edit would delete HEAD, and the transaction [keeps it](crate::TransactionOptions::keeps_head).
    HeadIsKept,
    /// The transaction itself holds the lock, by another name of the same file.
    LockedBySelf {
        /// The lock file.
        path: PathBuf,
        /// The other name.
        other: BString,
    },
    /// The lock file cannot be created.
    NoLock {
        /// The lock file.
        path: PathBuf,
        /// The kind of the failure.
        kind: io::ErrorKind,
        /// The system's text for the failure.
        said: String,
    },
}

/// The classes of reasons: those that `git update-ref --batch-updates` reports, and [`TooLarge`](Self::TooLarge).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RejectionClass {
    /// The name conflicts with that of another ref, because one of them would have to be a folder; a folder that cannot
    /// be removed is in the way of the ref's file; or a symbolic ref leads to a bad name, or to a ref that the
    /// transaction edits too.
    NameConflict,
    /// The ref exists, but must not, or its lock is held.
    CreateExists,
    /// The ref does not exist, but must; or a value is expected, and the ref leads to no object or to a name that no
    /// ref can have.
    NonexistentRef,
    /// The ref has another value than expected.
    IncorrectOldValue,
    /// The new value is invalid: there is no such object, it is not a commit for a branch or HEAD, or HEAD would be
    /// deleted.
    InvalidNewValue,
    /// The ref is expected to be symbolic, and holds an object.
    ExpectedSymref,
    /// The name differs from that of another ref only in case, on a file system that ignores case. No
    /// [`RejectionReason`] has this class yet.
    CaseConflict,
    /// The name is too long for the reftable format. Git has no such class: it accepts a name for which only an index
    /// has no room, and fails the whole transaction for one that fits into no block.
    TooLarge,
    /// Anything else: a ref that cannot be read, a lock file that cannot be made, or reflogs where the ref's reflog
    /// belongs.
    Generic,
}

impl RejectionClass {
    /// The words for the class, which except for [`TooLarge`](Self::TooLarge) are those in the output of
    /// `git update-ref --batch-updates`.
    pub fn as_str(self) -> &'static str {
        match self {
            RejectionClass::NameConflict => "refname conflict",
            RejectionClass::CreateExists => "reference already exists",
            RejectionClass::NonexistentRef => "reference does not exist",
            RejectionClass::IncorrectOldValue => "incorrect old value provided",
            RejectionClass::InvalidNewValue => "invalid new value provided",
            RejectionClass::ExpectedSymref => "expected symref but found regular ref",
            RejectionClass::CaseConflict => "reference conflict due to case-insensitive filesystem",
            RejectionClass::TooLarge => "entry too large",
            RejectionClass::Generic => "unknown failure",
        }
    }
}

impl RejectionReason {
    /// The class of this reason: the one that git reports, if git has this reason.
    pub fn class(&self) -> RejectionClass {
        match self {
            RejectionReason::Missing => RejectionClass::NonexistentRef,
            // For a held lock, too, git names this class: it rejects one update of a batch, and the others go on.
            RejectionReason::Exists { .. } | RejectionReason::Locked { .. } | RejectionReason::LockedBySelf { .. } => {
                RejectionClass::CreateExists
            }
            RejectionReason::Mismatch { expected, actual } => match (expected, actual) {
                (_, None) => RejectionClass::NonexistentRef,
                (Target::Symbolic(_), Some(Target::Direct(_))) => RejectionClass::ExpectedSymref,
                (Target::Direct(_), Some(_)) | (Target::Symbolic(_), Some(Target::Symbolic(_))) => {
                    RejectionClass::IncorrectOldValue
                }
            },
            RejectionReason::Conflict { .. }
            | RejectionReason::Folder { .. }
            | RejectionReason::TargetEdited { .. }
            | RejectionReason::ReferentEdited { .. }
            | RejectionReason::BadTarget { .. } => RejectionClass::NameConflict,
            RejectionReason::NoObject { .. } | RejectionReason::NotACommit { .. } | RejectionReason::HeadIsKept => {
                RejectionClass::InvalidNewValue
            }
            RejectionReason::TooLarge => RejectionClass::TooLarge,
            RejectionReason::Unreadable
            | RejectionReason::Broken { .. }
            | RejectionReason::NoLock { .. }
            | RejectionReason::LogsBelow { .. } => RejectionClass::Generic,
        }
    }

    /// Returns whether git notices this reason while it locks the ref, and says "cannot lock ref".
    pub fn prevents_lock(&self) -> bool {
        match self {
            RejectionReason::Mismatch { expected: Target::Symbolic(_), actual: Some(Target::Symbolic(_)) }
            | RejectionReason::TargetEdited { .. }
            | RejectionReason::ReferentEdited { .. }
            | RejectionReason::BadTarget { .. }
            | RejectionReason::LogsBelow { .. }
            | RejectionReason::NoObject { .. }
            | RejectionReason::NotACommit { .. }
            | RejectionReason::TooLarge
            | RejectionReason::HeadIsKept => false,
            RejectionReason::Conflict { prevents_lock, .. } => *prevents_lock,
            RejectionReason::Missing
            | RejectionReason::Exists { .. }
            | RejectionReason::Mismatch { .. }
            | RejectionReason::Folder { .. }
            | RejectionReason::Unreadable
            | RejectionReason::Broken { .. }
            | RejectionReason::Locked { .. }
            | RejectionReason::LockedBySelf { .. }
            | RejectionReason::NoLock { .. } => true,
        }
    }
}

impl Rejection {
    /// Makes the rejection of an edit whose ref is not reached through a symbolic ref.
    pub fn of(name: RefName, reason: RejectionReason) -> Self {
        Rejection { given: name.clone(), resolved: name, reason }
    }

    /// The rejection of the edit of a claimed ref. A symbolic ref on disk may lead to a name that no [`RefName`] holds,
    /// in which case the error is about that name.
    pub(crate) fn of_claim(name: &BStr, reason: RejectionReason) -> Error {
        match RefName::new_safe(name.to_vec()) {
            Some(name) => Rejection::of(name, reason).into(),
            None => Misuse::BadName(name.to_owned()).into(),
        }
    }

    /// The class of the reason: the one that git reports, if git has this reason.
    pub fn class(&self) -> RejectionClass {
        self.reason.class()
    }
}

impl Rejection {
    /// The refnames that the text may mention, as they are; the text has U+FFFD for bytes that are not UTF-8. The
    /// targets of symbolic refs in a [`Mismatch`](RejectionReason::Mismatch) are not included.
    pub fn names(&self) -> impl Iterator<Item = &BStr> {
        let other = match &self.reason {
            RejectionReason::Conflict { with: other, .. }
            | RejectionReason::TargetEdited { target: other }
            | RejectionReason::ReferentEdited { referent: other }
            | RejectionReason::BadTarget { target: other }
            | RejectionReason::LockedBySelf { other, .. } => Some(other.as_ref()),
            _ => None,
        };
        [self.given.as_bstr(), self.resolved.as_bstr()].into_iter().chain(other)
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Rejection { given, resolved, reason } = self;
        if reason.prevents_lock() {
            write!(f, "cannot lock ref '{given}': ")?;
        }
        match reason {
            RejectionReason::Missing => write!(f, "unable to resolve reference '{resolved}'"),
            RejectionReason::Exists { is_dangling: true } => f.write_str("dangling symref already exists"),
            RejectionReason::Exists { is_dangling: false } => f.write_str("reference already exists"),
            RejectionReason::Mismatch { expected, actual: None } => {
                write!(f, "reference is missing but expected {}", shown(expected))
            }
            RejectionReason::Mismatch { expected, actual: Some(actual) } => mismatch(f, given, expected, actual),
            RejectionReason::Conflict { with, is_new: true, .. } => {
                write!(f, "cannot process '{resolved}' and '{with}' at the same time")
            }
            RejectionReason::Conflict { with, is_new: false, .. } => write!(f, "'{with}' exists; cannot create '{resolved}'"),
            RejectionReason::Folder { path } => {
                write!(f, "there is a non-empty directory '{}' blocking reference '{resolved}'", path.display())
            }
            RejectionReason::LogsBelow { path } => {
                write!(f, "cannot update the ref '{resolved}': there are still logs under '{}'", path.display())
            }
            RejectionReason::TargetEdited { target } => {
                write!(f, "multiple updates for '{target}' (including one via symref '{resolved}') are not allowed")
            }
            RejectionReason::ReferentEdited { referent } => {
                write!(f, "multiple updates for 'HEAD' (including one via its referent '{referent}') are not allowed")
            }
            RejectionReason::BadTarget { target } => write!(f, "refusing to update ref with bad name '{target}'"),
            RejectionReason::NoObject { id } => write!(f, "trying to write ref '{given}' with nonexistent object {id}"),
            RejectionReason::NotACommit { id } => write!(f, "trying to write non-commit object {id} to branch '{resolved}'"),
            RejectionReason::TooLarge => f.write_str("reftable: transaction failure: entry too large"),
            RejectionReason::HeadIsKept => f.write_str(
                "HEAD is not deleted, because git would not recognise the repository; let HEAD lead to a branch instead",
            ),
            RejectionReason::Unreadable => f.write_str("error reading reference"),
            RejectionReason::Broken { why } => write!(f, "unable to resolve reference '{resolved}': {}", why.words()),
            RejectionReason::Locked { path, age_seconds, uid } => write!(
                f,
                "Unable to create '{}': File exists.\n\nAnother git process seems to be running in this repository, or \
                 the lock file may be stale: it is {age_seconds} s old and belongs to user {uid}",
                path.display()
            ),
            RejectionReason::LockedBySelf { path, other } => write!(
                f,
                "Unable to create '{}': File exists.\n\nThis transaction holds it for '{other}', which leads to the same \
                 file",
                path.display()
            ),
            RejectionReason::NoLock { path, said, .. } => write!(f, "Unable to create '{}': {said}", path.display()),
        }
    }
}

fn mismatch(f: &mut fmt::Formatter<'_>, given: &RefName, expected: &Target, actual: &Target) -> fmt::Result {
    match (expected, actual) {
        (Target::Symbolic(expected), Target::Direct(_)) => {
            write!(f, "expected symref with target '{expected}': but is a regular ref")
        }
        (Target::Symbolic(expected), Target::Symbolic(actual)) => {
            write!(f, "verifying symref target: '{given}': is at {actual} but expected {expected}")
        }
        (Target::Direct(_), actual) => write!(f, "is at {} but expected {}", shown(actual), shown(expected)),
    }
}

fn shown(target: &Target) -> &dyn fmt::Display {
    match target {
        Target::Direct(id) => id,
        Target::Symbolic(name) => name,
    }
}
