use crate::{Holdings, Result, Stats, View, ViewSettings, ViewsSettings, process::Process};
use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

/// The views of a process, one a repository, and what they share: memory, and files that are open.
///
/// A view lives as long as somebody holds it.
pub struct Views {
    process: Arc<Process>,
    views: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    by_path: HashMap<PathBuf, Weak<View>>,
    /// With more than this, those that are gone are looked for.
    len_max: usize,
}

impl Known {
    fn insert(&mut self, view: &Arc<View>) {
        let before = self.by_path.insert(view.git_dir().to_owned(), Arc::downgrade(view));
        debug_assert!(before.is_none_or(|view| view.strong_count() == 0), "a repository has one view");
        if self.by_path.len() > self.len_max {
            self.by_path.retain(|_, view| view.strong_count() > 0);
            self.len_max = 2 * self.by_path.len();
        }
    }
}

impl Views {
    /// No views yet.
    pub fn new(settings: &ViewsSettings) -> Self {
        Views { process: Process::new(settings), views: Mutex::default() }
    }

    /// The view of the repository in this folder, which all callers share. The settings count where nobody has it yet.
    pub fn open(&self, git_dir: &Path, settings: &ViewSettings) -> Result<Arc<View>> {
        if let Some(view) = self.get(git_dir) {
            return Ok(view);
        }
        // Opened without the lock: other repositories shall not wait for this one's disk.
        let view = Arc::new(View::open(git_dir, settings.clone(), &self.process)?);
        let mut known = self.views();
        if let Some(other) = known.by_path.get(git_dir).and_then(Weak::upgrade) {
            return Ok(other);
        }
        known.insert(&view);
        Ok(view)
    }

    /// The view of the repository in this folder, if somebody has it.
    pub fn get(&self, git_dir: &Path) -> Option<Arc<View>> {
        self.views().by_path.get(git_dir).and_then(Weak::upgrade)
    }

    /// Gives the next one who opens this repository a new view. Holders of the present one can go on with it.
    pub fn close(&self, git_dir: &Path) {
        self.views().by_path.remove(git_dir);
    }

    /// Bytes that all caches hold together.
    pub fn held_bytes(&self) -> usize {
        self.process.memory.held_bytes()
    }

    /// What all views hold together.
    pub fn holdings(&self) -> Holdings {
        let views = self.views().by_path.values().filter(|view| view.strong_count() > 0).count();
        self.process.holdings(views as u64)
    }

    /// What each view has done.
    pub fn stats(&self) -> Vec<(PathBuf, Stats)> {
        let views: Vec<_> = self.views().by_path.values().filter_map(Weak::upgrade).collect();
        views.into_iter().map(|view| (view.git_dir().to_owned(), view.stats())).collect()
    }

    fn views(&self) -> MutexGuard<'_, Known> {
        self.views.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
