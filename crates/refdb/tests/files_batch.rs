//! Small batches, which are written as loose files: a batch that was stopped at any operation is whole once it has been
//! recovered, and what is no small batch goes to packed-refs.
#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "files_batch/copies.rs"]
mod copies;
mod files_common;
#[path = "files_batch/slots.rs"]
mod slots;

use files_common::*;
use refdb::{
    HashKind, Maintenance, ObjectId, Result,
    files::{FilesBackend, FilesOptions, JournalEntry, JournalRef, Outcome, TakenOver},
};
use refdb_testkit::{
    ForeignLock, RefFormat, Repo,
    crash::{Crash, Disk, kill_everywhere, lose_power_everywhere, refuse_everywhere},
};
use refdb_types::RefName;
use refdb_vfs::{BatchId, Fs, Lock, LockTimeout, boot_id};
use std::{path::Path, thread, time::Duration};

fn store(fs: &Fs, dir: &Path, sync: bool) -> FilesBackend {
    batching(fs, dir, sync, Duration::from_millis(200))
}

const LOOSE: &str = "refs/heads/loose";
const PACKED: &str = "refs/heads/packed";
const META: &str = "refs/changes/45/12345/meta";
const PATCH_SET: &str = "refs/changes/45/12345/1";

/// A repository with a packed ref and a loose one with a reflog, for a batch that changes both and creates two more.
struct Scene {
    repo: Repo,
    ids: Vec<ObjectId>,
    before: Refs,
    after: Refs,
}

impl Scene {
    fn new() -> Self {
        let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
        repo.config("core.logAllRefUpdates", "always");
        let ids = repo.commits(4);
        repo.create_refs([(PACKED, ids[0]), (LOOSE, ids[0])]);
        repo.git(["pack-refs", "--all"]);
        repo.git(["update-ref", LOOSE, &ids[1].to_string()]);
        let before = read(repo.git_dir());
        let mut scene = Scene { repo, ids, after: before.clone(), before };
        for wish in scene.wishes() {
            scene.after.insert(wish.name.clone(), show_target(&wish.new.unwrap()));
        }
        scene
    }

    fn wishes(&self) -> Vec<Wish> {
        let logged = |wish: Wish| Wish { log: Some("in a batch".into()), ..wish };
        let id = self.ids[2];
        vec![logged(set(LOOSE, id)), set(PACKED, id), create(META, id), logged(create(PATCH_SET, id))]
    }

    /// Copies the refs without objects, which nobody reads here.
    fn refs_only(&self) -> tempfile::TempDir {
        let temp = tempfile::tempdir().unwrap();
        for file in ["packed-refs", LOOSE, "logs/refs/heads/loose"] {
            std::fs::create_dir_all(temp.path().join(file).parent().unwrap()).unwrap();
            std::fs::copy(self.repo.git_dir().join(file), temp.path().join(file)).unwrap();
        }
        temp
    }

    fn work(&self, sync: bool) -> impl Fn(&Fs, &Path) -> Result<()> {
        let wishes = self.wishes();
        move |fs, dir| transact_whole(&store(fs, dir, sync), &wishes)
    }

    /// Whether every ref has its old or its new value.
    fn is_mixed(&self, now: &Refs) -> bool {
        let names = self.before.keys().chain(self.after.keys()).chain(now.keys());
        names.into_iter().all(|name| [self.before.get(name), self.after.get(name)].contains(&now.get(name)))
    }

    fn is_whole(&self, dir: &Path, crash: &Crash) -> bool {
        let now = read(dir);
        now == self.after || !crash.claimed && now == self.before
    }

    /// Whether each reflog of the batch has exactly one line that ends with the batch's message.
    fn has_logs(&self, dir: &Path) -> bool {
        let entries = |name: &str| {
            let log = std::fs::read_to_string(dir.join("logs").join(name)).unwrap_or_default();
            log.lines().filter(|line| line.ends_with("\tin a batch")).count()
        };
        entries(LOOSE) == 1 && entries(PATCH_SET) == 1
    }
}

/// Returns the file names of the journal entries that are open, and of those that a recovery has set aside.
fn records(dir: &Path) -> Vec<String> {
    let unsettled = store(&Fs::real(), dir, false).journal_entries().unwrap();
    let records = unsettled.open.iter().chain(&unsettled.left);
    records.map(|record| record.file_name().unwrap().to_str().unwrap().to_owned()).collect()
}

/// Recovers all batches, none of which may end half-done.
fn settle(dir: &Path) {
    for (path, taken_over) in settle_when_free(&store(&Fs::real(), dir, false)) {
        let taken_over = taken_over.unwrap();
        assert!(
            matches!(taken_over, TakenOver::Recovered(Outcome::Complete | Outcome::Dropped)),
            "{path:?} {taken_over:?}"
        );
    }
    assert_eq!(records(dir), Vec::<String>::new());
}

#[test]
fn a_small_batch_becomes_loose_files_and_leaves_nothing_beside_them() {
    let scene = Scene::new();
    let packed = std::fs::read(scene.repo.git_dir().join("packed-refs")).unwrap();
    for sync in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("copy");
        assert!(
            std::process::Command::new("cp").arg("-a").arg(scene.repo.git_dir()).arg(&dir).status().unwrap().success()
        );
        scene.work(sync)(&Fs::real(), &dir).unwrap();
        assert_eq!(read(&dir), scene.after);
        assert!(scene.has_logs(&dir));
        assert_eq!(std::fs::read(dir.join("packed-refs")).unwrap(), packed, "it is not written");
        assert!([LOOSE, PACKED, META, PATCH_SET].iter().all(|name| dir.join(name).is_file()));
        assert_eq!((leftovers(&dir), records(&dir)), (Vec::new(), Vec::new()));
        assert_eq!(store(&Fs::real(), &dir, false).journal_entries().unwrap(), refdb::files::JournalEntries::default());
    }
}

#[test]
fn what_is_no_small_batch_goes_to_packed_refs_as_ever() {
    let scene = Scene::new();
    let dir = scene.repo.git_dir();
    let id = scene.ids[3];
    let store = store(&Fs::real(), dir, false);
    let loose = |name: &str| dir.join(name).is_file();
    let many: Vec<Wish> = (0..33).map(|at| create(format!("refs/heads/many/{at}"), id)).collect();
    transact_whole(&store, &many).unwrap();
    transact_whole(&store, &[create("refs/heads/a", id), delete(PACKED)]).unwrap();
    let long = format!("refs/heads/{}", "x".repeat(250));
    transact_whole(&store, &[create("refs/heads/b", id), create(&long, id)]).unwrap();
    std::os::unix::fs::symlink("heads", dir.join("refs/other")).unwrap();
    transact_whole(&store, &[create("refs/heads/c", id), create("refs/tags/d", id)]).unwrap();
    transact_whole(&store, &[create("refs/other/through", id), create("refs/tags/e", id)]).unwrap();
    scene.repo.git(["symbolic-ref", "refs/heads/sym", LOOSE]);
    transact_whole(&store, &[set("refs/heads/sym", id), create("refs/tags/f", id)]).unwrap();
    // Previously, the journal entry said that this ref did not exist.
    std::fs::write(dir.join("refs/heads/null"), format!("{}\n", ObjectId::null(HashKind::Sha1))).unwrap();
    transact_whole(&store, &[set("refs/heads/null", id), create("refs/tags/g", id)]).unwrap();
    let packed = ["refs/heads/many/7", "refs/heads/a", "refs/heads/b", &long, "refs/tags/e", "refs/tags/f"];
    for name in packed.into_iter().chain(["refs/heads/null", "refs/tags/g"]) {
        assert!(!loose(name), "{name}");
        assert_eq!(read(dir)[name], id.to_string(), "{name}");
    }
    assert!(loose("refs/heads/c") && loose("refs/tags/d"));
    assert_eq!(read(dir)["refs/heads/sym"], id.to_string());
    assert_eq!((leftovers(dir), records(dir)), (Vec::new(), Vec::new()));
}

#[test]
fn a_batch_that_turns_out_too_large_waits_for_packed_refs_as_any_transaction_does() {
    let scene = Scene::new();
    let (dir, id) = (scene.repo.git_dir(), scene.ids[3]);
    let store = batching(&Fs::real(), dir, false, Duration::from_secs(60));
    // A journal entry has at most 1 MiB.
    let log = Some("x".repeat(1 << 20));
    let wishes = ["refs/heads/a", "refs/heads/b"].map(|name| Wish { log: log.clone(), ..create(name, id) });
    let foreign = ForeignLock::of(&dir.join("packed-refs"));
    thread::scope(|scope| {
        let writer = scope.spawn(|| transact_whole(&store, &wishes));
        thread::sleep(Duration::from_millis(500));
        drop(foreign);
        writer.join().unwrap().unwrap();
    });
    assert_eq!(read(dir)["refs/heads/b"], id.to_string());
    assert!(!dir.join("refs/heads/b").exists(), "it is no small batch");
}

#[test]
fn a_batch_is_whole_wherever_it_is_killed_once_it_is_settled() {
    let scene = Scene::new();
    let mixed = std::cell::Cell::new(0);
    for sync in [false, true] {
        kill_everywhere(scene.refs_only().path(), scene.work(sync), |dir, crash| {
            let now = read(dir);
            assert!(scene.is_mixed(&now), "{now:?}");
            mixed.set(mixed.get() + u32::from(now != scene.before && now != scene.after));
            settle(dir);
            assert!(scene.is_whole(dir, crash), "{:?}", read(dir));
            assert!(read(dir) == scene.before || scene.has_logs(dir));
        });
    }
    assert!(mixed.get() > 0, "the explorer stops between the renames");
}

#[test]
fn settling_leaves_no_lock_of_a_killed_batch_though_it_had_no_record() {
    let scene = Scene::new();
    kill_everywhere(scene.refs_only().path(), scene.work(true), |dir, _| {
        settle(dir);
        // New content without its lock is in nobody's way.
        let is_lock = |path: &std::path::PathBuf| !path.to_string_lossy().ends_with(".lock.lock");
        let locks: Vec<_> = leftovers(dir).into_iter().filter(is_lock).collect();
        assert!(locks.is_empty(), "git would wait for them: {locks:?}");
    });
}

#[test]
fn who_wants_a_ref_of_a_dead_batch_settles_it_first() {
    let scene = Scene::new();
    let last = scene.ids[3].to_string();
    for name in [META, LOOSE] {
        kill_everywhere(scene.refs_only().path(), scene.work(false), |dir, crash| {
            transact(&store(&Fs::real(), dir, false), &[set(name, scene.ids[3])]).unwrap();
            let mut now = read(dir);
            assert_eq!(now.insert(name.to_owned(), String::new()).as_ref(), Some(&last));
            let without = |refs: &Refs| {
                refs.iter().filter(|(other, _)| *other != name).map(|(n, v)| (n.clone(), v.clone())).collect::<Refs>()
            };
            let (now, before, after) = (without(&now), without(&scene.before), without(&scene.after));
            assert!(now == after || !crash.claimed && now == before, "{now:?}");
            // A packer removes the locks of refs that nobody has wanted.
            store(&Fs::real(), dir, false).optimize(&pack_all()).unwrap();
            assert_eq!((leftovers(dir), without(&read(dir))), (Vec::new(), now));
        });
    }
}

#[test]
fn a_batch_whose_write_fails_is_settled_before_it_answers() {
    let scene = Scene::new();
    for sync in [false, true] {
        refuse_everywhere(scene.refs_only().path(), scene.work(sync), |dir, crash| {
            let expected = if crash.claimed { &scene.after } else { &scene.before };
            assert_eq!(read(dir), *expected);
            assert_eq!(records(dir), Vec::<String>::new());
            let stuck = usize::from(crash.next.starts_with("remove"));
            assert!(leftovers(dir).len() <= stuck, "{:?}", leftovers(dir));
        });
    }
}

#[test]
fn a_batch_is_whole_after_a_loss_of_power_once_it_is_settled() {
    let scene = Scene::new();
    let disks = std::cell::Cell::new(0);
    for disk in [Disk::Journaled, Disk::Unordered] {
        lose_power_everywhere(scene.refs_only().path(), disk, scene.work(true), |dir, crash| {
            let now = read(dir);
            assert!(scene.is_mixed(&now), "{now:?}");
            settle(dir);
            assert!(scene.is_whole(dir, crash), "{:?}", read(dir));
            // A lock that has outlasted its process must keep nobody out. Only some disks are looked at, because all
            // would take a minute.
            disks.set(disks.get() + 1);
            if disks.get() % 8 == 1 || crash.claimed {
                copies::is_usable(&scene, dir);
            }
        });
    }
}

#[test]
fn a_change_right_after_a_batch_is_not_taken_back_by_its_record() {
    let scene = Scene::new();
    let mut last = scene.after.clone();
    last.remove(META);
    let work = |fs: &Fs, dir: &Path| {
        scene.work(true)(fs, dir)?;
        transact(&store(fs, dir, true), &[delete(META)])
    };
    lose_power_everywhere(scene.refs_only().path(), Disk::Unordered, work, |dir, crash| {
        settle(dir);
        let now = read(dir);
        // If the journal entry came back, recovery would create the ref again.
        assert!(now == last || !crash.claimed && (now == scene.before || now == scene.after), "{now:?}");
    });
}

#[test]
fn settling_is_whole_wherever_it_is_stopped() {
    let scene = Scene::new();
    let wishes = scene.wishes();
    let half = std::cell::Cell::new(0);
    let work = |fs: &Fs, dir: &Path| -> Result<()> {
        let outcomes = store(fs, dir, true).recover()?;
        outcomes.into_iter().try_for_each(|(_, outcome)| outcome.map(drop))
    };
    let killed = |fs: &Fs, dir: &Path| transact_whole(&store(fs, dir, true), &wishes);
    kill_everywhere(scene.refs_only().path(), killed, |dir, crash| {
        // Covers batches killed between the renames, and at the beginning and the end of the journal entry's life.
        if records(dir).is_empty() {
            return;
        }
        half.set(half.get() + 1);
        let is_whole = |dir: &Path| {
            settle(dir);
            assert!(scene.is_whole(dir, crash), "{:?}", read(dir));
        };
        kill_everywhere(dir, work, |dir, _| is_whole(dir));
        if half.get() == 6 {
            lose_power_everywhere(dir, Disk::Unordered, work, |dir, _| is_whole(dir));
        }
    });
    assert!(half.get() > 6, "{}", half.get());
}

/// Leaves a journal entry and locks, as a process that was killed would.
fn left_behind(dir: &Path, journal: &JournalEntry) -> BatchId {
    let id = BatchId::random();
    let fs = Fs::real().signing_locks();
    for entry in &journal.refs {
        let target = dir.join(entry.name.to_string());
        std::fs::create_dir_all(target.parent().unwrap()).unwrap();
        drop(Lock::acquire_for_batch(&fs, &target, LockTimeout::None, id, false).unwrap().unwrap().into_source());
    }
    std::fs::create_dir_all(dir.join("refdb-batches")).unwrap();
    std::fs::write(dir.join(format!("refdb-batches/{id}")), journal.encode()).unwrap();
    id
}

fn journal(refs: &[(&str, Option<ObjectId>, ObjectId)]) -> JournalEntry {
    let refs = refs.iter().map(|(name, old, new)| JournalRef {
        name: RefName::new(*name).unwrap(),
        old: *old,
        new: *new,
        log: None,
    });
    JournalEntry { hash: HashKind::Sha1, synced: true, boot: boot_id().unwrap().into(), refs: refs.collect() }
}

#[test]
fn a_ref_with_neither_value_stays_and_is_named() {
    let scene = Scene::new();
    let (dir, ids) = (scene.repo.git_dir(), &scene.ids);
    let store = store(&Fs::real(), dir, false);
    let outcome = || settle_when_free(&store).pop().unwrap().1.unwrap();
    // A batch is dropped if none of its changes can be seen. Otherwise refs with their old values are changed as well,
    // and the others are named.
    left_behind(dir, &journal(&[(LOOSE, Some(ids[1]), ids[2]), (PACKED, Some(ids[3]), ids[2])]));
    assert_eq!(outcome(), TakenOver::Recovered(Outcome::Dropped));
    assert_eq!(read(dir), scene.before);
    left_behind(dir, &journal(&[(META, None, ids[3]), (LOOSE, Some(ids[0]), ids[1]), (PACKED, Some(ids[3]), ids[2])]));
    let half = Outcome::Half(vec![PACKED.into()]);
    assert_eq!(outcome(), TakenOver::Recovered(half));
    assert_eq!((&read(dir)[META], &read(dir)[PACKED]), (&ids[3].to_string(), &ids[0].to_string()));
    let unsettled = store.journal_entries().unwrap();
    assert_eq!((unsettled.open.len(), unsettled.left.len()), (0, 1));
    // A transaction on another ref leaves the locks of a dead batch alone; recovery removes them.
    left_behind(dir, &journal(&[("refs/heads/loose2", None, ids[1]), ("refs/heads/packed", Some(ids[3]), ids[0])]));
    transact(&store, &[create("refs/tags/x", ids[1])]).unwrap();
    assert_eq!(leftovers(dir).len(), 2);
    outcome();
    assert_eq!(leftovers(dir).len(), 0);
}

#[test]
fn a_record_does_nothing_that_its_writer_could_not() {
    let scene = Scene::new();
    let (dir, ids) = (scene.repo.git_dir(), &scene.ids);
    let store = store(&Fs::real(), dir, false);
    let outside = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(outside.path(), dir.join("refs/out")).unwrap();
    let id = left_behind(dir, &journal(&[(LOOSE, Some(ids[0]), ids[1]), ("refs/out/x", None, ids[2])]));
    assert!(settle_when_free(&store).pop().unwrap().1.is_err(), "a link is on the way");
    assert!(!outside.path().join("x").exists());
    let record = dir.join(format!("refdb-batches/{id}"));
    // Journal entries that are torn, symbolic links or folders are refused.
    let bytes = std::fs::read(&record).unwrap();
    std::fs::write(&record, &bytes[..bytes.len() - 3]).unwrap();
    assert!(settle_when_free(&store).pop().unwrap().1.is_err());
    std::fs::rename(&record, outside.path().join("record")).unwrap();
    std::os::unix::fs::symlink(outside.path().join("record"), &record).unwrap();
    assert!(settle_when_free(&store).pop().unwrap().1.is_err());
    std::fs::remove_file(&record).unwrap();
    std::fs::create_dir(&record).unwrap();
    assert!(settle_when_free(&store).pop().unwrap().1.is_err());
    std::fs::remove_file(dir.join("refs/out")).unwrap();
    assert_eq!(read(dir), scene.before);
    // The locks of such a batch stay in the meantime.
    assert!(transact(&store, &[set(LOOSE, ids[3])]).is_err());
    std::fs::remove_dir(&record).unwrap();
    transact(&store, &[set(LOOSE, ids[3])]).unwrap();
}

#[test]
fn a_record_writes_no_reflog_behind_a_link() {
    let scene = Scene::new();
    let (dir, ids) = (scene.repo.git_dir(), &scene.ids);
    let outside = tempfile::tempdir().unwrap();
    let file = outside.path().join("x");
    std::fs::write(&file, "mine\n").unwrap();
    let refs = ["refs/heads/direct", "refs/behind/folder"];
    std::os::unix::fs::symlink(&file, dir.join("logs").join(refs[0])).unwrap();
    std::os::unix::fs::symlink(outside.path(), dir.join("logs/refs/behind")).unwrap();
    let mut journal = journal(&[(refs[1], None, ids[1]), (refs[0], None, ids[1]), (LOOSE, Some(ids[0]), ids[1])]);
    for entry in &mut journal.refs {
        entry.log = Some("a line".into());
    }
    left_behind(dir, &journal);
    settle(dir);
    assert_eq!(refs.map(|name| read(dir)[name].clone()), [ids[1].to_string(), ids[1].to_string()]);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine\n");
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 1);
}

#[test]
fn an_unsynced_record_from_before_the_last_boot_is_dropped() {
    let scene = Scene::new();
    let (dir, ids) = (scene.repo.git_dir(), &scene.ids);
    let both = journal(&[(LOOSE, Some(ids[0]), ids[1]), (PACKED, Some(ids[0]), ids[2])]);
    left_behind(dir, &JournalEntry { synced: false, boot: "another".into(), ..both });
    settle(dir);
    assert_eq!(read(dir), scene.before);
    assert_eq!(leftovers(dir).len(), 0);
}

#[test]
fn a_batch_under_way_is_left_alone() {
    let scene = Scene::new();
    let (dir, ids) = (scene.repo.git_dir(), &scene.ids);
    let journal = journal(&[(LOOSE, Some(ids[0]), ids[1]), (PACKED, Some(ids[0]), ids[2])]);
    let id = left_behind(dir, &journal);
    let locks = dir.join(format!("{PACKED}.lock"));
    let held = std::fs::File::open(&locks).unwrap();
    held.lock().unwrap();
    assert_eq!(store(&Fs::real(), dir, false).recover().unwrap().pop().unwrap().1.unwrap(), TakenOver::Busy);
    assert_eq!(records(dir), [id.to_string()]);
    drop(held);
    settle(dir);
    assert_eq!(read(dir)[PACKED], ids[2].to_string());
}

#[test]
fn the_setting_decides_once_packed_refs_is_large() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let id = repo.commit();
    let lines: String = (0..20_000).map(|at| format!("{id} refs/heads/{at:06}\n")).collect();
    let head = "# pack-refs with: peeled fully-peeled sorted \n";
    assert!(lines.len() > 1 << 20);
    for (large, setting, is_loose) in [(true, "loose", true), (false, "loose", false), (true, "packed", false)] {
        let content = if large { format!("{head}{lines}") } else { head.to_owned() };
        std::fs::write(repo.git_dir().join("packed-refs"), content).unwrap();
        let open = |setting: &str| {
            let builder = refdb::Store::builder(repo.git_dir()).fs(Fs::real().signing_locks());
            builder.config(format!("refdb.smallBatches={setting}")).open().unwrap()
        };
        let names = ["x", "y"].map(|last| format!("refs/heads/{setting}{large}{last}"));
        let commit = |store: &refdb::Store| {
            let mut transaction = store.transaction();
            transaction.options(refdb::TransactionOptions::new().atomic_visibility(true));
            for name in &names {
                transaction.create(name, id);
            }
            transaction.commit().map(drop)
        };
        let error = commit(&open("sometimes")).unwrap_err();
        assert!(error.to_string().contains("'refdb.smallBatches': use packed, loose or auto"), "{error}");
        commit(&open(setting)).unwrap();
        assert!(names.iter().all(|name| repo.git_dir().join(name).is_file() == is_loose), "{setting} {large}");
        assert!(names.iter().all(|name| repo.git(["rev-parse", name]) == id.to_string()));
    }
}

/// Writers change whole pairs while git packs, and while git creates and deletes another ref.
#[test]
fn pairs_stay_pairs_beside_git_that_packs_and_writes() {
    const ROUNDS: usize = 40;
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let ids = repo.commits(3);
    let pair = |writer: usize| [1, 2].map(|of| format!("refs/changes/{writer}/{of}"));
    let patient = |dir: &Path| {
        let lock_timeout = Some(LockTimeout::For(Duration::from_secs(60)));
        let options = options(Fs::real().signing_locks(), dir, HashKind::Sha1);
        FilesBackend::new(FilesOptions {
            loose_batches_from: Some(0),
            ref_lock_timeout: lock_timeout,
            packed_lock_timeout: lock_timeout,
            ..options
        })
    };
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..2)
            .map(|writer| {
                let (repo, ids, pair) = (&repo, &ids, &pair);
                scope.spawn(move || {
                    let store = patient(repo.git_dir());
                    for round in 0..ROUNDS {
                        transact_whole(&store, &pair(writer).map(|name| set(name, ids[round % 3]))).unwrap();
                        let now = read(repo.git_dir());
                        assert!(pair(writer).iter().all(|name| now[name] == ids[round % 3].to_string()), "{now:?}");
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            while !done.load(std::sync::atomic::Ordering::Acquire) {
                // Git may give up at a lock that is held.
                repo.try_git(["pack-refs", "--all"], "");
                repo.try_git(["update-ref", "refs/changes/0/git", &ids[0].to_string()], "");
                repo.try_git(["update-ref", "-d", "refs/changes/0/git"], "");
            }
        });
        let results: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        done.store(true, std::sync::atomic::Ordering::Release);
        assert!(results.iter().all(|result| result.is_ok()));
    });
    let now = read(repo.git_dir());
    for writer in 0..2 {
        assert!(pair(writer).iter().all(|name| now[name] == ids[(ROUNDS - 1) % 3].to_string()), "{now:?}");
    }
    assert_eq!((leftovers(repo.git_dir()), records(repo.git_dir())), (Vec::new(), Vec::new()));
}
