//! What is kept within the limit, and how it goes on there.

use refdb_kvcache::{Cache, Options, Put};
use refdb_vfs::{Fs, Op, Verdict, Witness};
use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

const MIB: u64 = 1 << 20;

fn open(dir: &Path, limit: u64) -> Cache {
    Cache::open(dir, Options::new(limit)).expect("it opens")
}

/// Counts the bytes that are written.
#[derive(Default)]
struct Written(AtomicU64);

impl Witness for Written {
    fn before(&self, op: Op<'_>) -> Verdict {
        if let Op::Write(_, bytes) = op {
            self.0.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        }
        Verdict::Proceed
    }
}

/// The account of the write buffer was a number that a clear and the writer both counted down.
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

/// The 16 bytes of a footer entry counted as waste, which no compaction could free.
#[test]
fn a_cache_of_small_entries_stops_writing_when_it_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Arc::new(Written::default());
    let cache = Cache::open_on(Fs::witnessed(disk.clone()), dir.path(), Options::new(16 * MIB)).unwrap();
    for i in 0..150_000u32 {
        let _ = cache.put(&i.to_le_bytes(), &[1]).unwrap();
    }
    std::thread::sleep(Duration::from_secs(5));
    let before = disk.0.load(Ordering::Relaxed);
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(disk.0.load(Ordering::Relaxed) - before, 0, "bytes written in a second: {:?}", cache.stats());
}
