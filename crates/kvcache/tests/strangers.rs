//! What an administrator or another program puts into a cache's folder, or does with that folder.

mod common;

use common::{STANDSTILL, eventually, open, patient};
use refdb_kvcache::{Cache, Durability, Options, PutOptions, clean_versions, version_dir};
use refdb_vfs::Fs;
use std::{
    os::unix::net::UnixListener,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
};

const MIB: u64 = 1 << 20;

/// Puts something that is no regular file at a path.
type Put = fn(&Path);

fn pipe(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().expect("it starts").success());
}

fn socket(path: &Path) {
    drop(UnixListener::bind(path).expect("it is made"));
}

fn folder(path: &Path) {
    std::fs::create_dir(path).expect("it is made");
}

fn endless(path: &Path) {
    std::os::unix::fs::symlink("/dev/zero", path).expect("it is made");
}

const STRANGERS: [(&str, Put); 4] = [("pipe", pipe), ("socket", socket), ("folder", folder), ("endless", endless)];

/// Returns the result of `work`, which must wait for nobody.
fn promptly<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, result) = mpsc::channel();
    thread::spawn(move || done.send(work()));
    result.recv_timeout(STANDSTILL).unwrap_or_else(|_| panic!("{what} waits"))
}

/// Leaves a cache with one entry, and returns its folder.
fn filled(root: &Path) -> PathBuf {
    let dir = version_dir(root, "c", 1);
    let cache = open(&dir, MIB);
    cache.put(b"k", b"v").expect("it is put");
    cache.close().expect("it closes");
    dir
}

/// Previously, opening the cache, and each look at it, waited for a writer of the pipe, and a device was read into
/// memory without end.
#[test]
fn what_is_no_file_in_a_files_place_is_told_at_once_and_left_alone() {
    for name in ["format", "lock", "stats", "0000000000000001.seg", "0000000000000009.seg"] {
        for (kind, put) in STRANGERS {
            let temp = tempfile::tempdir().unwrap();
            let dir = filled(temp.path());
            let (place, what) = (dir.join(name), format!("{kind} as {name}"));
            let _ = std::fs::remove_file(&place);
            put(&place);
            let root = temp.path().to_owned();
            let (opened, looks) = promptly(&what, move || {
                let opened = Cache::open(&dir, Options::new(MIB)).map(drop);
                let looks = (Cache::open_read_only(&dir, None).map(drop), Cache::reported_stats(&dir).map(drop));
                let _ = clean_versions(&root, "c", 2);
                (opened, looks)
            });
            let told = opened.expect_err(&what).to_string();
            assert!(told.contains(name), "{what}: {told}");
            assert!(looks.1.is_err() == (name == "stats"), "{what}: {looks:?}");
        }
    }
}

const SYNCED: PutOptions = PutOptions::new().durability(Durability::Synced);

/// Previously, segments that had been moved away with the folder counted as deleted. When the folder was back, an old
/// segment was back with it, and so was a value that a younger segment had removed.
#[test]
fn a_removed_value_stays_so_where_the_folder_was_away_when_its_segment_was_to_go() {
    const PUTS: u32 = 500;
    const AWAY: u32 = 10;
    // Each time, the folder is away at another moment of the cache's life.
    for start in (0..PUTS).step_by(AWAY as usize) {
        let temp = tempfile::tempdir().unwrap();
        let (dir, away) = (temp.path().join("c"), temp.path().join("away"));
        let cache = Cache::open_idle(Fs::real(), &dir, patient(256 << 10)).unwrap();
        cache.put(b"k", b"v").unwrap();
        for i in 0..PUTS + AWAY {
            if i == 30 {
                cache.remove(b"k").unwrap();
            }
            if i == start {
                std::fs::rename(&dir, &away).unwrap();
            }
            cache.put(&(i % 20).to_le_bytes(), &[7; 1_000]).unwrap();
            let _ = cache.work();
            if i == start + AWAY {
                std::fs::rename(&away, &dir).unwrap();
            }
        }
        cache.work().unwrap();
        cache.close().unwrap();
        drop(cache);
        let cache = open(&dir, MIB);
        assert_eq!(cache.get(b"k"), None, "away from put {start} on");
        assert!(cache.notices().is_empty(), "away from put {start} on: {:?}", cache.notices());
    }
}

/// Such writes were once reported as durable, although the file no longer had a name.
#[test]
fn a_durable_write_to_a_folder_that_was_deleted_is_refused() {
    let temp = tempfile::tempdir().unwrap();
    let dir = filled(temp.path());
    let cache = open(&dir, MIB);
    cache.put_with(b"before", b"v", SYNCED).unwrap();
    std::fs::remove_dir_all(&dir).unwrap();
    for durability in [Durability::Written, Durability::Synced] {
        let told = cache.put_with(b"after", b"v", SYNCED.durability(durability)).unwrap_err().to_string();
        assert!(told.contains("the cache's folder was deleted"), "{told}");
        cache.remove_with(b"before", durability).expect_err("no file says so");
    }
    assert!(cache.close().is_err(), "what was put is nowhere");
}

#[test]
fn a_cache_goes_on_when_its_folder_is_back() {
    let temp = tempfile::tempdir().unwrap();
    let (dir, away) = (temp.path().join("c"), temp.path().join("away"));
    let cache = Cache::open(&dir, Options::new(MIB)).unwrap();
    cache.put_with(b"before", b"v", SYNCED).unwrap();
    std::fs::rename(&dir, &away).unwrap();
    cache.put_with(b"away", b"v", SYNCED).expect_err("there is no folder");
    for i in 0..2_000u32 {
        cache.put(&i.to_le_bytes(), &[1; 1_000]).expect("it is stored or refused");
    }
    cache.remove(b"before").unwrap();
    std::fs::rename(&away, &dir).unwrap();
    eventually(|| cache.put_with(b"back", b"v", SYNCED).is_ok(), || format!("{:?}", cache.last_disk_error()));
    cache.close().unwrap();
    let cache = open(&dir, MIB);
    assert!(cache.get(b"before").is_none() && cache.get(b"back").is_some());
}

/// A child has a copy of each descriptor until it runs its program. Previously, it held the lock for that moment.
#[test]
fn a_cache_that_was_closed_opens_again_while_programs_are_started() {
    let temp = tempfile::tempdir().unwrap();
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                Command::new("true").status().expect("it starts");
            }
        });
        let opened: Vec<_> =
            (0..500).map(|_| Cache::open_idle(Fs::real(), temp.path(), patient(MIB)).map(drop)).collect();
        is_done.store(true, Ordering::Relaxed);
        assert!(opened.iter().all(Result::is_ok), "{:?}", opened.iter().find(|opened| opened.is_err()));
    });
}
