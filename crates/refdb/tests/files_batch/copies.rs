//! Repositories that are copied, backed up or restored while batches are written.

use super::*;
use refdb::Maintenance;
use refdb_vfs::{IoHook, Op, Verdict};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    process::Command,
    sync::{Arc, Mutex},
};

const NAMES: [&str; 4] = [LOOSE, PACKED, META, PATCH_SET];

/// Copies a folder, so that each file has an inode of its own.
fn copy(from: &Path) -> tempfile::TempDir {
    let temp = tempfile::tempdir().unwrap();
    let mut command = Command::new("cp");
    let status = command.args(["-r", "--no-preserve=links"]).arg(from).arg(temp.path().join("copy")).status();
    assert!(status.unwrap().success());
    temp
}

/// Requires that all refs can be packed, that those of the batch can be written, and that no lock is left.
pub(super) fn is_usable(scene: &Scene, dir: &Path) {
    // Waits, because a process that another test has just started may have the files open, and so locked, for a moment.
    let store = batching(&Fs::real(), dir, false, Duration::from_secs(20));
    let before = read(dir);
    store.optimize(&pack_all()).unwrap();
    assert_eq!(read(dir), before, "packing changes no value");
    let again = NAMES.map(|name| set(name, scene.ids[0]));
    again.iter().for_each(|wish| transact(&store, std::slice::from_ref(wish)).unwrap());
    assert!(NAMES.iter().all(|name| read(dir)[*name] == scene.ids[0].to_string()));
    assert_eq!(leftovers(dir), Vec::<PathBuf>::new());
}

#[test]
fn a_copy_made_while_a_record_is_there_is_settled_as_after_a_loss_of_power() {
    let scene = Scene::new();
    let with_record = std::cell::Cell::new(0);
    kill_everywhere(scene.refs_only().path(), scene.work(true), |dir, crash| {
        let temp = copy(dir);
        let dir = &temp.path().join("copy");
        with_record.set(with_record.get() + u32::from(!records(dir).is_empty()));
        settle(dir);
        assert!(scene.is_whole(dir, crash), "{:?}", read(dir));
        assert!(read(dir) == scene.before || scene.has_logs(dir));
        is_usable(&scene, dir);
    });
    assert!(with_record.get() > 10, "{}", with_record.get());
}

/// Only one in this number of the copies that differ is examined, because all of them would take half a minute. With
/// two batches, one in five times this number is, besides the copies that have both journal entries.
const STEP: usize = 7;

/// The files of a folder at one moment, by path.
type Files = BTreeMap<PathBuf, Vec<u8>>;

/// Records the folder before each change that a process makes, while the process lives.
struct Moments {
    dir: PathBuf,
    seen: Mutex<Vec<Files>>,
}

impl Moments {
    /// Returns the folder at every moment of some work, and after it.
    fn of(start: &Path, work: impl FnOnce(&Fs, &Path)) -> Vec<Files> {
        let temp = copy(start);
        let moments = Arc::new(Moments { dir: temp.path().join("copy"), seen: Mutex::default() });
        work(&Fs::with_hook(Arc::clone(&moments) as Arc<dyn IoHook>), &moments.dir);
        moments.look();
        std::mem::take(&mut *moments.seen.lock().unwrap())
    }

    fn look(&self) {
        let names = refdb_testkit::files_below(&self.dir);
        let files = names.into_iter().map(|name| (PathBuf::from(&name), std::fs::read(self.dir.join(name)).unwrap()));
        self.seen.lock().unwrap().push(files.collect());
    }
}

impl IoHook for Moments {
    fn before(&self, _: Op<'_>) -> Verdict {
        self.look();
        Verdict::Proceed
    }
}

/// Copies by a program that reads the files one after the other, in some order, while batches are written. In each copy
/// the files that come first in that order are as they were at one moment, and the others as at a later one.
struct InTurn {
    names: Vec<PathBuf>,
    /// For each moment, the content that each name had, as an index.
    moments: Vec<Vec<Option<usize>>>,
    contents: Vec<Vec<u8>>,
}

impl InTurn {
    fn new(moments: &[Files]) -> Self {
        let names: BTreeSet<PathBuf> = moments.iter().flat_map(|files| files.keys().cloned()).collect();
        let contents: BTreeSet<Vec<u8>> = moments.iter().flat_map(|files| files.values().cloned()).collect();
        let (names, contents): (Vec<PathBuf>, Vec<Vec<u8>>) = (Vec::from_iter(names), Vec::from_iter(contents));
        let content = |bytes: &Vec<u8>| contents.binary_search(bytes).unwrap();
        let mut moments: Vec<Vec<Option<usize>>> =
            moments.iter().map(|files| names.iter().map(|name| files.get(name).map(content)).collect()).collect();
        moments.dedup();
        InTurn { names, moments, contents }
    }

    /// Returns orders of reading: by name from both ends, and with journal entries or locks before and after everything
    /// else.
    fn orders(&self) -> Vec<Vec<usize>> {
        let is_lock = |at: &usize| self.names[*at].extension().is_some_and(|end| end == "lock");
        let is_record = |at: &usize| self.names[*at].starts_with("refdb-batches");
        let by_name = || 0..self.names.len();
        let sorted = |key: &dyn Fn(&usize) -> bool| {
            let mut order: Vec<usize> = by_name().collect();
            order.sort_by_key(key);
            order
        };
        let late = [by_name().collect(), sorted(&is_record), sorted(&is_lock)];
        late.iter()
            .cloned()
            .chain(late.iter().map(|order: &Vec<usize>| order.iter().rev().copied().collect()))
            .collect()
    }

    /// Returns the copies, without repetition.
    fn copies(&self) -> BTreeSet<Vec<Option<usize>>> {
        let mut copies = BTreeSet::new();
        for order in self.orders() {
            for (at, early) in self.moments.iter().enumerate() {
                for late in &self.moments[at..] {
                    let mut copy = late.clone();
                    for name in &order {
                        copy[*name] = early[*name];
                        copies.insert(copy.clone());
                    }
                }
            }
        }
        copies
    }

    /// Returns the number of whole journal entries in a copy.
    fn records(&self, copy: &[Option<usize>]) -> usize {
        let is_record = |(name, content): &(&PathBuf, &Option<usize>)| {
            name.starts_with("refdb-batches") && content.is_some_and(|at| record_of(&self.contents[at]).is_some())
        };
        self.names.iter().zip(copy).filter(is_record).count()
    }

    /// Writes the copy into a folder, as if made on another machine if `boot` is given.
    fn lay_out(&self, copy: &[Option<usize>], boot: Option<&str>) -> tempfile::TempDir {
        let temp = tempfile::tempdir().unwrap();
        for (name, content) in self.names.iter().zip(copy) {
            let Some(content) = content.map(|at| self.contents[at].clone()) else { continue };
            let path = temp.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, boot.map_or(content.clone(), |boot| qualified_name(&content, boot))).unwrap();
        }
        temp
    }
}

/// The byte offset of the entry in a journal file (docs/formats/intent.md).
const RECORD_AT: usize = 512;

/// Returns the entry in a journal file.
fn record_of(slot: &[u8]) -> Option<JournalEntry> {
    let place = slot.get(RECORD_AT..)?;
    JournalEntry::parse(&place[..=place.iter().rposition(|byte| *byte != 0)?]).ok()
}

/// Returns a file's content as it would be on a machine with this boot id.
fn qualified_name(content: &[u8], boot: &str) -> Vec<u8> {
    let renamed = |text: &[u8]| match std::str::from_utf8(text) {
        Ok(text) => text.replace(boot_id().unwrap(), boot).into_bytes(),
        Err(_) => text.to_vec(),
    };
    let Some(journal) = record_of(content) else { return renamed(content) };
    let mut slot = renamed(&content[..RECORD_AT]);
    slot.resize(RECORD_AT, 0);
    slot.extend(JournalEntry { boot: boot.into(), ..journal }.encode());
    slot.resize(content.len(), 0);
    slot
}

#[test]
fn a_copy_made_file_by_file_is_whole_if_it_has_the_record() {
    let scene = Scene::new();
    let moments = Moments::of(scene.refs_only().path(), |fs, dir| scene.work(true)(fs, dir).unwrap());
    let in_turn = InTurn::new(&moments);
    let mut with_record = 0;
    for (at, copy) in in_turn.copies().iter().enumerate().step_by(STEP) {
        let temp = in_turn.lay_out(copy, (at % 2 == 0).then_some("another"));
        let (dir, now) = (temp.path(), read(temp.path()));
        assert!(scene.is_mixed(&now), "{now:?}");
        let is_to_be_whole = in_turn.records(copy) == 1;
        settle(dir);
        let now = read(dir);
        assert!(!is_to_be_whole || now == scene.before || now == scene.after, "{now:?}");
        with_record += u32::from(is_to_be_whole);
        is_usable(&scene, dir);
    }
    assert!(with_record > 50, "{with_record}");
}

#[test]
fn a_copy_made_file_by_file_over_several_batches_keeps_nobody_from_writing() {
    // In two journal files, as if by two threads, and in the same one.
    assert!(copied_over_batches(true) > 3);
    copied_over_batches(false);
}

/// Number of copies in which recovery is stopped.
const STOPPED: u32 = 3;

/// Copies the folder during two batches, and returns how many copies have both journal entries.
fn copied_over_batches(has_two_slots: bool) -> u32 {
    let scene = Scene::new();
    let moments = Moments::of(scene.refs_only().path(), |fs, dir| {
        scene.work(true)(fs, dir).unwrap();
        let slot = std::fs::read_dir(dir.join("refdb-batches")).unwrap().next().unwrap().unwrap().path();
        let slot = std::fs::File::open(slot).unwrap();
        if has_two_slots {
            slot.lock().unwrap();
        }
        transact_whole(&store(fs, dir, true), &NAMES.map(|name| set(name, scene.ids[3]))).unwrap();
    });
    let in_turn = InTurn::new(&moments);
    let mut last = scene.after.clone();
    NAMES.iter().for_each(|name| drop(last.insert((*name).into(), scene.ids[3].to_string())));
    let mut with_both = 0;
    for (at, copy) in in_turn.copies().iter().enumerate() {
        let has_both = in_turn.records(copy) == 2;
        if !has_both && at % (5 * STEP) != 0 {
            continue;
        }
        with_both += u32::from(has_both);
        let temp = in_turn.lay_out(copy, None);
        let is_settled = |dir: &Path| {
            for (path, outcome) in settle_when_free(&store(&Fs::real(), dir, false)) {
                assert!(matches!(outcome, Ok(TakenOver::Recovered(_))), "{path:?} {outcome:?}");
            }
            let now = read(dir);
            let known = |name: &String| [scene.before.get(name), scene.after.get(name), last.get(name)];
            assert!(last.keys().all(|name| known(name).contains(&now.get(name))), "{now:?}");
            assert!(records(dir).iter().all(|name| name.ends_with(".left")), "{:?}", records(dir));
            is_usable(&scene, dir);
        };
        if has_both && with_both <= STOPPED {
            // One batch is recovered under locks of the other, and this is stopped at each step.
            let settle = |fs: &Fs, dir: &Path| -> Result<()> {
                let outcomes = settle_when_free(&store(fs, dir, true));
                outcomes.into_iter().try_for_each(|(_, outcome)| outcome.map(drop))
            };
            kill_everywhere(temp.path(), settle, |dir, _| is_settled(dir));
        }
        is_settled(temp.path());
    }
    with_both
}
