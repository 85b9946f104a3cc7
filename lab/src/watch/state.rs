//! Derives from the records of a series, with pure functions, where its watch stands.

use std::collections::{BTreeSet, HashMap};

use anyhow::{Result, bail};

use super::record::{Alarm, Half, Point, Record, Start};
use crate::{
    bisect::state::rate_of,
    measure::Measure,
    series::{detector::Detector, levels::Step},
};

/// Maximum number of commits that a machine measures again when it takes over from another one.
const AGAIN: usize = 3;

/// A commit that was measured beside the current anchor, on this machine, since the present bets began.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// The id of the commit.
    pub commit: String,
    /// The logarithms of the ratios to the anchor, one for each pair.
    pub differences: Vec<f64>,
}

/// Where a watch stands.
#[derive(Debug, Clone)]
pub struct State {
    /// The first record, with the settings that all records have in common.
    pub start: Start,
    /// The commit beside which others are measured now.
    pub anchor: String,
    /// The number of sets of bets so far, the present one included. Another anchor, another machine and the end of an
    /// alarm each begin a new set.
    pub number: u32,
    /// The commits that were measured since the present bets began.
    pub points: Vec<Measured>,
    /// All commits that were measured, on any machine, in the order in which they first were.
    pub measured: Vec<String>,
    /// The commits that cannot be measured.
    pub broken: BTreeSet<String>,
    /// The last commits, at most three, that were measured beside this anchor before this machine took over. They are
    /// measured again.
    pub again: Vec<String>,
    /// The alarm that has yet to be looked into.
    pub open: Option<Alarm>,
    /// The changes that confirmed alarms found, each with the number of its alarm.
    pub steps: Vec<(u32, Step)>,
    /// The cost of each commit that was measured, as a multiple of the reference's.
    levels: HashMap<String, f64>,
    machine: Option<String>,
}

impl State {
    /// Returns the state of a series for the machine of this short name.
    ///
    /// # Errors
    ///
    /// Fails if the first record is no start, an alarm is closed that is not open, or the runs of a point form no
    /// pairs or no ratios.
    pub fn of(records: &[Record], machine: &str) -> Result<State> {
        let Some((Record::Start(start), rest)) = records.split_first() else {
            bail!("a history begins with its start")
        };
        let mut state = State {
            anchor: start.reference.clone(),
            start: start.clone(),
            number: 1,
            points: Vec::new(),
            measured: Vec::new(),
            broken: BTreeSet::new(),
            again: Vec::new(),
            open: None,
            steps: Vec::new(),
            levels: HashMap::new(),
            machine: None,
        };
        rest.iter().try_for_each(|record| state.learn(record))?;
        state.on(machine);
        Ok(state)
    }

    fn learn(&mut self, record: &Record) -> Result<()> {
        match record {
            Record::Start(_) | Record::Machine(_) | Record::Judged(_) | Record::Failed(_) => {}
            Record::Point(point) => {
                self.on(&point.machine);
                let differences = differences(&point.a, &point.b, point.judge)?;
                self.points.push(Measured { commit: point.b.commit.clone(), differences });
                self.levels.insert(point.b.commit.clone(), beside_reference(point)?);
                if !self.measured.contains(&point.b.commit) {
                    self.measured.push(point.b.commit.clone());
                }
            }
            Record::Broken(broken) => {
                self.broken.insert(broken.commit.clone());
            }
            Record::Anchor(anchor) => self.begin(anchor.commit.clone()),
            Record::Alarm(alarm) => self.open = Some(alarm.clone()),
            Record::Closed(closed) => {
                let Some(alarm) = self.open.take_if(|alarm| alarm.number == closed.number) else {
                    bail!("alarm {} was closed before it was raised", closed.number);
                };
                // A change that was not confirmed leaves the anchor where it is, so that a real change is found again.
                let anchor = if closed.confirmed { alarm.at } else { self.anchor.clone() };
                if closed.confirmed {
                    let (low, high) = (closed.low.unwrap_or(0.0), closed.high.unwrap_or(f64::INFINITY));
                    let level = self.level(&alarm.before);
                    self.steps.push((closed.number, Step { level, ratio: closed.ratio, low, high }));
                }
                self.begin(anchor);
            }
        }
        Ok(())
    }

    /// Returns the cost of a commit as a multiple of the reference's; 1 for a commit that was not measured.
    pub fn level(&self, commit: &str) -> f64 {
        self.levels.get(commit).copied().unwrap_or(1.0)
    }

    /// Begins new bets beside this anchor.
    fn begin(&mut self, anchor: String) {
        self.anchor = anchor;
        self.number += 1;
        self.points.clear();
        self.again.clear();
    }

    /// Begins new bets if another machine measured before this one, because their runs are not comparable.
    fn on(&mut self, machine: &str) {
        if self.machine.as_deref().is_some_and(|last| last != machine) {
            // What the last machine itself had yet to measure again counts too.
            let mut again = std::mem::take(&mut self.again);
            for point in &self.points {
                again.retain(|commit| *commit != point.commit);
                again.push(point.commit.clone());
            }
            again.drain(..again.len().saturating_sub(AGAIN));
            self.begin(self.anchor.clone());
            self.again = again;
        }
        self.machine = Some(machine.to_owned());
    }

    /// Returns the bets on the points for which `lives` returns `true`.
    pub fn detector(&self, lives: impl Fn(&str) -> bool) -> Detector {
        let mut detector = Detector::new(rate_of(self.number, self.start.false_alarms), self.start.tolerance);
        for point in self.points.iter().filter(|point| lives(&point.commit)) {
            detector.enter();
            point.differences.iter().for_each(|difference| detector.add(*difference));
        }
        detector
    }

    /// Returns the commits to measure now, in order: first those in [`State::again`] that were not measured since, that
    /// `line` still has and that are not broken, then every `every`th commit of `line` for which `is_new` returns
    /// `true`, or the next such commit that is not broken. `line` must have the commits after the anchor up to the tip,
    /// and `is_new` must return whether no measured commit contains its argument.
    pub fn due(&self, line: &[String], every: usize, is_new: impl Fn(&str) -> bool) -> Vec<String> {
        let done = |commit: &String| self.points.iter().any(|point| point.commit == *commit);
        let is_open = |commit: &&String| line.contains(commit) && !done(commit) && !self.broken.contains(*commit);
        let again = self.again.iter().filter(is_open);
        let mut due: Vec<String> = again.cloned().collect();
        let mut passed = 0;
        for commit in line.iter().filter(|commit| is_new(commit)) {
            passed += 1;
            if passed >= every && !self.broken.contains(commit) {
                due.push(commit.clone());
                passed = 0;
            }
        }
        due
    }
}

/// Returns the logarithms of the ratios of `b` to `a`.
///
/// # Errors
///
/// Fails if the runs do not form pairs, or if a value is missing or forms no ratio.
pub fn differences(a: &Half, b: &Half, judge: Measure) -> Result<Vec<f64>> {
    if a.runs.len() != b.runs.len() {
        bail!("{} was measured {} times, and {} {} times", a.commit, a.runs.len(), b.commit, b.runs.len());
    }
    let pairs = a.runs.iter().zip(&b.runs);
    pairs.map(|(a, b)| Ok(b.deciding(judge)?.ln() - a.deciding(judge)?.ln())).collect()
}

/// Returns the cost of the commit of a point as a multiple of the reference's cost: the median of all rounds.
fn beside_reference(point: &Point) -> Result<f64> {
    let reference = point.reference.as_ref().unwrap_or(&point.a);
    Ok(crate::stats::centre(&differences(reference, &point.b, point.judge)?).exp())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        compare::Verdict,
        measure::Sample,
        scenario::Values,
        series::detector::Direction,
        watch::record::{Anchor, Broken, Closed, tests::start},
    };

    fn half(commit: &str, walls: &[f64]) -> Half {
        let sample =
            |wall: &f64| Sample { wall: *wall, user: 0.0, system: 0.0, peak: 0, instructions: None, reported: None };
        Half { revision: commit.to_owned(), commit: commit.to_owned(), runs: walls.iter().map(sample).collect() }
    }

    fn point(machine: &str, anchor: &str, commit: &str, cost: f64) -> Record {
        Record::Point(Box::new(Point {
            time: 0,
            machine: machine.to_owned(),
            scenario: "s".to_owned(),
            parameters: Values::new(),
            judge: Measure::Wall,
            a: half(anchor, &[1.0; 30]),
            b: half(commit, &[cost; 30]),
            reference: None,
            verdict: Verdict::CannotTell,
            ratio: cost,
            low: None,
            high: None,
        }))
    }

    fn alarm(number: u32, at: &str) -> Record {
        let (anchor, before, first) = ("a".to_owned(), "a".to_owned(), at.to_owned());
        Record::Alarm(Alarm { number, time: 0, direction: Direction::Worse, anchor, before, first, at: at.to_owned() })
    }

    fn closed(number: u32, confirmed: bool) -> Record {
        let said = String::new();
        Record::Closed(Closed { number, confirmed, ratio: 1.1, low: Some(1.05), high: None, said })
    }

    fn names(names: &str) -> Vec<String> {
        names.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn a_confirmed_change_moves_the_anchor_and_an_unconfirmed_one_does_not() {
        for (confirmed, anchor, steps) in [(true, "c", 1), (false, "a", 0)] {
            let mut records = vec![start(), point("m", "a", "b", 1.0), point("m", "a", "c", 1.1), alarm(1, "c")];
            let open = State::of(&records, "m").unwrap();
            assert_eq!((open.open.unwrap().at.as_str(), open.anchor.as_str()), ("c", "a"));
            records.push(closed(1, confirmed));
            let state = State::of(&records, "m").unwrap();
            assert_eq!((state.anchor.as_str(), state.number, state.points.len()), (anchor, 2, 0));
            assert_eq!((state.open, state.steps.len()), (None, steps));
        }
        assert!(State::of(&[start(), closed(1, true)], "m").is_err(), "nothing was open");
        assert!(State::of(&[alarm(1, "c")], "m").is_err(), "there is no start");
    }

    #[test]
    fn the_bets_are_the_same_after_each_start() {
        let records = [start(), point("m", "a", "b", 1.0), point("m", "a", "c", 1.1)];
        let state = State::of(&records, "m").unwrap();
        let change = state.detector(|_| true).change().unwrap();
        assert_eq!((change.direction, change.first), (Direction::Worse, 1));
        assert_eq!(state.detector(|commit| commit != "c").change(), None, "the branch lost the commit");
        let other = State::of(&records, "other").unwrap();
        assert_eq!(other.detector(|_| true).change(), None, "another machine measured that");
    }

    #[test]
    fn another_machine_measures_the_last_commits_again_and_goes_on() {
        let mut records = vec![start()];
        records.extend(["b", "c", "d", "e"].map(|commit| point("m", "a", commit, 1.0)));
        let line = names("b c d e f g");
        let is_new = |commit: &str| commit > "e";
        assert_eq!(State::of(&records, "m").unwrap().due(&line, 1, is_new), names("f g"));
        let state = State::of(&records, "n").unwrap();
        assert_eq!((state.due(&line, 1, is_new), state.number), (names("c d e f g"), 2));
        records.push(point("n", "a", "c", 1.0));
        assert_eq!(State::of(&records, "n").unwrap().due(&line, 1, is_new), names("d e f g"));
        assert_eq!(State::of(&records, "m").unwrap().due(&line, 1, is_new), names("d e c f g"));
        // Regression: a watch tried again and again to build a commit that another machine had measured.
        let (commit, why) = ("d".to_owned(), "no rule".to_owned());
        records.push(Record::Broken(Broken { time: 0, commit, why }));
        assert_eq!(State::of(&records, "n").unwrap().due(&line, 1, is_new), names("e f g"));
    }

    #[test]
    fn every_so_many_commits_one_is_measured_and_a_broken_one_gives_way_to_the_next() {
        let mut records = vec![start()];
        let line = names("b c d e f g h i");
        let due = |records: &[Record]| State::of(records, "m").unwrap().due(&line, 3, |_| true);
        assert_eq!(due(&records), names("d g"));
        records
            .extend(["d", "e"].map(|commit| {
                Record::Broken(Broken { time: 0, commit: commit.to_owned(), why: "no rule".to_owned() })
            }));
        assert_eq!(due(&records), names("f i"));
    }

    #[test]
    fn another_anchor_begins_other_bets() {
        let why = "rebased".to_owned();
        let anchor = Record::Anchor(Anchor { commit: "b".to_owned(), why });
        let state = State::of(&[start(), point("m", "a", "b", 1.0), anchor], "m").unwrap();
        assert_eq!((state.anchor.as_str(), state.number, state.points.len()), ("b", 2, 0));
        assert_eq!(state.measured, ["b"], "what was measured stays known");
    }

    #[test]
    fn runs_that_form_no_pairs_are_refused() {
        let mut torn = point("m", "a", "b", 1.0);
        if let Record::Point(point) = &mut torn {
            point.a.runs.pop();
        }
        let said = State::of(&[start(), torn], "m").unwrap_err().to_string();
        assert_eq!(said, "a was measured 29 times, and b 30 times");
    }
}
