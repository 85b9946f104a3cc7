//! A process dies or a machine loses power at every step of additions and compactions, or an operation of an addition
//! is refused, as on a full disk. Afterwards the stack shows the whole change or nothing of it, and git can read and
//! write what a dead process left.

#![allow(clippy::unwrap_used, reason = "a test that fails shall panic")]

mod stack_support;

use refdb_testkit::{
    Git, RefFormat, Repo,
    crash::{Crash, Disk, kill_everywhere, lose_power_everywhere, refuse_everywhere},
};
use refdb_types::HashKind;
use refdb_vfs::Fs;
use reftable::stack::{Scope, Stack, StackError, StackOptions};
use stack_support::{LOCK_TIMEOUT, Refs, add, add_expecting, files, files_of, oid, open, options, refs, synced, write};
use std::{fs, path::Path, process::Command};
use tempfile::TempDir;

/// Creates a folder with a stack of a large table and some small ones.
fn start() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let stack = Stack::open(Fs::real(), dir.path(), options(HashKind::Sha1).auto_compact(false)).unwrap();
    let names: Vec<_> = (0..60).map(|number| format!("refs/heads/{number:03}")).collect();
    let all: Vec<_> = names.iter().map(|name| (name.as_str(), Some(oid(1)))).collect();
    write(&stack, &all);
    write(&stack, &[("refs/heads/001", None), ("refs/heads/002", Some(oid(2)))]);
    write(&stack, &[("refs/heads/003", None)]);
    dir
}

/// How the small tables of [`start`] are treated when another table is added.
#[derive(Clone, Copy)]
enum Merging {
    Never,
    /// They are merged after the new table is written, when its size is known.
    AtOnce,
    /// They are merged while the new table is written, because it is expected to be large.
    InOnePass,
}

const MERGINGS: [Merging; 3] = [Merging::Never, Merging::AtOnce, Merging::InOnePass];

fn add_one(options: &StackOptions, merging: Merging, fs: &Fs, dir: &Path) -> Result<(), StackError> {
    let options = options.clone().auto_compact(!matches!(merging, Merging::Never));
    let stack = Stack::open(fs.clone(), dir, options)?;
    let mut addition = stack.lock(LOCK_TIMEOUT)?;
    let expected_bytes = if matches!(merging, Merging::InOnePass) { 1 << 20 } else { 0 };
    add_expecting(&mut addition, expected_bytes, &[("refs/heads/002", None), ("refs/heads/new", Some(oid(3)))])?;
    addition.commit().map(drop)
}

fn compact(options: &StackOptions, fs: &Fs, dir: &Path) -> Result<(), StackError> {
    Stack::open(fs.clone(), dir, options.clone())?.compact(Scope::All(None), LOCK_TIMEOUT).map(drop)
}

fn before_and_after(start: &Path) -> (Refs, Refs) {
    let before = refs(&open(start).snapshot());
    let mut after = before.clone();
    after.remove("refs/heads/002");
    after.insert("refs/heads/new".into(), oid(3));
    (before, after)
}

/// Removes the locks of a dead process, as a user does by hand so that the work can go on.
fn unlock(dir: &Path) {
    for name in locks(dir) {
        fs::remove_file(dir.join(name)).unwrap();
    }
}

fn locks(dir: &Path) -> Vec<String> {
    files(dir).into_iter().filter(|name| name.ends_with(".lock")).collect()
}

fn check_addition(before: &Refs, after: &Refs, dir: &Path, crash: &Crash) {
    check_state(before, after, dir, crash);
    unlock(dir);
    go_on(dir);
}

fn check_state(before: &Refs, after: &Refs, dir: &Path, crash: &Crash) {
    let found = refs(&open(dir).snapshot());
    assert!(&found == before || &found == after, "neither the old state nor the new one");
    assert!(!crash.claimed || &found == after, "success was claimed, but the change is not there");
}

/// Requires that no lock keeps anybody from anything. Locks of tables that are no longer listed may stay, because they
/// are removed with those tables.
fn assert_unlocked(dir: &Path) {
    let list = fs::read_to_string(dir.join("tables.list")).unwrap();
    let matters = |name: &str| name.starts_with("tables.list") || list.lines().any(|table| name.starts_with(table));
    assert!(!locks(dir).iter().any(|name| matters(name)), "{:?}", locks(dir));
}

/// Adds to the stack and compacts it.
fn go_on(dir: &Path) {
    let stack = open(dir);
    let found = refs(&stack.snapshot());
    write(&stack, &[("refs/heads/later", Some(oid(9)))]);
    stack.compact(Scope::All(None), LOCK_TIMEOUT).unwrap();
    let mut expected = found;
    expected.insert("refs/heads/later".into(), oid(9));
    assert_eq!(refs(&open(dir).snapshot()), expected);
}

#[test]
fn a_process_that_dies_leaves_the_whole_addition_or_nothing() {
    let start = start();
    let (before, after) = before_and_after(start.path());
    for merging in MERGINGS {
        for options in [options(HashKind::Sha1), synced()] {
            kill_everywhere(
                start.path(),
                |fs, dir| add_one(&options, merging, fs, dir),
                |dir, crash| check_addition(&before, &after, dir, crash),
            );
        }
    }
}

#[test]
fn who_comes_after_a_killed_server_needs_nobody_to_remove_its_locks() {
    let start = start();
    let (before, after) = before_and_after(start.path());
    let options = synced();
    for merging in MERGINGS {
        let work = |fs: &Fs, dir: &Path| add_one(&options, merging, &fs.clone().signing_locks(), dir);
        kill_everywhere(start.path(), work, |dir, crash| {
            check_state(&before, &after, dir, crash);
            go_on(dir);
            assert_unlocked(dir);
        });
    }
    let work = |fs: &Fs, dir: &Path| compact(&options, &fs.clone().signing_locks(), dir);
    kill_everywhere(start.path(), work, |dir, crash| {
        check_state(&before, &before, dir, crash);
        go_on(dir);
        assert_unlocked(dir);
    });
}

#[test]
fn a_process_that_dies_in_a_compaction_changes_no_value() {
    let start = start();
    let before = refs(&open(start.path()).snapshot());
    for options in [options(HashKind::Sha1), synced()] {
        kill_everywhere(
            start.path(),
            |fs, dir| compact(&options, fs, dir),
            |dir, crash| check_addition(&before, &before, dir, crash),
        );
    }
}

#[test]
fn a_refused_operation_fails_the_addition_and_leaves_nothing_behind() {
    let start = start();
    let (before, after) = before_and_after(start.path());
    for merging in MERGINGS {
        refuse_everywhere(
            start.path(),
            |fs, dir| add_one(&synced(), merging, fs, dir),
            |dir, crash| {
                let snapshot = open(dir).snapshot();
                let found = refs(&snapshot);
                if crash.next.starts_with("sync the folder") {
                    // If the sync is refused after the rename, the change is there, and the error says that it may not
                    // last.
                    assert!(found == before || found == after && !crash.claimed);
                } else {
                    assert_eq!(found, if crash.claimed { after.clone() } else { before.clone() });
                }
                // Files that cannot be removed stay, and so do those that the old list names if the new list may not
                // last.
                let stays = ["remove", "sync the folder"].iter().any(|next| crash.next.starts_with(next));
                assert!(stays || files(dir) == files_of(&snapshot));
            },
        );
    }
}

#[test]
fn a_machine_that_loses_power_keeps_a_synced_addition_whole() {
    let start = start();
    let (before, after) = before_and_after(start.path());
    for disk in [Disk::Journaled, Disk::Unordered] {
        for merging in MERGINGS {
            lose_power_everywhere(
                start.path(),
                disk,
                |fs, dir| add_one(&synced(), merging, fs, dir),
                |dir, crash| check_addition(&before, &after, dir, crash),
            );
        }
    }
}

#[test]
fn a_machine_that_loses_power_in_a_synced_compaction_changes_no_value() {
    let start = start();
    let before = refs(&open(start.path()).snapshot());
    for disk in [Disk::Journaled, Disk::Unordered] {
        lose_power_everywhere(
            start.path(),
            disk,
            |fs, dir| compact(&synced(), fs, dir),
            |dir, crash| check_addition(&before, &before, dir, crash),
        );
    }
}

#[test]
fn git_reads_and_writes_what_a_dead_process_left() {
    let repo = Repo::bare(RefFormat::Reftable, HashKind::Sha1);
    let commits = repo.commits(3);
    repo.config("reftable.lockTimeout", "0");
    repo.create_refs((0..60).map(|number| (format!("refs/heads/{number:03}"), commits[0])));
    repo.create_refs([("refs/heads/a", commits[1])]);
    repo.create_refs([("refs/heads/b", commits[1])]);
    let names = |dir: &Path| git(dir, &["for-each-ref", "--format=%(refname)"]).lines().count();
    assert_eq!(names(repo.git_dir()), 62);
    let work = |fs: &Fs, dir: &Path| -> Result<(), StackError> {
        let stack = Stack::open(fs.clone(), &dir.join("reftable"), options(HashKind::Sha1))?;
        let mut addition = stack.lock(LOCK_TIMEOUT)?;
        add(&mut addition, &[("refs/heads/c", Some(commits[2]))]);
        drop(addition.commit()?);
        stack.compact(Scope::All(None), LOCK_TIMEOUT).map(drop)
    };
    kill_everywhere(repo.git_dir(), work, |dir, crash| {
        let found = names(dir);
        assert!(found == 63 || found == 62 && !crash.claimed);
        unlock(&dir.join("reftable"));
        git(dir, &["update-ref", "refs/heads/later", &commits[2].to_string()]);
        git(dir, &["pack-refs", "--all"]);
        git(dir, &["refs", "verify", "--strict"]);
        assert_eq!(names(dir), found + 1);
    });
}

fn git(dir: &Path, args: &[&str]) -> String {
    let mut command: Command = Git::find().command(dir);
    let output = command.args(args).output().unwrap();
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
