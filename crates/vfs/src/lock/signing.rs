//! The signature of a process in its lock files, from which the next writer learns whether their owner is still alive.
//!
//! The owner also locks the file with `flock(2)`, which the kernel releases when the process ends. On a local file
//! system, a signed file that is not locked therefore belongs to a dead process. On other file systems that is so only
//! where `Suspect::free_means_gone` says so, because another machine's lock may be invisible or lost (decision 0044).

use super::reach;
use crate::{
    BatchId, File, Folder, Fs, Result, Stat,
    fs::place,
    planted,
    signature::{LEN_MAX, SLOT_LEN_MAX, Signature},
    stat::now_nanos,
};
use std::{
    ffi::{OsStr, OsString},
    fs::OpenOptions,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

/// Locks a new, empty lock file as long as the handle is open, and then signs it, so that a signature implies the lock.
/// On a file system without `flock`, or a full one, the file stays unsigned: other writers then wait for it as for
/// git's lock files, and do not remove it even if its owner has ended.
pub(super) fn sign(file: &mut File) {
    let Some(own) = Signature::own() else { return };
    if matches!(file.try_lock(), Ok(true)) {
        let _ = file.write_all(own.encode().as_bytes());
    }
}

/// Removes the lock file and the new content if the lock file is signed and its owner is dead. The lock of a batch is
/// passed to the recovery handler. Returns whether it makes sense to try the lock again.
///
/// The file is locked with `flock` in the meantime, so that nobody removes the next owner's lock instead.
pub(super) fn remove_if_dead(fs: &Fs, path: &Path) -> bool {
    settle_if_dead(fs, Suspect::open(fs, path))
}

/// As [`remove_if_dead`], for a lock file in an open folder.
pub(super) fn remove_if_dead_in(fs: &Fs, folder: &Folder, name: &OsStr) -> bool {
    let suspect = folder.again().and_then(|folder| Suspect::open_in(folder, name));
    settle_if_dead(fs, suspect)
}

fn settle_if_dead(fs: &Fs, suspect: Result<Option<Suspect>>) -> bool {
    match suspect {
        Ok(Some(suspect)) => suspect.settle_if_dead(fs).unwrap_or(false),
        Ok(None) | Err(_) => false,
    }
}

/// The age at which a lock file without a signature is taken for one whose signature was lost, and not for one that is
/// about to be signed.
const LOST_FROM: Duration = Duration::from_secs(60);

/// Removes a lock file whose signature is lost. A loss of power may leave it empty or filled with zeros. Git's locks
/// look like that, too, so this is only for lock files that refdb alone creates and always signs: a living owner of
/// such a file has it locked with `flock`.
pub(super) fn remove_if_lost(fs: &Fs, path: &Path) -> Result<bool> {
    let Some((file, stat)) = open(fs, path)? else { return Ok(false) };
    let is_old = now_nanos().saturating_sub(stat.modified_nanos) >= LOST_FROM.as_nanos() as i128;
    if !is_old || stat.len_bytes > LEN_MAX as u64 || Signature::own().is_none() || !fs.is_local(path)? {
        return Ok(false);
    }
    let content = file.read_len(stat.len_bytes)?;
    if content.iter().any(|byte| *byte != 0) || !lock_alone(&file, true)? {
        return Ok(false);
    }
    let is_in_place = fs.find_link(path)?.is_some_and(|now| now.file_id() == stat.file_id());
    if is_in_place {
        fs.remove_file(path)?;
    }
    Ok(is_in_place)
}

/// Opens a lock file to lock it. Returns `None` if it cannot be opened, or if a folder, a link or a pipe is in its
/// place.
fn open(fs: &Fs, path: &Path) -> Result<Option<(File, Stat)>> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    // NFS locks a file exclusively only if it is open for writing.
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(flags.bits() as i32);
    let Ok(file) = fs.hooks().opening(|| options.open(path)).map(|file| fs.file(file, path)) else { return Ok(None) };
    let stat = file.stat()?;
    Ok(stat.is_file().then_some((file, stat)))
}

/// Locks a file with `flock`, and returns whether nobody else has it locked. If `is_local`, a record lock counts too:
/// the kernel's NFS server takes one for a client that has the file locked, and `flock` does not show it.
pub(super) fn lock_alone(file: &File, is_local: bool) -> Result<bool> {
    Ok(file.try_lock()? && !(is_local && file.is_record_locked()?))
}

/// A signed lock file that is open, and whose owner may have ended.
///
/// Its folder is open too, and its name is looked up and removed there, so that another process which replaces a folder
/// on the way by a symbolic link cannot have a file removed elsewhere.
#[derive(Debug)]
pub(super) struct Suspect {
    folder: Folder,
    name: OsString,
    pub(super) file: File,
    pub(super) stat: Stat,
    pub(super) signed: Signed,
}

fn signed_as_a_whole(content: &[u8]) -> Option<Signed> {
    let alone = Signature::decode(content).map(Signed::Alone);
    alone.or_else(|| Signature::decode_batch(content).map(|(who, id)| Signed::Batch(who, id)))
}

/// The content of a signature.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Signed {
    /// The process that holds this lock.
    Alone(Signature),
    /// The process that holds the lock for a batch, and the id of that batch.
    Batch(Signature, BatchId),
}

impl Signed {
    /// Reads the signature of an open file of this length; `None` if it has none, like git's.
    pub(super) fn read(file: &File, len_bytes: u64) -> Result<Option<Self>> {
        let mut content = [0; SLOT_LEN_MAX];
        let content = &mut content[..len_bytes.min(SLOT_LEN_MAX as u64) as usize];
        file.read_exact_at(content, 0)?;
        if len_bytes <= LEN_MAX as u64 {
            return Ok(signed_as_a_whole(content));
        }
        // A longer file that signs locks is a journal file, which begins with the signature.
        Ok(Signature::decode_slot(content).map(|(who, id)| Signed::Batch(who, id)))
    }

    pub(super) fn owner(&self) -> &Signature {
        let (Signed::Alone(owner) | Signed::Batch(owner, _)) = self;
        owner
    }
}

impl Suspect {
    pub(super) fn open(fs: &Fs, path: &Path) -> Result<Option<Self>> {
        match place(path) {
            Some((folder, name)) => Self::open_in(fs.folder(folder)?, name),
            None => Ok(None),
        }
    }

    fn open_in(folder: Folder, name: &OsStr) -> Result<Option<Self>> {
        // NFS locks a file exclusively only if it is open for writing.
        let Ok(file) = folder.open_to_overwrite(name) else { return Ok(None) };
        Self::of(folder, name, file)
    }

    /// Examines an open lock file that has this name in this folder. Returns `None` if it is not a file, or not signed.
    pub(super) fn of(folder: Folder, name: &OsStr, file: File) -> Result<Option<Self>> {
        let stat = file.stat()?;
        if !stat.is_file() {
            return Ok(None);
        }
        let signed = Signed::read(&file, stat.len_bytes)?;
        Ok(signed.map(|signed| Suspect { folder, name: name.to_owned(), file, stat, signed }))
    }

    /// Returns whether the lock's owner is certainly gone. If so, this process keeps the file locked until it is
    /// closed.
    pub(super) fn is_dead(&self, fs: &Fs) -> Result<bool> {
        let is_local = reach::is_local(fs, &self.file)?;
        // The file is locked only where that proves something: a file server gives up the locks of a machine that is
        // cut off from it as soon as another machine asks for them.
        Ok(self.free_means_gone(fs, is_local) && lock_alone(&self.file, is_local)?)
    }

    /// Returns whether the owner of the lock is certainly gone if nobody has it locked, as far as this machine sees.
    pub(super) fn free_means_gone(&self, fs: &Fs, is_local: bool) -> bool {
        let owner = self.signed.owner();
        owner.is_proof(Signature::own(), is_local, || reach::may_stay_in_mount(self.stat.device))
            || fs.ended_boot().is_some_and(|boot| reach::ended_with(boot, owner, self.stat.device))
    }

    /// Returns whether the name still leads to the file. If not, another process removed it meanwhile, and the next
    /// owner may hold the lock.
    pub(super) fn is_in_place(&self) -> Result<bool> {
        Ok(planted("vfs-in-place") || self.folder.leads_to(&self.name, &self.file)?)
    }

    /// Removes the lock, or passes the lock of a batch to the recovery handler. Returns whether it makes sense to try
    /// the lock again.
    fn settle_if_dead(self, fs: &Fs) -> Result<bool> {
        let heir = match self.signed {
            Signed::Alone(_) => None,
            Signed::Batch(_, id) => match fs.heir() {
                Some(heir) => Some((heir, id)),
                None => return Ok(false),
            },
        };
        if !self.is_dead(fs)? {
            return Ok(false);
        }
        if !self.is_in_place()? {
            return Ok(true);
        }
        match heir {
            Some((heir, id)) => Ok(heir.recover(id, self.file)),
            None => self.remove().map(|()| true),
        }
    }

    /// Removes the lock and the new content.
    pub(super) fn remove(&self) -> Result<()> {
        remove_in(&self.folder, &self.name)
    }
}

/// Removes a lock file and the new content. It is not an error if they do not exist any more.
pub(super) fn remove_in(folder: &Folder, lock: &OsStr) -> Result<()> {
    let content = content_of(Path::new(lock));
    if let Ok(content) = folder.open_to_overwrite(content.as_os_str()) {
        super::give_up_content(&content)?;
    }
    for name in [content.as_os_str(), lock] {
        match folder.remove_file(name) {
            Err(error) if !error.is_not_found() => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// The file for the new content if that does not go into the lock file itself. Because no ref can be called `X.lock`,
/// nobody else uses `X.lock.lock`.
pub(super) fn content_of(lock: &Path) -> PathBuf {
    super::Lock::path_of(lock)
}

#[cfg(test)]
pub(super) mod tests {
    use super::{
        super::{Lock, LockError, LockTimeout},
        *,
    };
    use std::sync::atomic::{AtomicU32, Ordering};

    const NONE: LockTimeout = LockTimeout::None;

    fn signing() -> Fs {
        Fs::real().signing_locks()
    }

    /// Leaves the lock of `target` as a process that is killed does, with this content beside it if any is given.
    fn left_behind(target: &Path, content: Option<&[u8]>) {
        let mut lock = Lock::acquire(&signing(), target, 0o666, NONE).unwrap();
        if let Some(content) = content {
            lock.content().unwrap().write_all(content).unwrap();
            lock.close();
        }
        lock.signature = None;
        std::mem::forget(lock);
    }

    #[test]
    fn the_lock_of_a_dead_process_is_taken_over_with_its_content() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("tables.list");
        std::fs::write(&target, "old").unwrap();
        for fs in [Fs::real(), signing()] {
            left_behind(&target, Some(b"never"));
            let mut lock = Lock::acquire(&fs, &target, 0o666, NONE).unwrap();
            assert!(Lock::acquire(&fs, &target, 0o666, NONE).is_err());
            lock.content().unwrap().write_all(b"new").unwrap();
            lock.commit().unwrap();
            assert_eq!(std::fs::read(&target).unwrap(), b"new");
            assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left");
        }
        left_behind(&target, None);
        Lock::wait_until_free(&Fs::real(), &target, NONE).unwrap();
    }

    #[test]
    fn a_lock_whose_owner_lives_is_left_alone_be_it_signed_or_linked() {
        let dir = tempfile::tempdir().unwrap();
        let (target, other) = (dir.path().join("a"), dir.path().join("b"));
        let held = Lock::acquire(&signing(), &target, 0o666, NONE).unwrap().into_source().0;
        Lock::acquire_linked(&signing(), &other, held.path(), NONE).unwrap().leave();
        for target in [&target, &other] {
            let attempt = Lock::acquire(&Fs::real(), target, 0o666, LockTimeout::For(Duration::from_millis(20)));
            assert!(matches!(attempt, Err(LockError::Held { .. })));
        }
        drop(held);
        for target in [&target, &other] {
            Lock::acquire(&Fs::real(), target, 0o666, NONE).unwrap().release().unwrap();
        }
    }

    /// Locks a file as the kernel's NFS server does for a client: with a record lock, which belongs to a process. It is
    /// held until the standard input of the process is closed.
    pub(in crate::lock) fn lock_as_nfs_server(path: &Path) -> std::process::Child {
        let script = "import fcntl, sys; f = open(sys.argv[1], 'r+'); fcntl.lockf(f, fcntl.LOCK_EX); \
                      print(flush=True); sys.stdin.read()";
        let piped = std::process::Stdio::piped;
        let mut command = std::process::Command::new("python3");
        let mut holder = command.args(["-c", script]).arg(path).stdin(piped()).stdout(piped()).spawn().unwrap();
        std::io::Read::read_exact(holder.stdout.as_mut().unwrap(), &mut [0]).unwrap();
        holder
    }

    #[test]
    fn the_lock_of_an_nfs_client_is_seen_on_the_disk_of_the_file_server() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("packed-refs");
        left_behind(&target, None);
        let mut client = lock_as_nfs_server(&Lock::path_of(&target));
        let attempt = Lock::acquire(&Fs::real(), &target, 0o666, NONE);
        drop(client.stdin.take());
        client.wait().unwrap();
        assert!(matches!(attempt, Err(LockError::Held { .. })), "its owner lives");
        Lock::acquire(&Fs::real(), &target, 0o666, NONE).unwrap().release().unwrap();
    }

    #[test]
    fn the_next_lock_in_the_place_of_a_dead_one_is_not_taken_for_it() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("HEAD");
        left_behind(&target, None);
        let suspect = Suspect::open(&Fs::real(), &Lock::path_of(&target)).unwrap().unwrap();
        let next = Lock::acquire(&signing(), &target, 0o666, NONE).unwrap();
        assert!(suspect.settle_if_dead(&Fs::real()).unwrap(), "it is gone");
        assert!(next.path().exists());
        next.release().unwrap();
    }

    #[test]
    fn an_owner_that_dies_while_others_wait_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("packed-refs");
        let lock = Lock::acquire(&signing(), &target, 0o666, NONE).unwrap();
        let dies = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            let mut lock = lock;
            lock.signature = None;
            std::mem::forget(lock);
        });
        Lock::acquire(&Fs::real(), &target, 0o666, LockTimeout::Forever).unwrap().release().unwrap();
        dies.join().unwrap();
    }

    #[test]
    fn git_locks_and_whatever_else_stands_there_are_never_removed() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("HEAD");
        let path = Lock::path_of(&target);
        let long = Signature::own().unwrap().encode().repeat(2);
        for content in ["", "0123456789abcdef0123456789abcdef01234567\n", "held by refdb, process 1", &long] {
            std::fs::write(&path, content).unwrap();
            assert!(Lock::acquire(&signing(), &target, 0o666, NONE).is_err());
            assert_eq!(std::fs::read(&path).unwrap(), content.as_bytes());
        }
        std::fs::remove_file(&path).unwrap();
        // Not through links, and not into folders.
        let elsewhere = dir.path().join("elsewhere");
        std::fs::write(&elsewhere, Signature::own().unwrap().encode()).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
        assert!(Lock::acquire(&signing(), &target, 0o666, NONE).is_err());
        assert!(elsewhere.exists() && std::fs::read_link(&path).is_ok());
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert!(Lock::acquire(&signing(), &target, 0o666, NONE).is_err());
    }

    #[test]
    fn a_lock_that_lost_its_signature_goes_once_it_is_old_and_nobody_has_it() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("fold");
        let path = Lock::path_of(&target);
        let long_ago = std::time::SystemTime::now() - Duration::from_secs(120);
        let make = |content: &[u8], when| {
            std::fs::write(&path, content).unwrap();
            let file = std::fs::File::options().write(true).open(&path).unwrap();
            file.set_modified(when).unwrap();
            file
        };
        for content in [&b""[..], &[0; 90]] {
            drop(make(content, std::time::SystemTime::now()));
            assert!(!Lock::remove_if_lost(&signing(), &target).unwrap(), "it may be signed in a moment");
            let owner = make(content, long_ago);
            rustix::fs::flock(&owner, rustix::fs::FlockOperation::LockExclusive).unwrap();
            assert!(!Lock::remove_if_lost(&signing(), &target).unwrap(), "its owner lives");
            drop(owner);
            assert!(Lock::remove_if_lost(&signing(), &target).unwrap());
            assert!(!path.exists());
        }
        for content in [&b"0123456789abcdef0123456789abcdef01234567\n"[..], &[0; 4096]] {
            drop(make(content, long_ago));
            assert!(!Lock::remove_if_lost(&signing(), &target).unwrap(), "it never was one of a server");
        }
        std::fs::remove_file(&path).unwrap();
        assert!(!Lock::remove_if_lost(&signing(), &target).unwrap());
    }

    #[test]
    fn a_name_too_long_for_a_second_file_is_locked_as_git_does() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("x".repeat(250));
        let mut lock = Lock::acquire(&signing(), &target, 0o666, NONE).unwrap();
        lock.content().unwrap().write_all(b"new").unwrap();
        lock.commit().unwrap();
        assert_eq!(std::fs::read(&target).unwrap(), b"new");
    }

    #[test]
    fn of_many_who_find_a_dead_process_lock_one_has_it() {
        const ROUNDS: u32 = 300;
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("counter");
        std::fs::write(&target, "0").unwrap();
        let inside = AtomicU32::new(0);
        let work = |thread: u32| {
            for round in 0..ROUNDS {
                let mut lock = Lock::acquire(&signing(), &target, 0o666, LockTimeout::Forever).unwrap();
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two hold the lock");
                let count: u32 = std::fs::read_to_string(&target).unwrap().parse().unwrap();
                let content = lock.content().unwrap();
                content.write_all((count + 1).to_string().as_bytes()).unwrap();
                inside.fetch_sub(1, Ordering::SeqCst);
                if (round + thread) % 3 == 0 {
                    // Killed between the change and the end of the lock.
                    lock.publish().unwrap();
                    lock.signature = None;
                    drop(lock.take_queue());
                    std::mem::forget(lock);
                } else {
                    lock.commit().unwrap();
                }
            }
        };
        std::thread::scope(|scope| (0..4).for_each(|thread| drop(scope.spawn(move || work(thread)))));
        assert_eq!(std::fs::read_to_string(&target).unwrap(), (4 * ROUNDS).to_string());
    }
}
