//! Writes an alert: JSON for programs, and Markdown for people and mailing lists.

use std::{
    collections::BTreeMap,
    fmt, fs,
    io::ErrorKind,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use serde::Serialize;

use super::{conclusion::Conclusion, record::Alarm};
use crate::{
    bisect::rounds::Step,
    measure::Measure,
    scenario::{Values, describe},
    series::detector::Direction,
    shown::{shown, shown_in_markdown as safe},
};

/// The version of the JSON.
pub const VERSION: u32 = 1;

/// A commit with the subject of its message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Named {
    /// The id of the commit.
    pub commit: String,
    /// The subject of the message.
    pub subject: String,
}

/// Where a change lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// One commit made the change.
    Commit,
    /// One of several commits made the change.
    Range,
    /// Several commits made the change together.
    Gradual,
}

/// A change in the other direction that is hidden in the interval in which the commit of an alert was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Rest {
    /// The first commit of the interval, which is known to lack the change of the alert.
    pub good: String,
    /// The last commit of the interval.
    pub bad: String,
    /// By how many times all commits of the interval but that of the alert change the cost together.
    pub ratio: f64,
    /// The lower bound of the ratio, if there is one.
    pub low: Option<f64>,
    /// The upper bound of the ratio, if there is one.
    pub high: Option<f64>,
}

impl Rest {
    /// Creates the rest of the interval between a good commit and a bad one.
    pub fn new(step: Step, [good, bad]: [&str; 2]) -> Rest {
        let known = |bound: f64| bound.is_finite().then_some(bound);
        let (low, high) = (known(step.interval.low), known(step.interval.high));
        Rest { good: good.to_owned(), bad: bad.to_owned(), ratio: step.ratio, low, high }
    }
}

impl fmt::Display for Rest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "the other commits between {} and {} change it the other way, together {:.3} times ({} to {})",
            short(&self.good),
            short(&self.bad),
            self.ratio,
            bounded(self.low),
            bounded(self.high)
        )
    }
}

fn bounded(bound: Option<f64>) -> String {
    bound.map_or_else(|| "?".to_owned(), |bound| format!("{bound:.3}"))
}

/// A change that a proof confirmed, as it is reported.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Alert {
    /// The version of this format, [`VERSION`].
    pub version: u32,
    /// The name of the alert, which no other alert of the history has.
    pub id: String,
    /// The time of the alert, in seconds since 1970.
    pub time: u64,
    /// The name of the scenario.
    pub scenario: String,
    /// The parameters of the scenario.
    pub parameters: Values,
    /// The measure that decides.
    pub judge: Measure,
    /// Whether the cost rose or fell.
    pub direction: Direction,
    /// Where the change lies.
    pub place: Place,
    /// The commit that made the change, or those of which one did. Empty if several made it together.
    pub commits: Vec<Named>,
    /// Why no single commit is named; empty if one is.
    pub why: String,
    /// The commit with which the proof compared.
    pub before: Named,
    /// The commit that the proof judged.
    pub after: Named,
    /// The cost of `after` divided by that of `before`.
    pub ratio: f64,
    /// The lower bound of the ratio, if there is one.
    pub low: Option<f64>,
    /// The upper bound of the ratio, if there is one.
    pub high: Option<f64>,
    /// The number of runs of each side in the proof.
    pub runs: usize,
    /// The probability that the proof errs is at most this.
    pub false_alarms: f64,
    /// The cost of the commit that made the change certain, as a multiple of the reference's cost.
    pub beside_reference: f64,
    /// The id of the reference, the commit that runs in each round of the whole series besides the anchor, so that
    /// costs can be stated as multiples of its cost.
    pub reference: String,
    /// The number of the earlier alert whose change this one takes back, if there is one.
    pub takes_back: Option<u32>,
    /// What the other commits that were searched do together, if they certainly change the cost the other way.
    pub rest: Option<Rest>,
    /// Whether the change is one of the program.
    pub conclusion: Conclusion,
    /// Sentences about how the work and the instructions of `before` and `after` differ, or why that is not known.
    pub work: Vec<String>,
    /// How the series showed the change.
    pub alarm: Alarm,
    /// The properties of the machine that measured.
    pub machine: BTreeMap<String, String>,
    /// The version of the lab.
    pub lab: String,
    /// A shell command that repeats the comparison.
    pub repeat: String,
}

impl Alert {
    /// Returns the alert in one line.
    pub fn title(&self) -> String {
        let what = match (self.place, self.commits.as_slice()) {
            (Place::Commit, [one]) => format!("since {} ({})", short(&one.commit), one.subject),
            (Place::Range, commits) => format!("since one of {} commits up to {}", commits.len(), self.after.short()),
            _ => format!("in several steps between {} and {}", self.before.short(), self.after.short()),
        };
        let verb = match (self.judge, self.direction) {
            (Measure::Wall, Direction::Worse) => "is slower",
            (Measure::Wall, _) => "is faster",
            (_, Direction::Worse) => "costs more",
            _ => "costs less",
        };
        format!("{} {verb} {what}: {:.3} times the {}", self.job(), self.ratio, self.judge.words())
    }

    fn job(&self) -> String {
        match describe(&self.parameters) {
            values if values.is_empty() => self.scenario.clone(),
            values => format!("{} ({values})", self.scenario),
        }
    }

    /// Returns the alert in Markdown.
    pub fn markdown(&self) -> String {
        let sure = 100.0 * (1.0 - self.false_alarms);
        let mut text = format!("# {}\n\n", safe(&self.title()));
        text += &format!(
            "{} {}\ntakes {:.3} times ({} to {}, {sure} % sure, {} runs a side) the {} of\n{} {}\n\n{}.\n",
            self.after.commit,
            safe(&self.after.subject),
            self.ratio,
            bounded(self.low),
            bounded(self.high),
            self.runs,
            self.judge.words(),
            self.before.commit,
            safe(&self.before.subject),
            safe(&self.conclusion.sentence),
        );
        if let Some(earlier) = self.takes_back {
            text += &format!("\nThis takes back the change of alert {earlier}: that one went away.\n");
        }
        if let Some(rest) = &self.rest {
            text += &format!("\nThis alert is about one of several changes: {rest}.\n");
        }
        if self.place == Place::Range {
            text += &format!("\nOne of these commits made the change; {}:\n\n", safe(&self.why));
            self.commits.iter().for_each(|one| text += &format!("- {} {}\n", one.commit, safe(&one.subject)));
        } else if !self.why.is_empty() {
            text += &format!("\nNo single commit is named: {}.\n", safe(&self.why));
        }
        if !self.work.is_empty() {
            text += "\nHow the work of both differs (before and after):\n\n";
            self.work.iter().for_each(|line| text += &format!("- {}\n", safe(line.trim_start())));
        }
        text += &format!("\nTo repeat it:\n\n    {}\n", shown(&self.repeat));
        text += &format!(
            "\nHow it was found: a watch measured commit after commit beside {}. {} made the change certain. It was \
             proved again from a fresh clone, with fresh builds and another order of the runs. The last commit takes \
             {:.3} times the {} of the reference {}.\n\nEnvironment: refdb-lab {}",
            short(&self.alarm.anchor),
            short(&self.alarm.at),
            self.beside_reference,
            self.judge.words(),
            short(&self.reference),
            self.lab,
        );
        self.machine.iter().for_each(|(name, value)| text += &format!("; {}: {}", safe(name), safe(value)));
        text + "\n"
    }

    /// Writes the alert into `folder`, as `ID.json` and `ID.md`.
    pub fn write(&self, folder: &Path) -> Result<()> {
        fs::create_dir_all(folder).with_context(|| format!("cannot make '{}'", folder.display()))?;
        let texts = [format!("{:#}\n", serde_json::to_value(self)?), self.markdown()];
        for (path, text) in files(folder, &self.id).iter().zip(texts) {
            fs::write(path, text).with_context(|| format!("cannot write '{}'", path.display()))?;
        }
        Ok(())
    }
}

/// Removes the files of an alert that a watch wrote before it was killed, and that its successor has not confirmed.
pub fn remove(folder: &Path, id: &str) -> Result<()> {
    for path in files(folder, id) {
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("cannot remove '{}'", path.display()));
            }
            _ => {}
        }
    }
    Ok(())
}

fn files(folder: &Path, id: &str) -> [PathBuf; 2] {
    ["json", "md"].map(|ending| folder.join(format!("{id}.{ending}")))
}

impl Named {
    fn short(&self) -> &str {
        short(&self.commit)
    }
}

/// Returns the first 12 letters of the id of a commit.
pub fn short(commit: &str) -> &str {
    commit.get(..12).unwrap_or(commit)
}
