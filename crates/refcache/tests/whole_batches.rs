//! Small batches become loose files one ref after the other, and other batches move loose refs into packed-refs before
//! they replace that file. No view of the process sees a part of either.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod common;

use bstr::BStr;
use common::{direct, listed, prefixed, set, unsynced};
use refdb::Precondition;
use refdb_refcache::{Batch, TrustSettings, View, ViewSettings, Views, ViewsSettings};
use refdb_testkit::{RefFormat, Repo};
use refdb_types::{HashKind, ObjectId};
use refdb_vfs::{Fs, IoHook, Op, Verdict};
use std::{
    collections::HashMap,
    fs, io,
    os::unix::fs::symlink,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    thread,
    time::Duration,
};

const ROUNDS: usize = 80;
const REFS: [&str; 3] = ["refs/changes/1/1/1", "refs/changes/1/1/meta", "refs/heads/z"];

/// Creates a repository whose packed-refs is so long that a batch of three is worth loose files.
fn repo() -> (Repo, Vec<ObjectId>) {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let ids = repo.commits(ROUNDS + 1);
    let lines: String = (0..32_000).map(|at| format!("{} refs/old/{at:06}\n", ids[0])).collect();
    fs::write(repo.git_dir().join("packed-refs"), format!("# pack-refs with: peeled fully-peeled sorted \n{lines}"))
        .unwrap();
    (repo, ids)
}

/// How batches are written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Batches {
    Loose,
    Packed,
}

fn settings(batches: Batches, believe: Option<Duration>) -> ViewSettings {
    let trust = TrustSettings::new().believe(believe);
    let config = match batches {
        Batches::Loose => vec!["refdb.smallBatches=loose".into()],
        Batches::Packed => Vec::new(),
    };
    unsynced(trust).config(config)
}

/// Gives each ref a loose file with the value that it has, as git does when it changes one.
fn make_loose(repo: &Repo, id: ObjectId) {
    for name in REFS {
        let path = repo.git_dir().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let lock = path.with_extension("lock");
        fs::write(&lock, format!("{id}\n")).unwrap();
        fs::rename(&lock, &path).unwrap();
    }
}

fn change_all(view: &View, id: ObjectId) -> refdb_refcache::Result<()> {
    let mut batch = Batch::atomic(REFS.map(|name| set(name, id, Precondition::Any)).into());
    batch.options.atomic_visibility = true;
    view.commit(&batch).map(drop)
}

/// A reader that must never see an older value after a newer one.
struct Reader<'a> {
    view: &'a View,
    places: &'a HashMap<ObjectId, usize>,
    committed: &'a AtomicUsize,
    newest: usize,
}

impl Reader<'_> {
    fn place(&self, id: Option<ObjectId>) -> usize {
        id.map_or(0, |id| self.places[&id])
    }

    fn sees(&mut self, place: usize, committed: usize, how: &str) {
        assert!(place >= committed, "{how}: {place} after {committed} was committed");
        assert!(place >= self.newest, "{how}: {place} after {} was seen", self.newest);
        self.newest = place;
    }

    fn sees_whole(&mut self, places: &[usize], committed: usize, how: &str) {
        assert_eq!(places.len(), REFS.len(), "{how}");
        assert!(places.iter().all(|place| *place == places[0]), "{how}: a part of a batch: {places:?}");
        self.sees(places[0], committed, how);
    }

    fn read(&mut self, turn: usize) {
        let committed = self.committed.load(SeqCst);
        match turn % 4 {
            // In the order of the renames, and in the reverse order.
            0 => REFS.iter().for_each(|name| self.sees(self.place(direct(self.view, name)), committed, "one by one")),
            1 => {
                for name in REFS.iter().rev() {
                    self.sees(self.place(direct(self.view, name)), committed, "one by one, backwards");
                }
            }
            2 => {
                let found = self.view.get_many(&REFS.map(BStr::new)).unwrap();
                let places: Vec<usize> =
                    found.iter().map(|found| self.place(found.as_ref().and_then(|found| found.target.id()))).collect();
                self.sees_whole(&places, committed, "together");
            }
            _ => {
                let rows = listed(self.view, &prefixed(&["refs/changes/", "refs/heads/"]));
                if !rows.is_empty() {
                    let places: Vec<usize> = rows.iter().map(|(_, target)| self.place(target.id())).collect();
                    self.sees_whole(&places, committed, "a list");
                }
            }
        }
    }
}

fn race(batches: Batches, believe: Option<Duration>) {
    let (repo, ids) = repo();
    let places = ids.iter().copied().zip(0..).collect();
    let views = Views::new(&ViewsSettings::default());
    let view = views.open(repo.git_dir(), &settings(batches, believe)).unwrap();
    // Another path to the same repository.
    let temp = tempfile::tempdir().unwrap();
    symlink(repo.git_dir(), temp.path().join("link")).unwrap();
    let other = views.open(&temp.path().join("link"), &settings(batches, believe)).unwrap();
    assert!(!Arc::ptr_eq(&view, &other));
    let (committed, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        let readers: Vec<_> = [&view, &other, &view]
            .into_iter()
            .enumerate()
            .map(|(at, view)| {
                let (places, committed, is_over) = (&places, &committed, &is_over);
                scope.spawn(move || {
                    let mut reader = Reader { view, places, committed, newest: 0 };
                    for turn in at.. {
                        if is_over.load(SeqCst) {
                            break;
                        }
                        reader.read(turn);
                    }
                })
            })
            .collect();
        for (round, id) in ids.iter().enumerate().skip(1) {
            if readers.iter().any(|reader| reader.is_finished()) {
                break;
            }
            if batches == Batches::Packed && round > 1 {
                make_loose(&repo, ids[round - 1]);
            }
            change_all(&view, *id).unwrap();
            committed.store(round, SeqCst);
        }
        is_over.store(true, SeqCst);
        readers.into_iter().for_each(|reader| reader.join().unwrap());
    });
    let are_loose = batches == Batches::Loose;
    assert!(REFS.iter().all(|name| repo.git_dir().join(name).is_file() == are_loose), "they went as was asked for");
    assert_eq!(view.verify().unwrap().differences, []);
}

#[test]
fn no_view_of_the_process_sees_a_part_of_a_batch() {
    race(Batches::Loose, None);
}

#[test]
fn nor_does_one_that_believes_for_a_while_what_it_has_seen() {
    race(Batches::Loose, Some(Duration::from_secs(3600)));
}

#[test]
fn nor_a_part_of_one_that_goes_to_packed_refs_and_finds_loose_files() {
    race(Batches::Packed, None);
}

#[test]
fn nor_does_one_that_believes_when_batches_go_to_packed_refs() {
    race(Batches::Packed, Some(Duration::from_secs(3600)));
}

/// A disk that fails to sync a journal file whose entry was wiped, and then to remove it.
#[derive(Default)]
struct FailsAtTheEnd(AtomicBool);

impl IoHook for FailsAtTheEnd {
    fn before(&self, op: Op<'_>) -> Verdict {
        let is_journal = |path: &Path| path.components().any(|part| part.as_os_str() == "refdb-batches");
        match op {
            Op::Overwrite(path, at, bytes) if is_journal(path) && at > 0 && bytes.iter().all(|byte| *byte == 0) => {
                self.0.store(true, SeqCst);
                Verdict::Proceed
            }
            Op::Sync(path) | Op::Remove(path) if is_journal(path) && self.0.load(SeqCst) => {
                Verdict::Fail(io::Error::from_raw_os_error(5))
            }
            _ => Verdict::Proceed,
        }
    }
}

/// Previously, views showed the old values until the next small batch of one of the refs, because the journal file is
/// still there.
#[test]
fn a_batch_whose_entry_is_wiped_is_seen_though_it_could_be_neither_ended_nor_recovered() {
    let (repo, ids) = repo();
    make_loose(&repo, ids[0]);
    let disk = Arc::new(FailsAtTheEnd::default());
    let views = Views::new(&ViewsSettings::new().fs(Fs::with_hook(Arc::clone(&disk) as Arc<dyn IoHook>)));
    let settings = settings(Batches::Loose, None).sync(Some(true));
    let view = views.open(repo.git_dir(), &settings).unwrap();
    assert_eq!(direct(&view, REFS[0]), Some(ids[0]));
    change_all(&view, ids[1]).unwrap_err();
    assert!(disk.0.load(SeqCst), "the entry was wiped");
    for name in REFS {
        assert_eq!(repo.git(["rev-parse", name]), ids[1].to_string());
        assert_eq!(direct(&view, name), Some(ids[1]));
    }
    assert!(listed(&view, &prefixed(&REFS)).iter().all(|(_, target)| target.id() == Some(ids[1])));
}
