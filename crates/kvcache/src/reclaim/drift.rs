//! A drift detector: decides, without effects, whether past reads still predict future reads.

use super::keep::Popularity;
use crate::format::rate::Rate;

/// Factor by which older observations fade with each segment: they count half after 44 segments.
const FADE: f32 = 63.0 / 64.0;
/// Popularity begins to shift when put records are read more often than predicted, compared with copies, by this
/// factor.
const SHIFTS: f32 = 1.9;
/// Popularity is steady again when the ratio that [`SHIFTS`] limits falls below this number.
const IS_STEADY: f32 = 1.6;

/// Compares the number of records that were read in a round with the number predicted by their rates, separately for
/// put records and for copies. While popularity is stable, both are predicted equally well. When other keys become
/// popular, put records are read far more often than predicted, and copies less often.
#[derive(Clone, Debug)]
pub(crate) struct DriftDetector {
    put: Counts,
    carried: Counts,
    popularity: Popularity,
}

#[derive(Clone, Copy, Debug)]
struct Counts {
    expected: f32,
    read: f32,
}

impl Counts {
    fn ratio(self) -> f32 {
        self.read / self.expected
    }
}

impl DriftDetector {
    pub(crate) fn new() -> Self {
        let even = Counts { expected: 1.0, read: 1.0 };
        DriftDetector { put: even, carried: even, popularity: Popularity::Steady }
    }

    /// Begins a new segment and returns the popularity by which its records are weighed.
    pub(crate) fn next_segment(&mut self) -> Popularity {
        for told in [&mut self.put, &mut self.carried] {
            told.expected *= FADE;
            told.read *= FADE;
        }
        let ratio = self.put.ratio() / self.carried.ratio().max(0.01);
        self.popularity = match self.popularity {
            Popularity::Steady if ratio > SHIFTS => Popularity::Shifting,
            Popularity::Shifting if ratio < IS_STEADY => Popularity::Steady,
            popularity => popularity,
        };
        self.popularity
    }

    /// Counts one record of the segment, with its rate so far and whether it was read in this round.
    pub(crate) fn tell(&mut self, rate: Rate, was_read: bool) {
        let told = if rate.is_carried() { &mut self.carried } else { &mut self.put };
        // The probability of at least one read in a Poisson process.
        told.expected += 1.0 - (-rate.known_reads()).exp();
        told.read += f32::from(u8::from(was_read));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the popularity after this number of segments, each with a hundred put records and a hundred copies, of
    /// which `put_read` and `carried_read` were read.
    fn popularity(drift: &mut DriftDetector, segments: usize, put_read: usize, carried_read: usize) -> Popularity {
        for _ in 0..segments {
            drift.next_segment();
            for at in 0..100 {
                drift.tell(Rate::of_reads(0.105), at < put_read);
                drift.tell(Rate::of_reads(0.7).carried(), at < carried_read);
            }
        }
        drift.next_segment()
    }

    #[test]
    fn new_records_that_are_read_more_than_expected_say_that_others_are_popular_now() {
        let mut drift = DriftDetector::new();
        assert_eq!(popularity(&mut drift, 200, 10, 50), Popularity::Steady, "as expected");
        assert_eq!(popularity(&mut drift, 100, 40, 40), Popularity::Shifting);
        assert_eq!(popularity(&mut drift, 400, 10, 50), Popularity::Steady, "and back");
        assert_eq!(popularity(&mut drift, 400, 0, 50), Popularity::Steady, "a scan is no reason to forget");
        assert_eq!(popularity(&mut drift, 100, 0, 0), Popularity::Steady, "nor is silence");
    }
}
