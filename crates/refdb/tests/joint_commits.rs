//! Transactions of several stores, which stand for processes, that one of them writes together with its own.
#![allow(clippy::unwrap_used, reason = "tests")]

use refdb::{
    Change, Edit, Environment, Error, Mode, Precondition, RefName, Store, Target, transaction::TransactionOptions,
};
use refdb_testkit::{ForeignLock, RefFormat, Repo, await_queue};
use refdb_types::{HashKind, ObjectId};
use refdb_vfs::{Fs, IoHook, Op, Verdict};
use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

/// Refuses the first syncs of a new list, and counts the lists that replace another one.
#[derive(Default)]
struct Disk {
    refused: AtomicUsize,
    lists: AtomicUsize,
}

impl IoHook for Disk {
    fn before(&self, op: Op<'_>) -> Verdict {
        match op {
            Op::Sync(path) if path.ends_with("tables.list.lock") => {
                let left = self.refused.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
                if left.is_ok() {
                    return Verdict::Fail(io::ErrorKind::StorageFull.into());
                }
            }
            Op::Rename(_, to) if to.ends_with("tables.list") => drop(self.lists.fetch_add(1, Ordering::Relaxed)),
            _ => {}
        }
        Verdict::Proceed
    }
}

fn open(repo: &Repo, disk: &Arc<Disk>) -> Store {
    let environment = Environment::empty(repo.git_dir()).with("GIT_DIR", repo.git_dir());
    Store::builder_in(environment).fs(Fs::with_hook(disk.clone())).sync(true).open().unwrap()
}

fn edit(name: &str, id: ObjectId) -> Edit {
    Edit::new(RefName::new(name).unwrap(), Change::Set(Target::Direct(id)), Precondition::MustNotExist)
}

fn repository() -> (Repo, ObjectId) {
    let repo = Repo::bare(RefFormat::Reftable, HashKind::Sha1);
    repo.config("core.logAllRefUpdates", "always");
    let id = repo.commit();
    (repo, id)
}

#[test]
fn each_transaction_of_a_group_has_its_own_verdict_and_reflog() {
    // A leader leaves out a member that is slow on a busy machine, and takes none if it is slow itself, so that there
    // may be more lists.
    let most_are_in_one_list = (0..20).any(|_| lists_of_five() < 3);
    assert!(most_are_in_one_list);
}

/// Makes five transactions while the stack is locked, and checks what came of them. Returns how often the list was
/// replaced.
fn lists_of_five() -> usize {
    let (repo, id) = repository();
    let disk = Arc::<Disk>::default();
    let names = ["refs/heads/a", "refs/heads/b", "refs/heads/a/b", "refs/heads/a", "refs/heads/c"];
    let stack = repo.git_dir().join("reftable");
    let foreign = ForeignLock::of(&stack.join("tables.list"));
    let made: Vec<Result<_, Error>> = thread::scope(|scope| {
        let mut count = 0;
        let writers = names.map(|name| {
            let store = open(&repo, &disk);
            let writer = scope.spawn(move || {
                let mut transaction = store.transaction();
                transaction.message(name).create(name, id);
                transaction.commit()
            });
            count += 1;
            await_queue(&stack, count);
            writer
        });
        drop(foreign);
        writers.map(|writer| writer.join().unwrap()).into_iter().collect()
    });
    let made: Vec<bool> = made.iter().map(Result::is_ok).collect();
    assert_eq!(made, [true, true, false, false, true], "a name that is below another, or taken, is refused");
    for name in ["refs/heads/a", "refs/heads/b", "refs/heads/c"] {
        let log = repo.reflog(name);
        assert!(log.len() == 1 && log[0].ends_with(name.as_bytes()), "{log:?}");
    }
    repo.verify();
    disk.lists.load(Ordering::Relaxed)
}

#[test]
fn a_transaction_whose_group_is_given_up_begins_anew_by_itself() {
    let (repo, id) = repository();
    let (broken, disk) = (Arc::<Disk>::default(), Arc::<Disk>::default());
    broken.refused.store(1, Ordering::Relaxed);
    let missing = ObjectId::from_hex(HashKind::Sha1, b"1111111111111111111111111111111111111111").unwrap();
    let stack = repo.git_dir().join("reftable");
    let foreign = ForeignLock::of(&stack.join("tables.list"));
    let (leader, member) = thread::scope(|scope| {
        let store = open(&repo, &broken);
        let leader = scope.spawn(move || {
            let mut transaction = store.transaction();
            transaction.create("refs/heads/leader", id);
            transaction.commit()
        });
        await_queue(&stack, 1);
        let store = open(&repo, &disk);
        let member = scope.spawn(move || {
            let mut transaction = store.transaction();
            transaction.options(TransactionOptions::new().mode(Mode::PerEdit));
            // The first edit is refused when it is added, and one of the others in the check of either attempt.
            for (name, id) in [("refs/heads/x", missing), ("refs/heads/y", id), ("refs/heads/y/z", id)] {
                transaction.add(edit(name, id)).unwrap();
            }
            transaction.commit()
        });
        await_queue(&stack, 2);
        drop(foreign);
        (leader.join().unwrap(), member.join().unwrap())
    });
    assert!(leader.is_err(), "the leader's disk is full");
    let rejected: Vec<usize> = member.unwrap().rejected.iter().map(|(position, _)| *position).collect();
    assert_eq!(rejected.len(), 2, "{rejected:?}");
    let refs: Vec<String> = repo.refs().iter().map(|listed| listed.name.to_string()).collect();
    assert!(refs.contains(&"refs/heads/y".to_owned()) || refs.contains(&"refs/heads/y/z".to_owned()), "{refs:?}");
    assert!(!refs.contains(&"refs/heads/leader".to_owned()), "{refs:?}");
    repo.verify();
}
