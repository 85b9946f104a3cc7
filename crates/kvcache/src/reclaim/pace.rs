//! Whether old counts still tell the reads: a decision without effects.

use super::keep::Pace;
use crate::format::rate::Rate;

/// What was seen counts half as much after some 44 segments.
const FADE: f32 = 63.0 / 64.0;
/// From this factor on new records are read too often for their known rates, and below this one no more.
const SHIFTS: f32 = 1.9;
const IS_STEADY: f32 = 1.6;

/// The number of records expected to be read in a round, and of those read. Put records and copied ones are counted
/// apart. While all stays as it is both are forecast equally well. When other keys become popular, new records are read
/// far more than expected, and copies less.
#[derive(Clone, Debug)]
pub(crate) struct Forecast {
    put: Told,
    carried: Told,
    pace: Pace,
}

#[derive(Clone, Copy, Debug)]
struct Told {
    expected: f32,
    read: f32,
}

impl Told {
    fn ratio(self) -> f32 {
        self.read / self.expected
    }
}

impl Forecast {
    pub(crate) fn new() -> Self {
        let even = Told { expected: 1.0, read: 1.0 };
        Forecast { put: even, carried: even, pace: Pace::Steady }
    }

    /// Another segment is looked at; returns the pace by which.
    pub(crate) fn next_segment(&mut self) -> Pace {
        for told in [&mut self.put, &mut self.carried] {
            told.expected *= FADE;
            told.read *= FADE;
        }
        let ratio = self.put.ratio() / self.carried.ratio().max(0.01);
        self.pace = match self.pace {
            Pace::Steady if ratio > SHIFTS => Pace::Shifting,
            Pace::Shifting if ratio < IS_STEADY => Pace::Steady,
            pace => pace,
        };
        self.pace
    }

    /// One record of it, with its rate so far, and whether it was read in this round.
    pub(crate) fn tell(&mut self, rate: Rate, was_read: bool) {
        let told = if rate.is_carried() { &mut self.carried } else { &mut self.put };
        // Reads at random moments leave this part without one.
        told.expected += 1.0 - (-rate.known_reads()).exp();
        told.read += f32::from(u8::from(was_read));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pace after this number of segments of a hundred records of each kind.
    fn pace(forecast: &mut Forecast, segments: usize, put_read: usize, carried_read: usize) -> Pace {
        for _ in 0..segments {
            forecast.next_segment();
            for at in 0..100 {
                forecast.tell(Rate::of_reads(0.105), at < put_read);
                forecast.tell(Rate::of_reads(0.7).carried(), at < carried_read);
            }
        }
        forecast.next_segment()
    }

    #[test]
    fn new_records_that_are_read_more_than_expected_say_that_others_are_popular_now() {
        let mut forecast = Forecast::new();
        assert_eq!(pace(&mut forecast, 200, 10, 50), Pace::Steady, "as expected");
        assert_eq!(pace(&mut forecast, 100, 40, 40), Pace::Shifting);
        assert_eq!(pace(&mut forecast, 400, 10, 50), Pace::Steady, "and back");
        assert_eq!(pace(&mut forecast, 400, 0, 50), Pace::Steady, "a scan is no reason to forget");
        assert_eq!(pace(&mut forecast, 100, 0, 0), Pace::Steady, "nor is silence");
    }
}
