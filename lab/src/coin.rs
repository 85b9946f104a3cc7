//! Decides at random which side runs first. The same seed always gives the same order.

use std::hash::{BuildHasher, Hasher, RandomState};

/// A random number generator (SplitMix64, by Steele, Lea and Flood, OOPSLA 2014).
#[derive(Debug, Clone)]
pub struct Coin {
    state: u64,
}

impl Coin {
    /// Creates a generator from `seed`.
    pub fn new(seed: u64) -> Coin {
        Coin { state: seed }
    }

    /// Creates a generator from an unpredictable seed, like the keys of hash maps.
    pub fn unforeseen() -> Coin {
        Coin::new(RandomState::new().build_hasher().finish())
    }

    /// Returns the next 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a random boolean.
    pub fn toss(&mut self) -> bool {
        self.bits() >> 63 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::Coin;

    #[test]
    fn the_stream_is_the_published_one_and_both_sides_of_the_coin_come_up() {
        let mut coin = Coin::new(1_234_567);
        assert_eq!(coin.bits(), 6_457_827_717_110_365_317);
        let heads = (0..1000).filter(|_| coin.toss()).count();
        assert!((400..600).contains(&heads), "{heads}");
    }
}
