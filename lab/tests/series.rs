//! Measures how often changes of a series are found, and how late, on samples of a real machine.
//! docs/benchmarking.md says how they were recorded.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on shall panic")]

use refdb_lab::{
    bisect::state::rate_of,
    coin::Coin,
    series::detector::{Change, Detector, Direction},
};
use refdb_testkit::rounds;

const SAMPLES: [(&str, &str); 5] = [
    ("quiet", include_str!("samples/quiet.txt")),
    ("busy", include_str!("samples/busy.txt")),
    ("loaded", include_str!("samples/loaded.txt")),
    ("together", include_str!("samples/together.txt")),
    ("counted", include_str!("samples/counted.txt")),
];

const RATE: f64 = 0.01;
const TOLERANCE: f64 = 0.01;
const COMMITS: usize = 200;
const PAIRS_MAX: usize = 60;

/// A machine whose runs were recorded.
struct Machine {
    pairs: Vec<[f64; 2]>,
    luck: Coin,
    next: usize,
}

impl Machine {
    fn new(text: &str, seed: u64) -> Machine {
        let runs: Vec<Vec<f64>> = text
            .lines()
            .filter(|line| !line.starts_with('#'))
            .map(|line| line.split(' ').map(|run| run.parse().unwrap()).collect())
            .collect();
        let pair = |two: &[Vec<f64>]| if two[0].len() == 2 { [two[0][0], two[0][1]] } else { [two[0][0], two[1][0]] };
        Machine { pairs: runs.windows(2).map(pair).collect(), luck: Coin::new(seed), next: 0 }
    }

    /// Returns the difference of a pair in which the commit costs `ratio` times what the anchor costs. The coin says
    /// which of the two runs is the commit's.
    fn difference(&mut self, ratio: f64) -> f64 {
        self.next += 2;
        let [one, other] = self.pairs[self.next % self.pairs.len()];
        let (anchor, commit) = if self.luck.toss() { (one, other) } else { (other, one) };
        (commit * ratio / anchor).ln()
    }

    /// Measures a commit with recorded pairs, of which the first is random.
    fn measure(&mut self, detector: &mut Detector, ratio: f64) -> Option<Change> {
        detector.enter();
        self.next = self.luck.bits() as usize % self.pairs.len();
        let mut pairs = 0;
        while !detector.is_enough(pairs, PAIRS_MAX) {
            detector.add(self.difference(ratio));
            pairs += 1;
        }
        detector.change()
    }
}

/// A change that was found: its direction, and the numbers of its first commit and of the one that made it certain.
type Found = (Direction, usize, usize);

/// Watches a series of commits with these costs. The commit that makes a change certain is the next anchor.
fn watch(machine: &mut Machine, costs: &[f64]) -> Vec<Found> {
    let (mut found, mut anchor, mut start) = (Vec::new(), costs[0], 0);
    let mut detector = Detector::new(rate_of(1, RATE), TOLERANCE);
    for (number, cost) in costs.iter().enumerate() {
        if let Some(change) = machine.measure(&mut detector, cost / anchor) {
            found.push((change.direction, start + change.first, number));
            detector = Detector::new(rate_of(u32::try_from(found.len()).unwrap() + 1, RATE), TOLERANCE);
            (anchor, start) = (*cost, number + 1);
        }
    }
    found
}

fn series() -> u64 {
    rounds(100, 1000) as u64
}

/// Returns costs with a factor at each of these commits, which later ones keep.
fn planted(steps: &[(usize, f64)]) -> Vec<f64> {
    let cost = |number: usize| steps.iter().filter(|(place, _)| *place <= number).map(|(_, ratio)| ratio).product();
    (0..COMMITS).map(cost).collect()
}

/// Returns the number of a commit that is not near the ends of a series.
fn place(seed: u64) -> usize {
    20 + Coin::new(!seed).bits() as usize % 150
}

#[test]
fn equal_commits_raise_no_alarm_in_ninety_nine_of_a_hundred_series() {
    for (name, text) in SAMPLES {
        let alarms = (0..series()).filter(|seed| !watch(&mut Machine::new(text, *seed), &[1.0; COMMITS]).is_empty());
        let alarms = alarms.count();
        println!("{name}: {alarms} of {} series without a change have a false alarm", series());
        assert!(alarms as u64 <= series() / 100, "{name}: {alarms} of {} series", series());
    }
}

#[test]
fn single_steps_are_found_within_three_commits() {
    for (name, text) in SAMPLES {
        let ratio = if name == "counted" { 1.03 } else { 1.1 };
        for (ratio, direction) in [(ratio, Direction::Worse), (1.0 / ratio, Direction::Better)] {
            let (mut delays, mut off) = (Vec::new(), 0);
            for seed in 0..series() {
                let place = place(seed);
                let found = watch(&mut Machine::new(text, seed), &planted(&[(place, ratio)]));
                let right = found.iter().find(|found| found.0 == direction && found.2 >= place);
                if let Some((_, first, certain)) = right {
                    delays.push(certain - place);
                    off += usize::from(first.abs_diff(place) > 5);
                }
            }
            delays.sort_unstable();
            let median = delays[delays.len() / 2];
            println!("{name}, {ratio:.3}: {} of {} found, median delay {median}", delays.len(), series());
            assert!(delays.len() as u64 * 100 >= series() * 99, "{name}, {ratio}: only {} found", delays.len());
            assert!(median <= 3, "{name}, {ratio}: the median delay is {median}");
            assert!(off as u64 * 50 <= series(), "{name}, {ratio}: {off} begin more than five commits away");
        }
    }
}

#[test]
fn ten_steps_that_are_too_small_each_are_found_together() {
    let (_, counted) = SAMPLES[4];
    for seed in 0..series() {
        let steps: Vec<(usize, f64)> = (1..=10).map(|number| (number * 15 + seed as usize % 30, 1.007)).collect();
        for step in &steps {
            let single = watch(&mut Machine::new(counted, seed), &planted(std::slice::from_ref(step)));
            assert_eq!(single, [], "one step of 0.7 % lies within the tolerance");
        }
        let found = watch(&mut Machine::new(counted, seed), &planted(&steps));
        assert!(found.len() >= 4, "1.007 to the power of ten is seven times the tolerance: {found:?}");
        assert!(found.iter().all(|found| found.0 == Direction::Worse), "{found:?}");
    }
}

#[test]
fn an_improvement_hides_no_regression_and_a_step_may_go_away() {
    for (name, text, ratio) in [("quiet", SAMPLES[0].1, 1.1), ("counted", SAMPLES[4].1, 1.03)] {
        for seed in 0..series() {
            for (one, other) in [(Direction::Worse, Direction::Better), (Direction::Better, Direction::Worse)] {
                let ratio: f64 = if one == Direction::Worse { ratio } else { 1.0 / ratio };
                let costs = planted(&[(80, ratio), (100, 1.0 / ratio)]);
                assert!((costs[COMMITS - 1] - costs[0]).abs() < 1e-9, "the ends of the series show nothing");
                let found = watch(&mut Machine::new(text, seed), &costs);
                let directions: Vec<Direction> = found.iter().map(|found| found.0).collect();
                assert_eq!(directions, [one, other], "{name}, {seed}: {found:?}");
            }
        }
    }
}
