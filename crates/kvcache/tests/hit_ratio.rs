//! Eviction keeps requested entries: the hit ratio is compared with that of an exact LRU with the same limit, on the
//! same trace.

use refdb_kvcache::{Cache, Options};
use refdb_testkit::Rng;
use refdb_vfs::Fs;
use std::collections::{BTreeMap, HashMap};

const LIMIT_BYTES: u64 = 4 << 20;
const KEYS: u64 = 40_000;
const GETS: usize = 150_000;
const VALUE_BYTES: usize = 300;

/// An exact LRU: the entry that was not used for the longest time is evicted.
#[derive(Default)]
struct Lru {
    used: HashMap<u64, u64>,
    order: BTreeMap<u64, u64>,
    clock: u64,
}

impl Lru {
    /// Returns whether the key was there. If not, adds it, and evicts the oldest key if there are more than `most`.
    fn get_or_put(&mut self, key: u64, most: usize) -> bool {
        self.clock += 1;
        let before = self.used.insert(key, self.clock);
        self.order.insert(self.clock, key);
        if let Some(before) = before {
            self.order.remove(&before);
        } else if self.used.len() > most
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.used.remove(&oldest);
        }
        before.is_some()
    }
}

/// Returns a key whose popularity is about one over its rank.
fn zipfian(rng: &mut Rng) -> u64 {
    let uniform = (rng.bits() >> 11) as f64 / (1u64 << 53) as f64;
    ((KEYS as f64).powf(uniform) as u64 - 1).wrapping_mul(0x9e37_79b9) % KEYS
}

/// Returns the hits of the cache and of the LRU.
fn hits(next: &mut dyn FnMut(usize) -> u64) -> (usize, usize) {
    let dir = tempfile::tempdir().expect("a temporary folder can be made");
    let cache = Cache::open_idle(Fs::real(), dir.path(), Options::new(LIMIT_BYTES)).expect("it opens");
    let most = (LIMIT_BYTES / cache.cost_bytes(8, VALUE_BYTES)) as usize;
    let (mut lru, mut own_hits, mut lru_hits) = (Lru::default(), 0, 0);
    for at in 0..GETS {
        let key = next(at);
        lru_hits += usize::from(lru.get_or_put(key, most));
        if cache.get(&key.to_le_bytes()).is_some() {
            own_hits += 1;
        } else {
            cache.put(&key.to_le_bytes(), &[1; VALUE_BYTES]).expect("it is put");
        }
        if at % 200 == 0 {
            cache.work().expect("the disk works");
        }
    }
    assert_eq!(cache.stats().refused, 0);
    (own_hits, lru_hits)
}

#[test]
fn popular_keys_hit_at_least_as_often_as_with_an_exact_lru() {
    let mut rng = Rng::new(1);
    let (own, lru) = hits(&mut |_| zipfian(&mut rng));
    println!("zipfian: {own} hits, LRU {lru}, of {GETS}");
    assert!(own >= lru, "{own} hits, LRU {lru}");
}

#[test]
fn a_scan_costs_popular_keys_less_than_with_an_exact_lru() {
    let mut rng = Rng::new(2);
    // Every other get is of a key that never comes again.
    let (own, lru) = hits(&mut |at| if at % 2 == 0 { zipfian(&mut rng) } else { KEYS + at as u64 });
    println!("with a scan: {own} hits, LRU {lru}, of {GETS}");
    assert!(own >= lru, "{own} hits, LRU {lru}");
}

#[test]
fn when_other_keys_become_popular_it_follows() {
    let mut rng = Rng::new(3);
    let (own, lru) = hits(&mut |at| (zipfian(&mut rng) + (at / 30_000) as u64 * 7_919) % KEYS);
    println!("shifting: {own} hits, LRU {lru}, of {GETS}");
    // Within a hundredth, because a policy that clings to what was popular falls far behind.
    assert!(own * 100 >= lru * 99, "{own} hits, LRU {lru}");
}
