//! Parses the lines of histories: comparisons of `run --history` and of `watch`, changes that `watch` found, and values
//! that `import` took from other tools.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::{
    compare::Verdict,
    measure::Measure,
    scenario::Values,
    watch::record::{Half, VERSION},
};

/// A line of a history that the page shows.
#[derive(Debug, Clone)]
pub enum Entry {
    /// Two commits that were measured in pairs.
    Comparison(Box<Line>),
    /// A value from another tool.
    Imported(Imported),
    /// A change of a series.
    Change(Subject, Change),
}

impl Entry {
    /// Returns the time, in seconds since 1970.
    pub fn time(&self) -> u64 {
        match self {
            Entry::Comparison(line) => line.time,
            Entry::Imported(imported) => imported.time,
            Entry::Change(_, change) => change.time,
        }
    }
}

/// What a series is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Subject {
    /// The name of the scenario.
    pub scenario: String,
    /// The values of the scenario's parameters.
    pub values: Values,
    /// The name of the measure that decides.
    pub judge: &'static str,
    /// The tool that the values come from; empty if the lab measured them.
    pub tool: String,
}

/// A comparison, as `run --history` and `watch` write it.
#[derive(Debug, Clone, Deserialize)]
pub struct Line {
    /// The time at which the comparison was recorded, in seconds since 1970.
    pub time: u64,
    /// The name of the scenario.
    pub scenario: String,
    /// The values of the scenario's parameters.
    pub parameters: Values,
    /// The measure that decides.
    pub judge: Measure,
    /// A: the commit with which B was compared.
    pub a: Half,
    /// B: the commit that was judged.
    pub b: Half,
    /// The verdict on B.
    pub verdict: Verdict,
    /// B's cost divided by A's.
    pub ratio: f64,
    /// The lower bound of the ratio, if known.
    pub low: Option<f64>,
    /// The upper bound of the ratio, if known.
    pub high: Option<f64>,
    /// The work of A and of B; `None` if it was not compared, or if the line is of `watch` or of an older lab.
    #[serde(default)]
    pub work: Option<WorkOfBoth>,
}

/// The work of one run of each side.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkOfBoth {
    /// Sentences about how the work differs; none if both did the same.
    pub differences: Vec<String>,
    /// The figures of A and of B, by name.
    #[serde(default)]
    pub figures: BTreeMap<String, [u64; 2]>,
}

/// A value that another tool measured, which is therefore not one of a pair.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Imported {
    /// The tool, such as `hyperfine`.
    pub tool: String,
    /// The time of the measurement, in seconds since 1970. If the tool does not say it, this is the time of the file's
    /// last modification, or 0 if that is unknown.
    pub time: u64,
    /// The name of the benchmark.
    pub scenario: String,
    /// The values of the benchmark's parameters.
    pub parameters: Values,
    /// The measure of the value.
    pub judge: Measure,
    /// The name of the measurement for people.
    pub revision: String,
    /// The id of the commit, or another name if the tool does not say which commit it measured.
    pub commit: String,
    /// The value: seconds, bytes, or a number in the tool's own unit.
    pub value: f64,
    /// The number of runs; 0 if the tool does not say.
    pub runs: usize,
}

/// A change of a series, as `watch` found it.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// The number by which other lines refer to the change.
    number: u32,
    /// The time at which `watch` noticed the change, in seconds since 1970.
    pub time: u64,
    /// The measured commit with which the change seems to have begun.
    pub commit: String,
    /// `worse` or `better`.
    pub direction: String,
    /// Whether a second measurement confirmed the change; `None` as long as there is no outcome.
    pub confirmed: Option<bool>,
    /// The ratio that the second measurement found; 1 if it found none, `None` as long as there is no outcome.
    pub ratio: Option<f64>,
    /// A sentence on the outcome; empty as long as there is none.
    pub said: String,
}

/// A line that `import` or `watch` wrote. Lines of all other kinds, those of newer labs among them, carry nothing that
/// the page shows.
#[derive(Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum Tagged {
    Start {
        version: u32,
        scenario: String,
        parameters: Values,
        judge: Measure,
    },
    Point(Box<Line>),
    Imported(Imported),
    Alarm {
        number: u32,
        time: u64,
        direction: String,
        first: String,
    },
    Closed {
        number: u32,
        confirmed: bool,
        ratio: Option<f64>,
        #[serde(default)]
        said: String,
    },
    #[serde(other)]
    Other,
}

#[derive(Debug, Deserialize)]
struct Kind {
    kind: Option<String>,
}

/// Parses the text of a history.
///
/// # Errors
///
/// Fails with the number of the first malformed line.
pub fn read(text: &str) -> Result<Vec<Entry>> {
    let (mut entries, mut subject) = (Vec::new(), None);
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        add(line, &mut entries, &mut subject)
            .with_context(|| format!("line {} is no comparison of a history", number + 1))?;
    }
    Ok(entries)
}

fn add(line: &str, entries: &mut Vec<Entry>, subject: &mut Option<Subject>) -> Result<()> {
    if serde_json::from_str::<Kind>(line)?.kind.is_none() {
        entries.push(Entry::Comparison(serde_json::from_str(line)?));
        return Ok(());
    }
    match serde_json::from_str(line)? {
        Tagged::Start { version, scenario, parameters, judge } => {
            ensure!(version <= VERSION, "it is of version {version}, and this lab knows {VERSION}");
            let tool = String::new();
            *subject = Some(Subject { scenario, values: parameters, judge: judge.name(), tool });
        }
        Tagged::Point(line) => entries.push(Entry::Comparison(line)),
        Tagged::Imported(imported) => {
            ensure!(imported.value.is_finite(), "the value is no number");
            ensure!(!imported.tool.is_empty(), "the tool has no name");
            entries.push(Entry::Imported(imported));
        }
        Tagged::Alarm { number, time, direction, first } => {
            let subject = subject.clone().context("a change comes before the line that says of what")?;
            let (confirmed, ratio, said) = (None, None, String::new());
            let change = Change { number, time, commit: first, direction, confirmed, ratio, said };
            entries.push(Entry::Change(subject, change));
        }
        Tagged::Closed { number, confirmed, ratio, said } => {
            let change = entries.iter_mut().rev().find_map(|entry| match entry {
                Entry::Change(_, change) if change.number == number => Some(change),
                _ => None,
            });
            let change = change.context("it is about a change that is not there")?;
            (change.confirmed, change.ratio, change.said) = (Some(confirmed), ratio, said);
        }
        Tagged::Other => {}
    }
    Ok(())
}
