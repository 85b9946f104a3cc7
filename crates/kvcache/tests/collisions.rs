//! Families of keys with the same hash. Whoever may read the cache's files knows its random number and can construct
//! them.

mod common;

use common::open;
use refdb_testkit::Rng;
use std::{collections::HashMap, path::Path};

const MIB: u64 = 1 << 20;
/// Parts of XXH3's secret that it mixes into keys of 9 to 16 bytes.
const LOW_FLIP: u64 = 0x1f67_b3b7_a4a4_4072 ^ 0x78e5_c0cc_4ee6_79cb;
const HIGH_FLIP: u64 = 0x2172_ffcc_7dd0_5a82 ^ 0x8e24_43f7_7446_08b8;
/// Number of factors that are tried for keys with the same sum.
const FACTORS: u64 = 64;

/// Reads the random number that seeds the hash.
fn seed(dir: &Path) -> u64 {
    let format = std::fs::read(dir.join("format")).expect("it is there");
    u64::from_le_bytes(format[16..24].try_into().expect("8 bytes"))
}

/// Returns keys of 16 bytes with the same hash. XXH3 mixes the sum of a key's halves and the halves of their product.
/// If one half is small, this is linear, so that some other half may lead to the same sum.
fn family(seed: u64, sum: u64) -> Vec<[u8; 16]> {
    let with_halves = |low: u64, high: u64| {
        let mut key = [0; 16];
        key[..8].copy_from_slice(&(low ^ LOW_FLIP.wrapping_add(seed)).to_le_bytes());
        key[8..].copy_from_slice(&(high ^ HIGH_FLIP.wrapping_sub(seed)).to_le_bytes());
        key
    };
    let lines = (0..FACTORS).filter_map(|low| {
        let left = sum.wrapping_sub(low.swap_bytes());
        (left % (low + 1) == 0).then(|| with_halves(low, left / (low + 1)))
    });
    lines.chain([with_halves(sum.swap_bytes(), 0)]).collect()
}

#[test]
fn keys_of_one_hash_replace_each_other_and_none_has_anothers_value() {
    let dir = tempfile::tempdir().unwrap();
    let mut cache = open(dir.path(), 4 * MIB);
    let (seed, mut rng) = (seed(dir.path()), Rng::new(3));
    let families: Vec<_> = (0..400).map(|_| family(seed, rng.bits())).collect();
    // The key that each family has, and the number of its value.
    let mut model: HashMap<usize, (usize, u64)> = HashMap::new();
    let value = |number: u64| vec![number as u8; 100 + (number % 900) as usize];
    for number in 0..40_000u64 {
        let at = rng.below(families.len());
        let keys = &families[at];
        let key = rng.below(keys.len());
        match rng.below(8) {
            0 => {
                let was_there = cache.remove(&keys[key]).unwrap();
                assert_eq!(was_there, model.remove(&at).is_some(), "a removal takes the place of all");
            }
            1..4 => {
                cache.put(&keys[key], &value(number)).unwrap();
                model.insert(at, (key, number));
            }
            _ => {
                let wanted = model.get(&at).filter(|(owner, _)| *owner == key).map(|(_, number)| value(*number));
                assert_eq!(cache.get(&keys[key]).map(|found| found.value), wanted, "key {key} of family {at}");
            }
        }
        if number % 10_000 == 9_999 {
            cache.close().unwrap();
            drop(cache);
            cache = open(dir.path(), 4 * MIB);
            assert!(cache.notices().is_empty(), "{:?}", cache.notices());
        }
    }
    assert!(families.iter().map(Vec::len).sum::<usize>() > 1_000 && families.iter().all(|keys| keys.len() > 1));
    assert_eq!(cache.stats().entries as usize, model.len());
    assert_eq!(cache.verify().bad, 0);
}
