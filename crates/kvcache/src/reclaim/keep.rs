//! Decides, without effects, which records of an evicted segment are kept. `docs/decisions/0055` has the reasons and
//! measurements.

use crate::format::rate::Rate;

/// Reads in a round that are assumed for a key about which nothing is known.
const NEW_READS: f32 = 0.05;
/// The least worth of a record that an eviction keeps. A record that was put once and never read is worth less.
const LEAST_READS: f32 = 0.051;
/// Least rate from which the effect of a read is computed, so that a read of a rarely read record still moves its rate.
const LEAST_STEP_READS: f32 = 0.02;
/// Factor for records that were kept or read before, so that among keys which are read equally often the same ones
/// stay.
const KNOWN: f32 = 1.3;

/// Whether the popularity of keys is stable, which decides how fast old reads are forgotten.
///
/// The rate of a record is the number of its reads in a round of the log. Reads are remembered for the time that a few
/// reads of that record take: a record with three reads in a round, the most that are counted, is forgotten soon after
/// its reads stop, while a record with one read in ten rounds is not given up after one round without a read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Popularity {
    /// Keys that were read often are still read often.
    Steady,
    /// Records that were put are read more often than their rates predict, compared with copies, because other keys
    /// have become popular.
    Shifting,
}

impl Popularity {
    /// The part of the difference between a rate and the reads of a round by which the rate changes.
    fn gain(self, reads: f32) -> f32 {
        match self {
            Popularity::Steady => (reads / 6.0).min(0.5),
            Popularity::Shifting => (reads * 4.0).min(0.75),
        }
    }

    /// The rate of a key that is put again `rounds` rounds after it was evicted with `rate`. The put counts as a read,
    /// because it usually follows a miss.
    pub(crate) fn again(self, rate: Rate, rounds: f32) -> Rate {
        let weight = match self {
            Popularity::Steady => 0.25,
            Popularity::Shifting => 4.0,
        };
        let reads = rate.known_reads();
        let idle = reads / (1.0 + weight * reads * rounds);
        Rate::of_reads((idle * (1.0 + weight.min(1.0))).min(reads.max(1.0)).max(NEW_READS))
    }
}

impl Rate {
    /// The rate of a key about which nothing is known.
    pub(crate) fn new() -> Self {
        Rate::of_reads(NEW_READS)
    }

    /// Reads in a round, or those of a new key if nothing is known.
    pub(crate) fn known_reads(self) -> f32 {
        if self.reads() > 0.0 { self.reads() } else { NEW_READS }
    }

    /// The rate after a round with `uses` reads.
    pub(crate) fn after(self, uses: u8, popularity: Popularity) -> Rate {
        let reads = self.known_reads();
        match uses {
            0 => Rate::of_reads(reads * (1.0 - popularity.gain(reads))),
            uses => {
                let step = popularity.gain(reads.max(LEAST_STEP_READS)) * (f32::from(uses) - reads);
                Rate::of_reads(reads + step.max(0.0))
            }
        }
    }
}

/// A record with its worth.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weighed {
    /// The rate that the record has from now on.
    pub(crate) rate: Rate,
    worth: f32,
}

impl Weighed {
    /// Weighs a record with this rate that was read `uses` times in the round that ends. `is_whole` says whether all
    /// reads of the round were counted, which is not so after a restart.
    pub(crate) fn new(rate: Rate, uses: u8, is_whole: bool, popularity: Popularity) -> Self {
        let after = if is_whole || uses > 0 { rate.after(uses, popularity) } else { rate };
        let is_known = rate.is_carried() || uses > 0;
        Weighed { rate: after, worth: after.known_reads() * if is_known { KNOWN } else { 1.0 } }
    }
}

/// Least worth at which records were recently kept. All segments share it: if instead the same share of each segment
/// were kept, a segment full of copies would lose records that are worth more than those that the next segment keeps.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Threshold(f32);

/// By how much the logarithm of the threshold changes for a segment whose records are all above the threshold and of
/// which nothing may be kept.
const THRESHOLD_STEP: f32 = 0.1;

impl Threshold {
    pub(crate) fn new() -> Self {
        Threshold(LEAST_READS)
    }

    /// Adapts the threshold to a segment with these records, of which `share` may be kept. The threshold rises if the
    /// records that reach it are a larger share, and falls if they are a smaller one, but not below [`LEAST_READS`].
    pub(crate) fn follow(&mut self, records: &[(Weighed, u64)], share: f32) {
        debug_assert!((0.0..=1.0).contains(&share), "a share of the segment: {share}");
        let (above, all) = records.iter().fold((0, 0), |(above, all), (weighed, len)| {
            (above + if weighed.worth >= self.0 { *len } else { 0 }, all + len)
        });
        let over = above as f32 / all.max(1) as f32 - share;
        self.0 = (self.0 * (THRESHOLD_STEP * over).exp()).max(LEAST_READS);
    }
}

/// The decision which records of an evicted segment are copied.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Keep {
    /// Least worth of a copied record.
    least: f32,
    left_bytes: u64,
}

impl Keep {
    /// Keeps those of `records`, given with their bytes, that are worth most, up to `budget` bytes and down to the
    /// threshold.
    pub(crate) fn best(mut records: Vec<(Weighed, u64)>, threshold: Threshold, budget: u64) -> Self {
        records.sort_by(|a, b| b.0.worth.total_cmp(&a.0.worth));
        let (mut least, mut bytes) = (f32::INFINITY, 0);
        for (weighed, len) in records {
            if weighed.worth < threshold.0 || bytes + len > budget {
                break;
            }
            (least, bytes) = (weighed.worth, bytes + len);
            debug_assert!(bytes <= budget, "the budget is kept");
        }
        Keep { least, left_bytes: bytes }
    }

    /// Maximum number of bytes that may still be kept.
    pub(crate) fn bytes(&self) -> u64 {
        self.left_bytes
    }

    /// Returns whether a record is copied, and takes its bytes off those that may be kept if so.
    pub(crate) fn take(&mut self, weighed: &Weighed, len: u64) -> bool {
        let fits = weighed.worth >= self.least && len <= self.left_bytes;
        if fits {
            self.left_bytes -= len;
        }
        fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weighed(reads: f32, uses: u8) -> Weighed {
        Weighed::new(Rate::of_reads(reads), uses, true, Popularity::Steady)
    }

    #[test]
    fn the_records_worth_most_are_kept_within_the_budget() {
        let records = vec![
            (weighed(0.2, 0), 40),
            (weighed(2.0, 3), 40),
            (weighed(0.4, 1), 40),
            (Weighed::new(Rate::new(), 0, true, Popularity::Steady), 40),
        ];
        let mut keep = Keep::best(records.clone(), Threshold::new(), 100);
        assert_eq!(keep.bytes(), 80);
        assert!(!keep.take(&records[0].0, 40) && keep.take(&records[1].0, 40) && keep.take(&records[2].0, 40));
        assert!(!keep.take(&records[1].0, 1), "no more than the budget");
        let mut keep = Keep::best(records.clone(), Threshold::new(), 1_000);
        assert_eq!(keep.bytes(), 120, "what came once and was never read goes, whatever the budget");
        assert!(!keep.take(&records[3].0, 40));
    }

    #[test]
    fn a_segment_of_little_worth_leaves_its_share_to_the_others() {
        let (rich, poor) = (vec![(weighed(2.0, 3), 40); 10], vec![(weighed(0.1, 0), 40); 10]);
        let mut threshold = Threshold::new();
        for _ in 0..200 {
            threshold.follow(&rich, 0.5);
            threshold.follow(&poor, 0.5);
        }
        assert_eq!(
            (Keep::best(rich, threshold, 400).bytes(), Keep::best(poor.clone(), threshold, 400).bytes()),
            (400, 0)
        );
        for _ in 0..200 {
            threshold.follow(&poor, 0.8);
        }
        assert_eq!(Keep::best(poor, threshold, 320).bytes(), 320, "where nothing is worth more it is kept");
    }

    #[test]
    fn a_rate_is_forgotten_within_a_few_of_its_own_reads() {
        let idle = |reads: f32, rounds, popularity| {
            (0..rounds).fold(Rate::of_reads(reads), |rate, _| rate.after(0, popularity)).reads() / reads
        };
        assert!(idle(4.0, 4, Popularity::Steady) < 0.25, "one that was read often");
        assert!(idle(0.1, 10, Popularity::Steady) > 0.7, "one that is read every ten rounds");
        assert!(idle(0.1, 10, Popularity::Shifting) < 0.25, "while others become popular it is");
    }

    #[test]
    fn a_rate_settles_where_the_reads_are() {
        for (every, want) in [(1, 1.0), (10, 0.1)] {
            let rate =
                (1..400).fold(Rate::new(), |rate, round| rate.after(u8::from(round % every == 0), Popularity::Steady));
            assert!((0.6..1.6).contains(&(rate.reads() / want)), "{rate:?} for one read in {every} rounds");
        }
    }

    #[test]
    fn a_key_that_comes_back_is_worth_more_than_a_new_one() {
        let back = Popularity::Steady.again(Rate::new().after(0, Popularity::Steady), 1.0);
        assert!(back.reads() > Rate::new().reads());
        let late = Popularity::Steady.again(Rate::of_reads(2.0), 30.0);
        assert!(late.reads() < 0.3, "{late:?}");
        let mut rate = Rate::new();
        for _ in 0..1_000 {
            rate = Popularity::Steady.again(rate, 0.0);
        }
        assert!(
            rate.reads() < 1.1,
            "a record that is never there in time does not push out one that is read every round"
        );
    }
}
