//! Measures how often the lab is wrong on samples of a real machine, and how often it finds a planted difference.
//! `tests/samples/` contains consecutive runs of one command; docs/benchmarking.md says how they were recorded.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on shall panic")]

use refdb_lab::{
    coin::Coin,
    compare::{Comparison, Referee, Rules, Verdict, Which, compare, pair, verdict},
    measure::{Measure, Sample},
    stats::upper_bound,
};
use refdb_testkit::rounds;

/// The microseconds of each run, in chronological order.
const QUIET: &str = include_str!("samples/quiet.txt");
const BUSY: &str = include_str!("samples/busy.txt");
const LOADED: &str = include_str!("samples/loaded.txt");
/// Two simultaneous runs in each line.
const TOGETHER: &str = include_str!("samples/together.txt");
/// The instructions of each run in user space.
const COUNTED: &str = include_str!("samples/counted.txt");

const RULES: Rules = Rules { rate: 0.01, tolerance: 0.01, pairs_max: 60, judge: Measure::Wall };

/// Returns the numbers in a file of samples. Lines that begin with `#` are comments.
fn numbers(text: &str) -> Vec<f64> {
    text.lines().filter(|line| !line.starts_with('#')).map(|line| line.parse().unwrap()).collect()
}

/// Returns a comparison of consecutive pairs of real runs. The coin assigns one run of each pair to B, which costs
/// `ratio` times as much.
fn one(pairs: &[[f64; 2]], ratio: f64, pairs_max: usize, seed: u64) -> Comparison {
    let mut coin = Coin::new(seed);
    let mut slot = Coin::new(!seed).bits() as usize % pairs.len();
    let both = |coin: &mut Coin| {
        slot += 1;
        let mut runs = pairs[slot % pairs.len()].into_iter();
        pair(coin, |which| {
            let wall = runs.next().unwrap() * if which == Which::A { 1.0 } else { ratio };
            Ok(Sample { wall, user: 0.0, system: 0.0, peak: 0, instructions: None, reported: None })
        })
    };
    let mut referee = Referee::new(Rules { pairs_max, ..RULES });
    compare(RULES.judge, &mut coin, |known| referee.is_settled(known), both).unwrap()
}

/// Returns the pairs of a file of samples: both runs of each line, or two consecutive runs.
fn pairs(text: &str) -> Vec<[f64; 2]> {
    let together = |line: &str| {
        let (a, b) = line.split_once(' ')?;
        Some([a.parse().unwrap(), b.parse().unwrap()])
    };
    let lines = || text.lines().filter(|line| !line.starts_with('#'));
    match lines().map(together).collect() {
        Some(pairs) => pairs,
        None => {
            let runs = numbers(text);
            // Pairs that begin at the first run, and those that begin at the second.
            let each = runs.chunks_exact(2).chain(runs[1..].chunks_exact(2));
            each.map(|both| [both[0], both[1]]).collect()
        }
    }
}

/// Returns how many of `trials` comparisons do not end with `wanted`, and the upper bound of that rate.
fn others(text: &str, ratio: f64, pairs_max: usize, trials: u32, wanted: Verdict) -> (u32, f64) {
    let pairs = pairs(text);
    let odds = Rules { pairs_max, ..RULES }.odds();
    let differs = |trial: u32| verdict(&one(&pairs, ratio, pairs_max, trial.into()).differences, &odds) != wanted;
    let count = (0..trials).map(|trial| u32::from(differs(trial))).sum();
    (count, upper_bound(count, trials))
}

/// Returns the number of comparisons. `make test` replays fewer, so that chance may exceed the rate a little; `make
/// test-long` replays enough for the upper bound to stay below it.
fn trials() -> u32 {
    u32::try_from(rounds(10_000, 40_000)).unwrap()
}

#[test]
fn equal_sides_are_seldom_told_apart_on_any_machine() {
    let machines = [("quiet", QUIET), ("busy", BUSY), ("loaded", LOADED), ("together", TOGETHER), ("counted", COUNTED)];
    for (name, samples) in machines {
        let trials = trials();
        let (alarms, bound) = others(samples, 1.0, 60, trials, Verdict::CannotTell);
        println!("{name}: {alarms} false alarms in {trials}, at most {bound:.4}");
        assert!(
            alarms <= 110 || bound <= RULES.rate,
            "{name}: {alarms} false alarms in {trials}, perhaps {bound:.4} of all"
        );
    }
}

#[test]
fn ten_percent_by_wall_and_two_by_instructions_are_found() {
    let machines =
        [("quiet", QUIET, 1.1), ("busy", BUSY, 1.1), ("together", TOGETHER, 1.1), ("counted", COUNTED, 1.02)];
    for (name, samples, ratio) in machines {
        let trials = trials() / 4;
        let (missed, bound) = others(samples, ratio, 60, trials, Verdict::Worse);
        println!("{name}: {missed} of {trials} missed at {ratio}, at most {bound:.4}");
        assert!(missed <= 25 || bound <= 0.01, "{name}: {missed} of {trials} missed, perhaps {bound:.4} of all");
    }
}

/// Beside much other work, sixty runs of each side in turn are sometimes too few to detect ten per cent. The lab then
/// reports that it cannot tell, and never the opposite. More runs detect it, and so do simultaneous runs.
#[test]
fn beside_much_other_work_ten_percent_take_more_runs_in_turn() {
    let (missed, bound) = others(LOADED, 1.1, 60, 1000, Verdict::Worse);
    println!("{missed} of 1000 missed at 1.1 in 60 runs a side, at most {bound:.4}");
    let (not_better, _) = others(LOADED, 1.1, 60, 1000, Verdict::Better);
    assert_eq!(not_better, 1000, "slower is never better");
    let (missed, bound) = others(LOADED, 1.1, 120, 1000, Verdict::Worse);
    println!("{missed} of 1000 missed at 1.1 in 120 runs a side, at most {bound:.4}");
    assert!(bound <= 0.01, "{missed} of 1000 missed, perhaps {bound:.4} of all");
}
