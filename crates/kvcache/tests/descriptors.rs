//! How many descriptors a cache needs. The tests count those of their own process that lead into the cache's folder.

mod common;

use common::open;
use refdb_kvcache::{Cache, Options};
use std::{
    path::Path,
    process::{Command, Stdio},
    sync::{Mutex, PoisonError},
};

const MIB: u64 = 1 << 20;
const FOLDER: &str = "REFDB_DESCRIPTORS_FOLDER";

/// A child has its parent's descriptors until it becomes another program. So a cache that is closed meanwhile stays locked.
static NO_CHILD_STARTS: Mutex<()> = Mutex::new(());

/// Leaves more segments than a process with few descriptors can open at the same time.
fn filled(dir: &Path) {
    let cache = open(dir, 4 * MIB);
    for i in 0..8_000u32 {
        let _ = cache.put(&i.to_le_bytes(), &[1; 400]).expect("it works");
    }
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

/// The child of the test below.
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
    // The test's own process has some; the shell says how many more there may be.
    let script = "ulimit -n 24; exec \"$0\" \"$@\" --exact child --ignored --test-threads 1";
    let program = refdb_testkit::this_program();
    let mut command = Command::new("sh");
    command.arg("-c").arg(script).arg(program.get_program()).args(program.get_args()).env(FOLDER, dir.path());
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}
