//! Threads and processes of refdb, and processes of git, write to one stack at the same time while others read it.
//! Nothing is lost, and no reader ever sees half of a transaction.

#![allow(clippy::unwrap_used, reason = "a test that fails shall panic")]

mod stack_support;

use refdb_testkit::{ForeignLock, RefFormat, Repo};
use refdb_types::{HashKind, ObjectId};
use refdb_vfs::Fs;
use reftable::{
    RefRecord, RefValue,
    stack::{Compacted, Scope, Snapshot, Stack, StackError},
};
use stack_support::{LOCK_TIMEOUT, files, files_of, oid, open, options, refs, write};
use std::{
    collections::BTreeSet,
    env,
    io::Write,
    path::{Path, PathBuf},
    process::{Child, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

/// Number of transactions of each writer.
const COUNT: usize = 400;

/// The refs that all of refdb's writers change together: the digits of a number, which each of their transactions
/// increments.
const DIGITS: [&str; 3] = ["refs/heads/digit/0", "refs/heads/digit/1", "refs/heads/digit/2"];
const BASE: usize = 16;

fn counter(snapshot: &Snapshot, digits: &[ObjectId]) -> usize {
    let mut cursor = snapshot.merged().refs();
    DIGITS.iter().fold(0, |number, name| {
        let record = cursor.lookup(name.as_bytes()).unwrap().expect("the digits are always there");
        let RefValue::Direct(id) = record.value else { panic!("{record:?}") };
        number * BASE + digits.iter().position(|digit| *digit == id).expect("one of the digits")
    })
}

/// Returns the refs of writer `who` after `count` transactions. Each creates one ref, and every tenth deletes the one
/// before.
fn own_refs(who: &str, count: usize) -> BTreeSet<String> {
    let name = |number: usize| format!("refs/heads/{who}/{number:05}");
    let mut names: BTreeSet<_> = (0..count).map(name).collect();
    let deleted: BTreeSet<_> = (0..count).filter(|number| number % 10 == 9).map(|number| name(number - 1)).collect();
    names.retain(|name| !deleted.contains(name));
    names
}

fn transact(stack: &Stack, who: &str, number: usize, digits: &[ObjectId]) {
    let mut addition = stack.lock(LOCK_TIMEOUT).unwrap();
    let mut next = counter(addition.snapshot(), digits) + 1;
    let mut edits = Vec::new();
    for name in DIGITS.iter().rev() {
        edits.push(((*name).to_owned(), RefValue::Direct(digits[next % BASE])));
        next /= BASE;
    }
    edits.push((format!("refs/heads/{who}/{number:05}"), RefValue::Direct(digits[0])));
    if number % 10 == 9 {
        edits.push((format!("refs/heads/{who}/{:05}", number - 1), RefValue::Deletion));
    }
    edits.sort_by(|a, b| a.0.cmp(&b.0));
    let update_index = addition.next_update_index();
    let written = addition.add_table(update_index..=update_index, 0, |writer| {
        for (name, value) in &edits {
            writer.add_ref(&RefRecord { name: name.as_str().into(), update_index, value: *value })?;
        }
        Ok::<_, StackError>(())
    });
    written.unwrap();
    if let Some(compaction) = addition.commit().unwrap().compaction {
        compaction.run(LOCK_TIMEOUT).unwrap();
    }
}

const CHILD: &str = "REFTABLE_TEST_WRITER";
const DIR: &str = "REFTABLE_TEST_DIR";
const IDS: &str = "REFTABLE_TEST_IDS";

/// Writes to the stack, as a process that the test below starts.
#[test]
#[ignore = "it is run as a process of its own by another test"]
fn writer_process() {
    let var = |name: &str| env::var(name).expect("the test that starts this sets it");
    let digits: Vec<_> =
        var(IDS).split(' ').map(|hex| ObjectId::from_hex(HashKind::Sha1, hex.as_bytes()).unwrap()).collect();
    let stack = open(&PathBuf::from(var(DIR)));
    (0..COUNT).for_each(|number| transact(&stack, &var(CHILD), number, &digits));
}

fn start_writer_process(dir: &Path, who: &str, digits: &[ObjectId]) -> Child {
    let ids: Vec<_> = digits.iter().map(ObjectId::to_string).collect();
    refdb_testkit::this_program()
        .args(["--ignored", "--exact", "writer_process"])
        .env(CHILD, who)
        .env(DIR, dir)
        .env(IDS, ids.join(" "))
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// Starts a long-lived `git update-ref --stdin` that makes the same number of transactions.
fn start_git_writer(repo: &Repo, who: &str, id: ObjectId) -> Child {
    let mut command = repo.command(refdb_testkit::Git::find().program());
    let mut child =
        command.args(["update-ref", "--stdin"]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let who = who.to_owned();
    thread::spawn(move || {
        for number in 0..COUNT {
            write!(stdin, "start\ncreate refs/heads/{who}/{number:05} {id}\n").unwrap();
            if number % 10 == 9 {
                writeln!(stdin, "delete refs/heads/{who}/{:05}", number - 1).unwrap();
            }
            writeln!(stdin, "commit").unwrap();
        }
    });
    child
}

/// Reads until the writers are done, and returns how often. The number must never go back, and its digits must always
/// fit together.
fn watch(dir: &Path, digits: &[ObjectId], done: &AtomicBool) -> usize {
    let stack = open(dir);
    let (mut last, mut looks) = (0, 0);
    while !done.load(Ordering::Acquire) {
        let now = counter(&stack.refresh().unwrap(), digits);
        assert!(now >= last, "the number went from {last} back to {now}");
        (last, looks) = (now, looks + 1);
    }
    looks
}

fn watch_with_git(repo: &Repo, digits: &[ObjectId], done: &AtomicBool) {
    let mut last = 0;
    while !done.load(Ordering::Acquire) {
        let listed = repo.git(["for-each-ref", "--format=%(objectname)", "refs/heads/digit"]);
        let now = listed.lines().fold(0, |number, hex| {
            let digit = digits.iter().position(|digit| digit.to_string() == hex).expect("one of the digits");
            number * BASE + digit
        });
        assert!(listed.lines().count() == DIGITS.len() && now >= last, "{listed}");
        last = now;
    }
}

#[test]
fn threads_and_processes_of_refdb_and_of_git_lose_nothing() {
    let repo = Repo::bare(RefFormat::Reftable, HashKind::Sha1);
    repo.config("reftable.lockTimeout", "-1");
    let digits = repo.commits(BASE);
    repo.create_refs(DIGITS.map(|name| (name, digits[0])));
    let dir = repo.git_dir().join("reftable");
    let done = AtomicBool::new(false);
    let (threads, processes, gits) = (["t0", "t1", "t2"], ["p0", "p1"], ["g0", "g1"]);
    let shared = open(&dir);
    thread::scope(|scope| {
        let readers: Vec<_> = (0..2).map(|_| scope.spawn(|| watch(&dir, &digits, &done))).collect();
        let git_reader = scope.spawn(|| watch_with_git(&repo, &digits, &done));
        let mut children: Vec<_> = processes.iter().map(|who| start_writer_process(&dir, who, &digits)).collect();
        children.extend(gits.iter().map(|who| start_git_writer(&repo, who, digits[0])));
        let writers = threads.map(|who| {
            let (shared, digits) = (&shared, &digits);
            scope.spawn(move || (0..COUNT).for_each(|number| transact(shared, who, number, digits)))
        });
        let finished = writers.map(|writer| writer.join());
        let statuses: Vec<_> = children.iter_mut().map(|child| child.wait().unwrap()).collect();
        // The readers are told to end whatever has failed, because otherwise the test would never end.
        done.store(true, Ordering::Release);
        assert!(finished.iter().all(Result::is_ok) && statuses.iter().all(|status| status.success()), "{statuses:?}");
        for reader in readers {
            assert!(reader.join().unwrap() > 10);
        }
        git_reader.join().unwrap();
    });

    let snapshot = shared.refresh().unwrap();
    assert_eq!(counter(&snapshot, &digits), COUNT * (threads.len() + processes.len()), "every increment counts");
    let mut expected: BTreeSet<_> = DIGITS.iter().map(|name| (*name).to_owned()).collect();
    for who in threads.iter().chain(&processes).chain(&gits) {
        expected.extend(own_refs(who, COUNT));
    }
    let ours: BTreeSet<_> = {
        let mut names = BTreeSet::new();
        let mut cursor = snapshot.merged().refs();
        cursor.seek(b"refs/").unwrap();
        while let Some(record) = cursor.next().unwrap() {
            names.insert(record.name.to_string());
        }
        names
    };
    assert!(ours == expected, "{:?}", ours.symmetric_difference(&expected).collect::<Vec<_>>());
    let listed: BTreeSet<_> = repo.git(["for-each-ref", "--format=%(refname)"]).lines().map(String::from).collect();
    assert!(listed == expected, "git lists what refdb lists");
    assert!(snapshot.tables().len() <= 16, "{} tables after thousands of transactions", snapshot.tables().len());
    assert_eq!(files(&dir), files_of(&snapshot), "nothing is left behind");
    repo.verify();
}

#[test]
fn additions_go_on_while_others_compact_everything_again_and_again() {
    let dir = tempfile::tempdir().unwrap();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let stack = open(dir.path());
                while !done.load(Ordering::Acquire) {
                    stack.compact(Scope::All(None), LOCK_TIMEOUT).unwrap();
                }
            });
        }
        let writers = ["a", "b"].map(|who| {
            let dir = dir.path();
            scope.spawn(move || {
                let stack = open(dir);
                for number in 0..300 {
                    let name = format!("refs/heads/{who}/{number:05}");
                    stack_support::write(&stack, &[(name.as_str(), Some(stack_support::oid(number)))]);
                }
            })
        });
        let finished = writers.map(|writer| writer.join());
        done.store(true, Ordering::Release);
        assert!(finished.iter().all(Result::is_ok));
    });
    let stack = open(dir.path());
    assert_eq!(refs(&stack.snapshot()).len(), 600);
    assert_eq!(files(dir.path()), files_of(&stack.snapshot()));
}

#[test]
fn older_tables_are_merged_while_younger_ones_are_being_compacted() {
    let dir = tempfile::tempdir().unwrap();
    let growing = Stack::open(Fs::real(), dir.path(), options(HashKind::Sha1).auto_compact(false)).unwrap();
    for number in 0..10 {
        write(&growing, &[(&format!("refs/heads/{number}"), Some(oid(number)))]);
    }
    let stack = open(dir.path());
    let name_of = |at: usize| stack.snapshot().tables()[at].name.to_string();
    let busy = name_of(7);
    let foreign = ForeignLock::of(&dir.path().join(&busy));
    let done = stack.compact(Scope::Geometric, LOCK_TIMEOUT).unwrap();
    assert_eq!(done, Compacted::Done(7), "rather than the two tables behind the locked one");
    assert_eq!((stack.snapshot().tables().len(), name_of(1)), (4, busy));
    drop(foreign);
    assert_eq!(refs(&stack.snapshot()).len(), 10);
}
