//! The lock files of a repository: who created each, and the removal of those of a boot that has ended.

mod walk;

use crate::{
    Result, Store,
    files::{EndedBatches, FilesBackend, Outcome, TakenOver},
};
use refdb_vfs::{EndedBoot, Folder, Fs, Lock, LockLook, Removal};
use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
};

/// A lock file, or the journal file of a batch that is not complete.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LockFile {
    /// The path of the file.
    pub path: PathBuf,
    /// What is known of the process that created the file, and whether that process is alive.
    pub look: LockLook,
}

/// What became of a lock file or journal file that an [ended boot](EndedBoot) had left.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LockRemoval {
    /// The lock file is removed.
    Removed,
    /// The batch of the journal file is recovered, and its locks are removed.
    Recovered(Outcome),
    /// The file stays, because somebody holds this lock or another lock of the same batch.
    Held,
    /// The file stays, because this file system does not show whether somebody holds the lock.
    Doubtful,
}

impl Store {
    /// Calls `found` with the lock files of the repository, in no order: those in the folder of the repository and of
    /// each worktree, those of refs, reflogs and tables, and journal files of batches that are not complete. An error
    /// passed to `found` is about one file or folder.
    ///
    /// Nothing is changed, but each signed file is locked in shared mode for a moment. Symbolic links are followed only
    /// to `refs`, `logs` and `reftable` themselves, and to packed-refs.
    ///
    /// # Errors
    ///
    /// The folder of the repository or of the journal cannot be read, or the file to which packed-refs leads cannot be
    /// found, for example because the chain of symbolic links is too long.
    #[doc(hidden)]
    pub fn lock_files(&self, found: &mut dyn FnMut(Result<LockFile>)) -> Result<()> {
        if !self.backend().is_on_disk() {
            return Ok(());
        }
        let fs = self.fs();
        let look = |folder: &Folder, name: &OsStr| match Lock::look(fs, folder, name) {
            Ok(Some(look)) => Some(Ok(LockFile { path: folder.path().join(name), look })),
            Ok(None) => None,
            Err(error) => Some(Err(error.into())),
        };
        walk::walk(self, &mut |met| match met {
            Ok((folder, name)) => look(folder, name).into_iter().for_each(&mut *found),
            Err(error) => found(Err(error.into())),
        })?;
        let Some(files) = self.backend_as::<FilesBackend>() else { return Ok(()) };
        for path in files.journal_entries()?.open {
            let Some((folder, name)) = path.parent().zip(path.file_name()) else { continue };
            match fs.folder_no_follow(folder) {
                Ok(folder) => look(&folder, name).into_iter().for_each(&mut *found),
                Err(error) => found(Err(error.into())),
            }
        }
        Ok(())
    }

    /// Removes the lock files that an ended boot has left. A batch of that boot is recovered before its locks are
    /// removed. `told` is called for each batch and each other lock file of that boot, and for each folder that cannot
    /// be read, in no order. All other locks stay, and so does a lock that somebody holds or that may be held
    /// ([`LockRemoval::Doubtful`]).
    ///
    /// Other processes, also on other machines, may meanwhile write refs or remove such lock files.
    ///
    /// # Errors
    ///
    /// The folder of the repository or of the journal cannot be read, the file to which packed-refs leads cannot be
    /// found, for example because the chain of symbolic links is too long, or refs that were files have been migrated.
    #[doc(hidden)]
    pub fn remove_lock_files(&self, boot: &EndedBoot, told: &mut dyn FnMut(&Path, Result<LockRemoval>)) -> Result<()> {
        if !self.backend().is_on_disk() {
            return Ok(());
        }
        let fs = self.fs().clone().with_ended_boot(boot.clone());
        let batches = match self.backend_as::<FilesBackend>() {
            Some(files) => Some(files.ended_batches(boot)?),
            None => None,
        };
        walk::walk(self, &mut |met| match met {
            Ok((folder, name)) => remove(&fs, folder, name, batches.as_ref(), told),
            Err(error) => {
                let path = error.path.clone();
                told(&path, Err(error.into()));
            }
        })?;
        let Some(batches) = batches else { return Ok(()) };
        for (record, taken_over) in batches.recover_rest()? {
            tell_batch(&record, &record, taken_over, told);
        }
        Ok(())
    }
}

fn remove(
    fs: &Fs,
    folder: &Folder,
    name: &OsStr,
    batches: Option<&EndedBatches>,
    told: &mut dyn FnMut(&Path, Result<LockRemoval>),
) {
    let path = folder.path().join(name);
    match Lock::remove_of_ended_boot(fs, folder, name) {
        Err(error) => told(&path, Err(error.into())),
        Ok(Removal::Other) => {}
        Ok(Removal::Removed) => told(&path, Ok(LockRemoval::Removed)),
        Ok(Removal::Held) => told(&path, Ok(LockRemoval::Held)),
        Ok(Removal::Doubtful) => told(&path, Ok(LockRemoval::Doubtful)),
        Ok(Removal::Batch(stale)) => match batches {
            Some(batches) => {
                let (record, taken_over) = batches.recover(*stale);
                tell_batch(&path, &record, taken_over, told);
            }
            // Only files have batches, and a migration to another format recovers them first.
            None => told(&path, Ok(LockRemoval::Held)),
        },
    }
}

/// Reports what became of the batch whose journal file is `record`. `path` is that of a lock of the batch, or equal to
/// `record` if no lock was found.
fn tell_batch(
    path: &Path,
    record: &Path,
    taken_over: Result<TakenOver>,
    told: &mut dyn FnMut(&Path, Result<LockRemoval>),
) {
    match taken_over {
        Err(error) => told(record, Err(error)),
        Ok(TakenOver::Recovered(outcome)) => told(record, Ok(LockRemoval::Recovered(outcome))),
        // The batch had not begun, or was complete: only its lock was left.
        Ok(TakenOver::Nothing) => told(path, Ok(LockRemoval::Removed)),
        Ok(TakenOver::Busy) => told(path, Ok(LockRemoval::Held)),
    }
}
