//! Taking a lock: alone, or in a queue with other writers.

use super::{Lock, LockError, LockTimeout, Place, SignedFile, signing, spare, wait};
use crate::{
    Error, File, Fs,
    abort::Note,
    queue::{ALONE, Crowd, JOINS, QueueHead, Turn},
};
use std::{
    io,
    path::{Path, PathBuf},
};
use wait::{Got, Line};

/// The result of waiting for a lock that writers can use together.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "it is moved once or twice")]
pub enum Acquired {
    /// The lock.
    Lock(Lock),
    /// A turn to write while another writer holds the lock. That writer waits for the answer.
    Turn(Turn),
}

impl Acquired {
    /// Returns the lock. Panics if this is a turn, which only a writer that joins others gets.
    pub fn into_lock(self) -> Lock {
        match self {
            Acquired::Lock(lock) => lock,
            Acquired::Turn(_) => unreachable!("only a writer that joins others gets a turn"),
        }
    }
}

impl Lock {
    /// Locks `target`, and waits for other holders as long as `lock_timeout` says. The file for the new content, and
    /// the lock file unless it is a link to a spare one, are created with `mode`, subject to the umask. A signed lock
    /// file stays open until the lock is released.
    pub fn acquire(fs: &Fs, target: &Path, mode: u32, lock_timeout: LockTimeout) -> Result<Self, LockError> {
        Self::acquire_or_join(fs, target, mode, lock_timeout, "", false, None).map(Acquired::into_lock)
    }

    /// As [`acquire`](Self::acquire); the lock is never signed.
    pub fn acquire_unsigned(fs: &Fs, target: &Path, mode: u32, lock_timeout: LockTimeout) -> Result<Self, LockError> {
        let line = &mut Line::of(target, "", ALONE);
        Self::acquire_in_line(fs, target, mode, lock_timeout, false, line).map(Acquired::into_lock)
    }

    /// Locks `target` as [`acquire`](Self::acquire) does. Processes that agree on `terms` wait in one queue. If the
    /// caller `joins`, it can get a turn under the lock of another writer instead. If it knows of a `crowd` and is to
    /// wait at all, it enters the queue even if the lock is free, and lets others come.
    pub fn acquire_or_join(
        fs: &Fs,
        target: &Path,
        mode: u32,
        lock_timeout: LockTimeout,
        terms: &str,
        joins: bool,
        crowd: Option<Crowd>,
    ) -> Result<Acquired, LockError> {
        let mut line = Line::of(target, terms, if joins { JOINS } else { ALONE });
        line.crowd = crowd;
        let is_signed = Self::is_signed(fs, target);
        Self::acquire_in_line(fs, target, mode, lock_timeout, is_signed, &mut line)
    }

    fn acquire_in_line(
        fs: &Fs,
        target: &Path,
        mode: u32,
        lock_timeout: LockTimeout,
        is_signed: bool,
        line: &mut Line<'_>,
    ) -> Result<Acquired, LockError> {
        let mut lock = Lock::new(fs, target, mode, if is_signed { Place::Beside } else { Place::Within });
        let note = Note::of(&lock.path);
        let got = if is_signed {
            let signed = create_signed(fs, &lock.path, mode, lock_timeout, note, line);
            signed.map(|got| got.map(|signature| lock.signature = Some(signature)))
        } else {
            let create = || fs.create_noted(&lock.path, mode, note);
            let created = wait::wait_in_line(fs, &lock.path, lock_timeout, line, create);
            created.map(|got| got.map(|content| lock.content = Some(content)))
        };
        lock.note = note;
        match got? {
            Got::Lock(()) => {
                (lock.head, lock.held) = (line.head.take(), true);
                Ok(Acquired::Lock(lock))
            }
            Got::Turn(turn) => Ok(Acquired::Turn(turn)),
        }
    }

    /// Returns whether this writer is the head of a queue of those who wait for the lock.
    pub fn has_queue(&self) -> bool {
        self.head.is_some()
    }

    /// Takes over the queue of those who wait for this lock. The queue is passed on when the returned value is dropped,
    /// instead of after the lock is released.
    pub fn take_queue(&mut self) -> Option<QueueHead> {
        self.is_led = self.head.is_some();
        self.head.take()
    }

    /// The file in which a lock of `target` has the new content: the lock file itself, unless it is signed.
    pub fn content_path_of(target: &Path, is_signed: bool) -> PathBuf {
        let lock = Self::path_of(target);
        if is_signed { signing::content_of(&lock) } else { lock }
    }

    /// Opens the content file again, unless someone has removed or replaced it although the lock is held.
    pub(super) fn reopen(&mut self) -> Result<File, Error> {
        let path = self.content_path().into_owned();
        let opened = self.fs.open_to_append(&path);
        let is_gone = match &opened {
            Ok(file) => {
                let id = file.stat()?.file_id();
                self.closed.is_some_and(|own| own != id)
            }
            Err(error) => error.is_not_found(),
        };
        if is_gone && self.place == Place::Within {
            // What is there, or will be, is the lock of another writer, which stays.
            self.held = false;
            self.note.forget();
        }
        match opened {
            Ok(_) if is_gone => {
                Err(Error::new("write", &path, io::Error::other("the file was replaced although its lock was held")))
            }
            opened => opened,
        }
    }

    /// Makes an abort of the process leave the new content from now on, and the lock file too if it contains the new
    /// content.
    pub fn keep_content(&mut self) {
        self.content_note().forget();
    }

    /// Returns whether the [queue was taken over](Self::take_queue), so that others may write under this lock.
    pub fn is_led(&self) -> bool {
        self.is_led
    }
}

/// Creates a signed lock file. It is signed before it has a name if it can be a link to a spare file, or if the file
/// system supports files without a name. Otherwise, a process that is killed after it has created the file and before
/// it has signed the file leaves a lock that looks like git's.
fn create_signed(
    fs: &Fs,
    path: &Path,
    mode: u32,
    lock_timeout: LockTimeout,
    note: Note,
    line: &mut Line<'_>,
) -> Result<Got<SignedFile>, LockError> {
    if let Some(spare) = spare::link(fs, path, lock_timeout, note)? {
        return Ok(Got::Lock(SignedFile::Spare(spare)));
    }
    let mut unnamed = None;
    let name = || {
        // Nothing is created for a writer that gets a turn under another's lock before its first attempt.
        if unnamed.is_none() {
            let file = fs.create_unnamed(path, mode)?;
            unnamed = Some(file.map(|mut file| {
                signing::sign(&mut file);
                file
            }));
        }
        match &unnamed {
            Some(Some(file)) => fs.name(file).inspect(|()| note.arm()).map(|()| true),
            _ => Ok(false),
        }
    };
    match wait::wait_in_line(fs, path, lock_timeout, line, name) {
        Ok(Got::Lock(true)) => {
            if let Some(Some(file)) = unnamed {
                return Ok(Got::Lock(SignedFile::Own(file)));
            }
        }
        Ok(Got::Turn(turn)) => return Ok(Got::Turn(turn)),
        Err(error @ LockError::Held { .. }) => return Err(error),
        Err(LockError::Io(error)) if error.is_signal() => return Err(error.into()),
        // The file system has no files without names, or the file cannot be given a name here, or creating it below
        // fails in the same way.
        Ok(Got::Lock(false)) | Err(LockError::Io(_)) => {}
    }
    let create = || fs.create_noted(path, mode, note);
    let created = wait::wait_in_line(fs, path, lock_timeout, line, create)?;
    Ok(created.map(|mut file| {
        signing::sign(&mut file);
        SignedFile::Own(file)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{IoHook, Op, Verdict, interrupt};
    use std::sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    };

    /// Removes the lock file of another writer when a lock file is to be created for the second time.
    struct Frees(AtomicU32);

    impl IoHook for Frees {
        fn before(&self, op: Op<'_>) -> Verdict {
            match op {
                Op::Create(path) if path.ends_with("ref.lock") && self.0.fetch_add(1, Ordering::Relaxed) == 1 => {
                    std::fs::remove_file(path).unwrap();
                }
                _ => {}
            }
            Verdict::Proceed
        }
    }

    const STOPS: &str = "REFDB_TEST_STOPS";

    /// Previously, the lock was tried once more, and could still be taken.
    #[test]
    fn a_signal_ends_the_wait_for_a_signed_lock() {
        if std::env::var_os(STOPS).is_none() {
            // The signal would end the waits of other tests of this process, too.
            let test = "lock::acquire::tests::a_signal_ends_the_wait_for_a_signed_lock";
            let mut again = std::process::Command::new(std::env::current_exe().unwrap());
            let status = again.args(["--exact", test, "--test-threads=1"]).env(STOPS, "1").status();
            assert!(status.unwrap().success());
            return;
        }
        interrupt::pretend(15);
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("ref");
        let theirs = Lock::path_of(&target);
        std::fs::write(&theirs, "").unwrap();
        let fs = Fs::with_hook(Arc::new(Frees(0.into()))).signing_locks();
        let waited = Lock::acquire(&fs, &target, 0o666, LockTimeout::Forever);
        assert!(matches!(&waited, Err(LockError::Io(error)) if error.is_signal()), "{waited:?}");
        assert!(theirs.exists());
    }

    /// Previously, the file was created again, or the new content was added to that of the other writer.
    #[test]
    fn a_closed_lock_that_is_gone_or_that_of_another_writer_is_not_written() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("ref");
        for another in [None, Some("theirs")] {
            let mut lock = Lock::acquire(&Fs::real(), &target, 0o666, LockTimeout::None).unwrap();
            lock.close();
            lock.content().unwrap().write_all(b"ours").unwrap();
            lock.close();
            // The inode stays in use, so that no other file gets its number.
            let path = lock.path().to_owned();
            std::fs::rename(&path, dir.path().join("removed")).unwrap();
            another.into_iter().for_each(|content| std::fs::write(&path, content).unwrap());
            assert!(lock.content().is_err());
            drop(lock);
            assert_eq!(std::fs::read_to_string(&path).ok().as_deref(), another);
        }
    }
}
