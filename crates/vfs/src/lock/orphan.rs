//! The locks of a batch whose process has died and may have left a journal entry. These locks are never just removed:
//! the recovery handler takes them over and recovers the batch first.

use super::{
    LockError, LockTimeout,
    signing::{self, Signed, Suspect},
    wait,
};
use crate::{BatchId, File, Folder, Fs, Result, fs::place, signature::Signature};
use std::{ffi::OsStr, path::Path};

/// A lock of a batch whose process is gone. As long as this value exists, nobody else can take the lock over.
#[derive(Debug)]
#[must_use = "others can take the lock over when this is dropped"]
pub struct StaleLock {
    suspect: Suspect,
    id: BatchId,
}

impl StaleLock {
    /// Takes over the lock file at `path` if it belongs to a batch and its owner is gone.
    pub fn take(fs: &Fs, path: &Path) -> Result<Option<Self>> {
        let Some(suspect) = Suspect::open(fs, path)? else { return Ok(None) };
        let Signed::Batch(_, id) = suspect.signed else { return Ok(None) };
        let is_ours = suspect.is_dead(fs)? && suspect.is_in_place()?;
        Ok(is_ours.then_some(StaleLock { suspect, id }))
    }

    /// Takes over a lock file that was passed to a [`RecoveryHandler`](crate::RecoveryHandler). Returns `None` if it is
    /// no lock of a batch, or if its name no longer leads to it.
    pub fn handed(fs: &Fs, lock: File) -> Result<Option<Self>> {
        let path = lock.path().to_owned();
        let Some((folder, name)) = place(&path) else { return Ok(None) };
        let Some(suspect) = Suspect::of(fs.folder(folder)?, name, lock)? else { return Ok(None) };
        let Signed::Batch(_, id) = suspect.signed else { return Ok(None) };
        Ok(suspect.is_in_place()?.then_some(StaleLock { suspect, id }))
    }

    pub(super) fn new(suspect: Suspect, id: BatchId) -> Self {
        StaleLock { suspect, id }
    }

    /// Returns the id of the batch to which the lock belongs.
    pub fn id(&self) -> BatchId {
        self.id
    }

    /// Returns the path of the lock file.
    pub fn path(&self) -> &Path {
        self.suspect.file.path()
    }

    /// Returns whether `path` is a name of this lock file.
    pub fn is_also_at(&self, fs: &Fs, path: &Path) -> Result<bool> {
        let stat = self.suspect.stat;
        Ok(fs.find_link(path)?.is_some_and(|now| now.file_id() == stat.file_id()))
    }

    /// Creates the lock file `lock` of another file as a link to this one, without waiting. Returns `false` if `lock`
    /// exists already.
    pub fn extend_to(&self, fs: &Fs, lock: &Path) -> Result<bool> {
        match fs.hard_link(self.path(), lock) {
            Ok(()) => Ok(true),
            Err(error) if error.is_exists() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Removes the name under which the lock was found, and the new content beside it.
    pub fn remove(&self) -> Result<()> {
        self.suspect.remove()
    }

    /// Removes the name `lock` of a batch's lock file from this folder, and the new content beside it.
    pub fn remove_in(folder: &Folder, lock: &OsStr) -> Result<()> {
        signing::remove_in(folder, lock)
    }
}

/// Creates the lock file of a batch, which is signed and locked before it has a name. Returns `None` if the system has
/// no boot id, or if the file system does not support files without a name, or `flock`.
pub(super) fn create(
    fs: &Fs,
    path: &Path,
    lock_timeout: LockTimeout,
    id: BatchId,
    sync: bool,
) -> std::result::Result<Option<File>, LockError> {
    let (Some(own), Some(mut file)) = (Signature::own(), fs.create_unnamed(path, 0o666)?) else { return Ok(None) };
    let line = own.encode_batch(id);
    if !matches!(file.try_lock(), Ok(true)) {
        return Ok(None);
    }
    file.write_all(line.as_bytes())?;
    wait::wait_for(fs, path, lock_timeout, || fs.name(&file))?;
    if let Err(error) = fs.tell_named(&file, line.as_bytes(), sync) {
        let _ = fs.remove_file(path);
        return Err(error.into());
    }
    Ok(Some(file))
}

#[cfg(test)]
mod tests {
    use super::{super::Lock, *};
    use crate::RecoveryHandler;
    use std::sync::{Arc, Mutex};

    /// A recovery handler that removes each lock that it gets, and remembers its batch.
    #[derive(Default)]
    struct Remover(Mutex<Vec<BatchId>>);

    impl RecoveryHandler for Remover {
        fn recover(&self, id: BatchId, lock: File) -> bool {
            self.0.lock().unwrap().push(id);
            StaleLock::handed(&Fs::real(), lock).unwrap().unwrap().remove().is_ok()
        }
    }

    fn signing() -> Fs {
        Fs::real().signing_locks()
    }

    fn batch(target: &Path, id: BatchId) -> Lock {
        Lock::acquire_for_batch(&signing(), target, LockTimeout::None, id, false).unwrap().unwrap()
    }

    #[test]
    fn the_lock_of_a_dead_batch_waits_for_an_heir_and_passes_to_it() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("x");
        let id = BatchId::random();
        let held = batch(&target, id).into_source().0;
        let heir: Arc<dyn RecoveryHandler> = Arc::new(Remover::default());
        let heeding = Fs::real().with_recovery(Arc::downgrade(&heir));
        let attempt = |fs: &Fs| Lock::acquire(fs, &target, 0o666, LockTimeout::None);
        assert!(attempt(&heeding).is_err(), "its owner lives");
        drop(held);
        assert!(attempt(&Fs::real()).is_err(), "there is no heir");
        attempt(&heeding).unwrap().release().unwrap();
    }

    #[test]
    fn one_who_took_a_dead_lock_over_keeps_others_out_and_can_lock_more() {
        let dir = tempfile::tempdir().unwrap();
        let fs = Fs::real();
        let (target, id) = (dir.path().join("x"), BatchId::random());
        drop(batch(&target, id).into_source());
        let path = Lock::path_of(&target);
        let orphan = StaleLock::take(&fs, &path).unwrap().unwrap();
        assert_eq!(orphan.id(), id);
        assert!(StaleLock::take(&fs, &path).unwrap().is_none());
        let other = dir.path().join("y.lock");
        assert!(orphan.extend_to(&fs, &other).unwrap() && orphan.is_also_at(&fs, &other).unwrap());
        assert!(!orphan.extend_to(&fs, &other).unwrap());
        drop(orphan);
        assert!(StaleLock::take(&fs, &other).unwrap().is_some());
    }
}
