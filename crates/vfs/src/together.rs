//! Syncs several files and folders at the same time, so that one commit of the file system's journal, or one flush of
//! the disk, serves many.
//!
//! The threads that sync are shared by the whole process. They are started when they are needed, and end after they
//! have been idle for a while.

use crate::{File, Fs, Result};
use std::{
    collections::{BTreeSet, VecDeque},
    path::PathBuf,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

/// Maximum number of threads, not counting the callers, which sync too.
const THREADS_MAX: usize = 24;
const STACK_BYTES: usize = 128 << 10;

/// The idle time after which a thread ends.
const IDLE_MAX: Duration = Duration::from_secs(5);

impl Fs {
    /// Brings these files and the entries of these folders to stable storage, in any order, and closes the files, some
    /// of them perhaps a moment after the call has returned.
    pub fn sync_together(&self, files: Vec<File>, folders: &BTreeSet<PathBuf>) -> Result<()> {
        if self.has_hook() || files.len() + folders.len() < 2 {
            files.iter().try_for_each(File::sync)?;
            return folders.iter().try_for_each(|folder| self.sync_dir(folder));
        }
        let folders = folders.iter().map(|folder| Item::Folder(folder.clone()));
        let items: Vec<Item> = files.into_iter().map(Item::File).chain(folders).collect();
        let left = items.len();
        let next = AtomicUsize::new(0);
        let state = Mutex::new(State { left, error: None });
        let job = Arc::new(Job { fs: self.clone(), items, next, state, done: Condvar::new() });
        THREADS.help_with(&job, left - 1);
        job.work();
        job.wait()
    }
}

enum Item {
    File(File),
    Folder(PathBuf),
}

/// The syncs that one caller waits for. The caller and each thread that helps take one item after the other.
struct Job {
    fs: Fs,
    items: Vec<Item>,
    next: AtomicUsize,
    state: Mutex<State>,
    done: Condvar,
}

struct State {
    left: usize,
    error: Option<crate::Error>,
}

impl Job {
    fn work(&self) {
        while let Some(item) = self.items.get(self.next.fetch_add(1, Relaxed)) {
            let synced = match item {
                Item::File(file) => file.sync(),
                Item::Folder(folder) => self.fs.sync_dir(folder),
            };
            let mut state = self.state();
            state.left -= 1;
            state.error = state.error.take().or(synced.err());
            if state.left == 0 {
                self.done.notify_all();
            }
        }
    }

    fn wait(&self) -> Result<()> {
        let all = self.done.wait_while(self.state(), |state| state.left > 0);
        all.unwrap_or_else(PoisonError::into_inner).error.take().map_or(Ok(()), Err)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

static THREADS: Threads =
    Threads { work: Mutex::new(Work { jobs: VecDeque::new(), idle: 0, running: 0 }), wake: Condvar::new() };

struct Threads {
    work: Mutex<Work>,
    wake: Condvar,
}

struct Work {
    /// One entry for each thread that is to help with a job and has not taken the job yet.
    jobs: VecDeque<Arc<Job>>,
    idle: usize,
    running: usize,
}

impl Threads {
    /// Makes up to this number of threads help. The caller makes progress without them too.
    fn help_with(&'static self, job: &Arc<Job>, helpers: usize) {
        let mut work = self.work();
        for _ in 0..helpers {
            if work.idle <= work.jobs.len() {
                if work.running >= THREADS_MAX {
                    break;
                }
                let builder = thread::Builder::new().name("refdb-sync".into()).stack_size(STACK_BYTES);
                if builder.spawn(|| self.run()).is_err() {
                    break;
                }
                work.running += 1;
                work.idle += 1;
            }
            work.jobs.push_back(Arc::clone(job));
            self.wake.notify_one();
        }
    }

    fn run(&self) {
        let mut work = self.work();
        loop {
            if let Some(job) = work.jobs.pop_front() {
                work.idle -= 1;
                drop(work);
                job.work();
                drop(job);
                work = self.work();
                work.idle += 1;
                continue;
            }
            let (woken, waited) = self.wake.wait_timeout(work, IDLE_MAX).unwrap_or_else(PoisonError::into_inner);
            work = woken;
            if waited.timed_out() && work.jobs.is_empty() {
                (work.idle, work.running) = (work.idle - 1, work.running - 1);
                return;
            }
        }
    }

    fn work(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn files(dir: &Path, count: usize) -> (Vec<File>, BTreeSet<PathBuf>) {
        let fs = Fs::real();
        let file = |at: usize| {
            let mut file = fs.create_new(&dir.join(format!("{at}")), 0o666).unwrap();
            file.write_all(b"x").unwrap();
            file
        };
        let folders = (0..count).map(|at| dir.join(format!("d{at}"))).collect();
        BTreeSet::iter(&folders).for_each(|folder| std::fs::create_dir(folder).unwrap());
        ((0..count).map(file).collect(), folders)
    }

    #[test]
    fn many_callers_at_once_wait_for_all_of_theirs() {
        let dir = tempfile::tempdir().unwrap();
        thread::scope(|scope| {
            for caller in 0..16 {
                let dir = dir.path().join(format!("{caller}"));
                scope.spawn(move || {
                    std::fs::create_dir(&dir).unwrap();
                    let (files, folders) = files(&dir, 5);
                    Fs::real().sync_together(files, &folders).unwrap();
                });
            }
        });
        assert!(THREADS.work().running <= THREADS_MAX);
    }

    #[test]
    fn a_failure_of_one_is_a_failure_of_all() {
        let dir = tempfile::tempdir().unwrap();
        let (files, mut folders) = files(dir.path(), 3);
        folders.insert(dir.path().join("gone"));
        assert!(Fs::real().sync_together(files, &folders).unwrap_err().is_not_found());
    }
}
