//! Measures how often the lab is wrong, and how often it finds a difference, in thousands of comparisons with
//! simulated noise.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on shall panic")]

use refdb_lab::{
    coin::Coin,
    compare::{self, Comparison, Referee, Rules, Verdict, Which, compare, outcome, pair},
    measure::{Measure, Sample},
    stats::upper_bound,
};
use refdb_testkit::rounds;

/// The disturbances of a run, as fractions of its cost.
#[derive(Clone, Copy)]
struct Noise {
    /// The standard deviation.
    usual: f64,
    /// The maximum by which one run in twenty is slower.
    outlier: f64,
    /// The amount by which each run is slower than the one before.
    drift: f64,
    /// The amount by which every other run is slower, regardless of its side.
    beat: f64,
}

const QUIET: Noise = Noise { usual: 0.02, outlier: 0.2, drift: 0.0, beat: 0.0 };
const LOADED: Noise = Noise { usual: 0.05, outlier: 2.0, drift: 0.002, beat: 0.05 };
/// The noise of counted instructions in repeated runs.
const COUNTED: Noise = Noise { usual: 0.001, outlier: 0.004, drift: 0.0, beat: 0.0 };

const RULES: Rules = Rules { rate: 0.01, tolerance: 0.01, pairs_max: 60, judge: Measure::Wall };

fn uniform(coin: &mut Coin) -> f64 {
    (coin.bits() >> 11) as f64 / (1_u64 << 53) as f64
}

impl Noise {
    fn factor(self, slot: usize, coin: &mut Coin) -> f64 {
        // The sum of twelve uniform numbers is a cheap and sufficient approximation of a normal one.
        let normal = (0..12).map(|_| uniform(coin)).sum::<f64>() - 6.0;
        let outlier = if uniform(coin) < 0.05 { self.outlier * uniform(coin) } else { 0.0 };
        let beat = if slot % 2 == 1 { self.beat } else { 0.0 };
        (self.usual * normal).exp() * (1.0 + outlier + beat + self.drift * slot as f64)
    }
}

/// Returns all runs of a comparison of two sides, of which B costs `ratio` times as much as A.
fn one(noise: Noise, ratio: f64, rules: &Rules, seed: u64) -> Comparison {
    let (mut coin, mut disturbance) = (Coin::new(seed), Coin::new(!seed));
    let mut slot = 0;
    let mut run = |which: Which| {
        slot += 1;
        let cost = if which == Which::A { 1.0 } else { ratio };
        let wall = cost * noise.factor(slot, &mut disturbance);
        Ok(Sample { wall, user: 0.0, system: 0.0, peak: 0, instructions: None, reported: None })
    };
    let mut referee = Referee::new(*rules);
    compare(rules.judge, &mut coin, |known| referee.is_settled(known), |coin| pair(coin, &mut run)).unwrap()
}

/// Returns how many of `trials` comparisons end with `verdict`.
fn count(noise: Noise, ratio: f64, rules: &Rules, trials: u32, verdict: Verdict) -> u32 {
    let odds = rules.odds();
    let found = |trial: u32| compare::verdict(&one(noise, ratio, rules, u64::from(trial)).differences, &odds);
    (0..trials).map(|trial| u32::from(found(trial) == verdict)).sum()
}

#[test]
fn of_equal_sides_no_more_are_told_apart_than_the_rate_allows() {
    for (name, noise) in [("quiet", QUIET), ("loaded", LOADED), ("counted", COUNTED)] {
        // `make test-long` runs enough comparisons for the upper bound to stay below the rate.
        let trials = u32::try_from(rounds(10_000, 40_000)).unwrap();
        let alarms = trials - count(noise, 1.0, &RULES, trials, Verdict::CannotTell);
        let bound = upper_bound(alarms, trials);
        println!("{name}: {alarms} false alarms in {trials}, at most {bound:.4}");
        assert!(
            alarms <= 110 || bound <= RULES.rate,
            "{name}: {alarms} false alarms in {trials}, perhaps {bound:.4} of all"
        );
    }
}

#[test]
fn the_rate_that_the_user_sets_is_kept_too_when_it_is_large() {
    let rules = Rules { rate: 0.1, ..RULES };
    let alarms = 4000 - count(LOADED, 1.0, &rules, 4000, Verdict::CannotTell);
    println!("{alarms} false alarms in 4000 at a rate of {}", rules.rate);
    assert!(upper_bound(alarms, 4000) <= rules.rate, "{alarms} false alarms in 4000");
}

#[test]
fn ten_percent_by_wall_time_are_found_within_sixty_runs_a_side() {
    for (name, noise, trials) in [("quiet", QUIET, 1000), ("loaded", LOADED, 1000)] {
        let missed = trials - count(noise, 1.1, &RULES, trials, Verdict::Worse);
        let bound = upper_bound(missed, trials);
        println!("{name}: {missed} of {trials} missed, at most {bound:.4}");
        assert!(bound <= 0.01, "{name}: {missed} of {trials} missed, perhaps {bound:.4} of all");
    }
}

#[test]
fn two_percent_by_instructions_are_found_in_both_directions() {
    for (ratio, verdict) in [(1.02, Verdict::Worse), (1.0 / 1.02, Verdict::Better)] {
        let missed = 1000 - count(COUNTED, ratio, &RULES, 1000, verdict);
        println!("{ratio}: {missed} of 1000 missed");
        assert!(upper_bound(missed, 1000) <= 0.01, "{ratio}: {missed} of 1000 missed");
    }
}

#[test]
fn the_interval_holds_the_ratio_though_its_end_was_chosen_by_looking() {
    let misses = |trial: &u64| {
        let known = outcome(&one(LOADED, 1.1, &RULES, 90_000 + trial), &RULES).interval;
        known.low > 1.1 || known.high < 1.1
    };
    let outside = (0..2000).filter(misses).count();
    println!("{outside} of 2000 intervals miss the ratio");
    let bound = upper_bound(u32::try_from(outside).unwrap(), 2000);
    assert!(bound <= RULES.rate, "{outside} of 2000 intervals miss the ratio");
}

#[test]
fn a_sure_difference_takes_few_runs_and_equal_counts_end_early() {
    let found = |ratio: f64| {
        let runs = one(COUNTED, ratio, &RULES, 5);
        (compare::verdict(&runs.differences, &RULES.odds()), runs.a.len())
    };
    let (verdict, runs) = found(1.1);
    assert!(verdict == Verdict::Worse && runs <= 13, "{verdict:?} after {runs} runs a side");
    let (verdict, runs) = found(1.0);
    assert!(verdict == Verdict::CannotTell && runs <= 20, "{verdict:?} after {runs} runs a side");
}
