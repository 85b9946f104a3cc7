//! Finds the lock files of a repository, each in its open folder.

use crate::{Result, Store, files::FilesBackend};
use refdb_vfs::{EntryKind, Error, Folder, Lock};
use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStringExt,
    path::Path,
};

/// What a walk passes on: the folder and name of a file that is named like a lock, or why a folder cannot be read.
type Met<'a> = std::result::Result<(&'a Folder, &'a OsStr), Error>;

/// The folders of a worktree, or of the repository, below which locks lie at any depth.
const DEEP: [&str; 3] = ["refs", "logs", "reftable"];

/// Calls `each` with all files whose names are those of locks in the folders of the repository and its worktrees and
/// below their [`DEEP`] folders, and with the locks beside the file to which packed-refs leads. `NAME.lock.lock`, the
/// new content beside a signed lock, is left out.
///
/// # Errors
///
/// The folder of the repository cannot be read, or the file to which packed-refs leads cannot be found, for example
/// because the chain of symbolic links is too long.
pub(super) fn walk(store: &Store, each: &mut dyn FnMut(Met<'_>)) -> Result<()> {
    let repository = store.repository();
    let (common, refs) = (repository.common_dir(), repository.refs_dir());
    of_repository(store, common, each)?;
    if refs != common {
        of_repository(store, refs, each)?;
    }
    // If packed-refs is a symbolic link, its lock lies beside the file to which the link leads.
    if let Some(files) = store.backend_as::<FilesBackend>() {
        for target in files.packed_targets()? {
            let lock = Lock::path_of(&target);
            match lock.parent().zip(lock.file_name()) {
                Some((folder, name)) if folder != refs => match store.fs().folder(folder) {
                    Ok(folder) => each(Ok((&folder, name))),
                    Err(error) => each(Err(error)),
                },
                _ => {}
            }
        }
    }
    Ok(())
}

/// Walks the folder of the repository, or that of its refs if they lie elsewhere, and the worktrees' folders in it.
fn of_repository(store: &Store, base: &Path, each: &mut dyn FnMut(Met<'_>)) -> Result<()> {
    let top = store.fs().folder(base)?;
    of_worktree(store, &top, each);
    let worktrees = match top.folder(OsStr::new("worktrees")) {
        Ok(worktrees) => worktrees,
        Err(error) if error.is_not_found() || error.is_symlink() => return Ok(()),
        Err(error) => {
            each(Err(error));
            return Ok(());
        }
    };
    for name in names_in(&worktrees, each).folders {
        match worktrees.folder(&name) {
            Ok(worktree) => of_worktree(store, &worktree, each),
            Err(error) if error.is_not_found() => {}
            Err(error) => each(Err(error)),
        }
    }
    Ok(())
}

/// Walks the folder of a worktree, or of the repository: its own files, then those of refs, reflogs and tables.
fn of_worktree(store: &Store, top: &Folder, each: &mut dyn FnMut(Met<'_>)) {
    for name in names_in(top, each).locks {
        each(Ok((top, &name)));
    }
    for part in DEEP {
        // The folders `refs`, `logs` and `reftable` may be symbolic links, because a repository can share them with
        // another. Below them no link is followed.
        match store.fs().folder(&top.path().join(part)) {
            Ok(folder) => below(&folder, each),
            Err(error) if error.is_not_found() => {}
            Err(error) => each(Err(error)),
        }
    }
}

fn below(top: &Folder, each: &mut dyn FnMut(Met<'_>)) {
    let mut unreadable = Vec::new();
    let enter = |folder: &Folder| {
        let names = names_in(folder, each);
        for name in &names.locks {
            each(Ok((folder, name)));
        }
        Ok(Some(names.folders))
    };
    let walked = top.walk(
        |error| {
            unreadable.push(error);
            Ok(())
        },
        enter,
        |_, _| Ok(true),
    );
    walked.map_or_else(|error: Error| unreadable.push(error), |_| ());
    unreadable.into_iter().for_each(|error| each(Err(error)));
}

/// The entries of a folder that matter here.
#[derive(Default)]
struct Names {
    folders: Vec<OsString>,
    locks: Vec<OsString>,
}

fn names_in(folder: &Folder, each: &mut dyn FnMut(Met<'_>)) -> Names {
    let entries = match folder.entries() {
        Ok(entries) => entries,
        Err(error) => {
            each(Err(error));
            return Names::default();
        }
    };
    let mut names = Names::default();
    for (name, kind) in entries {
        match (kind, name.strip_suffix(b".lock")) {
            (EntryKind::Dir, _) => names.folders.push(OsString::from_vec(name)),
            // The new content beside a signed lock is removed together with the lock.
            (_, Some(target)) if !target.ends_with(b".lock") => names.locks.push(OsString::from_vec(name)),
            _ => {}
        }
    }
    names
}
