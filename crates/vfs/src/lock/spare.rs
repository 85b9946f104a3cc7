//! Lock files that are signed in advance and used again, on a network file system: a lock is a hard link to one.
//!
//! Making and removing the link takes two requests, and the lock has its signature from the start. Making, signing,
//! locking and removing a separate lock file takes nine, and if the process is killed or the machine loses its power
//! before the signature has reached the server, the lock that is left names no owner, so that only a person can remove
//! it ([0098](../../../../docs/decisions/0098-locks-on-nfs-are-links.md)).

use super::{Lock, LockError, LockTimeout, signing, wait};
use crate::{
    BatchId, Fs, Result,
    abort::Note,
    network::links,
    signature::Signature,
    spares::{Spare, Spares},
};
use std::{ffi::OsStr, os::unix::ffi::OsStrExt, path::Path, sync::Arc};

/// What the name of a spare file begins and ends with; a random number is between the two. The name ends like that of a
/// lock, because spare files are listed and removed like locks.
const PREFIX: &str = "refdb-spare-";
const SUFFIX: &str = ".lock";

/// Returns whether this is the name of a spare file.
pub(super) fn is_spare(name: &[u8]) -> bool {
    name.starts_with(PREFIX.as_bytes()) && name.ends_with(SUFFIX.as_bytes())
}

/// Makes `lock` a link to a spare file. Returns `None` if that is not possible, so that the lock needs a file of its
/// own.
pub(super) fn link(
    fs: &Fs,
    lock: &Path,
    lock_timeout: LockTimeout,
    note: Note,
) -> std::result::Result<Option<Spare>, LockError> {
    let Some(spare) = fs.spares().and_then(|spares| take(fs, spares)) else { return Ok(None) };
    let link = || fs.link_own(&spare.file, &spare.path, lock).inspect(|()| note.arm());
    match wait::wait_for(fs, lock, lock_timeout, link) {
        Ok(()) => Ok(Some(spare)),
        Err(error @ LockError::Held { .. }) => {
            spare.put_back();
            Err(error)
        }
        Err(LockError::Io(error)) if error.is_signal() => {
            spare.put_back();
            Err(error.into())
        }
        // For example, the folder of the lock is missing, or somebody has removed the spare file. The spare file is not
        // used again.
        Err(LockError::Io(_)) => Ok(None),
    }
}

fn take(fs: &Fs, spares: &Arc<Spares>) -> Option<Spare> {
    if let Some(spare) = spares.take() {
        return Some(spare);
    }
    let fs = fs.without_spares();
    if spares.has_to_be_cleaned() {
        remove_dead(&fs, spares.folder());
    }
    make(&fs, spares).ok().flatten()
}

/// Makes a spare file, whose signature is on stable storage before the first lock is a link to the file. `None` if the
/// file cannot be signed.
fn make(fs: &Fs, spares: &Arc<Spares>) -> Result<Option<Spare>> {
    let path = spares.folder().join(format!("{PREFIX}{}{SUFFIX}", BatchId::random()));
    let file = fs.create_new(&path, 0o666)?;
    let mut spare = spares.add(path, file);
    signing::sign(&mut spare.file);
    spare.file.sync()?;
    let signed_len = Signature::own().map_or(0, |own| own.encode().len() as u64);
    Ok((signed_len > 0 && spare.file.stat()?.len_bytes == signed_len).then_some(spare))
}

/// Removes the spare files of processes that have certainly ended.
fn remove_dead(fs: &Fs, folder: &Path) {
    let Ok(folder) = fs.folder(folder) else { return };
    for (name, _) in folder.entries().unwrap_or_default() {
        if is_spare(&name) {
            Lock::remove_if_dead(fs, &folder, OsStr::from_bytes(&name));
        }
    }
}

/// Puts back a spare file to which several locks may have been links, if the server says that none of them is a link to
/// it any more. Otherwise the spare file is removed.
pub(super) fn put_back_if_free(spare: Spare) {
    if links(&spare.file).is_ok_and(|links| links == 1) {
        spare.put_back();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spares::SPARES_MAX;

    fn network(folder: &Path) -> Fs {
        Fs::real().signing_locks().asking_server(true).with_spares(folder)
    }

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_lock_is_a_link_to_a_file_that_is_used_again() {
        let dir = tempfile::tempdir().unwrap();
        let fs = network(dir.path());
        let target = dir.path().join("HEAD");
        let inode = |path: &Path| Fs::real().stat(path).unwrap().inode;
        let mut spare = None;
        for content in ["one", "two"] {
            let mut lock = Lock::acquire(&fs, &target, 0o666, LockTimeout::None).unwrap();
            let held = inode(lock.path());
            assert_eq!(*spare.get_or_insert(held), held);
            let own = Signature::own().unwrap().encode();
            assert_eq!(std::fs::read_to_string(lock.path()).unwrap(), own);
            let error = Lock::acquire(&fs, &target, 0o666, LockTimeout::None).unwrap_err();
            assert!(matches!(error, LockError::Held { by_us: true, .. }), "{error}");
            lock.content().unwrap().write_all(content.as_bytes()).unwrap();
            lock.commit().unwrap();
            assert_eq!(std::fs::read_to_string(&target).unwrap(), content);
        }
        assert_eq!(names(dir.path()).len(), 3, "HEAD, and a file for each of the two attempts at once");
        drop(fs);
        assert_eq!(names(dir.path()), ["HEAD"]);
    }

    /// Previously, a lock was as old as the file to which it is a link.
    #[test]
    fn the_age_of_a_lock_begins_when_it_is_taken() {
        let dir = tempfile::tempdir().unwrap();
        let (fs, target) = (network(dir.path()), dir.path().join("HEAD"));
        Lock::acquire(&fs, &target, 0o666, LockTimeout::None).unwrap().release().unwrap();
        let spare = dir.path().join(&names(dir.path())[0]);
        let days_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(3 * 86_400);
        std::fs::File::options().write(true).open(&spare).unwrap().set_modified(days_ago).unwrap();
        let lock = Lock::acquire(&fs, &target, 0o666, LockTimeout::None).unwrap();
        assert!(Fs::real().stat(lock.path()).unwrap().modified_nanos < crate::stat::now_nanos() - 3_600_000_000_000);
        let folder = fs.folder(dir.path()).unwrap();
        let look = Lock::look(&fs, &folder, OsStr::new("HEAD.lock")).unwrap().unwrap();
        let held = Lock::acquire(&fs, &target, 0o666, LockTimeout::None);
        let Err(LockError::Held { age_seconds, .. }) = held else { panic!("it is held") };
        assert!(age_seconds < 3_600 && look.age_seconds < 3_600, "{age_seconds} {look:?}");
    }

    #[test]
    fn a_lock_whose_removal_failed_is_that_of_a_dead_process() {
        let dir = tempfile::tempdir().unwrap();
        let fs = network(dir.path());
        let target = dir.path().join("HEAD");
        let lock = Lock::acquire(&fs, &target, 0o666, LockTimeout::None).unwrap();
        let path = lock.path().to_owned();
        std::fs::rename(&path, dir.path().join("aside")).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert!(lock.release().is_err());
        std::fs::remove_dir(&path).unwrap();
        std::fs::rename(dir.path().join("aside"), &path).unwrap();
        Lock::acquire(&Fs::real(), &target, 0o666, LockTimeout::None).unwrap().release().unwrap();
    }

    #[test]
    fn what_a_killed_process_left_is_removed_by_the_next_one() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("HEAD");
        let killed = network(dir.path());
        let mut lock = Lock::acquire(&killed, &target, 0o666, LockTimeout::None).unwrap();
        let spare = dir.path().join(names(dir.path()).pop().unwrap());
        std::fs::hard_link(&spare, dir.path().join("kept")).unwrap();
        lock.signature = None;
        std::mem::forget(lock);
        std::fs::rename(dir.path().join("kept"), &spare).unwrap();
        assert_eq!(names(dir.path()).len(), 2, "the lock and its spare file");
        let fs = network(dir.path());
        Lock::acquire(&fs, &target, 0o666, LockTimeout::None).unwrap().release().unwrap();
        drop(fs);
        assert_eq!(names(dir.path()), Vec::<String>::new());
    }

    #[test]
    fn where_no_file_can_be_made_or_found_a_lock_has_a_file_of_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("HEAD");
        let missing = network(&dir.path().join("missing"));
        Lock::acquire(&missing, &target, 0o666, LockTimeout::None).unwrap().release().unwrap();
        // Another program removes all files.
        let fs = network(dir.path());
        Lock::acquire(&fs, &target, 0o666, LockTimeout::None).unwrap().release().unwrap();
        names(dir.path()).iter().for_each(|name| std::fs::remove_file(dir.path().join(name)).unwrap());
        for _ in 0..2 {
            Lock::acquire(&fs, &target, 0o666, LockTimeout::None).unwrap().release().unwrap();
        }
        let below = dir.path().join("missing/HEAD");
        let error = Lock::acquire(&fs, &below, 0o666, LockTimeout::None).unwrap_err();
        assert!(matches!(error, LockError::Io(_)), "{error}");
    }

    #[test]
    fn ten_times_as_many_locks_as_spare_files_are_held_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let fs = network(dir.path());
        let lock = |at: usize| Lock::acquire(&fs, &dir.path().join(at.to_string()), 0o666, LockTimeout::None).unwrap();
        let held: Vec<Lock> = (0..10 * SPARES_MAX).map(lock).collect();
        held.into_iter().for_each(|lock| lock.release().unwrap());
        assert_eq!(names(dir.path()).len(), SPARES_MAX);
    }

    #[test]
    fn a_file_to_which_many_locks_are_links_is_used_again_once_all_are_gone() {
        let dir = tempfile::tempdir().unwrap();
        let fs = network(dir.path());
        for kept in [false, true] {
            let lock = Lock::acquire(&fs, &dir.path().join("first"), 0o666, LockTimeout::None).unwrap();
            let (source, left) = lock.into_source();
            let second =
                Lock::acquire_linked(&fs, &dir.path().join("second"), source.path(), LockTimeout::None).unwrap();
            left.remove(&fs, source.path()).unwrap();
            if kept {
                let _left = second.leave();
            } else {
                second.release().unwrap();
            }
            drop(source);
            // The name that is left is that of the spare file, or of the lock that stays. That lock is no longer held
            // with `flock`, so the next writer removes it.
            assert_eq!(names(dir.path()).len(), 1);
            Lock::acquire(&Fs::real(), &dir.path().join("second"), 0o666, LockTimeout::None)
                .unwrap()
                .release()
                .unwrap();
        }
        assert_eq!(names(dir.path()), Vec::<String>::new());
    }
}
