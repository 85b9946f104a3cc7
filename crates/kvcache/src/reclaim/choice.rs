//! Which entries of an evicted segment are kept.

use super::keep::{Keep, Popularity, Weighed};
use crate::format::{place::Place, rate::Rate};

/// The decision about the records of one segment.
pub(super) struct Choice {
    keep: Keep,
    is_whole: bool,
    popularity: Popularity,
}

impl Choice {
    pub(super) fn new(keep: Keep, is_whole: bool, popularity: Popularity) -> Self {
        Choice { keep, is_whole, popularity }
    }

    /// Decides whether a record is kept, and returns its rate from now on.
    pub(super) fn take(&mut self, rate: Rate, place: Place) -> (bool, Rate) {
        let weighed = Weighed::new(rate, place.uses(), self.is_whole, self.popularity);
        match self.keep.take(&weighed, place.len() as u64) {
            true => (true, weighed.rate.carried()),
            false => (false, weighed.rate),
        }
    }
}
