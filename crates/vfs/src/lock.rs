use crate::{Error, File, Fs, Stat, interrupt};
use std::{
    ffi::OsString,
    io,
    path::{Path, PathBuf},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// How long to wait for a lock that someone else holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Patience {
    /// Fail at once.
    None,
    /// Fail when one and the same holder has kept it this long; each new holder starts the time anew.
    For(Duration),
    /// Wait as long as it takes.
    Forever,
}

impl Patience {
    /// Git's settings for lock timeouts: milliseconds, 0 for not at all, negative for ever.
    pub fn from_millis(millis: i64) -> Self {
        match u64::try_from(millis) {
            Err(_) => Patience::Forever,
            Ok(0) => Patience::None,
            Ok(millis) => Patience::For(Duration::from_millis(millis)),
        }
    }
}

/// Why a lock was not had.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Someone else holds it. It is never removed here: the user must make sure that its owner is gone.
    #[error(
        "'{}' is held by someone else (user {uid}, for {age_seconds} s); if no such process is running, remove the file",
        path.display()
    )]
    Held {
        /// The lock file.
        path: PathBuf,
        /// Its age when we gave up.
        age_seconds: u64,
        /// Its owner.
        uid: u32,
    },
    /// The lock file could not be made: no permission, no folder, a signal.
    #[error(transparent)]
    Io(#[from] Error),
}

/// Git's lock on a file: `FILE.lock`, created only if it does not exist.
///
/// The new content of the file is written into the lock file, which [`Lock::commit`] renames over the file. Dropping
/// a lock that was not committed removes it.
#[derive(Debug)]
#[must_use = "the lock is given up when this is dropped"]
pub struct Lock {
    fs: Fs,
    target: PathBuf,
    path: PathBuf,
    file: Option<File>,
    held: bool,
}

impl Lock {
    /// The lock file of `target`.
    pub fn path_of(target: &Path) -> PathBuf {
        let mut path = OsString::from(target);
        path.push(".lock");
        path.into()
    }

    /// Locks `target`, waiting as `patience` says. The lock file is created with `mode`, subject to the umask.
    pub fn acquire(fs: &Fs, target: &Path, mode: u32, patience: Patience) -> Result<Self, LockError> {
        let path = Self::path_of(target);
        let file = wait_for(fs, &path, patience, || fs.create_new(&path, mode))?;
        Ok(Lock { fs: fs.clone(), target: target.to_owned(), path, file: Some(file), held: true })
    }

    /// Locks `target` with another name of the file `seed` instead of a file of its own, which is cheaper where there
    /// are thousands. Nothing can be written into such a lock, and it can only be released.
    pub fn acquire_linked(fs: &Fs, target: &Path, seed: &Path, patience: Patience) -> Result<Self, LockError> {
        let path = Self::path_of(target);
        wait_for(fs, &path, patience, || match fs.hard_link(seed, &path) {
            // A file can have 65,000 names on ext4; the locks beyond that are files of their own.
            Err(error) if error.source.kind() == io::ErrorKind::TooManyLinks => fs.create_new(&path, 0o666).map(drop),
            linked => linked,
        })?;
        Ok(Lock { fs: fs.clone(), target: target.to_owned(), path, file: None, held: true })
    }

    /// Waits until nobody holds the lock of `target`, without taking it.
    pub fn wait_until_free(fs: &Fs, target: &Path, patience: Patience) -> Result<(), LockError> {
        let path = Self::path_of(target);
        wait_for(fs, &path, patience, || match fs.stat_link(&path) {
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) => Err(error),
            Ok(_) => Err(Error::new("lock", target, io::Error::from(io::ErrorKind::AlreadyExists))),
        })
    }

    /// Turns the guard into the lock file's path: the lock is held until that file is removed. For those who hold
    /// thousands of locks and know their names anyway.
    pub fn into_path(mut self) -> PathBuf {
        self.held = false;
        std::mem::take(&mut self.path)
    }

    /// The file this lock is for.
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// The lock file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The open lock file, to write the new content into; `None` once it is [closed](Lock::close), or for a linked lock.
    pub fn file(&mut self) -> Option<&mut File> {
        self.file.as_mut()
    }

    /// Closes the lock file but keeps the lock: thousands of locks need no thousands of descriptors.
    pub fn close(&mut self) {
        self.file = None;
    }

    /// Replaces the file by the lock file's content and gives up the lock.
    pub fn commit(mut self) -> Result<(), Error> {
        self.file = None;
        self.fs.rename(&self.path, &self.target)?;
        self.held = false;
        Ok(())
    }

    /// Like [`commit`](Lock::commit), and returns the file, open as it was: nobody can have replaced it before it could
    /// be opened again. `None` for a lock that was closed.
    pub fn commit_and_keep_open(mut self) -> Result<Option<File>, Error> {
        self.fs.rename(&self.path, &self.target)?;
        self.held = false;
        Ok(self.file.take().map(|file| file.renamed(&self.target)))
    }

    /// Gives up the lock and leaves the file as it is.
    pub fn release(mut self) -> Result<(), Error> {
        self.unlock()
    }

    fn unlock(&mut self) -> Result<(), Error> {
        self.file = None;
        if std::mem::take(&mut self.held) { self.fs.remove_file(&self.path) } else { Ok(()) }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Whoever cares whether the lock file is gone calls `release`.
        let _ = self.unlock();
    }
}

fn wait_for<T>(
    fs: &Fs,
    path: &Path,
    patience: Patience,
    mut attempt: impl FnMut() -> Result<T, Error>,
) -> Result<T, LockError> {
    let mut wait: Option<Wait> = None;
    loop {
        match attempt() {
            Ok(done) => return Ok(done),
            Err(error) if !error.is_exists() => return Err(error.into()),
            Err(_) => {}
        }
        interrupt::check().map_err(|source| Error::new("lock", path, source))?;
        let holder = || fs.stat_link(path).ok();
        if patience == Patience::None {
            return Err(held(path, holder()));
        }
        let wait = wait.get_or_insert_with(|| Wait::new(holder()));
        // Who holds it is asked no more often than it matters: the attempts alone keep the file system busy.
        if let Patience::For(limit) = patience
            && wait.since.elapsed() >= limit
            && let holder = holder()
            && wait.is_still(holder)
        {
            return Err(held(path, holder));
        }
        wait.pause();
    }
}

fn held(path: &Path, holder: Option<Stat>) -> LockError {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_nanos() as i128);
    let age = holder.map_or(0, |stat| (now - stat.modified_nanos).max(0) / 1_000_000_000);
    LockError::Held {
        path: path.to_owned(),
        age_seconds: u64::try_from(age).unwrap_or(u64::MAX),
        uid: holder.map_or(0, |stat| stat.uid),
    }
}

/// The pauses between attempts: short at first, growing, and spread at random so that waiters do not march in step.
struct Wait {
    holder: Option<(u64, u64, i128)>,
    since: Instant,
    pause: Duration,
    random: u64,
}

impl Wait {
    const FIRST_PAUSE: Duration = Duration::from_micros(200);
    /// With 5 ms eight writers waited twice as long at worst, and shared less evenly.
    const LONGEST_PAUSE: Duration = Duration::from_micros(1500);

    fn new(holder: Option<Stat>) -> Self {
        let seed = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.subsec_nanos());
        let random = u64::from(seed) << 32 | u64::from(std::process::id()) | 1;
        Wait { holder: identity(holder), since: Instant::now(), pause: Self::FIRST_PAUSE, random }
    }

    /// Whether this is the holder that was waited for so far. If it is not, the waiting starts anew.
    fn is_still(&mut self, holder: Option<Stat>) -> bool {
        let holder = identity(holder);
        if holder == self.holder {
            return true;
        }
        (self.holder, self.since) = (holder, Instant::now());
        false
    }

    fn pause(&mut self) {
        // xorshift64: spreading needs no better.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        std::thread::sleep(self.pause.mul_f64(0.5 + (self.random % 1024) as f64 / 1024.0));
        self.pause = (self.pause * 3 / 2).min(Self::LONGEST_PAUSE);
    }
}

/// Inodes are reused at once on some file systems, so the time the lock was made belongs to its holder's identity.
fn identity(holder: Option<Stat>) -> Option<(u64, u64, i128)> {
    holder.map(|stat| (stat.device, stat.inode, stat.changed_nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_committed_lock_replaces_the_file_and_a_dropped_one_leaves_it() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("packed-refs");
        let fs = Fs::real();
        std::fs::write(&target, "old").unwrap();
        let mut lock = Lock::acquire(&fs, &target, 0o666, Patience::None).unwrap();
        lock.file().unwrap().write_all(b"never").unwrap();
        drop(lock);
        assert_eq!(fs.read(&target).unwrap(), b"old");
        let mut lock = Lock::acquire(&fs, &target, 0o666, Patience::None).unwrap();
        lock.file().unwrap().write_all(b"new").unwrap();
        lock.commit().unwrap();
        assert_eq!(fs.read(&target).unwrap(), b"new");
        assert!(!Lock::path_of(&target).exists());
    }

    #[test]
    fn a_held_lock_is_reported_with_its_path_and_never_removed() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("HEAD");
        std::fs::write(dir.path().join("HEAD.lock"), "").unwrap();
        for patience in [Patience::None, Patience::For(Duration::from_millis(20))] {
            let error = Lock::acquire(&Fs::real(), &target, 0o666, patience).unwrap_err();
            assert!(matches!(&error, LockError::Held { path, .. } if path.ends_with("HEAD.lock")), "{error}");
        }
        assert!(dir.path().join("HEAD.lock").exists());
    }

    #[test]
    fn the_deadline_starts_anew_with_each_holder() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("x");
        let fs = Fs::real();
        let path = Lock::path_of(&target);
        Lock::acquire(&fs, &target, 0o666, Patience::None).unwrap().into_path();
        let limit = Duration::from_millis(1);
        let mut holders = 0;
        let taken = || Error::new("create", &path, io::Error::from(io::ErrorKind::AlreadyExists));
        // Each attempt takes longer than a holder is waited for, and meets another holder.
        let attempt = || {
            std::thread::sleep(limit * 2);
            let next = dir.path().join(format!("next{holders}"));
            std::fs::write(&next, "").unwrap();
            fs.rename(&next, &path).unwrap();
            holders += 1;
            if holders == 20 { Ok(()) } else { Err(taken()) }
        };
        wait_for(&fs, &path, Patience::For(limit), attempt).unwrap();
        let waited = wait_for(&fs, &path, Patience::For(limit), || fs.create_new(&path, 0o666).map(drop));
        assert!(matches!(waited, Err(LockError::Held { .. })), "the last holder stays");
    }

    #[test]
    fn a_seed_that_can_have_no_more_names_gives_way_to_files() {
        struct Exhausted;
        impl crate::Witness for Exhausted {
            fn before(&self, op: crate::Op<'_>) -> crate::Verdict {
                match op {
                    crate::Op::Link(..) => crate::Verdict::Fail(io::ErrorKind::TooManyLinks.into()),
                    _ => crate::Verdict::Proceed,
                }
            }
        }
        let dir = tempfile::tempdir().unwrap();
        let fs = Fs::witnessed(std::sync::Arc::new(Exhausted));
        let target = dir.path().join("x");
        let lock = Lock::acquire_linked(&fs, &target, &dir.path().join("seed"), Patience::None).unwrap();
        assert!(Lock::acquire(&fs, &target, 0o666, Patience::None).is_err());
        lock.release().unwrap();
    }

    #[test]
    fn a_linked_lock_excludes_others_and_goes_with_its_guard() {
        let dir = tempfile::tempdir().unwrap();
        let fs = Fs::real();
        let seed = dir.path().join("seed");
        std::fs::write(&seed, "").unwrap();
        let target = dir.path().join("x");
        let lock = Lock::acquire_linked(&fs, &target, &seed, Patience::None).unwrap();
        assert!(Lock::acquire(&fs, &target, 0o666, Patience::None).is_err());
        assert!(Lock::acquire_linked(&fs, &target, &seed, Patience::None).is_err());
        drop(lock);
        assert!(!Lock::path_of(&target).exists());
    }
}
