use bstr::BString;
use refdb_types::{RefName, Target};
use std::sync::Arc;

/// One wish of a transaction: what shall become of a ref, and what must hold for it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Edit {
    /// The ref as the caller names it. With `deref` it may be a symbolic ref that leads to the one that changes.
    pub name: RefName,
    /// What shall become of it.
    pub change: Change,
    /// What must hold, checked under the lock.
    pub expected: Precondition,
    /// Whether a symbolic ref stands for the ref it leads to. (git's REF_NO_DEREF, turned round.)
    pub deref: bool,
    /// What the reflog shall say.
    pub log: LogOptions,
}

/// What shall become of a ref.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change {
    /// It gets this value, whether it exists or not.
    Set(Target),
    /// It goes away, with its reflog.
    Delete,
    /// Nothing: only the precondition is checked, under the lock.
    Verify,
}

/// What must hold for an edit to happen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Precondition {
    /// Anything.
    Any,
    /// The ref exists, whatever its value.
    MustExist,
    /// The ref does not exist.
    MustNotExist,
    /// The ref exists and has this value.
    MustMatch(Target),
    /// The ref has this value if it exists.
    ExistingMustMatch(Target),
}

/// What a change leaves in the reflog, where the repository's settings or an existing reflog ask for an entry.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LogOptions {
    /// The entry's message; shared, since most transactions have one for all edits.
    pub message: Option<Arc<BString>>,
    /// Write an entry whatever `core.logAllRefUpdates` says.
    pub force_create: bool,
    /// Write none.
    pub suppress: bool,
    /// Take over the reflog of this ref, which the same transaction deletes: a rename.
    pub take_over: Option<RefName>,
}

impl Edit {
    /// An edit without a reflog message that follows symbolic refs, as `git update-ref` does by default.
    pub fn new(name: RefName, change: Change, expected: Precondition) -> Self {
        Edit { name, change, expected, deref: true, log: LogOptions::default() }
    }
}
