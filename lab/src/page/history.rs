//! Converts the lines of a history to series of commits, with pure functions.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::{
    compare::Verdict,
    measure::{Measure, Sample},
    scenario::{Values, describe},
    stats::centre,
};

/// A comparison, as `--history` writes it.
#[derive(Debug, Clone, Deserialize)]
pub struct Line {
    /// The time, in seconds since 1970.
    pub time: u64,
    scenario: String,
    parameters: Values,
    judge: Measure,
    a: Half,
    b: Half,
    verdict: Verdict,
    ratio: f64,
    low: Option<f64>,
    high: Option<f64>,
}

/// One side of a comparison.
#[derive(Debug, Clone, Deserialize)]
struct Half {
    revision: String,
    commit: String,
    runs: Vec<Sample>,
}

impl Half {
    fn median(&self, judge: Measure) -> f64 {
        centre(&self.runs.iter().filter_map(|run| run.value(judge)).collect::<Vec<_>>())
    }
}

/// All commits with the same scenario, parameters and measure.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// The scenario's name.
    pub scenario: String,
    /// The values of the parameters in words; empty if there are none.
    pub parameters: String,
    /// The measure that decides.
    pub judge: Measure,
    /// The commits, in the order in which they were measured.
    pub points: Vec<Point>,
}

/// A commit in a series.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// The id of the commit.
    pub commit: String,
    /// The name by which the caller last referred to the commit.
    pub revision: String,
    /// The time of the last measurement, in seconds since 1970.
    pub time: u64,
    /// The median of the runs of the last measurement.
    pub value: f64,
    /// The number of runs of the last measurement.
    pub runs: usize,
    /// The cost as a multiple of the first commit's cost.
    pub level: f64,
    /// The comparison with another commit; `None` if other commits were only compared with this one.
    pub step: Option<Step>,
}

/// The comparison of a commit with another one.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// The other commit.
    pub before: String,
    /// The verdict on the later commit.
    pub verdict: Verdict,
    /// The cost of the later commit divided by that of the other.
    pub ratio: f64,
    /// The lower bound of the ratio, if known.
    pub low: Option<f64>,
    /// The upper bound of the ratio, if known.
    pub high: Option<f64>,
}

/// Parses the text of a history.
///
/// # Errors
///
/// Fails with the number of the first malformed line.
pub fn read(text: &str) -> Result<Vec<Line>> {
    let line = |(number, line): (usize, &str)| {
        serde_json::from_str(line).with_context(|| format!("line {} is no comparison of a history", number + 1))
    };
    text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty() && !is_aside(line)).map(line).collect()
}

/// Returns whether this line of a watch's history is something else than a measured commit.
fn is_aside(line: &str) -> bool {
    #[derive(Deserialize)]
    struct Kind {
        kind: String,
    }
    serde_json::from_str::<Kind>(line).is_ok_and(|line| line.kind != "point")
}

/// Returns the series of all lines, which must be in order of time.
pub fn series(lines: &[Line]) -> Vec<Series> {
    let mut all: BTreeMap<(String, String, &str), Series> = BTreeMap::new();
    for line in lines {
        let parameters = describe(&line.parameters);
        let key = (line.scenario.clone(), parameters.clone(), line.judge.name());
        let series = all.entry(key).or_insert_with(|| Series {
            scenario: line.scenario.clone(),
            parameters,
            judge: line.judge,
            points: Vec::new(),
        });
        series.add(line);
    }
    all.into_values().collect()
}

impl Series {
    fn add(&mut self, line: &Line) {
        let level = |series: &Series, commit: &str| {
            series.points.iter().find(|point| point.commit == commit).map(|point| point.level)
        };
        let value = line.a.median(line.judge);
        let first = self.points.first().map_or(value, |first| first.value);
        // The level of a commit that was not compared with a known commit follows from its own cost.
        let level_a = level(self, &line.a.commit).unwrap_or(if first > 0.0 { value / first } else { 1.0 });
        if level(self, &line.a.commit).is_none() {
            self.put(&line.a, line, level_a, None);
        }
        if line.b.commit != line.a.commit {
            let Line { verdict, ratio, low, high, .. } = *line;
            let step = Step { before: line.a.commit.clone(), verdict, ratio, low, high };
            self.put(&line.b, line, level_a * ratio, Some(step));
        }
    }

    fn put(&mut self, half: &Half, line: &Line, level: f64, step: Option<Step>) {
        let (commit, revision) = (half.commit.clone(), half.revision.clone());
        let value = half.median(line.judge);
        let point = Point { commit, revision, time: line.time, value, runs: half.runs.len(), level, step };
        match self.points.iter_mut().find(|known| known.commit == point.commit) {
            Some(known) => *known = point,
            None => self.points.push(point),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

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
    fn a_line_that_is_none_is_named() {
        let text = format!("{}\n\n{{}}\n", line(1, ("a", 1.0), ("b", 1.5), "files"));
        assert_eq!(read(&text).unwrap_err().to_string(), "line 3 is no comparison of a history");
    }
}
