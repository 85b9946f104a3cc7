//! Converts the lines of histories to series of commits, with pure functions.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
};

use super::entry::{Change, Entry, Imported, Line, Subject, WorkOfBoth};
use crate::{
    compare::Verdict,
    measure::Measure,
    scenario::{Values, describe},
    watch::record::Half,
};

/// All commits with the same scenario, parameters and measure, and values from the same tool.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// The scenario's name.
    pub scenario: String,
    /// The values of the parameters.
    pub values: Values,
    /// The values of the parameters in words, with the tool if there is one; empty if there is neither.
    pub parameters: String,
    /// The measure that decides.
    pub judge: Measure,
    /// The tool that the values come from; empty if the lab measured them in pairs.
    pub tool: String,
    /// The commits, in the order in which they were measured.
    pub points: Vec<Point>,
    /// The changes of the series.
    pub changes: Vec<Change>,
    /// The index of each commit in `points`.
    places: HashMap<String, usize>,
}

/// A commit in a series.
///
/// The last measurement of a commit is the last comparison that judged the commit or, if there is none, the first one
/// in which another commit, or the commit itself, was compared with it. In a series of imported values, it is the last
/// value of the commit.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// The id of the commit.
    pub commit: String,
    /// The name by which the last measurement referred to the commit.
    pub revision: String,
    /// The time of the last measurement, in seconds since 1970.
    pub time: u64,
    /// The median of the runs of the last measurement, or the imported value.
    pub value: f64,
    /// The number of runs of the last measurement.
    pub runs: usize,
    /// The cost as a multiple of the first commit's cost.
    pub level: f64,
    /// All comparisons of the commit with others, the most important first; none if others were only compared with it.
    pub steps: Vec<Step>,
}

/// The comparison of a commit, which is judged, with another one.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// The id of the other commit.
    pub before: String,
    /// The time of the comparison, in seconds since 1970.
    pub time: u64,
    /// The verdict on the judged commit.
    pub verdict: Verdict,
    /// The cost of the judged commit divided by that of the other.
    pub ratio: f64,
    /// The lower bound of the ratio, if known.
    pub low: Option<f64>,
    /// The upper bound of the ratio, if known.
    pub high: Option<f64>,
    /// The median of the judged commit's runs.
    pub value: f64,
    /// The number of runs of each side.
    pub runs: usize,
    /// The work of both commits, if it was compared.
    pub work: Option<WorkOfBoth>,
}

impl Step {
    /// Returns a key that orders comparisons by importance, the most important first: worse before better before
    /// "cannot tell", then the larger difference (where worse and better count only by the certain part of it, if that
    /// is known), then the later one.
    pub fn importance(&self) -> (u8, Reverse<u64>, Reverse<u64>) {
        let rank = match self.verdict {
            Verdict::Worse => 0,
            Verdict::Better => 1,
            Verdict::CannotTell => 2,
        };
        let certain = match self.verdict {
            Verdict::Worse => self.low,
            Verdict::Better => self.high,
            Verdict::CannotTell => None,
        };
        let size = certain.unwrap_or(self.ratio).ln().abs();
        // The bits of positive numbers have the order of the numbers.
        let size = if size.is_nan() { 0 } else { size.to_bits() };
        (rank, Reverse(size), Reverse(self.time))
    }
}

/// Returns the series of all entries, which must be in order of time.
pub fn series(entries: &[Entry]) -> Vec<Series> {
    let mut all: BTreeMap<Subject, Series> = BTreeMap::new();
    for entry in entries {
        match entry {
            Entry::Comparison(line) => of(&mut all, subject(line), line.judge).compare(line),
            Entry::Imported(imported) => of(&mut all, subject_of(imported), imported.judge).import(imported),
            Entry::Change(..) => {}
        }
    }
    for entry in entries {
        if let Entry::Change(subject, change) = entry
            && let Some(series) = all.get_mut(subject)
        {
            series.changes.push(change.clone());
        }
    }
    for point in all.values_mut().flat_map(|series| &mut series.points) {
        point.steps.sort_by_key(Step::importance);
    }
    all.into_values().collect()
}

fn subject(line: &Line) -> Subject {
    let (scenario, values) = (line.scenario.clone(), line.parameters.clone());
    Subject { scenario, values, judge: line.judge.name(), tool: String::new() }
}

fn subject_of(imported: &Imported) -> Subject {
    let (scenario, values, tool) = (imported.scenario.clone(), imported.parameters.clone(), imported.tool.clone());
    Subject { scenario, values, judge: imported.judge.name(), tool }
}

fn of(all: &mut BTreeMap<Subject, Series>, subject: Subject, judge: Measure) -> &mut Series {
    all.entry(subject).or_insert_with_key(|subject| {
        let imported = if subject.tool.is_empty() { String::new() } else { format!("imported from {}", subject.tool) };
        let words = [describe(&subject.values), imported];
        let words: Vec<&str> = words.iter().map(String::as_str).filter(|words| !words.is_empty()).collect();
        Series {
            scenario: subject.scenario.clone(),
            values: subject.values.clone(),
            parameters: words.join(", "),
            judge,
            tool: subject.tool.clone(),
            points: Vec::new(),
            changes: Vec::new(),
            places: HashMap::new(),
        }
    })
}

impl Series {
    /// Returns the number of comparisons.
    pub fn comparisons(&self) -> usize {
        self.points.iter().map(|point| point.steps.len()).sum()
    }

    /// Returns the point of a commit.
    pub fn point(&self, commit: &str) -> Option<&Point> {
        self.places.get(commit).and_then(|place| self.points.get(*place))
    }

    fn compare(&mut self, line: &Line) {
        let value = line.a.median(line.judge);
        // If no earlier line measured A, its level follows from its own cost.
        let known = self.point(&line.a.commit).map(|point| point.level);
        let level = known.unwrap_or_else(|| self.level_of(value));
        if known.is_none() {
            self.put(point(&line.a, line, level));
        }
        if line.b.commit == line.a.commit {
            return;
        }
        let Line { time, verdict, ratio, low, high, .. } = *line;
        let (before, runs, level) = (line.a.commit.clone(), line.b.runs.len(), level * ratio);
        let (value, work) = (line.b.median(line.judge), line.work.clone());
        self.put(Point {
            steps: vec![Step { before, time, verdict, ratio, low, high, value, runs, work }],
            ..point(&line.b, line, level)
        });
    }

    fn import(&mut self, imported: &Imported) {
        let Imported { time, value, runs, .. } = *imported;
        let (commit, revision) = (imported.commit.clone(), imported.revision.clone());
        let level = self.level_of(value);
        self.put(Point { commit, revision, time, value, runs, level, steps: Vec::new() });
    }

    fn level_of(&self, value: f64) -> f64 {
        let first = self.points.first().map_or(value, |first| first.value);
        if first > 0.0 { value / first } else { 1.0 }
    }

    /// Adds a point. If the commit was measured before, it keeps its place and its comparisons.
    fn put(&mut self, mut point: Point) {
        if let Some(known) = self.places.get(&point.commit).and_then(|place| self.points.get_mut(*place)) {
            point.steps.splice(0..0, known.steps.drain(..));
            *known = point;
        } else {
            self.places.insert(point.commit.clone(), self.points.len());
            self.points.push(point);
        }
    }
}

fn point(half: &Half, line: &Line, level: f64) -> Point {
    let (commit, revision) = (half.commit.clone(), half.revision.clone());
    let (value, runs) = (half.median(line.judge), half.runs.len());
    Point { commit, revision, time: line.time, value, runs, level, steps: Vec::new() }
}

#[cfg(test)]
pub(super) mod tests {
    use super::{super::entry::read, *};
    use crate::measure::Sample;

    /// Returns a line with one run for each side.
    pub(crate) fn line(time: u64, a: (&str, f64), b: (&str, f64), refformat: &str) -> String {
        let side = |(name, wall): (&str, f64)| {
            serde_json::json!({ "revision": name, "commit": name, "runs": [Sample {
                wall, user: 0.0, system: 0.0, peak: 1, instructions: None, reported: None
            }] })
        };
        let ratio = b.1 / a.1;
        serde_json::json!({
            "time": time, "scenario": "receive", "parameters": { "refformat": refformat }, "judge": "wall",
            "false_alarms": 0.01, "a": side(a), "b": side(b), "ratio": ratio, "low": ratio * 0.9, "high": null,
            "verdict": if ratio > 1.05 { "worse" } else { "cannot-tell" },
        })
        .to_string()
    }

    #[test]
    fn levels_follow_the_ratios_and_a_commit_measured_again_keeps_its_place() {
        let text = [
            line(1, ("a", 1.0), ("b", 1.5), "files"),
            // From here on, the machine is half as fast.
            line(2, ("b", 3.0), ("c", 3.3), "files"),
            line(3, ("a", 2.0), ("b", 3.2), "files"),
            line(4, ("x", 5.0), ("x", 5.0), "files"),
            line(4, ("a", 1.0), ("b", 1.0), "reftable"),
        ]
        .join("\n");
        let all = series(&read(&text).unwrap());
        assert_eq!(all.len(), 2);
        let levels: Vec<(&str, f64)> = all[0]
            .points
            .iter()
            .map(|point| (point.commit.as_str(), (point.level * 1000.0).round() / 1000.0))
            .collect();
        assert_eq!(levels, [("a", 1.0), ("b", 1.6), ("c", 1.65), ("x", 5.0)]);
        assert_eq!(all[0].points[1].value, 3.2);
        assert_eq!(all[1].parameters, "refformat = reftable");
    }

    #[test]
    fn every_comparison_of_a_commit_stays_and_the_most_important_is_the_first() {
        let text = [
            line(1, ("a", 1.0), ("b", 4.26), "files"),
            line(2, ("c", 4.2), ("b", 4.26), "files"),
            line(3, ("a", 1.0), ("b", 1.2), "files"),
        ]
        .join("\n");
        let all = series(&read(&text).unwrap());
        let b = all[0].point("b").unwrap();
        let steps: Vec<(&str, f64)> = b.steps.iter().map(|step| (step.before.as_str(), step.ratio)).collect();
        assert_eq!(steps, [("a", 4.26), ("a", 1.2), ("c", 4.26 / 4.2)]);
        assert_eq!(all[0].comparisons(), 3);
    }

    #[test]
    fn changes_of_a_watch_belong_to_its_series_and_are_confirmed_by_later_lines() {
        let head =
            r#"{"kind":"start","version":1,"scenario":"receive","parameters":{"refformat":"files"},"judge":"wall"}"#;
        let alarm = r#"{"kind":"alarm","number":3,"time":2,"direction":"worse","anchor":"a","before":"a","first":"b"}"#;
        let closed =
            r#"{"kind":"closed","number":3,"confirmed":true,"ratio":1.5,"low":1.4,"high":null,"said":"it syncs"}"#;
        let point = line(1, ("a", 1.0), ("b", 1.5), "files").replacen('{', r#"{"kind":"point","machine":"m","#, 1);
        let unknown = r#"{"kind":"of-a-newer-lab"}"#;
        let all = series(&read(&[head, &point, alarm, unknown, closed].join("\n")).unwrap());
        let [series] = all.as_slice() else { panic!("{all:?}") };
        let [change] = series.changes.as_slice() else { panic!("{series:?}") };
        assert_eq!((change.commit.as_str(), change.confirmed, change.ratio), ("b", Some(true), Some(1.5)));
        assert_eq!(change.said, "it syncs");
        let early = read(alarm).unwrap_err();
        assert!(format!("{early:#}").starts_with("line 1 is no comparison of a history: a change comes before"));
        let newer = format!("{:#}", read(&head.replace("\"version\":1", "\"version\":2")).unwrap_err());
        assert!(newer.ends_with("it is of version 2, and this lab knows 1"), "{newer}");
    }

    #[test]
    fn imported_values_are_a_series_of_their_own() {
        let imported = |value: f64, commit: &str| {
            format!(
                r#"{{"kind":"imported","tool":"hyperfine","time":0,"scenario":"receive","parameters":{{}},
                "judge":"wall","revision":"{commit}","commit":"{commit}","value":{value},"runs":10}}"#
            )
            .replace('\n', "")
        };
        let text = [imported(2.0, "one"), imported(3.0, "two"), line(1, ("a", 1.0), ("b", 1.5), "files")].join("\n");
        let all = series(&read(&text).unwrap());
        let names: Vec<(&str, usize)> =
            all.iter().map(|series| (series.parameters.as_str(), series.points.len())).collect();
        assert_eq!(names, [("imported from hyperfine", 2), ("refformat = files", 2)]);
        assert_eq!(all[0].points[1].level, 1.5);
    }

    #[test]
    fn a_line_that_is_none_is_named() {
        let text = format!("{}\n\n{{}}\n", line(1, ("a", 1.0), ("b", 1.5), "files"));
        assert_eq!(read(&text).unwrap_err().to_string(), "line 3 is no comparison of a history");
    }
}
