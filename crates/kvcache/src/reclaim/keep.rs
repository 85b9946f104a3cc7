//! Which records of an evicted segment are kept: decisions without effects. `docs/decisions/0055` has reasons and measurements.

use crate::format::rate::Rate;

/// The rate of a key that was never seen.
const NEW_READS: f32 = 0.05;
/// A record is kept from this rate on: not one that came once and was never read.
const LEAST_READS: f32 = 0.051;
/// A read counts at least so much of the way to it, however seldom the record was read before.
const LEAST_STEP_READS: f32 = 0.02;
/// A record that is kept or read counts for more than a new one. Of keys that come equally often the same ones stay.
const KNOWN: f32 = 1.3;

/// How fast counted reads are forgotten.
///
/// A record's rate is the reads that a round of the log brings it. Counted reads are remembered for as long as a few
/// reads take. A record with ten reads a round is forgotten soon after those end. One with a read every ten rounds is
/// not given up after one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pace {
    /// What was read often is read often.
    Steady,
    /// New keys are read more than their known rates say: others are popular now.
    Shifting,
}

impl Pace {
    /// How far a rate goes towards the counted number in a round. Each read counts a part, up to a bound.
    fn gain(self, reads: f32) -> f32 {
        match self {
            Pace::Steady => (reads / 6.0).min(0.5),
            Pace::Shifting => (reads * 4.0).min(0.75),
        }
    }

    /// The rate of a key that is put again, `rounds` rounds after it was evicted with `rate`. The request for it counts
    /// as a read.
    pub(crate) fn again(self, rate: Rate, rounds: f32) -> Rate {
        let weight = match self {
            Pace::Steady => 0.25,
            Pace::Shifting => 4.0,
        };
        let reads = rate.known_reads();
        let idle = reads / (1.0 + weight * reads * rounds);
        Rate::of_reads((idle * (1.0 + weight.min(1.0))).min(reads.max(1.0)).max(NEW_READS))
    }
}

impl Rate {
    /// The rate of a key that nothing is known of.
    pub(crate) fn new() -> Self {
        Rate::of_reads(NEW_READS)
    }

    /// Reads in a round; of a record of which nothing is known those of a new one.
    pub(crate) fn known_reads(self) -> f32 {
        if self.reads() > 0.0 { self.reads() } else { NEW_READS }
    }

    /// The rate after a round with `uses` reads.
    pub(crate) fn after(self, uses: u8, pace: Pace) -> Rate {
        let reads = self.known_reads();
        match uses {
            0 => Rate::of_reads(reads * (1.0 - pace.gain(reads))),
            uses => {
                let step = pace.gain(reads.max(LEAST_STEP_READS)) * (f32::from(uses) - reads);
                Rate::of_reads(reads + step.max(0.0))
            }
        }
    }
}

/// A record as it is weighed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weighed {
    /// Its rate from now on.
    pub(crate) rate: Rate,
    worth: f32,
}

impl Weighed {
    /// A record with this rate that was read so often in the round that ends. `is_whole` says whether all reads were counted:
    /// those before a restart were not.
    pub(crate) fn new(rate: Rate, uses: u8, is_whole: bool, pace: Pace) -> Self {
        let after = if is_whole || uses > 0 { rate.after(uses, pace) } else { rate };
        let is_known = rate.is_carried() || uses > 0;
        Weighed { rate: after, worth: after.known_reads() * if is_known { KNOWN } else { 1.0 } }
    }
}

/// The worth from which records were kept of late. Segments differ: one has copies, another new records. A share of each
/// would drop records that are worth more than those kept of the next.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Bar(f32);

/// How fast the bar follows: by this for each segment, if all of it is kept that must not.
const BAR_STEP: f32 = 0.1;

impl Bar {
    pub(crate) fn new() -> Self {
        Bar(LEAST_READS)
    }

    /// A segment with these records, of which `share` may be kept, is weighed. The bar rises if more was worth it.
    pub(crate) fn follow(&mut self, records: &[(Weighed, u64)], share: f32) {
        debug_assert!((0.0..=1.0).contains(&share), "a part of the segment: {share}");
        let (above, all) = records.iter().fold((0, 0), |(above, all), (weighed, len)| {
            (above + if weighed.worth >= self.0 { *len } else { 0 }, all + len)
        });
        let over = above as f32 / all.max(1) as f32 - share;
        self.0 = (self.0 * (BAR_STEP * over).exp()).max(LEAST_READS);
    }
}

/// Which records of an evicted segment are copied.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Keep {
    /// Records worth less are not.
    least: f32,
    left_bytes: u64,
}

impl Keep {
    /// Keeps the records that are worth most, up to `budget` bytes, of these with their bytes, from the bar on.
    pub(crate) fn best(mut records: Vec<(Weighed, u64)>, bar: Bar, budget: u64) -> Self {
        records.sort_by(|a, b| b.0.worth.total_cmp(&a.0.worth));
        let (mut least, mut bytes) = (f32::INFINITY, 0);
        for (weighed, len) in records {
            if weighed.worth < bar.0 || bytes + len > budget {
                break;
            }
            (least, bytes) = (weighed.worth, bytes + len);
            debug_assert!(bytes <= budget, "no more is kept than the budget allows");
        }
        Keep { least, left_bytes: bytes }
    }

    /// How many bytes it keeps at most.
    pub(crate) fn bytes(&self) -> u64 {
        self.left_bytes
    }

    /// Decides over one record.
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
        Weighed::new(Rate::of_reads(reads), uses, true, Pace::Steady)
    }

    #[test]
    fn the_records_worth_most_are_kept_within_the_budget() {
        let records = vec![
            (weighed(0.2, 0), 40),
            (weighed(2.0, 3), 40),
            (weighed(0.4, 1), 40),
            (Weighed::new(Rate::new(), 0, true, Pace::Steady), 40),
        ];
        let mut keep = Keep::best(records.clone(), Bar::new(), 100);
        assert_eq!(keep.bytes(), 80);
        assert!(!keep.take(&records[0].0, 40) && keep.take(&records[1].0, 40) && keep.take(&records[2].0, 40));
        assert!(!keep.take(&records[1].0, 1), "no more than the budget");
        let mut keep = Keep::best(records.clone(), Bar::new(), 1_000);
        assert_eq!(keep.bytes(), 120, "what came once and was never read goes, whatever the budget");
        assert!(!keep.take(&records[3].0, 40));
    }

    #[test]
    fn a_segment_of_little_worth_leaves_its_share_to_the_others() {
        let (rich, poor) = (vec![(weighed(2.0, 3), 40); 10], vec![(weighed(0.1, 0), 40); 10]);
        let mut bar = Bar::new();
        for _ in 0..200 {
            bar.follow(&rich, 0.5);
            bar.follow(&poor, 0.5);
        }
        assert_eq!((Keep::best(rich, bar, 400).bytes(), Keep::best(poor.clone(), bar, 400).bytes()), (400, 0));
        for _ in 0..200 {
            bar.follow(&poor, 0.8);
        }
        assert_eq!(Keep::best(poor, bar, 320).bytes(), 320, "where nothing is worth more it is kept");
    }

    #[test]
    fn a_rate_is_forgotten_within_a_few_of_its_own_reads() {
        let idle = |reads: f32, rounds, pace| {
            (0..rounds).fold(Rate::of_reads(reads), |rate, _| rate.after(0, pace)).reads() / reads
        };
        assert!(idle(4.0, 4, Pace::Steady) < 0.25, "one that was read often");
        assert!(idle(0.1, 10, Pace::Steady) > 0.7, "one that is read every ten rounds");
        assert!(idle(0.1, 10, Pace::Shifting) < 0.25, "while others become popular it is");
    }

    #[test]
    fn a_rate_settles_where_the_reads_are() {
        for (every, want) in [(1, 1.0), (10, 0.1)] {
            let rate = (1..400).fold(Rate::new(), |rate, round| rate.after(u8::from(round % every == 0), Pace::Steady));
            assert!((0.6..1.6).contains(&(rate.reads() / want)), "{rate:?} for one read in {every} rounds");
        }
    }

    #[test]
    fn a_key_that_comes_back_is_worth_more_than_a_new_one() {
        let back = Pace::Steady.again(Rate::new().after(0, Pace::Steady), 1.0);
        assert!(back.reads() > Rate::new().reads());
        let late = Pace::Steady.again(Rate::of_reads(2.0), 30.0);
        assert!(late.reads() < 0.3, "{late:?}");
        let mut rate = Rate::new();
        for _ in 0..1_000 {
            rate = Pace::Steady.again(rate, 0.0);
        }
        assert!(
            rate.reads() < 1.1,
            "a record that is never there in time does not push out one that is read every round"
        );
    }
}
