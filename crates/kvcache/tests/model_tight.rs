//! Random operations beside a map, on a cache with room for few segments and a disk that is sometimes full.
//!
//! Evicted entries may be missing. A fault is a value that the key no longer had: replaced, removed, cleared or
//! refused.

use proptest::prelude::*;
use refdb_kvcache::{Cache, Durability, Error, Key, Options, Put, PutOptions};
use refdb_vfs::{Fs, IoHook, Op as DiskOp, Verdict};
use std::{
    collections::BTreeMap,
    io::ErrorKind,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

const KEYS: u8 = 40;
/// Room for four segments, in addition to the room that the worker keeps free.
const LIMIT_BYTES: u64 = 176 << 10;

#[derive(Clone, Debug)]
enum Op {
    Put(u8, usize, Durability),
    Remove(u8, Durability),
    Get(u8),
    Clear,
    Work,
    Compact,
    /// Whether the disk is full from now on.
    Full(bool),
    Restart {
        kill: bool,
    },
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let key = 0..KEYS;
    let durability = prop_oneof![
        4 => Just(Durability::Buffered),
        2 => Just(Durability::Written),
        1 => Just(Durability::Synced),
    ];
    let put = (key.clone(), prop_oneof![0usize..300, 1_000usize..9_000], durability.clone());
    let op = prop_oneof![
        16 => put.prop_map(|(key, len, durability)| Op::Put(key, len, durability)),
        5 => (key.clone(), durability).prop_map(|(key, durability)| Op::Remove(key, durability)),
        8 => key.prop_map(Op::Get),
        1 => Just(Op::Clear),
        4 => Just(Op::Work),
        1 => Just(Op::Compact),
        2 => prop_oneof![1 => Just(true), 2 => Just(false)].prop_map(Op::Full),
        2 => any::<bool>().prop_map(|kill| Op::Restart { kill }),
    ];
    proptest::collection::vec(op, 1..250)
}

/// A disk that is full while the flag is set.
#[derive(Default)]
struct Disk(AtomicBool);

impl IoHook for Disk {
    fn before(&self, op: DiskOp<'_>) -> Verdict {
        match op {
            DiskOp::Write(..) | DiskOp::Create(_) if self.0.load(Ordering::Relaxed) => {
                Verdict::Fail(ErrorKind::StorageFull.into())
            }
            _ => Verdict::Proceed,
        }
    }
}

fn value(key: u8, len: usize, step: usize) -> Vec<u8> {
    let mut value = format!("{key} {step} ").into_bytes();
    value.resize(value.len() + len, key);
    value
}

/// A cache, its disk, and the values that its keys may have.
struct Beside {
    /// `None` for the moment between two processes.
    cache: Option<Cache>,
    disk: Arc<Disk>,
    /// The value that a key has unless it was evicted.
    model: BTreeMap<u8, Vec<u8>>,
    /// The values that a key may have instead after a crash: those since everything was last in the files.
    before: BTreeMap<u8, Vec<Option<Vec<u8>>>>,
}

impl Beside {
    fn cache(&self) -> &Cache {
        self.cache.as_ref().expect("it is open")
    }

    fn is_full(&self) -> bool {
        self.disk.0.load(Ordering::Relaxed)
    }

    /// Notes the value that the key has now. A crash may take it back until everything is in the files.
    fn set(&mut self, key: u8, value: Option<Vec<u8>>) {
        let old = match value {
            Some(value) => self.model.insert(key, value),
            None => self.model.remove(&key),
        };
        self.before.entry(key).or_default().push(old);
    }

    /// Notes that all changes so far are in the files.
    fn settled(&mut self) {
        self.before.clear();
    }

    fn put(&mut self, key: u8, value: Vec<u8>, durability: Durability) -> Result<(), TestCaseError> {
        // The worker makes room, or reports that the disk is full.
        let _ = self.cache().work();
        // A durable put could not be stored in time on a full disk, so the put is one that may be refused.
        let durability = if self.is_full() { Durability::Buffered } else { durability };
        match self.cache().put_with(&[key], &value, PutOptions::new().durability(durability)) {
            Ok(Put::Stored) => {
                self.set(key, Some(value));
                if durability >= Durability::Written {
                    self.settled();
                }
            }
            Ok(Put::Refused) => {
                prop_assert!(self.is_full(), "room is made for each put while the disk works");
                self.set(key, None);
            }
            other => prop_assert!(false, "{:?}", other),
        }
        Ok(())
    }

    /// Removes a key, for this process at once. An error means that a crash may take the removal back.
    fn remove(&mut self, key: u8, durability: Durability) -> Result<(), TestCaseError> {
        let removed = self.cache().remove_with(&[key], durability);
        prop_assert!(removed.is_ok() || self.is_full(), "{:?}", removed);
        self.set(key, None);
        if removed.is_ok() && durability >= Durability::Written {
            self.settled();
        }
        Ok(())
    }

    fn check_get(&self, key: u8) -> Result<(), TestCaseError> {
        if let Some(found) = self.cache().get(&[key]) {
            prop_assert_eq!(Some(&found.value), self.model.get(&key));
        }
        Ok(())
    }

    /// Checks after a restart that each value is one that its key has, or had since everything was in the files, and
    /// adopts it.
    fn adopt(&mut self) -> Result<(), TestCaseError> {
        for key in 0..KEYS {
            let found = self.cache().get(&[key]).map(|found| found.value);
            let had = self.before.remove(&key).unwrap_or_default();
            if found.is_some() {
                let fits = found.as_ref() == self.model.get(&key) || had.contains(&found);
                prop_assert!(fits, "key {} has a value that it had no more", key);
            }
            match found {
                Some(value) => drop(self.model.insert(key, value)),
                None => drop(self.model.remove(&key)),
            }
        }
        Ok(())
    }
}

fn check(ops: &[Op], key: Option<Key>) -> Result<(), TestCaseError> {
    let temp = tempfile::tempdir().expect("a temporary folder can be made");
    let mut options = Options::new(LIMIT_BYTES);
    (options.key, options.put_timeout) = (key, Duration::from_millis(5));
    let disk = Arc::new(Disk::default());
    let open =
        |dir: &Path| -> Result<Cache, Error> { Cache::open_idle(Fs::with_hook(disk.clone()), dir, options.clone()) };
    let cache = open(temp.path()).expect("it opens");
    let mut beside = Beside { cache: Some(cache), disk: disk.clone(), model: BTreeMap::new(), before: BTreeMap::new() };
    for (step, op) in ops.iter().enumerate() {
        match *op {
            Op::Put(key, len, durability) => beside.put(key, value(key, len, step), durability)?,
            Op::Remove(key, durability) => beside.remove(key, durability)?,
            Op::Get(key) => beside.check_get(key)?,
            Op::Clear => {
                beside.cache().clear().expect("it is cleared");
                (0..KEYS).for_each(|key| beside.set(key, None));
            }
            Op::Work => prop_assert!(beside.cache().work().is_ok() || beside.is_full()),
            Op::Compact => prop_assert!(beside.cache().compact().is_ok() || beside.is_full()),
            Op::Full(full) => disk.0.store(full, Ordering::Relaxed),
            Op::Restart { kill } => {
                let cache = beside.cache.take().expect("it is open");
                if kill {
                    cache.abandon();
                } else {
                    if cache.close().is_ok() {
                        beside.settled();
                    }
                    drop(cache);
                }
                disk.0.store(false, Ordering::Relaxed);
                beside.cache = Some(open(temp.path()).expect("it opens"));
                beside.adopt()?;
            }
        }
        prop_assert!(beside.cache().stats().disk_bytes <= LIMIT_BYTES);
    }
    for key in 0..KEYS {
        beside.check_get(key)?;
    }
    // Whatever has happened, the cache goes on once the disk has room.
    disk.0.store(false, Ordering::Relaxed);
    let _ = beside.cache().work();
    prop_assert_eq!(beside.cache().put(b"after", b"all of it").expect("the disk works"), Put::Stored);
    prop_assert_eq!(beside.cache().verify().bad, 0);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn at_its_limit_and_on_a_full_disk_a_cache_never_shows_what_a_key_had_no_more(ops in ops()) {
        check(&ops, None)?;
    }

    #[test]
    fn nor_does_an_encrypted_one(ops in ops()) {
        check(&ops, Some(Key::new([3; 32])))?;
    }
}
