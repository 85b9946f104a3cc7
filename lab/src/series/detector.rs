//! Decides when a growing series has changed. Each commit is measured beside one anchor, an earlier commit, in pairs
//! that run in random order, and each pair gives a logarithm of a ratio.
//!
//! At each commit, bettors enter who bet that the cost has changed since then, with a part of the wealth that was set
//! aside for them at the beginning. As long as nothing changes, their bets are fair, so the wealth of those who
//! bet on a higher cost reaches `2 / rate` in at most half of the fraction `rate` of all series, however long they
//! become and whenever one looks; so does the wealth of those who bet on a lower cost.

use crate::stats::{Parts, gains, mean_of};

/// The direction in which a cost changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Commits cost more than the anchor.
    Worse,
    /// Commits cost less than the anchor.
    Better,
}

impl Direction {
    /// Returns 1 for a cost that rises, and -1 for one that falls.
    pub fn sign(self) -> f64 {
        match self {
            Direction::Worse => 1.0,
            Direction::Better => -1.0,
        }
    }
}

/// A change of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    /// Whether the cost rose or fell.
    pub direction: Direction,
    /// The most likely first commit with the new cost, counted from 0.
    pub first: usize,
}

/// The bets on a series, as far as it is known.
#[derive(Debug, Clone)]
pub struct Detector {
    /// The logarithm of the smallest ratio that counts as a change.
    margin: f64,
    /// The wealth at which a change is believed.
    wanted: f64,
    commits: usize,
    sides: [Side; 2],
}

/// The bets in one direction. All bettors of one kind win and lose the same from their entry on.
#[derive(Debug, Clone)]
struct Side {
    direction: Direction,
    /// The wealth of the bettors of each kind who have entered.
    wealth: Parts,
    /// The logarithm of what a bettor of each kind has made of a wealth of 1 since the first commit.
    made: Parts,
    /// [`Side::made`] at the entry of each commit.
    entries: Vec<Parts>,
    /// The largest logarithm of what bets of each kind have made since any earlier pair, but not below 0.
    best: Parts,
}

/// The logarithm of the wealth of one bettor above which a commit deserves more pairs.
const SUSPICIOUS: f64 = 1.5;

/// The number of pairs of a commit that seems to cost what the anchor costs.
pub const PAIRS_MIN: usize = 8;

impl Detector {
    /// Creates bets that find changes of more than `tolerance`, a fraction. At most the fraction `rate` of all series
    /// without such a change ever give one.
    ///
    /// # Panics
    ///
    /// Panics if `rate` or `tolerance` does not lie between 0 and 1.
    pub fn new(rate: f64, tolerance: f64) -> Detector {
        assert!(rate > 0.0 && rate < 1.0, "a rate of false alarms lies between 0 and 1");
        assert!(tolerance > 0.0 && tolerance < 1.0, "a tolerance lies between 0 and 1");
        // Each of the two directions may fail in half of the permitted series.
        let sides = [Direction::Worse, Direction::Better].map(Side::new);
        Detector { margin: tolerance.ln_1p(), wanted: 2.0 / rate, commits: 0, sides }
    }

    /// Begins the next commit. The differences that follow belong to it.
    pub fn enter(&mut self) {
        self.commits += 1;
        let number = self.commits as f64;
        // 1/2 + 1/6 + 1/12 + ... is 1, so what is set aside lasts for any number of commits.
        let share = 1.0 / (number * (number + 1.0));
        self.sides.iter_mut().for_each(|side| side.enter(share));
    }

    /// Pays out the bets on one more pair: the logarithm of the commit's cost divided by that of the anchor.
    ///
    /// # Panics
    ///
    /// Panics if no commit was begun.
    pub fn add(&mut self, difference: f64) {
        assert!(self.commits > 0, "a pair belongs to a commit");
        let margin = self.margin;
        self.sides.iter_mut().for_each(|side| side.add(difference, margin));
    }

    /// Returns the change, if one is certain.
    pub fn change(&self) -> Option<Change> {
        let waiting = 1.0 / (self.commits as f64 + 1.0);
        let won = self.sides.iter().find(|side| side.mean() + waiting >= self.wanted)?;
        Some(Change { direction: won.direction, first: won.likeliest() })
    }

    /// Returns whether a commit with this number of pairs has been measured enough: a change is certain, or `most`
    /// pairs were measured, or at least [`PAIRS_MIN`] were and nothing points to a change. The bets stay fair
    /// whenever the caller stops.
    pub fn is_enough(&self, pairs: usize, most: usize) -> bool {
        pairs >= most || (pairs >= PAIRS_MIN && !self.is_suspicious()) || self.change().is_some()
    }

    /// Returns whether a change seems to have begun, so that more pairs of the same commit are worth their time.
    fn is_suspicious(&self) -> bool {
        let best = |side: &Side| side.best.as_flattened().iter().copied().fold(0.0, f64::max);
        self.sides.iter().map(best).fold(0.0, f64::max) > SUSPICIOUS
    }
}

impl Side {
    fn new(direction: Direction) -> Side {
        let none = Parts::default();
        Side { direction, wealth: none, made: none, entries: Vec::new(), best: none }
    }

    fn enter(&mut self, share: f64) {
        self.entries.push(self.made);
        self.wealth.as_flattened_mut().iter_mut().for_each(|wealth| *wealth += share);
    }

    fn add(&mut self, difference: f64, margin: f64) {
        let gains = gains(self.direction.sign() * difference - margin);
        let gains = gains.as_flattened();
        for (wealth, gain) in self.wealth.as_flattened_mut().iter_mut().zip(gains) {
            *wealth *= gain.exp();
        }
        for (made, gain) in self.made.as_flattened_mut().iter_mut().zip(gains) {
            *made += gain;
        }
        for (best, gain) in self.best.as_flattened_mut().iter_mut().zip(gains) {
            *best = (*best + gain).max(0.0);
        }
    }

    fn mean(&self) -> f64 {
        let wealth = self.wealth.as_flattened();
        wealth.iter().sum::<f64>() / wealth.len() as f64
    }

    /// Returns the commit whose bettors have made most.
    fn likeliest(&self) -> usize {
        let made_since = |entry: &Parts| {
            let made = self.made.as_flattened().iter().zip(entry.as_flattened());
            mean_of(&made.map(|(now, then)| now - then).collect::<Vec<_>>())
        };
        let since = self.entries.iter().map(made_since).enumerate();
        since.max_by(|(_, one), (_, other)| one.total_cmp(other)).map_or(0, |(first, _)| first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(commits: &[(f64, usize)]) -> Detector {
        let mut detector = Detector::new(0.01, 0.01);
        for (difference, pairs) in commits {
            detector.enter();
            (0..*pairs).for_each(|_| detector.add(*difference));
        }
        detector
    }

    #[test]
    fn a_change_names_its_direction_and_its_first_commit() {
        for (sign, direction) in [(1.0, Direction::Worse), (-1.0, Direction::Better)] {
            let change = with(&[(0.0, 8), (0.0, 8), (0.0, 8), (sign * 0.03, 8), (sign * 0.03, 20)]).change();
            assert_eq!(change, Some(Change { direction, first: 3 }));
        }
    }

    #[test]
    fn what_lies_within_the_tolerance_is_no_change_however_long_it_lasts() {
        let detector = with(&[(0.0099, 60); 200]);
        assert_eq!(detector.change(), None);
        assert!(detector.is_enough(PAIRS_MIN, 60), "nothing calls for more pairs");
    }

    #[test]
    fn a_commit_that_looks_changed_gets_more_pairs_until_it_is_certain() {
        let detector = with(&[(0.0, 8), (0.2, 8)]);
        assert_eq!(detector.change(), None, "eight tosses of a coin prove nothing");
        assert!(!detector.is_enough(8, 60));
        assert!(detector.is_enough(60, 60), "the limit holds all the same");
        assert!(with(&[(0.0, 8), (0.2, 30)]).is_enough(30, 60));
    }

    /// Simulates the definition: one bettor of each kind enters at each commit.
    #[test]
    fn the_wealth_is_the_sum_over_all_entries() {
        let differences = [[0.02, -0.01, 0.03], [0.05, 0.04, -0.2], [0.001, 0.02, 0.3]];
        let mut detector = Detector::new(0.01, 0.01);
        for commit in &differences {
            detector.enter();
            commit.iter().for_each(|difference| detector.add(*difference));
        }
        let mut sum = 0.0;
        for start in 0..differences.len() {
            let mut made = Parts::default();
            for difference in differences[start..].as_flattened() {
                let gains = gains(difference - 0.01_f64.ln_1p());
                made.as_flattened_mut().iter_mut().zip(gains.as_flattened()).for_each(|(made, gain)| *made += gain);
            }
            let share = 1.0 / ((start + 1) * (start + 2)) as f64;
            sum += share * mean_of(made.as_flattened()).exp();
        }
        let [worse, _] = &detector.sides;
        assert!((worse.mean() - sum).abs() < 1e-9 * sum, "{} is not {sum}", worse.mean());
    }
}
