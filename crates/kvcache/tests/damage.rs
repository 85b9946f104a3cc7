//! Disks that fail, and files that are damaged.

mod common;

use common::{STANDSTILL, eventually, open, patient};
use refdb_kvcache::{Cache, Durability, Error, Options, Put, PutOptions};
use refdb_testkit::{Rng, crash};
use refdb_vfs::{Fs, IoHook, Op, Verdict};
use std::{
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

const MIB: u64 = 1 << 20;
const ENTRIES: u32 = 3_000;
const SAVED_INDEX: &str = "0000000000000000.seg";

fn value(i: u32) -> Vec<u8> {
    let mut value = format!("value of {i} ").into_bytes();
    value.resize(value.len() + (i % 400) as usize, i as u8);
    value
}

fn filled(dir: &Path) {
    let cache = open(dir, 8 * MIB);
    for i in 0..ENTRIES {
        cache.put(&i.to_le_bytes(), &value(i)).expect("it is put");
    }
    cache.close().expect("it closes");
}

fn segments(dir: &Path) -> Vec<PathBuf> {
    let files = std::fs::read_dir(dir).expect("it is there").map(|file| file.expect("it is there").path());
    // Number 0 is the saved index.
    let is_segment = |path: &PathBuf| path.extension().is_some_and(|ext| ext == "seg") && !path.ends_with(SAVED_INDEX);
    let mut segments: Vec<_> = files.filter(is_segment).collect();
    segments.sort();
    segments
}

/// Returns how many keys have their value. The remaining keys must have none.
fn good(cache: &Cache) -> u32 {
    let found = |i: &u32| match cache.get(&i.to_le_bytes()) {
        Some(found) => {
            assert_eq!(found.value, value(*i));
            true
        }
        None => false,
    };
    (0..ENTRIES).filter(found).count() as u32
}

#[test]
fn a_flipped_bit_costs_one_entry_at_most_or_is_harmless() {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path());
    let mut rng = Rng::new(1);
    let segments = segments(dir.path());
    for _ in 0..60 {
        let path = rng.pick(&segments);
        let before = std::fs::read(path).unwrap();
        let mut damaged = before.clone();
        // Headers and trailers have tests of their own.
        let at = 64 + rng.below(before.len() - 128);
        damaged[at] ^= 1 << rng.below(8);
        std::fs::write(path, &damaged).unwrap();
        let reader = Cache::open_read_only(dir.path(), None).unwrap();
        assert!(good(&reader) >= ENTRIES - 1, "byte {at} of {}", path.display());
        std::fs::write(path, &before).unwrap();
    }
}

#[test]
fn a_segment_that_a_power_loss_took_is_not_served_nor_is_what_came_after() {
    for (name, damage) in [
        ("cut", (|bytes| bytes.truncate(bytes.len() / 2)) as fn(&mut Vec<u8>)),
        ("empty", |bytes| bytes.clear()),
        ("zeros", |bytes| bytes.fill(0)),
    ] {
        let dir = tempfile::tempdir().unwrap();
        filled(dir.path());
        let segments = segments(dir.path());
        assert!(segments.len() >= 6);
        let mut bytes = std::fs::read(&segments[3]).unwrap();
        damage(&mut bytes);
        std::fs::write(&segments[3], bytes).unwrap();
        let cache = Cache::open(dir.path(), Options::new(8 * MIB)).unwrap();
        let found = good(&cache);
        assert!((ENTRIES / 10..ENTRIES).contains(&found), "{name}: {found}");
        cache.put(b"new", b"value").unwrap();
        cache.close().unwrap();
        let cache = Cache::open(dir.path(), Options::new(8 * MIB)).unwrap();
        assert_eq!((good(&cache), cache.get(b"new").unwrap().value), (found, b"value".to_vec()), "{name}");
    }
}

#[test]
fn a_segment_of_another_cache_is_not_served() {
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    filled(dir.path());
    let cache = open(other.path(), 8 * MIB);
    for i in 0..ENTRIES {
        cache.put(&i.to_le_bytes(), b"foreign").unwrap();
    }
    cache.close().unwrap();
    let (own, foreign) = (segments(dir.path()), segments(other.path()));
    std::fs::copy(&foreign[0], &own[0]).unwrap();
    let cache = Cache::open(dir.path(), Options::new(8 * MIB)).unwrap();
    good(&cache);
}

#[test]
fn a_newer_format_is_refused_and_a_damaged_format_file_starts_anew() {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path());
    let path = dir.path().join("format");
    let before = std::fs::read(&path).unwrap();
    let mut newer = before.clone();
    newer[8] = 99;
    std::fs::write(&path, &newer).unwrap();
    let refused = Cache::open(dir.path(), Options::new(8 * MIB)).unwrap_err();
    assert!(matches!(refused, Error::Version { found: 99, known: 2, .. }), "{refused}");
    assert!(segments(dir.path()).len() > 3, "what the newer program wrote is left alone");
    let mut damaged = before;
    damaged[40] ^= 1;
    std::fs::write(&path, &damaged).unwrap();
    let cache = Cache::open(dir.path(), Options::new(8 * MIB)).unwrap();
    assert!(matches!(cache.notices(), [Error::Corrupt { offset: 124, .. }]), "{:?}", cache.notices());
    assert_eq!((cache.stats().entries, good(&cache)), (0, 0));
}

/// Plants the format version of an older program.
#[test]
fn an_older_format_starts_empty_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path());
    let path = dir.path().join("format");
    let mut older = std::fs::read(&path).unwrap();
    older[8] = 1;
    std::fs::write(&path, &older).unwrap();
    assert!(matches!(Cache::open_read_only(dir.path(), None), Err(Error::OldVersion { found: 1, .. })));
    let cache = Cache::open(dir.path(), Options::new(8 * MIB)).unwrap();
    assert!(matches!(cache.notices(), [Error::OldVersion { found: 1, known: 2, .. }]), "{:?}", cache.notices());
    assert_eq!((cache.stats().entries, segments(dir.path()).len()), (0, 0));
}

/// Leaves segments in which each key below 60 has an old value, and then a new one or a removal.
fn replaced(dir: &Path, durability: Durability) {
    let cache = Cache::open_idle(Fs::real(), dir, Options::new(MIB)).expect("it works");
    let put = |i: u32, value: &[u8]| {
        let options = PutOptions::new().durability(durability);
        assert_eq!(cache.put_with(&i.to_le_bytes(), value, options).expect("it works"), Put::Stored);
    };
    (0..60).for_each(|i| put(i, &[b'o'; 900]));
    (0..60).filter(|i| i % 2 == 0).for_each(|i| put(i, &[b'n'; 900]));
    for i in (0..60u32).filter(|i| i % 2 == 1) {
        cache.remove_with(&i.to_le_bytes(), durability).expect("it works");
        // Spreads the removals over several segments.
        put(1000 + i, &[b'f'; 900]);
    }
    cache.close().expect("it works");
}

/// Requires that no key has its old value, and returns the number of entries.
fn assert_nothing_is_back(cache: &Cache, what: &str) -> usize {
    for i in 0..60u32 {
        let found = cache.get(&i.to_le_bytes()).map(|found| found.value[0]);
        assert!(found.is_none_or(|first| first == b'n' && i % 2 == 0), "{what}: {i} is {found:?}");
    }
    usize::try_from(cache.stats().entries).expect("it works")
}

/// Previously, one flipped bit in a header ended the log there, so that replaced or removed values came back.
#[test]
fn a_flipped_bit_in_a_header_brings_nothing_back() {
    let dir = tempfile::tempdir().unwrap();
    replaced(dir.path(), Durability::Buffered);
    let segments = segments(dir.path());
    assert!(segments.len() >= 6, "{segments:?}");
    for path in &segments {
        let before = std::fs::read(path).unwrap();
        for bit in (0..64 * 8).step_by(5) {
            let mut damaged = before.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            std::fs::write(path, &damaged).unwrap();
            let reader = Cache::open_read_only(dir.path(), None).unwrap();
            assert_nothing_is_back(&reader, &format!("bit {bit} of {}", path.display()));
            assert!(matches!(reader.notices()[0], Error::Corrupt { offset: 0, .. }), "{:?}", reader.notices());
        }
        std::fs::write(path, &before).unwrap();
    }
    // The writer starts with an empty cache and goes on.
    let mut damaged = std::fs::read(&segments[3]).unwrap();
    damaged[20] ^= 1;
    std::fs::write(&segments[3], damaged).unwrap();
    let cache = Cache::open(dir.path(), Options::new(MIB)).unwrap();
    assert_eq!((assert_nothing_is_back(&cache, "the writer"), cache.notices().is_empty()), (0, false));
    cache.put(b"new", b"value").unwrap();
    drop(cache);
    let cache = Cache::open(dir.path(), Options::new(MIB)).unwrap();
    assert_eq!((cache.get(b"new").unwrap().value, cache.notices().len()), (b"value".to_vec(), 0));
}

/// A crash may cut segments that were not synced, so only the loss of synced ones must be noticed.
#[test]
fn a_synced_segment_that_is_cut_or_gone_brings_nothing_back() {
    for damage in [|path: &Path| std::fs::write(path, "").unwrap(), |path: &Path| std::fs::remove_file(path).unwrap()] {
        let dir = tempfile::tempdir().unwrap();
        replaced(dir.path(), Durability::Synced);
        let segments = segments(dir.path());
        damage(&segments[segments.len() / 2]);
        let cache = Cache::open(dir.path(), Options::new(MIB)).unwrap();
        assert_nothing_is_back(&cache, "a synced segment");
        assert!(!cache.notices().is_empty());
    }
}

/// Previously, the newest segments were deleted first, so that a process that ended meanwhile left an intact log of old
/// values.
#[test]
fn a_deletion_of_a_damaged_log_that_a_crash_cuts_short_brings_nothing_back() {
    let dir = tempfile::tempdir().unwrap();
    replaced(dir.path(), Durability::Synced);
    std::fs::remove_file(dir.path().join(SAVED_INDEX)).unwrap();
    let segments = segments(dir.path());
    let damages = [(segments.len() / 2, None), (3, Some(20))];
    for (at, flipped) in damages {
        let before = std::fs::read(&segments[at]).unwrap();
        match flipped {
            None => std::fs::remove_file(&segments[at]).unwrap(),
            Some(byte) => {
                let mut damaged = before.clone();
                damaged[byte] ^= 1;
                std::fs::write(&segments[at], damaged).unwrap();
            }
        }
        let open = |fs: &Fs, dir: &Path| Cache::open_idle(fs.clone(), dir, Options::new(MIB)).map(Cache::abandon);
        let check = |dir: &Path, crash: &crash::Crash| {
            let cache = Cache::open_idle(Fs::real(), dir, Options::new(MIB)).unwrap();
            assert_nothing_is_back(&cache, &format!("{crash:?}"));
        };
        crash::kill_everywhere(dir.path(), open, check);
        for disk in [crash::Disk::Journaled, crash::Disk::Unordered] {
            crash::lose_power_everywhere(dir.path(), disk, open, check);
        }
        std::fs::write(&segments[at], before).unwrap();
    }
}

/// Leaves what a process that was killed leaves, with these values in the order of their keys.
fn killed(dir: &Path, values: &[Vec<u8>]) {
    let cache = Cache::open_idle(Fs::real(), dir, Options::new(MIB)).expect("it opens");
    for (i, value) in (0u64..).zip(values) {
        let options = PutOptions::new().durability(Durability::Written);
        assert_eq!(cache.put_with(&i.to_le_bytes(), value, options).expect("it works"), Put::Stored);
    }
    cache.abandon();
}

/// Previously, such a value at the end of the file was taken for a damaged footer, so that the cache started empty.
#[test]
fn a_value_that_looks_like_the_end_of_a_footer_is_no_damage() {
    let number = 1u64.to_le_bytes().to_vec();
    let with_magic = [&[7; 24][..], b"refdbkvE", &[7; 56]].concat();
    for value in [number.clone(), with_magic, number.repeat(500)] {
        let dir = tempfile::tempdir().unwrap();
        killed(dir.path(), &vec![value.clone(); 4]);
        let path = &segments(dir.path())[0];
        let bytes = std::fs::read(path).unwrap();
        let record_len = (32 + 8 + value.len()).next_multiple_of(16);
        assert_eq!(bytes.len(), 64 + 4 * record_len);
        for cut in (0..record_len).step_by(8) {
            std::fs::write(path, &bytes[..bytes.len() - cut]).unwrap();
            let cache = Cache::open_read_only(dir.path(), None).unwrap();
            assert!(cache.notices().is_empty(), "cut by {cut}: {:?}", cache.notices());
            let expected = if cut == 0 { 4 } else { 3 };
            let found = (0..4u64).filter(|i| cache.get(&i.to_le_bytes()).is_some_and(|found| found.value == value));
            assert_eq!(found.count(), expected, "cut by {cut}");
        }
    }
}

/// Previously, the damaged record was forgotten but not marked, so that compaction left it behind and the older record
/// of its key came back.
#[test]
fn a_damaged_record_does_not_let_an_older_one_come_back() {
    let dir = tempfile::tempdir().unwrap();
    let cache = Cache::open_idle(Fs::real(), dir.path(), Options::new(MIB)).unwrap();
    let put = |i: u32, byte| assert_eq!(cache.put(&i.to_le_bytes(), &[byte; 900]).unwrap(), Put::Stored);
    // The segment of the old value is full of other entries that stay, unlike the segment of the new one.
    (0..16).for_each(|i| put(i, b'o'));
    put(0, b'n');
    (100..115).for_each(|i| put(i, b'f'));
    (0..16).for_each(|i| put(200 + i, b'g'));
    (100..115).for_each(|i| put(i, b'h'));
    cache.close().unwrap();
    drop(cache);
    for path in &segments(dir.path()) {
        let mut bytes = std::fs::read(path).unwrap();
        let news: Vec<usize> = (0..bytes.len() - 900).filter(|at| bytes[*at..*at + 900] == [b'n'; 900]).collect();
        news.iter().for_each(|at| bytes[at + 450] ^= 1);
        std::fs::write(path, bytes).unwrap();
    }
    let cache = Cache::open_idle(Fs::real(), dir.path(), Options::new(MIB)).unwrap();
    assert_eq!((cache.get(&0u32.to_le_bytes()), cache.stats().corrupt), (None, 1));
    cache.compact().unwrap();
    cache.close().unwrap();
    let cache = Cache::open(dir.path(), Options::new(MIB)).unwrap();
    assert_eq!(cache.get(&0u32.to_le_bytes()), None, "the old value is back");
    assert!(cache.get(&1u32.to_le_bytes()).is_some(), "its segment is still there");
}

/// Previously, the records after the damaged one were not looked for.
#[test]
fn a_damaged_footer_beside_a_damaged_record_costs_that_record() {
    let dir = tempfile::tempdir().unwrap();
    let cache = Cache::open_idle(Fs::real(), dir.path(), Options::new(MIB)).unwrap();
    (0..12u32).for_each(|i| assert_eq!(cache.put(&i.to_le_bytes(), &[i as u8; 500]).unwrap(), Put::Stored));
    cache.close().unwrap();
    let path = &segments(dir.path())[0];
    let before = std::fs::read(path).unwrap();
    // In the trailer, and in the entries before it.
    for footer_at in [before.len() - 60, before.len() - 30, before.len() - 100] {
        let mut bytes = before.clone();
        bytes[footer_at] ^= 4;
        bytes[64 + 3 * 544 + 100] ^= 4;
        std::fs::write(path, &bytes).unwrap();
        for round in 0..2 {
            let cache = Cache::open(dir.path(), Options::new(MIB)).unwrap();
            let found = (0..12u32).filter(|i| cache.get(&i.to_le_bytes()).is_some()).count();
            assert_eq!((found, cache.get(&3u32.to_le_bytes())), (11, None), "round {round}, footer at {footer_at}");
            cache.close().unwrap();
        }
        segments(dir.path()).iter().for_each(|path| std::fs::remove_file(path).unwrap());
        std::fs::write(path, &before).unwrap();
    }
}

/// A disk that is full while the flag is set.
#[derive(Default)]
struct FullDisk(AtomicBool);

impl IoHook for FullDisk {
    fn before(&self, op: Op<'_>) -> Verdict {
        match op {
            Op::Write(..) | Op::Create(_) if self.0.load(Ordering::Relaxed) => {
                Verdict::Fail(std::io::ErrorKind::StorageFull.into())
            }
            _ => Verdict::Proceed,
        }
    }
}

#[test]
fn on_a_full_disk_reads_go_on_puts_are_refused_and_then_taken_again() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Arc::new(FullDisk::default());
    let mut options = Options::new(8 * MIB);
    options.put_timeout = Duration::from_millis(1);
    let cache = Cache::open_on(Fs::with_hook(disk.clone()), dir.path(), options).unwrap();
    for i in 0..100u32 {
        cache.put(&i.to_le_bytes(), &value(i)).unwrap();
    }
    cache.flush(Durability::Written).unwrap();
    disk.0.store(true, Ordering::Relaxed);
    let mut refused = None;
    for i in ENTRIES..ENTRIES * 10 {
        if cache.put(&i.to_le_bytes(), &[7; 400]).unwrap() == Put::Refused {
            refused = Some(i);
            break;
        }
    }
    let refused = refused.expect("memory is not filled without end");
    assert_eq!(cache.get(&refused.to_le_bytes()), None);
    assert_eq!(good(&cache), 100, "reads go on");
    // A refused overwrite must not leave the old value.
    let is_refused = || cache.put(&5u32.to_le_bytes(), &[8; 400]).unwrap() == Put::Refused;
    eventually(is_refused, || format!("{:?}", cache.stats()));
    assert_eq!(cache.get(&5u32.to_le_bytes()), None);
    assert!(cache.last_disk_error().is_some() && cache.stats().disk_errors > 0);
    disk.0.store(false, Ordering::Relaxed);
    let is_taken = || cache.put(b"again", b"value").unwrap() == Put::Stored;
    eventually(is_taken, || format!("{:?}", cache.last_disk_error()));
    cache.close().unwrap();
    drop(cache);
    let cache = Cache::open(dir.path(), Options::new(8 * MIB)).unwrap();
    assert_eq!(cache.get(b"again").unwrap().value, b"value");
    assert_eq!(cache.get(&5u32.to_le_bytes()), None, "the old value of a refused overwrite came back");
}

/// A disk whose syncs do not end while the flag is set.
#[derive(Default)]
struct StuckSync(AtomicBool);

impl IoHook for StuckSync {
    fn before(&self, op: Op<'_>) -> Verdict {
        while matches!(op, Op::Sync(_)) && self.0.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(1));
        }
        Verdict::Proceed
    }
}

/// The soak test found a cache whose entries were evicted while all its dead space waited for a sync.
#[test]
fn nothing_is_evicted_nor_refused_and_dead_space_soon_goes_while_a_sync_takes_long() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Arc::new(StuckSync::default());
    let cache = Cache::open_on(Fs::with_hook(disk.clone()), dir.path(), patient(8 * MIB)).unwrap();
    disk.0.store(true, Ordering::Relaxed);
    let mut largest = 0;
    for i in 0..5_000u32 {
        let key = i.wrapping_mul(0x9e37_79b1) % 100;
        let _ = cache.put(&key.to_le_bytes(), &[i as u8; 4_000]);
        largest = cache.stats().disk_bytes.max(largest);
    }
    let start = Instant::now();
    // Half of the limit, and the segments in flight.
    let most = 4 * MIB + MIB / 4;
    while cache.stats().disk_bytes > most && start.elapsed() < STANDSTILL {
        std::thread::sleep(Duration::from_millis(10));
    }
    let stats = cache.stats();
    // The stuck sync is released before the assertions: if one of them fails, the cache is closed, which waits for the
    // syncer.
    disk.0.store(false, Ordering::Relaxed);
    assert_eq!((stats.evicted, stats.refused, stats.entries), (0, 0, 100), "{stats:?}");
    assert!((most + 1..=8 * MIB).contains(&largest) && stats.disk_bytes <= most, "{largest} at most: {stats:?}");
    cache.close().unwrap();
}

#[test]
fn a_folder_that_cannot_be_written_to_is_an_error_that_names_it() {
    let root = tempfile::tempdir().unwrap();
    // Root may write where the mode forbids it, but nobody can create a folder below a file.
    std::fs::write(root.path().join("file"), "").unwrap();
    let error = Cache::open(root.path().join("file/cache"), Options::new(MIB)).unwrap_err();
    assert!(error.to_string().contains("file"), "{error}");
    let dir = root.path().join("read-only");
    filled(&dir);
    std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o500)).unwrap();
    let reader = Cache::open_read_only(&dir, None).unwrap();
    assert_eq!(good(&reader), ENTRIES, "reading needs no right to write");
    // Nothing is refused to root, so scripts/tests/test-as-user runs this as another user.
    if std::fs::write(dir.join("probe"), "").is_err() {
        let error = Cache::open(dir.join("another"), Options::new(MIB)).unwrap_err();
        assert!(error.to_string().contains("read-only/another"), "{error}");
    }
    std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn a_durable_write_survives_a_kill_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let cache = Cache::open(dir.path(), Options::new(MIB)).unwrap();
    let durable = PutOptions::new().durability(Durability::Written);
    cache.put_with(b"session", b"of a user", durable).unwrap();
    cache.put_with(b"other", b"session", durable).unwrap();
    assert!(cache.remove_with(b"session", Durability::Written).unwrap());
    cache.abandon();
    let reader = Cache::open_read_only(dir.path(), None).unwrap();
    assert_eq!(reader.get(b"session"), None, "a logout came undone");
    assert_eq!(reader.get(b"other").unwrap().value, b"session");
}

/// Previously, the lock and the existing files of such a folder could be opened; each put was accepted, and none
/// reached the disk. Root may write everywhere, so the test is run as another user, too.
#[test]
fn a_folder_that_may_not_be_written_to_is_refused_when_it_is_opened() {
    let dir = tempfile::tempdir().expect("a temporary folder can be made");
    drop(Cache::open(dir.path(), Options::new(1 << 20)).expect("it opens"));
    let chmod = |mode| {
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(mode)).expect("the folder is the user's");
    };
    chmod(0o500);
    let opened = Cache::open(dir.path(), Options::new(1 << 20));
    let read = Cache::open_read_only(dir.path(), None);
    chmod(0o700);
    if refdb_vfs::effective_user() == 0 {
        opened.expect("root may write there");
        return;
    }
    let error = opened.expect_err("nothing could be written there").to_string();
    assert!(error.contains("write to the folder") && error.contains(&dir.path().display().to_string()), "{error}");
    read.expect("to read it is enough that it can be read");
}
