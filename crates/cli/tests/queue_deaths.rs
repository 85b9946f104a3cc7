//! A process dies at each system call of queue, lock, commit and release, while others wait before and behind it: they
//! get their turns, and what remains is what docs/crash-model.md allows.
#![allow(clippy::unwrap_used, reason = "tests")]

use refdb_testkit::{ForeignLock, RefFormat, Repo, await_queue, every, queued_writers};
use refdb_types::HashKind;
use std::{
    fs,
    io::{BufRead, BufReader, Write},
    os::unix::{fs::MetadataExt, process::ExitStatusExt},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

const REFDB: &str = env!("CARGO_BIN_EXE_refdb");

/// The calls at which the process dies: those on sockets, on names and on the content of files. Others change nothing
/// that lasts or that another process sees.
const CALLS: [&str; 20] = [
    "socket",
    "connect",
    "bind",
    "listen",
    "accept4",
    "getsockopt",
    "sendmsg",
    "recvmsg",
    "recvfrom",
    "ppoll",
    "openat",
    "write",
    "pwrite64",
    "fsync",
    "fdatasync",
    "rename",
    "unlink",
    "link",
    "flock",
    "close",
];

/// Maximum number of calls of one kind at which the process dies. A process that waits repeats some calls without end.
const NUMBER_MAX: usize = 60;

/// The settings of all processes, which wait in one queue. One that waited for a dead process would fail after 40 s.
const SETTINGS: [&str; 6] =
    ["-c", "core.fsync=reference", "-c", "core.packedRefsTimeout=40000", "-c", "reftable.lockTimeout=40000"];

/// Maximum time in which the others end, even on a busy machine. It is much shorter than their lock timeout.
const AT_ONCE: Duration = Duration::from_secs(20);

/// The place, among the three processes that wait, of the one that dies.
#[derive(Clone, Copy)]
enum Place {
    First,
    Second,
}

#[test]
fn of_those_that_queue_for_packed_refs_any_can_die_at_any_step() {
    die_at_each_call(RefFormat::Files);
}

#[test]
fn of_those_that_queue_for_a_list_of_tables_any_can_die_at_any_step() {
    die_at_each_call(RefFormat::Reftable);
}

fn die_at_each_call(format: RefFormat) {
    let (mut at, mut deaths) = (0, 0);
    for place in [Place::First, Place::Second] {
        for call in CALLS {
            for number in 1..=NUMBER_MAX {
                at += 1;
                if at % every(5) != 0 {
                    continue;
                }
                if !dies_at(format, place, call, number) {
                    break;
                }
                deaths += 1;
            }
        }
    }
    assert!(deaths >= 5, "{deaths} deaths");
}

/// Lets one of three processes die at the call of this kind and number. Returns `false` if that process ends with fewer
/// such calls.
fn dies_at(format: RefFormat, place: Place, call: &str, number: usize) -> bool {
    let (repo, lock) = repository(format);
    let folder = lock.parent().unwrap();
    let holder = Holder::new(&repo, &lock);
    let names = match place {
        Place::First => ["dies", "b", "c"],
        Place::Second => ["a", "dies", "c"],
    };
    let mut writers: Vec<(&str, Child)> = Vec::new();
    for name in names {
        writers
            .push((name, if name == "dies" { dying(&repo, call, number) } else { deleting(&repo, REFDB, &[], name) }));
        let begun = Instant::now();
        // The holder is in the queue, too, and each writer stays in it until it ends.
        while queued_writers(folder) <= running(&mut writers) {
            assert!(begun.elapsed() < Duration::from_mins(1), "{name} does not queue: {call} {number}");
            thread::sleep(Duration::from_millis(1));
        }
    }
    holder.commit();
    let begun = Instant::now();
    let at = names.iter().position(|name| *name == "dies").unwrap();
    let died = writers[at].1.wait().unwrap();
    remove_stale(&lock);
    for (name, writer) in &mut writers {
        let told = writer.wait().unwrap();
        let is_there = repo.try_git(["show-ref", "--verify", "-q", &format!("refs/heads/{name}")], "").status.success();
        assert!(!(told.success() && is_there), "{name} was told that its ref is deleted: {call} {number}");
        assert!(told.success() || *name == "dies", "{name} has failed: {call} {number}");
    }
    assert!(begun.elapsed() < AT_ONCE, "the others wait for one that is dead: {call} {number}");
    if died.success() {
        return false;
    }
    assert_eq!(died.signal(), Some(9), "{call} {number}");
    // The lock of the ref itself, which nobody else wants.
    let _ = fs::remove_file(repo.git_dir().join("refs/heads/dies.lock"));
    repo.verify();
    // Whatever happened, the repository can be written to.
    repo.git(["update-ref", "-d", "refs/heads/later"]);
    true
}

/// Returns the number of these processes that have not ended.
fn running(writers: &mut [(&str, Child)]) -> usize {
    writers.iter_mut().filter_map(|(_, writer)| writer.try_wait().unwrap().is_none().then_some(())).count()
}

/// A process that holds the lock and is the head of its queue.
struct Holder {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Holder {
    fn new(repo: &Repo, lock: &Path) -> Self {
        // A process that finds the lock free joins no queue.
        let foreign = ForeignLock::of(&lock.with_extension(""));
        let mut command: Command = repo.command(REFDB);
        command.args(SETTINGS).args(["update-ref", "--stdin"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(b"start\ndelete refs/heads/held\nprepare\n").unwrap();
        await_queue(lock.parent().unwrap(), 1);
        drop(foreign);
        let mut told = String::new();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        while told.lines().count() < 2 {
            assert!(stdout.read_line(&mut told).unwrap() > 0, "it is prepared: {told}");
        }
        Holder { child, stdin, stdout }
    }

    fn commit(mut self) {
        self.stdin.write_all(b"commit\n").unwrap();
        assert!(self.stdout.read_line(&mut String::new()).unwrap() > 0, "it has committed");
        drop(self.stdin);
        assert!(self.child.wait().unwrap().success());
    }
}

/// A repository with packed refs, and the path of the lock that a process needs to delete one of them.
fn repository(format: RefFormat) -> (Repo, PathBuf) {
    let repo = Repo::bare(format, HashKind::Sha1);
    let id = repo.commit();
    repo.create_refs(["held", "dies", "a", "b", "c", "later"].map(|name| (format!("refs/heads/{name}"), id)));
    repo.git(["pack-refs", "--all"]);
    let lock = if format == RefFormat::Files { "packed-refs.lock" } else { "reftable/tables.list.lock" };
    let lock = repo.git_dir().join(lock);
    (repo, lock)
}

/// Starts a process that deletes a branch.
fn deleting(repo: &Repo, program: &str, args: &[&str], name: &str) -> Child {
    let mut command: Command = repo.command(program);
    command.args(args).args(SETTINGS);
    command.args(["update-ref", "-d", &format!("refs/heads/{name}")]).stdin(Stdio::null()).spawn().unwrap()
}

/// Starts a process that deletes the branch `dies`, and that is killed at the call of this kind and number.
fn dying(repo: &Repo, call: &str, number: usize) -> Child {
    let (trace, inject) = (format!("trace={call}"), format!("inject={call}:signal=KILL:when={number}"));
    deleting(repo, "strace", &["-qq", "-o", "/dev/null", "-e", &trace, "-e", &inject, REFDB], "dies")
}

/// Removes, as an administrator does, the lock that a dead process has left, but not that of one that lives.
fn remove_stale(lock: &Path) {
    let identity = || fs::metadata(lock).ok().map(|found| (found.ino(), found.ctime(), found.ctime_nsec()));
    let Some(left) = identity() else { return };
    let begun = Instant::now();
    while identity() == Some(left) && begun.elapsed() < AT_ONCE {
        if begun.elapsed() > Duration::from_millis(300) && !is_open_somewhere(lock) && identity() == Some(left) {
            return fs::remove_file(lock).unwrap();
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// Returns whether a process has this file open, or the file is gone.
fn is_open_somewhere(path: &Path) -> bool {
    let Ok(file) = fs::metadata(path) else { return true };
    let list = |path: PathBuf| fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut open = list("/proc".into()).flat_map(|process| list(process.join("fd")));
    open.any(|open| fs::metadata(open).is_ok_and(|open| (open.dev(), open.ino()) == (file.dev(), file.ino())))
}
