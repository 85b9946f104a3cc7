use crate::Result;
use bstr::BString;
use refdb_types::{RefName, Target};
use std::sync::Arc;

/// A single edit: the change to make to a ref, and the precondition for it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Edit {
    /// The ref as the caller names it. If `deref` is set, it may be a symbolic ref; the ref that it leads to then
    /// changes.
    pub name: RefName,
    /// The change to make.
    pub change: Change,
    /// The precondition, which is checked under the lock.
    pub expected: Precondition,
    /// Whether the edit follows a symbolic ref to the ref that it leads to: the opposite of git's `--no-deref`.
    pub deref: bool,
    /// What to write to the reflog.
    pub log: LogOptions,
}

/// The change to make to a ref.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change {
    /// Give the ref this value, whether it exists or not.
    Set(Target),
    /// Remove the ref together with its reflog. Reftables and memory keep the reflog of a symbolic ref, as git does in
    /// reftables.
    Delete,
    /// Change nothing, and only check the precondition.
    Verify,
}

/// What must hold for an edit to happen. `T` is the type of a value, which is [`Target`] for callers.
///
/// Except with [`Any`](Self::Any), an edit of a symbolic ref itself is also rejected if the ref cannot be followed
/// ([`Unreadable`](crate::RejectionReason::Unreadable)), unless
/// [`allow_broken`](crate::TransactionOptions::allow_broken) is set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Precondition<T = Target> {
    /// Nothing: the edit happens whatever the ref holds.
    Any,
    /// The ref exists, whatever its value.
    MustExist,
    /// The ref does not exist, or holds the null id.
    MustNotExist,
    /// The ref exists and has this value. If the value is an object, a symbolic ref that leads to the object matches.
    MustMatch(T),
    /// The ref has this value, as in [`MustMatch`](Self::MustMatch), if it exists.
    ExistingMustMatch(T),
}

impl<T> Precondition<T> {
    /// The value that the ref must have, if the precondition names one.
    pub fn value(&self) -> Option<&T> {
        match self {
            Precondition::MustMatch(value) | Precondition::ExistingMustMatch(value) => Some(value),
            Precondition::Any | Precondition::MustExist | Precondition::MustNotExist => None,
        }
    }

    /// Converts the value of the condition to another type.
    pub(crate) fn try_map<U>(&self, convert: impl FnOnce(&T) -> Result<U>) -> Result<Precondition<U>> {
        Ok(match self {
            Precondition::Any => Precondition::Any,
            Precondition::MustExist => Precondition::MustExist,
            Precondition::MustNotExist => Precondition::MustNotExist,
            Precondition::MustMatch(value) => Precondition::MustMatch(convert(value)?),
            Precondition::ExistingMustMatch(value) => Precondition::ExistingMustMatch(convert(value)?),
        })
    }
}

/// What a change leaves in the reflog.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct LogOptions {
    /// The entry's message; shared, since most transactions have one for all edits.
    pub message: Option<Arc<BString>>,
    /// Create the reflog for the entry if there is none, whatever `core.logAllRefUpdates` says. This has no effect on a
    /// deletion.
    pub force_create: bool,
    /// Write no entry.
    pub suppress: bool,
    /// For a rename: the ref whose reflog this ref takes over. The same transaction must delete that ref itself, even if
    /// it is symbolic, and be made as a whole ([`Mode::Atomic`](crate::Mode::Atomic)).
    pub take_over: Option<RefName>,
}

impl LogOptions {
    /// The defaults.
    pub fn new() -> Self {
        LogOptions::default()
    }

    /// Sets [`LogOptions::message`](#structfield.message).
    #[must_use]
    pub fn message(mut self, message: impl Into<Option<Arc<BString>>>) -> Self {
        self.message = message.into();
        self
    }

    /// Sets [`LogOptions::force_create`](#structfield.force_create).
    #[must_use]
    pub fn force_create(mut self, force_create: bool) -> Self {
        self.force_create = force_create;
        self
    }

    /// Sets [`LogOptions::suppress`](#structfield.suppress).
    #[must_use]
    pub fn suppress(mut self, suppress: bool) -> Self {
        self.suppress = suppress;
        self
    }

    /// Sets [`LogOptions::take_over`](#structfield.take_over).
    #[must_use]
    pub fn take_over(mut self, take_over: impl Into<Option<RefName>>) -> Self {
        self.take_over = take_over.into();
        self
    }
}

impl Edit {
    /// An edit without a reflog message that follows symbolic refs, as `git update-ref` does by default.
    pub fn new(name: RefName, change: Change, expected: Precondition) -> Self {
        Edit { name, change, expected, deref: true, log: LogOptions::default() }
    }
}
