//! Background pack-refs on files: stopped at every operation, beside writers, and with refs that it must leave alone.
#![allow(clippy::unwrap_used, reason = "tests")]

mod files_common;

use files_common::*;
use refdb::{
    Error, HashKind, Limit, Maintenance, ObjectId, Objects, Result,
    files::{BackgroundPackOptions, BackgroundPacked, FilesBackend, FilesOptions},
};
use refdb_testkit::{
    RefFormat, Repo,
    crash::{Disk, kill_everywhere, lose_power_everywhere, refuse_everywhere},
};
use refdb_vfs::{Fs, IoHook, Lock, LockTimeout, Op, Verdict};
use std::{
    cell::Cell,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
};

fn store(fs: &Fs, dir: &Path, sync: bool) -> FilesBackend {
    batching(fs, dir, sync, std::time::Duration::from_secs(20))
}

fn fold(store: &FilesBackend) -> Result<Option<BackgroundPacked>> {
    store.pack_in_background(&BackgroundPackOptions { from: 1, goes_on: &|_| true })
}

const PAIR: [&str; 2] = ["refs/changes/1/1/1", "refs/changes/1/1/meta"];
const BOTH: &str = "refs/heads/both";

/// Creates a repository with refs that are packed, loose, or both.
fn scene() -> (Repo, Vec<ObjectId>) {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let ids = repo.commits(4);
    repo.create_refs([(BOTH, ids[0]), ("refs/heads/packed", ids[0])]);
    repo.git(["pack-refs", "--all"]);
    for name in [BOTH, PAIR[0], PAIR[1]] {
        repo.git(["update-ref", name, &ids[1].to_string()]);
    }
    (repo, ids)
}

fn refs_only(repo: &Repo) -> tempfile::TempDir {
    let temp = tempfile::tempdir().unwrap();
    for file in ["packed-refs", BOTH, PAIR[0], PAIR[1]] {
        std::fs::create_dir_all(temp.path().join(file).parent().unwrap()).unwrap();
        std::fs::copy(repo.git_dir().join(file), temp.path().join(file)).unwrap();
    }
    temp
}

#[test]
fn a_fold_packs_what_can_be_packed_and_leaves_the_rest() {
    let (repo, ids) = scene();
    let dir = repo.git_dir();
    repo.git(["symbolic-ref", "refs/heads/sym", BOTH]);
    std::fs::write(dir.join("refs/heads/no-object"), format!("{}\n", "1".repeat(40))).unwrap();
    std::fs::write(dir.join("refs/heads/broken"), "rubbish\n").unwrap();
    // The object check of the other tests takes every id for one of a commit.
    let objects = Arc::new(Objects::in_dir(dir.join("objects"), HashKind::Sha1));
    let store = FilesBackend::new(FilesOptions { sync: true, objects, ..options(Fs::real(), dir, HashKind::Sha1) });
    // Nothing is packed if there are too few loose refs, or if the run is stopped at once.
    let few = store.pack_in_background(&BackgroundPackOptions { from: 5, goes_on: &|_| true }).unwrap().unwrap();
    let none = store.pack_in_background(&BackgroundPackOptions { from: 1, goes_on: &|_| false }).unwrap().unwrap();
    assert_eq!(
        (few, none),
        (
            BackgroundPacked { loose: 4, ..BackgroundPacked::default() },
            BackgroundPacked { loose: 4, ..BackgroundPacked::default() }
        )
    );
    assert!(dir.join(BOTH).exists());
    let folded = fold(&store).unwrap().unwrap();
    assert_eq!((folded.loose, folded.packed, folded.removed), (4, 3, 3));
    let is_loose = |name: &str| dir.join(name).is_file();
    assert!(["refs/heads/sym", "refs/heads/no-object", "refs/heads/broken"].into_iter().all(is_loose));
    assert!(![BOTH, PAIR[0], PAIR[1]].into_iter().any(is_loose) && !dir.join("refs/changes/1").exists());
    assert!([BOTH, PAIR[0], PAIR[1]].iter().all(|name| repo.rev_parse(name) == ids[1]));
    assert_eq!(leftovers(dir), Vec::<std::path::PathBuf>::new());
    // Loose files whose values are already packed need no new packed-refs.
    std::fs::write(dir.join(BOTH), format!("{}\n", ids[1])).unwrap();
    let folded = fold(&store).unwrap().unwrap();
    assert_eq!((folded.packed, folded.removed), (0, 1));
}

/// Removes a loose ref whenever a file is made beside packed-refs, like a git that packs refs again and again.
struct Spoiling(PathBuf, AtomicUsize);

impl IoHook for Spoiling {
    fn before(&self, op: Op<'_>) -> Verdict {
        if let Op::Create(path) = op
            && path.file_name().is_some_and(|name| name.as_bytes().starts_with(b"packed-refs"))
        {
            let loose = self.0.join(format!("refs/heads/gone-{}", self.1.fetch_add(1, SeqCst)));
            std::fs::remove_file(loose).unwrap();
        }
        Verdict::Proceed
    }
}

/// Previously, such a run counted as a success that left all refs loose, so that the next one was made much later.
#[test]
fn a_fold_that_is_spoilt_at_each_attempt_fails() {
    let (repo, ids) = scene();
    for at in 0..40 {
        std::fs::write(repo.git_dir().join(format!("refs/heads/gone-{at}")), format!("{}\n", ids[1])).unwrap();
    }
    let hook = Arc::new(Spoiling(repo.git_dir().to_owned(), AtomicUsize::new(0)));
    let spoilt = fold(&store(&Fs::with_hook(hook), repo.git_dir(), false));
    assert!(matches!(spoilt, Err(Error::Limit(Limit::Packing))), "{spoilt:?}");
    assert!(repo.git_dir().join(BOTH).is_file());
    let folded = fold(&store(&Fs::real(), repo.git_dir(), false)).unwrap().unwrap();
    assert!(folded.removed > 0 && folded.removed == folded.loose, "{folded:?}");
}

#[test]
fn a_fold_changes_no_value_wherever_it_is_stopped() {
    let (repo, _) = scene();
    let before = read(repo.git_dir());
    let work = |sync| move |fs: &Fs, dir: &Path| -> Result<()> { fold(&store(fs, dir, sync)).map(drop) };
    let is_same = |dir: &Path| assert_eq!(read(dir), before);
    kill_everywhere(repo.git_dir(), work(false), |dir, _| {
        is_same(dir);
        // The next run needs nobody's help.
        assert!(fold(&store(&Fs::real(), dir, false)).unwrap().is_some());
        is_same(dir);
        assert_eq!(leftovers(dir), Vec::<std::path::PathBuf>::new());
        assert!(!dir.join(BOTH).exists());
    });
    refuse_everywhere(repo.git_dir(), work(true), |dir, _| is_same(dir));
    for disk in [Disk::Journaled, Disk::Unordered] {
        lose_power_everywhere(refs_only(&repo).path(), disk, work(true), |dir, _| is_same(dir));
    }
}

#[test]
fn a_fold_between_a_batch_and_a_bulk_change_takes_back_neither_after_a_loss_of_power() {
    let (repo, ids) = scene();
    let before = read(repo.git_dir());
    let with = |refs: &Refs, id: ObjectId| {
        let mut refs = refs.clone();
        refs.extend(PAIR.map(|name| (name.to_owned(), id.to_string())));
        refs
    };
    let (middle, after) = (with(&before, ids[2]), with(&before, ids[3]));
    let (settled, claimed) = (Cell::new(0), Cell::new(0));
    let work = |fs: &Fs, dir: &Path| -> Result<()> {
        let store = store(fs, dir, true);
        transact_whole(&store, &PAIR.map(|name| set(name, ids[2])))?;
        fold(&store)?;
        let bulk = FilesBackend::new(FilesOptions { sync: true, ..options(fs.clone(), dir, HashKind::Sha1) });
        transact_whole(&bulk, &PAIR.map(|name| set(name, ids[3])))
    };
    for disk in [Disk::Journaled, Disk::Unordered] {
        lose_power_everywhere(refs_only(&repo).path(), disk, work, |dir, crash| {
            for (_, taken_over) in settle_when_free(&store(&Fs::real(), dir, true)) {
                taken_over.unwrap();
                settled.set(settled.get() + 1);
            }
            let now = read(dir);
            claimed.set(claimed.get() + u32::from(crash.claimed));
            assert!(now == after || !crash.claimed && [&before, &middle].contains(&&now), "{now:?}");
        });
    }
    assert!(settled.get() > 0 && claimed.get() > 0);
}

/// Background pack-refs reads the loose refs without a lock, so a ref that is deleted meanwhile must not come back.
#[test]
fn a_ref_that_is_deleted_while_a_fold_makes_its_file_stays_deleted() {
    let (repo, ids) = scene();
    let dir = repo.git_dir();
    let folding = store(&Fs::real(), dir, false);
    for round in 0..6 {
        repo.git(["update-ref", PAIR[0], &ids[1].to_string()]);
        repo.git(["update-ref", BOTH, &ids[1 + round % 3].to_string()]);
        let asked = Cell::new(0);
        // `goes_on` is first asked after the loose refs were read.
        let delete = |_: &BackgroundPacked| {
            if asked.replace(asked.get() + 1) == round % 2 {
                repo.git(["update-ref", "-d", PAIR[0]]);
            }
            true
        };
        folding.pack_in_background(&BackgroundPackOptions { from: 1, goes_on: &delete }).unwrap();
        assert!(asked.get() > 1);
        assert!(!read(dir).contains_key(PAIR[0]), "round {round}");
        assert_eq!(repo.rev_parse(BOTH), ids[1 + round % 3]);
    }
}

/// Git removes loose files only after it has released the lock of packed-refs. A run of background pack-refs that has
/// read an older value before must not pack it over git's newer one, which soon exists nowhere else.
#[test]
fn a_value_that_git_packed_since_a_fold_read_an_older_one_stays_packed() {
    let (repo, ids) = scene();
    let store = store(&Fs::real(), repo.git_dir(), false);
    for (at, old, new) in [(0, ids[1], ids[2]), (1, ids[0], ids[3])] {
        repo.git(["update-ref", BOTH, &old.to_string()]);
        let asked = Cell::new(0);
        let pack = |_: &BackgroundPacked| {
            if asked.replace(asked.get() + 1) == at {
                repo.git(["update-ref", BOTH, &new.to_string()]);
                repo.git(["pack-refs", "--all", "--no-prune"]);
            }
            true
        };
        store.pack_in_background(&BackgroundPackOptions { from: 1, goes_on: &pack }).unwrap();
        assert!(asked.get() > at);
        // Next, git removes the loose file, which still has the value that git packed.
        let loose = repo.git_dir().join(BOTH);
        if loose.exists() {
            assert_eq!(std::fs::read_to_string(&loose).unwrap().trim_end(), new.to_string());
            std::fs::remove_file(loose).unwrap();
        }
        assert_eq!(repo.rev_parse(BOTH), new, "asked {at} times before");
    }
}

#[test]
fn one_fold_at_a_time_works_on_a_repository() {
    let (repo, _) = scene();
    let fs = Fs::real().signing_locks();
    let lock = Lock::acquire(&fs, &repo.git_dir().join("packed-refs.refdb-fold"), 0o666, LockTimeout::None).unwrap();
    let store = store(&Fs::real(), repo.git_dir(), false);
    assert_eq!(fold(&store).unwrap(), None);
    lock.release().unwrap();
    assert!(fold(&store).unwrap().is_some());
}

#[test]
fn a_repository_whose_lock_stays_keeps_the_folds_of_others_waiting_for_seconds() {
    let (repo, _) = scene();
    std::fs::write(repo.git_dir().join("packed-refs.lock"), "").unwrap();
    let options = options(Fs::real().signing_locks(), repo.git_dir(), HashKind::Sha1);
    let store = FilesBackend::new(FilesOptions { loose_batches_from: Some(0), ..options });
    let begun = std::time::Instant::now();
    assert!(fold(&store).unwrap_err().to_string().contains("packed-refs.lock"));
    assert!(begun.elapsed() < std::time::Duration::from_secs(7), "{:?}", begun.elapsed());
}

#[test]
fn a_loss_of_power_does_not_end_folds_for_good() {
    let (repo, _) = scene();
    let work = |fs: &Fs, dir: &Path| -> Result<()> { fold(&store(fs, dir, true)).map(drop) };
    let left = Cell::new(0);
    lose_power_everywhere(refs_only(&repo).path(), Disk::Unordered, work, |dir, _| {
        let lock = dir.join("packed-refs.refdb-fold.lock");
        if let Ok(file) = std::fs::File::options().write(true).open(lock) {
            left.set(left.get() + 1);
            file.set_modified(std::time::SystemTime::now() - std::time::Duration::from_secs(600)).unwrap();
        }
        // A lock of packed-refs that has lost its signature looks like one of git's, so a person has to remove it.
        let _ = std::fs::remove_file(dir.join("packed-refs.lock"));
        assert!(fold(&store(&Fs::real(), dir, true)).unwrap().is_some());
    });
    assert!(left.get() > 0, "the explorer leaves the lock");
}

/// Batches write pairs, and git creates and deletes refs, beside background pack-refs, `git gc` and `git pack-refs`. No
/// old value comes back, although git removes a loose file with the value that it packed even if another packer came
/// after it.
#[test]
fn folds_lose_nothing_beside_batches_and_git() {
    const ROUNDS: usize = 30;
    let (repo, ids) = scene();
    let dir = repo.git_dir();
    let tree = repo.git_with_input(["mktree"], "");
    let (done, folds) = (AtomicBool::new(false), AtomicUsize::new(0));
    let last = std::thread::scope(|scope| {
        let folding = scope.spawn(|| {
            let store = store(&Fs::real(), dir, false);
            while !done.load(SeqCst) {
                folds.fetch_add(fold(&store).unwrap().map_or(0, |folded| folded.removed), SeqCst);
            }
        });
        let packing = scope.spawn(|| {
            while !done.load(SeqCst) {
                // Git may give up at a lock that is held.
                repo.try_git(["pack-refs", "--all"], "");
                repo.try_git(["gc", "--quiet"], "");
            }
        });
        let deleting = scope.spawn(|| {
            for round in 0.. {
                if done.load(SeqCst) {
                    break;
                }
                let name = format!("refs/git/{round}");
                if repo.try_git(["update-ref", &name, &ids[0].to_string()], "").status.success() {
                    while !repo.try_git(["update-ref", "-d", &name], "").status.success() {}
                }
            }
        });
        let writing = scope.spawn(|| {
            let store = store(&Fs::real(), dir, false);
            for round in 0.. {
                assert!(round < 100 * ROUNDS, "no fold found a loose ref");
                // Git may fail, because `git gc` removes folders of objects into which git is about to write.
                let made = repo.try_git(["commit-tree", "-m", &round.to_string(), tree.trim()], "");
                let Ok(id) = ObjectId::from_hex(HashKind::Sha1, made.stdout.trim_ascii()) else { continue };
                let value = id.to_string();
                transact_whole(&store, &PAIR.map(|name| set(name, id))).unwrap();
                let now = read(dir);
                assert!(PAIR.iter().all(|name| now[*name] == value), "{now:?}");
                if round >= ROUNDS && folds.load(SeqCst) > 0 {
                    return value;
                }
            }
            unreachable!("the rounds are bounded above")
        });
        let written = writing.join();
        done.store(true, SeqCst);
        deleting.join().unwrap();
        packing.join().unwrap();
        folding.join().unwrap();
        written.unwrap()
    });
    let now = read(dir);
    assert!(PAIR.iter().all(|name| now[*name] == last), "{now:?}");
    assert!(!now.keys().any(|name| name.starts_with("refs/git/")), "{now:?}");
    assert_eq!(leftovers(dir), Vec::<std::path::PathBuf>::new());
}

/// Records each change of the file in which a writer prepares a ref's new content.
#[derive(Default)]
struct OfContent(std::sync::Mutex<Vec<String>>);

impl refdb_vfs::IoHook for OfContent {
    fn before(&self, op: refdb_vfs::Op<'_>) -> refdb_vfs::Verdict {
        let op = format!("{op:?}");
        if op.contains("refs/heads/a.lock.lock") {
            self.0.lock().unwrap().push(op);
        }
        refdb_vfs::Verdict::Proceed
    }
}

#[test]
fn a_fold_does_nothing_to_the_content_that_a_writer_has_ready() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    repo.create_refs([("refs/heads/a", repo.commit()), ("refs/heads/b", repo.commit())]);
    let target = repo.git_dir().join("refs/heads/a");
    let mut lock = Lock::acquire(&Fs::real().signing_locks(), &target, 0o666, LockTimeout::None).unwrap();
    lock.content().unwrap().write_all(b"content").unwrap();
    let seen = std::sync::Arc::new(OfContent::default());
    let fs = Fs::with_hook(std::sync::Arc::<OfContent>::clone(&seen)).signing_locks();
    let store = FilesBackend::new(options(fs, repo.git_dir(), HashKind::Sha1));
    let folded = store.pack_in_background(&BackgroundPackOptions { from: 0, goes_on: &|_| true }).unwrap().unwrap();
    assert_eq!((folded.packed, folded.removed), (2, 1), "{folded:?}");
    assert_eq!(*seen.0.lock().unwrap(), Vec::<String>::new());
}

/// Counts what is done in each of the times for which packed-refs is locked.
#[derive(Default)]
struct Holds(std::sync::Mutex<Vec<Hold>>);

#[derive(Default, Debug)]
struct Hold {
    is_over: bool,
    content: usize,
    removed: usize,
}

impl refdb_vfs::IoHook for Holds {
    fn before(&self, op: refdb_vfs::Op<'_>) -> refdb_vfs::Verdict {
        use refdb_vfs::Op;
        let is_lock = |path: &Path| path.ends_with("packed-refs.lock");
        let mut holds = self.0.lock().unwrap();
        match op {
            Op::Create(path) if is_lock(path) => holds.push(Hold::default()),
            op => {
                if let Some(hold) = holds.last_mut().filter(|hold| !hold.is_over) {
                    match op {
                        Op::Remove(path) if is_lock(path) => hold.is_over = true,
                        Op::Remove(path) if path.extension().is_none() => hold.removed += 1,
                        Op::Write(path, _) | Op::Copy { to: path, .. } if !is_lock(path) => hold.content += 1,
                        _ => {}
                    }
                }
            }
        }
        refdb_vfs::Verdict::Proceed
    }
}

/// `pack-refs` makes the new file without the lock, and removes the loose files of one folder in portions, so that
/// writers get their turn in between.
#[test]
fn pack_refs_holds_the_lock_of_packed_refs_neither_to_write_it_nor_for_all_removals() {
    const LOOSE: usize = 6000;
    let (repo, ids) = scene();
    let names: Vec<String> = (0..LOOSE).map(|at| format!("refs/heads/many-{at:04}")).collect();
    for name in &names {
        std::fs::write(repo.git_dir().join(name), format!("{}\n", ids[2])).unwrap();
    }
    let holds = Arc::new(Holds::default());
    let fs = Fs::with_hook(Arc::<Holds>::clone(&holds));
    let store = FilesBackend::new(options(fs, repo.git_dir(), HashKind::Sha1));
    store.optimize(&pack_all()).unwrap();
    assert!(names.iter().all(|name| !repo.git_dir().join(name).exists()));
    assert_eq!(read(repo.git_dir()).values().filter(|value| **value == ids[2].to_string()).count(), LOOSE);
    let holds = holds.0.lock().unwrap();
    assert!(holds.iter().all(|hold| hold.is_over && hold.content == 0), "{holds:?}");
    let (most, all) = holds.iter().fold((0, 0), |(most, all), hold| (most.max(hold.removed), all + hold.removed));
    assert_eq!(all, LOOSE + 3);
    assert!(most <= 4096 + 4 * 8, "{holds:?}");
}

/// Takes a loose file away whenever a new packed-refs is begun, as another packer does, and notes whether packed-refs is
/// locked whenever a new one that was made under the lock is removed.
struct Pruner {
    loose: std::sync::Mutex<Vec<std::path::PathBuf>>,
    is_locked: AtomicBool,
    removed: std::sync::Mutex<Vec<bool>>,
}

impl refdb_vfs::IoHook for Pruner {
    fn before(&self, op: refdb_vfs::Op<'_>) -> refdb_vfs::Verdict {
        use refdb_vfs::Op;
        match op {
            Op::Create(path) if path.ends_with("packed-refs.lock") => self.is_locked.store(true, SeqCst),
            Op::Remove(path) if path.ends_with("packed-refs.lock") => self.is_locked.store(false, SeqCst),
            Op::Create(path) if path.ends_with("packed-refs.refdb") || path.ends_with("packed-refs.refdb-fold") => {
                std::fs::remove_file(self.loose.lock().unwrap().pop().unwrap()).unwrap();
            }
            Op::Remove(path) if path.ends_with("packed-refs.refdb") => {
                self.removed.lock().unwrap().push(self.is_locked.load(SeqCst));
            }
            _ => {}
        }
        refdb_vfs::Verdict::Proceed
    }
}

#[test]
fn a_new_packed_refs_that_is_not_used_is_removed_under_the_lock() {
    let (repo, ids) = scene();
    let names: Vec<String> = (0..20).map(|at| format!("refs/heads/pruned-{at:02}")).collect();
    let loose: Vec<_> = names.iter().map(|name| repo.git_dir().join(name)).collect();
    loose.iter().for_each(|path| std::fs::write(path, format!("{}\n", ids[2])).unwrap());
    let pruner =
        Arc::new(Pruner { loose: loose.into(), is_locked: AtomicBool::new(false), removed: Default::default() });
    let fs = Fs::with_hook(Arc::<Pruner>::clone(&pruner));
    let store = FilesBackend::new(options(fs, repo.git_dir(), HashKind::Sha1));
    let in_vain = store.optimize(&pack_all());
    assert!(matches!(in_vain, Err(Error::Limit(Limit::Packing))), "{in_vain:?}");
    // The file of another writer may have the name as soon as the lock is free.
    assert_eq!(*pruner.removed.lock().unwrap(), [true, true, true]);
}
