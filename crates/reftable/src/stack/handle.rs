use super::{
    Durability, Listed, Snapshot, StackError, StackOptions, TableName,
    courtesy::Courtesy,
    list::{self, LIST_FILE},
    options::NEW_FILE_MODE,
    snapshot::{ListFile, merge},
};
use refdb_vfs::{Fs, Lock, Patience};
use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
};

/// An open stack. Clones are the same open stack; threads may share it.
///
/// `tables.list` names the tables, the oldest first. It is only ever replaced by a rename, under `tables.list.lock`: at
/// that moment a change becomes visible, whole. Tables are never changed, so a [`Snapshot`](super::Snapshot) stays as
/// it was read.
#[derive(Clone, Debug)]
pub struct Stack(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    fs: Fs,
    dir: PathBuf,
    list_path: PathBuf,
    options: StackOptions,
    current: RwLock<Snapshot>,
    /// Held from the look at the list on disk until its result is `current`. So an older view never replaces a newer
    /// one. It holds the last sequence number given away.
    publishing: Mutex<u64>,
    courtesy: Mutex<Courtesy>,
}

impl Stack {
    /// Opens the stack in the folder `dir`. A folder without a list is an empty stack.
    pub fn open(fs: Fs, dir: &Path, options: StackOptions) -> Result<Self, StackError> {
        let nothing = Snapshot::new(0, ListFile::absent(), Vec::new(), merge(&[])?);
        let stack = Stack(Arc::new(Shared {
            fs,
            dir: dir.to_owned(),
            list_path: Stack::list_path_in(dir),
            options,
            current: RwLock::new(nothing),
            publishing: Mutex::new(0),
            courtesy: Mutex::default(),
        }));
        stack.reload()?;
        Ok(stack)
    }

    /// The stack as it was last seen. See [`is_fresh`](Self::is_fresh) and [`reload`](Self::reload).
    pub fn snapshot(&self) -> Snapshot {
        self.0.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether the stack on disk is still what [`snapshot`](Self::snapshot) shows, by one stat.
    pub fn is_fresh(&self) -> Result<bool, StackError> {
        Ok(self.snapshot().list().is_current(self.fs(), self.list_path())?)
    }

    /// Reads the list again, opens the tables that are new in it, and returns the snapshot. It deletes nothing.
    pub fn reload(&self) -> Result<Snapshot, StackError> {
        let mut publisher = self.publisher();
        let snapshot = self.load(&self.snapshot(), *publisher.sequence + 1)?;
        publisher.publish(&snapshot);
        Ok(snapshot)
    }

    /// The snapshot if it is fresh, else a reloaded one.
    pub fn refresh(&self) -> Result<Snapshot, StackError> {
        let known = self.snapshot();
        if known.list().is_current(self.fs(), self.list_path())? { Ok(known) } else { self.reload() }
    }

    pub(super) fn lock_list(&self, patience: Patience) -> Result<Lock, StackError> {
        Ok(Lock::acquire(self.fs(), self.list_path(), NEW_FILE_MODE, patience)?)
    }

    /// Writes the new list as the lock's content, puts it in place, and shows `tables` to readers. An error leaves the
    /// list as it was, but for [`StackError::NotDurable`].
    pub(super) fn replace_list(&self, mut lock: Lock, tables: Vec<Listed>) -> Result<Snapshot, StackError> {
        assert_eq!(lock.target(), self.list_path(), "the list is replaced under its own lock");
        let content = list::format(tables.iter().map(|listed| &listed.name));
        debug_assert!(
            list::table_names(&content).is_ok_and(|names| names.iter().eq(tables.iter().map(|listed| &listed.name))),
            "a list is read as it was written, and names no table twice: {tables:?}"
        );
        let file = lock.content()?;
        self.options().permit(file)?;
        file.write_all(&content)?;
        self.options().make_durable(file)?;
        // No list shall last whose tables' names do not.
        self.sync_names()?;
        // What can fail comes before the rename, which is the point of no return.
        let merged = merge(&tables)?;
        let mut publisher = self.publisher();
        let file = lock.commit()?;
        let snapshot = Snapshot::new(*publisher.sequence + 1, ListFile::new(content, file), tables, merged);
        publisher.publish(&snapshot);
        Ok(snapshot)
    }

    pub(super) fn courtesy(&self) -> MutexGuard<'_, Courtesy> {
        self.0.courtesy.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn publisher(&self) -> Publisher<'_> {
        let sequence = self.0.publishing.lock().unwrap_or_else(PoisonError::into_inner);
        Publisher { current: &self.0.current, sequence }
    }

    /// Brings the names in the folder to stable storage if that is asked for.
    pub(super) fn sync_names(&self) -> refdb_vfs::Result<()> {
        match self.options().durability {
            Durability::None => Ok(()),
            Durability::Sync => self.fs().sync_dir(self.dir()),
        }
    }

    /// The path of `tables.list` in a stack's folder. Its lock is that of the stack.
    pub fn list_path_in(dir: &Path) -> PathBuf {
        dir.join(LIST_FILE)
    }

    /// The folder.
    pub fn dir(&self) -> &Path {
        &self.0.dir
    }

    /// The path of `tables.list`.
    pub fn list_path(&self) -> &Path {
        &self.0.list_path
    }

    /// How it is read and written.
    pub fn options(&self) -> &StackOptions {
        &self.0.options
    }

    pub(super) fn fs(&self) -> &Fs {
        &self.0.fs
    }

    pub(super) fn path_of(&self, name: &TableName) -> PathBuf {
        name.path_in(self.dir())
    }
}

/// The right to say what the stack's snapshot is.
struct Publisher<'a> {
    current: &'a RwLock<Snapshot>,
    sequence: MutexGuard<'a, u64>,
}

impl Publisher<'_> {
    fn publish(&mut self, snapshot: &Snapshot) {
        assert!(*self.sequence <= snapshot.sequence(), "an older view never replaces a newer one");
        *self.sequence = snapshot.sequence();
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = snapshot.clone();
    }
}
