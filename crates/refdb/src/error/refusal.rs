//! Why a whole operation is refused although nothing is corrupt: a mistake of the caller, a limit, or the global ref
//! database.

use bstr::BString;
use refdb_types::RefName;
use std::path::PathBuf;

/// The caller asked for something impossible or forbidden. No ref has changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Misuse {
    /// A ref of this name must not be written.
    #[error("refusing to update ref with bad name '{0}'")]
    BadName(BString),
    /// The name is a worktree's, not a ref's.
    #[error("refusing to update ref with bad name '{0}': it is a worktree; its refs are '{0}/HEAD' and so on")]
    Worktree(RefName),
    /// Git itself writes the file of this name, which is no ref: `FETCH_HEAD`, `MERGE_HEAD`.
    #[error("refusing to update pseudoref '{0}'")]
    Pseudoref(RefName),
    /// A ref of this name would be a file that git, one of its extensions or refdb uses for something else: `config`,
    /// `lfs/objects`.
    #[error("refusing to update ref with bad name '{0}': git keeps something else in the file of this name")]
    FileOfGit(RefName),
    /// The reflog of this ref is to be taken over, but the ref is not sure to go: the transaction does not delete it, or
    /// is made [edit by edit](crate::Mode::PerEdit).
    #[error("cannot take over the reflog of '{0}': only an atomic transaction that deletes '{0}' can do that")]
    LogOfOther(BString),
    /// A transaction has two edits of one ref.
    #[error("multiple updates for ref '{one}' not allowed{}", if one == other { String::new() } else { format!(": '{other}' is the same ref") })]
    Twice {
        /// One name of the ref.
        one: BString,
        /// The other name of the ref, or the same name again.
        other: BString,
    },
    /// `GIT_QUARANTINE_PATH` is set in the store's environment: a pre-receive hook must not change refs, since the
    /// objects may still be thrown away. [`Store::open`](crate::Store::open) ignores the variable.
    #[error("ref updates forbidden inside quarantine environment")]
    Quarantine,
    /// A global ref database decides about these refs, and only servers that ask it may change them.
    #[error(
        "refusing to update refs of '{}': only servers that ask the global ref database may change them, since the \
         repository's configuration has refdb.global = {value} (docs/operating/cluster.md says how to end that)",
        folder.display()
    )]
    Global {
        /// The repository.
        folder: PathBuf,
        /// What `refdb.global` says.
        value: BString,
    },
    /// On this network file system an update could be lost.
    #[error(
        "refusing to write refs of '{}': {why}; refdb.unsafeStorage=true writes nevertheless, and can lose updates",
        folder.display()
    )]
    UnsafeStorage {
        /// The repository.
        folder: PathBuf,
        /// What is wrong with the mount, and the remedy.
        why: &'static str,
    },
    /// A setting that writers need has a value that cannot be used.
    #[error(transparent)]
    Setting(refdb_repo::config::BadSetting),
    /// A value is an object id of another hash function, or text that is no id.
    #[error("'{0}' is no object id of this repository")]
    BadId(String),
    /// The paths of two worktrees lead to one folder.
    #[error("cannot lock references: '{}' and '{}' are one folder; use one name for it", one.display(), other.display())]
    OneFolder {
        /// One of the two paths.
        one: PathBuf,
        /// The other path.
        other: PathBuf,
    },
    /// A prepared transaction of this thread holds the lock that the new one needs, so that waiting would be in vain.
    #[error("cannot lock references: a prepared transaction of this thread holds '{}'; commit it or give it up first", folder.display())]
    OwnLock {
        /// The folder of the locked stack of reftables, or `refs in memory`.
        folder: PathBuf,
    },
}

/// Why a transaction did not get the agreement of the global ref database.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Undecided {
    /// The database did not agree.
    #[error("the global ref database did not agree to the update")]
    NotAgreed,
    /// The database gave no answer. The intent stays, and its refs cannot be changed until it is settled.
    #[error("the global ref database gave no answer, so whether the update happens is not known yet ('{}')", .0.display())]
    Unknown(PathBuf),
    /// The transaction has too many refs for an intent. Neither the database nor any ref has changed.
    #[error(
        "{refs} refs are too many for one transaction of the global ref database, whose record may have at most {len_max_bytes} bytes; update fewer at once"
    )]
    TooLarge {
        /// The number of refs in the transaction.
        refs: usize,
        /// The largest number of bytes that the intent may have.
        len_max_bytes: usize,
    },
    /// An earlier transaction has an intent on one of the refs, or on a ref whose name conflicts with one of them.
    #[error("an update of '{name}' by node {owner} is not decided yet: it waits for the global ref database ('{}')", path.display())]
    Open {
        /// The ref that is in the intent.
        name: RefName,
        /// The node that began the transaction, as the intent names it.
        owner: BString,
        /// The file of the intent.
        path: PathBuf,
    },
}

/// A limit was reached. No ref has changed; trying again, or with less, may help.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Limit {
    /// A transaction has more than 2^32 edits.
    #[error("too many edits")]
    Edits,
    /// The names of a transaction need more than 4 GiB.
    #[error("too many refs in one transaction: their names exceed 4 GiB")]
    Names,
    /// In each of 100 attempts to prepare the transaction, a symbolic ref did not lead where it was thought to lead,
    /// usually because another writer had changed it. A chain of that many symbolic refs, each of which is found in an
    /// attempt of its own, is the other reason.
    #[error(
        "in each of 100 attempts to lock symbolic refs, one of them led elsewhere than was known: others change them, or \
         they are a chain of as many"
    )]
    Attempts,
    /// In each of six attempts to pack refs, other programs changed packed-refs or removed loose refs. Nothing was
    /// packed.
    #[error("other programs packed the same refs again and again; try again when they are finished")]
    Packing,
    /// A chain of symbolic links is too long.
    #[error("too many symbolic links lead from '{}'", .0.display())]
    Links(PathBuf),
    /// A worktree was created while the transaction began.
    #[error("'{}' was created while the transaction began; try again", .0.display())]
    Meanwhile(PathBuf),
    /// A batch is in progress, or somebody else holds a lock of a batch that was not finished.
    #[error("'{}': a batch of refs is not finished; try again, or see `refdb stat`", .0.display())]
    Unrecovered(PathBuf),
    /// The lock of the stack, or of one of its tables, did not become free in time for a compaction.
    #[error("unable to compact stack: data is locked")]
    StackLocked,
}
