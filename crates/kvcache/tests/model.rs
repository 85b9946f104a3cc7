//! Random operations, including restarts, beside a map that knows what must be found.

use proptest::prelude::*;
use refdb_kvcache::{Cache, Durability, Key, Options, Put, PutOptions, Ticket};
use refdb_vfs::Fs;
use std::collections::{BTreeMap, BTreeSet};

const KEYS: u8 = 40;
/// More than a run writes, because evictions depend on sizes that a map does not know.
const LIMIT_BYTES: u64 = 4 << 20;

#[derive(Clone, Debug)]
enum Op {
    Put(u8, usize),
    Load(u8, usize),
    Ticket(u8),
    Remove(u8),
    Get(u8),
    Clear,
    Work,
    Compact,
    /// Opens the cache again, with or without filling its index.
    Restart {
        kill: bool,
        unread: bool,
    },
    /// Fills a part of the index.
    ReadOn,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let key = 0..KEYS;
    let op = prop_oneof![
        12 => (key.clone(), prop_oneof![0usize..300, 1000usize..9000]).prop_map(|(key, len)| Op::Put(key, len)),
        3 => (key.clone(), 0usize..300).prop_map(|(key, len)| Op::Load(key, len)),
        3 => key.clone().prop_map(Op::Ticket),
        4 => key.clone().prop_map(Op::Remove),
        6 => key.prop_map(Op::Get),
        1 => Just(Op::Clear),
        3 => Just(Op::Work),
        1 => Just(Op::Compact),
        2 => any::<(bool, bool)>().prop_map(|(kill, unread)| Op::Restart { kill, unread }),
        2 => Just(Op::ReadOn),
    ];
    proptest::collection::vec(op, 1..250)
}

fn value(key: u8, len: usize, step: usize) -> Vec<u8> {
    let mut value = format!("{key} {step} ").into_bytes();
    value.resize(value.len() + len, key);
    value
}

fn check(ops: &[Op], encrypted: bool) -> Result<(), TestCaseError> {
    let temp = tempfile::tempdir().expect("a temporary folder can be made");
    let mut options = Options::new(LIMIT_BYTES);
    options.key = encrypted.then(|| Key::new([3; 32]));
    let open = |unread| match unread {
        true => Cache::open_unread(Fs::real(), temp.path(), options.clone(), 1).expect("it opens"),
        false => Cache::open_idle(Fs::real(), temp.path(), options.clone()).expect("it opens"),
    };
    let mut cache = open(false);
    // Keys that were not changed since the cache was opened, and may not be found yet.
    let mut unread: BTreeSet<u8> = BTreeSet::new();
    let mut model: BTreeMap<u8, Vec<u8>> = BTreeMap::new();
    let mut tickets: BTreeMap<u8, (Ticket, bool)> = BTreeMap::new();
    for (step, op) in ops.iter().enumerate() {
        match *op {
            Op::Put(key, len) => {
                let value = value(key, len, step);
                prop_assert_eq!(cache.put(&[key], &value).expect("it is put"), Put::Stored);
                model.insert(key, value);
                unread.remove(&key);
                // A good ticket may be stale all the same, because another key may share its counter of invalidations.
                tickets.get_mut(&key).into_iter().for_each(|(_, good)| *good = false);
            }
            Op::Ticket(key) => drop(tickets.insert(key, (cache.ticket(&[key]), true))),
            Op::Load(key, len) => {
                let Some((ticket, good)) = tickets.remove(&key) else { continue };
                let value = value(key, len, step);
                let put = PutOptions::new().ticket(ticket);
                match cache.put_with(&[key], &value, put).expect("it is put") {
                    Put::Stored => {
                        prop_assert!(good, "a value was put with a ticket from before an invalidation");
                        model.insert(key, value);
                        unread.remove(&key);
                    }
                    outcome => prop_assert_eq!(outcome, Put::Stale),
                }
            }
            Op::Remove(key) => {
                let (removed, was_there) = (cache.remove(&[key]).expect("it is removed"), model.remove(&key).is_some());
                prop_assert!(removed == was_there || (!removed && unread.contains(&key)));
                unread.remove(&key);
                tickets.get_mut(&key).into_iter().for_each(|(_, good)| *good = false);
            }
            Op::Get(key) => {
                let found = cache.get(&[key]).map(|found| found.value);
                prop_assert!(found.as_ref() == model.get(&key) || (found.is_none() && unread.contains(&key)));
            }
            Op::Clear => {
                cache.clear().expect("it is cleared");
                model.clear();
                unread.clear();
                tickets.values_mut().for_each(|(_, good)| *good = false);
            }
            Op::Work => cache.work().expect("the disk works"),
            Op::Compact => {
                cache.compact().expect("the disk works");
                unread.clear();
            }
            Op::ReadOn => {
                if !cache.read_on() {
                    unread.clear();
                }
            }
            Op::Restart { kill, unread: is_unread } => {
                tickets.clear();
                if kill {
                    cache.flush(Durability::Written).expect("the disk works");
                    cache.abandon();
                } else {
                    cache.close().expect("the disk works");
                    drop(cache);
                }
                cache = open(is_unread);
                unread = if is_unread { model.keys().copied().collect() } else { BTreeSet::new() };
            }
        }
        let entries = cache.stats().entries as usize;
        prop_assert!((model.len() - unread.len()..=model.len()).contains(&entries), "{} of {}", entries, model.len());
        prop_assert!(cache.stats().disk_bytes <= LIMIT_BYTES);
    }
    let mut seen = BTreeMap::new();
    let walked: Result<_, std::convert::Infallible> = cache.for_each(|key, value, _| {
        seen.insert(key[0], value.to_vec());
        Ok(())
    });
    let Ok(verified) = walked;
    prop_assert_eq!(verified.bad, 0);
    prop_assert_eq!(seen, model);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, max_shrink_iters: 100, ..ProptestConfig::default() })]

    #[test]
    fn a_cache_is_a_map_as_long_as_its_limit_is_not_reached(ops in ops()) {
        check(&ops, false)?;
    }

    #[test]
    fn an_encrypted_cache_is_a_map_too(ops in ops()) {
        check(&ops, true)?;
    }
}

#[test]
fn a_cleared_segment_that_was_compacted_meanwhile_is_not_deleted_twice() {
    // Previously, a new segment had been given the deleted segment's slot by then, and was deleted instead.
    let ops = [
        Op::Put(2, 6541),
        Op::Compact,
        Op::Clear,
        Op::Put(34, 4356),
        Op::Compact,
        Op::Put(12, 8460),
        Op::Compact,
        Op::Put(22, 4667),
        Op::Work,
        Op::Get(22),
    ];
    check(&ops, false).expect("it is as a map");
}
