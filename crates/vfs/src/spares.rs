//! Lock files that were signed in advance and wait to be used, in a folder of a network file system.

use crate::File;
use rustix::time::{ClockId, Timespec, clock_gettime};
use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

/// Maximum number of spare files that wait to be used. More exist while more locks are held at once.
pub(crate) const SPARES_MAX: usize = 4;

/// The time after the file server's last answer for which a waiting spare file counts as locked with `flock(2)`. A file
/// server drops the locks of a machine that has not called it for the time of a lease, which is 10 s or longer.
const LOCKED_FOR: Duration = Duration::from_secs(5);

/// Spare files in one folder. Those that wait are removed when this is dropped.
#[derive(Debug)]
pub(crate) struct Spares {
    folder: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    free: Vec<Spare>,
    /// Whether files that ended processes left have been looked for.
    is_clean: bool,
}

/// A signed file, which this process keeps locked with `flock(2)`. Only the holder of this value makes locks that are
/// hard links to the file.
#[derive(Debug)]
pub(crate) struct Spare {
    pub(crate) path: PathBuf,
    pub(crate) file: File,
    home: Weak<Spares>,
    /// The time when the file was made, or when it was last put back.
    used: SinceStart,
}

/// A moment, by the time since this machine was started. Unlike the clock of `Instant`, it runs while the machine is
/// suspended, when the file server hears nothing of it and may drop its locks.
#[derive(Clone, Copy, Debug)]
struct SinceStart(Timespec);

impl SinceStart {
    fn now() -> Self {
        SinceStart(clock_gettime(ClockId::Boottime))
    }

    fn elapsed(self) -> Duration {
        Duration::try_from(Self::now().0 - self.0).unwrap_or_default()
    }
}

impl Drop for Spare {
    fn drop(&mut self) {
        // A lock that is still a link to the file has the signature but, once the file is closed, no `flock`, so that
        // the next writer removes that lock.
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Spares {
    pub(crate) fn within(folder: &Path) -> Self {
        Spares { folder: folder.to_owned(), state: Mutex::default() }
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Takes a waiting file that this process still has locked, or can lock again; `None` if there is none. Waiting
    /// files that cannot be locked are removed.
    pub(crate) fn take(&self) -> Option<Spare> {
        loop {
            let spare = self.state().free.pop()?;
            if spare.used.elapsed() < LOCKED_FOR || matches!(spare.file.try_lock(), Ok(true)) {
                return Some(spare);
            }
        }
    }

    /// Returns whether this is the first call, in which case the caller has to remove files that ended processes left.
    pub(crate) fn has_to_be_cleaned(&self) -> bool {
        !std::mem::replace(&mut self.state().is_clean, true)
    }

    /// Returns a spare for a new file, which the caller has to lock and sign.
    pub(crate) fn add(self: &Arc<Self>, path: PathBuf, file: File) -> Spare {
        Spare { path, file, home: Arc::downgrade(self), used: SinceStart::now() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Spare {
    /// Makes the file available again, or removes it if, for example, enough files wait. The file server must just have
    /// answered that no lock is a link to the file any more.
    pub(crate) fn put_back(mut self) {
        self.used = SinceStart::now();
        if let Some(home) = self.home.upgrade() {
            let mut state = home.state();
            if state.free.len() < SPARES_MAX {
                state.free.push(self);
            }
        }
    }
}
