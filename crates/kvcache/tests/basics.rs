//! The promises of a cache to a single user, on a real disk.

mod common;

use common::{eventually, open, patient};
use refdb_kvcache::{Cache, Clock, Durability, Error, Get, Key, Options, Put, PutOptions};
use std::{
    fs::File,
    os::unix::fs::PermissionsExt,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

const MIB: u64 = 1 << 20;

fn value_of(cache: &Cache, key: &[u8]) -> Option<Vec<u8>> {
    cache.get(key).map(|found| found.value)
}

/// Returns the total size of all segments in bytes. The worker may delete and create segments at the same time.
fn seg_bytes(dir: &Path) -> u64 {
    let files = std::fs::read_dir(dir).expect("it is there").filter_map(Result::ok);
    let segments = files.filter(|file| file.path().extension().is_some_and(|ext| ext == "seg"));
    segments.filter_map(|file| file.metadata().ok()).map(|metadata| metadata.len()).sum()
}

#[test]
fn of_a_value_that_is_too_large_for_the_caller_only_the_length_is_given() {
    let dir = tempfile::tempdir().unwrap();
    let check = |cache: &Cache| {
        let before = cache.stats();
        for most in [0, 10, 29, 30, 31, 1000] {
            let value_len = 30;
            let got = cache.get_up_to(b"a key", most, |value, _| value.to_vec());
            let expected = if most < value_len { Get::Larger(value_len) } else { Get::Found(vec![7; value_len]) };
            assert_eq!(got, expected, "{most}");
        }
        assert_eq!(cache.get_up_to(b"another", 0, |_, _| ()), Get::None);
        assert_eq!(cache.get_up_to(b"empty", 0, |value, _| value.len()), Get::Found(0));
        let after = cache.stats();
        assert_eq!((after.hits - before.hits, after.misses - before.misses), (4, 1), "a length is no hit");
    };
    for key in [None, Some(Key::new([3; 32]))] {
        let dir = dir.path().join(key.is_some().to_string());
        let options = || Options::new(4 * MIB).key(key.clone());
        let cache = Cache::open(&dir, options()).unwrap();
        cache.put(b"a key", &[7; 30]).unwrap();
        cache.put(b"empty", b"").unwrap();
        check(&cache);
        drop(cache);
        check(&Cache::open(&dir, options()).unwrap());
    }
}

#[test]
fn values_are_read_back_at_once_after_a_close_and_after_an_overwrite() {
    let dir = tempfile::tempdir().unwrap();
    {
        let cache = open(dir.path(), 4 * MIB);
        for i in 0..2000u32 {
            assert_eq!(cache.put(&i.to_le_bytes(), &vec![i as u8; (i % 700) as usize]).unwrap(), Put::Stored);
        }
        cache.put(&7u32.to_le_bytes(), b"new").unwrap();
        assert!(cache.remove(&8u32.to_le_bytes()).unwrap());
        assert!(!cache.remove(&8u32.to_le_bytes()).unwrap());
        assert_eq!(cache.stats().entries, 1999);
    }
    let cache = open(dir.path(), 4 * MIB);
    assert_eq!(cache.stats().entries, 1999);
    for i in 0..2000u32 {
        let expected = match i {
            7 => Some(b"new".to_vec()),
            8 => None,
            _ => Some(vec![i as u8; (i % 700) as usize]),
        };
        assert_eq!(value_of(&cache, &i.to_le_bytes()), expected, "{i}");
    }
    assert!(cache.notices().is_empty());
}

#[test]
fn empty_keys_and_values_and_large_ones_are_entries_like_others() {
    let dir = tempfile::tempdir().unwrap();
    let large = vec![5; 400_000];
    for round in 0..2 {
        let cache = open(dir.path(), 8 * MIB);
        if round == 0 {
            cache.put(b"", b"empty key").unwrap();
            cache.put(b"empty value", b"").unwrap();
            cache.put(b"large", &large).unwrap();
            cache.put(b"after", b"large").unwrap();
        }
        assert_eq!(value_of(&cache, b"").unwrap(), b"empty key");
        assert_eq!(value_of(&cache, b"empty value").unwrap(), b"");
        assert_eq!(value_of(&cache, b"large").unwrap(), large);
        assert_eq!(value_of(&cache, b"after").unwrap(), b"large");
    }
}

/// An older value must not be served in place of one that could not be stored.
#[test]
fn after_a_put_that_is_too_large_the_key_has_no_value() {
    let dir = tempfile::tempdir().unwrap();
    let cache = open(dir.path(), 8 * MIB);
    let too_large = vec![0; cache.largest_entry_bytes() + 1];
    cache.put(b"", b"older").unwrap();
    cache.flush(Durability::Synced).unwrap();
    let ticket = cache.ticket(b"");
    let put = |options| cache.put_with(b"", &too_large, options);
    assert!(matches!(put(PutOptions::new().durability(Durability::Written)), Err(Error::TooLarge { .. })));
    assert_eq!(value_of(&cache, b""), None);
    cache.put(b"", b"newer").unwrap();
    assert_eq!(put(PutOptions::new().ticket(ticket)).unwrap(), Put::Stale, "it was computed before the newer one");
    assert_eq!(value_of(&cache, b"").unwrap(), b"newer");
    put(PutOptions::new().ticket(cache.ticket(b"")).durability(Durability::Written)).unwrap_err();
    cache.abandon();
    assert_eq!(value_of(&open(dir.path(), 8 * MIB), b""), None, "nor after a kill");
}

#[test]
fn the_limit_holds_while_twice_as_much_is_put_and_what_is_read_stays() {
    let dir = tempfile::tempdir().unwrap();
    let limit = 8 * MIB;
    let cache = open(dir.path(), limit);
    let hot: Vec<String> = (0..500).map(|i| format!("hot {i}")).collect();
    for key in &hot {
        cache.put(key.as_bytes(), &[1; 400]).unwrap();
    }
    let mut largest = 0;
    for i in 0..40_000u32 {
        cache.put(&i.to_le_bytes(), &[2; 400]).unwrap();
        if i % 10 == 0 {
            assert!(cache.get(hot[i as usize / 10 % hot.len()].as_bytes()).is_some(), "a hot key is lost at {i}");
        }
        if i % 64 == 0 {
            largest = largest.max(seg_bytes(dir.path()));
            assert!(cache.stats().disk_bytes <= limit);
        }
    }
    let stats = cache.stats();
    // A deleted segment and its successor may both have been counted.
    assert!(largest <= limit + limit / 64, "{largest}");
    assert!(stats.evicted > 10_000 && stats.corrupt == 0, "{stats:?}");
    assert_eq!(stats.refused, 0, "{stats:?}");
    assert!(stats.entries * 450 > limit * 8 / 10, "the limit is used: {stats:?}");
}

#[test]
fn overwriting_lets_the_files_grow_to_half_of_the_limit() {
    let dir = tempfile::tempdir().unwrap();
    let cache = open(dir.path(), 64 * MIB);
    for round in 0..20u8 {
        for i in 0..5_000u32 {
            if (i * 7 + u32::from(round)) % 3 != 0 || round == 19 {
                assert_eq!(cache.put(&i.to_le_bytes(), &[round; 600]).unwrap(), Put::Stored);
            }
        }
        cache.flush(Durability::Written).unwrap();
        if round == 10 {
            assert!(cache.stats().compacted == 0 && seg_bytes(dir.path()) > 16 * MIB, "there is room for more");
        }
    }
    // Half of the limit, and room for segments that are being written or compacted.
    let is_half = || seg_bytes(dir.path()) <= 32 * MIB + 3 * MIB;
    eventually(is_half, || format!("{} bytes: {:?}", seg_bytes(dir.path()), cache.stats()));
    for i in 0..5_000u32 {
        assert_eq!(value_of(&cache, &i.to_le_bytes()), Some(vec![19; 600]), "{i}");
    }
    // Every third entry is dead, so no segment is entirely dead.
    for i in (0..5_000u32).step_by(3) {
        cache.remove(&i.to_le_bytes()).unwrap();
    }
    let payload = 5_000 * 604;
    let before = cache.stats().compacted;
    cache.compact().unwrap();
    assert!(cache.stats().compacted - before > 1000, "{before} before: {:?}", cache.stats());
    // Two thirds of the entries are live, a tenth of each segment may be dead, and some tombstones remain, depending
    // on where they are.
    assert!(seg_bytes(dir.path()) < payload * 9 / 10, "{} bytes of {payload}", seg_bytes(dir.path()));
    drop(cache);
    let cache = open(dir.path(), 64 * MIB);
    for i in 0..5_000u32 {
        assert_eq!(cache.get(&i.to_le_bytes()).is_some(), i % 3 != 0, "{i}");
    }
}

#[test]
fn a_cleared_cache_is_empty_and_stays_so() {
    let dir = tempfile::tempdir().unwrap();
    let cache = open(dir.path(), 8 * MIB);
    for i in 0..8_000u32 {
        cache.put(&i.to_le_bytes(), &[1; 300]).unwrap();
    }
    let ticket = cache.ticket(b"k");
    cache.clear().unwrap();
    assert_eq!(cache.stats().entries, 0);
    assert_eq!(cache.get(&1u32.to_le_bytes()), None);
    let options = PutOptions::new().ticket(ticket);
    assert_eq!(cache.put_with(b"k", b"computed before", options).unwrap(), Put::Stale);
    cache.put(b"new", b"value").unwrap();
    drop(cache);
    let cache = open(dir.path(), 8 * MIB);
    assert_eq!(cache.stats().entries, 1);
    assert_eq!(value_of(&cache, b"new").unwrap(), b"value");
}

/// A cleared cache is a single segment that consists of a header, which is also what a killed process may leave as the
/// last segment.
#[test]
fn a_segment_without_records_takes_nothing_along_and_is_no_harm() {
    const HEADER: u64 = 64;
    let dir = tempfile::tempdir().unwrap();
    let cache = open(dir.path(), 8 * MIB);
    cache.put(b"old", b"value").unwrap();
    cache.clear_with(Durability::Synced).unwrap();
    drop(cache);
    let cache = open(dir.path(), 8 * MIB);
    assert!(cache.notices().is_empty(), "{:?}", cache.notices());
    for i in 0..8_000u32 {
        cache.put(&i.to_le_bytes(), &[1; 300]).unwrap();
    }
    drop(cache);
    let mut segments: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    segments.retain(|path| path.extension().is_some_and(|end| end == "seg"));
    segments.sort();
    assert!(segments.len() > 2, "{segments:?}");
    File::options().write(true).open(segments.last().unwrap()).unwrap().set_len(HEADER).unwrap();
    let cache = open(dir.path(), 8 * MIB);
    assert!(cache.notices().is_empty(), "{:?}", cache.notices());
    assert!(cache.get(&0u32.to_le_bytes()).is_some());
}

#[test]
fn a_value_computed_before_an_invalidation_is_not_put() {
    let dir = tempfile::tempdir().unwrap();
    let cache = open(dir.path(), MIB);
    let put = |key: &[u8], ticket| cache.put_with(key, b"computed", PutOptions::new().ticket(ticket));
    let ticket = cache.ticket(b"k");
    assert_eq!(put(b"k", ticket).unwrap(), Put::Stored);
    assert_eq!(put(b"k", ticket).unwrap(), Put::Stored, "a computed value does not make others stale");
    cache.remove(b"k").unwrap();
    assert_eq!(put(b"k", ticket).unwrap(), Put::Stale);
    assert_eq!(cache.get(b"k"), None);
    let ticket = cache.ticket(b"k");
    cache.put(b"k", b"given").unwrap();
    assert_eq!(put(b"k", ticket).unwrap(), Put::Stale);
    assert_eq!(value_of(&cache, b"k").unwrap(), b"given");
}

#[test]
fn entries_age_from_their_creation_and_their_segments_go() {
    let dir = tempfile::tempdir().unwrap();
    let now = Arc::new(AtomicU64::new(1_000_000));
    let clock = now.clone();
    let mut options = patient(4 * MIB);
    options.max_age = Some(Duration::from_secs(60));
    options.clock = Clock::new(move || clock.load(Ordering::Relaxed));
    let cache = Cache::open(dir.path(), options.clone()).unwrap();
    cache.put(b"young", b"1").unwrap();
    cache.put_with(b"old", b"2", PutOptions::new().created_ms(1_000_000 - 59_000)).unwrap();
    assert_eq!(cache.get(b"old").unwrap().created_ms, 941_000);
    now.fetch_add(2_000, Ordering::Relaxed);
    assert_eq!(cache.get(b"old"), None);
    assert!(cache.get(b"young").is_some());
    drop(cache);
    let cache = Cache::open(dir.path(), options).unwrap();
    assert!(cache.get(b"young").is_some() && cache.get(b"old").is_none());
    now.fetch_add(60_000, Ordering::Relaxed);
    assert!(cache.get(b"young").is_none());
    let is_empty = || {
        cache.put(b"wakes", b"the worker").unwrap();
        cache.remove(b"wakes").unwrap();
        cache.stats().entries == 0
    };
    eventually(is_empty, || format!("{:?}", cache.stats()));
}

#[test]
fn a_second_writer_is_refused_and_readers_are_not() {
    let dir = tempfile::tempdir().unwrap();
    let cache = open(dir.path(), 4 * MIB);
    let refused = Cache::open(dir.path(), Options::new(4 * MIB)).unwrap_err();
    assert!(matches!(refused, Error::Locked { .. }), "{refused}");
    cache.put_with(b"k", b"v", PutOptions::new().durability(Durability::Written)).unwrap();
    let reader = Cache::open_read_only(dir.path(), None).unwrap();
    assert_eq!(value_of(&reader, b"k").unwrap(), b"v");
    assert!(matches!(reader.put(b"k", b"w"), Err(Error::ReadOnly)));
    assert!(matches!(reader.remove(b"k"), Err(Error::ReadOnly)));
    cache.close().unwrap();
    assert!(matches!(cache.put(b"k", b"w"), Err(Error::Closed)));
    assert_eq!(value_of(&cache, b"k").unwrap(), b"v");
    open(dir.path(), 4 * MIB);
}

/// Previously, a walk left out what another process had moved to other files since the opening.
#[test]
fn a_reader_walks_over_all_entries_though_a_writer_moves_them() {
    let dir = tempfile::tempdir().unwrap();
    let writer = Cache::open_idle(refdb_vfs::Fs::real(), dir.path(), Options::new(4 * MIB)).unwrap();
    for i in 0..2_000u32 {
        assert_eq!(writer.put(&i.to_le_bytes(), &[7; 1_000]).unwrap(), Put::Stored);
        writer.work().unwrap();
    }
    writer.flush(Durability::Written).unwrap();
    let reader = Cache::open_read_only(dir.path(), None).unwrap();
    let entries = |of: &mut dyn FnMut(u32)| {
        let walked: Result<_, std::convert::Infallible> = reader.for_each(|key, value, _| {
            assert_eq!(value, [7; 1_000]);
            of(u32::from_le_bytes(key.try_into().unwrap()));
            Ok(())
        });
        walked.unwrap()
    };
    let mut seen = std::collections::BTreeSet::new();
    let walked = entries(&mut |key| {
        if seen.is_empty() {
            (0..2_000u32).filter(|i| i % 4 > 0).for_each(|i| assert!(writer.remove(&i.to_le_bytes()).unwrap()));
            assert!(writer.compact().unwrap() > MIB);
        }
        assert!(seen.insert(key), "{key} is shown once");
    });
    assert!((0..2_000u32).step_by(4).all(|key| seen.contains(&key)), "{} were seen", seen.len());
    assert_eq!((walked.good, walked.bad), (seen.len() as u64, 0));
    assert!(seen.len() < 1_000, "{} were seen, most of them in files that are gone", seen.len());
    assert!(reader.verify().good >= 500);
}

/// Previously, such a walk ended as if the entries had been removed.
#[test]
fn a_walk_counts_what_it_cannot_find_because_the_files_cannot_be_opened_again() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("cache");
    let writer = open(&dir, 4 * MIB);
    (0..2_000u32).for_each(|i| assert_eq!(writer.put(&i.to_le_bytes(), &[7; 1_000]).unwrap(), Put::Stored));
    writer.close().unwrap();
    let reader = Cache::open_read_only(&dir, None).unwrap();
    std::fs::rename(&dir, temp.path().join("elsewhere")).unwrap();
    let (walked, mut exported) = (reader.verify(), Vec::new());
    assert!(walked.bad > 0);
    assert_eq!(walked.good + walked.bad, 2_000);
    let told = reader.export(&mut exported).unwrap();
    assert_eq!(told.good + told.bad, 2_000);
}

#[test]
fn files_are_private_to_the_user() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("cache/name/v1");
    let cache = open(&dir, MIB);
    cache.put_with(b"k", b"v", PutOptions::new().durability(Durability::Synced)).unwrap();
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&root.path().join("cache")), 0o700);
    assert_eq!(mode(&dir), 0o700);
    let mut seen = 0;
    for file in std::fs::read_dir(&dir).unwrap() {
        let path = file.unwrap().path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
        seen += 1;
    }
    assert_eq!(seen, 4, "lock, format, promised and a segment");
}

#[test]
fn an_encrypted_cache_tells_nothing_and_opens_with_its_key_only() {
    let dir = tempfile::tempdir().unwrap();
    let with = |key: Option<u8>, old: &[u8]| {
        let mut options = Options::new(MIB);
        options.key = key.map(|byte| Key::new([byte; 32]));
        options.old_keys = old.iter().map(|byte| Key::new([*byte; 32])).collect();
        Cache::open(dir.path(), options).unwrap()
    };
    let cache = with(Some(1), &[]);
    cache.put(b"cookie-of-a-session", b"secret-of-a-session").unwrap();
    assert_eq!(value_of(&cache, b"cookie-of-a-session").unwrap(), b"secret-of-a-session");
    drop(cache);
    for file in std::fs::read_dir(dir.path()).unwrap() {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        assert!(!bytes.windows(12).any(|window| window == b"of-a-session"));
    }
    assert!(Cache::is_encrypted(dir.path()).unwrap());
    assert!(matches!(Cache::open_read_only(dir.path(), None), Err(Error::WrongKey { .. })));
    let reader = Cache::open_read_only(dir.path(), Some(&Key::new([1; 32]))).unwrap();
    assert_eq!(value_of(&reader, b"cookie-of-a-session").unwrap(), b"secret-of-a-session");
    let rotated = with(Some(2), &[9, 1]);
    assert_eq!(value_of(&rotated, b"cookie-of-a-session").unwrap(), b"secret-of-a-session");
    assert!(rotated.notices().is_empty());
    drop(rotated);
    assert_eq!(value_of(&with(Some(2), &[]), b"cookie-of-a-session").unwrap(), b"secret-of-a-session");
    let wrong = with(Some(3), &[1]);
    assert!(matches!(wrong.notices(), [Error::WrongKey { .. }]), "{:?}", wrong.notices());
    assert_eq!(wrong.stats().entries, 0);
    assert_eq!(wrong.get(b"cookie-of-a-session"), None);
    wrong.put(b"a", b"b").unwrap();
    drop(wrong);
    let plain = with(None, &[]);
    assert!(matches!(plain.notices(), [Error::WrongKey { .. }]));
    assert_eq!(plain.stats().entries, 0);
}

#[test]
fn a_cache_opens_in_a_folder_that_is_named_from_here() {
    let dir = tempfile::tempdir().unwrap();
    // The other tests use absolute paths.
    std::env::set_current_dir(dir.path()).unwrap();
    let cache = Cache::open("cache", Options::new(MIB)).unwrap();
    put_one(&cache);
    assert!(dir.path().join("cache/format").exists());
}

fn put_one(cache: &Cache) {
    assert_eq!(cache.put(b"key", b"value").expect("it works"), Put::Stored);
}

#[test]
fn a_value_may_be_looked_up_while_another_is_shown() {
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (outer, inner) = (open(dir.path(), MIB), open(other.path(), MIB));
    put_one(&outer);
    put_one(&inner);
    let seen = outer.get_with(b"key", |value, _| {
        inner.put(b"copy", value).unwrap();
        (inner.get(b"key").unwrap().value, outer.get(b"key").unwrap().value, value.to_vec())
    });
    assert_eq!(seen, Some((b"value".to_vec(), b"value".to_vec(), b"value".to_vec())));
    assert_eq!(value_of(&inner, b"copy").unwrap(), b"value");
}

/// Previously, the first read after a pause was published up to ten seconds later.
#[test]
fn what_is_read_after_a_pause_is_published_within_about_five_seconds() {
    let dir = tempfile::tempdir().unwrap();
    let cache = open(dir.path(), MIB);
    cache.put(b"k", b"v").unwrap();
    let published = || Cache::reported_stats(dir.path()).unwrap().unwrap_or_default();
    eventually(|| published().puts == 1, || format!("{:?}", published()));
    // The thread that publishes goes to sleep.
    std::thread::sleep(Duration::from_millis(500));
    // A busy machine may take longer now and then.
    let took = [1, 2, 3].map(|hits| {
        assert!(cache.get(b"k").is_some());
        let start = Instant::now();
        eventually(|| published().hits == hits, || format!("{:?}", published()));
        std::thread::sleep(Duration::from_millis(500));
        start.elapsed()
    });
    assert!(took.iter().any(|took| *took < Duration::from_secs(7)), "{took:?}");
}

/// Previously, a walk for one entry took a list of all: half a gigabyte for twenty million entries. Whether it takes one
/// is seen by whether it shows what is put after its first entry.
#[test]
fn a_walk_that_may_end_at_its_first_entry_does_not_list_all() {
    let dir = tempfile::tempdir().unwrap();
    let cache = open(dir.path(), 4 * MIB);
    for i in 0..10_000_u32 {
        cache.put(&i.to_le_bytes(), b"early").unwrap();
    }
    let (mut first, mut late) = (true, 0);
    let walked: Result<_, std::convert::Infallible> = cache.for_each(|_, value, _| {
        if std::mem::take(&mut first) {
            for i in 0..10_u8 {
                cache.put(&[i], b"late").unwrap();
            }
        }
        late += u32::from(value == b"late");
        Ok(())
    });
    assert_eq!(walked.unwrap().bad, 0);
    assert!(late > 0);
}

/// Previously, a walk left out the entries that a compaction had moved since it began.
#[test]
fn a_walk_shows_what_is_moved_meanwhile() {
    const ENTRIES: u32 = 1_000;
    let dir = tempfile::tempdir().unwrap();
    let cache = open(dir.path(), 4 * MIB);
    for i in 0..ENTRIES {
        cache.put(&i.to_le_bytes(), &[1; 400]).unwrap();
        cache.put(b"dead", &[i as u8; 400]).unwrap();
    }
    let mut seen = 0;
    let walked = cache.for_each(|key, value, _| {
        if seen == ENTRIES / 2 {
            cache.put(b"dead", b"new").unwrap();
            assert!(cache.compact().unwrap() > 0, "nothing was moved");
        }
        seen += 1;
        if key == b"dead" || value == [1; 400] { Ok(()) } else { Err(key.to_vec()) }
    });
    assert_eq!((walked.unwrap().good, seen), (u64::from(ENTRIES) + 1, ENTRIES + 1));
}
