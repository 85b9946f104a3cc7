use crate::{Holdings, Result, Stats, View, ViewSettings, ViewsSettings, process::Process};
use std::{
    collections::HashMap,
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

/// The views of a process, one for each path of a repository, and what they share: the memory of all caches, a limit on
/// open files, and a thread that packs loose refs.
///
/// A view lives as long as somebody holds its [`Arc`]. Dropping `Views` and all views stops that thread, and waits
/// until it has ended its present step.
pub struct Views {
    process: Arc<Process>,
    views: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    by_path: HashMap<PathBuf, Weak<View>>,
    /// The number of entries above which those whose views are gone are removed.
    len_max: usize,
    /// How often [`Views::close`] was called.
    closes: u64,
}

impl Known {
    fn get(&self, git_dir: &Path) -> Option<Arc<View>> {
        self.by_path.get(git_dir).and_then(Weak::upgrade)
    }

    fn insert(&mut self, view: &Arc<View>) {
        let before = self.by_path.insert(view.git_dir().to_owned(), Arc::downgrade(view));
        debug_assert!(before.is_none_or(|view| view.strong_count() == 0), "a repository has one view");
        if self.by_path.len() > self.len_max {
            self.by_path.retain(|_, view| view.strong_count() > 0);
            self.len_max = 2 * self.by_path.len();
        }
    }
}

impl fmt::Debug for Views {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Views").finish_non_exhaustive()
    }
}

impl Views {
    /// Creates an empty set of views. Touches no file.
    pub fn new(settings: &ViewsSettings) -> Self {
        Views { process: Process::new(settings), views: Mutex::default() }
    }

    /// The view of the repository in this folder, which all callers share. `settings` apply only if this call makes
    /// the view.
    ///
    /// # Errors
    ///
    /// Fails if the repository cannot be opened, for instance because the folder is no repository or has a format that
    /// is not known.
    pub fn open(&self, git_dir: &Path, settings: &ViewSettings) -> Result<Arc<View>> {
        loop {
            let closes = {
                let known = self.views();
                if let Some(view) = known.get(git_dir) {
                    return Ok(view);
                }
                known.closes
            };
            // Opened without the lock, so that other repositories do not wait for this one's disk.
            let view = Arc::new(View::open(git_dir, settings.clone(), &self.process)?);
            let mut known = self.views();
            if let Some(other) = known.get(git_dir) {
                return Ok(other);
            }
            // A view of a repository that was closed meanwhile would stay known although it should be forgotten.
            if known.closes == closes {
                known.insert(&view);
                return Ok(view);
            }
        }
    }

    /// The view of the repository in this folder, if somebody holds it and [`close`](Self::close) has not forgotten it.
    pub fn get(&self, git_dir: &Path) -> Option<Arc<View>> {
        self.views().get(git_dir)
    }

    /// Forgets the view of this repository, so that the next call of [`open`](Self::open) makes a new one. Those who
    /// hold the present view can go on using it.
    pub fn close(&self, git_dir: &Path) {
        let mut known = self.views();
        known.closes += 1;
        known.by_path.remove(git_dir);
    }

    /// Bytes that all caches and views of the process hold together.
    pub fn held_bytes(&self) -> usize {
        self.process.memory.held_bytes()
    }

    /// What all views of the process hold together.
    pub fn holdings(&self) -> Holdings {
        let views = self.views().by_path.values().filter(|view| view.strong_count() > 0).count();
        self.process.holdings(views as u64)
    }

    /// The counters of each view that somebody holds and [`close`](Self::close) has not forgotten, with the path of its
    /// repository, in no order.
    pub fn stats(&self) -> Vec<(PathBuf, Stats)> {
        let views: Vec<_> = self.views().by_path.values().filter_map(Weak::upgrade).collect();
        views.into_iter().map(|view| (view.git_dir().to_owned(), view.stats())).collect()
    }

    fn views(&self) -> MutexGuard<'_, Known> {
        self.views.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
