//! Writers that still use the old format while the refs are copied, or afterwards.

use crate::common::{assert_clean, format_of, migrate, other, scene, state};
use refdb::{HashKind, RefFormat, Store};
use refdb_testkit::Git;
use refdb_vfs::{Fs, IoHook, Op, Verdict};
use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

/// An I/O hook that acts once, right before the first operation for which `when` returns true.
pub(crate) struct Interloper<F> {
    pub(crate) when: fn(&Op<'_>) -> bool,
    pub(crate) act: F,
    pub(crate) is_done: AtomicBool,
}

impl<F: Fn() + Send + Sync> IoHook for Interloper<F> {
    fn before(&self, op: Op<'_>) -> Verdict {
        if (self.when)(&op) && !self.is_done.swap(true, Ordering::SeqCst) {
            (self.act)();
        }
        Verdict::Proceed
    }
}

/// An I/O hook that acts once, right before the operation of this number.
struct AtTurn<F> {
    turn: usize,
    act: F,
    next: AtomicUsize,
}

impl<F: Fn() + Send + Sync> IoHook for AtTurn<F> {
    fn before(&self, _: Op<'_>) -> Verdict {
        if self.next.fetch_add(1, Ordering::SeqCst) == self.turn {
            (self.act)();
        }
        Verdict::Proceed
    }
}

pub(crate) fn is_commit(op: &Op<'_>) -> bool {
    matches!(op, Op::Rename(_, to) if to.ends_with("config"))
}

pub(crate) fn is_fence(op: &Op<'_>) -> bool {
    matches!(op, Op::Exchange(_, heads) if heads.ends_with("refs/heads"))
}

pub(crate) fn git(dir: &Path) -> Command {
    let mut command = Git::find().command(dir);
    command.arg("--git-dir").arg(dir);
    command
}

#[test]
fn what_git_writes_before_the_old_files_go_is_taken_over() {
    for when in [is_commit as fn(&Op<'_>) -> bool, is_fence] {
        let repo = scene(RefFormat::Files, HashKind::Sha1);
        let new = repo.commits(4)[3];
        let dir = repo.git_dir().to_owned();
        let at = dir.clone();
        let expected = Arc::new(Mutex::new(None));
        let seen = Arc::clone(&expected);
        // These commands act like a git that opened the repository before the switch and still takes the refs for
        // files.
        let act = move || {
            let run = |words: &[&str]| {
                let output = git(&at).env("GIT_REFERENCE_BACKEND", "files").args(words).output().unwrap();
                assert!(output.status.success(), "{words:?} {output:?}");
            };
            run(&["update-ref", "-m", "late", "refs/heads/main", &new.to_string()]);
            run(&["update-ref", "-m", "made late", "refs/heads/late", &new.to_string()]);
            run(&["update-ref", "refs/tags/late", &new.to_string()]);
            run(&["symbolic-ref", "HEAD", "refs/heads/late"]);
            let tree = at.join("worktrees/tree");
            let output = git(&tree)
                .env("GIT_REFERENCE_BACKEND", "files")
                .args(["update-ref", "refs/bisect/good", &new.to_string()])
                .output()
                .unwrap();
            assert!(output.status.success(), "{output:?}");
            std::fs::remove_file(at.join("refs/heads/loose")).unwrap();
            let _ = std::fs::remove_file(at.join("logs/refs/heads/loose"));
            *seen.lock().unwrap() = Some(());
        };
        let fs = Fs::with_hook(Arc::new(Interloper { when, act, is_done: AtomicBool::new(false) }));
        let before = state(&dir);
        let migrated = migrate(&fs, &dir, RefFormat::Reftable).unwrap();
        assert!(expected.lock().unwrap().is_some());
        let after = state(&dir);
        let names: Vec<String> = migrated.taken_over.iter().map(ToString::to_string).collect();
        let all = ["HEAD", "refs/heads/late", "refs/heads/loose", "refs/heads/main", "refs/tags/late"];
        assert_eq!(names[..5], all.map(str::to_owned), "{names:?}");
        assert_eq!(names[5..], ["worktrees/tree/refs/bisect/good".to_owned()]);
        assert!(migrated.conflicts.is_empty() && migrated.strays.is_empty(), "{migrated:?}");
        assert_eq!(after.0["refs/heads/main"], new.to_string());
        assert_eq!(after.0["HEAD"], "-> refs/heads/late");
        assert!(!after.0.contains_key("refs/heads/loose") && !after.1.contains_key("refs/heads/loose"));
        assert_eq!(after.1["refs/heads/main"].len(), before.1["refs/heads/main"].len() + 1);
        assert_eq!(after.1["refs/heads/main"][1..], before.1["refs/heads/main"][..]);
        assert!(after.1["refs/heads/late"][0].contains("made late"));
        assert_clean(&dir);
        repo.verify();
    }
}

/// Previously, the new ref was reported as a conflict with the old one, which was deleted nevertheless.
#[test]
fn a_late_ref_may_take_the_place_of_one_that_goes_late() {
    let repo = scene(RefFormat::Files, HashKind::Sha1);
    let dir = repo.git_dir().to_owned();
    let (at, id) = (dir.clone(), repo.rev_parse("refs/heads/main").to_string());
    repo.git(["update-ref", "refs/heads/x/y", &id]);
    repo.git(["update-ref", "refs/heads/x/z", &id]);
    let act = move || {
        let run = |words: &[&str]| {
            let output = git(&at).env("GIT_REFERENCE_BACKEND", "files").args(words).output().unwrap();
            assert!(output.status.success(), "{words:?} {output:?}");
        };
        // git waits for packed-refs, but JGit deletes a ref that is only loose without that lock.
        for gone in ["loose", "x/y", "x/z"] {
            std::fs::remove_file(at.join("refs/heads").join(gone)).unwrap();
            std::fs::remove_file(at.join("logs/refs/heads").join(gone)).unwrap();
        }
        for new in ["loose/below", "x"] {
            run(&["update-ref", &format!("refs/heads/{new}"), &id]);
        }
    };
    let fs = Fs::with_hook(Arc::new(Interloper { when: is_commit, act, is_done: AtomicBool::new(false) }));
    let migrated = migrate(&fs, &dir, RefFormat::Reftable).unwrap();
    let names = ["loose", "loose/below", "x", "x/y", "x/z"].map(|name| format!("refs/heads/{name}"));
    assert!(migrated.conflicts.is_empty() && migrated.taken_over == names, "{migrated:?}");
    assert_clean(&dir);
    repo.verify();
}

/// While `refs/heads` was moved away, there was once no such folder for a moment, so that git recreated it and
/// reported a ref as written that was then lost.
#[test]
fn no_writer_finds_room_for_a_branch_while_the_old_ones_are_moved_away() {
    let repo = scene(RefFormat::Files, HashKind::Sha1);
    let (id, dir) = (repo.commit().to_string(), repo.git_dir().to_owned());
    let (at, refused) = (dir.clone(), Arc::new(AtomicBool::new(false)));
    let seen = Arc::clone(&refused);
    let act = move || {
        let late =
            git(&at).env("GIT_REFERENCE_BACKEND", "files").args(["update-ref", "refs/heads/new/late", &id]).output();
        seen.store(!late.unwrap().status.success(), Ordering::SeqCst);
    };
    let when = |op: &Op<'_>| matches!(op, Op::Rename(_, to) if to.ends_with("old/refs/heads"));
    let fs = Fs::with_hook(Arc::new(Interloper { when, act, is_done: AtomicBool::new(false) }));
    let migrated = migrate(&fs, &dir, RefFormat::Reftable).unwrap();
    assert!(refused.load(Ordering::SeqCst));
    assert!(migrated.strays.is_empty() && migrated.taken_over.is_empty(), "{migrated:?}");
    assert_clean(&dir);
    repo.verify();
}

/// A network file system may not support `RENAME_EXCHANGE`.
#[test]
fn refs_migrate_where_two_paths_cannot_change_places() {
    struct Without;
    impl IoHook for Without {
        fn before(&self, op: Op<'_>) -> Verdict {
            match op {
                Op::Exchange(..) => Verdict::Fail(std::io::ErrorKind::InvalidInput.into()),
                _ => Verdict::Proceed,
            }
        }
    }
    let repo = scene(RefFormat::Files, HashKind::Sha1);
    let before = state(repo.git_dir());
    migrate(&Fs::with_hook(Arc::new(Without)), repo.git_dir(), RefFormat::Reftable).unwrap();
    assert_eq!(state(repo.git_dir()), before);
    assert_clean(repo.git_dir());
    repo.verify();
}

#[test]
fn a_writer_with_a_lock_in_the_old_files_fails_and_what_was_written_there_afterwards_is_reported() {
    let repo = scene(RefFormat::Files, HashKind::Sha1);
    let id = repo.commit();
    let dir: PathBuf = repo.git_dir().to_owned();
    let lock = dir.join("refs/heads/held.lock");
    std::fs::write(&lock, format!("{id}\n")).unwrap();
    let migrated = migrate(&Fs::real(), &dir, RefFormat::Reftable).unwrap();
    assert!(migrated.strays.is_empty());
    // This is the rename that would have created the ref.
    assert!(std::fs::rename(&lock, dir.join("refs/heads/held")).is_err());
    let files = |words: &[&str]| {
        let output = git(&dir).env("GIT_REFERENCE_BACKEND", "files").args(words).output().unwrap();
        output.status.success()
    };
    assert!(!files(&["update-ref", "refs/heads/late", &id.to_string()]), "branches are barred");
    assert!(files(&["update-ref", "refs/tags/late", &id.to_string()]));
    let strays = Store::open(&dir).unwrap().strays().unwrap();
    assert_eq!(strays, ["refs/tags/late"]);
    let mut said = Vec::new();
    Store::open(&dir).unwrap().verify(false, &mut |verified| said.push(format!("{verified:?}"))).unwrap();
    assert!(said.iter().any(|line| line.contains("refs/tags/late") && line.contains("StrayRef")), "{said:?}");
    // A stray ref is not lost when the repository is migrated back, because that is refused.
    let said = migrate(&Fs::real(), &dir, RefFormat::Files).unwrap_err().to_string();
    assert!(said.contains("refs/tags/late"), "{said}");
}

#[test]
fn a_change_in_both_formats_is_reported_and_the_old_files_are_kept() {
    let repo = scene(RefFormat::Files, HashKind::Sha1);
    let ids = repo.commits(6);
    let dir = repo.git_dir().to_owned();
    // The migration fails right after the new format takes effect, because the I/O hook refuses the operation that bars
    // `refs/heads`.
    struct Refuse;
    impl IoHook for Refuse {
        fn before(&self, op: Op<'_>) -> Verdict {
            if is_fence(&op) { Verdict::Fail(std::io::ErrorKind::StorageFull.into()) } else { Verdict::Proceed }
        }
    }
    migrate(&Fs::with_hook(Arc::new(Refuse)), &dir, RefFormat::Reftable).unwrap_err();
    assert_eq!(format_of(&dir), RefFormat::Reftable);
    repo.git(["update-ref", "refs/heads/main", &ids[4].to_string()]);
    let late = git(&dir)
        .env("GIT_REFERENCE_BACKEND", "files")
        .args(["update-ref", "refs/heads/main", &ids[5].to_string()])
        .output()
        .unwrap();
    assert!(late.status.success());
    let migrated = migrate(&Fs::real(), &dir, RefFormat::Reftable).unwrap();
    assert_eq!(migrated.conflicts.len(), 1, "{migrated:?}");
    assert_eq!(migrated.conflicts[0].name, "refs/heads/main");
    let kept = migrated.kept.unwrap().join("refs/heads/main");
    assert_eq!(std::fs::read_to_string(kept).unwrap().trim_end(), ids[5].to_string());
    assert_eq!(repo.rev_parse("refs/heads/main"), ids[4]);
}

#[test]
fn git_waits_or_fails_while_stacks_become_files_and_writes_nowhere() {
    let repo = scene(RefFormat::Reftable, HashKind::Sha1);
    let new = repo.commits(4)[3];
    let dir = repo.git_dir().to_owned();
    let at = dir.clone();
    let act = move || {
        let output = git(&at)
            .env("GIT_REFERENCE_BACKEND", "reftable")
            .args(["update-ref", "refs/heads/late", &new.to_string()])
            .output()
            .unwrap();
        assert!(!output.status.success(), "{output:?}");
    };
    let before = state(&dir);
    let fs = Fs::with_hook(Arc::new(Interloper { when: is_commit, act, is_done: AtomicBool::new(false) }));
    migrate(&fs, &dir, other(RefFormat::Reftable)).unwrap();
    assert_eq!(state(&dir), before);
    // The folder of the stack no longer exists.
    let output = git(&dir)
        .env("GIT_REFERENCE_BACKEND", "reftable")
        .args(["update-ref", "refs/heads/late", &new.to_string()])
        .output()
        .unwrap();
    let made = dir.join("reftable/tables.list").exists();
    assert!(!output.status.success() || made, "{output:?}");
    if made {
        assert_eq!(Store::open(&dir).unwrap().strays().unwrap(), ["reftable"]);
    }
}

/// A git that read the configuration while the refs were in reftables once found the folder of the next stack before
/// the list was in it, and made a list of its own. The migration failed, and git's ref was removed with the folder.
#[test]
fn a_git_that_still_takes_the_refs_for_reftables_loses_nothing_while_they_become_reftables() {
    let base = scene(RefFormat::Files, HashKind::Sha1);
    let id = base.commit().to_string();
    let mut written = 0;
    for turn in 0.. {
        let dir = base.scratch().join(format!("copy-{turn}"));
        let copied = Command::new("cp").arg("-a").arg(base.git_dir()).arg(&dir).status().unwrap();
        assert!(copied.success());
        let (at, id) = (dir.clone(), id.clone());
        let is_written = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&is_written);
        let act = move || {
            let late = git(&at)
                .env("GIT_REFERENCE_BACKEND", "reftable")
                .args(["-c", "reftable.lockTimeout=0", "update-ref", "refs/heads/late", &id])
                .output();
            seen.store(late.unwrap().status.success(), Ordering::SeqCst);
        };
        let hook = Arc::new(AtTurn { turn, act, next: AtomicUsize::new(0) });
        migrate(&Fs::with_hook(hook.clone()), &dir, RefFormat::Reftable).unwrap();
        if hook.next.load(Ordering::SeqCst) <= turn {
            break;
        }
        let is_written = is_written.load(Ordering::SeqCst);
        assert_eq!(state(&dir).0.contains_key("refs/heads/late"), is_written, "operation {turn}");
        written += usize::from(is_written);
    }
    assert!(written > 0, "git found a stack of the migration");
}

/// A JGit that opened the repository when its refs were in reftables makes the folder of a stack if there is none.
#[test]
fn a_stack_that_another_program_makes_meanwhile_fails_the_migration_and_stays() {
    for is_killed in [false, true] {
        let repo = scene(RefFormat::Files, HashKind::Sha1);
        let (dir, before) = (repo.git_dir().to_owned(), state(repo.git_dir()));
        let foreign = dir.join("reftable");
        struct Make(PathBuf, bool);
        impl IoHook for Make {
            fn before(&self, op: Op<'_>) -> Verdict {
                match op {
                    Op::Rename(_, to) if to == self.0 => {
                        std::fs::create_dir(&self.0).unwrap();
                        std::fs::write(self.0.join("tables.list"), "").unwrap();
                        if self.1 { Verdict::Fail(std::io::ErrorKind::StorageFull.into()) } else { Verdict::Proceed }
                    }
                    // Nothing is undone after a kill.
                    Op::Remove(_) | Op::RemoveDir(_) if self.1 && self.0.exists() => {
                        Verdict::Fail(std::io::ErrorKind::StorageFull.into())
                    }
                    _ => Verdict::Proceed,
                }
            }
        }
        let hook = Arc::new(Make(foreign.clone(), is_killed));
        let error = migrate(&Fs::with_hook(hook), &dir, RefFormat::Reftable).unwrap_err().to_string();
        assert!(is_killed || error.contains("reftable") && error.contains("in the way"), "{error}");
        let error = migrate(&Fs::real(), &dir, RefFormat::Reftable).unwrap_err().to_string();
        assert!(error.contains("reftable"), "{error}");
        assert!(foreign.join("tables.list").exists(), "{is_killed}: the stack is there");
        assert_eq!(state(&dir), before);
    }
}

/// A writer that was interrupted by the switch between its reflog and its ref leaves a reflog in the old place, which
/// once kept every later migration from starting.
#[test]
fn a_reflog_of_a_change_that_failed_bars_no_migration() {
    for hash in [HashKind::Sha1, HashKind::Sha256] {
        let repo = scene(RefFormat::Files, hash);
        let dir = repo.git_dir().to_owned();
        let before = state(&dir);
        migrate(&Fs::real(), &dir, RefFormat::Reftable).unwrap();
        let write = |path: &str| {
            std::fs::create_dir_all(dir.join(path).parent().unwrap()).unwrap();
            std::fs::write(dir.join(path), "x\n").unwrap();
        };
        write("logs/refs/heads/deep/failed");
        write("logs/refs/tags/made");
        write("refs/tags/made");
        let said = migrate(&Fs::real(), &dir, RefFormat::Files).unwrap_err().to_string();
        assert!(said.contains("refs/tags/made") && !said.contains("failed"), "{said}");
        assert!(dir.join("logs/refs/heads/deep/failed").exists(), "nothing is removed where it goes no further");
        for path in ["refs/tags/made", "logs/refs/tags/made"] {
            std::fs::remove_file(dir.join(path)).unwrap();
        }
        let migrated = migrate(&Fs::real(), &dir, RefFormat::Files).unwrap();
        assert_eq!(migrated.lone_logs, ["logs/refs/heads/deep/failed"]);
        assert_eq!(state(&dir), before);
        assert_clean(&dir);
    }
}
