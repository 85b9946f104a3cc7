//! Which stacks the transactions of this process have locked, and on which thread. A thread that waits for itself waits
//! for ever.

use crate::{Misuse, Result};
use refdb_vfs::{Fs, Stat};
use std::{
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    thread::{self, ThreadId},
};

/// Few at a time: servers have one a thread.
static HELD: Mutex<Vec<(ThreadId, PathBuf)>> = Mutex::new(Vec::new());

/// A note that a thread has locked a stack. Dropping it, on any thread, takes the note back.
#[derive(Debug)]
pub(super) struct Held {
    thread: ThreadId,
    folder: PathBuf,
}

impl Held {
    pub(super) fn note(folder: PathBuf) -> Self {
        let thread = thread::current().id();
        held().push((thread, folder.clone()));
        Held { thread, folder }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut held = held();
        let own = held.iter().position(|(thread, folder)| (thread, folder) == (&self.thread, &self.folder));
        debug_assert!(own.is_some(), "a noted stack is noted until its note goes: {:?}", self.folder);
        own.map(|own| held.swap_remove(own));
    }
}

/// Refuses to lock stacks of which this thread has locked one. Another store of the same repository counts too.
pub(super) fn refuse_own(fs: &Fs, mut folders: impl Iterator<Item = PathBuf>) -> Result<()> {
    let thread = thread::current().id();
    let own: Vec<PathBuf> =
        held().iter().filter(|(holder, _)| *holder == thread).map(|(_, folder)| folder.clone()).collect();
    if own.is_empty() {
        return Ok(());
    }
    let own: Vec<_> = own.iter().filter_map(|folder| identity(fs, folder)).collect();
    match folders.find(|folder| identity(fs, folder).is_some_and(|folder| own.contains(&folder))) {
        Some(folder) => Err(Misuse::OwnLock { folder }.into()),
        None => Ok(()),
    }
}

fn held() -> MutexGuard<'static, Vec<(ThreadId, PathBuf)>> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Device and inode, by which two paths are known to lead to one folder.
fn identity(fs: &Fs, folder: &Path) -> Option<(u64, u64)> {
    fs.stat(folder).ok().map(|Stat { device, inode, .. }| (device, inode))
}
