//! Measures in rounds of two pairs, so that all commits on which a verdict depends run in turn, during the same time. A
//! machine that changes between two verdicts, or during one, then changes all of them alike.

use anyhow::Result;

use crate::{
    coin::Coin,
    measure::{Measure, Sample},
    stats::{self, Interval, Odds, interval},
};

/// The difference between the costs of two commits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// The cost of the second commit divided by that of the first: the median of all pairs.
    pub ratio: f64,
    /// The confidence interval of the ratio.
    pub interval: Interval,
}

/// The logarithms of the ratios of two pairs, measured in turn. The pairs of one round have the same index.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rounds {
    /// For each round, the logarithm of the cost of the first pair's second commit divided by that of its first commit.
    pub first: Vec<f64>,
    /// For each round, the logarithm of the cost of the second pair's second commit divided by that of its first
    /// commit.
    pub second: Vec<f64>,
}

impl Rounds {
    /// Returns a combination of both pairs of each round. If the runs of each pair are exchangeable, then so are a
    /// combination and its opposite, and the tests of [`stats`] hold for it.
    pub fn combined(&self, of_first: f64, of_second: f64) -> Vec<f64> {
        self.first.iter().zip(&self.second).map(|(first, second)| of_first * first + of_second * second).collect()
    }

    /// Returns the rounds with all differences multiplied by `direction`, which is 1 or -1.
    pub fn mirrored(&self, direction: f64) -> Rounds {
        Rounds { first: stats::mirrored(&self.first, direction), second: stats::mirrored(&self.second, direction) }
    }

    /// Runs rounds until `settled` returns `true`, or for `most` rounds. The coin decides which pair of a round runs
    /// first. `both` runs the two commits of the pair with the number 0 or 1, starting with the one that the coin
    /// decides, and `seen` receives their samples.
    pub fn run(
        coin: &mut Coin,
        (judge, most): (Measure, usize),
        settled: impl Fn(&Rounds) -> bool,
        mut both: impl FnMut(usize, &mut Coin) -> Result<[Sample; 2]>,
        mut seen: impl FnMut(usize, &[Sample; 2]),
    ) -> Result<Rounds> {
        let mut rounds = Rounds::default();
        while rounds.first.len() < most && !settled(&rounds) {
            let order = if coin.toss() { [1, 0] } else { [0, 1] };
            for number in order {
                let samples = both(number, coin)?;
                let difference = samples[1].deciding(judge)?.ln() - samples[0].deciding(judge)?.ln();
                if number == 0 { &mut rounds.first } else { &mut rounds.second }.push(difference);
                seen(number, &samples);
            }
        }
        Ok(rounds)
    }
}

/// Watches the machine during a search, and remembers how much it changed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Watch {
    /// The costs of the good commit while the two ends of the search, the good and the bad commit, were compared.
    costs: Vec<f64>,
    /// The difference between the good and the bad commit at the beginning of the search.
    whole: Option<Step>,
    /// The quartiles of the good commit's costs in the later verdict in which the median was lowest.
    least: Option<[f64; 3]>,
    /// The quartiles of the good commit's costs in the later verdict in which the median was highest.
    most: Option<[f64; 3]>,
    /// The difference between the ends at a later time, if it is certainly another one.
    other: Option<Step>,
}

impl Watch {
    /// Begins with the first comparison: the costs of the good commit, and the difference to the bad one.
    pub fn new(costs: Vec<f64>, whole: Step) -> Watch {
        Watch { costs, whole: Some(whole), ..Watch::default() }
    }

    /// Considers the costs of the good commit during another verdict, and the differences between the ends.
    pub fn look(&mut self, costs: &[f64], ends: &[f64], odds: &Odds) {
        if let Some(now) = quartiles(costs) {
            self.least = Some(self.least.filter(|least| least[1] <= now[1]).unwrap_or(now));
            self.most = Some(self.most.filter(|most| most[1] >= now[1]).unwrap_or(now));
        }
        let Some(whole) = self.whole else { return };
        let known = interval(ends, odds).of_ratio();
        if known.high < whole.interval.low || known.low > whole.interval.high {
            self.other = Some(Step { ratio: stats::centre(ends).exp(), interval: known });
        }
    }

    /// Returns by how many times the cost of the good commit changed during the search, if that is more than chance
    /// explains: the middle halves of its runs do not overlap, and the medians differ by more than a tenth.
    pub fn drift(&self) -> Option<f64> {
        let before = quartiles(&self.costs)?;
        let apart = |low: [f64; 3], high: [f64; 3]| low[2] < high[0] && low[1] * 1.1 < high[1];
        let rose = self.most.filter(|most| apart(before, *most)).map(|most| most[1] / before[1]);
        let fell = self.least.filter(|least| apart(*least, before)).map(|least| least[1] / before[1]);
        [rose, fell].into_iter().flatten().max_by(|a, b| a.ln().abs().total_cmp(&b.ln().abs()))
    }

    /// Returns the difference between good and bad at a later time, if it is certainly not the one at the beginning.
    pub fn other(&self) -> Option<Step> {
        self.other
    }
}

fn quartiles(costs: &[f64]) -> Option<[f64; 3]> {
    let part = |part: f64| stats::quantile(costs, part);
    Some([part(0.25)?, part(0.5)?, part(0.75)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watch() -> Watch {
        let whole = Step { ratio: 4.0, interval: Interval { low: 3.6, high: 4.5 } };
        Watch::new(vec![1.0, 1.02, 0.98, 1.01], whole)
    }

    #[test]
    fn a_machine_that_stays_as_it_was_has_not_drifted() {
        let mut watch = watch();
        watch.look(&[1.05, 1.0, 0.97, 1.01], &[4.0_f64.ln(); 30], &Odds::new(0.01, 60));
        assert_eq!((watch.drift(), watch.other()), (None, None));
    }

    #[test]
    fn a_load_that_comes_or_goes_and_another_difference_between_the_ends_are_noticed() {
        let odds = Odds::new(0.01, 60);
        for factor in [1.6, 0.5] {
            let mut watch = watch();
            watch.look(&[1.0, 1.01], &[4.0_f64.ln(); 30], &odds);
            watch.look(&[factor, factor * 1.02], &[1.8_f64.ln(); 30], &odds);
            watch.look(&[1.0, 1.01], &[4.0_f64.ln(); 30], &odds);
            assert!((watch.drift().unwrap() / factor - 1.01).abs() < 0.02, "{:?}", watch.drift());
            assert!((watch.other().unwrap().ratio - 1.8).abs() < 1e-9);
        }
    }

    #[test]
    fn pairs_are_combined_round_by_round() {
        let rounds = Rounds { first: vec![1.0, 2.0], second: vec![10.0, 20.0] };
        assert_eq!(rounds.combined(1.0, -0.5), [-4.0, -8.0]);
    }
}
