//! Lock files that were signed in advance and wait to be used, in a folder of a network file system.

use crate::File;
use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::{Duration, Instant},
};

/// The most spare files that wait to be used. More exist while more locks are held at once.
pub(crate) const SPARES_MAX: usize = 4;

/// The time for which a spare file that waits is certain to be locked with `flock(2)`. A server drops the locks of a
/// machine that it has not heard of for its lease, which is 10 s or longer.
const LOCKED_FOR: Duration = Duration::from_secs(5);

/// The spare files of this process in one folder, which are removed with this.
#[derive(Debug)]
pub(crate) struct Spares {
    folder: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    free: Vec<Spare>,
    /// Whether the files that dead processes left were looked for.
    is_clean: bool,
}

/// A signed file, which this process keeps locked with `flock(2)`. One lock at a time is a link to it, so that a name
/// which leads to the file was given to it by the holder of this value.
#[derive(Debug)]
pub(crate) struct Spare {
    pub(crate) path: PathBuf,
    pub(crate) file: File,
    home: Weak<Spares>,
    /// When the server last answered.
    used: Instant,
}

impl Drop for Spare {
    fn drop(&mut self) {
        // Without its other name a lock stays signed by a dead process, so that the next writer removes it.
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

    /// Takes a file that waits, if there is one that this process has locked.
    pub(crate) fn take(&self) -> Option<Spare> {
        loop {
            let spare = self.state().free.pop()?;
            if spare.used.elapsed() < LOCKED_FOR || matches!(spare.file.try_lock(), Ok(true)) {
                return Some(spare);
            }
        }
    }

    /// Whether this is the first call, after which the caller looks for files that dead processes left.
    pub(crate) fn has_to_be_cleaned(&self) -> bool {
        !std::mem::replace(&mut self.state().is_clean, true)
    }

    /// A new file, which exists and is locked.
    pub(crate) fn add(self: &Arc<Self>, path: PathBuf, file: File) -> Spare {
        Spare { path, file, home: Arc::downgrade(self), used: Instant::now() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Spare {
    /// Has the file used again. No lock may be a link to it any more, as the server has just answered.
    pub(crate) fn put_back(mut self) {
        self.used = Instant::now();
        if let Some(home) = self.home.upgrade() {
            let mut state = home.state();
            if state.free.len() < SPARES_MAX {
                state.free.push(self);
            }
        }
    }
}
