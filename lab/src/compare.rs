//! Runs two sides until the answer is certain, or the permitted number of pairs has run. They run in pairs, in random
//! order, and each pair gives one log ratio. docs/decisions/0080-the-lab-bets.md explains why the order is random, and
//! why that makes the answer exact.

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::{
    coin::Coin,
    measure::{Measure, Sample},
    stats::{self, Bets, Interval, Odds},
};

/// One of the two sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Which {
    /// The side with which the other is compared.
    A,
    /// The side that is judged.
    B,
}

/// How certain a verdict must be, and when to give up.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rules {
    /// The maximum fraction of comparisons of equal sides that end with the verdict better or worse.
    pub rate: f64,
    /// The difference, as a fraction, below which both sides are taken as equal and the comparison ends.
    pub tolerance: f64,
    /// The number of pairs after which the comparison ends, even without a verdict.
    pub pairs_max: usize,
    /// The measure that decides.
    pub judge: Measure,
}

impl Rules {
    /// Returns the odds of these rules: how often verdicts may be wrong.
    pub fn odds(&self) -> Odds {
        Odds::new(self.rate, self.pairs_max)
    }
}

/// The verdict of a comparison, from the point of view of B.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// B costs less.
    Better,
    /// B costs more.
    Worse,
    /// No difference is certain.
    CannotTell,
}

/// All measurements of two sides.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Comparison {
    /// The runs of A, in order.
    pub a: Vec<Sample>,
    /// The runs of B, in order.
    pub b: Vec<Sample>,
    /// The logarithm of B's value divided by A's, for each pair.
    pub differences: Vec<f64>,
}

/// The result of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Outcome {
    /// Better, worse, or neither.
    pub verdict: Verdict,
    /// B's cost divided by A's: the median of the pairs.
    pub ratio: f64,
    /// The confidence interval of the ratio, at the rate of false alarms.
    pub interval: Interval,
    /// Whether both sides are known to be equal within the tolerance.
    pub equal: bool,
}

/// Returns the verdict on B according to the differences of all pairs.
pub fn verdict(differences: &[f64], odds: &Odds) -> Verdict {
    if stats::is_above(differences, 0.0, odds) {
        Verdict::Worse
    } else if stats::is_below(differences, 0.0, odds) {
        Verdict::Better
    } else {
        Verdict::CannotTell
    }
}

/// Returns whether B is known to cost neither more nor less than A by the tolerance or more.
fn is_equal(differences: &[f64], rules: &Rules, odds: &Odds) -> bool {
    let margin = rules.tolerance.ln_1p();
    stats::is_below(differences, margin, odds) && stats::is_above(differences, -margin, odds)
}

/// Decides when to stop a comparison: when one side certainly costs more, when both certainly cost the same within the
/// tolerance, or when the maximum number of pairs is reached.
#[derive(Debug)]
pub struct Referee {
    pairs_max: usize,
    odds: Odds,
    seen: usize,
    worse: Bets,
    better: Bets,
    /// The bets that B costs more than A minus the tolerance, and less than A plus the tolerance.
    equal: [Bets; 2],
}

impl Referee {
    /// Creates a referee with these rules.
    pub fn new(rules: Rules) -> Referee {
        let margin = rules.tolerance.ln_1p();
        Referee {
            pairs_max: rules.pairs_max,
            odds: rules.odds(),
            seen: 0,
            worse: Bets::above(0.0),
            better: Bets::below(0.0),
            equal: [Bets::above(-margin), Bets::below(margin)],
        }
    }

    /// Receives the differences of all pairs so far, and considers those that are new since the last call. Returns
    /// whether to stop.
    pub fn is_settled(&mut self, differences: &[f64]) -> bool {
        let [low, high] = &mut self.equal;
        for difference in &differences[self.seen..] {
            for bets in [&mut self.worse, &mut self.better, &mut *low, &mut *high] {
                bets.add(*difference);
            }
        }
        self.seen = differences.len();
        let won = |bets: &Bets| bets.are_won(&self.odds);
        self.seen >= self.pairs_max || won(&self.worse) || won(&self.better) || self.equal.iter().all(won)
    }
}

/// Returns the result of the runs of `comparison`.
pub fn outcome(comparison: &Comparison, rules: &Rules) -> Outcome {
    let (differences, odds) = (&comparison.differences, rules.odds());
    Outcome {
        verdict: verdict(differences, &odds),
        ratio: stats::centre(differences).exp(),
        interval: stats::interval(differences, &odds).of_ratio(),
        equal: is_equal(differences, rules, &odds),
    }
}

/// Returns the side that runs first, as the coin decides.
pub fn first(coin: &mut Coin) -> Which {
    if coin.toss() { Which::B } else { Which::A }
}

/// Runs each side once, one after the other, in the order that the coin decides.
pub fn pair<T>(coin: &mut Coin, mut run: impl FnMut(Which) -> Result<T>) -> Result<[T; 2]> {
    match first(coin) {
        Which::A => Ok([run(Which::A)?, run(Which::B)?]),
        Which::B => {
            let b = run(Which::B)?;
            Ok([run(Which::A)?, b])
        }
    }
}

/// Runs pairs until `settled` returns `true`. `both` runs each side once, starting with the one that the coin decides.
pub fn compare(
    judge: Measure,
    coin: &mut Coin,
    mut settled: impl FnMut(&[f64]) -> bool,
    mut both: impl FnMut(&mut Coin) -> Result<[Sample; 2]>,
) -> Result<Comparison> {
    let mut comparison = Comparison::default();
    while !settled(&comparison.differences) {
        let [a, b] = both(coin)?;
        comparison.differences.push(b.deciding(judge)?.ln() - a.deciding(judge)?.ln());
        comparison.a.push(a);
        comparison.b.push(b);
        debug_assert_eq!(comparison.a.len(), comparison.differences.len(), "a pair has a run of each side");
    }
    Ok(comparison)
}
