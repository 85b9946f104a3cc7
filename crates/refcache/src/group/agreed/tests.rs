//! A group whose batches the global ref database decides, stopped at every operation. At the end the disk agrees with
//! the database, member by member.

use crate::{Batch, Outcome, Result, batch::beyond_global, group::Groups};
use refdb::{
    Change, Edit, Precondition, RefName, Store, Target, TransactionOptions,
    global::{Arbiter, GlobalRef, Mark, Verdict},
    transaction::Transaction,
};
use refdb_testkit::{
    RefFormat, Repo,
    crash::{Crash, Disk, kill_everywhere, lose_power_everywhere, refuse_everywhere},
};
use refdb_types::{HashKind, ObjectId};
use refdb_vfs::Fs;
use std::{
    path::Path,
    sync::{Condvar, Mutex},
    thread,
    time::Duration,
};

/// The refs that each member changes. The first member leads, the second deletes its ref, and the third creates two.
const REFS: [&[&str]; 3] = [&["refs/heads/moved"], &["refs/heads/gone"], &["refs/heads/made", "refs/tags/made"]];

/// What happens to a member's question to the database.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    Agreed,
    Refused,
    /// The database agrees, but its answer is lost.
    Lost,
    /// The question itself is lost.
    NeverAsked,
}

/// The member whose turn it is, so that each run performs the same operations in the same order.
#[derive(Default)]
struct Turns {
    next: Mutex<usize>,
    changed: Condvar,
}

impl Turns {
    /// Returns the turn of a member, counted from 0. The leader comes last, so that nobody waits for the end of its
    /// work.
    fn of(member: usize) -> usize {
        (member + REFS.len() - 1) % REFS.len()
    }

    fn wait_for(&self, member: usize) {
        let is_early = |next: &mut usize| *next < Turns::of(member);
        let next = self.next.lock().unwrap();
        let (_next, waited) = self.changed.wait_timeout_while(next, Duration::from_secs(60), is_early).unwrap();
        assert!(!waited.timed_out(), "the turn of member {member} never comes");
    }

    fn end(&self, member: usize) {
        let mut next = self.next.lock().unwrap();
        *next = (*next).max(Turns::of(member) + 1);
        self.changed.notify_all();
    }
}

/// A global ref database with a file for each member on the disk of the repository, so that a crash leaves the database
/// and the repository as they were at one moment.
struct FileArbiter<'a> {
    fs: &'a Fs,
    dir: &'a Path,
    turns: &'a Turns,
    member: usize,
    fate: Fate,
}

impl FileArbiter<'_> {
    fn agree(&self) -> refdb_vfs::Result<()> {
        let new = self.dir.join(format!("agreed-{}.new", self.member));
        let mut file = self.fs.create_afresh(&new, 0o666)?;
        file.write_all(b"yes")?;
        file.sync()?;
        self.fs.rename(&new, &self.dir.join(format!("agreed-{}", self.member)))?;
        self.fs.sync_dir(self.dir)
    }
}

impl Arbiter for FileArbiter<'_> {
    fn begin(&mut self, refs: &[GlobalRef]) -> refdb::Result<Option<Mark>> {
        assert_eq!(refs.len(), REFS[self.member].len());
        self.turns.wait_for(self.member);
        Ok(Some(Mark { id: format!("start-{}-17", self.member), text: "node m/node/3 start 17 DONE".into() }))
    }

    fn ask(&mut self) -> Verdict {
        let there = store(&Fs::real(), self.dir).global_intents().list().unwrap();
        let id = format!("start-{}-17", self.member);
        assert!(there.iter().any(|(known, _)| *known == id), "the intent is there when it is asked");
        match self.fate {
            Fate::Refused => Verdict::Refused,
            Fate::NeverAsked => Verdict::Unknown,
            _ if self.agree().is_err() => Verdict::Unknown,
            Fate::Lost => Verdict::Unknown,
            Fate::Agreed => {
                self.turns.end(self.member);
                Verdict::Agreed
            }
        }
    }
}

fn store(fs: &Fs, dir: &Path) -> Store {
    Store::builder(dir).fs(fs.clone()).sync(true).open().unwrap()
}

struct Scene {
    repo: Repo,
    ids: Vec<ObjectId>,
    fates: [Fate; 3],
    /// Whether each member was told that its batch is committed.
    told: Mutex<[bool; 3]>,
}

impl Scene {
    fn new(fates: [Fate; 3]) -> Self {
        let repo = Repo::bare(RefFormat::Reftable, HashKind::Sha1);
        repo.config("refdb.global", "etcd");
        let ids = repo.commits(2);
        repo.create_refs([(REFS[0][0], ids[0]), (REFS[1][0], ids[0])]);
        repo.git(["pack-refs", "--all"]);
        Scene { repo, ids, fates, told: Mutex::default() }
    }

    fn before(&self, member: usize) -> Option<ObjectId> {
        (member < 2).then(|| self.ids[0])
    }

    fn after(&self, member: usize) -> Option<ObjectId> {
        (member != 1).then(|| self.ids[1])
    }

    fn batch(&self, member: usize) -> Batch {
        let expected = match self.before(member) {
            Some(id) => Precondition::MustMatch(Target::Direct(id)),
            None => Precondition::MustNotExist,
        };
        let change = self.after(member).map_or(Change::Delete, |id| Change::Set(Target::Direct(id)));
        let edit = |name: &&str| Edit::new(RefName::new(*name).unwrap(), change.clone(), expected.clone());
        Batch::atomic(REFS[member].iter().map(edit).collect())
    }

    /// Commits the batches of all members in one group, which the first member leads.
    fn work(&self, fs: &Fs, dir: &Path) -> Result<()> {
        *self.told.lock().unwrap() = [false; 3];
        let store = Store::builder(dir).fs(fs.clone()).sync(true).open()?;
        let (groups, turns) = (Groups::default(), Turns::default());
        let make = |member: usize| {
            let fate = self.fates[member];
            let mut arbiter = FileArbiter { fs, dir, turns: &turns, member, fate };
            let outcome = groups.commit(&store, &self.batch(member), Some(&mut arbiter));
            turns.end(member);
            self.told.lock().unwrap()[member] = outcome.is_ok();
            outcome
        };
        groups.queue().has_leader = true;
        let outcomes: Vec<Result<Outcome>> = thread::scope(|scope| {
            let others = [1, 2].map(|member| {
                let thread = scope.spawn(move || make(member));
                while groups.queue().waiting.len() < member {
                    thread::sleep(Duration::from_micros(50));
                }
                thread
            });
            groups.queue().has_leader = false;
            let first = make(0);
            std::iter::once(first).chain(others.map(|thread| thread.join().unwrap())).collect()
        });
        for (outcome, fate) in outcomes.into_iter().zip(self.fates) {
            match fate {
                Fate::Agreed => drop(outcome?),
                _ => assert!(outcome.is_err(), "a batch without an agreement is not committed"),
            }
        }
        Ok(())
    }

    /// Returns for each member whether the disk has its change. Either all refs of a member must be changed, or none
    /// of them.
    fn made(&self, dir: &Path) -> [bool; 3] {
        let store = store(&Fs::real(), dir);
        [0, 1, 2].map(|member| {
            let value = |name: &&str| store.find(name).unwrap().map(|found| found.id().unwrap());
            let values: Vec<_> = REFS[member].iter().map(value).collect();
            let is = |value| values.iter().all(|found| *found == value);
            assert!(is(self.before(member)) || is(self.after(member)), "a member is made whole or not: {values:?}");
            is(self.after(member))
        })
    }

    /// Ends each intent according to the database's refs, as servers do.
    fn settle(&self, dir: &Path, agreed: [bool; 3]) {
        let (store, made) = (store(&Fs::real(), dir), self.made(dir));
        for (id, intent) in store.global_intents().list().unwrap() {
            let member: usize = id.split('-').nth(1).unwrap().parse().unwrap();
            assert_eq!(intent.refs.len(), REFS[member].len());
            if agreed[member] && !made[member] {
                let mut transaction = Transaction::new(beyond_global(store.context()), TransactionOptions::default());
                for edit in self.batch(member).edits {
                    transaction.add(edit).unwrap();
                }
                transaction.commit().unwrap();
            }
            store.global_intents().remove(&id).unwrap();
        }
    }

    fn check(&self, dir: &Path, crash: &Crash, is_power_lost: bool) {
        let agreed = [0, 1, 2].map(|member| dir.join(format!("agreed-{member}")).exists());
        let made = self.made(dir);
        for member in 0..3 {
            assert!(agreed[member] || !made[member], "member {member} shows before it is agreed");
        }
        unlock(dir);
        self.settle(dir, agreed);
        assert_eq!(self.made(dir), agreed, "the disk is as the database has it");
        // `told` comes from the whole run. If the power was lost before the end of the run, a member may not have been
        // told by then.
        if crash.claimed || !is_power_lost {
            for (member, told) in self.told.lock().unwrap().into_iter().enumerate() {
                assert!(agreed[member] || !told, "member {member} is acknowledged, and was not agreed");
            }
        }
    }
}

/// Removes the locks of dead processes, as servers remove theirs.
fn unlock(folder: &Path) {
    for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap()) {
        let path = entry.path();
        if entry.file_type().unwrap().is_dir() {
            unlock(&path);
        } else if path.extension().is_some_and(|extension| extension == "lock") {
            std::fs::remove_file(path).unwrap();
        }
    }
}

const FATES: [[Fate; 3]; 4] = [
    [Fate::Agreed, Fate::Agreed, Fate::Agreed],
    [Fate::Agreed, Fate::Refused, Fate::Agreed],
    [Fate::Agreed, Fate::Agreed, Fate::Lost],
    [Fate::Agreed, Fate::NeverAsked, Fate::Agreed],
];

#[test]
fn what_was_agreed_happens_wherever_a_group_is_killed() {
    for scene in FATES.map(Scene::new) {
        let check = |dir: &Path, crash: &Crash| scene.check(dir, crash, false);
        kill_everywhere(scene.repo.git_dir(), |fs, dir| scene.work(fs, dir), check);
    }
}

#[test]
fn what_was_agreed_happens_whichever_operation_of_a_group_fails() {
    for scene in FATES.map(Scene::new) {
        let check = |dir: &Path, crash: &Crash| scene.check(dir, crash, false);
        refuse_everywhere(scene.repo.git_dir(), |fs, dir| scene.work(fs, dir), check);
    }
}

#[test]
fn what_was_agreed_happens_wherever_the_power_goes_under_a_group() {
    for scene in FATES.map(Scene::new) {
        let check = |dir: &Path, crash: &Crash| scene.check(dir, crash, true);
        for disk in [Disk::Journaled, Disk::Unordered] {
            lose_power_everywhere(scene.repo.git_dir(), disk, |fs, dir| scene.work(fs, dir), check);
        }
    }
}
