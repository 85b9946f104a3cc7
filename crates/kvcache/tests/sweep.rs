//! Puts into caches of many kinds, mostly up to ten times their limits. Each put is stored or refused in time, the
//! files stay within the limit, and the cache goes on afterwards and stops writing when it is left alone.
//!
//! The first test is the small part; `scripts/test-long` runs all of it.

mod common;

use common::{STANDSTILL, at_rest, patient};
use refdb_kvcache::{Cache, Durability, Options, Put, PutOptions};
use refdb_testkit::Rng;
use refdb_vfs::{Fs, IoHook, Op, Verdict};
use std::{
    os::unix::fs::MetadataExt,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

const MIB: u64 = 1 << 20;

#[derive(Clone, Copy, Debug)]
enum Mix {
    /// Each key once.
    Fill,
    /// A few keys again and again.
    Renew,
    /// Puts and removals.
    Remove,
    /// All of it, with gets, and a clear or a compaction now and then.
    All,
}

#[derive(Clone, Copy, Debug)]
struct Case {
    limit: u64,
    entry_bytes: u64,
    durability: Durability,
    mix: Mix,
    most_puts: u64,
}

#[derive(Default)]
struct Written(AtomicU64);

impl IoHook for Written {
    fn before(&self, op: Op<'_>) -> Verdict {
        if matches!(op, Op::Write(..)) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
        Verdict::Proceed
    }
}

/// Returns the bytes of all files and of the folder, counted in blocks.
fn du(dir: &Path) -> u64 {
    let files = std::fs::read_dir(dir).expect("it is there").filter_map(Result::ok);
    let of_files: u64 = files.filter_map(|file| file.metadata().ok()).map(|metadata| metadata.blocks() * 512).sum();
    of_files + std::fs::metadata(dir).expect("it is there").blocks() * 512
}

fn put(cache: &Cache, key: u64, len: u64, case: &Case) -> Put {
    let options = PutOptions::new().durability(case.durability);
    let value = vec![key as u8; len.saturating_sub(8).max(1) as usize];
    let start = Instant::now();
    let put = cache.put_with(&key.to_le_bytes(), &value, options).expect("the disk works");
    assert!(start.elapsed() < STANDSTILL, "{case:?}: {put:?} after {:?}: {:?}", start.elapsed(), cache.stats());
    put
}

fn run(case: Case) {
    let dir = tempfile::tempdir().expect("a temporary folder can be made");
    let written = Arc::new(Written::default());
    let open = |options| Cache::open_on(Fs::with_hook(written.clone()), dir.path(), options).expect("it opens");
    let cache = open(Options::new(case.limit));
    let len = case.entry_bytes.min(cache.largest_entry_bytes() as u64);
    let puts = (10 * case.limit / (len + 56)).clamp(1, case.most_puts);
    let keys = (case.limit / 3 / (len + 56)).max(2);
    let mut rng = Rng::new(case.limit ^ len);
    let (mut stored, looks) = (0, (puts / 200).max(1));
    for i in 0..puts {
        let key = if matches!(case.mix, Mix::Fill) { i } else { rng.bits() % keys };
        match (case.mix, rng.below(100)) {
            (Mix::Remove, 0..20) | (Mix::All, 0..10) => {
                cache.remove_with(&key.to_le_bytes(), case.durability).expect("the disk works");
            }
            (Mix::All, 10..30) => drop(cache.get(&key.to_le_bytes())),
            (Mix::All, 30) if i % (puts / 5 + 1) < 3 => cache.clear_with(case.durability).expect("the disk works"),
            (Mix::All, 31) if i % (puts / 5 + 1) < 3 => drop(cache.compact().expect("the disk works")),
            _ => stored += u64::from(put(&cache, key, len, &case) == Put::Stored),
        }
        if i % looks == 0 {
            assert!(du(dir.path()) <= case.limit, "{case:?}: {} bytes: {:?}", du(dir.path()), cache.stats());
        }
    }
    assert!(stored * 2 > puts / 2, "{case:?}: {stored} of {puts}: {:?}", cache.stats());
    let state = || format!("{case:?}: it still writes: {:?}", cache.stats());
    at_rest(Duration::from_millis(200), || written.0.load(Ordering::Relaxed), state);
    drop(cache);
    let cache = open(patient(case.limit));
    assert_eq!(put(&cache, u64::MAX, len, &case), Put::Stored, "{case:?}: after a restart: {:?}", cache.stats());
    assert!(du(dir.path()) <= case.limit, "{case:?}");
}

/// Runs all combinations of these. `REFDB_SWEEP_MIB` makes the long test run the caches of one limit alone, and
/// `REFDB_SWEEP_ONLY` the cases whose debug output contains it, such as `entry_bytes: 100, durability: Synced`.
fn sweep(limits: &[u64], sizes: &[u64], parts: &[u64], mixes: &[Mix], most_puts: [u64; 3]) {
    let durabilities = [Durability::Buffered, Durability::Written, Durability::Synced];
    let (only, mut ran) = (std::env::var("REFDB_SWEEP_ONLY").unwrap_or_default(), 0);
    for &limit in limits {
        for entry_bytes in sizes.iter().copied().chain(parts.iter().map(|part| limit / part)) {
            for (durability, most_puts) in durabilities.into_iter().zip(most_puts) {
                for &mix in mixes {
                    let (case, start) = (Case { limit, entry_bytes, durability, mix, most_puts }, Instant::now());
                    if !format!("{case:?}").contains(&only) {
                        continue;
                    }
                    run(case);
                    ran += 1;
                    println!("{case:?}: {:?}", start.elapsed());
                }
            }
        }
    }
    assert!(ran > 0, "no case says of itself: {only}");
}

#[test]
fn a_small_cache_goes_on_at_its_limit_whatever_is_asked_of_it() {
    sweep(&[MIB], &[1, 1_000], &[8], &[Mix::Renew, Mix::All], [10_000, 1_000, 12]);
}

#[test]
#[ignore = "takes hours; scripts/test-long runs it"]
fn every_cache_goes_on_at_its_limit_whatever_is_asked_of_it() {
    let only =
        std::env::var("REFDB_SWEEP_MIB").ok().map(|mib| mib.parse::<u64>().expect("REFDB_SWEEP_MIB is a number"));
    let mut limits = vec![MIB, 4 * MIB, 16 * MIB, 128 * MIB, 1024 * MIB];
    limits.retain(|limit| only.is_none_or(|mib| *limit == mib * MIB));
    assert!(!limits.is_empty(), "REFDB_SWEEP_MIB is 1, 4, 16, 128 or 1024");
    let mixes = [Mix::Fill, Mix::Renew, Mix::Remove, Mix::All];
    sweep(&limits, &[1, 100, 1_000, 10_000], &[64, 20, 8], &mixes, [3_000_000, 3_000_000, 30_000]);
}
