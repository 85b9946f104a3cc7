//! A cache that was closed is opened from its saved index, but only if the folder has exactly the segments for which it
//! was saved.

#![allow(clippy::unwrap_used, reason = "whatever fails here fails the test")]

mod common;

use common::open;
use refdb_kvcache::{Cache, Options};
use refdb_vfs::{Fs, IoHook, Op, Verdict};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

const MIB: u64 = 1 << 20;
const LIMIT_BYTES: u64 = 4 * MIB;
const ENTRIES: u32 = 600;
/// Lengths of a segment's header and trailer.
const HEADER_BYTES: usize = 64;
const TRAILER_BYTES: usize = 64;

fn saved_index(dir: &Path) -> PathBuf {
    dir.join("0000000000000000.seg")
}

fn segments(dir: &Path) -> Vec<PathBuf> {
    let files = std::fs::read_dir(dir).unwrap().map(|file| file.unwrap().path());
    let is_segment = |path: &PathBuf| path.extension().is_some_and(|ext| ext == "seg") && *path != saved_index(dir);
    let mut segments: Vec<_> = files.filter(is_segment).collect();
    segments.sort();
    segments
}

/// A closed cache of several segments, whose values are computed from their keys.
fn filled() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let cache = open(dir.path(), LIMIT_BYTES);
    for i in 0..ENTRIES {
        cache.put(&i.to_le_bytes(), &[i as u8; 300]).unwrap();
    }
    cache.close().unwrap();
    assert!(segments(dir.path()).len() > 3);
    dir
}

fn copied(dir: &Path) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    for file in std::fs::read_dir(dir).unwrap() {
        let path = file.unwrap().path();
        std::fs::copy(&path, copy.path().join(path.file_name().unwrap())).unwrap();
    }
    copy
}

/// Returns whether a cache would be opened from its saved index. A replay would notice that a record is damaged,
/// because the footer is damaged too; the saved index leads to that record like to any other.
fn is_believed(dir: &Path) -> bool {
    let copy = copied(dir);
    let segment = &segments(copy.path())[0];
    let mut bytes = std::fs::read(segment).unwrap();
    bytes[HEADER_BYTES + 40] ^= 1;
    let footer_entry = bytes.len() - TRAILER_BYTES - 8;
    bytes[footer_entry] ^= 1;
    std::fs::write(segment, bytes).unwrap();
    let entries = |dir: &Path| Cache::open_read_only(dir, None).unwrap().stats().entries;
    let without = copied(dir);
    let _ = std::fs::remove_file(saved_index(without.path()));
    let (here, all) = (entries(copy.path()), entries(without.path()));
    assert!(here == all || here + 1 == all, "{here} of {all}");
    here == all
}

#[test]
fn a_closed_cache_is_opened_from_its_saved_index_as_it_would_be_from_its_segments() {
    let dir = filled();
    for round in 0..3u32 {
        assert!(is_believed(dir.path()), "round {round}");
        let replayed = copied(dir.path());
        std::fs::remove_file(saved_index(replayed.path())).unwrap();
        let (saved, replayed) = (open(dir.path(), LIMIT_BYTES), open(replayed.path(), LIMIT_BYTES));
        assert!(!saved_index(dir.path()).exists(), "an open cache has none");
        let mut stats = [saved.stats(), replayed.stats()];
        stats.iter_mut().for_each(|stats| (stats.sampled, stats.puts) = (0, 0));
        assert_eq!(stats[0], stats[1]);
        for i in 0..ENTRIES {
            let key = i.to_le_bytes();
            assert_eq!(saved.get(&key), replayed.get(&key));
        }
        // The next saved index has these changes.
        for i in (round..ENTRIES).step_by(7) {
            saved.remove(&i.to_le_bytes()).unwrap();
            saved.put(&(i / 2).to_le_bytes(), &[round as u8; 200]).unwrap();
        }
        saved.compact().unwrap();
        saved.close().unwrap();
    }
}

#[test]
fn a_saved_index_of_other_segments_is_not_believed() {
    let dir = filled();
    let last = |dir: &Path| segments(dir).pop().unwrap();
    let changes: [&dyn Fn(&Path); 6] = [
        &|dir| std::fs::remove_file(last(dir)).unwrap(),
        &|dir| std::fs::remove_file(&segments(dir)[0]).unwrap(),
        &|dir| drop(std::fs::write(last(dir), [std::fs::read(last(dir)).unwrap(), vec![0; 16]].concat())),
        // The segments of another cache.
        &|dir| {
            let other = filled();
            std::fs::copy(other.path().join("format"), dir.join("format")).unwrap();
            segments(other.path())
                .iter()
                .for_each(|path| drop(std::fs::copy(path, dir.join(path.file_name().unwrap()))));
        },
        // Another cache's saved index.
        &|dir| std::fs::write(saved_index(dir), std::fs::read(saved_index(filled().path())).unwrap()).unwrap(),
        &|dir| std::fs::write(saved_index(dir), "").unwrap(),
    ];
    for (at, change) in changes.iter().enumerate() {
        let changed = copied(dir.path());
        change(changed.path());
        assert!(!is_believed(changed.path()), "change {at}");
        drop(open(changed.path(), LIMIT_BYTES));
        assert!(is_believed(changed.path()), "change {at}: it is saved anew");
    }
}

/// Regression: the cache could be neither opened nor closed. Another program's folder is not deleted.
#[test]
fn a_folder_at_the_name_of_the_saved_index_is_left_alone() {
    let dir = filled();
    std::fs::remove_file(saved_index(dir.path())).unwrap();
    std::fs::create_dir(saved_index(dir.path())).unwrap();
    for _ in 0..2 {
        let cache = open(dir.path(), LIMIT_BYTES);
        assert_eq!(cache.stats().entries, u64::from(ENTRIES));
        cache.close().unwrap();
    }
    assert!(saved_index(dir.path()).is_dir());
}

/// A program that does not know the saved index may change the cache and leave the saved index in the folder, or a
/// backup may bring an old one back. Entries that were removed in the meantime must stay removed.
#[test]
fn a_saved_index_from_before_a_change_is_not_believed() {
    for is_killed in [false, true] {
        let dir = filled();
        let old = std::fs::read(saved_index(dir.path())).unwrap();
        let cache = Cache::open_idle(Fs::real(), dir.path(), Options::new(LIMIT_BYTES)).unwrap();
        assert!(cache.remove(&5u32.to_le_bytes()).unwrap());
        cache.flush(refdb_kvcache::Durability::Written).unwrap();
        if is_killed {
            cache.abandon()
        } else {
            cache.close().unwrap()
        }
        std::fs::write(saved_index(dir.path()), &old).unwrap();
        let cache = open(dir.path(), LIMIT_BYTES);
        assert_eq!((cache.get(&5u32.to_le_bytes()), cache.stats().entries), (None, u64::from(ENTRIES) - 1));
    }
}

#[test]
fn a_damaged_saved_index_costs_nothing_but_time() {
    let dir = filled();
    let bytes = std::fs::read(saved_index(dir.path())).unwrap();
    let damages = (0..bytes.len()).step_by(97).map(|at| {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        damaged
    });
    let cuts = (0..bytes.len()).step_by(997).map(|len| bytes[..len].to_vec());
    for damaged in damages.chain(cuts) {
        std::fs::write(saved_index(dir.path()), &damaged).unwrap();
        let cache = Cache::open_read_only(dir.path(), None).unwrap();
        assert_eq!((cache.stats().entries, cache.notices().len()), (u64::from(ENTRIES), 0));
        assert!((0..ENTRIES).step_by(50).all(|i| cache.get(&i.to_le_bytes()).is_some()));
    }
    let cache = open(dir.path(), LIMIT_BYTES);
    assert_eq!((cache.stats().entries, saved_index(dir.path()).exists()), (u64::from(ENTRIES), false));
}

/// A cache that is already in use when it finds its saved index damaged takes the remaining entries from the footers.
#[test]
fn a_saved_index_whose_damage_is_found_late_gives_way_to_the_footers() {
    let dir = filled();
    let bytes = std::fs::read(saved_index(dir.path())).unwrap();
    // The entries are at the end, those of the first shard first.
    for back in [5, 2_000, 14 * ENTRIES as usize - 5] {
        let copy = copied(dir.path());
        let mut damaged = bytes.clone();
        damaged[bytes.len() - back] ^= 1;
        std::fs::write(saved_index(copy.path()), damaged).unwrap();
        let cache = Cache::open_unread(Fs::real(), copy.path(), Options::new(LIMIT_BYTES), 1).unwrap();
        assert!(!cache.remove(&5u32.to_le_bytes()).unwrap(), "it was not found yet");
        cache.put(&6u32.to_le_bytes(), b"new").unwrap();
        while cache.read_on() {}
        let found = |i: u32| cache.get(&i.to_le_bytes()).map(|found| found.value);
        assert_eq!((found(5), found(6).as_deref(), found(7)), (None, Some(&b"new"[..]), Some(vec![7; 300])));
        assert_eq!((cache.stats().entries, cache.stats().corrupt), (u64::from(ENTRIES) - 1, 0));
    }
}

/// If a footer is damaged too, nobody knows which values were replaced or removed.
#[test]
fn late_damage_of_saved_index_and_footer_empties_the_cache() {
    let dir = filled();
    for path in [saved_index(dir.path()), segments(dir.path()).remove(0)] {
        let mut bytes = std::fs::read(&path).unwrap();
        let entry = bytes.len() - TRAILER_BYTES - 8;
        bytes[entry] ^= 1;
        std::fs::write(&path, bytes).unwrap();
    }
    let cache = Cache::open_unread(Fs::real(), dir.path(), Options::new(LIMIT_BYTES), 1).unwrap();
    while cache.read_on() {}
    assert_eq!((cache.stats().entries, cache.stats().corrupt), (0, 1));
    assert_eq!(segments(dir.path()), [] as [PathBuf; 0]);
    cache.put(b"key", b"value").unwrap();
    cache.close().unwrap();
    let cache = open(dir.path(), LIMIT_BYTES);
    assert_eq!((cache.stats().entries, cache.get(b"key").unwrap().value), (1, b"value".to_vec()));
}

#[test]
fn nothing_is_saved_where_the_limit_leaves_no_room() {
    let dir = tempfile::tempdir().unwrap();
    let mut sizes = Vec::new();
    for entries in [100u32, 60_000] {
        let cache = open(dir.path(), MIB);
        for i in 0..entries {
            cache.put(&i.to_le_bytes(), b"v").unwrap();
        }
        cache.close().unwrap();
        let files = std::fs::read_dir(dir.path()).unwrap().map(|file| file.unwrap().metadata().unwrap().len());
        let disk: u64 = files.map(|len| len.next_multiple_of(4096)).sum();
        assert!(disk <= MIB, "{disk}");
        sizes.push(saved_index(dir.path()).exists());
    }
    assert_eq!(sizes, [true, false]);
}

#[test]
fn a_lower_limit_holds_although_there_is_a_saved_index() {
    let dir = tempfile::tempdir().unwrap();
    let cache = open(dir.path(), LIMIT_BYTES);
    for i in 0..2_000u32 {
        cache.put(&i.to_le_bytes(), &[1; 800]).unwrap();
    }
    cache.close().unwrap();
    assert!(saved_index(dir.path()).exists());
    // Without a worker, which might evict more between the two looks.
    let cache = Cache::open_idle(Fs::real(), dir.path(), Options::new(MIB)).unwrap();
    let stats = cache.stats();
    assert!(stats.disk_bytes <= MIB && (500..2_000).contains(&stats.entries), "{stats:?}");
    assert_eq!((0..2_000u32).filter(|i| cache.get(&i.to_le_bytes()).is_some()).count() as u64, stats.entries);
}

#[test]
fn an_encrypted_cache_with_another_key_does_not_use_it() {
    let dir = tempfile::tempdir().unwrap();
    let options = |key: u8| Options::new(LIMIT_BYTES).key(refdb_kvcache::Key::new([key; 32]));
    let cache = Cache::open(dir.path(), options(1)).unwrap();
    cache.put(b"key", b"value").unwrap();
    drop(cache);
    assert!(saved_index(dir.path()).exists());
    let cache = Cache::open(dir.path(), options(1)).unwrap();
    assert_eq!(cache.get(b"key").unwrap().value, b"value");
    drop(cache);
    let cache = Cache::open(dir.path(), options(2)).unwrap();
    assert_eq!((cache.get(b"key"), cache.stats().entries), (None, 0));
}

/// A disk on which no segment can be deleted.
struct Undeletable;

impl IoHook for Undeletable {
    fn before(&self, op: Op<'_>) -> Verdict {
        match op {
            Op::Remove(path) if path.extension().is_some_and(|ext| ext == "seg") => {
                Verdict::Fail(std::io::ErrorKind::PermissionDenied.into())
            }
            _ => Verdict::Proceed,
        }
    }
}

/// A replay would bring the evicted entries back, and the index does not have them.
#[test]
fn nothing_is_saved_while_an_evicted_segment_is_still_there() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::new(MIB).put_timeout(Duration::ZERO);
    let cache = Cache::open_idle(Fs::with_hook(Arc::new(Undeletable)), dir.path(), options).unwrap();
    for i in 0..2_000u32 {
        // What finds no room is refused.
        let _ = cache.put(&i.to_le_bytes(), &[1; 800]);
        let _ = cache.work();
    }
    let _ = cache.close();
    let entries = cache.stats().entries;
    drop(cache);
    assert!(entries < 1_200 && !segments(dir.path()).is_empty(), "something was evicted: {entries}");
    assert!(!saved_index(dir.path()).exists());
}

fn place_of(bytes: &[u8], what: &[u8]) -> usize {
    bytes.windows(what.len()).position(|window| window == what).expect("it is there")
}

/// Damages a record, so that the record after it is reached only by its length, and the header of that next one with
/// the entry for it in the footer, so that nothing tells where the records behind it begin. A tombstone is among these.
fn hide_a_tombstone(dir: &Path) {
    let read = |path: &PathBuf| std::fs::read(path).unwrap();
    let path =
        segments(dir).into_iter().find(|path| read(path).windows(10).any(|bytes| bytes == b"the second")).unwrap();
    let mut bytes = read(&path);
    let first = place_of(&bytes, &[0x55; 100]);
    bytes[first + 1000] ^= 1;
    let second = place_of(&bytes, b"the second") - 32;
    bytes[second..second + 32].fill(0xaa);
    let trailer = bytes.len() - 64;
    let entries = u32::from_le_bytes(bytes[trailer + 32..trailer + 36].try_into().unwrap()) as usize;
    let entries = (0..entries).map(|entry| trailer - 16 * (entry + 1));
    let offset = |bytes: &[u8], at: usize| u64::from_le_bytes(bytes[at + 8..at + 16].try_into().unwrap()) >> 26;
    let of_second: Vec<_> = entries.filter(|at| (offset(&bytes, *at) % (1 << 22)) as usize * 16 == second).collect();
    assert_eq!(of_second.len(), 1, "one entry of the footer names the second record");
    bytes[of_second[0]..of_second[0] + 16].fill(0xaa);
    std::fs::write(&path, &bytes).unwrap();
}

/// A saved index hides that a footer is damaged, and a footer may be damaged after it was read. When the segment is
/// compacted, the records that are still found must not be taken for all that were in it.
#[test]
fn a_removed_value_stays_so_if_its_tombstone_cannot_be_read() {
    for is_killed in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let open = || Cache::open_idle(Fs::real(), dir.path(), common::patient(4 << 20)).unwrap();
        let cache = open();
        let fill = |cache: &Cache, from: u32| {
            (from..from + 40).for_each(|number| {
                assert_eq!(cache.put(&number.to_le_bytes(), &[3; 1000]).unwrap(), refdb_kvcache::Put::Stored)
            });
        };
        cache.put(b"removed", b"the old value").unwrap();
        fill(&cache, 0);
        cache.put(b"the first", &[0x55; 3000]).unwrap();
        cache.put(b"the second", b"x").unwrap();
        assert!(cache.remove(b"removed").unwrap());
        fill(&cache, 100);
        cache.close().unwrap();
        if is_killed {
            std::fs::remove_file(saved_index(dir.path())).unwrap();
        } else {
            assert!(is_believed(copied(dir.path()).path()));
            hide_a_tombstone(dir.path());
        }

        let cache = open();
        if is_killed {
            hide_a_tombstone(dir.path());
        }
        (100..130u32).for_each(|number| assert!(cache.remove(&number.to_le_bytes()).unwrap()));
        cache.compact().unwrap();
        assert!(cache.get(b"removed").is_none());
        cache.flush(refdb_kvcache::Durability::Written).unwrap();
        cache.abandon();
        assert!(open().get(b"removed").is_none());
    }
}
