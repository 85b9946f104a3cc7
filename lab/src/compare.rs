//! Runs two sides until the answer is certain. They run in pairs, in random order, and each pair gives one log ratio.
//! docs/decisions/0080-the-lab-bets.md says why the order is random, and why that makes the answer exact.

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
    /// The side that the other is compared with.
    A,
    /// The side that is judged.
    B,
}

/// How sure is sure, and when to give up.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rules {
    /// At most this part of comparisons of equal sides may end with a verdict.
    pub rate: f64,
    /// Sides that differ by less than this part are equal enough to stop.
    pub tolerance: f64,
    /// Pairs after which one cannot tell.
    pub pairs_max: usize,
    /// The value that decides.
    pub judge: Measure,
}

impl Rules {
    /// How often verdicts by these rules may be wrong.
    pub fn odds(&self) -> Odds {
        Odds::new(self.rate, self.pairs_max)
    }
}

/// What a comparison ends with, seen from B.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// B costs less.
    Better,
    /// B costs more.
    Worse,
    /// No difference is sure.
    CannotTell,
}

/// All that was measured of two sides.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Comparison {
    /// The runs of A, in their order.
    pub a: Vec<Sample>,
    /// The runs of B.
    pub b: Vec<Sample>,
    /// The logarithm of B's value over A's, of each pair.
    pub differences: Vec<f64>,
}

/// The knowledge after the last pair.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Outcome {
    /// Better, worse, or neither.
    pub verdict: Verdict,
    /// B's cost over A's: the median of the pairs.
    pub ratio: f64,
    /// Where that ratio lies, but for the rate of false alarms.
    pub interval: Interval,
    /// Whether both sides are known to be equal within the tolerance.
    pub equal: bool,
}

/// Which side is dearer, as far as `differences` show.
pub fn verdict(differences: &[f64], odds: &Odds) -> Verdict {
    if stats::is_above(differences, 0.0, odds) {
        Verdict::Worse
    } else if stats::is_below(differences, 0.0, odds) {
        Verdict::Better
    } else {
        Verdict::CannotTell
    }
}

/// Whether B is known to cost neither more nor less than A by the tolerance.
fn is_equal(differences: &[f64], rules: &Rules, odds: &Odds) -> bool {
    let margin = rules.tolerance.ln_1p();
    stats::is_below(differences, margin, odds) && stats::is_above(differences, -margin, odds)
}

/// Says when more runs would change nothing, or are too many.
#[derive(Debug)]
pub struct Referee {
    pairs_max: usize,
    odds: Odds,
    seen: usize,
    worse: Bets,
    better: Bets,
    /// That B costs more than A less the tolerance, and less than A and the tolerance.
    equal: [Bets; 2],
}

impl Referee {
    /// A referee who goes by `rules`.
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

    /// Looks at the differences that came since it was asked last.
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

/// What the runs of `comparison` say.
pub fn outcome(comparison: &Comparison, rules: &Rules) -> Outcome {
    let (differences, odds) = (&comparison.differences, rules.odds());
    Outcome {
        verdict: verdict(differences, &odds),
        ratio: stats::centre(differences).exp(),
        interval: stats::interval(differences, &odds).of_ratio(),
        equal: is_equal(differences, rules, &odds),
    }
}

/// The side that the coin lets begin.
pub fn first(coin: &mut Coin) -> Which {
    if coin.toss() { Which::B } else { Which::A }
}

/// One run of each side, one after the other, in the order that the coin gives.
pub fn pair<T>(coin: &mut Coin, mut run: impl FnMut(Which) -> Result<T>) -> Result<[T; 2]> {
    match first(coin) {
        Which::A => Ok([run(Which::A)?, run(Which::B)?]),
        Which::B => {
            let b = run(Which::B)?;
            Ok([run(Which::A)?, b])
        }
    }
}

/// Runs pairs until `settled` says that they suffice. `both` runs one of each side, and asks the coin who is first.
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
