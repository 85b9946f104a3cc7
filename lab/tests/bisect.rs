//! Tests `refdb-lab bisect` with many simulated histories, and with a real one and real processes.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on shall panic")]

mod common;

use std::fs;

use anyhow::Result;
use common::{Synthetic, numbered};
use refdb_lab::{
    bisect::{
        search::{Commits, Found, search},
        state::{Answer, End},
    },
    coin::Coin,
    compare::Rules,
    measure::{Measure, Sample},
};

const RULES: Rules = Rules { rate: 0.01, tolerance: 0.01, pairs_max: 200, judge: Measure::Wall };

/// A simulated line of commits, whose ids are their numbers.
struct Line {
    costs: Vec<f64>,
    broken: Vec<usize>,
    noise: f64,
    luck: Coin,
}

impl Line {
    /// Returns a history of random length in which all costs are equal.
    fn level(seed: u64, noise: f64) -> Line {
        let mut luck = Coin::new(seed);
        let length = 20 + luck.bits() as usize % 80;
        Line { costs: vec![100.0; length], broken: Vec::new(), noise, luck }
    }

    /// Returns the index of a random commit other than the good one.
    fn place(&mut self) -> usize {
        1 + self.luck.bits() as usize % (self.costs.len() - 1)
    }

    /// Multiplies the costs of a commit and all later ones.
    fn plant(&mut self, place: usize, ratio: f64) {
        self.costs[place..].iter_mut().for_each(|cost| *cost *= ratio);
    }

    fn find(&mut self, seed: u64) -> Result<Found> {
        let bad = (self.costs.len() - 1).to_string();
        search(self, "0", &bad, RULES, &mut Coin::new(seed))
    }
}

impl Commits for Line {
    fn suspects(&mut self, bad: &str, goods: &[String]) -> Result<Vec<String>> {
        Ok(numbered::suspects(bad, goods))
    }

    fn between(&mut self, bad: &str, goods: &[String]) -> Result<Vec<String>> {
        let mut suspects = numbered::suspects(bad, goods);
        suspects.sort_by_key(|commit| commit.parse::<usize>().unwrap());
        Ok(suspects)
    }

    fn parent(&mut self, commit: &str) -> Result<Option<String>> {
        Ok(Some(numbered::parent(commit)))
    }

    fn prepare(&mut self, commit: &str, _beside: &[&str]) -> Result<Result<(), String>> {
        let broken = self.broken.contains(&commit.parse().unwrap());
        Ok(if broken { Err("broken".to_owned()) } else { Ok(()) })
    }

    fn sample(&mut self, commit: &str) -> Result<Sample> {
        let unit = |bits: u64| (bits >> 11) as f64 / (1_u64 << 53) as f64;
        let normal = (0..12).map(|_| unit(self.luck.bits())).sum::<f64>() - 6.0;
        let wall = self.costs[commit.parse::<usize>().unwrap()] * (self.noise * normal).exp();
        Ok(Sample { wall, user: 0.0, system: 0.0, peak: 0, instructions: None, reported: None })
    }
}

/// The noise of wall time, and of counted instructions.
const WALL: f64 = 0.03;
const COUNTED: f64 = 0.001;

#[test]
fn ten_percent_by_wall_and_two_percent_by_instructions_are_found_in_twenty_histories_each() {
    for (ratio, noise) in [(1.1, WALL), (1.02, COUNTED), (0.9, WALL)] {
        for seed in 0..20 {
            let mut line = Line::level(seed, noise);
            let place = line.place();
            line.plant(place, ratio);
            let found = line.find(seed).unwrap();
            assert_eq!(found.end, End::First(place.to_string()), "{ratio}, history {seed}: {found:?}");
            assert!(!found.gradual, "{ratio}, history {seed}");
            let step = found.step.unwrap().interval;
            assert!(step.low <= ratio && ratio <= step.high, "{ratio}, history {seed}: {step:?}");
        }
    }
}

/// The share of the step in the whole difference may be certain before the step itself is.
#[test]
fn a_first_bad_commit_whose_share_is_certain_differs_certainly_from_its_parent() {
    for seed in 0..40 {
        let mut line = Line::level(seed, if seed % 2 == 0 { 0.0 } else { COUNTED });
        let place = line.place();
        line.plant(place, 1.1);
        let Ok(found) = line.find(seed) else { continue };
        let (true, Some(step)) = (found.most, found.step) else { continue };
        assert!(step.interval.low > 1.0 || step.interval.high < 1.0, "history {seed}: {found:?}");
    }
}

/// A commit changes the cost, and the next one takes a part of the change back.
#[test]
fn a_rest_that_changes_the_other_way_is_told() {
    for (improvement, slowdown) in [(0.864, 1.1), (1.2, 0.9)] {
        for seed in 0..10 {
            let mut line = Line::level(seed, COUNTED);
            line.costs.extend([100.0; 4]);
            let place = line.costs.len() - 3;
            line.plant(place, improvement);
            let found = line.find(seed).unwrap();
            assert_eq!((&found.end, found.rest), (&End::First(place.to_string()), None), "history {seed}");
            line.plant(place + 1, slowdown);
            let found = line.find(seed).unwrap();
            assert_eq!(found.end, End::First(place.to_string()), "history {seed}: {found:?}");
            let rest = found.rest.unwrap().interval;
            assert!(rest.low <= slowdown && slowdown <= rest.high, "history {seed}: {rest:?}");
        }
    }
}

#[test]
fn of_twenty_histories_with_nothing_but_noise_none_has_a_bad_commit() {
    for seed in 0..20 {
        let complaint = Line::level(seed, WALL).find(seed).unwrap_err().to_string();
        assert!(complaint.starts_with("good and bad cannot be told apart in 200 runs of each"), "{complaint}");
    }
}

#[test]
fn commits_that_do_not_build_are_passed_over_and_beside_the_bad_one_give_a_range() {
    for seed in 0..20 {
        let mut line = Line::level(seed, COUNTED);
        let place = line.place().clamp(4, line.costs.len() - 2);
        line.plant(place, 1.1);
        // Broken commits elsewhere only cost an attempt.
        line.broken =
            (1..line.costs.len() - 1).filter(|commit| commit % 7 == 0 && commit.abs_diff(place) > 1).collect();
        let found = line.find(seed).unwrap();
        assert_eq!(found.end, End::First(place.to_string()), "history {seed}: {found:?}");
        line.broken.extend([place - 2, place - 1]);
        let End::Range(mut range) = line.find(seed).unwrap().end else { panic!("history {seed} has no range") };
        range.sort_by_key(|commit| commit.parse::<usize>().unwrap());
        let (least, last) = (range[0].parse::<usize>().unwrap(), range.last().unwrap());
        assert!(least >= place - 3 && *last == place.to_string(), "history {seed}, {place}: {range:?}");
        assert!(range.contains(&(place - 1).to_string()), "history {seed}, {place}: {range:?}");
    }
}

#[test]
fn a_slowdown_in_many_small_steps_is_gradual() {
    for seed in 0..20 {
        let mut line = Line::level(seed, COUNTED);
        for place in 1..line.costs.len() {
            line.plant(place, 1.004);
        }
        let found = line.find(seed).unwrap();
        assert!(found.gradual, "history {seed}: {found:?}");
        assert!(found.judged.iter().all(|judged| !matches!(judged.answer, Answer::Skipped(_))));
    }
}

/// The slowdown is in a commit of a merged branch, and a commit of the other branch does not build.
#[test]
fn in_a_real_repository_the_commit_of_the_merged_branch_is_named() {
    let planted = Synthetic::new("cat \"$BUILD/cost\" >\"$COST\"", "judge = 'reported'");
    let good = planted.commit("cost", "1000");
    planted.commit("one", "");
    planted.git(&["checkout", "-q", "-b", "side"]);
    planted.commit("two", "");
    let slow = planted.commit("cost", "1100");
    planted.commit("three", "");
    planted.git(&["checkout", "-q", "main"]);
    let broken = planted.commit("broken", "");
    fs::remove_file(planted.repository().join("broken")).unwrap();
    planted.commit_all("mended");
    planted.git(&["merge", "-q", "--no-ff", "-m", "merge side", "side"]);
    planted.commit("four", "");
    let said = planted.said("bisect", &format!("{good},HEAD"), &[]);
    assert!(said.starts_with("bad takes 1.100 times ("), "{said}");
    assert!(said.contains(&format!("first bad commit: {slow} cost: 1100\n  it takes 1.100 times (")), "{said}");
    let (_, after) = said.split_once("99 % sure in all)\n").unwrap();
    assert!(after.starts_with("  instructions in user space (callgrind, "), "both do the same work: {said}");
    assert!(after.ends_with("  these are as many, so the difference is in the kernel, or in waiting\n"), "{said}");
    assert!(!said.contains(&format!("{broken} broken: : good")), "{said}");
    let back = planted.complaint("bisect", &format!("HEAD,{good}"), &[]);
    assert!(back.contains("is no ancestor of the bad one"), "{back}");
    let same = planted.complaint("bisect", &format!("{good},{good}"), &[]);
    assert!(same.starts_with("refdb-lab: good and bad are the same commit, "), "{same}");
    let ends = planted.complaint("bisect", &format!("{good},{broken}"), &[]);
    assert!(ends.starts_with(&format!("refdb-lab: {broken} cannot be judged: it does not build: no rule")), "{ends}");
}

/// Previously, the search failed in the end, and what it had found was lost.
#[test]
fn a_first_bad_commit_without_a_parent_is_named() {
    let planted = Synthetic::new("cat \"$BUILD/cost\" >\"$COST\"", "judge = 'reported'");
    let good = planted.commit("cost", "1000");
    planted.git(&["checkout", "-q", "--orphan", "other"]);
    let slow = planted.commit("cost", "1100");
    planted.git(&["merge", "-q", "-s", "ours", "--allow-unrelated-histories", "-m", "merge both", "main"]);
    let said = planted.said("bisect", &format!("{good},HEAD"), &[]);
    assert!(said.contains(&format!("first bad commit: {slow} ")), "{said}");
    assert!(said.contains("it has no parent with which it could be compared"), "{said}");
}

/// A C program with a function that became slower. If the build has symbols, the report names the function; otherwise,
/// it says that there are none.
#[test]
fn the_report_names_the_function_whose_share_grew() {
    let program = |rounds: u32| {
        format!(
            "static volatile unsigned sum;\n__attribute__((noinline)) static void hash_all(void) \
             {{ for (int i = 0; i < {rounds}; i++) sum += i; }}\n__attribute__((noinline)) static void read_all(void) \
             {{ for (int i = 0; i < 200000; i++) sum -= i; }}\nint main(void) {{ read_all(); hash_all(); return 0; }}\n"
        )
    };
    for (option, named) in [("-g", true), ("-s", false)] {
        let planted = Synthetic::new("\"$BUILD/program\"; cat \"$BUILD/cost\" >\"$COST\"", "judge = 'reported'");
        planted.build_more(&format!("gcc {option} -O1 -o \"$BUILD/program\" program.c\n"));
        fs::write(planted.repository().join("program.c"), program(100_000)).unwrap();
        let good = planted.commit("cost", "1000");
        fs::write(planted.repository().join("program.c"), program(300_000)).unwrap();
        let bad = planted.commit("cost", "1500");
        let said = planted.said("bisect", &format!("{good},{bad}"), &["--false-alarms", "0.5"]);
        assert!(said.contains(&format!("first bad commit: {bad} ")), "{said}");
        assert_eq!(said.contains("M in hash_all, "), named, "{said}");
        assert_eq!(said.contains("M in a function without a name in program, "), !named, "{said}");
        assert_eq!(said.contains("build the program with its symbols to see more"), !named, "{said}");
        assert!(!said.contains("read_all"), "it does what it did: {said}");
    }
}
