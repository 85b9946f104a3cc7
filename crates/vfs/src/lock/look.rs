//! Examines a lock file without changing it: who made it, and whether somebody has it locked.

use super::{reach, signing::Signed};
use crate::{BatchId, File, Folder, Fs, Result, Stat, signature::Signature, stat::now_nanos};
use std::ffi::OsStr;

/// Whether the owner of a lock file is alive, as far as that can be known from this machine.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum LockState {
    /// The lock file has no signature of refdb, like the locks of git and JGit, and most locks of refdb's command line.
    Unsigned,
    /// A process of the current boot of this machine holds the lock.
    Held,
    /// A process of another machine holds the lock, or an earlier boot of this machine created the lock file and
    /// somebody holds the lock.
    HeldElsewhere,
    /// The process that held the lock has ended. The next writer of refdb removes the lock file, or recovers its batch
    /// if it has a recovery handler.
    Stale,
    /// Another machine, or an earlier boot of this one, created the lock file, and nobody holds the lock now. The
    /// process has ended, or the file server has dropped the `flock` because that machine is off or cut off from the
    /// file server. The two cases cannot be told apart from here, so refdb removes the lock only if an administrator
    /// says that the boot has ended.
    Unheld,
    /// Nobody here has the file locked, but this file system may keep `flock` to one machine or one mount, so that the
    /// owner may be at work.
    Doubtful,
}

/// What a lock file says, and what can be known of its owner.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LockLook {
    /// Whether the owner is alive.
    pub state: LockState,
    /// The process that created the lock file; `None` if the file is [unsigned](LockState::Unsigned).
    pub signature: Option<Signature>,
    /// The batch to which the lock belongs, if it belongs to one.
    pub batch: Option<BatchId>,
    /// Seconds since the file's content was written; on a network file system, where a lock may be a link to an older
    /// file, seconds since the last change of the inode, by the clocks of this machine and of the file server.
    pub age_seconds: u64,
}

/// Examines a file in an open folder. Returns `None` if the name has gone meanwhile, or leads to a folder.
pub(super) fn look(fs: &Fs, folder: &Folder, name: &OsStr) -> Result<Option<LockLook>> {
    match look_once(fs, folder, name) {
        Err(error) if error.is_not_found() || error.is_stale() => Ok(None),
        looked => looked,
    }
}

fn look_once(fs: &Fs, folder: &Folder, name: &OsStr) -> Result<Option<LockLook>> {
    let unsigned = |stat: Stat| LockLook {
        state: LockState::Unsigned,
        signature: None,
        batch: None,
        age_seconds: age_seconds(fs, stat),
    };
    let file = match folder.open(name) {
        Ok(file) => file,
        // A link, or something else that is not a file, blocks writers like a lock.
        Err(error) if error.is_symlink() || error.is_special() => return Ok(folder.find(name)?.map(unsigned)),
        Err(error) => return Err(error),
    };
    let stat = file.stat()?;
    if stat.is_dir() {
        return Ok(None);
    }
    let signed = if stat.is_file() { Signed::read(&file, stat.len_bytes)? } else { None };
    let Some(signed) = signed else { return Ok(Some(unsigned(stat))) };
    let state = state(fs, &file, stat, signed.owner())?;
    let batch = match signed {
        Signed::Alone(_) => None,
        Signed::Batch(_, id) => Some(id),
    };
    let signature = Some(signed.owner().clone());
    Ok(Some(LockLook { state, signature, batch, age_seconds: age_seconds(fs, stat) }))
}

/// Determines the state of a signed lock file, which is locked in shared mode for a moment. At that moment a process
/// that tries to take over the file finds it held, and a file server can give up the lock of a machine that is cut off.
fn state(fs: &Fs, file: &File, stat: Stat, owner: &Signature) -> Result<LockState> {
    let own = Signature::own();
    let is_local = reach::is_local(fs, file)?;
    if !file.try_lock_shared()? {
        let is_here = own.is_some_and(|own| own.boot == owner.boot);
        return Ok(if is_here { LockState::Held } else { LockState::HeldElsewhere });
    }
    if is_local && file.is_record_locked()? {
        return Ok(LockState::HeldElsewhere);
    }
    let may_stay_in_mount = || reach::may_stay_in_mount(stat.device);
    Ok(if owner.is_proof(own, is_local, may_stay_in_mount) {
        LockState::Stale
    } else if reach::reaches_server(stat.device) {
        LockState::Unheld
    } else {
        LockState::Doubtful
    })
}

/// The age of a lock file as [`LockLook::age_seconds`] defines it; 0 if it is from the future.
pub(super) fn age_seconds(fs: &Fs, stat: Stat) -> u64 {
    let since = if fs.asks_server() { stat.changed_nanos } else { stat.modified_nanos };
    u64::try_from(now_nanos().saturating_sub(since) / 1_000_000_000).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::{
        super::{Lock, LockTimeout, ended::tests::OTHER, reach::SHARED},
        *,
    };
    use std::path::Path;

    fn state_at(target: &Path) -> Option<LockLook> {
        let path = Lock::path_of(target);
        let folder = Fs::real().folder(path.parent().unwrap()).unwrap();
        look(&Fs::real(), &folder, path.file_name().unwrap()).unwrap()
    }

    fn write(target: &Path, boot: &str) {
        let line = Signature { pid: 7, boot: boot.into(), host: Some("node-b".into()) }.encode();
        std::fs::write(Lock::path_of(target), line).unwrap();
    }

    #[test]
    fn each_state_of_a_lock_is_told_from_the_others() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("x");
        let state = || state_at(&target).unwrap().state;
        assert_eq!(state_at(&target), None);
        std::fs::write(Lock::path_of(&target), "").unwrap();
        assert_eq!(state(), LockState::Unsigned);
        write(&target, OTHER);
        assert_eq!(state(), LockState::Stale, "nobody else can have a file of a local disk");
        for (is_kept, unheld) in [(true, LockState::Unheld), (false, LockState::Doubtful)] {
            SHARED.set(Some(is_kept));
            write(&target, OTHER);
            assert_eq!(state(), unheld);
            let file = Fs::real().open(&Lock::path_of(&target)).unwrap();
            assert!(file.try_lock().unwrap());
            assert_eq!(state(), LockState::HeldElsewhere);
            write(&target, &Signature::own().unwrap().boot);
            assert_eq!(state(), LockState::Held);
            drop(file);
            assert_eq!(state(), LockState::Stale);
        }
        SHARED.set(None);
        std::fs::remove_file(Lock::path_of(&target)).unwrap();
        let held = Lock::acquire(&Fs::real().signing_locks(), &target, 0o666, LockTimeout::None).unwrap();
        assert_eq!(state(), LockState::Held);
        assert_eq!(state_at(&target).unwrap().signature.as_ref(), Signature::own());
        held.release().unwrap();
    }

    #[test]
    fn a_look_keeps_nobody_from_looking_and_leaves_the_lock_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("x");
        write(&target, OTHER);
        let before = std::fs::read(Lock::path_of(&target)).unwrap();
        let look = state_at(&target).unwrap();
        assert_eq!((look.signature.unwrap().host.as_deref(), look.batch), (Some("node-b"), None));
        let other = Fs::real().open(&Lock::path_of(&target)).unwrap();
        assert!(other.try_lock_shared().unwrap());
        assert_eq!(state_at(&target).unwrap().state, LockState::Stale);
        assert_eq!(std::fs::read(Lock::path_of(&target)).unwrap(), before);
    }

    #[test]
    fn what_is_no_file_is_in_the_way_like_a_lock_of_gits_and_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("x");
        write(&dir.path().join("elsewhere"), OTHER);
        std::os::unix::fs::symlink("elsewhere.lock", Lock::path_of(&target)).unwrap();
        assert_eq!(state_at(&target).unwrap().state, LockState::Unsigned);
        std::fs::remove_file(Lock::path_of(&target)).unwrap();
        std::fs::create_dir(Lock::path_of(&target)).unwrap();
        assert_eq!(state_at(&target), None);
    }
}
