//! Implements `refdb-lab gate`, which compares the instructions of one build with those that were recorded. [`record`]
//! reads and writes the file of records, and [`judge`](mod@judge) decides with pure functions. [`machine`] determines
//! which counts are comparable, and [`accepted`] which slowdowns commits declare.

pub mod accepted;
pub mod judge;
pub mod machine;
pub mod record;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::Write,
    path::Path,
    time::SystemTime,
};

use anyhow::{Context, Result, bail, ensure};

use crate::{
    counter::Counter,
    emulator,
    options::GateOptions,
    progress::progress,
    scenario::{Scenario, Values},
    shown::shown_lines,
    stage::Stage,
};
use accepted::Accepted;
use judge::{Verdict, judge};
use record::{History, Record};

/// The ratio of a record to the one before it above which a job is worse.
const LIMIT: f64 = 1.03;

/// The ratio to the last release above which a job is worse.
const RELEASE_LIMIT: f64 = 1.05;

/// Counts instructions, compares them with the records, and records them if the options say so.
///
/// # Errors
///
/// Fails, for example, if the scenario or its parameters are invalid, if a job is worse and neither a commit nor
/// `--record` accepts that, if there is no valgrind to record with, if a command fails, or if a file cannot be used.
pub fn run(options: &GateOptions, out: &mut impl Write) -> Result<()> {
    let scenario = options.chosen.scenario()?;
    let mut several = with_several_values(&scenario);
    several.extend(with_several_values(&Scenario::find(&options.chosen.scenario)?));
    let history = History::read(&options.history)?;
    let Some(tool) = emulator::version() else {
        // Without valgrind, nothing can be recorded either.
        ensure!(!options.record, "there is no valgrind, which counts the instructions");
        writeln!(out, "cannot tell: there is no valgrind, which counts the instructions")?;
        return Ok(());
    };
    // The path must be absolute, because scripts run in other folders.
    let build = fs::canonicalize(&options.build).with_context(|| format!("no build '{}'", options.build.display()))?;
    let now = Record {
        time: SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_secs(),
        commit: record::head(&options.history),
        release: options.release.clone(),
        machine: machine::find(&tool, &options.with),
        counts: count(&scenario, &several, &build, &options.chosen.place())?,
    };
    let mut said = Vec::new();
    let worse = compare(&history, &now, &mut said);
    write!(out, "{}", shown_lines(&String::from_utf8_lossy(&said)))?;
    let worse = worse?;
    if options.record {
        writeln!(out, "recorded in '{}'", options.history.display())?;
        return record::append(&options.history, &now);
    }
    if worse > 0 {
        bail!("{worse} of the comparisons say worse, and no commit accepts it");
    }
    Ok(())
}

/// Counts the instructions of each combination of the parameters. `several` are the parameters in the names of jobs.
fn count(scenario: &Scenario, several: &BTreeSet<String>, build: &Path, place: &Path) -> Result<BTreeMap<String, u64>> {
    let mut counts = BTreeMap::new();
    for values in scenario.combinations() {
        let key = key(scenario, several, &values);
        progress(&format!("counting {key}"));
        let stage = Stage::new(scenario, &values, build, place, Counter::Nothing)?;
        let counted = stage.emulated(emulator::total)?;
        counts.insert(key, counted as u64);
    }
    progress("");
    Ok(counts)
}

/// Returns the parameters that have several values.
fn with_several_values(scenario: &Scenario) -> BTreeSet<String> {
    let several = scenario.parameters.iter().filter(|(_, values)| values.len() > 1);
    several.map(|(name, _)| name.clone()).collect()
}

/// Returns the name of a job: the values, joined by slashes, of the parameters `several`, or the name of the scenario
/// if there is no such parameter. These are the parameters that have several values in the file of the scenario or by
/// `--parameter-list`, so that a job keeps its name if the option leaves its parameter one value.
fn key(scenario: &Scenario, several: &BTreeSet<String>, values: &Values) -> String {
    let named = values.iter().filter(|(name, _)| several.contains(*name));
    let named: Vec<&str> = named.map(|(_, value)| value.as_str()).collect();
    if named.is_empty() { scenario.name.clone() } else { named.join("/") }
}

/// Reports how `now` compares with the last record and with the last release. The last record is also compared with the
/// one before it, because it may include a slowdown of its own commit. Returns the number of slowdowns that no commit
/// accepts.
fn compare(history: &History, now: &Record, out: &mut impl Write) -> Result<usize> {
    let Some(last) = history.records.last() else {
        writeln!(out, "cannot tell: nothing is recorded yet")?;
        return Ok(0);
    };
    let mut worse = 0;
    let before = history.records.len().checked_sub(2).and_then(|place| history.records.get(place));
    if let Some(before) = before {
        worse += say(&before.record, &last.record, LIMIT, &history.accepted(before)?, false, out)?;
    }
    worse += say(&last.record, now, LIMIT, &history.accepted(last)?, true, out)?;
    let release = history.records.iter().rev().find(|line| line.record.release.is_some());
    if let Some(release) = release {
        worse += say(&release.record, now, RELEASE_LIMIT, &history.accepted(release)?, false, out)?;
    }
    Ok(worse)
}

/// Writes the result of one comparison, in full or only the jobs that are worse. Returns the number of slowdowns that
/// are not accepted.
fn say(
    before: &Record,
    after: &Record,
    limit: f64,
    accepted: &Accepted,
    in_full: bool,
    out: &mut impl Write,
) -> Result<usize> {
    let name = |record: &Record| record.release.clone().unwrap_or_else(|| record.commit.chars().take(12).collect());
    let (a, b) = (name(before), name(after));
    let changes = match judge(before, after, limit) {
        Verdict::CannotTell(why) => {
            if in_full {
                writeln!(out, "cannot tell: the record of {a} is of another kind: {}", why.join("; "))?;
            }
            return Ok(0);
        }
        Verdict::Told(changes) => changes,
    };
    let mut worse = 0;
    for change in &changes {
        let word = if change.is_worse { "worse" } else { "better" };
        let line = format!("{word}: {b} takes {:.3} times the instructions of {a} in {}", change.ratio, change.job);
        match (change.is_worse, accepted.reason(&change.job)) {
            (true, Some(reason)) => writeln!(out, "{line}, which is accepted: {reason}")?,
            (true, None) => {
                worse += 1;
                writeln!(
                    out,
                    "{line} (limit: {limit})\n  a commit accepts it by a last line \"Slower: {}: REASON\"",
                    change.job
                )?;
            }
            (false, _) if in_full => writeln!(out, "{line}; --record makes later builds be compared with this one")?,
            (false, _) => {}
        }
    }
    if in_full {
        let most = judge::most(before, after);
        let fresh: Vec<&str> =
            after.counts.keys().filter(|job| !before.counts.contains_key(*job)).map(String::as_str).collect();
        if !fresh.is_empty() {
            writeln!(out, "cannot tell: nothing is recorded of {}", fresh.join(", "))?;
        }
        let same = after.counts.len() - fresh.len() - changes.len();
        let most = most.map_or_else(String::new, |(ratio, job)| format!("; the largest ratio is {ratio:.4}, in {job}"));
        writeln!(out, "{same} of {} jobs are within {limit} of {a}{most}", after.counts.len())?;
    }
    Ok(worse)
}
