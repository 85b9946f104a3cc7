//! Runs work that waits for the disk on several threads.

use crate::{Fs, Result};
use std::{
    collections::BTreeSet,
    panic::resume_unwind,
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    thread,
};

/// Maximum number of threads that sync the folders of one call. There is one for every [`EACH`] folders.
const AT_ONCE_MAX: usize = 8;
const EACH: usize = 4;

const STACK_BYTES: usize = 256 << 10;

impl Fs {
    /// Runs `work` on up to `threads` threads, including the current one, and returns the result of each. The current
    /// thread works alone if no other can be started, or if there is an I/O hook, which then sees the changes in order.
    pub fn side_by_side<T: Send>(&self, threads: usize, work: &(dyn Fn() -> T + Sync)) -> Vec<T> {
        let threads = if self.has_hook() { 1 } else { threads };
        thread::scope(|scope| {
            let spawn = |_| thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, work).ok();
            let others: Vec<_> = (1..threads).map_while(spawn).collect();
            let own = work();
            let ended = others.into_iter().map(|other| other.join().unwrap_or_else(|panic| resume_unwind(panic)));
            std::iter::once(own).chain(ended).collect()
        })
    }

    /// Brings the entries of these folders to stable storage, with several threads if there are more than four,
    /// because a disk can make one flush for all syncs that wait. If a folder no longer exists, the closest existing
    /// folder above it is synced, so that its removal is durable.
    pub fn sync_dirs(&self, folders: &BTreeSet<PathBuf>) -> Result<()> {
        let folders: Vec<&Path> = folders.iter().map(PathBuf::as_path).collect();
        let next = AtomicUsize::new(0);
        let work = || {
            while let Some(folder) = folders.get(next.fetch_add(1, Relaxed)) {
                self.sync_dir_or_parent(folder)?;
            }
            Ok(())
        };
        self.side_by_side(folders.len().div_ceil(EACH).min(AT_ONCE_MAX), &work).into_iter().collect()
    }

    fn sync_dir_or_parent(&self, folder: &Path) -> Result<()> {
        for at in folder.ancestors() {
            // The parent of a single name is empty and means the current folder.
            match self.sync_dir(if at.as_os_str().is_empty() { Path::new(".") } else { at }) {
                Err(error) if error.is_not_found() => {}
                synced => return synced,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{IoHook, Op, Verdict};
    use std::sync::{Arc, Mutex};

    #[derive(Default)]
    struct Synced(Mutex<Vec<PathBuf>>);

    impl IoHook for Synced {
        fn before(&self, op: Op<'_>) -> Verdict {
            if let Op::SyncDir(path) = op {
                self.0.lock().unwrap().push(path.to_owned());
            }
            Verdict::Proceed
        }
    }

    #[test]
    fn each_folder_is_synced_and_for_one_that_is_gone_that_above_it() {
        let dir = tempfile::tempdir().unwrap();
        let folders: BTreeSet<PathBuf> = (0..100).map(|at| dir.path().join(format!("{at}"))).collect();
        folders.iter().for_each(|folder| std::fs::create_dir(folder).unwrap());
        Fs::real().sync_dirs(&folders).unwrap();
        let gone = dir.path().join("7/8/9");
        let seen = Arc::new(Synced::default());
        let fs = Fs::with_hook(seen.clone());
        fs.sync_dirs(&[gone.clone(), dir.path().join("5")].into()).unwrap();
        let expected = [dir.path().join("5"), gone.clone(), dir.path().join("7/8"), dir.path().join("7")];
        assert_eq!(*seen.0.lock().unwrap(), expected);
    }

    #[test]
    fn for_a_relative_folder_that_is_gone_the_current_one_is_synced() {
        let seen = Arc::new(Synced::default());
        Fs::with_hook(seen.clone()).sync_dirs(&["no such/folder".into()].into()).unwrap();
        assert_eq!(*seen.0.lock().unwrap(), ["no such/folder", "no such", "."].map(PathBuf::from));
    }

    #[test]
    fn a_failure_of_one_is_a_failure_of_all() {
        let dir = tempfile::tempdir().unwrap();
        let mut folders: BTreeSet<PathBuf> = (0..64).map(|at| dir.path().join(format!("{at}"))).collect();
        folders.iter().for_each(|folder| std::fs::create_dir(folder).unwrap());
        let circle = dir.path().join("circle");
        std::os::unix::fs::symlink(&circle, &circle).unwrap();
        folders.insert(circle);
        assert!(Fs::real().sync_dirs(&folders).is_err());
    }
}
