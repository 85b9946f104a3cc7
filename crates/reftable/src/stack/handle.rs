use super::{
    Durability, Listed, Snapshot, StackError, StackOptions, TableName,
    backoff::Backoff,
    list::{self, LIST_FILE},
    name::sum_of,
    options::NEW_FILE_MODE,
    snapshot::{ListFile, merge},
};
use refdb_vfs::{Acquired, Crowd, File, Fs, Lock, LockTimeout};
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock},
    time::{Duration, SystemTime},
};

/// For how long after a list was replaced JGit reads it again instead of trusting the file's attributes. This helps
/// only if JGit, after it has read an older list, notes the attributes within that time.
const JGIT_LOOKS_FOR: Duration = Duration::from_secs(60);

/// An open stack. Clones share the same open stack, and threads can use it at the same time.
///
/// # Atomicity
///
/// `tables.list` names the tables, the oldest first. A writer replaces it by a rename while it holds
/// `tables.list.lock`, so a change becomes visible as a whole at that moment, also after a kill, and with
/// [`Durability::Sync`] after a loss of power. Tables never change, so a [`Snapshot`] stays as it was read.
#[derive(Clone, Debug)]
pub struct Stack(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    fs: Fs,
    dir: PathBuf,
    list_path: PathBuf,
    options: StackOptions,
    current: RwLock<Snapshot>,
    /// The last sequence number that was assigned. It is locked from reading or replacing the list on disk until the
    /// result has become `current`, so that an older state never replaces a newer one.
    publishing: Mutex<u64>,
    backoff: Mutex<Backoff>,
    /// What processes must agree on to wait in one queue and write together, and a checksum of that.
    terms: OnceLock<(String, u8)>,
}

impl Stack {
    /// Opens the stack in the folder `dir`. A folder without a `tables.list` is an empty stack.
    ///
    /// # Errors
    ///
    /// If the list or a table cannot be read or is invalid, or if a listed table is missing or has object ids of
    /// another hash function than `options` name.
    pub fn open(fs: Fs, dir: &Path, options: StackOptions) -> Result<Self, StackError> {
        let nothing = Snapshot::new(0, ListFile::absent(), Vec::new(), merge(&[])?);
        let stack = Stack(Arc::new(Shared {
            fs,
            dir: dir.to_owned(),
            list_path: Stack::list_path_in(dir),
            options,
            current: RwLock::new(nothing),
            publishing: Mutex::new(0),
            backoff: Mutex::default(),
            terms: OnceLock::new(),
        }));
        stack.reload()?;
        Ok(stack)
    }

    /// Returns the stack as it was last seen, without access to the disk.
    pub fn snapshot(&self) -> Snapshot {
        self.0.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns whether [`snapshot`](Self::snapshot) is still the state on disk. This takes one stat call, two the first
    /// time after a change, or on a network file system the reading of `tables.list`.
    ///
    /// # Errors
    ///
    /// If the list cannot be examined.
    pub fn is_fresh(&self) -> Result<bool, StackError> {
        Ok(self.snapshot().list().is_current(self.fs(), self.list_path())?)
    }

    /// Reads the list again, opens the tables that are new in it, and returns the snapshot. Nothing is removed.
    ///
    /// If a table vanishes while the list is read, because another process compacts the stack, the list is read again,
    /// for up to a minute.
    ///
    /// # Errors
    ///
    /// As for [`open`](Self::open).
    pub fn reload(&self) -> Result<Snapshot, StackError> {
        let mut publisher = self.publisher();
        let snapshot = self.load(&self.snapshot(), *publisher.sequence + 1)?;
        publisher.publish(&snapshot);
        Ok(snapshot)
    }

    /// Returns the snapshot if it is fresh, and [reloads](Self::reload) it otherwise.
    ///
    /// # Errors
    ///
    /// As for [`reload`](Self::reload).
    pub fn refresh(&self) -> Result<Snapshot, StackError> {
        let known = self.snapshot();
        if known.list().is_current(self.fs(), self.list_path())? { Ok(known) } else { self.reload() }
    }

    pub(super) fn lock_list(&self, lock_timeout: LockTimeout) -> Result<Lock, StackError> {
        self.lock_list_or_join(lock_timeout, false, None).map(Acquired::into_lock)
    }

    /// Locks the list, or gets a turn under the lock of another writer if this one `joins`.
    pub(super) fn lock_list_or_join(
        &self,
        lock_timeout: LockTimeout,
        joins: bool,
        crowd: Option<Crowd>,
    ) -> Result<Acquired, StackError> {
        let (terms, _) = self.terms();
        Ok(Lock::acquire_or_join(self.fs(), self.list_path(), NEW_FILE_MODE, lock_timeout, terms, joins, crowd)?)
    }

    fn terms(&self) -> &(String, u8) {
        self.0.terms.get_or_init(|| {
            let terms = self.options().terms();
            let sum = sum_of(0, terms.as_bytes());
            (terms, sum)
        })
    }

    /// A number that is the same for all writers that wait in one queue for this stack, and most likely another one for
    /// others.
    pub(super) fn writers(&self) -> u8 {
        self.terms().1
    }

    /// Writes the new list into the lock's content file, syncs it if the durability requires that, and with it the
    /// `unsynced` files of new tables, renames it into place, and publishes `tables` to the readers of this open stack.
    /// After an error the list is unchanged, unless the server of a network file system carries out the rename
    /// nevertheless.
    pub(super) fn replace_list(
        &self,
        mut lock: Lock,
        tables: Vec<Listed>,
        unsynced: Vec<File>,
    ) -> Result<(), StackError> {
        assert_eq!(lock.target(), self.list_path(), "the list is replaced under its own lock");
        let mut content = list::format(tables.iter().map(|listed| &listed.name));
        debug_assert!(
            list::table_names(&content).is_ok_and(|names| names.iter().eq(tables.iter().map(|listed| &listed.name))),
            "a list is read as it was written, and names no table twice: {tables:?}"
        );
        if lock.is_led() {
            // If this process is aborted now, the file must keep the lock's name: members take a written list
            // without that name for one that has replaced the stack's list.
            lock.keep_content();
            if content.is_empty() {
                // To members an empty file without a name is a list that was never written. Readers, which include
                // git and JGit, skip empty lines.
                content.push(b'\n');
            }
        }
        let file = lock.content()?;
        self.options().permit(file)?;
        file.write_all(&content)?;
        self.make_jgit_look_again(file);
        if unsynced.is_empty() {
            match self.options().durability {
                Durability::None => self.fs().deliver(file)?,
                Durability::Sync => file.sync()?,
            }
            // The names of the tables must be durable before the list that mentions them.
            self.sync_names()?;
        } else {
            let files = unsynced.into_iter().chain([file.duplicate()?]).collect();
            self.fs().sync_together(files, &BTreeSet::from([self.dir().to_owned()]))?;
        }
        // The rename is the point of no return, so everything that can fail comes before it.
        let merged = merge(&tables)?;
        let mut publisher = self.publisher();
        let file = lock.commit()?.filter(|_| !self.fs().asks_server());
        let snapshot = Snapshot::new(*publisher.sequence + 1, ListFile::new(content, file), tables, merged);
        publisher.publish(&snapshot);
        Ok(())
    }

    /// Gives the new list a time of modification that is [`JGIT_LOOKS_FOR`] ahead of the clock.
    ///
    /// JGit 7.2 to 7.8 reads the list, and then notes the size, time and inode of the file that has the name now. If
    /// the list was replaced in between, it takes the old tables for those of the new list, and its next compaction
    /// drops the tables that were added. It trusts only times that are past when it notes them. As a file system may
    /// refuse to set the time, and as nothing else depends on it, an error is no reason to fail. On a network file
    /// system this would be one more request to the server.
    fn make_jgit_look_again(&self, list: &File) {
        if !self.fs().asks_server() && !refdb_vfs::planted("reftable-list-time") {
            let _ = list.set_modified(SystemTime::now() + JGIT_LOOKS_FOR);
        }
    }

    pub(super) fn backoff(&self) -> MutexGuard<'_, Backoff> {
        self.0.backoff.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn publisher(&self) -> Publisher<'_> {
        let sequence = self.0.publishing.lock().unwrap_or_else(PoisonError::into_inner);
        Publisher { current: &self.0.current, sequence }
    }

    /// Syncs the folder if the durability requires it.
    pub(super) fn sync_names(&self) -> refdb_vfs::Result<()> {
        match self.options().durability {
            Durability::None => Ok(()),
            Durability::Sync => self.fs().sync_dir(self.dir()),
        }
    }

    /// The path of `tables.list` in the folder of a stack. The lock of that file is the lock of the stack.
    pub fn list_path_in(dir: &Path) -> PathBuf {
        dir.join(LIST_FILE)
    }

    /// The folder of the stack.
    pub fn dir(&self) -> &Path {
        &self.0.dir
    }

    /// The path of `tables.list`.
    pub fn list_path(&self) -> &Path {
        &self.0.list_path
    }

    /// The options with which the stack was opened.
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

/// The exclusive right to replace the current snapshot.
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
