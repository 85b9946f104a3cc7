//! Defines the lines of a watch's history: one record of JSON in each.
//!
//! The first line of a file is a [`Start`], whose version says whether this lab can read the file. A [`Point`] has most
//! keys of a line of `run --history`, and some more.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    bisect::state::Answer,
    compare::Verdict,
    measure::{Measure, Sample},
    scenario::Values,
    series::detector::Direction,
    stats::centre,
};

/// The version of the format. A lab refuses files with a higher one.
pub const VERSION: u32 = 1;

/// One line of a history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Record {
    /// The first line of a file.
    Start(Start),
    /// A machine that had not measured this series before.
    Machine(Machine),
    /// A commit that was measured.
    Point(Box<Point>),
    /// A commit that cannot be measured.
    Broken(Broken),
    /// Another anchor, because the branch lost the last one.
    Anchor(Anchor),
    /// A change of the series that the bets found, and that a proof has yet to confirm.
    Alarm(Alarm),
    /// A verdict of the search for the commit of an alarm.
    Judged(Judged),
    /// An attempt to look into an alarm that failed.
    Failed(Failed),
    /// What became of an alarm.
    Closed(Closed),
}

/// The settings that all lines of a file have in common. None but the version may change, because the rate of false
/// alarms holds for the whole file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Start {
    /// The version of the format, [`VERSION`].
    pub version: u32,
    /// The name of the scenario.
    pub scenario: String,
    /// The parameters of the scenario.
    pub parameters: Values,
    /// The measure that decides.
    pub judge: Measure,
    /// A hash of the scenario's scripts, cases and use of git's automatic maintenance.
    pub recipe: String,
    /// The commit that runs in each round too, so that alerts can state costs as multiples of its cost.
    pub reference: String,
    /// The greatest part of series without a change that may have an alarm.
    pub false_alarms: f64,
    /// The difference, as a fraction, that counts as a change.
    pub tolerance: f64,
}

/// A machine that measures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The short name by which points refer to the machine.
    pub id: String,
    /// The properties that must be the same for records to be comparable.
    pub about: BTreeMap<String, String>,
}

/// A commit and its runs, as in a line of `run --history`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Half {
    /// The name of the commit for people.
    pub revision: String,
    /// The id of the commit.
    pub commit: String,
    /// The runs, in order.
    pub runs: Vec<Sample>,
}

impl Half {
    /// Returns the median of the runs by the measure `judge`; 0 if no run has that measure.
    pub fn median(&self, judge: Measure) -> f64 {
        centre(&self.runs.iter().filter_map(|run| run.value(judge)).collect::<Vec<_>>())
    }
}

/// A commit that was measured beside the anchor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// The time at which the measurement was recorded, in seconds since 1970.
    pub time: u64,
    /// The machine's short name.
    pub machine: String,
    /// The name of the scenario.
    pub scenario: String,
    /// The parameters of the scenario.
    pub parameters: Values,
    /// The measure that decides.
    pub judge: Measure,
    /// The anchor and its runs.
    pub a: Half,
    /// The commit and its runs.
    pub b: Half,
    /// The reference and its runs; `None` if the reference is the anchor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<Half>,
    /// Whether the commit differs from the anchor, by these runs alone.
    pub verdict: Verdict,
    /// The cost of the commit divided by that of the anchor.
    pub ratio: f64,
    /// The lower bound of the ratio, if there is one.
    pub low: Option<f64>,
    /// The upper bound of the ratio, if there is one.
    pub high: Option<f64>,
}

/// A commit that cannot be measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Broken {
    /// The time at which the failure was recorded, in seconds since 1970.
    pub time: u64,
    /// The id of the commit.
    pub commit: String,
    /// Why it cannot be measured.
    pub why: String,
}

/// Another anchor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Anchor {
    /// The commit with which others are compared from now on.
    pub commit: String,
    /// Why the anchor changed.
    pub why: String,
}

/// A change that the bets found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alarm {
    /// The serial number, from 1 in this file, of the set of bets that found the change. Another anchor, for example,
    /// begins a new set. The number is the name of the alarm.
    pub number: u32,
    /// The time at which the alarm was raised, in seconds since 1970.
    pub time: u64,
    /// Whether the cost rose or fell.
    pub direction: Direction,
    /// The commit beside which the others were measured.
    pub anchor: String,
    /// The last measured ancestor of `at` before `first`; the anchor if there is none.
    pub before: String,
    /// The measured commit with which the change seems to have begun.
    pub first: String,
    /// The commit that made the change certain.
    pub at: String,
}

/// A verdict of the search for the commit of an alarm. If the search is interrupted, the next one goes on from here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judged {
    /// The number of the alarm.
    pub number: u32,
    /// The commit without the change from which the search began. It ended at the commit that made the change certain.
    pub good: String,
    /// The commit that was judged.
    pub commit: String,
    /// Whether the commit has the change.
    pub answer: Answer,
    /// The number of verdicts of this search so far, those that are not recorded included.
    pub verdicts: u32,
    /// The time that the search for the commit of this alarm has taken so far, in seconds.
    pub seconds: u64,
}

/// An attempt to look into an alarm that failed. The alarm stays open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failed {
    /// The number of the alarm.
    pub number: u32,
    /// The time of the failure, in seconds since 1970.
    pub time: u64,
    /// What failed.
    pub why: String,
}

/// What became of an alarm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Closed {
    /// The number of the alarm.
    pub number: u32,
    /// Whether the proof confirmed the change. A change is reported only then.
    pub confirmed: bool,
    /// The ratio that the proof measured; 1 if it measured none.
    pub ratio: f64,
    /// The lower bound of the ratio, if there is one.
    pub low: Option<f64>,
    /// The upper bound of the ratio, if there is one.
    pub high: Option<f64>,
    /// One sentence on the outcome.
    pub said: String,
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Returns the first line of a history.
    pub(crate) fn start() -> Record {
        Record::Start(Start {
            version: VERSION,
            scenario: "s".to_owned(),
            parameters: Values::new(),
            judge: Measure::Wall,
            recipe: "r".to_owned(),
            reference: "a".to_owned(),
            false_alarms: 0.01,
            tolerance: 0.01,
        })
    }
}
