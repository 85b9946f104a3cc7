//! Removes the locks made during a boot that an administrator says has ended.
//!
//! On a network file system, no machine can find out that another one will not come back, so no client of the file
//! server removes a lock of another boot by itself. An administrator can know, and names the boot.

use super::{
    Lock, StaleLock,
    look::{self, LockLook, LockState},
    reach,
    signing::{Signed, Suspect, lock_alone},
    spare,
};
use crate::{File, Folder, Fs, Result, signature::Signature};
use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

/// The outcome of an attempt to remove a lock file of an ended boot.
#[derive(Debug)]
#[must_use]
pub enum Removal {
    /// The lock file is removed, and so is the file beside it with the new content.
    Removed,
    /// The lock file belongs to a batch, which must be recovered before the lock is removed.
    Batch(Box<StaleLock>),
    /// The lock file stays, because somebody holds the lock.
    Held,
    /// The lock file stays, because this file system does not show whether a machine holds the lock.
    Doubtful,
    /// There is no lock of that boot under this name, or none any more.
    Other,
}

impl Lock {
    /// Examines the lock file of this name in an open folder, and does not change the file. `None` if there is none any
    /// more, if the name leads to a folder, or if it is a spare lock file that somebody holds. Such a file is no lock
    /// under its own name.
    ///
    /// A signed file is locked in shared mode for a moment, at which a file server can give up the `flock` of a machine
    /// that is cut off from it.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read or examined.
    pub fn look(fs: &Fs, folder: &Folder, name: &OsStr) -> Result<Option<LockLook>> {
        let is_lock = |look: &LockLook| {
            !spare::is_spare(name.as_bytes()) || !matches!(look.state, LockState::Held | LockState::HeldElsewhere)
        };
        Ok(look::look(fs, folder, name)?.filter(is_lock))
    }

    /// Keeps an open, empty file locked with `flock` as long as it is open, and on a file system that machines share,
    /// signs it. Returns whether it is locked. A file that cannot be signed, for example because the disk is full, is
    /// locked without a signature.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be locked or examined.
    pub fn keep(fs: &Fs, file: &mut File) -> Result<bool> {
        let is_locked = file.try_lock()?;
        if is_locked && !reach::is_local(fs, file)? {
            if let Some(own) = Signature::own() {
                let _ = file.write_all(own.encode().as_bytes());
            }
        }
        Ok(is_locked)
    }

    /// Locks a file that its owner [keeps](Self::keep) locked with `flock`, if the owner has certainly ended. `None` if
    /// the file is gone or somebody has it locked. On a file system that machines share, `None` too, without asking for
    /// the lock, if the file is that of another boot or not signed, or if `flock` is not known to reach the server.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be opened for writing or examined.
    pub fn take_abandoned(fs: &Fs, folder: &Folder, name: &OsStr) -> Result<Option<File>> {
        match Self::take_once(fs, folder, name) {
            Err(error) if error.is_not_found() || error.is_stale() => Ok(None),
            taken => taken,
        }
    }

    fn take_once(fs: &Fs, folder: &Folder, name: &OsStr) -> Result<Option<File>> {
        // NFS locks a file exclusively only if it is open for writing.
        let file = folder.open_to_overwrite(name)?;
        let (is_local, stat) = (reach::is_local(fs, &file)?, file.stat()?);
        // The file is locked only where that proves something: a file server gives up the locks of a machine that is
        // cut off from it as soon as another machine asks for them.
        let is_proof = is_local
            || reach::reaches_server(stat.device)
                && Signed::read(&file, stat.len_bytes)?.is_some_and(|signed| {
                    signed.owner().is_proof(Signature::own(), is_local, || reach::may_stay_in_mount(stat.device))
                });
        Ok((is_proof && lock_alone(&file, is_local)?).then_some(file))
    }

    /// Tries to remove the lock file of this name in an open folder if the [ended boot](Fs::with_ended_boot) of `fs`
    /// made it. The [`Removal`] says why it stays, if it does.
    ///
    /// The file is locked until its name is gone, and on a network file system the server is asked whether the name
    /// still leads to it. If several try to remove it and `flock` reaches all of them, only one succeeds, and none
    /// removes a later lock. Only a manual removal, or an owner whose lock the file server has dropped, can then
    /// intervene between the query and the removal.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be opened for writing, examined or removed.
    pub fn remove_of_ended_boot(fs: &Fs, folder: &Folder, name: &OsStr) -> Result<Removal> {
        let Some(boot) = fs.ended_boot() else { return Ok(Removal::Other) };
        let suspect = folder.open_to_overwrite(name).and_then(|file| Suspect::of(folder.again()?, name, file));
        let removal = match suspect {
            Ok(Some(suspect)) if suspect.signed.owner().boot == boot.id() => remove(fs, suspect),
            Err(error) if error.is_not_found() || error.is_symlink() || error.is_special() || error.is_folder() => {
                return Ok(Removal::Other);
            }
            suspect => suspect.map(|_| Removal::Other),
        };
        match removal {
            // Another machine has removed it.
            Err(error) if error.is_stale() => Ok(Removal::Other),
            removal => removal,
        }
    }
}

fn remove(fs: &Fs, suspect: Suspect) -> Result<Removal> {
    let is_local = reach::is_local(fs, &suspect.file)?;
    if !lock_alone(&suspect.file, is_local)? {
        return Ok(Removal::Held);
    }
    // A journal file that nobody had locked may have been signed anew by a process that has ended since.
    if Signed::read(&suspect.file, suspect.file.stat()?.len_bytes)?.as_ref() != Some(&suspect.signed) {
        return Ok(Removal::Other);
    }
    if !suspect.free_means_gone(fs, is_local) {
        return Ok(Removal::Doubtful);
    }
    if !suspect.is_in_place()? {
        return Ok(Removal::Other);
    }
    match suspect.signed {
        Signed::Batch(_, id) => Ok(Removal::Batch(Box::new(StaleLock::new(suspect, id)))),
        Signed::Alone(_) => suspect.remove().map(|()| Removal::Removed),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::{
        super::{LockTimeout, reach::SHARED, signing::tests::lock_as_nfs_server},
        *,
    };
    use crate::{BatchId, EndedBoot};
    use std::{
        path::Path,
        sync::atomic::{AtomicBool, AtomicU32, Ordering},
    };

    /// The boot id of no machine.
    pub(in crate::lock) const OTHER: &str = "00000000-aaaa-4aaa-8aaa-000000000000";

    fn knowing(boot: &str) -> Fs {
        Fs::real().with_ended_boot(EndedBoot::new(boot).unwrap())
    }

    fn remove_at(fs: &Fs, target: &Path) -> Removal {
        let path = Lock::path_of(target);
        let folder = fs.folder(path.parent().unwrap()).unwrap();
        Lock::remove_of_ended_boot(fs, &folder, path.file_name().unwrap()).unwrap()
    }

    /// A lock of another boot, with the new content beside it. It is held as long as the file is open.
    fn lock_of(target: &Path, boot: &str) -> File {
        let line = Signature { pid: 7, boot: boot.into(), host: None }.encode();
        let temporary = target.with_extension("new");
        let mut file = Fs::real().create_new(&temporary, 0o666).unwrap();
        assert!(file.try_lock().unwrap());
        file.write_all(line.as_bytes()).unwrap();
        std::fs::write(Lock::path_of(&Lock::path_of(target)), "never").unwrap();
        std::fs::rename(&temporary, Lock::path_of(target)).unwrap();
        file
    }

    #[test]
    fn the_locks_of_the_named_boot_go_with_their_content_and_no_others_do() {
        let dir = tempfile::tempdir().unwrap();
        let [own, other, unsigned] = ["own", "other", "unsigned"].map(|name| dir.path().join(name));
        drop(lock_of(&own, OTHER));
        drop(lock_of(&other, "11111111-aaaa-4aaa-8aaa-000000000000"));
        std::fs::write(Lock::path_of(&unsigned), "").unwrap();
        for is_kept in [None, Some(true)] {
            SHARED.set(is_kept);
            for target in [&other, &unsigned] {
                assert!(matches!(remove_at(&knowing(OTHER), target), Removal::Other));
                assert!(Lock::path_of(target).exists());
            }
            assert!(matches!(remove_at(&Fs::real(), &own), Removal::Other), "nobody has said that it ended");
            assert!(matches!(remove_at(&knowing(OTHER), &own), Removal::Removed));
            assert!(matches!(remove_at(&knowing(OTHER), &own), Removal::Other));
            assert!(!Lock::path_of(&own).exists() && !Lock::path_of(&Lock::path_of(&own)).exists());
            drop(lock_of(&own, OTHER));
        }
        SHARED.set(None);
    }

    #[test]
    fn a_lock_that_somebody_has_stays_whoever_vouches_for_the_machine() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("x");
        let held = lock_of(&target, OTHER);
        let fs = Fs::real().with_ended_boot(EndedBoot::new(OTHER).unwrap().machine_is_off());
        for is_kept in [None, Some(true), Some(false)] {
            SHARED.set(is_kept);
            assert!(matches!(remove_at(&fs, &target), Removal::Held));
        }
        SHARED.set(None);
        drop(held);
        assert!(matches!(remove_at(&fs, &target), Removal::Removed));
    }

    #[test]
    fn where_flock_may_stay_on_one_machine_somebody_has_to_vouch_for_the_other() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("x");
        drop(lock_of(&target, OTHER));
        SHARED.set(Some(false));
        assert!(matches!(remove_at(&knowing(OTHER), &target), Removal::Doubtful));
        assert!(Lock::path_of(&target).exists());
        let vouched = Fs::real().with_ended_boot(EndedBoot::new(OTHER).unwrap().machine_is_off());
        assert!(matches!(remove_at(&vouched, &target), Removal::Removed));
        SHARED.set(None);
    }

    #[test]
    fn a_file_is_abandoned_where_its_owner_would_be_seen_and_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Fs::real().folder(dir.path()).unwrap();
        let mut file = Fs::real().create_new(&dir.path().join("x"), 0o600).unwrap();
        file.write_all(Signature::own().unwrap().encode().as_bytes()).unwrap();
        let taken = |name: &str| Lock::take_abandoned(&Fs::real(), &folder, OsStr::new(name)).unwrap().is_some();
        for (shared, is_seen) in [(None, true), (Some(true), true), (Some(false), false)] {
            SHARED.set(shared);
            assert_eq!(taken("x"), is_seen);
            assert!(!taken("missing"));
        }
        // On a network file system, a file that another machine has signed, or nobody, is not even locked, because the
        // server might then give up that machine's lock. On a local one there is no other machine.
        std::fs::write(dir.path().join("other"), Signature { pid: 7, boot: OTHER.into(), host: None }.encode())
            .unwrap();
        std::fs::write(dir.path().join("unsigned"), "").unwrap();
        for (shared, is_taken) in [(Some(true), false), (Some(false), false), (None, true)] {
            SHARED.set(shared);
            assert_eq!((taken("other"), taken("unsigned")), (is_taken, is_taken));
        }
        assert!(file.try_lock().unwrap());
        assert!(!taken("x"));
        drop(file);
        let mut client = lock_as_nfs_server(&dir.path().join("x"));
        let is_taken = taken("x");
        drop(client.stdin.take());
        client.wait().unwrap();
        assert!(!is_taken && taken("x"));
    }

    #[test]
    fn a_lock_that_an_nfs_client_has_through_this_machines_server_stays() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("x");
        drop(lock_of(&target, OTHER));
        let path = Lock::path_of(&target);
        let mut client = lock_as_nfs_server(&path);
        let folder = Fs::real().folder(dir.path()).unwrap();
        let look = Lock::look(&Fs::real(), &folder, path.file_name().unwrap()).unwrap().unwrap();
        let removal = remove_at(&knowing(OTHER), &target);
        drop(client.stdin.take());
        client.wait().unwrap();
        assert_eq!(look.state, super::super::LockState::HeldElsewhere);
        assert!(matches!(removal, Removal::Held));
        assert!(matches!(remove_at(&knowing(OTHER), &target), Removal::Removed));
    }

    #[test]
    fn a_writer_does_not_even_ask_for_the_lock_of_another_boot() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("x");
        let owner = lock_of(&target, OTHER);
        SHARED.set(Some(true));
        let suspect = Suspect::open(&Fs::real(), &Lock::path_of(&target)).unwrap().unwrap();
        drop(owner);
        assert!(!suspect.is_dead(&Fs::real()).unwrap());
        SHARED.set(None);
        let again = Fs::real().open(&Lock::path_of(&target)).unwrap();
        assert!(again.try_lock().unwrap(), "a machine that was cut off gets its lock back");
    }

    #[test]
    fn the_lock_of_a_batch_is_handed_over_and_not_removed() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("x");
        let id = BatchId::random();
        let own = Signature { boot: OTHER.into(), ..Signature::own().unwrap().clone() };
        std::fs::write(Lock::path_of(&target), own.encode_batch(id)).unwrap();
        SHARED.set(Some(true));
        let Removal::Batch(stale) = remove_at(&knowing(OTHER), &target) else { panic!("it names a batch") };
        SHARED.set(None);
        assert_eq!(stale.id(), id);
        assert!(Lock::path_of(&target).exists());
    }

    #[test]
    fn a_lock_that_is_taken_between_the_look_at_the_old_one_and_its_removal_stays() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("HEAD");
        for shared in [None, Some(true)] {
            SHARED.set(shared);
            drop(lock_of(&target, OTHER));
            let fs = knowing(OTHER);
            let suspect = Suspect::open(&fs, &Lock::path_of(&target)).unwrap().unwrap();
            let Removal::Removed = remove_at(&fs, &target) else { panic!("another one removes it") };
            let next = Lock::acquire(&Fs::real().signing_locks(), &target, 0o666, LockTimeout::None).unwrap();
            let removal = remove(&fs, suspect).unwrap();
            assert!(next.path().exists(), "a new lock is never removed");
            assert!(matches!(removal, Removal::Other));
            next.release().unwrap();
        }
        SHARED.set(None);
    }

    /// A live machine finds the lock of an ended boot, removes it and takes the lock itself, again and again, while
    /// other threads remove locks of that boot, as the administrator's command does.
    #[test]
    fn a_new_lock_is_never_removed_in_the_place_of_the_old_one() {
        const ROUNDS: u32 = 300;
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("packed-refs");
        let path = Lock::path_of(&target);
        let (is_over, removed) = (AtomicBool::new(false), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let fs = knowing(OTHER);
                    while !is_over.load(Ordering::Relaxed) {
                        let is_removed = matches!(remove_at(&fs, &target), Removal::Removed);
                        removed.fetch_add(u32::from(is_removed), Ordering::Relaxed);
                    }
                });
            }
            for round in 0..ROUNDS {
                drop(lock_of(&target, OTHER));
                let take = || Lock::acquire(&Fs::real().signing_locks(), &target, 0o666, LockTimeout::None).ok();
                let lock = std::iter::repeat_with(take).flatten().next().unwrap();
                for _ in 0..round % 8 {
                    std::thread::yield_now();
                }
                let is_there = path.exists();
                is_over.store(!is_there, Ordering::Relaxed);
                assert!(is_there, "the lock of a live process is removed in round {round}");
                lock.release().unwrap();
            }
            is_over.store(true, Ordering::Relaxed);
        });
        assert!(removed.into_inner() > 0, "the others have a part in it");
    }
}
