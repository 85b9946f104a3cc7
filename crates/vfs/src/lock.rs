mod acquire;
mod ended;
mod look;
mod orphan;
mod reach;
mod signing;
mod spare;
mod wait;

pub use acquire::Acquired;
pub use ended::Removal;
pub use look::{LockLook, LockState};
pub use orphan::StaleLock;

use crate::{BatchId, Error, File, Folder, Fs, abort::Note, asked, path, queue::QueueHead, spares::Spare};
use std::{
    borrow::Cow,
    ffi::OsStr,
    io,
    path::{Path, PathBuf},
    time::Duration,
};

/// How long to wait for a lock that someone else holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LockTimeout {
    /// Fail at once.
    None,
    /// Fail when the same holder has kept the lock for this long. Each new holder restarts the time, but after a
    /// minute, or sixty times this long if that is more, waiting fails as well, so that an endless sequence of holders
    /// ends in an error.
    For(Duration),
    /// Wait without limit.
    Forever,
}

impl LockTimeout {
    /// Converts git's settings for lock timeouts: milliseconds; 0 means not to wait, a negative number to wait without
    /// limit.
    pub fn from_millis(millis: i64) -> Self {
        match u64::try_from(millis) {
            Err(_) => LockTimeout::Forever,
            Ok(0) => LockTimeout::None,
            Ok(millis) => LockTimeout::For(Duration::from_millis(millis)),
        }
    }

    /// Returns whether one holder of a lock has been waited for long enough.
    pub fn is_over(self, waited: Duration) -> bool {
        match self {
            LockTimeout::None => true,
            LockTimeout::For(limit) => waited >= limit,
            LockTimeout::Forever => false,
        }
    }

    /// Returns how long all holders of a lock together are waited for, or `None` if there is no limit.
    pub fn of_all_holders(self) -> Option<Duration> {
        match self {
            LockTimeout::None => Some(Duration::ZERO),
            LockTimeout::For(limit) => Some(limit.saturating_mul(HOLDERS_TIMES).max(HOLDERS_MIN)),
            LockTimeout::Forever => None,
        }
    }
}

/// How many times longer than for one holder a writer waits for all holders together, before it fails.
const HOLDERS_TIMES: u32 = 60;
/// The least limit on the time for which a writer waits for all holders together, because otherwise it would hardly
/// wait if the timeout for one holder is a few milliseconds.
const HOLDERS_MIN: Duration = Duration::from_secs(60);

/// Why a lock could not be taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Someone else holds the lock, or this process itself. The next writer of refdb removes a
    /// [signed](Fs::signing_locks) lock file once its owner has certainly ended, or has the recovery handler remove it
    /// if the lock belongs to a batch. An unsigned lock file usually stays until its owner or a person removes it.
    #[error(
        "'{}' is held by {}",
        path.display(),
        if *by_us {
            format!("this process itself, for {age_seconds} s: finish what holds it, or do both in one transaction")
        } else {
            format!(
                "someone else (user {uid}, for {age_seconds} s); `refdb refs locks` tells who made it; if no such \
                 process is running, remove the file"
            )
        }
    )]
    Held {
        /// The path of the lock file.
        path: PathBuf,
        /// The time from the last write to the lock file until waiting ended, in seconds; 0 if the file was gone by
        /// then. On a network file system, where a lock may be a link to an older file, the time since the last change
        /// of the inode.
        age_seconds: u64,
        /// The user who owns the lock file; 0 if the file was gone by then.
        uid: u32,
        /// Whether this process has the lock file open.
        by_us: bool,
    },
    /// The lock file could not be created or examined, for example because of missing permissions, a missing folder or
    /// a signal.
    #[error(transparent)]
    Io(#[from] Error),
}

/// Git's lock on a file: `FILE.lock`, created only if it does not exist.
///
/// The new content of the file is written into the lock file, which [`Lock::commit`] renames over the file. If the lock
/// file is [signed](Fs::signing_locks) or a link to another one, the content goes into `FILE.lock.lock`. Dropping a
/// lock that was not committed removes both.
#[derive(Debug)]
#[must_use = "the lock is given up when this is dropped"]
pub struct Lock {
    fs: Fs,
    target: PathBuf,
    path: PathBuf,
    mode: u32,
    held: bool,
    /// The record for the case that the process aborts.
    note: Note,
    content_note: Note,
    place: Place,
    /// The new content, while it is open.
    content: Option<File>,
    /// The device and the inode of the content file, if it was closed.
    closed: Option<(u64, u64)>,
    /// The signature of this lock file, which is valid as long as the file is open.
    signature: Option<SignedFile>,
    /// The queue of those who wait for the lock, if this writer is its head. It is passed on when the guard is dropped.
    head: Option<QueueHead>,
    is_led: bool,
}

/// A lock file that is open, so that its signature is valid.
#[derive(Debug)]
enum SignedFile {
    /// The file was made for this lock.
    Own(#[expect(dead_code, reason = "only kept open")] File),
    /// The file is a spare one: it was signed before the lock was taken, is used for one lock after the other, and the
    /// lock is a link to it.
    Spare(Spare),
}

/// Where the new content is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    /// Into the lock file.
    Within,
    /// Into a separate file, which this lock has yet to create.
    Beside,
    /// Into a separate file, which this lock has created.
    BesideBegun,
}

/// A lock file or a journal file to which other locks can be links. If it is a lock file, its lock is held until the
/// file is removed. Once this value is dropped, however, a signed lock counts as that of a dead process.
#[derive(Debug)]
pub struct LockSource {
    path: PathBuf,
    /// Keeps the signature of this lock and of the links to it valid until this value is dropped.
    signature: Option<SignedFile>,
}

impl Drop for LockSource {
    fn drop(&mut self) {
        if let Some(SignedFile::Spare(spare)) = self.signature.take() {
            spare::put_back_if_free(spare);
        }
    }
}

impl LockSource {
    /// Uses a file that signs locks but is not a lock itself. Its owner keeps it locked as long as those locks are
    /// held.
    pub fn of_journal_file(path: PathBuf) -> Self {
        LockSource { path, signature: None }
    }

    /// Returns the path of the lock file or the journal file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// A lock without a guard, which is held until its file is removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DetachedLock(Note);

impl DetachedLock {
    /// Makes an abort of the process leave the lock in place.
    pub fn outlive_aborts(&mut self) {
        self.0.forget();
    }

    /// Releases the lock by removing its file, which is at `path`.
    pub fn remove(mut self, fs: &Fs, path: &Path) -> Result<(), Error> {
        self.0.forget();
        fs.remove_file(path)
    }
}

/// The first byte of new content that was given up. No content that replaces a file begins with it.
const GIVEN_UP: &[u8] = b"\0";

/// Marks the new content in the open file as given up, before the file loses its name. Without the mark, a process that
/// has opened the file, too, takes it for content that has replaced the locked file. An empty file, and one that does
/// not have exactly one name, is left as it is.
pub fn give_up_content(content: &File) -> Result<(), Error> {
    if content.stat()?.len_bytes > 0 && content.names()? == 1 {
        content.overwrite(GIVEN_UP, 0)?;
    }
    Ok(())
}

/// Returns whether an open file without a name has new content that was given up, or that was never written.
pub fn is_content_given_up(content: &File) -> Result<bool, Error> {
    let mut first = [0];
    Ok(content.read_at(&mut first, 0)? == 0 || first == GIVEN_UP)
}

/// The maximum length in bytes of a file name on the usual file systems.
const NAME_LEN_MAX: usize = 255;

impl Lock {
    /// Returns the path of the lock file of `target`.
    pub fn path_of(target: &Path) -> PathBuf {
        path::lock_of(target)
    }

    /// Returns whether a lock of `target` is to be signed: if signing was requested, and the name of the separate
    /// content file is not too long.
    pub fn is_signed(fs: &Fs, target: &Path) -> bool {
        fs.signs_locks() && target.file_name().is_some_and(|name| name.len() + ".lock.lock".len() <= NAME_LEN_MAX)
    }

    /// As [`acquire`](Self::acquire), for a batch, whose journal entry the lock names. Returns `None` if the lock is
    /// not [to be signed](Self::is_signed), if it cannot be signed before it has a name, or if it is not on a local
    /// file system. Nobody could then determine with certainty, even after a restart, that its owner is gone. An abort
    /// does not remove the lock, because the journal entry may exist.
    pub fn acquire_for_batch(
        fs: &Fs,
        target: &Path,
        lock_timeout: LockTimeout,
        id: BatchId,
        sync: bool,
    ) -> Result<Option<Self>, LockError> {
        if !Self::is_signed(fs, target) {
            return Ok(None);
        }
        let mut lock = Lock::new(fs, target, 0o666, Place::Beside);
        if !fs.is_local(target.parent().unwrap_or(Path::new(".")))? {
            return Ok(None);
        }
        let Some(file) = orphan::create(fs, &lock.path, lock_timeout, id, sync)? else { return Ok(None) };
        lock.signature = Some(SignedFile::Own(file));
        lock.held = true;
        Ok(Some(lock))
    }

    /// Locks `target` with a hard link to `seed`, a lock file or a journal file, instead of a new file. This is cheaper
    /// for thousands of locks. The lock is signed if `seed` is. The new content of `target` is written into a separate
    /// file.
    pub fn acquire_linked(fs: &Fs, target: &Path, seed: &Path, lock_timeout: LockTimeout) -> Result<Self, LockError> {
        let mut lock = Lock::new(fs, target, 0o666, Place::Beside);
        lock.note = Note::of(&lock.path);
        wait::wait_for(fs, &lock.path, lock_timeout, || fs.hard_link(seed, &lock.path).inspect(|()| lock.note.arm()))?;
        lock.held = true;
        Ok(lock)
    }

    /// Creates the lock file `path` as a link to `seed`, without a guard and without waiting. Returns `None` if that
    /// is not possible.
    pub fn link_detached(fs: &Fs, path: &Path, seed: &LockSource) -> Option<DetachedLock> {
        let mut note = Note::of(path);
        match fs.hard_link(seed.path(), path) {
            Ok(()) => {
                note.arm();
                asked::forget();
                Some(DetachedLock(note))
            }
            Err(_) => {
                note.forget();
                None
            }
        }
    }

    /// Returns a guard for a linked lock that was [left](Lock::leave).
    pub fn resume_linked(fs: &Fs, target: &Path, left: DetachedLock) -> Self {
        let mut lock = Lock::new(fs, target, 0o666, Place::Beside);
        (lock.held, lock.note) = (true, left.0);
        lock
    }

    /// Creates a guard of a lock that is not held yet.
    fn new(fs: &Fs, target: &Path, mode: u32, place: Place) -> Self {
        let (fs, path, target) = (fs.clone(), Self::path_of(target), target.to_owned());
        let (note, content_note) = (Note::NONE, Note::NONE);
        Lock {
            fs,
            target,
            path,
            mode,
            held: false,
            note,
            content_note,
            place,
            content: None,
            closed: None,
            signature: None,
            head: None,
            is_led: false,
        }
    }

    /// Waits until nobody holds the lock of `target`, without taking it.
    pub fn wait_until_free(fs: &Fs, target: &Path, lock_timeout: LockTimeout) -> Result<(), LockError> {
        let path = Self::path_of(target);
        wait::wait_for(fs, &path, lock_timeout, || match fs.stat_link(&path) {
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) => Err(error),
            Ok(_) => Err(Error::new("lock", target, io::Error::from(io::ErrorKind::AlreadyExists))),
        })
    }

    /// Removes the lock file of `target` if its signature was lost when the machine lost its power and nobody holds it,
    /// and returns whether it did. `target` must be a file that refdb alone locks, and with signed locks, because git's
    /// lock files look the same. Lock files younger than a minute, and all on network file systems, stay.
    pub fn remove_if_lost(fs: &Fs, target: &Path) -> Result<bool, Error> {
        signing::remove_if_lost(fs, &Self::path_of(target))
    }

    /// Removes the lock file of this name in an open folder if it is signed and its owner is certainly gone. The lock
    /// of a batch is passed to the recovery handler, and stays if there is none. An unsigned lock stays.
    pub fn remove_if_dead(fs: &Fs, folder: &Folder, name: &OsStr) {
        signing::remove_if_dead_in(fs, folder, name);
    }

    /// Turns the lock into one to which other locks can be links.
    pub fn into_source(mut self) -> (LockSource, DetachedLock) {
        self.held = false;
        let left = DetachedLock(std::mem::replace(&mut self.note, Note::NONE));
        (LockSource { path: std::mem::take(&mut self.path), signature: self.signature.take() }, left)
    }

    /// Drops the guard of a linked or unsigned lock without releasing the lock, which is held until its file is
    /// removed. This suits callers that hold thousands of locks and know their names anyway.
    pub fn leave(mut self) -> DetachedLock {
        debug_assert!(self.signature.is_none(), "a lock that outlives its guard would lose its signature");
        self.held = false;
        DetachedLock(std::mem::replace(&mut self.note, Note::NONE))
    }

    /// Makes an abort of the process leave the lock from now on.
    pub fn outlive_aborts(&mut self) {
        self.note.forget();
    }

    /// Returns the file of the new content if it is open, and leaves its name on the disk as it is.
    pub fn take_content(&mut self) -> Option<File> {
        self.content.take()
    }

    /// Returns the path of the file that this lock is for.
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// Returns the path of the lock file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the file for the new content, which is created or opened if it is not open.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be created or opened, and if it was closed and someone has removed or replaced it since
    /// although the lock was held. If it was the lock file itself, the lock is no longer held then, and what is in its
    /// place stays.
    pub fn content(&mut self) -> Result<&mut File, Error> {
        let file = match (self.content.take(), self.place) {
            (Some(file), _) => file,
            (None, Place::Beside) => self.begin()?,
            (None, Place::Within | Place::BesideBegun) => self.reopen()?,
        };
        Ok(self.content.insert(file))
    }

    fn begin(&mut self) -> Result<File, Error> {
        let path = signing::content_of(&self.path);
        let mut note = Note::of(&path);
        // Nobody else writes this name, so that it may be removed even if it was there.
        note.arm();
        let begun = match self.fs.create_new(&path, self.mode) {
            Err(error) if error.is_exists() => self.begin_afresh(&path),
            created => created,
        };
        if begun.is_err() {
            note.forget();
        }
        let file = begun?;
        (self.place, self.content_note) = (Place::BesideBegun, note);
        Ok(file)
    }

    /// Replaces content that an earlier writer left, for example because it was killed.
    fn begin_afresh(&self, path: &Path) -> Result<File, Error> {
        if let Ok(left) = self.fs.open_to_overwrite(path) {
            give_up_content(&left)?;
        }
        self.fs.create_afresh(path, self.mode)
    }

    /// Returns the path of the file into which the new content is written.
    pub fn content_path(&self) -> Cow<'_, Path> {
        match self.place {
            Place::Within => Cow::Borrowed(&self.path),
            Place::Beside | Place::BesideBegun => Cow::Owned(signing::content_of(&self.path)),
        }
    }

    fn content_note(&mut self) -> &mut Note {
        match self.place {
            Place::Within => &mut self.note,
            Place::Beside | Place::BesideBegun => &mut self.content_note,
        }
    }

    /// Closes the content file but keeps the lock, so that thousands of locks do not need thousands of descriptors.
    pub fn close(&mut self) {
        self.closed = self.content.take().and_then(|file| file.stat().ok()).map(|stat| stat.file_id());
    }

    /// Replaces the file by the content that was written. This releases the lock if the lock file itself contained the
    /// content; otherwise the lock is still held.
    pub fn publish(&mut self) -> Result<(), Error> {
        // Once the content is renamed, its old name is free for others.
        self.content_note().forget();
        let content = self.content_path();
        if let Err(error) = self.fs.rename(&content, &self.target) {
            let note = Note::of(&content);
            // An abort would remove the content of a leader without marking it as given up.
            if !self.is_led {
                note.arm();
            }
            *self.content_note() = note;
            return Err(error);
        }
        match self.place {
            Place::Within => self.held = false,
            Place::Beside | Place::BesideBegun => self.place = Place::Beside,
        }
        Ok(())
    }

    /// Replaces the file by the written content and releases the lock. Returns the file if it was open, because
    /// another writer could replace it before it is opened again.
    pub fn commit(mut self) -> Result<Option<File>, Error> {
        self.publish()?;
        // From here on nothing may fail: the change is made.
        Ok(self.content.take().map(|file| file.renamed(&self.target)))
    }

    /// Marks new content that did not replace the file as given up, if others write under this lock: without the mark,
    /// those who hold the content open would take it for content that has replaced the file.
    fn give_up_led(&self) {
        let Some(content) = self.content.as_ref().filter(|_| self.is_led && self.held) else { return };
        // After an error of a file server, the content may have been renamed nevertheless, and then it must stay as it
        // is.
        if self.place != Place::Beside && self.fs.leads_to(&self.content_path(), content).unwrap_or(false) {
            // If the mark cannot be written, all that is left to do is to remove the name of the file.
            let _ = give_up_content(content);
        }
    }

    /// Releases the lock and leaves the file as it is. If the lock file does not exist any more, this is not an error.
    pub fn release(mut self) -> Result<(), Error> {
        self.unlock()
    }

    fn unlock(&mut self) -> Result<(), Error> {
        self.give_up_led();
        self.content = None;
        self.note.forget();
        self.content_note.forget();
        if !std::mem::take(&mut self.held) {
            return Ok(());
        }
        if self.place == Place::BesideBegun {
            // If that fails, the next writer of the content removes the file.
            let _ = self.fs.remove_file(&self.content_path());
        }
        // The signed file is closed last, because a signed lock file that nobody has open belongs to a dead process.
        match self.fs.remove_file(&self.path) {
            Err(error) if !error.is_not_found() => return Err(error),
            _ => {}
        }
        if let Some(SignedFile::Spare(spare)) = self.signature.take() {
            spare.put_back();
        }
        Ok(())
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Callers that must know whether the lock file is gone call `release`.
        let _ = self.unlock();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{IoHook, Verdict, op::Op};
    use std::sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    };

    #[test]
    fn a_committed_lock_replaces_the_file_and_a_dropped_one_leaves_it() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("packed-refs");
        let fs = Fs::real();
        std::fs::write(&target, "old").unwrap();
        let mut lock = Lock::acquire(&fs, &target, 0o666, LockTimeout::None).unwrap();
        lock.content().unwrap().write_all(b"never").unwrap();
        drop(lock);
        assert_eq!(fs.read(&target).unwrap(), b"old");
        let mut lock = Lock::acquire(&fs, &target, 0o666, LockTimeout::None).unwrap();
        lock.content().unwrap().write_all(b"new").unwrap();
        lock.commit().unwrap();
        assert_eq!(fs.read(&target).unwrap(), b"new");
        assert!(!Lock::path_of(&target).exists());
    }

    /// Previously, if a leader's rename failed and the leader was killed before it told its group, the members assumed
    /// that the leader's content had replaced the file.
    #[test]
    fn content_that_a_leader_does_not_publish_is_given_up() {
        struct Refusing(AtomicBool);
        impl IoHook for Refusing {
            fn before(&self, op: Op<'_>) -> Verdict {
                let refuses = matches!(op, Op::Rename(..)) && self.0.load(Relaxed);
                if refuses { Verdict::Fail(io::ErrorKind::PermissionDenied.into()) } else { Verdict::Proceed }
            }
        }
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("tables.list");
        let hook = Arc::new(Refusing(AtomicBool::new(true)));
        let plain = Fs::with_hook(hook.clone());
        for fs in [plain.clone(), plain.signing_locks()] {
            for (refuses, commits) in [(true, true), (false, false), (false, true)] {
                hook.0.store(refuses, Relaxed);
                let mut lock = Lock::acquire(&fs, &target, 0o666, LockTimeout::None).unwrap();
                lock.is_led = true;
                lock.content().unwrap().write_all(b"new").unwrap();
                let member = fs.open(&lock.content_path()).unwrap();
                let is_done = if commits { lock.commit().is_ok() } else { lock.release().is_err() };
                assert_eq!(is_done, commits && !refuses);
                assert_eq!(is_content_given_up(&member).unwrap(), !is_done, "{refuses} {commits}");
            }
        }
        assert_eq!(std::fs::read(&target).unwrap(), b"new");
    }

    #[test]
    fn a_held_lock_is_reported_with_its_path_and_never_removed() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("HEAD");
        std::fs::write(dir.path().join("HEAD.lock"), "").unwrap();
        for lock_timeout in [LockTimeout::None, LockTimeout::For(Duration::from_millis(20))] {
            let error = Lock::acquire(&Fs::real(), &target, 0o666, lock_timeout).unwrap_err();
            assert!(matches!(&error, LockError::Held { path, .. } if path.ends_with("HEAD.lock")), "{error}");
        }
        assert!(dir.path().join("HEAD.lock").exists());
    }

    #[test]
    fn a_linked_lock_excludes_others_and_goes_with_its_guard() {
        let dir = tempfile::tempdir().unwrap();
        let fs = Fs::real();
        let seed = dir.path().join("seed");
        std::fs::write(&seed, "").unwrap();
        let target = dir.path().join("x");
        let lock = Lock::acquire_linked(&fs, &target, &seed, LockTimeout::None).unwrap();
        assert!(Lock::acquire(&fs, &target, 0o666, LockTimeout::None).is_err());
        assert!(Lock::acquire_linked(&fs, &target, &seed, LockTimeout::None).is_err());
        drop(lock);
        assert!(!Lock::path_of(&target).exists());
    }
}
