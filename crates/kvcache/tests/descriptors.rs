//! Number of descriptors that a cache needs. One test counts those of its own process that lead into the cache's
//! folder; the others run processes that may have few.

mod common;

use common::open;
use refdb_kvcache::{Cache, Durability, Options, PutOptions};
use std::{
    path::Path,
    process::{Command, Stdio},
    sync::{Mutex, PoisonError},
};

const MIB: u64 = 1 << 20;
const FOLDER: &str = "REFDB_DESCRIPTORS_FOLDER";

/// Keeps children from starting while a cache is closed: a child has its parent's descriptors until it runs another
/// program, so that the cache would stay locked.
static NO_CHILD_STARTS: Mutex<()> = Mutex::new(());

/// Leaves more segments than a process with few descriptors can open at the same time.
fn filled(dir: &Path) {
    let cache = open(dir, 4 * MIB);
    for i in 0..8_000u32 {
        let _ = cache.put(&i.to_le_bytes(), &[1; 400]).expect("it works");
    }
}

fn durably(durability: Durability) -> PutOptions {
    PutOptions::new().durability(durability)
}

fn descriptors_in(dir: &Path) -> usize {
    let open = std::fs::read_dir("/proc/self/fd").expect("it works").filter_map(Result::ok);
    open.filter_map(|link| std::fs::read_link(link.path()).ok()).filter(|target| target.starts_with(dir)).count()
}

#[test]
fn a_cache_at_rest_has_at_most_four_descriptors() {
    let _alone = NO_CHILD_STARTS.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path());
    let read_all = |cache: &Cache| (0..8_000u32).filter(|i| cache.get(&i.to_le_bytes()).is_some()).count();
    let cache = Cache::open(dir.path(), Options::new(4 * MIB)).unwrap();
    cache.put(b"key", b"value").unwrap();
    let found = read_all(&cache);
    assert!(found > 5_000, "{found}");
    assert!(descriptors_in(dir.path()) <= 4, "a writer has {}", descriptors_in(dir.path()));
    drop(cache);
    let reader = Cache::open_read_only(dir.path(), None).unwrap();
    assert_eq!(read_all(&reader), found);
    assert!(descriptors_in(dir.path()) <= 4, "a reader has {}", descriptors_in(dir.path()));
}

/// Opens a cache with few descriptors, as a child of the test below.
#[test]
#[ignore = "only the test below runs it, as a process with few descriptors"]
fn child() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let cache = Cache::open_read_only(Path::new(&folder), None).unwrap();
    assert!(cache.verify().good > 5_000);
    drop(cache);
    let cache = Cache::open(Path::new(&folder), Options::new(4 * MIB)).unwrap();
    assert!(cache.verify().good > 5_000);
}

#[test]
fn a_cache_opens_with_sixteen_descriptors_to_spare() {
    let _alone = NO_CHILD_STARTS.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path());
    run_with_descriptors(24, "child", dir.path());
}

/// Runs a test of this file in a process that may have this number of descriptors, including its own.
fn run_with_descriptors(descriptors: u32, test: &str, dir: &Path) {
    let script = format!("ulimit -n {descriptors}; exec \"$0\" \"$@\" --exact {test} --ignored --test-threads 1");
    let program = refdb_testkit::this_program();
    let mut command = Command::new("sh");
    command.arg("-c").arg(script).arg(program.get_program()).args(program.get_args()).env(FOLDER, dir);
    let output = command.stdin(Stdio::null()).output().expect("the shell is there");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

/// Compacts while the process has no descriptor left, as a child of the test below.
#[test]
#[ignore = "only the test below runs it, as a process with few descriptors"]
fn child_without_descriptors() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let cache = open(Path::new(&folder), 4 * MIB);
    // In the first segment, which is not worth a compaction.
    cache.put(b"removed", b"old").unwrap();
    for i in 0..60u32 {
        cache.put(&i.to_le_bytes(), &[1; 400]).unwrap();
    }
    cache.compact().unwrap();
    // In a later segment, which is worth one.
    assert!(cache.remove_with(b"removed", Durability::Written).unwrap());
    for _ in 0..100 {
        cache.put_with(b"again and again", &[2; 400], durably(Durability::Written)).unwrap();
    }
    drop(cache);
    // Opened anew, so that the cache has no file open that it could close.
    let cache = open(Path::new(&folder), 4 * MIB);
    let all: Vec<_> = std::iter::from_fn(|| std::fs::File::open("/dev/null").ok()).collect();
    assert!(cache.compact().is_err(), "it can't make a file for the copies");
    drop(all);
    cache.compact().unwrap();
}

/// Previously, the removals in a segment were forgotten if its file could not be opened while it was compacted.
#[test]
fn a_removed_value_stays_so_where_a_compaction_finds_no_descriptor() {
    let _alone = NO_CHILD_STARTS.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = tempfile::tempdir().unwrap();
    run_with_descriptors(24, "child_without_descriptors", dir.path());
    let cache = open(dir.path(), 4 * MIB);
    assert!(cache.get(&1u32.to_le_bytes()).is_some(), "its segment is there");
    assert_eq!(cache.get(b"removed"), None);
}
