//! Predicts from pairs of runs of one and the same build how small an increase in cost (a step, as a fraction) a
//! comparison with this scenario can find. All functions are pure.

use crate::{
    coin::Coin,
    compare::{Referee, Rules, Verdict, verdict},
    measure::Measure,
    stats::centre,
};

/// The steps that are tried, as fractions.
pub const STEPS: [f64; 7] = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0];

/// The rules of `refdb-lab run` without options.
const RULES: Rules = Rules { rate: 0.01, tolerance: 0.01, pairs_max: 60, judge: Measure::Wall };

/// Number of simulated comparisons for each step.
const TRIALS: usize = 100;

/// Number of the simulated comparisons that must find a step.
const ENOUGH: usize = 95;

/// Whether a step can be found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// In 95 of 100 comparisons, with at most this number of runs of each side.
    In(usize),
    /// In fewer than 95 of 100 comparisons with at most 60 runs of each side.
    No,
}

/// Returns the fraction that bounds the difference between the two runs of a pair in half of the pairs.
pub fn spread(differences: &[f64]) -> f64 {
    centre(&differences.iter().map(|difference| difference.abs()).collect::<Vec<_>>()).exp_m1()
}

/// Returns in how many runs a step is found, if pairs differ as these equal ones did. Each simulated pair is one of
/// them, with a sign that a coin decides.
pub fn found(differences: &[f64], step: f64) -> Found {
    if differences.is_empty() {
        return Found::No;
    }
    let mut coin = Coin::new(1);
    let mut runs: Vec<usize> = (0..TRIALS).filter_map(|_| one(differences, step.ln_1p(), &mut coin)).collect();
    runs.sort_unstable();
    runs.get(ENOUGH - 1).map_or(Found::No, |runs| Found::In(*runs))
}

/// Returns the number of pairs of one simulated comparison, if it finds the step.
fn one(differences: &[f64], step: f64, coin: &mut Coin) -> Option<usize> {
    let (mut referee, mut known) = (Referee::new(RULES), Vec::new());
    while !referee.is_settled(&known) {
        let noise = differences[coin.bits() as usize % differences.len()];
        known.push(step + if coin.toss() { noise } else { -noise });
    }
    (verdict(&known, &RULES.odds()) == Verdict::Worse).then_some(known.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steady_runs_find_small_steps_in_few_runs_and_unsteady_ones_find_only_large_steps() {
        let noise = |size: f64| -> Vec<f64> { (0..20).map(|number| size * f64::from(number - 10) / 10.0).collect() };
        let steady = STEPS.map(|step| found(&noise(0.001), step));
        assert!(steady.iter().all(|found| matches!(found, Found::In(runs) if *runs <= 20)), "{steady:?}");
        let unsteady = STEPS.map(|step| found(&noise(0.3), step));
        assert_eq!(unsteady[..2], [Found::No, Found::No], "{unsteady:?}");
        assert!(matches!(unsteady[6], Found::In(_)), "{unsteady:?}");
        assert!(unsteady.is_sorted_by_key(|found| if let Found::In(runs) = found { 60 - runs } else { 0 }));
    }

    #[test]
    fn the_spread_is_the_usual_difference_of_a_pair() {
        assert!((spread(&[0.01, -0.02, 0.03]) - 0.0202).abs() < 1e-4);
        assert_eq!((spread(&[]), found(&[], 1.0)), (0.0, Found::No));
    }
}
