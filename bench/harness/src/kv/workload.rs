//! Keys, values and their popularity, as bench/kv-workload.md defines them.

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
const POOL_BYTES: usize = 256 << 10;
const POOL_STARTS: u64 = 128 << 10;
const SMALL_KEY_BYTES: usize = 16;
const SMALL_VALUE_BYTES: usize = 8;
const THETA: f64 = 0.99;

/// SplitMix64's output function.
pub fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(GOLDEN);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// A seeded generator.
#[derive(Clone, Debug)]
pub struct Draws(u64);

impl Draws {
    /// A generator that starts at `seed`.
    pub fn new(seed: u64) -> Self {
        Draws(seed)
    }

    /// The next 64 bits.
    pub fn draw(&mut self) -> u64 {
        let draw = mix(self.0);
        self.0 = self.0.wrapping_add(GOLDEN);
        draw
    }

    /// A number from 0 to 1, 1 excluded.
    pub fn uniform(&mut self) -> f64 {
        (self.draw() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Makes keys and values.
#[derive(Debug)]
pub struct Shapes {
    pool: Vec<u8>,
    small: bool,
}

impl Default for Shapes {
    fn default() -> Self {
        Shapes::new(false)
    }
}

impl Shapes {
    /// Gerrit's lengths, or keys of 16 bytes and values of 8.
    pub fn new(small: bool) -> Self {
        let mut draws = Draws::new(42);
        Shapes { pool: (0..POOL_BYTES / 8).flat_map(|_| draws.draw().to_le_bytes()).collect(), small }
    }

    /// Length of value `i`.
    pub fn value_len(&self, i: u64) -> usize {
        if self.small { SMALL_VALUE_BYTES } else { value_len(i) }
    }

    /// Puts key `i` into `out`.
    pub fn key(&self, i: u64, out: &mut Vec<u8>) {
        let h = mix(i);
        let len = if self.small { SMALL_KEY_BYTES } else { 40 + (h % 81) as usize };
        self.fill(i, h, len, out);
    }

    /// Puts value `i` into `out`.
    pub fn value(&self, i: u64, out: &mut Vec<u8>) {
        self.fill(i, mix(!i), self.value_len(i), out);
    }

    fn fill(&self, i: u64, h: u64, len: usize, out: &mut Vec<u8>) {
        let start = ((h >> 16) % POOL_STARTS) as usize;
        out.clear();
        out.extend_from_slice(&i.to_le_bytes());
        out.extend_from_slice(&self.pool[start..start + len - 8]);
    }
}

/// Length of value `i` in Gerrit's shapes.
pub fn value_len(i: u64) -> usize {
    let h = mix(!i);
    if h % 100 < 2 {
        return 5000 + ((h >> 8) % 45_001) as usize;
    }
    let mut draws = Draws::new(h);
    let (u, v) = (draws.uniform(), draws.uniform());
    let normal = (-2.0 * (1.0 - u).ln()).sqrt() * (2.0 * std::f64::consts::PI * v).cos();
    ((400.0 * normal.exp()) as usize).clamp(8, 100_000)
}

/// Ranks with a zipfian popularity.
#[derive(Clone, Debug)]
pub struct Zipf {
    n: u64,
    zeta_n: f64,
    alpha: f64,
    eta: f64,
}

impl Zipf {
    /// Ranks below `n`.
    pub fn new(n: u64) -> Self {
        let zeta = |n: u64| (1..=n).map(|rank| (rank as f64).powf(-THETA)).sum::<f64>();
        let zeta_n = zeta(n);
        let eta = (1.0 - (2.0 / n as f64).powf(1.0 - THETA)) / (1.0 - zeta(2) / zeta_n);
        Zipf { n, zeta_n, alpha: 1.0 / (1.0 - THETA), eta }
    }

    /// Draws a rank, and returns its key.
    pub fn key(&self, draws: &mut Draws) -> u64 {
        let u = draws.uniform();
        let uz = u * self.zeta_n;
        let rank = match uz {
            _ if uz < 1.0 => 0,
            _ if uz < 1.0 + 0.5f64.powf(THETA) => 1,
            _ => (self.n as f64 * (self.eta * u - self.eta + 1.0).powf(self.alpha)) as u64,
        };
        mix(rank.min(self.n - 1)) % self.n
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_keys_and_values_are_what_every_language_must_make() {
        assert_eq!([mix(0), mix(1)], [0xe220_a839_7b1d_cdaf, 0x910a_2dec_8902_5cc1]);
        let shapes = Shapes::default();
        let (mut key, mut total) = (Vec::new(), 0);
        shapes.key(1, &mut key);
        assert_eq!((key.len(), &key[..8]), (40 + (mix(1) % 81) as usize, &1u64.to_le_bytes()[..]));
        for i in 0..10_000 {
            total += value_len(i);
        }
        assert!((9_000_000..14_000_000).contains(&total), "{total}");
    }

    #[test]
    fn few_keys_get_most_draws() {
        let zipf = Zipf::new(100_000);
        let mut draws = Draws::new(1);
        let mut counts = std::collections::HashMap::new();
        (0..200_000).for_each(|_| *counts.entry(zipf.key(&mut draws)).or_insert(0u32) += 1);
        let mut counts: Vec<u32> = counts.into_values().collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let top: u32 = counts[..1000].iter().sum();
        assert!((100_000..140_000).contains(&top), "{top}");
    }
}
