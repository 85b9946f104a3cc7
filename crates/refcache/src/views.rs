use crate::{Result, Stats, View, ViewSettings, ViewsSettings, memory::Memory};
use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// The views of a process, one a repository, and the memory they share.
pub struct Views {
    memory: Arc<Memory>,
    open: Mutex<HashMap<PathBuf, Arc<View>>>,
}

impl Views {
    /// No views yet.
    pub fn new(settings: &ViewsSettings) -> Self {
        Views { memory: Memory::new(settings), open: Mutex::default() }
    }

    /// The view of the repository in this folder, which all callers share. The settings count where it is not open yet.
    pub fn open(&self, git_dir: &Path, settings: &ViewSettings) -> Result<Arc<View>> {
        if let Some(view) = self.get(git_dir) {
            return Ok(view);
        }
        // Opened without the lock: other repositories shall not wait for this one's disk.
        let view = Arc::new(View::open(git_dir, settings.clone(), &self.memory)?);
        let view = Arc::clone(self.views().entry(git_dir.to_owned()).or_insert(view));
        self.memory.add(&view);
        Ok(view)
    }

    /// The view of the repository in this folder, if it is open.
    pub fn get(&self, git_dir: &Path) -> Option<Arc<View>> {
        self.views().get(git_dir).map(Arc::clone)
    }

    /// Lets go of a view. Whoever still holds it can go on with it.
    pub fn close(&self, git_dir: &Path) {
        self.views().remove(git_dir);
    }

    /// Bytes that all caches hold together.
    pub fn held_bytes(&self) -> usize {
        self.memory.held_bytes()
    }

    /// What each view has done.
    pub fn stats(&self) -> Vec<(PathBuf, Stats)> {
        let views: Vec<_> = self.views().iter().map(|(path, view)| (path.clone(), Arc::clone(view))).collect();
        views.into_iter().map(|(path, view)| (path, view.stats())).collect()
    }

    fn views(&self) -> MutexGuard<'_, HashMap<PathBuf, Arc<View>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
