//! Transactions that a global ref database decides are stopped at every operation, and the disk ends as the database
//! has it.
#![allow(clippy::unwrap_used, reason = "tests")]

use bstr::BStr;
use refdb::{
    Error, HashKind, HookFailure, LogJudge, LoggedChange, Misuse, ObjectId, PruneLogs, RefName, Store,
    TransactionOptions, Undecided,
    global::{Arbiter, GlobalIntents, GlobalRef, Mark, Verdict, ask, commit_agreed},
    transaction::{Context, Hook, HookSource, HookState, Transaction},
    was,
};
use refdb_testkit::{
    RefFormat, Repo,
    crash::{Crash, Disk, kill_everywhere, lose_power_everywhere, refuse_everywhere},
};
use refdb_vfs::Fs;
use std::{collections::BTreeMap, path::Path};

const MOVED: &str = "refs/heads/moved";
const GONE: &str = "refs/heads/gone";
const MADE: &str = "refs/heads/made";

/// A global ref database that is a file on the same disk, so that a crash leaves both as they were at one moment.
struct FileArbiter<'a> {
    fs: &'a Fs,
    dir: &'a Path,
    /// The next answers, the last one first. Without any left, the database agrees if it can write its file; otherwise
    /// its answer is not known.
    says: Vec<Verdict>,
}

impl FileArbiter<'_> {
    fn agree(&self) -> refdb_vfs::Result<()> {
        let new = self.dir.join("agreed.new");
        let mut file = self.fs.create_afresh(&new, 0o666)?;
        file.write_all(b"yes")?;
        file.sync()?;
        self.fs.rename(&new, &self.dir.join("agreed"))?;
        self.fs.sync_dir(self.dir)
    }
}

fn mark(number: u32) -> Mark {
    Mark { id: "start-3-17".to_owned(), text: format!("node m/node/3 start {number} DONE").into() }
}

impl Arbiter for FileArbiter<'_> {
    fn begin(&mut self, refs: &[GlobalRef]) -> refdb::Result<Option<Mark>> {
        assert!(refs.is_sorted_by(|one, other| one.name < other.name));
        Ok(Some(mark(17)))
    }

    fn ask(&mut self) -> Verdict {
        let there = store(&Fs::real(), self.dir).global_intents().list();
        assert!(there.is_ok_and(|there| there.len() == 1), "the intent is there when it is asked");
        match self.says.pop() {
            Some(verdict) => verdict,
            None if self.agree().is_ok() => Verdict::Agreed,
            None => Verdict::Unknown,
        }
    }
}

fn store(fs: &Fs, dir: &Path) -> Store {
    Store::builder(dir).fs(fs.clone()).sync(true).open().unwrap()
}

/// Returns the context of a caller that asks the global ref database.
fn beyond(store: &Store) -> Context<'_> {
    Context { forbidden: None, ..store.context() }
}

struct Scene {
    repo: Repo,
    ids: Vec<ObjectId>,
}

type Refs = BTreeMap<&'static str, ObjectId>;

impl Scene {
    fn new(format: RefFormat) -> Self {
        let repo = Repo::bare(format, HashKind::Sha1);
        repo.config("refdb.global", "etcd");
        let ids = repo.commits(3);
        repo.create_refs([(MOVED, ids[0]), (GONE, ids[0])]);
        repo.git(["pack-refs", "--all"]);
        Scene { repo, ids }
    }

    fn before(&self) -> Refs {
        Refs::from([(MOVED, self.ids[0]), (GONE, self.ids[0])])
    }

    fn after(&self) -> Refs {
        Refs::from([(MOVED, self.ids[1]), (MADE, self.ids[2])])
    }

    fn transact(&self, context: Context<'_>, intents: &GlobalIntents, arbiter: &mut dyn Arbiter) -> refdb::Result<()> {
        let options = TransactionOptions::new().atomic_visibility(true);
        let mut transaction = Transaction::new(context, options);
        transaction.update(MOVED, self.ids[1], was(self.ids[0]));
        transaction.delete(GONE, was(self.ids[0]));
        transaction.create(MADE, self.ids[2]);
        commit_agreed(transaction.prepare()?, intents, arbiter).map(drop)
    }

    fn work(&self) -> impl Fn(&Fs, &Path) -> refdb::Result<()> {
        move |fs, dir| {
            let store = Store::builder(dir).fs(fs.clone()).sync(true).open()?;
            let mut arbiter = FileArbiter { fs, dir, says: Vec::new() };
            self.transact(beyond(&store), &store.global_intents(), &mut arbiter)
        }
    }

    fn read(dir: &Path) -> Refs {
        let store = store(&Fs::real(), dir);
        let value = |name| Some((name, store.find(name).unwrap()?.id().unwrap()));
        [MOVED, GONE, MADE].into_iter().filter_map(value).collect()
    }

    /// Removes all locks, whose owners have ended, as servers do.
    fn unlock(folder: &Path) {
        for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap()) {
            let path = entry.path();
            if entry.file_type().unwrap().is_dir() {
                Self::unlock(&path);
            } else if path.extension().is_some_and(|extension| extension == "lock") {
                std::fs::remove_file(path).unwrap();
            }
        }
    }

    /// Ends each intent according to the database's refs, as servers do.
    fn settle(dir: &Path) {
        let is_agreed = dir.join("agreed").exists();
        let store = store(&Fs::real(), dir);
        for (id, intent) in store.global_intents().list().unwrap() {
            assert!(intent.mark.starts_with(b"node m/node/3 start"));
            let now = Self::read(dir);
            for entry in intent.refs.iter().filter(|_| is_agreed) {
                let name = std::str::from_utf8(&entry.name).unwrap();
                let mut transaction = Transaction::new(beyond(&store), TransactionOptions::default());
                match (now.get(name).copied(), entry.new) {
                    (now, new) if now == new => continue,
                    (Some(now), Some(new)) => {
                        transaction.update(name, new, was(now));
                    }
                    (None, Some(new)) => {
                        transaction.create(name, new);
                    }
                    (Some(now), None) => {
                        transaction.delete(name, was(now));
                    }
                    (None, None) => unreachable!("they differ"),
                }
                transaction.commit().unwrap();
            }
            store.global_intents().remove(&id).unwrap();
        }
    }

    fn check(&self, dir: &Path, crash: &Crash) {
        let is_agreed = dir.join("agreed").exists();
        assert!(is_agreed || !crash.claimed, "nothing is reported that was not agreed");
        if !is_agreed {
            assert_eq!(Self::read(dir), self.before(), "nothing shows before it is agreed");
        }
        Self::unlock(dir);
        Self::settle(dir);
        assert_eq!(Self::read(dir), if is_agreed { self.after() } else { self.before() });
    }
}

const FORMATS: [RefFormat; 2] = [RefFormat::Files, RefFormat::Reftable];

#[test]
fn what_was_agreed_happens_wherever_it_is_killed() {
    for format in FORMATS {
        let scene = Scene::new(format);
        kill_everywhere(scene.repo.git_dir(), scene.work(), |dir, crash| scene.check(dir, crash));
    }
}

#[test]
fn what_was_agreed_happens_whichever_operation_fails() {
    for format in FORMATS {
        let scene = Scene::new(format);
        refuse_everywhere(scene.repo.git_dir(), scene.work(), |dir, crash| scene.check(dir, crash));
    }
}

#[test]
fn what_was_agreed_happens_wherever_the_power_goes() {
    for format in FORMATS {
        let scene = Scene::new(format);
        for disk in [Disk::Journaled, Disk::Unordered] {
            lose_power_everywhere(scene.repo.git_dir(), disk, scene.work(), |dir, crash| scene.check(dir, crash));
        }
    }
}

/// Returns how a transaction ended, and the number of intents that are left.
fn ends(scene: &Scene, says: Vec<Verdict>) -> (refdb::Result<()>, usize) {
    let (fs, dir) = (Fs::real(), scene.repo.git_dir());
    let store = store(&fs, dir);
    let mut arbiter = FileArbiter { fs: &fs, dir, says };
    let ended = scene.transact(beyond(&store), &store.global_intents(), &mut arbiter);
    (ended, store.global_intents().list().unwrap().len())
}

#[test]
fn an_intent_stays_while_nobody_knows_and_bars_its_refs() {
    for format in FORMATS {
        let scene = Scene::new(format);
        let dir = scene.repo.git_dir();
        let (refused, left) = ends(&scene, vec![Verdict::Refused]);
        assert!(matches!(refused, Err(Error::Undecided(Undecided::NotAgreed))) && left == 0, "{refused:?} {left}");
        let (unknown, left) = ends(&scene, vec![Verdict::Unknown, Verdict::Again(mark(18))]);
        assert!(matches!(unknown, Err(Error::Undecided(Undecided::Unknown(_)))) && left == 1, "{unknown:?} {left}");
        let (_, intent) = store(&Fs::real(), dir).global_intents().list().unwrap().remove(0);
        assert_eq!(intent.mark, mark(18).text, "that under which it was asked last");
        assert_eq!(Scene::read(dir), scene.before());
        let (barred, _) = ends(&scene, Vec::new());
        assert!(matches!(&barred, Err(Error::Undecided(Undecided::Open { .. }))), "{barred:?}");
        assert!(barred.unwrap_err().to_string().contains("by node node is not decided"), "it names whose update it is");
        assert_eq!(Scene::read(dir), scene.before());
        Scene::settle(dir);
        let (agreed, left) = ends(&scene, Vec::new());
        assert!(agreed.is_ok() && left == 0, "{agreed:?} {left}");
        assert_eq!(Scene::read(dir), scene.after());
    }
}

/// A hook that cannot be told how its transaction ended.
struct NotTold;

impl HookSource for NotTold {
    fn find(&self) -> refdb::Result<Option<Box<dyn Hook>>> {
        Ok(Some(Box::new(NotTold)))
    }
}

impl Hook for NotTold {
    fn run(&mut self, state: HookState, _: &[u8]) -> refdb::Result<bool> {
        match state {
            HookState::Aborted | HookState::Committed => Err(HookFailure::Refused(state).into()),
            _ => Ok(true),
        }
    }
}

/// Previously, the intent of an update that was complete stayed and barred its refs.
#[test]
fn no_intent_stays_if_only_the_hook_cannot_be_told_that_the_refs_are_changed() {
    for format in FORMATS {
        let scene = Scene::new(format);
        let (fs, dir) = (Fs::real(), scene.repo.git_dir());
        let store = store(&fs, dir);
        let mut arbiter = FileArbiter { fs: &fs, dir, says: Vec::new() };
        let context = Context { hooks: &NotTold, ..beyond(&store) };
        let done = scene.transact(context, &store.global_intents(), &mut arbiter);
        assert!(matches!(done, Err(Error::Hook(_))), "{done:?}");
        assert!(store.global_intents().list().unwrap().is_empty());
        assert_eq!(store.find(MOVED).unwrap().unwrap().id(), Some(scene.ids[1]));
    }
}

#[test]
fn a_hook_that_cannot_be_told_does_not_hide_that_the_database_refused() {
    let scene = Scene::new(RefFormat::Files);
    let (fs, dir) = (Fs::real(), scene.repo.git_dir());
    let store = store(&fs, dir);
    let mut arbiter = FileArbiter { fs: &fs, dir, says: vec![Verdict::Refused] };
    let context = Context { hooks: &NotTold, ..beyond(&store) };
    let refused = scene.transact(context, &store.global_intents(), &mut arbiter);
    assert!(matches!(refused, Err(Error::Undecided(Undecided::NotAgreed))), "{refused:?}");
}

#[test]
fn who_does_not_ask_is_refused() {
    for format in FORMATS {
        let scene = Scene::new(format);
        let store = store(&Fs::real(), scene.repo.git_dir());
        let mut transaction = store.transaction();
        transaction.create(MADE, scene.ids[2]);
        let refused = transaction.commit();
        assert!(matches!(&refused, Err(Error::Misuse(Misuse::Global { .. }))), "{refused:?}");
        assert_eq!(Scene::read(scene.repo.git_dir()), scene.before());
    }
}

/// An intent that nobody could read again would have barred every later transaction.
#[test]
fn a_transaction_too_large_for_an_intent_is_refused_before_anybody_is_asked() {
    struct Unasked;
    impl Arbiter for Unasked {
        fn begin(&mut self, _: &[GlobalRef]) -> refdb::Result<Option<Mark>> {
            Ok(Some(mark(17)))
        }

        fn ask(&mut self) -> Verdict {
            panic!("the database is asked about an intent that cannot be read")
        }
    }
    let scene = Scene::new(RefFormat::Reftable);
    let store = store(&Fs::real(), scene.repo.git_dir());
    let refs = |count: usize| -> Vec<GlobalRef> {
        let name = |at| RefName::new(format!("refs/changes/{at:08}/of/a/length/as/in/large/projects/meta")).unwrap();
        (0..count).map(|at| GlobalRef { name: name(at), old: None, new: Some(scene.ids[0]) }).collect()
    };
    for count in [200_000, 1_500_000] {
        let refused = ask(&store.global_intents(), &refs(count), &mut Unasked);
        assert!(matches!(&refused, Err(Error::Undecided(Undecided::TooLarge { .. }))), "{refused:?}");
        assert!(store.global_intents().list().unwrap().is_empty());
    }
}

#[test]
fn a_pruned_reflog_sets_no_ref_that_the_database_decides_about() {
    struct Unasked;
    impl LogJudge for Unasked {
        fn begin(&mut self, name: &BStr, _: &mut dyn ExactSizeIterator<Item = u64>) -> refdb::Result<()> {
            panic!("{name} is looked at")
        }

        fn goes(&mut self, _: &LoggedChange<'_>) -> refdb::Result<bool> {
            Ok(true)
        }

        fn told(&mut self, _: &LoggedChange<'_>, _: bool) {}

        fn failed(&mut self, _: &RefName, _: Error) {}
    }
    for format in FORMATS {
        let scene = Scene::new(format);
        let store = store(&Fs::real(), scene.repo.git_dir());
        let how = PruneLogs::new().update_ref(true);
        let refused = store.prune_logs(&[RefName::new(MOVED).unwrap()], how, &mut Unasked);
        assert!(matches!(&refused, Err(Error::Misuse(Misuse::Global { .. }))), "{refused:?}");
    }
}
