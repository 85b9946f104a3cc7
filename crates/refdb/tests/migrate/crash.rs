//! A migration that stops at any operation that changes the disk leaves all refs intact, and after the next run they
//! are in the new format.

use crate::common::{assert_clean, format_of, migrate, other, scene, state};
use refdb::{HashKind, MigrateError, RefFormat, Store};
use refdb_testkit::{
    Repo,
    crash::{Crash, Disk, kill_everywhere, lose_power_everywhere, refuse_everywhere},
};
use refdb_vfs::{Fs, IoHook, Op, Verdict};
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

/// The folder with the target of the configuration.
const ELSEWHERE: &str = "elsewhere";

const FORMATS: [RefFormat; 2] = [RefFormat::Files, RefFormat::Reftable];

/// A repository that can be copied, because its worktree is named by a relative path. Its configuration is behind a
/// symbolic link, beside whose target the configuration is locked.
fn portable(format: RefFormat) -> Repo {
    let repo = scene(format, HashKind::Sha1);
    let (config, folder) = (repo.git_dir().join("config"), repo.git_dir().join(ELSEWHERE));
    std::fs::create_dir(&folder).unwrap();
    std::fs::rename(&config, folder.join("config")).unwrap();
    std::os::unix::fs::symlink(format!("{ELSEWHERE}/config"), &config).unwrap();
    std::fs::write(repo.git_dir().join("worktrees/tree/gitdir"), "../../../nowhere/.git\n").unwrap();
    repo
}

/// Runs the migration again, and checks that the refs are in the new format afterwards and that nothing is left behind.
fn recover(dir: &Path, to: RefFormat, crash: &Crash) {
    let is_left = |entry: &std::fs::DirEntry| entry.file_name().to_string_lossy().starts_with("ref_migration.");
    let is_over =
        !std::fs::read_dir(dir).unwrap().map(Result::unwrap).any(|entry| entry.path().is_dir() && is_left(&entry));
    // A program that another test starts briefly inherits all open files of this process, so that a lock seems to be
    // held.
    let end = Instant::now() + Duration::from_secs(60);
    let ended = loop {
        let ended = migrate(&Fs::real(), dir, to);
        if !matches!(ended, Err(MigrateError::Running(_))) || Instant::now() > end {
            break ended;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    match ended {
        Ok(migrated) => assert!(migrated.conflicts.is_empty() && migrated.taken_over.is_empty(), "{migrated:?}"),
        Err(MigrateError::SameFormat(_)) if is_over => {}
        Err(error) => panic!("{crash}: {error}"),
    }
    assert_eq!(format_of(dir), to);
    if crash.next.starts_with("remove ") && crash.next.ends_with(".lock") {
        // The lock file itself could not be removed. Because it is signed, the next writer would remove it.
        remove_locks(dir);
    }
    assert_clean(dir);
    assert_eq!(refdb_testkit::files_below(&dir.join(ELSEWHERE)), ["config"], "{crash}");
}

/// Removes all lock files, as an administrator does after a loss of power, when the kernel no longer knows who held
/// them.
fn remove_locks(dir: &Path) {
    for path in refdb_testkit::files_below(dir).into_iter().filter(|path| path.ends_with(".lock")) {
        std::fs::remove_file(dir.join(path)).unwrap();
    }
}

/// Creates a ref and deletes another one, like any writer after the crash.
fn write(dir: &Path) {
    let store = Store::open(dir).unwrap();
    let id = store.find("refs/heads/main").unwrap().unwrap().id().unwrap();
    let mut tx = store.transaction();
    tx.create("refs/heads/after", id).delete("refs/heads/loose", refdb::Precondition::Any);
    tx.commit().unwrap();
}

#[test]
fn killed_anywhere_the_refs_are_whole_and_the_next_run_ends_it() {
    for from in FORMATS {
        let repo = portable(from);
        let before = state(repo.git_dir());
        let to = other(from);
        let work = |fs: &Fs, dir: &Path| migrate(fs, dir, to).map(drop);
        kill_everywhere(repo.git_dir(), work, |dir, crash| {
            assert_eq!(state(dir), before, "{crash}");
            assert!(!crash.claimed || format_of(dir) == to);
            write(dir);
            let written = state(dir);
            recover(dir, to, crash);
            assert_eq!(state(dir), written, "{crash}");
        });
    }
}

#[test]
fn a_full_disk_anywhere_leaves_the_refs_whole_and_nothing_behind() {
    for from in FORMATS {
        let repo = portable(from);
        let before = state(repo.git_dir());
        let to = other(from);
        let work = |fs: &Fs, dir: &Path| migrate(fs, dir, to).map(drop);
        refuse_everywhere(repo.git_dir(), work, |dir, crash| {
            assert_eq!(state(dir), before, "{crash}");
            if format_of(dir) == from {
                assert!(!crash.claimed, "{crash}");
            }
            recover(dir, to, crash);
            assert_eq!(state(dir), before, "{crash}");
        });
    }
}

#[test]
fn no_loss_of_power_costs_a_ref_though_nothing_asks_for_syncing() {
    for from in FORMATS {
        let repo = portable(from);
        let before = state(repo.git_dir());
        let to = other(from);
        let work = |fs: &Fs, dir: &Path| migrate(fs, dir, to).map(drop);
        lose_power_everywhere(repo.git_dir(), Disk::Journaled, work, |dir, crash| {
            assert_eq!(state(dir), before, "{crash}");
            remove_locks(dir);
            recover(dir, to, crash);
            assert_eq!(state(dir), before, "{crash}");
        });
    }
}

/// Regression: a run that only finished a migration did not look for strays.
#[test]
fn a_ref_that_comes_after_the_kill_is_taken_over_or_told_of() {
    let repo = portable(RefFormat::Files);
    let id = repo.commit().to_string();
    let work = |fs: &Fs, dir: &Path| migrate(fs, dir, RefFormat::Reftable).map(drop);
    let (told, taken) = (AtomicU32::new(0), AtomicU32::new(0));
    kill_everywhere(repo.git_dir(), work, |dir, crash| {
        if format_of(dir) == RefFormat::Files {
            return;
        }
        std::fs::create_dir_all(dir.join("refs/tags")).unwrap();
        std::fs::write(dir.join("refs/tags/late"), format!("{id}\n")).unwrap();
        let Ok(migrated) = migrate(&Fs::real(), dir, RefFormat::Reftable) else { return };
        let is_there = Store::open(dir).unwrap().find("refs/tags/late").unwrap().is_some();
        let is_told = !migrated.conflicts.is_empty() || migrated.strays.iter().any(|path| path == "refs/tags/late");
        assert!(is_there || is_told, "{crash}: {migrated:?}");
        told.fetch_add(is_told.into(), Relaxed);
        taken.fetch_add(is_there.into(), Relaxed);
    });
    let counts = [told, taken].map(AtomicU32::into_inner);
    assert!(!counts.contains(&0), "{counts:?} were told of and taken over");
}

/// A disk without hard links that fails for good in the middle of the copy of `TEMP_TAG`.
#[derive(Default)]
struct FailsInCopy {
    has_failed: AtomicBool,
}

impl IoHook for FailsInCopy {
    fn before(&self, op: Op<'_>) -> Verdict {
        let full = || std::io::ErrorKind::StorageFull.into();
        match op {
            _ if self.has_failed.load(Relaxed) => Verdict::Fail(full()),
            Op::Link(..) => Verdict::Fail(std::io::ErrorKind::Unsupported.into()),
            Op::Copy { from, .. } if from.ends_with("TEMP_TAG") => {
                self.has_failed.store(true, Relaxed);
                Verdict::Tear(7, full())
            }
            _ => Verdict::Proceed,
        }
    }
}

/// Previously, what was copied stayed, and was in the way of each further run.
#[test]
fn a_part_of_a_ref_that_only_update_ref_makes_is_not_in_the_way() {
    let repo = scene(RefFormat::Reftable, HashKind::Sha1);
    let (id, dir) = (repo.commit().to_string(), repo.git_dir());
    repo.git(["update-ref", "TEMP_TAG", &id]);
    let disk = Arc::new(FailsInCopy::default());
    migrate(&Fs::with_hook(disk.clone()), dir, RefFormat::Files).unwrap_err();
    assert!(disk.has_failed.load(Relaxed), "the ref was being copied");
    migrate(&Fs::real(), dir, RefFormat::Files).unwrap();
    assert_eq!(repo.git(["rev-parse", "TEMP_TAG"]), id);
    assert_clean(dir);
}

/// A disk without hard links, on which another program makes `TEMP_TAG` just before the migration does.
struct MadeByAnother;

impl IoHook for MadeByAnother {
    fn before(&self, op: Op<'_>) -> Verdict {
        match op {
            Op::Link(..) => return Verdict::Fail(std::io::ErrorKind::Unsupported.into()),
            Op::Rename(_, to) if to.ends_with("TEMP_TAG") => std::fs::write(to, "theirs").unwrap(),
            _ => {}
        }
        Verdict::Proceed
    }
}

#[test]
fn a_file_that_appears_while_a_migration_copies_to_its_place_is_not_replaced() {
    let repo = scene(RefFormat::Reftable, HashKind::Sha1);
    let (id, dir) = (repo.commit().to_string(), repo.git_dir());
    repo.git(["update-ref", "TEMP_TAG", &id]);
    let error = migrate(&Fs::with_hook(Arc::new(MadeByAnother)), dir, RefFormat::Files).unwrap_err();
    assert_eq!(std::fs::read_to_string(dir.join("TEMP_TAG")).unwrap(), "theirs", "{error}");
}

/// A disk on which no HEAD gets a second name.
#[derive(Default)]
struct Linkless {
    unsynced: Mutex<BTreeSet<PathBuf>>,
    /// How many copies of HEAD were not synced whenever a HEAD was replaced.
    replaced: Mutex<Vec<usize>>,
}

impl IoHook for Linkless {
    fn before(&self, op: Op<'_>) -> Verdict {
        let mut unsynced = self.unsynced.lock().unwrap();
        match op {
            Op::Link(_, to) if to.ends_with("HEAD") => return Verdict::Fail(std::io::ErrorKind::Unsupported.into()),
            Op::Create(path) if path.ends_with("HEAD") => drop(unsynced.insert(path.to_owned())),
            Op::Sync(path) => drop(unsynced.remove(path)),
            Op::Rename(from, to) if from.ends_with("HEAD") && to.ends_with("HEAD") => {
                self.replaced.lock().unwrap().push(unsynced.len());
            }
            _ => {}
        }
        Verdict::Proceed
    }
}

#[test]
fn a_copy_of_head_is_on_the_disk_before_head_is_replaced() {
    let repo = scene(RefFormat::Files, HashKind::Sha1);
    let (before, disk) = (state(repo.git_dir()), Arc::new(Linkless::default()));
    migrate(&Fs::with_hook(disk.clone()), repo.git_dir(), RefFormat::Reftable).unwrap();
    assert_eq!(*disk.replaced.lock().unwrap(), [0, 0], "the HEAD of each worktree is replaced");
    assert_eq!(state(repo.git_dir()), before);
}
