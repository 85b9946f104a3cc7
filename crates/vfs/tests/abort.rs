//! A process that has called `interrupt::catch_signals` leaves no lock behind when it aborts, for example for want of
//! memory.
//!
//! Each test starts this program again, as the process that aborts.

#![allow(clippy::unwrap_used, reason = "tests")]

use refdb_vfs::{Fs, Lock, LockTimeout, interrupt};
use std::{
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    sync::Barrier,
    time::Duration,
};

const FOLDER: &str = "REFDB_TEST_ABORTS_IN";
const SIGABRT: i32 = 6;

/// Returns the folder in which this process is to abort, if it is the one that aborts.
fn aborting() -> Option<PathBuf> {
    std::env::var_os(FOLDER).map(Into::into)
}

/// This program again, for the test of this name alone.
fn again(test: &str, dir: &Path) -> Command {
    let mut command = refdb_testkit::this_program();
    command.args(["--exact", test, "--nocapture"]).env(FOLDER, dir).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

fn assert_aborted(status: ExitStatus) {
    assert_eq!(status.signal(), Some(SIGABRT), "{status}");
}

fn files(dir: &Path) -> Vec<String> {
    let names = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

fn acquire(dir: &Path, name: &str) -> Lock {
    Lock::acquire(&Fs::real(), &dir.join(name), 0o666, LockTimeout::None).unwrap()
}

/// Holds locks that it has taken in different ways, and gives others up.
fn hold(dir: &Path) -> Vec<Lock> {
    let fs = Fs::real();
    let mut held = Vec::new();
    for round in 0..3 {
        // Two thousand paths of many lengths are several chunks of memory.
        held.extend((0..2_000).map(|at| acquire(dir, &format!("{}{round}.{at}", "x".repeat(at % 120)))));
        if round < 2 {
            held.clear();
        }
    }
    let (seed, _) = acquire(dir, "seed").into_source();
    for (at, other) in ["linked", "resumed", "at-once", "published"].into_iter().enumerate() {
        let target = dir.join(other);
        let left = if at == 2 {
            Lock::link_detached(&fs, &Lock::path_of(&target), &seed).unwrap()
        } else {
            Lock::acquire_linked(&fs, &target, seed.path(), LockTimeout::None).unwrap().leave()
        };
        if at % 2 == 1 {
            let mut lock = Lock::resume_linked(&fs, &target, left);
            // The content goes to a file of its own beside the lock.
            lock.content().unwrap().write_all(b"new").unwrap();
            if at == 3 {
                lock.publish().unwrap();
            }
            held.push(lock);
        }
    }
    let mut committed = acquire(dir, "committed");
    committed.content().unwrap().write_all(b"new").unwrap();
    committed.commit().unwrap();
    acquire(dir, "released").release().unwrap();
    // Locks that this process has released or does not get: these files are locks of others.
    for name in ["released.lock", "committed.lock", "x.lock"] {
        std::fs::write(dir.join(name), "").unwrap();
    }
    assert!(Lock::acquire(&fs, &dir.join("x"), 0o666, LockTimeout::None).is_err());
    held
}

#[test]
fn an_abort_removes_the_locks_that_are_held_and_no_others() {
    if let Some(dir) = aborting() {
        interrupt::catch_signals().unwrap();
        let held = hold(&dir);
        assert!(files(&dir).len() > held.len());
        std::process::abort();
    }
    let dir = tempfile::tempdir().unwrap();
    assert_aborted(again("an_abort_removes_the_locks_that_are_held_and_no_others", dir.path()).status().unwrap());
    assert_eq!(files(dir.path()), ["committed", "committed.lock", "published", "released.lock", "x.lock"]);
}

#[test]
fn a_program_that_did_not_ask_for_it_keeps_its_own_way_to_abort() {
    if let Some(dir) = aborting() {
        let _held = acquire(&dir, "a");
        std::process::abort();
    }
    let dir = tempfile::tempdir().unwrap();
    assert_aborted(again("a_program_that_did_not_ask_for_it_keeps_its_own_way_to_abort", dir.path()).status().unwrap());
    assert_eq!(files(dir.path()), ["a.lock"]);
}

#[test]
fn a_process_that_is_told_to_abort_ends_with_its_locks() {
    if let Some(dir) = aborting() {
        interrupt::catch_signals().unwrap();
        let _held = acquire(&dir, "a");
        std::thread::sleep(Duration::from_secs(600));
    }
    let dir = tempfile::tempdir().unwrap();
    let mut child = again("a_process_that_is_told_to_abort_ends_with_its_locks", dir.path()).spawn().unwrap();
    while files(dir.path()).is_empty() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::ABORT).unwrap();
    assert_aborted(child.wait().unwrap());
    assert_eq!(files(dir.path()), Vec::<String>::new());
}

/// Previously, the second thread ended the process while the first was still removing locks.
#[test]
fn threads_that_abort_at_the_same_time_leave_no_lock() {
    if let Some(dir) = aborting() {
        interrupt::catch_signals().unwrap();
        // Closed, because a process may not have so many files open.
        let close = |mut lock: Lock| {
            lock.close();
            lock
        };
        let _held: Vec<Lock> = (0..2_000).map(|at| close(acquire(&dir, &at.to_string()))).collect();
        let start = Barrier::new(2);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    start.wait();
                    std::process::abort()
                });
            }
        });
    }
    let dir = tempfile::tempdir().unwrap();
    assert_aborted(again("threads_that_abort_at_the_same_time_leave_no_lock", dir.path()).status().unwrap());
    assert_eq!(files(dir.path()), Vec::<String>::new());
}

#[test]
fn where_memory_ends_no_lock_stays() {
    if let Some(dir) = aborting() {
        interrupt::catch_signals().unwrap();
        let _held: Vec<Lock> = (0..100).map(|at| acquire(&dir, &at.to_string())).collect();
        // Reports the failure to allocate more memory than any machine has, which ends the process.
        let layout = std::alloc::Layout::array::<u8>(isize::MAX as usize).unwrap();
        std::alloc::handle_alloc_error(layout);
    }
    let dir = tempfile::tempdir().unwrap();
    assert_aborted(again("where_memory_ends_no_lock_stays", dir.path()).status().unwrap());
    assert_eq!(files(dir.path()), Vec::<String>::new());
}
