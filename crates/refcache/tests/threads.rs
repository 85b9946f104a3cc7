//! Several threads read through two views while others write and git packs. No reader gets a value older than one
//! committed before the query, or than one that it has seen, and no update is lost.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod common;

use common::{each, open, set, unsynced};
use refdb::{
    Precondition, Target,
    objects::ObjectError,
    transaction::{ObjectCheck, ObjectClass},
};
use refdb_refcache::{Batch, TrustSettings, View, Views, ViewsSettings};
use refdb_testkit::{RefFormat, Repo};
use refdb_types::{HashKind, ObjectId};
use refdb_vfs::{Fs, IoHook, LookUp, Op, Verdict};
use std::{
    collections::HashMap,
    io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, OnceLock, Weak,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
        mpsc,
    },
    thread,
    time::Duration,
};

const REFS: usize = 3;
const UPDATES: usize = 40;

/// Refs that go through the same values in order, by compare-and-set.
struct Race {
    ids: Vec<ObjectId>,
    places: HashMap<ObjectId, usize>,
    /// The index of the newest value of each ref whose commit has returned.
    committed: [AtomicUsize; REFS],
    /// For each ref, which of the steps from one value to the next a commit has made.
    made: [[AtomicBool; UPDATES]; REFS],
    is_over: AtomicBool,
}

impl Race {
    fn place(&self, view: &View, at: usize) -> usize {
        let found = view.get(name(at).as_str().into()).unwrap();
        found.map_or(0, |found| self.places[&found.target.id().unwrap()])
    }

    fn write(&self, view: &View, seed: usize) {
        for turn in seed.. {
            let at = turn % REFS;
            if (0..REFS).all(|at| self.committed[at].load(SeqCst) >= UPDATES) {
                return;
            }
            let before = self.place(view, at);
            if before >= UPDATES {
                continue;
            }
            let expected = match before {
                0 => Precondition::MustNotExist,
                _ => Precondition::MustMatch(Target::Direct(self.ids[before])),
            };
            // The commit is refused if another writer was quicker.
            if view.commit(&Batch::atomic(vec![set(&name(at), self.ids[before + 1], expected)])).is_ok() {
                self.committed[at].fetch_max(before + 1, SeqCst);
                let is_second = self.made[at][before].swap(true, SeqCst);
                assert!(!is_second, "{}: value {} was committed twice", name(at), before + 1);
            }
        }
    }

    fn read(&self, view: &View) {
        let mut last = [0; REFS];
        while !self.is_over.load(SeqCst) {
            for (at, last) in last.iter_mut().enumerate() {
                let committed = self.committed[at].load(SeqCst);
                let seen = self.place(view, at);
                assert!(seen >= committed, "{}: value {seen} was read after {committed} was committed", name(at));
                assert!(seen >= *last, "{}: value {seen} was read after {last}", name(at));
                *last = seen;
            }
            thread::yield_now();
        }
    }
}

fn name(at: usize) -> String {
    format!("refs/heads/{at}")
}

fn race(repo: &Repo) {
    let ids = repo.commits(UPDATES + 1);
    let places = ids.iter().copied().zip(0..).collect();
    let made = std::array::from_fn(|_| std::array::from_fn(|_| AtomicBool::new(false)));
    let race = Race { ids, places, committed: Default::default(), made, is_over: AtomicBool::new(false) };
    let (ours, theirs): (Arc<View>, Arc<View>) = (open(repo), open(repo));
    thread::scope(|scope| {
        let readers: Vec<_> = [&ours, &ours, &theirs]
            .map(|view| {
                scope.spawn({
                    let race = &race;
                    move || race.read(view)
                })
            })
            .into();
        let packer = scope.spawn(|| {
            while !race.is_over.load(SeqCst) {
                // Git may find a lock held, and is then started again.
                let _ = repo.try_git(["pack-refs", "--all"], "");
            }
        });
        let writers: Vec<_> = [(&ours, 0), (&ours, 1), (&theirs, 2)]
            .map(|(view, seed)| {
                scope.spawn({
                    let race = &race;
                    move || race.write(view, seed)
                })
            })
            .into();
        let results: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        race.is_over.store(true, SeqCst);
        assert!(results.into_iter().all(|result| result.is_ok()));
        readers.into_iter().for_each(|reader| reader.join().unwrap());
        packer.join().unwrap();
    });
    for at in 0..REFS {
        assert_eq!(repo.rev_parse(&name(at)), race.ids[UPDATES]);
    }
    repo.verify();
}

#[test]
fn readers_see_every_commit_that_was_made_before_they_ask() {
    each(race);
}

/// The types of objects, which are not told before the test says so.
#[derive(Debug)]
struct Slow {
    asked: mpsc::SyncSender<()>,
    goes_on: Mutex<mpsc::Receiver<()>>,
}

impl ObjectCheck for Slow {
    fn classify(&self, _: &ObjectId) -> Result<ObjectClass, ObjectError> {
        let _ = self.asked.try_send(());
        let _ = self.goes_on.lock().unwrap().recv();
        Ok(ObjectClass::Commit)
    }
}

/// Regression: the counters and the release of memory waited until the index from objects to refs was built.
#[test]
fn counters_are_read_while_an_index_is_built() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let id = repo.commit();
    repo.create_refs([("refs/tags/t", id)]);
    repo.git(["pack-refs", "--all"]);
    let (asked, is_asked) = mpsc::sync_channel(1);
    let (go_on, goes_on) = mpsc::channel();
    let slow = Arc::new(Slow { asked, goes_on: Mutex::new(goes_on) });
    let settings = unsynced(TrustSettings::default()).objects(Some(slow));
    let view = &Views::new(&ViewsSettings::default()).open(repo.git_dir(), &settings).unwrap();
    thread::scope(|scope| {
        let found = scope.spawn(|| view.pointing_at(&id).unwrap());
        is_asked.recv().unwrap();
        let (told, tells) = mpsc::channel();
        scope.spawn(move || told.send(view.stats().bytes));
        let bytes = tells.recv_timeout(Duration::from_secs(10));
        drop(go_on);
        assert!(bytes.is_ok(), "the counters were not told in time");
        assert_eq!(found.join().unwrap(), ["refs/tags/t"]);
    });
}

/// Forgets the view of a repository while it is opened for the first time.
#[derive(Default)]
struct ForgetsAtOnce {
    views: OnceLock<(Weak<Views>, PathBuf)>,
    times: AtomicUsize,
}

impl IoHook for ForgetsAtOnce {
    fn before(&self, _: Op<'_>) -> Verdict {
        Verdict::Proceed
    }

    fn look_up(&self, _: &Path, _: LookUp) -> io::Result<Option<PathBuf>> {
        if self.times.fetch_add(1, SeqCst) == 0 {
            let (views, git_dir) = self.views.get().unwrap();
            views.upgrade().unwrap().close(git_dir);
        }
        Ok(None)
    }
}

/// Previously, the view stayed known, with settings and a folder that another caller had declared to be over.
#[test]
fn a_view_that_was_opened_before_its_repository_was_closed_is_not_kept() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let hook = Arc::new(ForgetsAtOnce::default());
    let fs = Fs::with_hook(Arc::<ForgetsAtOnce>::clone(&hook));
    let views = Arc::new(Views::new(&ViewsSettings::default().fs(fs)));
    hook.views.set((Arc::downgrade(&views), repo.git_dir().to_owned())).unwrap();
    let view = views.open(repo.git_dir(), &unsynced(TrustSettings::default())).unwrap();
    let looked = hook.times.load(SeqCst);
    drop(view);
    hook.times.store(1, SeqCst);
    drop(views.open(repo.git_dir(), &unsynced(TrustSettings::default())).unwrap());
    let once = hook.times.load(SeqCst) - 1;
    assert!(once > 0 && looked == 2 * once, "the repository was opened again: {looked} look-ups, {once} to open it");
}
