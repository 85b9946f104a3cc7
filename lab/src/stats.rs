//! Tests whether paired differences are centred at a value, with pure functions whose answers are valid whenever the
//! caller stops. Bets can decide after any difference, and [`ranks`] also decide after the last permitted one.
//! docs/decisions/0080-the-lab-bets.md describes the method and its sources.

use serde::Serialize;

use crate::ranks;

/// The steepnesses with which the payoffs of bets rise with a difference: each is one over the size of a difference
/// that is paid three quarters of the stake.
const STEEPNESS: [f64; 4] = [8.0, 64.0, 512.0, 4096.0];

/// The maximum fractions of the wealth that bettors stake. The larger one reaches certainty sooner, and the smaller one
/// survives outliers.
const STAKES: [f64; 2] = [0.6, 0.97];

/// The fraction of the rate of false answers that is allotted to the bets. [`LATE`] is that of the ranks at the last
/// difference. The rest is slack, so that the upper bound of a measured rate stays below the limit.
const EARLY: f64 = 0.1;
const LATE: f64 = 0.8;

/// How often answers may be false, and the maximum number of differences.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Odds {
    /// The maximum fraction of sequences with a false answer, in either direction.
    rate: f64,
    last: usize,
    /// The sum of the scores of [`ranks`] that decides at the last difference; `None` if no sum is certain enough.
    needed: Option<usize>,
}

impl Odds {
    /// Creates odds by which at most `rate` of all sequences give a false answer, where each sequence has at most
    /// `last` differences.
    ///
    /// # Panics
    ///
    /// Panics if `rate` is not between 0 and 1, or `last` exceeds [`LAST_MAX`].
    pub fn new(rate: f64, last: usize) -> Odds {
        assert!(rate > 0.0 && rate < 1.0, "a rate of false alarms lies between 0 and 1");
        assert!(last <= LAST_MAX, "the chances of more ranks take too long to count");
        Odds { rate, last, needed: ranks::needed(last, LATE * rate / 2.0) }
    }

    /// Returns the logarithm of the wealth at which the bets are believed. Each of the two directions may fail in half
    /// of the permitted cases.
    fn wanted(&self) -> f64 {
        (2.0 / (EARLY * self.rate)).ln()
    }
}

/// Maximum number of differences that [`Odds`] support.
pub const LAST_MAX: usize = 10_000;

/// The confidence interval of the centre, at the rate of false alarms.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Interval {
    /// The lower bound; if too little is known, minus infinity, or 0 for a ratio.
    pub low: f64,
    /// The upper bound; infinity if too little is known.
    pub high: f64,
}

impl Interval {
    /// Returns the interval of a ratio, where `self` is the interval of its logarithm.
    pub fn of_ratio(self) -> Interval {
        Interval { low: self.low.exp(), high: self.high.exp() }
    }
}

/// Bettors who began with a total wealth of 1, and who bet that differences lie above a level, or below it.
///
/// A difference multiplies the wealth of each bettor by `1 + stake * tanh(steepness * excess)`. If differences are as
/// likely to lie above the level as below it by the same amount, the expected wealth does not change.
#[derive(Debug, Clone, PartialEq)]
pub struct Bets {
    level: f64,
    direction: f64,
    /// The logarithm of the wealth of each bettor, as if each had begun with 1.
    parts: Parts,
}

/// One number for each bettor, by steepness and by stake.
pub type Parts = [[f64; STAKES.len()]; STEEPNESS.len()];

/// Returns the factors by which a difference that lies above the level by `excess` multiplies the wealth of each
/// bettor on that side, as logarithms.
pub fn gains(excess: f64) -> Parts {
    STEEPNESS.map(|steepness| STAKES.map(|stake| (stake * (steepness * excess).tanh()).ln_1p()))
}

impl Bets {
    /// Creates bets that the centre lies above `level`.
    pub fn above(level: f64) -> Bets {
        Bets { level, direction: 1.0, parts: [[0.0; STAKES.len()]; STEEPNESS.len()] }
    }

    /// Creates bets that the centre lies below `level`.
    pub fn below(level: f64) -> Bets {
        Bets { direction: -1.0, ..Bets::above(level) }
    }

    /// Pays out the bets on one more difference.
    pub fn add(&mut self, difference: f64) {
        let gains = gains(self.direction * (difference - self.level));
        for (part, gain) in self.parts.as_flattened_mut().iter_mut().zip(gains.as_flattened()) {
            *part += gain;
        }
    }

    /// Returns whether the bets have won so much that they are believed. However often this is called, they are falsely
    /// believed in at most the fraction of sequences that is allotted to them (Ville's inequality).
    pub fn are_won(&self, odds: &Odds) -> bool {
        mean_of(self.parts.as_flattened()) >= odds.wanted()
    }

    fn with(mut self, differences: &[f64]) -> Bets {
        differences.iter().for_each(|difference| self.add(*difference));
        self
    }
}

/// Returns whether the centre of `differences` is known to lie above `level`. Panics if there are more differences
/// than the odds permit.
pub fn is_above(differences: &[f64], level: f64, odds: &Odds) -> bool {
    assert!(differences.len() <= odds.last, "no more differences than the odds are for");
    let by_ranks = |needed: usize| ranks::sum_above(differences, level) >= needed;
    Bets::above(level).with(differences).are_won(odds)
        || (differences.len() == odds.last && odds.needed.is_some_and(by_ranks))
}

/// Returns whether the centre of `differences` is known to lie below `level`.
pub fn is_below(differences: &[f64], level: f64, odds: &Odds) -> bool {
    is_above(&mirrored(differences, -1.0), -level, odds)
}

/// Returns the differences multiplied by `direction`, which is 1 or -1.
pub fn mirrored(differences: &[f64], direction: f64) -> Vec<f64> {
    differences.iter().map(|difference| difference * direction).collect()
}

/// Returns the interval outside of which the centre is known not to lie. It contains the centre at all times, except in
/// at most the fraction of sequences that the rate of the odds permits.
pub fn interval(differences: &[f64], odds: &Odds) -> Interval {
    let below = |direction: f64| last_below(&mirrored(differences, direction), odds);
    Interval { low: below(1.0), high: -below(-1.0) }
}

/// Returns the median of the differences, which outliers do not affect; 0 if there are none.
pub fn centre(differences: &[f64]) -> f64 {
    quantile(differences, 0.5).unwrap_or_default()
}

/// Returns the value below which a fraction `part` of `values` lies, interpolated if necessary; `None` if there are no
/// values.
pub fn quantile(values: &[f64], part: f64) -> Option<f64> {
    assert!((0.0..=1.0).contains(&part), "a part lies between 0 and 1");
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let place = sorted.len().checked_sub(1)? as f64 * part;
    let (below, above) = (sorted.get(place.floor() as usize)?, sorted.get(place.ceil() as usize)?);
    Some(below + (above - below) * place.fract())
}

/// Returns the logarithm of the mean of numbers whose logarithms are given.
pub fn mean_of(logarithms: &[f64]) -> f64 {
    let most = logarithms.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = logarithms.iter().map(|part| (part - most).exp()).sum();
    most + (sum / logarithms.len() as f64).ln()
}

/// Returns the smallest number of differences that give a certain answer at this rate if all of them agree and no more
/// may follow; at most [`LAST_MAX`].
pub fn fewest(rate: f64) -> usize {
    (1..LAST_MAX).find(|count| Odds::new(rate, *count).needed.is_some()).unwrap_or(LAST_MAX)
}

/// Returns the highest level that the centre is known to exceed, or minus infinity. Bisection finds it, because
/// wealth and ranks fall as the level rises.
fn last_below(differences: &[f64], odds: &Odds) -> f64 {
    let least = differences.iter().copied().fold(f64::INFINITY, f64::min);
    let most = differences.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    // At this distance below the smallest difference, even the least steep bet is paid in full.
    let (mut known, mut open) = (least - 4.0, most);
    if differences.is_empty() || !is_above(differences, known, odds) {
        return f64::NEG_INFINITY;
    }
    for _ in 0..48 {
        let middle = f64::midpoint(known, open);
        if is_above(differences, middle, odds) { known = middle } else { open = middle }
    }
    known
}

/// Returns the highest rate at which `events` or fewer in `trials` still have a chance of one in twenty. This is the
/// upper bound of Clopper and Pearson (Biometrika 26, 1934) at 95 %.
pub fn upper_bound(events: u32, trials: u32) -> f64 {
    assert!(events <= trials && trials > 0, "no more events than trials");
    let (mut low, mut high) = (f64::from(events) / f64::from(trials), 1.0);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if chance_of_at_most(events, trials, middle) > 0.05 { low = middle } else { high = middle }
    }
    high
}

/// Returns the chance of `events` or fewer in `trials` independent trials, each of which has the chance `rate`.
fn chance_of_at_most(events: u32, trials: u32, rate: f64) -> f64 {
    if rate >= 1.0 {
        return if events == trials { 1.0 } else { 0.0 };
    }
    let mut logarithm = f64::from(trials) * (-rate).ln_1p();
    let mut sum = logarithm.exp();
    for event in 1..=events {
        logarithm += (f64::from(trials - event + 1) / f64::from(event)).ln() + rate.ln() - (-rate).ln_1p();
        sum += logarithm.exp();
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bets_on_both_sides_of_a_fair_coin_win_nothing_on_average() {
        for size in [1e-5, 0.01, 0.3, 700.0] {
            let wealth = |difference: f64| mean_of(Bets::above(0.0).with(&[difference]).parts.as_flattened()).exp();
            let mean = f64::midpoint(wealth(size), wealth(-size));
            assert!((mean - 1.0).abs() < 1e-12, "{size}: {mean}");
        }
    }

    #[test]
    fn the_fewest_differences_are_sure_and_one_fewer_is_not() {
        for rate in [0.5, 0.05, 0.01, 1e-9] {
            let fewest = fewest(rate);
            let sure = |count: usize| is_above(&vec![1.0; count], 0.0, &Odds::new(rate, count));
            assert!(sure(fewest) && !sure(fewest - 1), "{rate}");
        }
    }

    #[test]
    fn nothing_is_known_of_too_few_differences_and_no_interval_is_shorter_than_they_say() {
        assert_eq!(interval(&[], &Odds::new(0.01, 60)), Interval { low: f64::NEG_INFINITY, high: f64::INFINITY });
        assert_eq!(interval(&[0.1; 5], &Odds::new(0.01, 60)).low, f64::NEG_INFINITY);
        let known = interval(&[0.1; 30], &Odds::new(0.01, 60));
        assert!(known.low < 0.1 && known.low > 0.09, "{known:?}");
        assert!(known.high > 0.1 && known.high < 0.11, "{known:?}");
    }

    #[test]
    fn the_interval_and_the_two_answers_agree_before_the_last_difference_and_at_it() {
        let differences = [0.02, 0.05, -0.01, 0.04, 0.03, 0.06, 0.02, 0.05, 0.04, 0.01, 0.03, 0.05, 0.04, 0.02];
        let mut lengths = Vec::new();
        for last in [60, differences.len()] {
            let odds = Odds::new(0.05, last);
            let known = interval(&differences, &odds);
            assert!(is_above(&differences, known.low, &odds) && !is_above(&differences, known.low + 1e-9, &odds));
            assert!(is_below(&differences, known.high, &odds) && !is_below(&differences, known.high - 1e-9, &odds));
            lengths.push(known.high - known.low);
        }
        assert!(lengths[1] < lengths[0], "the last look sees more: {lengths:?}");
        assert_eq!(centre(&differences), 0.035);
    }

    #[test]
    fn equal_runs_are_equal_within_a_thousandth() {
        let known = interval(&[0.0; 20], &Odds::new(0.01, 60));
        assert!(known.low < 0.0 && known.low > -0.001 && known.high == -known.low, "{known:?}");
    }

    #[test]
    fn the_median_and_quartiles_are_between_the_values() {
        let values = [4.0, 1.0, 3.0, 2.0, 5.0];
        assert_eq!([0.25, 0.5, 0.75].map(|part| quantile(&values, part)), [Some(2.0), Some(3.0), Some(4.0)]);
        assert_eq!(centre(&[1.0, 2.0]), 1.5);
        assert_eq!((quantile(&[], 0.5), centre(&[])), (None, 0.0));
    }

    #[test]
    fn one_enormous_outlier_proves_nothing() {
        let mut differences = vec![0.0; 30];
        differences[3] = 50.0;
        assert!([30, 60].iter().all(|last| !is_above(&differences, 0.0, &Odds::new(0.5, *last))));
    }

    #[test]
    fn the_upper_bound_of_no_event_is_three_in_as_many_trials() {
        // 1 - 0.05^(1/n), and the tabled bound of 5 in 100.
        assert!((upper_bound(0, 1000) - 0.002_991).abs() < 1e-6);
        assert!((upper_bound(5, 100) - 0.1023).abs() < 1e-4);
        assert_eq!(upper_bound(3, 3), 1.0);
    }
}
