//! The entries of an evicted segment that stay.

use super::keep::{Keep, Pace, Weighed};
use crate::format::{place::Place, rate::Rate};

/// The kept records of a segment, and the measure of their reads.
pub(super) struct Choice {
    keep: Keep,
    is_whole: bool,
    pace: Pace,
}

impl Choice {
    pub(super) fn new(keep: Keep, is_whole: bool, pace: Pace) -> Self {
        Choice { keep, is_whole, pace }
    }

    /// Decides over a record; returns its rate from now on, too.
    pub(super) fn take(&mut self, rate: Rate, place: Place) -> (bool, Rate) {
        let weighed = Weighed::new(rate, place.uses(), self.is_whole, self.pace);
        match self.keep.take(&weighed, place.len() as u64) {
            true => (true, weighed.rate.carried()),
            false => (false, weighed.rate),
        }
    }
}
