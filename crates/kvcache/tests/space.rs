//! A cache stays within its limit, and goes on there.

mod common;

use common::{at_rest, open, patient};
use refdb_kvcache::{Cache, Durability, Options, Put, PutOptions};
use refdb_vfs::{Fs, IoHook, Op, Verdict};
use std::{
    path::Path,
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

const MIB: u64 = 1 << 20;

fn put_durably(cache: &Cache, key: &[u8], value: &[u8], durability: Durability) {
    let options = PutOptions::new().durability(durability);
    assert_eq!(cache.put_with(key, value, options).expect("the disk works"), Put::Stored);
}

/// Counts the bytes that are written.
#[derive(Default)]
struct Written(AtomicU64);

impl IoHook for Written {
    fn before(&self, op: Op<'_>) -> Verdict {
        if let Op::Write(_, bytes) = op {
            self.0.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        }
        Verdict::Proceed
    }
}

/// Previously, a clear and the writer both counted down the number that accounts for the write buffer.
#[test]
fn clears_beside_a_writer_leave_room_in_the_write_buffer() {
    let dir = tempfile::tempdir().unwrap();
    let cache = open(dir.path(), 4 * MIB);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for i in 0.. {
                let _ = cache.put(&u64::to_le_bytes(i), &[7; 3_000]).unwrap();
                if stop.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        for _ in 0..60 {
            std::thread::sleep(Duration::from_millis(5));
            cache.clear().unwrap();
        }
        stop.store(true, Ordering::Relaxed);
    });
    for i in 0..20u32 {
        assert_eq!(cache.put(&i.to_le_bytes(), &[8; 100_000]).unwrap(), Put::Stored, "{:?}", cache.stats());
    }
}

/// Previously, the 16 bytes of a footer entry counted as waste, which no compaction could free.
#[test]
fn a_cache_of_small_entries_stops_writing_when_it_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Arc::new(Written::default());
    let cache = Cache::open_on(Fs::with_hook(disk.clone()), dir.path(), Options::new(16 * MIB)).unwrap();
    for i in 0..150_000u32 {
        let _ = cache.put(&i.to_le_bytes(), &[1]).unwrap();
    }
    // The cache reports what changed some seconds after the last put.
    at_rest(Duration::from_secs(6), || disk.0.load(Ordering::Relaxed), || format!("it writes: {:?}", cache.stats()));
}
#[test]
fn restarts_with_one_put_each_do_not_use_up_the_segments() {
    let dir = tempfile::tempdir().unwrap();
    for i in 0..400u32 {
        let cache = open(dir.path(), MIB);
        assert_eq!(cache.put(&i.to_le_bytes(), b"value").unwrap(), Put::Stored, "restart {i}");
        if i % 100 == 99 {
            let has = |i: &u32| cache.get(&i.to_le_bytes()).is_some();
            assert_eq!((0..=i).filter(has).count() as u32, i + 1, "nothing is evicted");
            assert!(std::fs::read_dir(dir.path()).unwrap().count() < 200, "restart {i}");
        }
    }
}

/// Previously, each kill left a file that nothing merged: of 620 entries 281 were there, although all of them fit.
#[test]
fn kills_after_one_put_each_cost_no_entry() {
    let dir = tempfile::tempdir().unwrap();
    for i in 0..620u32 {
        let cache = open(dir.path(), MIB);
        put_durably(&cache, &i.to_le_bytes(), b"value", Durability::Written);
        cache.abandon();
    }
    let cache = open(dir.path(), MIB);
    let kept = (0..620u32).filter(|i| cache.get(&i.to_le_bytes()).is_some()).count();
    assert_eq!(kept, 620);
}

/// Returns the bytes of all files and of the folder, counted in blocks as `du` does.
fn du(dir: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let files = std::fs::read_dir(dir).expect("it works").filter_map(Result::ok);
    let of_files: u64 = files.filter_map(|file| file.metadata().ok()).map(|metadata| metadata.blocks() * 512).sum();
    of_files + std::fs::metadata(dir).expect("it works").blocks() * 512
}

/// Previously, copies and durable puts took the last byte, so that no segment could be compacted and the same was tried
/// for ever.
#[test]
fn a_cache_of_durable_renewals_goes_on_at_its_limit() {
    for (limit, removes) in [(MIB, false), (MIB, true), (4 * MIB, false)] {
        let dir = tempfile::tempdir().unwrap();
        let cache = open(dir.path(), limit);
        put_durably(&cache, b"first", b"promise", Durability::Synced);
        let keys = limit / 500;
        for i in 0..limit * 10 / 350 {
            let key = (i.wrapping_mul(0x9e37_79b9) >> 3) % keys;
            if removes && i % 5 == 0 {
                cache.remove_with(&key.to_le_bytes(), Durability::Written).unwrap();
            } else {
                put_durably(&cache, &key.to_le_bytes(), &[i as u8; 300], Durability::Written);
            }
            if i % 512 == 0 {
                assert!(du(dir.path()) <= limit, "{} of {limit}: {:?}", du(dir.path()), cache.stats());
            }
        }
        drop(cache);
        put_durably(&open(dir.path(), limit), b"after", b"a restart", Durability::Synced);
    }
}

#[test]
fn values_of_an_eighth_of_the_limit_are_taken_when_the_cache_is_full() {
    let dir = tempfile::tempdir().unwrap();
    let cache = open(dir.path(), 4 * MIB);
    for i in 0..12_000u32 {
        let _ = cache.put(&i.to_le_bytes(), &[1; 500]).unwrap();
    }
    for part in [64, 40, 20, 10, 9, 8] {
        let mut len = 4 * MIB as usize / part - 8;
        len = len.min(cache.largest_entry_bytes() - 8);
        for i in 0..10u64 {
            let value = vec![part as u8; len];
            assert_eq!(cache.put(&i.to_le_bytes(), &value).unwrap(), Put::Stored, "1/{part}: {:?}", cache.stats());
            assert_eq!(cache.get(&i.to_le_bytes()).unwrap().value, value);
            assert!(du(dir.path()) <= 4 * MIB);
        }
    }
}

/// A disk of limited size, of which the files of others may take a part.
#[derive(Default)]
struct SmallDisk {
    free: std::sync::Mutex<(i64, std::collections::HashMap<std::path::PathBuf, i64>)>,
}

impl SmallDisk {
    fn with(free: i64) -> Arc<Self> {
        let disk = SmallDisk::default();
        disk.free.lock().expect("it works").0 = free;
        Arc::new(disk)
    }

    fn set_free(&self, free: i64) {
        self.free.lock().expect("it works").0 = free;
    }
}

impl IoHook for SmallDisk {
    fn before(&self, op: Op<'_>) -> Verdict {
        let mut state = self.free.lock().expect("it works");
        match op {
            Op::Write(path, bytes) => {
                let len = bytes.len() as i64;
                if state.0 < len {
                    return Verdict::Fail(std::io::ErrorKind::StorageFull.into());
                }
                state.0 -= len;
                *state.1.entry(path.to_owned()).or_default() += len;
            }
            Op::Remove(path) => {
                let len = state.1.remove(path).unwrap_or(0);
                state.0 += len;
            }
            _ => {}
        }
        Verdict::Proceed
    }
}

/// The cache's limit is more than there is on the disk, so it makes do with less.
#[test]
fn on_a_disk_that_is_smaller_than_its_limit_a_cache_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let disk = SmallDisk::with(2 * MIB as i64);
    let cache = Cache::open_on(Fs::with_hook(disk.clone()), dir.path(), patient(8 * MIB)).unwrap();
    for i in 0..20_000u32 {
        assert_eq!(cache.put(&i.to_le_bytes(), &[3; 1_000]).unwrap(), Put::Stored, "{i}: {:?}", cache.stats());
    }
    put_durably(&cache, b"key", b"value", Durability::Written);
    cache.abandon();
    let cache = open(dir.path(), 8 * MIB);
    assert_eq!(cache.get(b"key").unwrap().value, b"value");
    assert!(cache.stats().entries > 500, "{:?}", cache.stats());
}

#[test]
fn a_logout_on_a_full_disk_survives_a_kill() {
    for durability in [Durability::Written, Durability::Synced] {
        for sessions in [3u32, 250] {
            let dir = tempfile::tempdir().unwrap();
            let disk = SmallDisk::with(100 * MIB as i64);
            let cache = Cache::open_on(Fs::with_hook(disk.clone()), dir.path(), Options::new(MIB)).unwrap();
            for i in 0..sessions {
                put_durably(&cache, &i.to_le_bytes(), &[4; 600], Durability::Synced);
            }
            disk.set_free(0);
            for i in 0..sessions {
                cache.remove_with(&i.to_le_bytes(), durability).unwrap();
            }
            cache.abandon();
            let cache = Cache::open_read_only(dir.path(), None).unwrap();
            let back = (0..sessions).filter(|i| cache.get(&i.to_le_bytes()).is_some()).count();
            assert_eq!(back, 0, "of {sessions} sessions");
        }
    }
}

/// Previously, one of the threads emptied the cache for all, and the others got the error of the full disk.
#[test]
fn logouts_at_the_same_time_on_a_full_disk_all_succeed() {
    const THREADS: u32 = 4;
    for _ in 0..40 {
        let dir = tempfile::tempdir().unwrap();
        let disk = SmallDisk::with(100 * MIB as i64);
        let cache = Cache::open_on(Fs::with_hook(disk.clone()), dir.path(), Options::new(MIB)).unwrap();
        for i in 0..THREADS {
            put_durably(&cache, &i.to_le_bytes(), &[4; 600], Durability::Synced);
        }
        disk.set_free(0);
        let (cache, start) = (&cache, &std::sync::Barrier::new(THREADS as usize));
        std::thread::scope(|scope| {
            for i in 0..THREADS {
                scope.spawn(move || {
                    start.wait();
                    cache.remove_with(&i.to_le_bytes(), Durability::Written).expect("it lasts");
                });
            }
        });
    }
}

/// Previously, what was still in memory was lost, while older values of the same keys stayed in the files.
#[test]
fn a_close_on_a_full_disk_brings_nothing_back() {
    for (limit, keys) in [(MIB, 1u32), (MIB, 3), (MIB, 20), (MIB, 200), (8 * MIB, 20), (8 * MIB, 200)] {
        let dir = tempfile::tempdir().unwrap();
        let disk = SmallDisk::with(100 * MIB as i64);
        let cache = Cache::open_idle(Fs::with_hook(disk.clone()), dir.path(), patient(limit)).unwrap();
        let put = |i: u32, byte| assert_eq!(cache.put(&i.to_le_bytes(), &[byte; 900]).unwrap(), Put::Stored);
        (0..keys).for_each(|i| put(i, b'o'));
        cache.flush(Durability::Written).unwrap();
        disk.set_free(0);
        for i in 0..keys {
            match i % 2 {
                0 => assert!(cache.remove(&i.to_le_bytes()).unwrap()),
                _ => put(i, b'n'),
            }
        }
        cache.close().unwrap();
        drop(cache);
        let cache = open(dir.path(), limit);
        for i in 0..keys {
            let found = cache.get(&i.to_le_bytes()).map(|found| found.value[0]);
            assert!(found.is_none_or(|first| first == b'n' && i % 2 == 1), "{i} of {keys} is {found:?}");
        }
    }
}

/// A disk on which this number of writes and creations of files fail.
#[derive(Default)]
struct BadDisk(AtomicU64);

impl IoHook for BadDisk {
    fn before(&self, op: Op<'_>) -> Verdict {
        let is_write = matches!(op, Op::Write(..) | Op::Create(_));
        let fails = |left: u64| left.checked_sub(1);
        match is_write && self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fails).is_ok() {
            true => Verdict::Fail(std::io::Error::from_raw_os_error(5)),
            false => Verdict::Proceed,
        }
    }
}

/// Previously, the close returned an error and left the older values, which the next start served.
#[test]
fn a_close_on_a_disk_that_fails_brings_nothing_back() {
    for (failures, keys) in [(u64::MAX, 1u32), (u64::MAX, 20), (u64::MAX, 200), (1, 20)] {
        let dir = tempfile::tempdir().unwrap();
        let disk = Arc::new(BadDisk::default());
        let cache = Cache::open_idle(Fs::with_hook(disk.clone()), dir.path(), patient(MIB)).unwrap();
        let put = |i: u32, byte| assert_eq!(cache.put(&i.to_le_bytes(), &[byte; 900]).unwrap(), Put::Stored);
        (0..keys).for_each(|i| put(i, b'o'));
        cache.flush(Durability::Written).unwrap();
        disk.0.store(failures, Ordering::Relaxed);
        for i in 0..keys {
            match i % 2 {
                0 => assert!(cache.remove(&i.to_le_bytes()).unwrap()),
                _ => put(i, b'n'),
            }
        }
        let is_closed = cache.close().is_ok();
        assert_eq!(is_closed, failures == 1, "an error of a moment is none");
        drop(cache);
        let cache = open(dir.path(), MIB);
        for i in 0..keys {
            let found = cache.get(&i.to_le_bytes()).map(|found| found.value[0]);
            let is_there = is_closed && i % 2 == 1;
            assert_eq!(found, is_there.then_some(b'n'), "{i} of {keys}");
        }
    }
}

#[test]
fn a_lowered_limit_holds_from_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let cache = open(dir.path(), 8 * MIB);
    for i in 0..7_000u32 {
        let _ = cache.put(&i.to_le_bytes(), &[1; 1_000]).unwrap();
    }
    drop(cache);
    let cache = open(dir.path(), 2 * MIB);
    assert!(du(dir.path()) <= 2 * MIB, "{}", du(dir.path()));
    assert!(cache.get(&6_999u32.to_le_bytes()).is_some() && cache.stats().entries > 1_000);
    for i in 0..4_000u32 {
        assert_eq!(cache.put(&i.to_le_bytes(), &[2; 1_000]).unwrap(), Put::Stored);
        assert!(i % 64 > 0 || du(dir.path()) <= 2 * MIB);
    }
}

/// Removes missing keys when a segment's file is about to be deleted, for the first 100 times, and notes the bytes that
/// this took.
#[derive(Default)]
struct RemovesMeanwhile {
    cache: OnceLock<Weak<Cache>>,
    took_bytes: AtomicU64,
    times: AtomicU64,
}

impl IoHook for RemovesMeanwhile {
    fn before(&self, op: Op<'_>) -> Verdict {
        let cache = self.cache.get().and_then(Weak::upgrade);
        if let (Op::Remove(path), Some(cache)) = (op, cache)
            && path.extension().is_some_and(|extension| extension == "seg")
            && self.times.fetch_add(1, Ordering::Relaxed) < 100
        {
            let before = cache.stats().disk_bytes;
            for i in 0..5_000u64 {
                assert!(!cache.remove(&(1 << 40 | i).to_le_bytes()).expect("it is removed"));
            }
            self.took_bytes.fetch_add(cache.stats().disk_bytes - before, Ordering::Relaxed);
        }
        Verdict::Proceed
    }
}

/// Previously, each removal made a mark while a segment was dropped, even if its key was never there. A thread that
/// only removed thus took the room that the dropping had freed, and puts waited for room or were refused.
#[test]
fn removals_of_keys_that_are_not_there_take_no_room_while_a_segment_is_dropped() {
    let dir = tempfile::tempdir().expect("a temporary folder can be made");
    let removes = Arc::new(RemovesMeanwhile::default());
    let fs = Fs::with_hook(removes.clone());
    let cache = Arc::new(Cache::open_idle(fs, dir.path(), Options::new(MIB)).expect("it opens"));
    removes.cache.set(Arc::downgrade(&cache)).expect("it is set once");
    for i in 0..3_000u64 {
        assert_eq!(cache.put(&i.to_le_bytes(), &[1; 1000]).expect("the disk works"), Put::Stored);
        cache.work().expect("the disk works");
    }
    assert!(removes.times.load(Ordering::Relaxed) > 50, "segments were dropped");
    assert_eq!(removes.took_bytes.load(Ordering::Relaxed), 0, "nothing has to be said of keys that never were");
}

/// Tears the first write to a segment.
#[derive(Default)]
struct FullSoon(AtomicBool);

impl IoHook for FullSoon {
    fn before(&self, op: Op<'_>) -> Verdict {
        match op {
            Op::Write(path, _)
                if path.extension().is_some_and(|end| end == "seg") && !self.0.swap(true, Ordering::Relaxed) =>
            {
                Verdict::Tear(20_000, std::io::ErrorKind::StorageFull.into())
            }
            _ => Verdict::Proceed,
        }
    }
}

/// Previously, the part of the footer was not counted, so that the files exceeded the limit.
#[test]
fn a_footer_that_fills_the_disk_when_a_cache_is_opened_counts() {
    let dir = tempfile::tempdir().unwrap();
    let options = || Options::new(4 * MIB);
    let cache = Cache::open_idle(Fs::real(), dir.path(), options()).unwrap();
    for i in 0..2_000u32 {
        put_durably(&cache, &i.to_le_bytes(), &[1], Durability::Buffered);
    }
    cache.work().unwrap();
    cache.abandon();
    let disk = Arc::new(FullSoon::default());
    let cache = Cache::open_idle(Fs::with_hook(disk.clone()), dir.path(), options()).unwrap();
    assert!(disk.0.load(Ordering::Relaxed), "a segment without a footer was found");
    let files = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap());
    let segments = files.filter(|file| file.path().extension().is_some_and(|end| end == "seg"));
    let used_bytes: u64 = segments.map(|file| file.metadata().unwrap().len()).sum();
    assert!(used_bytes <= cache.stats().disk_bytes, "{used_bytes} {:?}", cache.stats());
}
