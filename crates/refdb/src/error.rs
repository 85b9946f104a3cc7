use crate::files::LooseError;
use bstr::BString;
use refdb_types::{ObjectId, RefName};
use refdb_vfs::LockError;
use std::path::PathBuf;

/// What operations on a store return.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an operation on a store failed as a whole.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused.
    #[error(transparent)]
    Io(#[from] refdb_vfs::Error),
    /// A lock was not had in time.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// A stack of reftables could not be locked in time.
    #[error("cannot lock references: {0}")]
    StackLocked(#[source] LockError),
    /// A stack of reftables is broken, or cannot be read or written.
    #[error(transparent)]
    Stack(#[from] reftable::stack::StackError),
    /// A reftable is broken.
    #[error(transparent)]
    Table(#[from] reftable::Error),
    /// A ref's own file is no good. Others are not concerned: a list goes on behind it.
    #[error(transparent)]
    BrokenRef(Box<BrokenRef>),
    /// packed-refs or a reflog is broken.
    #[error("{}:{line}: {what}", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: u64,
        /// What is wrong with it, and what can be done.
        what: String,
    },
    /// An edit of an atomic transaction cannot happen, so nothing has.
    #[error("{0}")]
    Rejected(Rejection),
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] refdb_repo::ConfigError),
    /// Nobody can be named as the committer.
    #[error(transparent)]
    Ident(#[from] refdb_repo::IdentError),
    /// The object database gave no answer.
    #[error(transparent)]
    Objects(#[from] refdb_repo::ObjectError),
    /// The reference-transaction hook said no, or could not be run.
    #[error("{0}")]
    Hook(String),
    /// The caller asks for something that cannot be: two edits of one ref, a refused repository, a bad setting.
    #[error("{0}")]
    Refused(String),
}

/// A ref whose own file is no good. It exists, but nobody knows what it holds; a value beneath it in packed-refs is not its
/// value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: reference broken: {why}", path.display())]
pub struct BrokenRef {
    /// The ref.
    pub name: BString,
    /// Its file.
    pub path: PathBuf,
    /// What is wrong with the file.
    pub why: LooseError,
}

impl From<BrokenRef> for Error {
    fn from(broken: BrokenRef) -> Self {
        Error::BrokenRef(Box::new(broken))
    }
}

/// Why one edit of a transaction cannot happen. Its text is git's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejection {
    /// The ref that cannot change: where the edit leads if it names a symbolic ref, as in git's batch updates. The
    /// text names the ref as the caller gave it.
    pub name: RefName,
    /// The class of the reason, as `git update-ref --batch-updates` names it.
    pub reason: Reason,
    /// Git's sentence.
    pub text: String,
}

impl std::fmt::Display for Rejection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

/// The classes of reasons that `git update-ref --batch-updates` reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// A ref exists where this one needs a folder, or the reverse.
    NameConflict,
    /// It should not exist yet.
    CreateExists,
    /// It should exist.
    NonexistentRef,
    /// It has another value.
    IncorrectOldValue,
    /// The new value is no good: no such object, or not a commit for a branch.
    InvalidNewValue,
    /// A symbolic ref was expected.
    ExpectedSymref,
    /// It differs from another ref in case only, on a file system that does not tell them apart.
    CaseConflict,
    /// Anything else: a lock, a bad name.
    Generic,
}

impl Reason {
    /// The words in the output of `git update-ref --batch-updates`.
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::NameConflict => "refname conflict",
            Reason::CreateExists => "reference already exists",
            Reason::NonexistentRef => "reference does not exist",
            Reason::IncorrectOldValue => "incorrect old value provided",
            Reason::InvalidNewValue => "invalid new value provided",
            Reason::ExpectedSymref => "expected symref but found regular ref",
            Reason::CaseConflict => "reference conflict due to case-insensitive filesystem",
            Reason::Generic => "unknown failure",
        }
    }
}

impl Rejection {
    /// The text git gives when the checks under the lock fail: "cannot lock ref 'NAME': DETAIL".
    pub fn cannot_lock(name: &RefName, reason: Reason, detail: impl std::fmt::Display) -> Self {
        Rejection { name: name.clone(), reason, text: format!("cannot lock ref '{name}': {detail}") }
    }

    /// The ref has another value than the edit expects.
    pub fn is_at(name: &RefName, actual: ObjectId, expected: ObjectId) -> Self {
        Self::cannot_lock(name, Reason::IncorrectOldValue, format_args!("is at {actual} but expected {expected}"))
    }
}
