//! A histogram of times, whose buckets grow with the time so that a quantile is at most 1/16 too large.

const SUB: usize = 16;

/// Counts of times in nanoseconds.
#[derive(Clone, Debug)]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram { counts: vec![0; 64 * SUB], total: 0, max: 0 }
    }
}

fn bucket(nanos: u64) -> usize {
    if nanos < SUB as u64 {
        return nanos as usize;
    }
    let exponent = 63 - nanos.leading_zeros() as usize;
    (exponent - 3) * SUB + (nanos >> (exponent - 4)) as usize % SUB
}

/// An upper bound of the times in a bucket: inclusive below 16 ns, exclusive from there on.
fn end_of(bucket: usize) -> u64 {
    if bucket < SUB {
        return bucket as u64;
    }
    let exponent = bucket / SUB + 3;
    ((SUB + bucket % SUB + 1) as u64) << (exponent - 4)
}

impl Histogram {
    /// Counts one time.
    pub fn add(&mut self, nanos: u64) {
        self.counts[bucket(nanos)] += 1;
        self.total += 1;
        self.max = self.max.max(nanos);
    }

    /// Adds another's counts.
    pub fn merge(&mut self, other: &Histogram) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(own, other)| *own += other);
        self.total += other.total;
        self.max = self.max.max(other.max);
    }

    /// How many times were counted.
    pub fn count(&self) -> u64 {
        self.total
    }

    /// The largest time, in microseconds.
    pub fn max_us(&self) -> f64 {
        self.max as f64 / 1000.0
    }

    /// The time that a share of all (0 to 1) did not exceed, in microseconds.
    pub fn quantile_us(&self, share: f64) -> f64 {
        let wanted = (self.total as f64 * share).ceil() as u64;
        let mut seen = 0;
        for (at, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted && seen > 0 {
                return end_of(at).min(self.max) as f64 / 1000.0;
            }
        }
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_right_within_a_sixteenth() {
        let mut histogram = Histogram::default();
        (1..=100_000u64).for_each(|nanos| histogram.add(nanos));
        for share in [0.01, 0.5, 0.95, 0.99, 0.999, 1.0] {
            let (got, exact) = (histogram.quantile_us(share), share * 100.0);
            assert!((got - exact).abs() <= exact / 15.0, "{share}: {got}");
        }
        assert!((0..64).all(|shift| end_of(bucket(1 << shift)) >= 1 << shift));
    }
}
