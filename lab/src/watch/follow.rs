//! Follows one series: measures what is due, and raises an alarm when the bets find a change.

use std::{collections::BTreeMap, io::Write};

use anyhow::{Context, Result, bail, ensure};

use super::{
    alert::short,
    branch::{Branch, is_ancestor},
    ledger::{Ledger, hash, stem},
    record::{Alarm, Anchor, Broken, Half, Machine, Point, Record, Start, VERSION},
    rounds::{Rounds, Setting, Sides},
    state::State,
};
use crate::{
    coin::Coin,
    compare::{Comparison, Rules, outcome},
    measure::now,
    options::watch::WatchOptions,
    revision::Builds,
    scenario::{Scenario, describe},
    series::detector::Change,
    shown::shown,
};

/// A series that is watched.
#[derive(Debug)]
pub struct Series<'a> {
    pub(super) options: &'a WatchOptions,
    pub(super) setting: Setting<'a>,
    pub(super) rules: Rules,
    pub(super) machine: Machine,
    pub(super) stem: String,
    pub(super) ledger: Ledger,
}

impl<'a> Series<'a> {
    /// Opens the file of a series, and begins it if it is new.
    ///
    /// # Errors
    ///
    /// Fails, for example, if the file is invalid or cannot be used, if it was begun with another scenario or other
    /// settings, or if the reference names no commit.
    pub fn open(
        options: &'a WatchOptions,
        setting: Setting<'a>,
        rules: Rules,
        about: BTreeMap<String, String>,
    ) -> Result<Series<'a>> {
        let stem = stem(&setting.scenario.name, setting.values);
        let path = options.history.join(format!("{stem}.jsonl"));
        let mut ledger = Ledger::open(&path)?;
        let reference = match (&options.reference, ledger.records().first()) {
            (None, Some(Record::Start(start))) => start.reference.clone(),
            (named, _) => setting.builds.commit(named.as_ref().unwrap_or(&options.branch))?,
        };
        let start = Start {
            version: VERSION,
            scenario: setting.scenario.name.clone(),
            parameters: setting.values.clone(),
            judge: rules.judge,
            recipe: recipe(setting.scenario),
            reference,
            false_alarms: rules.rate,
            tolerance: rules.tolerance,
        };
        match ledger.records().first() {
            None => {
                check_reference(&options.branch, setting.builds, &start.reference)?;
                ledger.append(Record::Start(start))?;
            }
            Some(Record::Start(known)) => check_start(known, &start).with_context(|| {
                format!("'{}' goes on only as it was begun; for anything else, use another --history", path.display())
            })?,
            Some(_) => bail!("'{}' has no start", path.display()),
        }
        let id = format!("{:016x}", hash(format!("{about:?}").as_bytes()));
        let machine = Machine { id, about };
        Ok(Series { options, setting, rules, machine, stem, ledger })
    }

    /// Returns the name of the file, without its ending.
    pub fn stem(&self) -> &str {
        &self.stem
    }

    /// Returns the scenario and the parameters in words.
    pub fn name(&self) -> String {
        match describe(self.setting.values) {
            values if values.is_empty() => self.setting.scenario.name.clone(),
            values => format!("{} ({values})", self.setting.scenario.name),
        }
    }

    /// Does the next thing: looks into an alarm, raises one, or measures the next commit. Adds the number of alerts to
    /// `alerts`, and returns whether nothing is left to do until the branch has new commits.
    ///
    /// # Errors
    ///
    /// Fails, for example, if the anchor or the reference cannot be run, the branch has nothing in common with what
    /// was measured, git fails, a disk is full, a file cannot be written, or a signal arrives. What was recorded
    /// stays, and the next call goes on there.
    pub fn advance(
        &mut self,
        branch: &Branch<'_>,
        coin: &mut Coin,
        alerts: &mut usize,
        out: &mut impl Write,
    ) -> Result<bool> {
        self.call_the_user();
        // Each build in use takes a file descriptor, of which a watch over many commits would run out.
        self.setting.builds.release();
        let mut state = State::of(self.ledger.records(), &self.machine.id)?;
        if let Some(alarm) = state.open.clone() {
            self.look_into(&alarm, &state, coin, alerts, out)?;
            return Ok(false);
        }
        if !branch.contains(&state.anchor)? {
            self.anchor_again(branch, &state)?;
            state = State::of(self.ledger.records(), &self.machine.id)?;
        }
        let measured: Vec<String> = state.measured.iter().chain([&state.anchor]).cloned().collect();
        let line = branch.since(&state.anchor, &measured)?;
        let lives = |commit: &str| line.commits.iter().any(|known| known == commit);
        if let Some(change) = state.detector(lives).change() {
            self.raise(&state, lives, change, out)?;
            return Ok(false);
        }
        let due = state.due(&line.commits, self.options.every as usize, |commit| line.is_new(commit));
        let Some(commit) = due.first() else { return Ok(true) };
        self.measure(commit, &state, lives, coin, out)?;
        Ok(false)
    }

    /// Measures a commit and records it.
    fn measure(
        &mut self,
        commit: &str,
        state: &State,
        lives: impl Fn(&str) -> bool,
        coin: &mut Coin,
        out: &mut impl Write,
    ) -> Result<()> {
        let known = |record: &Record| matches!(record, Record::Machine(known) if known.id == self.machine.id);
        if !self.ledger.records().iter().any(known) {
            self.ledger.append(Record::Machine(self.machine.clone()))?;
        }
        let mut detector = state.detector(lives);
        let sides = Sides { anchor: &state.anchor, commit, reference: &state.start.reference };
        match self.setting.measure(sides, &mut detector, coin)? {
            Err(why) => {
                let said = format!("{} cannot be measured: {why}", short(commit));
                self.ledger.append(Record::Broken(Broken { time: now(), commit: commit.to_owned(), why }))?;
                self.say(&said, out)
            }
            Ok(rounds) => {
                let point = self.point(sides, rounds)?;
                let said = format!(
                    "{} takes {:.3} times the {} of {} ({} runs a side)",
                    short(commit),
                    point.ratio,
                    self.rules.judge.words(),
                    short(&state.anchor),
                    point.b.runs.len(),
                );
                self.ledger.append(Record::Point(Box::new(point)))?;
                self.say(&said, out)
            }
        }
    }

    /// Prints a line about something that is recorded already, so that it is not done again if printing fails.
    pub(super) fn say(&self, said: &str, out: &mut impl Write) -> Result<()> {
        writeln!(out, "{}", shown(&format!("{}: {said}", self.name())))?;
        Ok(out.flush()?)
    }

    fn point(&self, sides: Sides<'_>, rounds: Rounds) -> Result<Point> {
        let half = |commit: &str, runs| Half { revision: short(commit).to_owned(), commit: commit.to_owned(), runs };
        let (a, b) = (half(sides.anchor, rounds.anchor), half(sides.commit, rounds.commit));
        let differences = super::state::differences(&a, &b, self.rules.judge)?;
        let outcome = outcome(&Comparison { differences, ..Comparison::default() }, &self.rules);
        let known = |bound: f64| bound.is_finite().then_some(bound);
        Ok(Point {
            time: now(),
            machine: self.machine.id.clone(),
            scenario: self.setting.scenario.name.clone(),
            parameters: self.setting.values.clone(),
            judge: self.rules.judge,
            a,
            b,
            reference: Some(half(sides.reference, rounds.reference)).filter(|half| !half.runs.is_empty()),
            verdict: outcome.verdict,
            ratio: outcome.ratio,
            low: known(outcome.interval.low),
            high: known(outcome.interval.high),
        })
    }

    /// Chooses another anchor if the branch does not have the present one, for example after a rebase: the last
    /// measured commit that the branch still has, or else the reference if the branch has it, or else the latest commit
    /// that the branch shares with the old anchor.
    fn anchor_again(&mut self, branch: &Branch<'_>, state: &State) -> Result<()> {
        let mut known = state.measured.iter().rev().chain([&state.start.reference]);
        let kept = known.find_map(|commit| match branch.contains(commit) {
            Ok(false) => None,
            Ok(true) => Some(Ok(commit.clone())),
            Err(error) => Some(Err(error)),
        });
        let commit = match kept.transpose()?.or_else(|| branch.common_with(&state.anchor)) {
            Some(commit) => commit,
            None => bail!(
                "the branch has nothing in common with {}: watch it with another --history",
                short(&state.start.reference)
            ),
        };
        let why = format!("the branch does not have {}", state.anchor);
        self.ledger.append(Record::Anchor(Anchor { commit, why }))
    }

    /// Records an alarm.
    fn raise(
        &mut self,
        state: &State,
        lives: impl Fn(&str) -> bool,
        change: Change,
        out: &mut impl Write,
    ) -> Result<()> {
        let living: Vec<&String> = state.points.iter().map(|point| &point.commit).filter(|one| lives(one)).collect();
        let first = living[change.first].clone();
        let at = living[living.len() - 1].clone();
        // On side branches, the commit measured before may be no ancestor of the one that shows the change.
        let mut before = state.anchor.clone();
        for commit in living[..change.first].iter().rev() {
            if is_ancestor(self.setting.builds, commit, &at)? {
                before.clone_from(commit);
                break;
            }
        }
        let said = format!("the cost changed between {} and {}", short(&before), short(&at));
        self.ledger.append(Record::Alarm(Alarm {
            number: state.number,
            time: now(),
            direction: change.direction,
            anchor: state.anchor.clone(),
            before,
            first,
            at,
        }))?;
        self.say(&said, out)
    }
}

/// Returns a hash of the scenario's scripts, cases and use of git's automatic maintenance.
fn recipe(scenario: &Scenario) -> String {
    let texts = [&scenario.build, &scenario.setup, &scenario.prepare, &scenario.command, &scenario.check];
    let cases = format!("{:?}{}", scenario.cases, scenario.automatic_maintenance);
    let all: Vec<&[u8]> = texts.into_iter().chain([&cases]).map(String::as_bytes).collect();
    format!("{:016x}", hash(&all.join(&0)))
}

/// Fails if the branch has nothing in common with the reference, so that no watch can begin there. A branch that has
/// yet to be fetched is not examined.
fn check_reference(name: &str, builds: &Builds, reference: &str) -> Result<()> {
    let Ok(branch) = Branch::find(builds, name, false) else { return Ok(()) };
    ensure!(
        branch.contains(reference)? || branch.common_with(reference).is_some(),
        "the reference {} has nothing in common with the branch '{name}': name another --reference",
        short(reference)
    );
    Ok(())
}

/// Fails if a history was begun with other settings.
fn check_start(known: &Start, now: &Start) -> Result<()> {
    let [known, now] = [known, now].map(|start| serde_json::to_value(Start { version: VERSION, ..start.clone() }));
    let (known, now) = (known?, now?);
    for (key, value) in known.as_object().into_iter().flatten() {
        ensure!(now.get(key) == Some(value), "its {key} is {value}, not {}", now.get(key).unwrap_or_default());
    }
    Ok(())
}
