//! Locks that are never released, that disappear, or whose owners have ended: nothing waits for ever, errors name the
//! lock, and only locks of processes that have ended are removed.
#![allow(clippy::unwrap_used, reason = "tests")]

mod files_common;

use files_common::*;
use refdb::{
    Error, HashKind, Maintenance, RejectionClass, Result,
    files::{FilesBackend, FilesOptions},
};
use refdb_testkit::{RefFormat, Repo};
use refdb_vfs::{Fs, IoHook, LockTimeout, Op, Verdict};
use std::{
    io,
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

/// Much longer than anything here takes.
const LONG: Duration = Duration::from_secs(60);

/// Makes each attempt to create this lock fail, as if others had just taken it and then released it again.
struct Busy(&'static str);

impl IoHook for Busy {
    fn before(&self, op: Op<'_>) -> Verdict {
        match op {
            Op::Create(path) | Op::Link(_, path) if path.ends_with(self.0) => {
                Verdict::Fail(io::ErrorKind::AlreadyExists.into())
            }
            _ => Verdict::Proceed,
        }
    }
}

/// Removes each lock right before its owner does.
struct Gone;

impl IoHook for Gone {
    fn before(&self, op: Op<'_>) -> Verdict {
        if let Op::Remove(path) = op
            && path.extension().is_some_and(|extension| extension == "lock")
        {
            std::fs::remove_file(path).unwrap();
        }
        Verdict::Proceed
    }
}

fn with(repo: &Repo, hook: impl IoHook + 'static, lock_timeout: Duration) -> FilesBackend {
    let mut options = options(Fs::with_hook(Arc::new(hook)), repo.git_dir(), repo.hash());
    (options.ref_lock_timeout, options.packed_lock_timeout) =
        (Some(LockTimeout::For(lock_timeout)), Some(LockTimeout::For(lock_timeout)));
    FilesBackend::new(options)
}

/// Runs something that might never end, and returns its result.
fn end_of(act: impl FnOnce() -> Result<()> + Send + 'static) -> Result<()> {
    let (ended, end) = mpsc::channel();
    thread::spawn(move || ended.send(act()));
    end.recv_timeout(LONG).expect("it ends")
}

#[test]
fn a_lock_that_others_take_again_and_again_is_not_waited_for_for_ever() {
    for (busy, deleted) in [("refs/heads/b.lock", false), ("packed-refs.lock", true)] {
        let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
        let id = repo.commit();
        repo.create_refs([("refs/heads/a", id), ("refs/heads/b", id)]);
        let store = with(&repo, Busy(busy), Duration::from_millis(1));
        let wish = move |name: &str| if deleted { delete(name) } else { set(name, id) };
        let wishes = ["refs/heads/a", "refs/heads/b"].map(wish);
        let error = end_of(move || transact(&store, &wishes)).unwrap_err();
        if let Error::Rejected(rejection) = &error {
            assert_eq!(
                (rejection.resolved.to_string().as_str(), rejection.class()),
                ("refs/heads/b", RejectionClass::CreateExists)
            );
        }
        let text = error.to_string();
        assert!(text.contains(busy) && text.contains("user ") && text.contains(" s"), "{text}");
        assert_eq!(leftovers(repo.git_dir()), Vec::<std::path::PathBuf>::new());
        assert_eq!(repo.refs().len(), 2);
    }
}

/// Previously, each of the locks was waited for as long as the first.
#[test]
fn many_locks_that_were_left_behind_are_waited_for_at_length_once() {
    for is_free in [false, true] {
        let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
        let id = repo.commit();
        let wishes: Vec<Wish> = (0..8).map(|at| create(format!("refs/heads/x{at}"), id)).collect();
        for wish in wishes.iter().skip(usize::from(is_free)) {
            std::fs::write(repo.git_dir().join(format!("{}.lock", wish.name)), "").unwrap();
        }
        let lock_timeout = LockTimeout::For(Duration::from_secs(2));
        let options = FilesOptions {
            ref_lock_timeout: Some(lock_timeout),
            ..options(Fs::real(), repo.git_dir(), HashKind::Sha1)
        };
        let begun = Instant::now();
        let refused = transact(&FilesBackend::new(options), &wishes).unwrap_err();
        assert!(matches!(&refused, Error::Rejected(why) if why.class() == RejectionClass::CreateExists), "{refused}");
        let took = begun.elapsed();
        assert!((2..8).contains(&took.as_secs()), "{took:?}");
    }
}

/// Looks which locks are there whenever `refs/heads` is synced.
#[derive(Default)]
struct Syncs(Mutex<Vec<[bool; 2]>>);

impl IoHook for Syncs {
    fn before(&self, op: Op<'_>) -> Verdict {
        if let Op::SyncDir(folder) = op
            && folder.ends_with("refs/heads")
        {
            let locks = ["../../packed-refs.lock", "a.lock"].map(|lock| folder.join(lock).exists());
            self.0.lock().unwrap().push(locks);
        }
        Verdict::Proceed
    }
}

/// Previously, writers waited for packed-refs until the disk had written each deletion.
#[test]
fn a_deletion_is_made_durable_under_the_lock_of_its_ref_alone() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let id = repo.commit();
    repo.create_refs([("refs/heads/a", id)]);
    let syncs = Arc::new(Syncs::default());
    let fs = Fs::with_hook(Arc::clone(&syncs) as Arc<dyn IoHook>);
    let options = FilesOptions { sync: true, ..options(fs, repo.git_dir(), repo.hash()) };
    transact(&FilesBackend::new(options), &[delete("refs/heads/a")]).unwrap();
    assert_eq!(*syncs.0.lock().unwrap(), [[false, true]]);
    assert_eq!(leftovers(repo.git_dir()), Vec::<PathBuf>::new());
}

#[test]
fn those_who_are_busy_below_a_packed_ref_are_not_waited_for_for_ever() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let id = repo.commit();
    let folder = repo.git_dir().join("refs/heads/new/x00");
    let stop = Arc::new(AtomicBool::new(false));
    let (begun, began) = mpsc::channel();
    let rivals = thread::spawn({
        let stop = Arc::clone(&stop);
        move || {
            std::fs::create_dir_all(&folder).unwrap();
            let lock = |turn: usize| folder.join(format!("child{turn}.lock"));
            std::fs::write(lock(0), "").unwrap();
            begun.send(()).unwrap();
            // There is always a lock in the folder, but none lasts.
            for turn in 0.. {
                std::fs::write(lock(turn + 1), "").unwrap();
                std::fs::remove_file(lock(turn)).unwrap();
                if stop.load(Ordering::Relaxed) {
                    return std::fs::remove_file(lock(turn + 1)).unwrap();
                }
            }
        }
    });
    began.recv().unwrap();
    let store = backend(&repo);
    let wishes: Vec<Wish> = (0..40).map(|at| create(format!("refs/heads/new/x{at:02}"), id)).collect();
    let ended = end_of(move || transact(&store, &wishes));
    stop.store(true, Ordering::Relaxed);
    rivals.join().unwrap();
    let text = ended.unwrap_err().to_string();
    assert!(text.contains("refs/heads/new/x00/child") && text.contains("exists; cannot create"), "{text}");
    assert_eq!(repo.refs().len(), 0);
}

/// Previously, nobody else could lock packed-refs any more, and a batch that turned out too large waited for that lock
/// while it held the one that was waited for here.
#[test]
fn a_lock_below_a_packed_ref_is_not_waited_for_without_limit() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let id = repo.commit();
    std::fs::create_dir_all(repo.git_dir().join("refs/heads/new/x00")).unwrap();
    std::fs::write(repo.git_dir().join("refs/heads/new/x00/child.lock"), "").unwrap();
    let options = FilesOptions {
        ref_lock_timeout: Some(LockTimeout::Forever),
        ..options(Fs::real(), repo.git_dir(), HashKind::Sha1)
    };
    let wishes: Vec<Wish> = (0..40).map(|at| create(format!("refs/heads/new/x{at:02}"), id)).collect();
    let said = end_of(move || transact(&FilesBackend::new(options), &wishes)).unwrap_err().to_string();
    assert!(said.contains("refs/heads/new/x00/child"), "{said}");
    assert!(!repo.git_dir().join("packed-refs.lock").exists());
}

/// A server holds the lock of packings for as long as it packs.
#[test]
fn a_ref_makes_room_for_one_below_it_while_a_server_packs() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let id = repo.commit();
    let store = with(&repo, Busy("packed-refs.refdb-fold.lock"), Duration::from_millis(1));
    for is_packed in [false, true] {
        repo.create_refs([("refs/heads/a", id), ("refs/heads/other", id)]);
        std::fs::write(repo.git_dir().join("refs/heads/lost"), format!("{}\n", "1".repeat(40))).unwrap();
        if is_packed {
            repo.git(["pack-refs", "--include", "refs/heads/a", "--no-prune"]);
        }
        transact_whole(&store, &[delete("refs/heads/a"), create("refs/heads/a/b", id)]).unwrap();
        assert_eq!(
            read(repo.git_dir()).into_keys().collect::<Vec<_>>(),
            ["a/b", "lost", "other"].map(|name| format!("refs/heads/{name}"))
        );
        assert!(repo.git_dir().join("refs/heads/other").exists() && repo.git_dir().join("refs/heads/lost").exists());
        transact_whole(&store, &[delete("refs/heads/a/b"), delete("refs/heads/other")]).unwrap();
    }
    assert_eq!(leftovers(repo.git_dir()), Vec::<PathBuf>::new());
}

#[test]
fn packing_does_not_fail_because_a_lock_that_it_gives_up_is_gone() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let id = repo.commit();
    repo.create_refs([("refs/heads/a", id), ("refs/heads/b", id)]);
    with(&repo, Gone, LONG).optimize(&pack_all()).unwrap();
    assert!(!repo.git_dir().join("refs/heads/a").exists());
    assert_eq!(repo.refs().len(), 2);
    assert_eq!(leftovers(repo.git_dir()), Vec::<std::path::PathBuf>::new());
    repo.verify();
}

/// Leaves a lock of a dead process of this boot and, if `foreign`, a lock of a program that does not sign.
fn leave_locks(repo: &Repo, folder: &str, foreign: bool) {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let folder = repo.git_dir().join(folder);
    std::fs::create_dir_all(folder.join("deep")).unwrap();
    let dead = format!("held by refdb, process 4194304, boot {}\n", boot.trim_end());
    std::fs::write(folder.join("deep/dead.lock"), dead).unwrap();
    if foreign {
        std::fs::write(folder.join("foreign.lock"), "").unwrap();
    }
}

fn signing(repo: &Repo) -> FilesBackend {
    FilesBackend::new(options(Fs::real().signing_locks(), repo.git_dir(), repo.hash()))
}

#[test]
fn locks_of_dead_processes_keep_no_ref_from_the_place_of_their_folder() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let id = repo.commit();
    leave_locks(&repo, "refs/heads/a", false);
    transact(&signing(&repo), &[create("refs/heads/a", id)]).unwrap();
    leave_locks(&repo, "refs/heads/b", true);
    let error = transact(&signing(&repo), &[create("refs/heads/b", id)]).unwrap_err().to_string();
    assert!(error.contains("there is a non-empty directory"), "{error}");
    let left: Vec<_> = leftovers(repo.git_dir());
    assert_eq!(left, [repo.git_dir().join("refs/heads/b/foreign.lock")]);
}

#[test]
fn packing_removes_locks_of_dead_processes_and_no_others() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let id = repo.commit();
    repo.create_refs([("refs/heads/main", id)]);
    leave_locks(&repo, "refs/heads/a", true);
    signing(&repo).optimize(&pack_all()).unwrap();
    assert_eq!(leftovers(repo.git_dir()), [repo.git_dir().join("refs/heads/a/foreign.lock")]);
}

/// Replaces a folder by a link to another one before the first removal in it.
struct Swap {
    at: PathBuf,
    target: PathBuf,
    is_done: AtomicBool,
}

impl IoHook for Swap {
    fn before(&self, op: Op<'_>) -> Verdict {
        let is_meant = matches!(op, Op::Remove(path) if path.starts_with(&self.at));
        if is_meant && !self.is_done.swap(true, Ordering::SeqCst) {
            std::fs::rename(&self.at, self.at.with_extension("moved")).unwrap();
            std::os::unix::fs::symlink(&self.target, &self.at).unwrap();
        }
        Verdict::Proceed
    }
}

#[test]
fn a_link_in_the_place_of_a_folder_of_dead_locks_removes_no_lock_behind_it() {
    // Not as root: if refdb followed the link by mistake, it could remove what others own.
    if refdb_vfs::effective_user() == 0 {
        return;
    }
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let id = repo.commit();
    repo.create_refs([("refs/heads/main", id)]);
    leave_locks(&repo, "refs/heads/a", false);
    leave_locks(&repo, "elsewhere", false);
    let (at, target) = (repo.git_dir().join("refs/heads/a/deep"), repo.git_dir().join("elsewhere/deep"));
    let swap = Arc::new(Swap { at, target: target.clone(), is_done: AtomicBool::new(false) });
    let fs = Fs::with_hook(swap.clone()).signing_locks();
    // The result does not matter, because a folder disappeared during the work.
    let _ = FilesBackend::new(options(fs, repo.git_dir(), repo.hash())).optimize(&pack_all());
    assert!(swap.is_done.load(Ordering::SeqCst));
    assert!(target.join("dead.lock").exists());
    assert!(!repo.git_dir().join("refs/heads/a/deep.moved/dead.lock").exists());
}

#[test]
fn a_ref_that_is_a_link_to_a_folder_has_no_dead_lock_removed_behind_it() {
    if refdb_vfs::effective_user() == 0 {
        return;
    }
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let id = repo.commit();
    leave_locks(&repo, "elsewhere", false);
    std::os::unix::fs::symlink(repo.git_dir().join("elsewhere"), repo.git_dir().join("refs/heads/a")).unwrap();
    assert!(transact(&signing(&repo), &[create("refs/heads/a", id)]).is_err());
    assert!(repo.git_dir().join("elsewhere/deep/dead.lock").exists());
}
