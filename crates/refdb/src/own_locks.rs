//! Notes which stacks the prepared transactions of this thread have locked, because a thread that waits for its own
//! lock waits in vain.

use crate::{Misuse, Result};
use refdb_vfs::{Fs, Stat};
use std::{
    cell::RefCell,
    path::{Path, PathBuf},
    rc::{Rc, Weak},
};

thread_local! {
    static NOTED: RefCell<Vec<Weak<[PathBuf]>>> = const { RefCell::new(Vec::new()) };
}

/// The folders of locked stacks, which this thread remembers until the value is dropped. Neither this type nor its
/// owner is `Send`; otherwise this thread could be told to end a transaction that another thread now has.
pub(crate) struct OwnLocks(#[expect(dead_code, reason = "it is there to be dropped")] Option<Rc<[PathBuf]>>);

impl OwnLocks {
    pub(crate) fn note(folders: Vec<PathBuf>) -> Self {
        if folders.is_empty() {
            return OwnLocks(None);
        }
        let folders: Rc<[PathBuf]> = folders.into();
        NOTED.with_borrow_mut(|noted| {
            noted.retain(|folders| folders.strong_count() > 0);
            noted.push(Rc::downgrade(&folders));
        });
        OwnLocks(Some(folders))
    }
}

/// Refuses to lock the stacks if a prepared transaction of this thread has locked one of them, even through another
/// store of the same repository.
pub(crate) fn refuse_own(fs: &Fs, mut folders: impl Iterator<Item = PathBuf>) -> Result<()> {
    let own: Vec<_> = NOTED.with_borrow(|noted| noted.iter().filter_map(Weak::upgrade).collect());
    if own.is_empty() {
        return Ok(());
    }
    let own: Vec<_> = own.iter().flat_map(|folders| folders.iter()).filter_map(|folder| identity(fs, folder)).collect();
    match folders.find(|folder| identity(fs, folder).is_some_and(|folder| own.contains(&folder))) {
        Some(folder) => Err(Misuse::OwnLock { folder }.into()),
        None => Ok(()),
    }
}

/// Returns the device and inode number of a folder, by which two paths are known to lead to the same folder.
fn identity(fs: &Fs, folder: &Path) -> Option<(u64, u64)> {
    fs.stat(folder).ok().as_ref().map(Stat::file_id)
}
