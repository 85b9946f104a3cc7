//! Journal files, which hold one entry after the other: which process owns them, and when they are used again.

use super::*;
use std::{path::PathBuf, sync::Mutex};

/// Returns the journal files, with the number of names that each has.
fn slots(dir: &Path) -> Vec<(PathBuf, u64)> {
    use std::os::unix::fs::MetadataExt;
    let entries = std::fs::read_dir(dir.join("refdb-batches")).into_iter().flatten().flatten();
    let slots = entries.filter(|entry| entry.path().extension().is_some_and(|end| end == "slot"));
    slots.map(|slot| (slot.path(), slot.metadata().unwrap().nlink())).collect()
}

fn pair(scene: &Scene, of: usize, round: usize) -> [Wish; 2] {
    ["1", "meta"].map(|last| set(format!("refs/changes/{of:02}/{last}"), scene.ids[round % 3]))
}

#[test]
fn there_are_as_many_slots_as_batches_at_once_and_each_is_used_again() {
    const THREADS: usize = 4;
    let scene = Scene::new();
    let dir = scene.repo.git_dir();
    let first = store(&Fs::real(), dir, false);
    (0..20).for_each(|round| transact_whole(&first, &pair(&scene, 0, round)).unwrap());
    assert_eq!(slots(dir).len(), 1);
    // Two stores, like those of two processes, and threads that want the same refs.
    let second = store(&Fs::real(), dir, false);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (store, scene) = (if thread < THREADS / 2 { &first } else { &second }, &scene);
            scope.spawn(move || {
                for round in 0..50 {
                    // A batch that had to wait too long does not matter here.
                    let _ = transact_whole(store, &pair(scene, round % 2, round));
                }
            });
        }
    });
    let now = slots(dir);
    assert!(now.len() <= 2 * THREADS && now.iter().all(|(_, names)| *names == 1), "{now:?}");
    assert_eq!((leftovers(dir), records(dir)), (Vec::new(), Vec::new()));
    // Recovery keeps journal files that a process owns.
    let held = std::fs::File::open(&now[0].0).unwrap();
    held.lock().unwrap();
    assert!(first.recover().unwrap().is_empty());
    assert_eq!(slots(dir), [now[0].clone()]);
    drop(held);
    second.recover().unwrap();
    assert_eq!(slots(dir), []);
    transact_whole(&first, &pair(&scene, 0, 0)).unwrap();
    assert_eq!(slots(dir).len(), 1, "the one that is gone is not missed");
}

/// Forbids to make a journal file, or the folder of journal files, as a folder of another user does.
struct OfAnother(&'static str);

impl refdb_vfs::IoHook for OfAnother {
    fn before(&self, op: refdb_vfs::Op<'_>) -> refdb_vfs::Verdict {
        use refdb_vfs::Op::{Create, MakeDir};
        match op {
            Create(path) | MakeDir(path) if path.to_string_lossy().contains(self.0) => {
                refdb_vfs::Verdict::Fail(std::io::ErrorKind::PermissionDenied.into())
            }
            _ => refdb_vfs::Verdict::Proceed,
        }
    }
}

/// Previously, each transaction of a batch's size failed, although it could be written to packed-refs.
#[test]
fn without_a_journal_file_that_may_be_made_a_batch_goes_to_packed_refs() {
    for forbidden in ["refdb-batches", "refdb-batches/"] {
        let scene = Scene::new();
        let fs = Fs::with_hook(std::sync::Arc::new(OfAnother(forbidden)));
        transact_whole(&store(&fs, scene.repo.git_dir(), true), &scene.wishes()).unwrap();
        assert_eq!(read(scene.repo.git_dir()), scene.after);
        assert!(!scene.repo.git_dir().join(META).exists());
    }
}

/// Counts the syncs of the repository's folder.
#[derive(Default)]
struct SyncsOf(PathBuf, std::sync::atomic::AtomicU32);

impl refdb_vfs::IoHook for SyncsOf {
    fn before(&self, op: refdb_vfs::Op<'_>) -> refdb_vfs::Verdict {
        if matches!(op, refdb_vfs::Op::SyncDir(folder) if folder == self.0) {
            self.1.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        }
        refdb_vfs::Verdict::Proceed
    }
}

#[test]
fn a_folder_of_records_that_somebody_removed_is_durable_again_before_it_is_needed() {
    let scene = Scene::new();
    let dir = scene.repo.git_dir();
    let syncs = std::sync::Arc::new(SyncsOf(dir.to_owned(), Default::default()));
    let store = store(&Fs::with_hook(std::sync::Arc::<SyncsOf>::clone(&syncs)), dir, true);
    let mut seen = 0;
    for round in 0..3 {
        transact_whole(&store, &pair(&scene, 0, round)).unwrap();
        let now = syncs.1.load(std::sync::atomic::Ordering::SeqCst);
        assert!(now > seen, "{now} syncs after round {round}");
        seen = now;
        std::fs::remove_dir_all(dir.join("refdb-batches")).unwrap();
    }
}

/// A disk that cannot sync the folder with the journal files.
struct UnsyncedFolder;

impl refdb_vfs::IoHook for UnsyncedFolder {
    fn before(&self, op: refdb_vfs::Op<'_>) -> refdb_vfs::Verdict {
        match op {
            refdb_vfs::Op::SyncDir(folder) if folder.ends_with("refdb-batches") => {
                refdb_vfs::Verdict::Fail(std::io::Error::from_raw_os_error(5))
            }
            _ => refdb_vfs::Verdict::Proceed,
        }
    }
}

/// Previously, each attempt left one more empty file that nobody used.
#[test]
fn journal_files_whose_names_cannot_be_made_durable_are_removed() {
    let scene = Scene::new();
    let dir = scene.repo.git_dir();
    let store = store(&Fs::with_hook(std::sync::Arc::new(UnsyncedFolder)), dir, true);
    for round in 0..3 {
        transact_whole(&store, &pair(&scene, 0, round)).unwrap_err();
        assert_eq!(slots(dir), []);
    }
}

/// Notes whether a journal file was synced before the first lock was a link to it.
#[derive(Default)]
struct SyncedFirst(Mutex<(bool, Option<bool>)>);

impl refdb_vfs::IoHook for SyncedFirst {
    fn before(&self, op: refdb_vfs::Op<'_>) -> refdb_vfs::Verdict {
        let (is_synced, at_link) = &mut *self.0.lock().unwrap();
        match op {
            refdb_vfs::Op::Sync(path) if path.extension().is_some_and(|end| end == "slot") => *is_synced = true,
            refdb_vfs::Op::Link(..) => drop(at_link.get_or_insert(*is_synced)),
            _ => {}
        }
        refdb_vfs::Verdict::Proceed
    }
}

/// Otherwise, a lock could lack the line that signs it after a loss of power.
#[test]
fn the_line_of_a_store_that_does_not_sync_is_synced_before_another_store_relies_on_it() {
    let scene = Scene::new();
    let dir = scene.repo.git_dir();
    transact_whole(&store(&Fs::real(), dir, false), &pair(&scene, 0, 0)).unwrap();
    let order = std::sync::Arc::new(SyncedFirst::default());
    let syncing = store(&Fs::with_hook(std::sync::Arc::<SyncedFirst>::clone(&order)), dir, true);
    transact_whole(&syncing, &pair(&scene, 0, 1)).unwrap();
    assert_eq!(order.0.lock().unwrap().1, Some(true));
    assert_eq!(slots(dir).len(), 1, "both used one file");
    // Another process writes its line, and the store that does not sync replaces it.
    let slot = slots(dir).remove(0).0;
    let mut bytes = std::fs::read(&slot).unwrap();
    bytes[0] ^= 1;
    std::fs::write(&slot, bytes).unwrap();
    transact_whole(&store(&Fs::real(), dir, false), &pair(&scene, 1, 0)).unwrap();
    *order.0.lock().unwrap() = (false, None);
    transact_whole(&syncing, &pair(&scene, 1, 1)).unwrap();
    assert_eq!(order.0.lock().unwrap().1, Some(true), "the store had synced the line once");
    assert_eq!(slots(dir).len(), 1, "all used one file");
}

/// A disk that fails the next sync of a journal file if told to. Notes whether, after that, a journal file was written
/// from its beginning and then synced before the first lock was a link to it.
#[derive(Default)]
struct FailsOnce(Mutex<Failing>);

#[derive(Default)]
struct Failing {
    fails: bool,
    has_failed: bool,
    is_written: bool,
    is_synced: bool,
    at_link: Option<bool>,
}

impl refdb_vfs::IoHook for FailsOnce {
    fn before(&self, op: refdb_vfs::Op<'_>) -> refdb_vfs::Verdict {
        let is_slot = |path: &Path| path.extension().is_some_and(|end| end == "slot");
        let mut now = self.0.lock().unwrap();
        match op {
            refdb_vfs::Op::Sync(path) if is_slot(path) && std::mem::take(&mut now.fails) => {
                *now = Failing { has_failed: true, ..Failing::default() };
                return refdb_vfs::Verdict::Fail(std::io::Error::from_raw_os_error(5));
            }
            refdb_vfs::Op::Sync(path) if is_slot(path) => now.is_synced = now.is_written,
            refdb_vfs::Op::Overwrite(path, 0, _) if is_slot(path) => now.is_written = true,
            refdb_vfs::Op::Link(..) => now.at_link = now.at_link.or(Some(now.is_synced)),
            _ => {}
        }
        refdb_vfs::Verdict::Proceed
    }
}

/// Previously, the next sync of such a line, which the disk had dropped, was believed, or none was tried.
#[test]
fn a_line_whose_sync_failed_is_written_again_before_a_store_relies_on_it() {
    for by_another in [false, true] {
        let scene = Scene::new();
        let dir = scene.repo.git_dir();
        let disk = std::sync::Arc::new(FailsOnce::default());
        let open = || store(&Fs::with_hook(std::sync::Arc::<FailsOnce>::clone(&disk)), dir, true);
        let (first, second) = (open(), open());
        for store in [&first, &second] {
            transact_whole(store, &pair(&scene, 0, 0)).unwrap();
        }
        // Another process writes its line, which the first store replaces.
        let slot = slots(dir).remove(0).0;
        let mut bytes = std::fs::read(&slot).unwrap();
        bytes[0] ^= 1;
        std::fs::write(&slot, bytes).unwrap();
        disk.0.lock().unwrap().fails = true;
        transact_whole(&first, &pair(&scene, 1, 0)).unwrap_err();
        assert!(disk.0.lock().unwrap().has_failed);
        transact_whole(if by_another { &second } else { &first }, &pair(&scene, 1, 1)).unwrap();
        assert_eq!(disk.0.lock().unwrap().at_link, Some(true), "by another: {by_another}");
        assert_eq!(slots(dir).len(), 1, "all used one file");
    }
}

/// Forbids to sync the folder of journal files while the flag is set, and counts its syncs.
#[derive(Default)]
struct FailingNames(Mutex<(bool, u32)>);

impl refdb_vfs::IoHook for FailingNames {
    fn before(&self, op: refdb_vfs::Op<'_>) -> refdb_vfs::Verdict {
        let (fails, synced) = &mut *self.0.lock().unwrap();
        match op {
            refdb_vfs::Op::SyncDir(path) if path.ends_with("refdb-batches") && *fails => {
                return refdb_vfs::Verdict::Fail(std::io::Error::from_raw_os_error(5));
            }
            refdb_vfs::Op::SyncDir(path) if path.ends_with("refdb-batches") => *synced += 1,
            _ => {}
        }
        refdb_vfs::Verdict::Proceed
    }
}

/// Previously, the next batch used the new file although its name could be lost.
#[test]
fn a_slot_whose_name_could_not_be_synced_is_not_relied_on() {
    let scene = Scene::new();
    let disk = std::sync::Arc::new(FailingNames::default());
    let store = store(&Fs::with_hook(std::sync::Arc::<FailingNames>::clone(&disk)), scene.repo.git_dir(), true);
    disk.0.lock().unwrap().0 = true;
    transact_whole(&store, &pair(&scene, 0, 0)).unwrap_err();
    disk.0.lock().unwrap().0 = false;
    transact_whole(&store, &pair(&scene, 0, 0)).unwrap();
    assert!(disk.0.lock().unwrap().1 > 0, "no name was synced");
}

#[test]
fn a_slot_of_which_a_lock_came_back_is_not_used_until_that_is_settled() {
    let scene = Scene::new();
    let dir = scene.repo.git_dir();
    transact_whole(&store(&Fs::real(), dir, true), &pair(&scene, 0, 0)).unwrap();
    let slot = slots(dir).remove(0).0;
    let stale = dir.join("refs/changes/00/1.lock");
    std::fs::hard_link(&slot, &stale).unwrap();
    let store = store(&Fs::real(), dir, true);
    transact_whole(&store, &pair(&scene, 1, 1)).unwrap();
    assert_eq!(slots(dir).len(), 2);
    assert!(stale.exists());
    // Nobody owns that lock, so the next writer of the ref takes it.
    transact(&store, &[set("refs/changes/00/1", scene.ids[2])]).unwrap();
    assert!(!stale.exists() && slot.exists());
    assert_eq!(read(dir)["refs/changes/00/1"], scene.ids[2].to_string());
}

#[test]
fn a_slot_holds_nothing_but_whole_records() {
    let scene = Scene::new();
    let (dir, ids) = (scene.repo.git_dir(), &scene.ids);
    let new_store = || store(&Fs::real(), dir, true);
    transact_whole(&new_store(), &pair(&scene, 0, 0)).unwrap();
    let slot = slots(dir).remove(0).0;
    let empty = std::fs::read(&slot).unwrap();
    assert!(empty.len() == 4096 && empty[512..].iter().all(|byte| *byte == 0));
    let record = journal(&[(LOOSE, Some(ids[0]), ids[1]), (PACKED, Some(ids[0]), ids[2])]).encode();
    let with = |record: &[u8]| [&empty[..512], record, &empty[512 + record.len()..]].concat();
    let harmed = [&record[..10], b"?", &record[11..]].concat();
    for (content, is_record) in [(&record[..], true), (&record[..99], false), (&harmed, true)] {
        slots(dir)
            .into_iter()
            .filter(|(other, _)| *other != slot)
            .for_each(|(other, _)| std::fs::remove_file(other).unwrap());
        std::fs::write(&slot, with(content)).unwrap();
        assert_eq!(new_store().journal_entries().unwrap().open.len(), usize::from(is_record));
        transact_whole(&new_store(), &pair(&scene, 1, 1)).unwrap();
        let is_used_again = std::fs::read(&slot).unwrap() == empty;
        assert!(is_used_again != is_record, "what could be a batch's record is left to who settles it");
    }
    assert!(new_store().recover().unwrap().pop().unwrap().1.is_err(), "a harmed one is for a person to look at");
    assert_eq!(read(dir)[PACKED], scene.before[PACKED]);
    // Nothing is written through a symbolic link.
    std::fs::remove_file(&slot).unwrap();
    let outside = tempfile::NamedTempFile::new().unwrap();
    std::os::unix::fs::symlink(outside.path(), &slot).unwrap();
    new_store().recover().unwrap();
    transact_whole(&new_store(), &pair(&scene, 2, 2)).unwrap();
    assert_eq!(outside.as_file().metadata().unwrap().len(), 0);
}

#[test]
fn a_record_longer_than_its_slot_makes_that_longer() {
    let scene = Scene::new();
    let dir = scene.repo.git_dir();
    let wishes: Vec<Wish> = (0..30)
        .map(|at| Wish { log: Some("x".repeat(300)), ..create(format!("refs/heads/many/{at:02}"), scene.ids[0]) })
        .collect();
    let store = store(&Fs::real(), dir, true);
    transact_whole(&store, &wishes).unwrap();
    transact_whole(&store, &pair(&scene, 0, 0)).unwrap();
    let slot = std::fs::read(&slots(dir).remove(0).0).unwrap();
    assert!(slot.len() > 9000 && slot[512..].iter().all(|byte| *byte == 0));
    assert_eq!(slots(dir).len(), 1);
    assert!((0..30).all(|at| dir.join(format!("refs/heads/many/{at:02}")).is_file()));
}

/// Such a batch once wrote a journal entry that nobody could read, so that the batch could not be recovered after a
/// kill.
#[test]
fn a_batch_whose_record_nobody_could_read_again_goes_to_packed_refs() {
    // With 32 refs: ten times the length that an entry may have, a little more than that length, and a little less.
    for message_len in [10 << 15, (1 << 15) + 100, (1 << 15) - 900] {
        let scene = Scene::new();
        let dir = scene.repo.git_dir();
        let wish = |at| Wish {
            log: Some("x".repeat(message_len)),
            ..create(format!("refs/heads/long/{at:02}"), scene.ids[0])
        };
        let wishes: Vec<Wish> = (0..32).map(wish).collect();
        transact_whole(&store(&Fs::real(), dir, true), &wishes).unwrap();
        let is_batch = dir.join("refs/heads/long/00").is_file();
        assert_eq!(is_batch, message_len < 1 << 15);
        let now = read(dir);
        assert!((0..32).all(|at| now[&format!("refs/heads/long/{at:02}")] == scene.ids[0].to_string()));
        assert!(store(&Fs::real(), dir, true).journal_entries().unwrap().open.is_empty());
        scene.repo.verify();
    }
}

/// Fails to remove a file.
struct Keeps(PathBuf);

impl refdb_vfs::IoHook for Keeps {
    fn before(&self, op: refdb_vfs::Op<'_>) -> refdb_vfs::Verdict {
        match op {
            refdb_vfs::Op::Remove(path) if path == self.0 => {
                refdb_vfs::Verdict::Fail(std::io::ErrorKind::PermissionDenied.into())
            }
            _ => refdb_vfs::Verdict::Proceed,
        }
    }
}

/// Regression: what became of the batches was not told if something failed after their recovery.
#[test]
fn batches_are_told_of_although_an_unused_slot_cannot_be_removed() {
    let scene = Scene::new();
    let (dir, ids) = (scene.repo.git_dir(), &scene.ids);
    transact_whole(&store(&Fs::real(), dir, false), &pair(&scene, 0, 0)).unwrap();
    let slot = slots(dir).remove(0).0;
    left_behind(dir, &journal(&[(LOOSE, Some(ids[1]), ids[2]), (PACKED, Some(ids[3]), ids[2])]));
    let store = store(&Fs::with_hook(std::sync::Arc::new(Keeps(slot.clone()))), dir, false);
    let mut outcomes = settle_when_free(&store);
    let (path, error) = outcomes.pop().unwrap();
    assert_eq!(path, dir.join("refs"));
    assert!(error.unwrap_err().to_string().contains(&slot.display().to_string()));
    assert_eq!(outcomes.remove(0).1.unwrap(), TakenOver::Recovered(Outcome::Dropped));
    assert!(slot.exists());
}
