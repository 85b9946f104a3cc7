use std::{
    fs::{self, File},
    path::{Path, PathBuf},
};

/// A lock file as a program other than refdb holds it. Dropping it removes the file.
#[derive(Debug)]
#[must_use = "the lock is released when this is dropped"]
pub struct ForeignLock(PathBuf);

impl ForeignLock {
    /// Locks the file `target`.
    ///
    /// # Panics
    ///
    /// If the file is locked, or the lock file cannot be created.
    pub fn of(target: &Path) -> Self {
        let mut lock = target.to_owned().into_os_string();
        lock.push(".lock");
        File::create_new(&lock).expect("nobody holds the lock");
        ForeignLock(lock.into())
    }
}

impl Drop for ForeignLock {
    fn drop(&mut self) {
        fs::remove_file(&self.0).expect("nobody else removes the lock");
    }
}
