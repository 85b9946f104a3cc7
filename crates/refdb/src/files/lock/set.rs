//! The locks of one transaction: loose names in byte order, packed-refs last.
//!
//! Only the first lock is waited for at length, except by [`Locks::add_packed`]. A transaction that holds locks waits
//! at most [`NEXT_LOCK_TIMEOUT`] for each holder of the next one, then releases all of them, waits while it holds none,
//! and starts over, so that no two processes wait for each other for long. Once the lock of a ref has been waited for
//! in vain, the next ones are waited for as briefly, and it starts over only for the sake of packed-refs.

use crate::files::{loose::folders, store::Store, strategy::WritePlan};
use crate::{
    Error, RejectionReason, Result,
    backend::{Claim, Claims},
};
use bstr::{BStr, BString, ByteSlice};
use refdb_vfs::{DetachedLock, Fs, Lock, LockError, LockSource, LockTimeout, Stat, interrupt};
use std::{
    collections::BTreeMap,
    ffi::OsStr,
    io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// How long to wait for a lock if the configuration says nothing: longer than writers usually hold one.
const GENEROUS: LockTimeout = LockTimeout::For(Duration::from_secs(10));

/// How long to wait for one holder of a lock while others are held, after another lock was waited for in vain, or if
/// the caller can do without the lock, unless less is configured.
const NEXT_LOCK_TIMEOUT: Duration = Duration::from_millis(100);

/// The most locks of single refs whose files stay open between locking and writing. The files to which locks are links,
/// and the lock of packed-refs, are not among them.
const OPEN_MAX: usize = 64;

/// How a claimed ref is locked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Held {
    /// Not locked by this set: not locked yet, refused, released, or its guard was taken out.
    No,
    /// By a lock file without a guard: usually a hard link to a shared file, else that file or an unsigned lock.
    Linked(DetachedLock),
    /// By a lock with a guard, at this index of `own`.
    Own(usize),
}

/// All locks of a transaction. Dropping this releases them and removes the folders that were created for them and are
/// empty, unless the locks are to outlive this value.
pub(crate) struct Locks {
    store: Arc<Store>,
    names: Names,
    held: Vec<Held>,
    own: Vec<Option<Lock>>,
    /// Files that other locks are links to, the newest last. If they are signed (their first line names the owning
    /// process), so are the links, as long as these files are open; so they are closed last.
    sources: Vec<LockSource>,
    made: Vec<PathBuf>,
    packed: Option<Lock>,
    any: bool,
    /// Whether locks of refs are not to be waited for at length: one was waited for in vain, or the caller can do
    /// without them.
    waits_briefly: bool,
    /// Whether there is only one claim.
    is_single: bool,
    /// Whether the locks are those of a small batch, all of them links to its journal file.
    is_batch: bool,
    /// Whether a lock failed because it could not be a link to the journal file.
    cannot_sign: bool,
    /// Whether the locks stay when this is dropped, because there may be a journal entry.
    outlive_us: bool,
    /// Working memory for paths.
    buffer: Vec<u8>,
}

/// The names of a transaction's claims in byte order, without an allocation for each.
#[derive(Default)]
pub(crate) struct Names {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Names {
    pub(crate) fn push(&mut self, name: &BStr) {
        debug_assert!(self.last() < Some(name), "locks are taken in order of name, each once: {name}");
        self.bytes.extend_from_slice(name);
        self.ends.push(self.bytes.len());
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    fn last(&self) -> Option<&BStr> {
        self.ends.len().checked_sub(1).map(|last| self.get(last))
    }

    pub(crate) fn get(&self, at: usize) -> &BStr {
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        self.bytes[start..self.ends[at]].as_bstr()
    }
}

/// How many times all locks are released and taken again because somebody else holds one of them. After that, or once
/// waiting for the lock has timed out, a claim whose lock somebody else holds is refused, and a held packed-refs fails
/// the transaction.
const STARTS_MAX: usize = 100;

/// Why an attempt to lock everything ended.
enum Stop {
    /// Somebody else holds the lock of this claim (`None`: packed-refs) while this transaction holds other locks.
    Blocked(Option<usize>, PathBuf, LockError),
    /// The transaction fails with this error: a signal arrived, or packed-refs cannot be locked.
    Fatal(Error),
    /// A lock cannot be a link to the journal file, so the transaction cannot be a small batch.
    NoBatch,
}

/// Locks, and the claims that were refused.
pub(crate) type Locked = (Locks, Vec<(usize, RejectionReason)>);

/// Locks every claim that can be locked, and refuses the others. For a small batch `journal_file` is its journal file;
/// `None` is returned if a lock cannot be a link to it.
pub(crate) fn lock(
    store: &Arc<Store>,
    claims: &dyn Claims,
    plan: WritePlan,
    journal_file: Option<&Path>,
) -> Result<Option<Locked>> {
    lock_patiently(store, claims, plan, journal_file, true)
}

/// Locks every claim that can be locked soon, as [`lock`] does, but waits at most [`NEXT_LOCK_TIMEOUT`] for each holder
/// of a ref's lock. The lock of packed-refs is waited for as long as [`lock`] does.
pub(crate) fn lock_briefly(store: &Arc<Store>, claims: &dyn Claims, plan: WritePlan) -> Result<Option<Locked>> {
    lock_patiently(store, claims, plan, None, false)
}

fn lock_patiently(
    store: &Arc<Store>,
    claims: &dyn Claims,
    plan: WritePlan,
    journal_file: Option<&Path>,
    is_patient: bool,
) -> Result<Option<Locked>> {
    let mut refused = BTreeMap::new();
    let mut starts_left = STARTS_MAX;
    loop {
        let (claim, target, held) = match attempt(store, claims, plan, journal_file, is_patient, &mut refused) {
            Ok(locks) => {
                debug_assert!(refused.keys().all(|at| locks.held(*at) == Held::No), "a refused claim is not locked");
                return Ok(Some((locks, refused.into_iter().collect())));
            }
            Err(Stop::NoBatch) => return Ok(None),
            Err(Stop::Fatal(error)) => return Err(error),
            Err(Stop::Blocked(claim, target, held)) => (claim, target, held),
        };
        let timeout = if claim.is_some() { store.options.ref_lock_timeout } else { store.options.packed_lock_timeout };
        // Once no attempt is left, each turn of the loop refuses a claim or is the last.
        let waited = match starts_left {
            0 => Err(held),
            _ => Lock::wait_until_free(&store.options.fs, &target, timeout.unwrap_or(GENEROUS)),
        };
        starts_left = starts_left.saturating_sub(1);
        match (waited, claim) {
            (Ok(()), _) => {}
            (Err(LockError::Held { path, age_seconds, uid, .. }), Some(at)) => {
                refused.insert(at, RejectionReason::Locked { path: absolute(&path), age_seconds, uid });
            }
            (Err(error), _) => return Err(error.into()),
        }
    }
}

fn attempt(
    store: &Arc<Store>,
    claims: &dyn Claims,
    plan: WritePlan,
    journal_file: Option<&Path>,
    is_patient: bool,
    refused: &mut BTreeMap<usize, RejectionReason>,
) -> std::result::Result<Locks, Stop> {
    let mut locks = Locks {
        store: Arc::clone(store),
        names: Names::default(),
        held: Vec::with_capacity(claims.count()),
        own: Vec::new(),
        sources: journal_file
            .map(|journal_file| LockSource::of_journal_file(journal_file.to_owned()))
            .into_iter()
            .collect(),
        made: Vec::new(),
        packed: None,
        any: false,
        waits_briefly: !is_patient || refused.values().any(|why| matches!(why, RejectionReason::Locked { .. })),
        is_single: claims.count() == 1,
        is_batch: journal_file.is_some(),
        cannot_sign: false,
        outlive_us: false,
        buffer: Vec::new(),
    };
    for (at, claim) in claims.iter().enumerate() {
        locks.names.push(claim.name);
        locks.held.push(Held::No);
        if !refused.contains_key(&at)
            && let Some(rejection) = locks.take(at, &claim, plan)?
        {
            refused.insert(at, rejection);
        }
    }
    debug_assert_eq!(locks.count(), claims.count(), "each claim is locked or refused");
    // With every claim refused there is nothing to do.
    if plan.packed && locks.any {
        locks.take_packed(locks.lock_timeout(store.options.packed_lock_timeout))?;
    }
    Ok(locks)
}

impl Locks {
    /// Locks one claim, or returns why it is refused.
    fn take(
        &mut self,
        at: usize,
        claim: &Claim<'_>,
        plan: WritePlan,
    ) -> std::result::Result<Option<RejectionReason>, Stop> {
        debug_assert!(self.packed.is_none(), "the lock of packed-refs is the last");
        debug_assert!(self.held[at] == Held::No, "a ref is locked once");
        debug_assert!(
            self.any || self.is_batch || self.sources.is_empty(),
            "a lock that others are links to is held, or a journal file"
        );
        let links = plan.links(claim);
        if links && let Some(left) = self.link_at_once(claim.name) {
            (self.held[at], self.any) = (Held::Linked(left), true);
            return Ok(None);
        }
        let Some(path) = self.store.layout.ref_path(claim.name) else {
            // This is the target of a symbolic ref, or contains a NUL: the names of edits were checked earlier.
            return Ok(Some(RejectionReason::BadTarget { target: claim.name.to_owned() }));
        };
        let timeout = self.lock_timeout(self.store.options.ref_lock_timeout);
        let locked = if links { self.link(&path, timeout).map(Held::Linked) } else { self.create(&path, timeout) };
        match locked {
            Ok(held) => {
                self.held[at] = held;
                self.any = true;
                Ok(None)
            }
            Err(_) if self.cannot_sign => Err(Stop::NoBatch),
            Err(error) => self.refuse(at, &path, error).map(Some),
        }
    }

    /// Decides what a lock that could not be taken means: the claim is refused, or the attempt ends.
    fn refuse(&mut self, at: usize, path: &Path, error: LockError) -> std::result::Result<RejectionReason, Stop> {
        Ok(match error {
            LockError::Held { .. } if let Some(own) = self.twin(path) => {
                RejectionReason::LockedBySelf { path: absolute(&Lock::path_of(path)), other: own.to_owned() }
            }
            LockError::Held { .. } if self.any && !self.waits_briefly => {
                return Err(Stop::Blocked(Some(at), path.to_owned(), error));
            }
            LockError::Held { path, age_seconds, uid, .. } => {
                self.waits_briefly = true;
                RejectionReason::Locked { path: absolute(&path), age_seconds, uid }
            }
            LockError::Io(error) if error.is_signal() => return Err(Stop::Fatal(error.into())),
            LockError::Io(error) => match self.blocker(self.name(at), path) {
                Some(blocker) => RejectionReason::Conflict { with: blocker, is_new: false, prevents_lock: true },
                None => RejectionReason::NoLock {
                    path: absolute(&Lock::path_of(path)),
                    kind: error.source.kind(),
                    said: without_number(&error.source),
                },
            },
        })
    }

    /// The ref whose file stands where `path`, that of the ref `name`, needs a folder.
    fn blocker(&self, name: &BStr, path: &Path) -> Option<BString> {
        let base = self.store.layout.base_path(name);
        let file = folders::file_in_the_way(&self.store.options.fs, &base, path)?;
        let below = path.strip_prefix(&file).ok()?.as_os_str();
        Some(name.strip_suffix(below.as_bytes())?.strip_suffix(b"/")?.into())
    }

    fn lock_timeout(&self, set: Option<LockTimeout>) -> LockTimeout {
        let is_brief = self.any || self.waits_briefly;
        let timeout = match set.unwrap_or(GENEROUS) {
            LockTimeout::None => LockTimeout::None,
            LockTimeout::For(limit) if is_brief => LockTimeout::For(limit.min(NEXT_LOCK_TIMEOUT)),
            LockTimeout::Forever if is_brief => LockTimeout::For(NEXT_LOCK_TIMEOUT),
            long => long,
        };
        let is_long =
            matches!(timeout, LockTimeout::For(time) if time > NEXT_LOCK_TIMEOUT) || timeout == LockTimeout::Forever;
        debug_assert!(!(self.any && is_long), "a transaction that holds locks waits briefly for another: {timeout:?}");
        timeout
    }

    fn create(&mut self, path: &Path, timeout: LockTimeout) -> std::result::Result<Held, LockError> {
        // A signed lock needs an open file, and thousands of open files are too many, so later locks are links to an
        // earlier one. Nothing is linked to a single lock, so that on a network file system its file can be used again
        // without asking the server for the number of links.
        let has_links = !self.is_single && Lock::is_signed(&self.store.options.fs, path);
        let mut lock = if has_links {
            let left = self.link(path, timeout)?;
            Lock::resume_linked(&self.store.options.fs, path, left)
        } else {
            self.with_parents(path, |fs| Lock::acquire(fs, path, 0o666, timeout))?
        };
        if self.own.len() >= OPEN_MAX {
            lock.close();
        }
        Ok(self.guarded(lock))
    }

    fn guarded(&mut self, lock: Lock) -> Held {
        self.own.push(Some(lock));
        Held::Own(self.own.len() - 1)
    }

    /// Locks without allocating in the usual case: there is a file to link to, the folder exists, and nobody holds the
    /// lock. Otherwise returns `None`.
    fn link_at_once(&mut self, name: &BStr) -> Option<DetachedLock> {
        let source = self.sources.last()?;
        if !self.store.layout.lock_path_into(name, &mut self.buffer) {
            return None;
        }
        Lock::link_detached(&self.store.options.fs, Path::new(OsStr::from_bytes(&self.buffer)), source)
    }

    fn link(&mut self, path: &Path, timeout: LockTimeout) -> std::result::Result<DetachedLock, LockError> {
        let Some(source) = self.sources.last().map(|source| source.path().to_owned()) else {
            return self.create_source(path, timeout);
        };
        match self.with_parents(path, |fs| Lock::acquire_linked(fs, path, &source, timeout)) {
            Ok(lock) => Ok(lock.leave()),
            Err(LockError::Io(error)) if self.is_batch && cannot_link(&error) => {
                self.cannot_sign = true;
                Err(LockError::Io(error))
            }
            // On ext4 a file can have 65,000 links.
            Err(LockError::Io(error)) if error.source.kind() == io::ErrorKind::TooManyLinks => {
                self.create_source(path, timeout)
            }
            // The file system has no hard links, this folder lies on another one, or permission is missing, which the
            // next call reports.
            Err(LockError::Io(error)) if cannot_link(&error) => {
                Ok(self.with_parents(path, |fs| Lock::acquire_unsigned(fs, path, 0o666, timeout))?.leave())
            }
            Err(error) => Err(error),
        }
    }

    /// Creates a lock file that the next ones are links to.
    fn create_source(&mut self, path: &Path, timeout: LockTimeout) -> std::result::Result<DetachedLock, LockError> {
        assert!(!self.is_batch, "a batch's locks are links to its journal file");
        let lock = self.with_parents(path, |fs| Lock::acquire(fs, path, 0o666, timeout))?;
        let (source, left) = lock.into_source();
        self.sources.push(source);
        Ok(left)
    }

    /// Sets whether the locks stay when this is dropped. From the first call on, the locks survive an abort of the
    /// process in any case, because the journal entry of a batch protects nothing without them.
    pub(crate) fn outlive_us(&mut self, outlive: bool) {
        self.outlive_us = outlive;
        for held in &mut self.held {
            match held {
                Held::Linked(left) => left.outlive_aborts(),
                Held::Own(index) => self.own[*index].iter_mut().for_each(Lock::outlive_aborts),
                Held::No => {}
            }
        }
    }

    /// Locks packed-refs as well. Waits as long as for a first lock, although other locks are held already, because the
    /// transaction does not begin anew. A holder of the lock of packed-refs does not wait for one of these locks,
    /// except as [`find_rival`](crate::files::packing::bulk::find_rival) does.
    pub(crate) fn add_packed(&mut self) -> Result<()> {
        match self.take_packed(self.store.options.packed_lock_timeout.unwrap_or(GENEROUS)) {
            Ok(()) => Ok(()),
            Err(Stop::Blocked(_, _, held)) => Err(held.into()),
            Err(Stop::Fatal(error)) => Err(error),
            Err(Stop::NoBatch) => unreachable!("packed-refs has a lock file of its own"),
        }
    }

    fn with_parents(
        &mut self,
        path: &Path,
        acquire: impl Fn(&Fs) -> std::result::Result<Lock, LockError>,
    ) -> std::result::Result<Lock, LockError> {
        let (options, layout) = (&self.store.options, &self.store.layout);
        // No folder is created again for a repository that was moved or deleted.
        let is_missing = |error: &LockError| is_missing(error) && options.fs.stat(&layout.common_dir).is_ok();
        folders::with_parents(&options.fs, path, options.sharing, &mut self.made, is_missing, || acquire(&options.fs))
    }

    fn take_packed(&mut self, timeout: LockTimeout) -> std::result::Result<(), Stop> {
        debug_assert!(self.any, "packed-refs is locked for refs that are locked");
        let fatal = |error: Error| Stop::Fatal(error);
        let target = self.store.packed_target().map_err(fatal)?;
        match Lock::acquire(&self.store.options.fs, &target, 0o666, timeout) {
            Ok(mut lock) => {
                lock.close();
                self.packed = Some(lock);
                Ok(())
            }
            Err(held @ LockError::Held { .. }) if self.any => Err(Stop::Blocked(None, target, held)),
            Err(error) => Err(fatal(error.into())),
        }
    }

    /// How the claim at this position is locked.
    pub(crate) fn held(&self, at: usize) -> Held {
        self.held[at]
    }

    /// The number of claims, locked or not.
    pub(crate) fn count(&self) -> usize {
        self.held.len()
    }

    /// The name of the claim at this position.
    pub(crate) fn name(&self, at: usize) -> &BStr {
        self.names.get(at)
    }

    /// Returns whether this transaction holds the lock of the ref.
    pub(crate) fn holds(&self, name: &BStr) -> bool {
        debug_assert_eq!(self.names.len(), self.count(), "each claim has its name");
        let (mut low, mut high) = (0, self.count());
        while low < high {
            let at = low + (high - low) / 2;
            match self.names.get(at).cmp(name) {
                std::cmp::Ordering::Less => low = at + 1,
                std::cmp::Ordering::Greater => high = at,
                std::cmp::Ordering::Equal => return self.held[at] != Held::No,
            }
        }
        false
    }

    /// The locked ref whose lock file is also that of `path`, if there is one. Two names lead to one file if a folder
    /// is a symbolic link, or if the file system ignores case.
    pub(crate) fn twin(&self, path: &Path) -> Option<&BStr> {
        let fs = &self.store.options.fs;
        let identity = |found: refdb_vfs::Result<Option<Stat>>| found.ok()?.as_ref().map(Stat::file_id);
        let lock = |path: &Path| identity(fs.find_link(&Lock::path_of(path)));
        let folder = |path: &Path| identity(fs.find(path.parent()?));
        let (theirs, base) = (lock(path)?, path.file_name()?);
        // All locks may be hard links to one file, so folder and name must match too. The case of the name is ignored,
        // as the file system may do.
        let is_twin = |name: &&BStr| {
            let is_alike =
                Path::new(OsStr::from_bytes(name)).file_name().is_some_and(|own| own.eq_ignore_ascii_case(base));
            is_alike
                && self.store.layout.ref_path(name).is_some_and(|own| {
                    lock(&own) == Some(theirs) && folder(&own).is_some_and(|own| Some(own) == folder(path))
                })
        };
        (0..self.count()).filter(|at| self.held[*at] != Held::No).map(|at| self.name(at)).find(is_twin)
    }

    /// Returns whether this transaction holds the lock of packed-refs.
    pub(crate) fn holds_packed(&self) -> bool {
        self.packed.is_some()
    }

    /// The guard of a claim's lock, through which its new content is written; `None` for a claim that is not locked.
    pub(crate) fn guard(&mut self, at: usize) -> Option<&mut Lock> {
        if let Held::Linked(left) = self.held[at] {
            let path = self.store.layout.ref_path(self.names.get(at))?;
            let lock = Lock::resume_linked(&self.store.options.fs, &path, left);
            self.held[at] = self.guarded(lock);
        }
        let Held::Own(index) = self.held[at] else { return None };
        debug_assert!(self.own[index].is_some(), "a lock that is held has its guard");
        self.own.get_mut(index).and_then(Option::as_mut)
    }

    /// Takes the guard out, to publish what was written through it.
    pub(crate) fn take_guard(&mut self, at: usize) -> Option<Lock> {
        let Held::Own(index) = std::mem::replace(&mut self.held[at], Held::No) else { return None };
        self.own.get_mut(index).and_then(Option::take)
    }

    /// The folders that were created for the lock files.
    pub(crate) fn made(&mut self) -> &mut Vec<PathBuf> {
        &mut self.made
    }

    /// Releases the lock of packed-refs, if this transaction holds it.
    pub(crate) fn release_packed(&mut self) {
        self.packed = None;
    }

    /// Releases every lock, that of packed-refs first, and removes the folders that were created for locks and are
    /// empty. The files that sign other locks are closed after those locks are released. If the locks are to outlive
    /// this value, the lock files of refs stay instead.
    pub(crate) fn release(&mut self) {
        if self.outlive_us {
            return self.leave();
        }
        self.release_packed();
        let fs = &self.store.options.fs;
        for at in 0..self.held.len() {
            match std::mem::replace(&mut self.held[at], Held::No) {
                Held::No => {}
                Held::Own(index) => self.own[index] = None,
                Held::Linked(left) => {
                    if self.store.layout.lock_path_into(self.names.get(at), &mut self.buffer) {
                        // A failure is ignored, as when a `Lock` is dropped.
                        let _ = left.remove(fs, Path::new(OsStr::from_bytes(&self.buffer)));
                    }
                }
            }
        }
        debug_assert!(self.own.iter().all(Option::is_none), "locks that sign others are released last");
        self.sources.clear();
        for folder in self.made.drain(..).rev() {
            // The removal fails if refs are in the folder by now.
            let _ = fs.remove_dir(&folder);
        }
    }
}

impl Locks {
    /// Leaves the lock files in place, as a process that dies would.
    fn leave(&mut self) {
        self.held.fill(Held::No);
        for lock in self.own.drain(..).flatten() {
            let _left = lock.leave();
        }
        self.sources.clear();
        self.made.clear();
    }
}

impl Drop for Locks {
    fn drop(&mut self) {
        self.release();
    }
}

fn is_missing(error: &LockError) -> bool {
    matches!(error, LockError::Io(error) if error.source.kind() == io::ErrorKind::NotFound)
}

fn cannot_link(error: &refdb_vfs::Error) -> bool {
    use io::ErrorKind::{CrossesDevices, PermissionDenied, Unsupported};
    matches!(error.source.kind(), CrossesDevices | PermissionDenied | Unsupported)
}

/// The absolute path, because the reader of a message may be in another folder.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// The message of the operating system without its number, as git prints it.
fn without_number(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

/// Fails if a signal has asked the process to end.
pub(crate) fn heed_signals() -> Result<()> {
    interrupt::check().map_err(Error::Interrupted)
}

/// How long to wait for a writer that is about to finish, while the lock of packed-refs is held: never without limit,
/// because that writer may wait for packed-refs in turn.
pub(crate) fn rival_lock_timeout(store: &Store) -> LockTimeout {
    store.options.ref_lock_timeout.filter(|timeout| *timeout != LockTimeout::Forever).unwrap_or(GENEROUS)
}

/// How long pack-refs waits for the lock of packed-refs, and for another pack-refs of refdb.
pub(crate) fn packed_lock_timeout(store: &Store) -> LockTimeout {
    store.options.packed_lock_timeout.unwrap_or(GENEROUS)
}
