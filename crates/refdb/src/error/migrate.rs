//! Why refs cannot be migrated to another format: see [`Store::migrate`](crate::Store::migrate).

use super::Error;
use bstr::BString;
use std::{fmt, path::PathBuf};

/// The most refs and reflogs that an [`Unfit`] names.
const NAMED_MAX: usize = 10;

/// Why a migration failed. The migration has changed neither a ref nor the format, except after
/// [`Unfinished`](MigrateError::Unfinished), [`NotUndone`](MigrateError::NotUndone) and [`Store`](MigrateError::Store),
/// where the next run finishes or undoes what this one began. It may have finished or undone an earlier run first.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MigrateError {
    /// The refs have that format already.
    #[error("repository already uses '{0}' format")]
    SameFormat(&'static str),
    /// The refs are in memory and not on disk.
    #[error("refs in memory have no format that could be migrated")]
    InMemory,
    /// `extensions.refStorage` says that the refs lie in another folder.
    #[error("refs lie outside of the repository, in '{}'; migrating those is not supported", .0.display())]
    Elsewhere(PathBuf),
    /// `GIT_REFERENCE_BACKEND` outranks what the repository itself says.
    #[error("GIT_REFERENCE_BACKEND is set; unset it to migrate the refs that the repository has")]
    Environment,
    /// The migration was called in a linked worktree, and the `HEAD` of the main worktree, without which the repository
    /// is not recognised, is missing or invalid.
    #[error("the main worktree's '{}' is missing or no good; mend it first", .0.display())]
    MainHead(PathBuf),
    /// Another migration is in progress.
    #[error("another migration is running: {0}")]
    Running(#[source] refdb_vfs::LockError),
    /// Something exists at the path of a new file or folder.
    #[error("'{}' is in the way: it belongs to the other format; look at what it has, then move it away", .0.display())]
    InTheWay(PathBuf),
    /// Files that nobody reads lie where the new format has its refs.
    #[error(
        "files of the other format, which nobody reads, are in the way; look at what they have, then move them away:{}",
        listed(found, *more)
    )]
    Strays {
        /// The first of these files, at most 10, by their paths from the repository's folder.
        found: Vec<BString>,
        /// The number of files that are not named here.
        more: usize,
    },
    /// A folder or file that has to be moved is a symbolic link, or lies on another file system. A symbolic ref in the
    /// form of a link can be replaced by a file with `ref: ` and the name.
    #[error(
        "'{}' cannot be moved aside: it is a symbolic link or lies on another file system; replace it by its content",
        .0.display()
    )]
    NotMovable(PathBuf),
    /// A folder with the sticky bit belongs to another user, so that this user may not move the files of others in it.
    #[error("'{}' cannot be moved aside: it is another user's, and has the sticky bit", .0.display())]
    Sticky(PathBuf),
    /// The new format is in effect, but a later step failed: for instance, the old files could not be moved away.
    #[error(
        "refs have the '{to}' format now, but the old files are not out of the way: {why}; \
        mend this and run the same 'refs migrate' again: until then changes made meanwhile may be missing"
    )]
    Unfinished {
        /// The new format.
        to: &'static str,
        /// What failed.
        #[source]
        why: Box<MigrateError>,
    },
    /// A step failed before the new format took effect, and then files of the new format could not be removed. The next
    /// run removes them.
    #[error(
        "{why}; what was made for the new format could not all be removed: {left}; the next 'refs migrate' does it"
    )]
    NotUndone {
        /// Why the migration failed.
        #[source]
        why: Box<MigrateError>,
        /// Why files are left.
        left: Box<MigrateError>,
    },
    /// A worktree was added or removed meanwhile.
    #[error("a worktree was added or removed meanwhile; try again")]
    WorktreesChanged,
    /// A reflog has more than 2^32 entries, the most that a migration writes to a table.
    #[error("the reflog of '{0}' has too many entries: expire some")]
    LogTooLong(BString),
    /// Refs or reflogs that the other format cannot hold, or refs that cannot be read.
    #[error("{0}")]
    Unfit(Unfit),
    /// An operation on the store failed, for instance because a file could not be read or written.
    #[error(transparent)]
    Store(Error),
}

/// Converts an [`Error`], and whatever converts into one, into [`MigrateError::Store`].
impl<E: Into<Error>> From<E> for MigrateError {
    fn from(error: E) -> Self {
        MigrateError::Store(error.into())
    }
}

/// Refs or reflogs that cannot be carried over, each with its reason.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Unfit {
    /// The first of these refs or reflogs, at most 10, each with its reason.
    pub named: Vec<String>,
    /// The number of all of them, named or not.
    pub count: usize,
}

fn listed(found: &[BString], more: usize) -> String {
    let mut text: String = found.iter().map(|path| format!("\n  {path}")).collect();
    if more > 0 {
        text.push_str(&format!("\n  and {more} more"));
    }
    text
}

impl Unfit {
    pub(crate) fn add(&mut self, what: impl fmt::Display) {
        self.count += 1;
        if self.named.len() < NAMED_MAX {
            self.named.push(what.to_string());
        }
    }

    /// Returns an error if any ref or reflog cannot be carried over.
    pub(crate) fn check(self) -> Result<(), MigrateError> {
        debug_assert!(self.named.len() <= self.count, "each that is named is counted");
        if self.count == 0 { Ok(()) } else { Err(MigrateError::Unfit(self)) }
    }
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "some refs cannot be carried over; mend or delete them first")?;
        for what in &self.named {
            write!(f, "\n  {what}")?;
        }
        match self.count - self.named.len() {
            0 => Ok(()),
            more => write!(f, "\n  and {more} more"),
        }
    }
}
