//! Whole transactions on refs in memory.

use super::{Context, Hook, HookSource, HookState, LogPolicy, Mode, NoHook, Transaction, TransactionOptions};
use crate::{
    Backend, Change, Edit, Error, HookFailure, Limit, Locked, Misuse, Precondition, RefName, Result, Snapshot, Target,
    backend::{Claims, Steps},
    memory::{AnyObject, MemoryBackend, committer},
};
use bstr::BStr;
use refdb_types::{HashKind, ObjectId};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

fn id(byte: u8) -> ObjectId {
    ObjectId::from_bytes(HashKind::Sha1, &[byte; 20]).unwrap()
}

fn edit(name: &str, target: impl Into<Target>) -> Edit {
    Edit::new(RefName::new(name).unwrap(), Change::Set(target.into()), Precondition::Any)
}

fn transaction(backend: &dyn Backend, mode: Mode) -> Transaction<'_> {
    hooked(backend, &NoHook, mode)
}

fn hooked<'s>(backend: &'s dyn Backend, hooks: &'s dyn HookSource, mode: Mode) -> Transaction<'s> {
    let context = Context {
        backend,
        objects: &AnyObject,
        hooks,
        committer: &committer,
        log_policy: LogPolicy::Never,
        hash: HashKind::Sha1,
        forbidden: None,
    };
    Transaction::new(context, TransactionOptions { mode, ..TransactionOptions::default() })
}

fn commit(backend: &dyn Backend, edits: impl IntoIterator<Item = Edit>) -> Result<()> {
    let mut transaction = transaction(backend, Mode::Atomic);
    edits.into_iter().try_for_each(|edit| transaction.add(edit))?;
    transaction.commit().map(drop)
}

fn get(backend: &dyn Backend, name: &str) -> Option<Target> {
    backend.snapshot().unwrap().get(name.into()).unwrap()
}

/// Refs in memory whose HEAD another writer moves right before each of the next `times` locks is taken.
struct Restless {
    refs: MemoryBackend,
    times: AtomicUsize,
}

impl Restless {
    fn new(times: usize) -> Self {
        Restless { refs: MemoryBackend::new(HashKind::Sha1), times: AtomicUsize::new(times) }
    }
}

impl Backend for Restless {
    fn snapshot(&self) -> Result<Box<dyn Snapshot>> {
        self.refs.snapshot()
    }

    fn lock(&self, claims: &dyn Claims) -> Result<Box<dyn Locked + '_>> {
        if self.times.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok() {
            let branch = RefName::new(format!("refs/heads/{}", self.times.load(Relaxed))).unwrap();
            commit(&self.refs, [Edit { deref: false, ..edit("HEAD", branch) }])?;
        }
        self.refs.lock(claims)
    }

    fn canonical_name<'n>(&self, name: &'n BStr) -> &'n BStr {
        self.refs.canonical_name(name)
    }

    fn keeps_symref_logs(&self) -> bool {
        self.refs.keeps_symref_logs()
    }

    fn check(&self, steps: &dyn Steps) -> Result<()> {
        self.refs.check(steps)
    }
}

#[test]
fn a_symbolic_ref_that_moves_before_it_is_locked_is_followed_to_its_new_place() {
    let restless = Restless::new(3);
    commit(&restless, [edit("HEAD", id(1))]).unwrap();
    assert_eq!(get(&restless.refs, "refs/heads/0"), Some(Target::Direct(id(1))));
    for never_written in ["refs/heads/main", "refs/heads/1", "refs/heads/2"] {
        assert_eq!(get(&restless.refs, never_written), None);
    }
}

#[test]
fn a_transaction_gives_up_where_a_symbolic_ref_never_rests() {
    let restless = Restless::new(usize::MAX);
    let given_up = commit(&restless, [edit("HEAD", id(1))]);
    assert!(matches!(given_up, Err(Error::Limit(Limit::Attempts))), "{given_up:?}");
    assert_eq!(restless.refs.snapshot().unwrap().cursor(false).unwrap().next().unwrap(), None);
}

#[test]
fn edits_that_are_rejected_one_by_one_are_counted_in_the_order_in_which_they_were_added() {
    let refs = MemoryBackend::new(HashKind::Sha1);
    commit(&refs, [edit("refs/heads/a", id(1))]).unwrap();
    let mut transaction = transaction(&refs, Mode::PerEdit);
    let create = |name: &str| Edit { expected: Precondition::MustNotExist, ..edit(name, id(2)) };
    for name in ["refs/heads/z", "refs/heads/a/b", "refs/heads/c", "refs/heads/a"] {
        transaction.add(create(name)).unwrap();
    }
    let prepared = transaction.prepare().unwrap();
    assert_eq!(prepared.rejected().iter().map(|(at, _)| *at).collect::<Vec<_>>(), [1, 3]);
    assert_eq!(prepared.steps().count(), 2);
    prepared.commit().unwrap();
    assert!(get(&refs, "refs/heads/z").is_some() && get(&refs, "refs/heads/c").is_some());
}

/// A hook that refuses in this state.
#[derive(Clone, Copy)]
struct Refusing(HookState);

impl HookSource for Refusing {
    fn find(&self) -> Result<Option<Box<dyn Hook>>> {
        Ok(Some(Box::new(*self)))
    }
}

impl Hook for Refusing {
    fn run(&mut self, state: HookState, _: &[u8]) -> Result<bool> {
        Ok(state != self.0)
    }
}

#[test]
fn a_hook_that_refuses_is_an_error_with_the_state_as_a_value() {
    let refs = MemoryBackend::new(HashKind::Sha1);
    for state in [HookState::Preparing, HookState::Prepared] {
        let refusing = Refusing(state);
        let mut transaction = hooked(&refs, &refusing, Mode::Atomic);
        transaction.add(edit("refs/heads/a", id(1))).unwrap();
        let refused = transaction.commit();
        let Err(Error::Hook(HookFailure::Refused(in_state))) = refused else { panic!("{refused:?}") };
        assert_eq!(in_state, state);
        assert_eq!(get(&refs, "refs/heads/a"), None);
    }
}

#[test]
fn nothing_is_locked_before_a_transaction_is_prepared() {
    let refs = MemoryBackend::new(HashKind::Sha1);
    let mut open = transaction(&refs, Mode::Atomic);
    open.add(edit("refs/heads/a", id(1))).unwrap();
    commit(&refs, [edit("refs/heads/b", id(1))]).unwrap();
    let prepared = open.prepare().unwrap();
    let second = commit(&refs, [edit("refs/heads/c", id(1))]);
    assert!(matches!(second, Err(Error::Misuse(Misuse::OwnLock { .. }))), "{second:?}");
    prepared.abort().unwrap();
    assert_eq!(get(&refs, "refs/heads/a"), None);
    commit(&refs, [edit("refs/heads/c", id(1))]).unwrap();
}
