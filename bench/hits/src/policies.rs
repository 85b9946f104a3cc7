//! The rivals: exact LRU, S3-FIFO and SIEVE as their papers have them, moka and foyer (both W-TinyLFU), and
//! quick_cache. All have room for entries only, without headers, files or reserves.

mod crates;
mod fifo;
mod list;

pub use crates::{Foyer, Moka, Quick};
pub use fifo::S3Fifo;
pub use list::{Lru, Sieve};

use crate::traces::Key;

/// A cache of keys.
pub trait Policy {
    /// Whether the key is there; if not, it is put. It takes `cost` of the room, the same in each call for a key, and
    /// an entry that costs more than all the room is not put.
    fn get_or_put(&mut self, key: Key, cost: u32) -> bool;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hits(mut policy: impl Policy, keys: &[Key]) -> Vec<bool> {
        keys.iter().map(|key| policy.get_or_put(*key, 1)).collect()
    }

    #[test]
    fn lru_drops_what_was_not_used_for_longest() {
        assert_eq!(hits(Lru::new(2), &[1, 2, 1, 3, 1, 2]), [false, false, true, false, true, false]);
    }

    #[test]
    fn sieve_spares_a_used_entry_once_and_keeps_its_hand_where_it_was() {
        // The hand passes 1, which was used, and drops 2; then it stands at 3, so 3 goes before 1.
        let keys = [1, 2, 3, 1, 4, 5, 1, 4, 2];
        assert_eq!(hits(Sieve::new(3), &keys), [false, false, false, true, false, false, true, true, false]);
    }

    #[test]
    fn s3_fifo_drops_what_is_used_once_before_what_is_used_again() {
        let mut keys: Vec<Key> = (0..10).chain(0..5).chain(0..5).collect();
        keys.extend(100..120);
        keys.extend(0..5);
        let hits = hits(S3Fifo::new(10), &keys);
        assert!(hits[hits.len() - 5..].iter().all(|hit| *hit), "{hits:?}");
    }

    #[test]
    fn no_policy_of_ours_exceeds_its_room_with_entries_of_different_costs() {
        let mut draws = refdb_bench::kv::workload::Draws::new(1);
        let keys: Vec<Key> = (0..20_000).map(|_| (draws.uniform() * draws.uniform() * 300.0) as Key).collect();
        let cost = |key: Key| (key % 13 + 1) as u32;
        let (mut lru, mut sieve, mut s3) = (Lru::new(100), Sieve::new(100), S3Fifo::new(100));
        for key in keys {
            for policy in [&mut lru as &mut dyn Policy, &mut sieve, &mut s3] {
                policy.get_or_put(key, cost(key));
            }
            for used in [lru.used(), sieve.used(), s3.used()] {
                assert!(used <= 100, "{used} of 100 are used");
            }
        }
        for used in [lru.used(), sieve.used(), s3.used()] {
            assert!(used > 100 - 2 * 13, "only {used} of 100 are used");
        }
        assert!(!lru.get_or_put(1_000_000, 101) && !lru.get_or_put(1_000_000, 101), "an entry larger than all");
    }
}
