//! Searches on machines whose load changes in the middle, replayed from recorded runs, and once with a real load.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on shall panic")]

mod common;

use std::{
    path::PathBuf,
    process::{Child, Command},
    thread::{self, sleep},
    time::{Duration, Instant},
};

use anyhow::Result;
use common::{
    Synthetic,
    history::{Files, make},
    numbered,
};
use refdb_lab::{
    bisect::{
        search::{Commits, Found, search},
        state::End,
    },
    coin::Coin,
    compare::Rules,
    measure::{Measure, Sample},
    stats::upper_bound,
};
use refdb_testkit::rounds;

/// The microseconds of consecutive runs of one command, on a machine that does nothing else and on one that does much.
const QUIET: &str = include_str!("samples/quiet.txt");
const LOADED: &str = include_str!("samples/loaded.txt");

const RULES: Rules = Rules { rate: 0.01, tolerance: 0.01, pairs_max: 60, judge: Measure::Wall };

/// A line of commits on a machine whose load comes and goes.
struct Replayed {
    /// The commit with the planted step.
    place: usize,
    /// The logarithm of the step on the quiet machine. Under load it is `shrinks` times as large. A factor below 1 is
    /// what a load causes that adds the same time to the commits before and after the step.
    step: f64,
    shrinks: f64,
    /// The runs during which the machine is loaded: from, to.
    load: [usize; 2],
    runs: usize,
    recorded: [Vec<f64>; 2],
    start: usize,
}

const COMMITS: usize = 64;

impl Replayed {
    fn new(seed: u64, shrinks: f64) -> Replayed {
        let mut luck = Coin::new(seed);
        let mut below = |limit: usize| luck.bits() as usize % limit;
        let recorded = [QUIET, LOADED]
            .map(|text| text.lines().filter(|line| !line.starts_with('#')).map(|line| line.parse().unwrap()).collect());
        let (place, from, start) = (1 + below(COMMITS - 1), below(200), below(1000));
        // In every second case, the load is there at first and goes.
        let load = if seed.is_multiple_of(2) { [from, usize::MAX] } else { [0, from] };
        Replayed { place, step: 4_f64.ln(), shrinks, load, runs: 0, recorded, start }
    }

    fn find(&mut self, seed: u64) -> Result<Found> {
        search(self, "0", &(COMMITS - 1).to_string(), RULES, &mut Coin::new(seed))
    }
}

impl Commits for Replayed {
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

    fn prepare(&mut self, _commit: &str, _beside: &[&str]) -> Result<Result<(), String>> {
        Ok(Ok(()))
    }

    fn sample(&mut self, commit: &str) -> Result<Sample> {
        let is_loaded = (self.load[0]..self.load[1]).contains(&self.runs);
        let recorded = &self.recorded[usize::from(is_loaded)];
        let alone = recorded[(self.start + self.runs) % recorded.len()];
        self.runs += 1;
        let step = if commit.parse::<usize>().unwrap() < self.place { 0.0 } else { self.step };
        let wall = alone * (step * if is_loaded { self.shrinks } else { 1.0 }).exp();
        Ok(Sample { wall, user: 0.0, system: 0.0, peak: 0, instructions: None, reported: None })
    }
}

/// Returns whether a search contradicts the planted step, and whether it names the commit.
fn judged(found: &Found, place: usize) -> (bool, bool) {
    let place = place.to_string();
    match &found.end {
        End::First(first) => (*first != place || found.gradual, *first == place),
        End::Range(range) => (!range.contains(&place), false),
        End::Gradual(_) => (true, false),
    }
}

#[test]
fn a_load_that_comes_or_goes_during_a_search_never_makes_it_sure_of_something_false() {
    for shrinks in [1.0, 0.45, 0.3, 1.8] {
        let searches = u32::try_from(rounds(400, 1000)).unwrap();
        let (mut wrong, mut named, mut noticed) = (0, 0, 0);
        for seed in 0..u64::from(searches) {
            let mut machine = Replayed::new(seed, shrinks);
            let found = machine.find(seed).unwrap();
            let (is_wrong, is_named) = judged(&found, machine.place);
            wrong += u32::from(is_wrong);
            named += u32::from(is_named);
            noticed += u32::from(found.watch.drift().is_some());
        }
        println!("a step that is {shrinks} times as large under load: {wrong} of {searches} wrong, {named} named");
        println!("  {noticed} noticed that the machine changed");
        let bound = upper_bound(wrong, searches);
        assert!(wrong <= 4 || bound <= RULES.rate, "{shrinks}: {wrong} of {searches} wrong, perhaps {bound:.4}");
        assert!(named * 100 >= searches * 95, "{shrinks}: {named} of {searches} named");
        assert!(noticed * 2 >= searches, "{shrinks}: {noticed} of {searches} noticed the load");
    }
}

/// The machine is quiet at first, then loaded for some time, and then quiet again.
#[test]
fn a_load_that_comes_and_goes_all_the_time_is_no_gradual_slowdown() {
    for seed in 0..100 {
        let mut machine = Replayed::new(seed, 0.4);
        machine.load = [20 + seed as usize % 40, 150 + seed as usize];
        let found = machine.find(seed).unwrap();
        let (is_wrong, _) = judged(&found, machine.place);
        assert!(!is_wrong, "{seed}, {}: {found:?}", machine.place);
    }
}

/// Programs that compute until they are dropped.
struct Load(Vec<Child>);

impl Load {
    fn start(count: usize) -> Load {
        let burn = || Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        Load((0..count).map(|_| burn()).collect())
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        for child in &mut self.0 {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}

/// Starts a load once `file` exists, and ends it when the returned function is called, or after four minutes. That
/// function returns whether the load had started.
fn loaded_from(file: PathBuf) -> impl FnOnce() -> bool {
    let over = file.with_extension("over");
    let seen = over.clone();
    let waiting = thread::spawn(move || {
        let (start, mut load) = (Instant::now(), None);
        while !seen.exists() && start.elapsed() < Duration::from_secs(240) {
            if load.is_none() && file.exists() {
                load = Some(Load::start(6));
            }
            sleep(Duration::from_millis(20));
        }
        load.is_some()
    });
    move || {
        std::fs::write(over, "").unwrap();
        waiting.join().unwrap()
    }
}

/// From one commit on, a program that computes also waits. Other programs that compute start when the first commit
/// between the ends is built. They delay the computing and not the waiting, so that the ratio falls.
#[test]
fn a_real_load_that_starts_in_the_middle_ends_with_no_false_answer() {
    if rounds(0, 1) == 0 {
        return;
    }
    let planted = Synthetic::new("sh \"$BUILD/program\"", "");
    let luck = planted.folder_of_luck();
    let history = make(&planted, 5, None, |is_changed| {
        let compute = "i=0; while test $i -lt 20000; do i=$((i + 1)); done\n";
        let wait = if is_changed { "sleep 0.1\n" } else { "" };
        Files::from([("program", format!("{compute}{wait}"))])
    });
    // The ends are the first two builds.
    let built = luck.display().to_string();
    planted
        .build_more(&format!("echo x >>'{built}/count'; test $(wc -l <'{built}/count') -lt 3 || : >'{built}/third'\n"));
    let end = loaded_from(luck.join("third"));
    let said = planted.said("bisect", &format!("{},{}", history.good, history.bad), &["--runs-max", "30"]);
    assert!(end(), "the load started");
    println!("{said}");
    assert!(!said.contains("gradual"), "{}: {said}", history.planted);
    let named = said.contains(&format!("first bad commit: {} ", history.planted));
    let range = said.split_once("the first bad commit is one of these ");
    assert!(named || range.is_some_and(|(_, range)| range.contains(&history.planted)), "{}: {said}", history.planted);
}
