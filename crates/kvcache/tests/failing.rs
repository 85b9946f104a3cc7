//! Machines that refuse to bring bytes to stable storage, or to start threads, and folders that others change.

mod common;

use common::{eventually, open, patient};
use refdb_kvcache::{Cache, Clock, Durability, Options, Put, PutOptions};
use refdb_vfs::{Fs, IoHook, Op, Verdict};
use std::{
    collections::HashMap,
    io,
    ops::Range,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        Arc, Mutex, OnceLock, Weak,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

const MIB: u64 = 1 << 20;
const FOLDER: &str = "REFDB_FAILING_FOLDER";

/// A disk as Linux shows it: bytes that could not be brought to stable storage are dropped, which is reported once, and
/// the next sync succeeds without them.
#[derive(Default)]
struct Forgetful {
    fails: AtomicBool,
    /// How many more syncs of a segment fail.
    left: AtomicU32,
    /// Whether no file can be removed either.
    keeps: AtomicBool,
    synced: Mutex<HashMap<PathBuf, u64>>,
    dropped: Mutex<Vec<(PathBuf, Range<u64>)>>,
}

impl IoHook for Forgetful {
    fn before(&self, op: Op<'_>) -> Verdict {
        let path = match op {
            Op::Sync(path) => path,
            Op::Remove(_) if self.keeps.load(Ordering::Relaxed) => {
                return Verdict::Fail(io::Error::from_raw_os_error(5));
            }
            _ => return Verdict::Proceed,
        };
        let len = std::fs::metadata(path).expect("a file that is synced is there").len();
        let before = self.synced.lock().expect("nobody panics with it").insert(path.to_owned(), len).unwrap_or(0);
        let fails = || {
            let less = |left: u32| left.checked_sub(1);
            self.fails.load(Ordering::Relaxed)
                || self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
        };
        if path.extension().is_none_or(|end| end != "seg") || !fails() {
            return Verdict::Proceed;
        }
        self.dropped.lock().expect("nobody panics with it").push((path.to_owned(), before..len));
        Verdict::Fail(io::Error::from_raw_os_error(5))
    }
}

impl Forgetful {
    /// Replaces what the disk has dropped by zeros, because only memory still had it.
    fn lose_power(&self) {
        for (path, range) in self.dropped.lock().expect("nobody panics with it").drain(..) {
            if let Ok(file) = std::fs::OpenOptions::new().write(true).open(path) {
                let zeros = vec![0; (range.end - range.start) as usize];
                file.write_all_at(&zeros, range.start).expect("the file can be written to");
            }
        }
    }
}

/// Previously, an acknowledged removal was undone, because it came after another one that the disk had dropped.
#[test]
fn what_is_synced_after_a_sync_that_failed_survives_a_loss_of_power() {
    for sealed in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let disk = Arc::new(Forgetful::default());
        let cache = Cache::open_on(Fs::with_hook(disk.clone()), dir.path(), patient(4 * MIB)).unwrap();
        let synced = PutOptions::new().durability(Durability::Synced);
        cache.put_with(b"one", b"session", synced).unwrap();
        cache.put_with(b"other", b"session", synced).unwrap();
        disk.fails.store(true, Ordering::Relaxed);
        cache.remove_with(b"one", Durability::Synced).expect_err("it is not on stable storage");
        if sealed {
            for i in 0..40u32 {
                cache.put(&i.to_le_bytes(), &[1; 4_000]).unwrap();
            }
        }
        disk.fails.store(false, Ordering::Relaxed);
        // The worker may still have to notice that a full segment could not be synced.
        let is_removed = || cache.remove_with(b"other", Durability::Synced).is_ok();
        eventually(is_removed, || format!("{:?}", cache.last_disk_error()));
        cache.put_with(b"next", b"session", synced).unwrap();
        cache.abandon();
        disk.lose_power();
        let cache = open(dir.path(), 4 * MIB);
        assert_eq!(cache.get(b"other"), None, "a removal that was synced");
        assert_eq!(cache.get(b"next").map(|found| found.value).as_deref(), Some(&b"session"[..]));
    }
}

/// Syncs an entry, and finds it after a loss of power, in a cache that has nothing to report.
fn assert_keeps_what_is_synced_now(cache: Cache, disk: &Forgetful, dir: &Path) {
    cache.put_with(b"next", b"session", PutOptions::new().durability(Durability::Synced)).expect("the disk works");
    cache.abandon();
    disk.lose_power();
    let cache = open(dir, 4 * MIB);
    assert!(cache.notices().is_empty(), "{:?}", cache.notices());
    assert_eq!(cache.get(b"next").map(|found| found.value).as_deref(), Some(&b"session"[..]));
}

/// Previously, the failure was ignored, and after a loss of power the cache started without what was synced later.
#[test]
fn what_is_synced_after_an_opening_whose_sync_failed_survives_a_loss_of_power() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Arc::new(Forgetful::default());
    let open_on = || Cache::open_on(Fs::with_hook(disk.clone()), dir.path(), patient(4 * MIB)).unwrap();
    let synced = PutOptions::new().durability(Durability::Synced);
    let killed = open_on();
    killed.put_with(b"one", b"session", synced).unwrap();
    killed.put_with(b"two", b"session", PutOptions::new().durability(Durability::Written)).unwrap();
    killed.abandon();
    disk.fails.store(true, Ordering::Relaxed);
    let cache = open_on();
    disk.fails.store(false, Ordering::Relaxed);
    assert!(cache.notices().iter().any(|notice| notice.to_string().contains("os error 5")), "{:?}", cache.notices());
    assert_keeps_what_is_synced_now(cache, &disk, dir.path());
}

/// Previously, the next opening trusted the segment whose sync had failed, so that a loss of power took what was synced
/// after it.
#[test]
fn a_segment_whose_sync_failed_is_not_trusted_though_it_could_not_be_deleted() {
    for fails_at_opening in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let disk = Arc::new(Forgetful::default());
        let open_on = || Cache::open_on(Fs::with_hook(disk.clone()), dir.path(), patient(4 * MIB));
        let breaks = |is_broken| {
            disk.fails.store(is_broken, Ordering::Relaxed);
            disk.keeps.store(is_broken, Ordering::Relaxed);
        };
        let synced = PutOptions::new().durability(Durability::Synced);
        let killed = open_on().unwrap();
        killed.put_with(b"one", b"session", synced).unwrap();
        killed.put_with(b"two", b"session", PutOptions::new().durability(Durability::Written)).unwrap();
        if fails_at_opening {
            killed.abandon();
            breaks(true);
            assert!(open_on().is_err(), "the segment is still there");
        } else {
            breaks(true);
            killed.flush(Durability::Synced).expect_err("the segment is still there");
            killed.abandon();
        }
        breaks(false);
        let cache = open_on().unwrap();
        assert_eq!(cache.get(b"one"), None);
        assert_keeps_what_is_synced_now(cache, &disk, dir.path());
    }
}

/// Previously, the write was tried again after the failure had emptied the cache, and closing reported a success.
#[test]
fn closing_reports_a_failed_sync_that_emptied_the_cache() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Arc::new(Forgetful::default());
    let cache = Cache::open_on(Fs::with_hook(disk.clone()), dir.path(), patient(4 * MIB)).unwrap();
    cache.put_with(b"synced", b"session", PutOptions::new().durability(Durability::Synced)).unwrap();
    cache.put(b"buffered", b"session").unwrap();
    disk.fails.store(true, Ordering::Relaxed);
    cache.close().expect_err("the cache lost an entry that had been synced");
    assert_eq!(cache.get(b"synced"), None);
}

/// Previously, only the sync of the last write was reported.
#[test]
fn closing_reports_a_failed_sync_of_the_merge_that_emptied_the_cache() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Arc::new(Forgetful::default());
    let open_idle = || Cache::open_idle(Fs::with_hook(disk.clone()), dir.path(), patient(MIB)).unwrap();
    let synced = PutOptions::new().durability(Durability::Synced);
    // Each killed process leaves a segment; three quarters of 192 are many.
    for key in 0..150u32 {
        let cache = open_idle();
        cache.put_with(&key.to_le_bytes(), b"session", synced).unwrap();
        cache.abandon();
    }
    let cache = open_idle();
    assert_eq!(cache.stats().entries, 150);
    disk.fails.store(true, Ordering::Relaxed);
    cache.close().expect_err("the cache lost entries that had been synced");
    assert_eq!(cache.stats().entries, 0);
}

/// Opens a cache at a time, whose entries expire after a minute. It has no threads, which might evict expired entries
/// before the clock is set back.
fn open_at(disk: &Arc<Forgetful>, dir: &Path, now_ms: u64) -> Cache {
    let mut options = patient(MIB).max_age(Duration::from_secs(60));
    options.clock = Clock::new(move || now_ms);
    Cache::open_idle(Fs::with_hook(disk.clone()), dir, options).expect("the cache opens")
}

/// Previously, the cache could not be opened.
#[test]
fn a_cache_opens_though_a_sync_fails_while_expired_entries_are_forgotten() {
    const START_MS: u64 = 100_000_000;
    let dir = tempfile::tempdir().unwrap();
    let disk = Arc::new(Forgetful::default());
    let open_at = |now_ms| open_at(&disk, dir.path(), now_ms);
    let synced = PutOptions::new().durability(Durability::Synced);
    open_at(START_MS).put_with(b"old", b"session", synced).unwrap();
    drop(open_at(START_MS + 61_000));
    disk.fails.store(true, Ordering::Relaxed);
    let cache = open_at(START_MS + 30_000);
    disk.fails.store(false, Ordering::Relaxed);
    assert!(cache.notices().iter().any(|notice| notice.to_string().contains("os error 5")), "{:?}", cache.notices());
    assert_eq!(cache.get(b"old"), None);
    cache.put_with(b"new", b"session", synced).unwrap();
    cache.abandon();
    disk.lose_power();
    let cache = open_at(START_MS + 30_000);
    assert_eq!(cache.get(b"old"), None);
    assert!(cache.get(b"new").is_some() && cache.notices().is_empty(), "{:?}", cache.notices());
}

/// Previously, each later start of the cache removed them, as if the clock were still ahead.
#[test]
fn what_is_put_after_expired_entries_could_not_be_forgotten_for_good_stays() {
    const START_MS: u64 = 100_000_000;
    const BEFORE_MS: u64 = START_MS - 30_000;
    for fails in [0, 1, 2] {
        let dir = tempfile::tempdir().unwrap();
        let disk = Arc::new(Forgetful::default());
        let open_at = |now_ms| open_at(&disk, dir.path(), now_ms);
        let synced = PutOptions::new().durability(Durability::Synced);
        open_at(START_MS).put_with(b"old", b"session", synced).unwrap();
        drop(open_at(START_MS + 61_000));
        disk.left.store(fails, Ordering::Relaxed);
        let cache = open_at(BEFORE_MS);
        disk.left.store(0, Ordering::Relaxed);
        cache.put_with(b"new", b"session", synced).unwrap();
        cache.close().unwrap();
        let cache = open_at(BEFORE_MS);
        assert_eq!(cache.get(b"old"), None);
        assert!(cache.get(b"new").is_some(), "{fails} failed syncs: {:?}", cache.notices());
    }
}

/// Previously, the segment whose sync had failed was trusted as long as nothing else failed.
#[test]
fn one_failed_sync_at_an_opening_that_forgets_expired_entries_empties_the_cache() {
    const START_MS: u64 = 100_000_000;
    let dir = tempfile::tempdir().unwrap();
    let disk = Arc::new(Forgetful::default());
    let open_at = |now_ms| open_at(&disk, dir.path(), now_ms);
    let cache = open_at(START_MS);
    cache.put_with(b"first", b"session", PutOptions::new().durability(Durability::Synced)).unwrap();
    cache.put_with(b"young", b"session", PutOptions::new().durability(Durability::Written)).unwrap();
    cache.close().unwrap();
    drop(open_at(START_MS + 50_000));
    disk.left.store(1, Ordering::Relaxed);
    let cache = open_at(START_MS + 10_000);
    assert!(cache.notices().iter().any(|notice| notice.to_string().contains("os error 5")), "{:?}", cache.notices());
    assert_eq!(cache.get(b"young"), None, "its bytes may be lost");
}

/// Previously, each later sync failed at the lost segment and removed all entries again, as long as the segment could
/// not be deleted.
#[test]
fn a_void_segment_whose_sync_failed_keeps_nothing_from_being_synced() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Arc::new(Forgetful::default());
    let cache = Cache::open_on(Fs::with_hook(disk.clone()), dir.path(), patient(4 * MIB)).unwrap();
    cache.put_with(b"one", b"session", PutOptions::new().durability(Durability::Written)).unwrap();
    disk.fails.store(true, Ordering::Relaxed);
    disk.keeps.store(true, Ordering::Relaxed);
    cache.flush(Durability::Synced).expect_err("the segment is lost, and still there");
    disk.fails.store(false, Ordering::Relaxed);
    assert_eq!(cache.get(b"one"), None);
    assert_keeps_what_is_synced_now(cache, &disk, dir.path());
}

#[test]
fn a_disk_that_fails_each_sync_for_a_while_costs_entries_and_no_more() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Arc::new(Forgetful::default());
    let cache = Cache::open_on(Fs::with_hook(disk.clone()), dir.path(), patient(2 * MIB)).unwrap();
    disk.fails.store(true, Ordering::Relaxed);
    for i in 0..6_000u32 {
        let key = (i % 300).to_le_bytes();
        let _ = cache.put(&key, &[i as u8; 1_000]).unwrap();
        if i % 100 == 0 {
            let is_synced = cache.flush(Durability::Synced).is_ok();
            // The worker may have removed everything meanwhile, after which there is nothing to sync.
            assert!(!is_synced || cache.get(&key).is_none(), "what could not be synced is removed");
        }
    }
    disk.fails.store(false, Ordering::Relaxed);
    eventually(|| cache.flush(Durability::Synced).is_ok(), || format!("{:?}", cache.last_disk_error()));
    cache.put_with(b"k", b"v", PutOptions::new().durability(Durability::Synced)).unwrap();
    cache.close().unwrap();
    assert!(open(dir.path(), 2 * MIB).get(b"k").is_some());
}

/// Reads a cache without starting a thread, as a child of the test below.
#[test]
#[ignore = "only the test below runs it, as a process that can start no thread"]
fn child_without_threads() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    assert!(std::thread::Builder::new().spawn(|| ()).is_err(), "no thread starts");
    let folder = Path::new(&folder);
    let reader = Cache::open_read_only(folder, None).unwrap();
    assert_eq!(reader.verify().good, ENTRIES);
    let error = Cache::open(folder, Options::new(32 * MIB)).unwrap_err().to_string();
    assert!(error.contains("start a thread"), "{error}");
}

/// Number of entries that are worth a second thread if they are read from footers. A saved index of so many is read by
/// one thread.
const ENTRIES: u64 = 120_000;

/// A reader needs no thread to fill this index; a writer is refused. Previously, if the several threads that fill a
/// larger index did not start, the process panicked.
#[test]
fn a_cache_is_read_where_no_thread_starts() {
    let dir = tempfile::tempdir().unwrap();
    let cache = open(dir.path(), 32 * MIB);
    for i in 0..ENTRIES {
        cache.put(&i.to_le_bytes(), b"v").unwrap();
    }
    cache.close().unwrap();
    let program = refdb_testkit::this_program();
    let mut command = Command::new(program.get_program());
    command.args(program.get_args()).args(["--exact", "child_without_threads", "--ignored", "--test-threads", "1"]);
    // No address space has room for such a stack, so no thread starts.
    command.env("RUST_MIN_STACK", (1u64 << 50).to_string()).env(FOLDER, dir.path());
    let output = command.stdin(Stdio::null()).output().expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

/// Previously, segments were numbered from the stray file on, so that the next number was 0 and everything was lost at
/// each start.
#[test]
fn a_stray_file_of_the_largest_number_is_no_segment() {
    let dir = tempfile::tempdir().unwrap();
    let stray = dir.path().join("ffffffffffffffff.seg");
    std::fs::write(&stray, [7; 100]).unwrap();
    for round in 0..3u32 {
        let cache = open(dir.path(), MIB);
        assert!(cache.notices().is_empty(), "{:?}", cache.notices());
        assert_eq!(cache.stats().entries, u64::from(round) * 40, "round {round}");
        for i in 0..40u32 {
            cache.put(&[round, i].map(|part| part as u8), &[1; 1_000]).unwrap();
        }
        cache.close().unwrap();
    }
    assert!(stray.exists());
}

/// Returns the files of the folder, by path and content.
fn files(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = std::fs::read_dir(dir).expect("the folder is there").map(|entry| entry.expect("listed").path());
    let mut files: Vec<_> = entries.map(|path| (path.clone(), std::fs::read(path).expect("readable"))).collect();
    files.sort();
    files
}

/// Previously, both caches wrote segments with the same numbers, and the first one deleted those of the other when it
/// ended.
#[test]
fn a_cache_whose_folder_another_process_made_anew_is_told_and_touches_nothing() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("cache");
    let synced = PutOptions::new().durability(Durability::Synced);
    let deleted = Cache::open(&dir, Options::new(MIB)).unwrap();
    for key in 0..40_000u32 {
        deleted.put_with(&key.to_le_bytes(), &[7; 100], PutOptions::new()).unwrap();
    }
    deleted.put_with(b"k", b"v", synced).unwrap();
    std::fs::remove_dir_all(&dir).unwrap();
    let other = Cache::open(&dir, Options::new(MIB)).unwrap();
    for key in 0..2_000u32 {
        other.put_with(&key.to_le_bytes(), &[8; 100], PutOptions::new()).unwrap();
    }
    other.close().unwrap();
    let theirs = files(&dir);
    let told = deleted.put_with(b"k", b"w", synced).unwrap_err();
    assert!(told.to_string().contains("has recreated the cache's folder"), "{told}");
    let _ = deleted.clear();
    assert!(deleted.close().is_err(), "what was put is nowhere");
    drop(deleted);
    assert!(files(&dir) == theirs, "nothing of the other's was touched");
}

/// A disk that refuses every write while the flag is set.
#[derive(Default)]
struct Dead(AtomicBool);

impl IoHook for Dead {
    fn before(&self, op: Op<'_>) -> Verdict {
        match op {
            Op::Write(..) if self.0.load(Ordering::Relaxed) => Verdict::Fail(io::Error::from_raw_os_error(5)),
            _ => Verdict::Proceed,
        }
    }
}

/// A disk that has no room for another file while `is_full` is set.
#[derive(Default)]
struct Countless {
    is_full: AtomicBool,
    synced: AtomicU32,
}

impl IoHook for Countless {
    fn before(&self, op: Op<'_>) -> Verdict {
        match op {
            Op::Create(_) if self.is_full.load(Ordering::Relaxed) => {
                return Verdict::Fail(io::ErrorKind::StorageFull.into());
            }
            Op::SyncDir(_) => drop(self.synced.fetch_add(1, Ordering::Relaxed)),
            _ => {}
        }
        Verdict::Proceed
    }
}

/// Previously, the deletion of the removed entry's segment was not synced if no file could be created for a later put.
#[test]
fn a_flush_that_finds_no_room_for_a_put_makes_removals_last() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Arc::new(Countless::default());
    let cache = Cache::open_idle(Fs::with_hook(disk.clone()), dir.path(), patient(MIB)).unwrap();
    cache.put(b"session", b"cookie").unwrap();
    cache.put(b"other", b"v").unwrap();
    cache.flush(Durability::Synced).unwrap();
    disk.is_full.store(true, Ordering::Relaxed);
    cache.remove(b"session").unwrap();
    // This put needs a segment of its own.
    cache.put(b"large", &[7; 100_000]).unwrap();
    let before = disk.synced.load(Ordering::Relaxed);
    assert!(cache.flush(Durability::Synced).is_err(), "the put is in none");
    assert!(disk.synced.load(Ordering::Relaxed) > before, "that its segment is gone is on stable storage");
    cache.abandon();
    let cache = Cache::open_read_only(dir.path(), None).unwrap();
    assert_eq!(cache.get(b"session"), None);
}

/// Previously, a removal that needed no record returned before earlier puts were in the files.
#[test]
fn a_durable_removal_of_nothing_makes_all_before_it_durable() {
    for durability in [Durability::Written, Durability::Synced] {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::open_idle(Fs::real(), dir.path(), patient(MIB)).unwrap();
        cache.put(b"gone", b"v").unwrap();
        cache.remove_with(b"gone", durability).unwrap();
        cache.put(b"k", b"v").unwrap();
        assert!(!cache.remove_with(b"absent", durability).unwrap());
        cache.abandon();
        assert!(Cache::open_read_only(dir.path(), None).unwrap().get(b"k").is_some(), "{durability:?}");
    }
}

/// Previously, such a put waited for half a minute although the disk had reported that it accepts nothing.
#[test]
fn a_durable_put_on_a_dead_disk_with_a_full_buffer_is_told_soon() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Arc::new(Dead::default());
    let cache = Cache::open_on(Fs::with_hook(disk.clone()), dir.path(), Options::new(8 * MIB)).unwrap();
    disk.0.store(true, Ordering::Relaxed);
    let durable = PutOptions::new().durability(Durability::Written);
    let at_once = durable.at_once(true);
    let fills = |i: u32| matches!(cache.put_with(&i.to_le_bytes(), &[1; 4_000], at_once), Ok(Put::Stored));
    assert!(!(0..10_000).all(fills), "the buffer has an end");
    let start = Instant::now();
    let told = cache.put_with(b"k", &[1; 4_000], durable).unwrap_err().to_string();
    assert!(told.contains("os error 5"), "{told}");
    assert!(start.elapsed() < Duration::from_secs(15), "{:?}", start.elapsed());
    // A put that does not wait tells its caller that waiting is of no use.
    let told = cache.put_with(b"k", &[1; 4_000], at_once).unwrap_err().to_string();
    assert!(told.contains("os error 5"), "{told}");
    disk.0.store(false, Ordering::Relaxed);
    eventually(|| cache.put_with(b"k", b"v", durable).is_ok(), || format!("{:?}", cache.last_disk_error()));
}

/// A disk that is full while other entries are removed: one more at each write that it refuses.
#[derive(Default)]
struct Crowded {
    is_full: AtomicBool,
    removed: AtomicU32,
    cache: OnceLock<Weak<Cache>>,
}

impl IoHook for Crowded {
    fn before(&self, op: Op<'_>) -> Verdict {
        if !matches!(op, Op::Write(..)) || !self.is_full.load(Ordering::Relaxed) {
            return Verdict::Proceed;
        }
        if let Some(cache) = self.cache.get().and_then(Weak::upgrade) {
            let other = self.removed.fetch_add(1, Ordering::Relaxed);
            assert!(cache.remove(&other.to_le_bytes()).expect("it is removed in memory"), "{other} was there");
        }
        Verdict::Fail(io::ErrorKind::StorageFull.into())
    }
}

/// Previously, a removal got the error of the full disk if another removal had followed it by then, and a kill brought
/// the value back.
#[test]
fn a_durable_removal_on_a_full_disk_lasts_though_others_remove_meanwhile() {
    for durability in [Durability::Written, Durability::Synced] {
        let dir = tempfile::tempdir().unwrap();
        let disk = Arc::new(Crowded::default());
        let cache = Arc::new(Cache::open_idle(Fs::with_hook(disk.clone()), dir.path(), patient(MIB)).unwrap());
        disk.cache.set(Arc::downgrade(&cache)).unwrap();
        cache.put(b"session", b"cookie").unwrap();
        (0..100u32).for_each(|other| assert!(cache.put(&other.to_le_bytes(), b"v").is_ok()));
        cache.flush(Durability::Synced).unwrap();
        disk.is_full.store(true, Ordering::Relaxed);
        cache.remove_with(b"session", durability).expect("all goes, so that it does");
        Arc::into_inner(cache).expect("no other has it").abandon();
        assert_eq!(Cache::open_read_only(dir.path(), None).unwrap().get(b"session"), None);
    }
}

/// A disk that refuses one write, and every write after the next file was removed.
#[derive(Default)]
struct Dying {
    /// The number of the write that is refused.
    refused: u32,
    writes: AtomicU32,
    is_dead: AtomicBool,
}

impl IoHook for Dying {
    fn before(&self, op: Op<'_>) -> Verdict {
        let is_refused = match op {
            Op::Write(..) => {
                let number = self.writes.fetch_add(1, Ordering::Relaxed);
                number == self.refused || self.is_dead.load(Ordering::Relaxed)
            }
            Op::Remove(_) if self.writes.load(Ordering::Relaxed) > self.refused => {
                self.is_dead.store(true, Ordering::Relaxed);
                false
            }
            _ => false,
        };
        if is_refused { Verdict::Fail(io::Error::from_raw_os_error(5)) } else { Verdict::Proceed }
    }
}

/// Previously, an eviction that was repeated after a write had failed deleted the originals of copies that were only in
/// memory.
#[test]
fn a_kill_after_a_write_that_failed_once_costs_no_entry_in_use() {
    let in_use = |i: u8| [b'u', i];
    // Fills a cache until an eviction, and returns the number of writes and the number of entries in use that a kill
    // would cost then.
    let run = |refused: u32| {
        let dir = tempfile::tempdir().unwrap();
        let disk = Arc::new(Dying { refused, ..Dying::default() });
        let cache = Cache::open_idle(Fs::with_hook(disk.clone()), dir.path(), Options::new(MIB)).unwrap();
        (0..20).for_each(|i| assert_eq!(cache.put(&in_use(i), &[1; 1_000]).unwrap(), Put::Stored));
        let mut i = 0u32;
        while !disk.is_dead.load(Ordering::Relaxed) && cache.stats().evicted < 20 {
            let _ = cache.put(&i.to_le_bytes(), &[2; 16_000]).unwrap();
            (0..20).for_each(|i| assert!(cache.get(&in_use(i)).is_some()));
            if i.is_multiple_of(2) && cache.work().is_err() {
                let _ = cache.work();
            }
            i += 1;
        }
        cache.abandon();
        let after = Cache::open_read_only(dir.path(), None).unwrap();
        let lost = (0..20).filter(|i| after.get(&in_use(*i)).is_none()).count();
        (disk.writes.load(Ordering::Relaxed), lost)
    };
    let (writes, lost) = run(u32::MAX);
    assert_eq!(lost, 0);
    for refused in writes / 2..writes {
        assert_eq!(run(refused).1, 0, "after write {refused} of {writes} failed");
    }
}
