//! Several threads ask the global ref database at the same time. Each batch is committed only if its own thread got
//! the database's agreement in time, and is checked as if it were alone.

use crate::{Batch, Outcome, Result, group::Groups};
use refdb::{
    Change, Edit, Precondition, RefName, RejectionClass, Store, Target, Undecided,
    global::{Arbiter, GlobalRef, Mark, Verdict},
};
use refdb_testkit::{RefFormat, Repo};
use refdb_types::{HashKind, ObjectId};
use refdb_vfs::Fs;
use std::{
    sync::{
        Barrier, Mutex,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    thread,
    time::Duration,
};

/// Gives the answers that a test chooses.
struct Says<'a> {
    name: String,
    begin: &'a (dyn Fn() + Sync),
    ask: &'a (dyn Fn() -> Verdict + Sync),
}

impl Arbiter for Says<'_> {
    fn begin(&mut self, _: &[GlobalRef]) -> refdb::Result<Option<Mark>> {
        (self.begin)();
        Ok(Some(Mark { id: self.name.clone(), text: "node m/node/3 start 17 DONE".into() }))
    }

    fn ask(&mut self) -> Verdict {
        (self.ask)()
    }
}

struct Scene {
    repo: Repo,
    id: ObjectId,
    groups: Groups,
}

/// The edit of a thread, and the answers that it gets.
struct Member<'a> {
    edit: Edit,
    begin: &'a (dyn Fn() + Sync),
    ask: &'a (dyn Fn() -> Verdict + Sync),
}

fn nothing() {}

fn wait_until(is_so: impl Fn() -> bool) {
    for _ in 0..6000 {
        if is_so() {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("waited in vain");
}

fn agrees() -> Verdict {
    Verdict::Agreed
}

fn create(name: &str, id: ObjectId) -> Edit {
    Edit::new(RefName::new(name).unwrap(), Change::Set(Target::Direct(id)), Precondition::MustNotExist)
}

impl Scene {
    fn new(answer_max: Duration) -> Self {
        let repo = Repo::bare(RefFormat::Reftable, HashKind::Sha1);
        repo.config("refdb.global", "etcd");
        let id = repo.commit();
        Scene { repo, id, groups: Groups { answer_max, ..Groups::default() } }
    }

    fn store(&self) -> Store {
        Store::builder(self.repo.git_dir()).fs(Fs::real()).sync(false).open().unwrap()
    }

    /// Commits the edit of each member in a thread of its own, in one group as far as possible. The first member leads,
    /// and is the last in the queue. `None` stands for a thread that panicked.
    fn together(&self, members: &[Member<'_>]) -> Vec<Option<Result<Outcome>>> {
        let store = self.store();
        let make = |at: usize| {
            let Member { edit, begin, ask } = &members[at];
            let mut says = Says { name: format!("start-{at}-17"), begin: *begin, ask: *ask };
            self.groups.commit(&store, &Batch::atomic(vec![edit.clone()]), Some(&mut says))
        };
        self.groups.queue().has_leader = true;
        thread::scope(|scope| {
            let make = &make;
            let others: Vec<_> = (1..members.len())
                .map(|at| {
                    let thread = scope.spawn(move || make(at));
                    while self.groups.queue().waiting.len() < at {
                        thread::sleep(Duration::from_millis(1));
                    }
                    thread
                })
                .collect();
            self.groups.queue().has_leader = false;
            let first = scope.spawn(move || make(0));
            std::iter::once(first).chain(others).map(|thread| thread.join().ok()).collect()
        })
    }

    fn has(&self, name: &str) -> bool {
        self.store().find(name).unwrap().is_some()
    }

    fn intents(&self) -> Vec<String> {
        self.store().global_intents().list().unwrap().into_iter().map(|(id, _)| id).collect()
    }
}

fn group_of(outcome: &Option<Result<Outcome>>) -> usize {
    outcome.as_ref().unwrap().as_ref().unwrap().group
}

fn undecided(outcome: &Option<Result<Outcome>>) -> &Undecided {
    match outcome.as_ref().unwrap().as_ref().unwrap_err().store() {
        Some(refdb::Error::Undecided(why)) => why,
        other => panic!("another error: {other:?}"),
    }
}

#[test]
fn the_questions_of_a_group_are_under_way_at_the_same_time() {
    let scene = Scene::new(Duration::from_secs(60));
    // Each question ends only when all have been asked.
    let all = Barrier::new(3);
    let ask = || {
        all.wait();
        Verdict::Agreed
    };
    let names = ["refs/heads/a", "refs/heads/b", "refs/heads/c"];
    let members = names.map(|name| Member { edit: create(name, scene.id), begin: &nothing, ask: &ask });
    let outcomes = scene.together(&members);
    assert!(outcomes.iter().all(|outcome| group_of(outcome) == 3), "{outcomes:?}");
    assert!(names.iter().all(|name| scene.has(name)));
    assert_eq!(scene.intents(), Vec::<String>::new());
    scene.repo.verify();
}

#[test]
fn a_member_that_depends_on_anothers_change_waits_for_the_next_group() {
    let scene = Scene::new(Duration::from_secs(60));
    scene.repo.create_refs([("refs/heads/d", scene.id)]);
    // `refs/heads/d/e` could be created if this deletion of `refs/heads/d` were carried out, but the database refuses
    // the deletion.
    let delete = Edit::new(RefName::new("refs/heads/d").unwrap(), Change::Delete, Precondition::Any);
    let refuses = || Verdict::Refused;
    let outcomes = scene.together(&[
        Member { edit: create("refs/heads/f", scene.id), begin: &nothing, ask: &agrees },
        Member { edit: delete, begin: &nothing, ask: &refuses },
        Member { edit: create("refs/heads/d/e", scene.id), begin: &nothing, ask: &agrees },
    ]);
    assert_eq!(*undecided(&outcomes[1]), Undecided::NotAgreed);
    let error = outcomes[2].as_ref().unwrap().as_ref().unwrap_err();
    assert!(
        matches!(error.store(), Some(refdb::Error::Rejected(why)) if why.class() == RejectionClass::NameConflict),
        "{error}"
    );
    assert_eq!(group_of(&outcomes[0]), 1);
    assert!(scene.has("refs/heads/d") && !scene.has("refs/heads/d/e") && scene.has("refs/heads/f"));
    assert_eq!(scene.intents(), Vec::<String>::new());
    scene.repo.verify();
}

#[test]
fn the_next_of_a_ref_in_the_next_group_meets_no_intent_of_the_last() {
    let scene = Scene::new(Duration::from_secs(60));
    let edit =
        || Edit::new(RefName::new("refs/heads/a").unwrap(), Change::Set(Target::Direct(scene.id)), Precondition::Any);
    let members: Vec<_> = (0..8).map(|_| Member { edit: edit(), begin: &nothing, ask: &agrees }).collect();
    let outcomes = scene.together(&members);
    assert!(outcomes.iter().all(|outcome| group_of(outcome) == 1), "{outcomes:?}");
}

#[test]
fn a_member_whose_thread_panics_is_left_out_and_its_intent_stays() {
    let scene = Scene::new(Duration::from_secs(60));
    let panics = || panic!("a planted fault");
    let outcomes = scene.together(&[
        Member { edit: create("refs/heads/a", scene.id), begin: &nothing, ask: &agrees },
        Member { edit: create("refs/heads/b", scene.id), begin: &nothing, ask: &panics },
    ]);
    assert!(outcomes[1].is_none());
    assert_eq!(group_of(&outcomes[0]), 1);
    assert!(scene.has("refs/heads/a") && !scene.has("refs/heads/b"));
    assert_eq!(scene.intents(), ["start-1-17"]);
    let barred = scene.together(&[Member { edit: create("refs/heads/b/c", scene.id), begin: &nothing, ask: &agrees }]);
    assert!(matches!(undecided(&barred[0]), Undecided::Open { .. }), "{barred:?}");
}

#[test]
fn a_thread_that_says_nothing_for_too_long_is_left_out_and_asks_no_more() {
    let scene = Scene::new(Duration::from_secs(1));
    let told: Mutex<Vec<&str>> = Mutex::default();
    let waits = || wait_until(|| scene.has("refs/heads/a"));
    let late = || {
        waits();
        told.lock().unwrap().push("late");
        Verdict::Agreed
    };
    let never = || {
        told.lock().unwrap().push("never");
        Verdict::Agreed
    };
    let outcomes = scene.together(&[
        Member { edit: create("refs/heads/a", scene.id), begin: &nothing, ask: &agrees },
        Member { edit: create("refs/heads/b", scene.id), begin: &nothing, ask: &late },
        Member { edit: create("refs/heads/c", scene.id), begin: &waits, ask: &never },
    ]);
    assert_eq!(*told.lock().unwrap(), ["late"], "a question that is ready only after the timeout is not asked");
    assert_eq!(group_of(&outcomes[0]), 1);
    assert!(matches!(undecided(&outcomes[1]), Undecided::Unknown(_)), "its word came too late: {outcomes:?}");
    assert_eq!(*undecided(&outcomes[2]), Undecided::NotAgreed);
    assert_eq!(["a", "b", "c"].map(|name| scene.has(&format!("refs/heads/{name}"))), [true, false, false]);
    assert_eq!(scene.intents(), ["start-1-17"]);
}

#[test]
fn when_the_leader_ends_without_a_word_nobody_is_made_and_nobody_asks_any_more() {
    let scene = Scene::new(Duration::from_secs(60));
    let has_asked = AtomicBool::new(false);
    let asked = || {
        assert!(!has_asked.swap(true, SeqCst), "the second comes too late, and is not asked about");
        Verdict::Agreed
    };
    let panics = || {
        wait_until(|| has_asked.load(SeqCst));
        panic!("a planted fault")
    };
    let lock = scene.repo.git_dir().join("reftable/tables.list.lock");
    let comes_late = || wait_until(|| !lock.exists());
    let outcomes = scene.together(&[
        Member { edit: create("refs/heads/a", scene.id), begin: &panics, ask: &agrees },
        Member { edit: create("refs/heads/b", scene.id), begin: &nothing, ask: &asked },
        Member { edit: create("refs/heads/c", scene.id), begin: &comes_late, ask: &asked },
    ]);
    assert!(outcomes[0].is_none());
    // The answer may also come after the leader's end.
    let is_unknown = |why: &Undecided| matches!(why, Undecided::Unknown(_));
    assert!(
        matches!(&outcomes[1], Some(Err(crate::Error::Abandoned(_)))) || is_unknown(undecided(&outcomes[1])),
        "{outcomes:?}"
    );
    assert_eq!(*undecided(&outcomes[2]), Undecided::NotAgreed);
    assert!(["a", "b", "c"].iter().all(|name| !scene.has(&format!("refs/heads/{name}"))));
    assert_eq!(scene.intents(), ["start-1-17"], "the intent stays until it is settled");
}
