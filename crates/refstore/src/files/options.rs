use crate::Result;
use refdb_types::{HashKind, ObjectId};
use refdb_vfs::{Fs, Patience};
use std::{path::PathBuf, sync::Arc};

/// What the files backend has to know of a repository. All of it is context: nothing has a default.
#[derive(Clone)]
pub struct FilesOptions {
    /// Where changes go through.
    pub fs: Fs,
    /// The worktree's own folder: `HEAD`, `refs/bisect/`.
    pub git_dir: PathBuf,
    /// The repository's folder: `packed-refs`, `refs/`. The same as `git_dir` in the main worktree.
    pub common_dir: PathBuf,
    /// The repository's hash function.
    pub hash: HashKind,
    /// How packed-refs is read.
    pub access: PackedAccess,
    /// Permission bits that `core.sharedRepository` adds to what the umask leaves; 0 for none.
    pub shared_mode: u32,
    /// `core.filesRefLockTimeout`, if set.
    pub ref_patience: Option<Patience>,
    /// `core.packedRefsTimeout`, if set.
    pub packed_patience: Option<Patience>,
    /// Whether refs are synced to stable storage (`core.fsync`).
    pub sync: bool,
    /// Tells what the objects behind annotated tags are: packed-refs records it.
    pub peeler: Arc<dyn Peeler>,
}

/// How packed-refs is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PackedAccess {
    /// Mapped: the quickest, for short-lived processes.
    Mapped,
    /// Into private memory, which nobody can truncate: for servers.
    InMemory,
}

/// Looks into the object database for what packed-refs records beside a ref.
pub trait Peeler: Send + Sync {
    /// What `id` is, and what it leads to if it is an annotated tag.
    fn peel(&self, id: &ObjectId) -> Result<Peeling>;
}

/// What a [`Peeler`] found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Peeling {
    /// There is no such object, or it cannot be read.
    Missing,
    /// It is no tag, or a tag that leads nowhere.
    NotTag,
    /// It is a tag that leads to this object.
    To(ObjectId),
}
