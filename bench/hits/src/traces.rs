//! The keys that are asked for, and in which order. Every trace is made from a seed, but for a recorded one.

use anyhow::ensure;
use refdb_bench::kv::workload::Draws;

/// A key of a trace: a number, counted from 0.
pub type Key = u64;

/// Draws ranks, counted from 0. The popularity of rank `r` is proportional to `1 / (r + 1)^theta`; a uniform draw is
/// looked up in the running sums of the popularities.
struct Zipf {
    sums: Vec<f64>,
}

impl Zipf {
    fn new(keys: u64, theta: f64) -> Self {
        let mut sum = 0.0;
        let add = |rank| {
            sum += (rank as f64).powf(-theta);
            sum
        };
        Zipf { sums: (1..=keys).map(add).collect() }
    }

    fn rank(&self, draws: &mut Draws) -> u64 {
        let at = draws.uniform() * self.sums[self.sums.len() - 1];
        self.sums.partition_point(|sum| *sum <= at) as u64
    }
}

/// A trace: its name, and each key in turn.
pub struct Trace {
    /// The name of the trace's row in the table.
    pub name: &'static str,
    /// The key of each request, in order.
    pub keys: Vec<Key>,
    /// How many of the first requests are not counted, because they only fill the cache.
    pub warm: usize,
}

/// The length of a synthetic trace divided by ten times the number of entries that fit.
const REQUESTS_A_KEY: u64 = 16;

/// The synthetic traces for a cache of `room` entries. But for the loop and the scans, they draw from ten times as many
/// keys.
pub fn all(room: u64) -> Vec<Trace> {
    let keys = room * 10;
    let len = REQUESTS_A_KEY * keys;
    let draw = |name, seed, next: &mut dyn FnMut(&mut Draws, u64) -> Key| {
        let mut draws = Draws::new(seed);
        Trace { name, keys: (0..len).map(|at| next(&mut draws, at)).collect(), warm: len as usize / 3 }
    };
    let (zipf_90, zipf_99) = (Zipf::new(keys, 0.9), Zipf::new(keys, 0.99));
    let mut scanned = 0;
    vec![
        draw("zipf 0.9", 1, &mut |draws, _| zipf_90.rank(draws)),
        draw("zipf 0.99", 2, &mut |draws, _| zipf_99.rank(draws)),
        // One request in four is of a key that never comes again.
        draw("zipf 0.9 with scans", 3, &mut |draws, _| {
            if draws.uniform() < 0.25 {
                scanned += 1;
                return keys + scanned;
            }
            zipf_90.rank(draws)
        }),
        draw("a loop of 1.3 times the size", 4, &mut |_, at| at % (room * 13 / 10)),
        // After every `10 * room` requests, each rank moves on by a fifth of the keys at once.
        draw("shifting ranks", 5, &mut |draws, at| (zipf_99.rank(draws) + at / (room * 10) * (keys / 5)) % keys),
        // Four in five requests go to half a cache-full of keys, of which one is exchanged every 20 requests.
        draw("a moving hot set", 6, &mut |draws, at| match draws.uniform() < 0.8 {
            true => (at / 20 + (draws.uniform() * (room / 2) as f64) as u64) % keys,
            false => (draws.uniform() * keys as f64) as u64,
        }),
    ]
}

/// Requests before a restart, which are the first `warm` ones, and after it.
pub fn restart(room: u64) -> Trace {
    let (keys, mut draws) = (room * 10, Draws::new(7));
    let zipf = Zipf::new(keys, 0.82);
    let len = (REQUESTS_A_KEY * keys) as usize;
    Trace { name: "restart", keys: (0..len).map(|_| zipf.rank(&mut draws)).collect(), warm: len - 4 * room as usize }
}

/// The requests of a real Gerrit to its persistent caches, and the number of their keys. `bench/bench-gerrit-caches
/// --only trace` records it.
pub fn gerrit() -> anyhow::Result<(Trace, u64)> {
    let keys = numbers(include_bytes!("../gerrit.trace"))?;
    // The recorder numbered the keys in the order in which each came first.
    let distinct = keys.iter().max().map_or(0, |last| last + 1);
    let warm = keys.len() / 3;
    Ok((Trace { name: "a real Gerrit", keys, warm }, distinct))
}

/// Numbers in LEB128, one after the other.
fn numbers(bytes: &[u8]) -> anyhow::Result<Vec<Key>> {
    const BITS: u32 = 7;
    const MORE: u8 = 1 << BITS;
    let (mut numbers, mut number, mut shift) = (Vec::new(), 0, 0);
    for byte in bytes {
        ensure!(shift + BITS < Key::BITS, "number {} of the trace has too many bytes", numbers.len());
        number |= Key::from(byte & !MORE) << shift;
        shift += BITS;
        if byte & MORE == 0 {
            numbers.push(number);
            (number, shift) = (0, 0);
        }
    }
    ensure!(shift == 0, "the trace ends within a number");
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_one_byte_and_of_more_are_told_apart() {
        assert_eq!(numbers(&[0, 127, 0x80, 1, 0xff, 0xff, 3, 5]).unwrap(), [0, 127, 128, 65_535, 5]);
    }

    #[test]
    fn a_number_that_is_cut_or_too_long_is_refused() {
        assert!(numbers(&[1, 0x80]).is_err());
        assert!(numbers(&[0xff; 10]).is_err());
    }

    #[test]
    fn the_trace_numbers_keys_as_they_come_first() {
        let (trace, distinct) = gerrit().unwrap();
        let mut next = 0;
        for key in &trace.keys {
            assert!(*key <= next, "key {key} comes before key {next}");
            next = next.max(key + 1);
        }
        assert_eq!(next, distinct);
        assert!(distinct > 0 && trace.keys.len() as u64 > distinct, "keys are asked for again");
    }
}
