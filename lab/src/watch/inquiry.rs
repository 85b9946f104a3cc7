//! Looks into an alarm: searches for the commit of the change, proves it, and reports it.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    io::Write,
    path::{Path, PathBuf, absolute},
    time::Instant,
};

use anyhow::{Result, bail};
use refdb_vfs::interrupt;

use super::{
    alert::{self, Alert, Named, Place, Rest},
    branch::is_ancestor,
    follow::Series,
    notify::notify,
    proof::{Proof, prove},
    record::{Alarm, Closed, Failed, Point, Record},
    search::{self, Found, Recorded, Search},
    state::State,
};
use crate::{
    bisect::history::Repository,
    coin::Coin,
    compare::Rules,
    measure::now,
    scenario::{Scenario, list_of},
    series::levels::{Step, taken_back},
    shell::quoted,
    shown::{shown, shown_lines},
};

/// The result of the search for the commit of a change.
#[derive(Debug)]
struct Located {
    found: Found,
    /// The commits that the proof compares.
    pair: [String; 2],
    /// What the other commits of the search do together, if they certainly change the cost the other way.
    rest: Option<Rest>,
    /// Why the search failed, if it did.
    failure: Option<String>,
}

/// The number of attempts to look into an alarm. What the last one does not find is given up, so that a series goes on
/// whose commits can no longer be run.
const ATTEMPTS: usize = 3;

impl<'a> Series<'a> {
    /// Searches for the commit of a change, proves the change again, and reports an alert if the proof confirms the
    /// change. Counts the alert in `alerts` once it is recorded, even if `out` cannot be written to then.
    ///
    /// If the search or the proof fails, so does this function, up to the last attempt. The alarm stays open then, and
    /// the next call goes on with the verdicts of the search.
    pub(super) fn look_into(
        &mut self,
        alarm: &Alarm,
        state: &State,
        coin: &mut Coin,
        alerts: &mut usize,
        out: &mut impl Write,
    ) -> Result<()> {
        if let Err(error) = self.setting.builds.commit(&alarm.at) {
            interrupt::check()?;
            return self.close(alarm, None, format!("{error:#}"));
        }
        let mut located = self.locate(alarm, coin)?;
        if let Some(why) = &located.failure {
            self.give_up(alarm, &format!("the search failed: {why}"))?;
        }
        let mut proved = self.prove(&located.pair, alarm, coin)?;
        let fails =
            |proved: &Result<Proof, String>| !proved.as_ref().is_ok_and(|proof| proof.confirms(alarm.direction));
        let whole = [alarm.anchor.clone(), alarm.at.clone()];
        if fails(&proved) && located.pair != whole {
            // The search may have erred, but the change may still be there.
            let said = format!("the search ended at {}, and the proof did not confirm it", located.pair[1]);
            located = Located { found: Found::Nothing(said), pair: whole, rest: None, failure: None };
            proved = self.prove(&located.pair, alarm, coin)?;
        }
        let failed = fails(&proved);
        match proved {
            Ok(proof) if !failed => {
                let alert = self.alert(alarm, state, &located, &proof)?;
                alert.write(&self.alerts())?;
                self.close(alarm, Some(&proof), alert.title())?;
                *alerts += 1;
                self.call_the_user();
                let rest = alert.rest.as_ref().map_or_else(String::new, |rest| format!("; {rest}"));
                let line = format!("ALERT {}: {}; {}{rest}", alert.id, alert.title(), alert.conclusion.sentence);
                writeln!(out, "{}", shown(&line))?;
                Ok(out.flush()?)
            }
            Ok(proof) => {
                let said = format!("the proof measured {:.3} times, which confirms nothing", proof.outcome.ratio);
                let line = format!("unconfirmed: {said}");
                self.close(alarm, Some(&proof), said)?;
                self.say(&line, out)
            }
            Err(why) => {
                let line = format!("unconfirmed: {why}");
                self.close(alarm, None, why)?;
                self.say(&line, out)
            }
        }
    }

    /// Searches for the commit of a change, first among the commits where it seems to have begun. If most of the change
    /// is not found there, it may have begun earlier or be the sum of several, so all commits since the anchor are
    /// searched. The anchor is the commit beside which the others were measured.
    fn locate(&mut self, alarm: &Alarm, coin: &mut Coin) -> Result<Located> {
        let pair = |good: &str| [good.to_owned(), alarm.at.clone()];
        let located = |found, pair| Located { found, pair, rest: None, failure: None };
        if self.options.budget.is_zero() {
            let found = Found::Nothing("--budget 0 asks for no search".to_owned());
            return Ok(located(found, pair(&alarm.before)));
        }
        let begin = Instant::now();
        let whole = self.point_of(&alarm.at).map_or(0.0, |point| point.ratio.ln().abs());
        let mut said = "the branch was rebased".to_owned();
        let mut goods = vec![&alarm.before, &alarm.anchor];
        goods.dedup();
        for good in goods {
            if !is_ancestor(self.setting.builds, good, &alarm.at)? {
                continue;
            }
            let commits = self.commits();
            let (setting, budget) = (self.setting, self.options.budget);
            let recorded = Recorded { setting, alarm, ledger: &mut self.ledger, begin, budget };
            let Search { found, ratio, failure } = search::find(commits, recorded, good, self.rules, coin)?;
            let is_part = ratio.is_some_and(|ratio| ratio.ln().abs() < whole / 2.0);
            if is_part && *good != alarm.anchor {
                continue;
            }
            match found {
                Found::Commit(commit, rest) => {
                    let opposite = rest.map(|step| Rest::new(step, [good, &alarm.at]));
                    let parent = self.setting.builds.commit(&format!("{commit}^"))?;
                    let pair = [parent, commit.clone()];
                    return Ok(Located { pair, found: Found::Commit(commit, rest), rest: opposite, failure });
                }
                Found::Range(commits, why) => {
                    let last = commits.last().unwrap_or(&alarm.at).clone();
                    let pair = [good.clone(), last];
                    return Ok(Located { failure, ..located(Found::Range(commits, why), pair) });
                }
                Found::Gradual => return Ok(located(found, pair(good))),
                Found::Nothing(why) => said = why,
            }
        }
        let found = Found::Nothing(format!("the search failed: {said}"));
        Ok(located(found, pair(&alarm.anchor)))
    }

    fn commits(&self) -> Repository<'a> {
        Repository {
            builds: self.setting.builds,
            scenario: self.setting.scenario,
            values: self.setting.values,
            place: self.setting.place,
            counter: self.setting.counter,
            side_by_side: false,
            stages: BTreeMap::new(),
        }
    }

    /// Returns the last record of a measured commit.
    fn point_of(&self, commit: &str) -> Option<&Point> {
        self.ledger.records().iter().rev().find_map(|record| match record {
            Record::Point(point) if point.b.commit == commit => Some(&**point),
            _ => None,
        })
    }

    fn prove(&mut self, pair: &[String; 2], alarm: &Alarm, coin: &mut Coin) -> Result<Result<Proof, String>> {
        let folder = self.options.history.join("proof");
        let rules = Rules { pairs_max: 2 * self.rules.pairs_max, ..self.rules };
        let pair = [pair[0].as_str(), pair[1].as_str()];
        let repository = &self.options.repository;
        let proved = prove(self.setting, repository, &folder, pair, alarm.direction, rules, coin.bits())?;
        if let Err(why) = &proved {
            self.give_up(alarm, &format!("the proof failed: {why}"))?;
        }
        Ok(proved)
    }

    /// Gives up what failed, if this was the last attempt to look into the alarm. Otherwise, records the failure and
    /// fails, so that the alarm stays open.
    fn give_up(&mut self, alarm: &Alarm, why: &str) -> Result<()> {
        let of_alarm = |record: &&Record| matches!(record, Record::Failed(failed) if failed.number == alarm.number);
        let attempt = self.ledger.records().iter().filter(of_alarm).count() + 1;
        if attempt >= ATTEMPTS {
            return Ok(());
        }
        self.ledger.append(Record::Failed(Failed { number: alarm.number, time: now(), why: why.to_owned() }))?;
        bail!("{why} (attempt {attempt} of {ATTEMPTS}; the alarm stays open, and the next watch goes on with it)")
    }

    fn close(&mut self, alarm: &Alarm, proof: Option<&Proof>, said: String) -> Result<()> {
        let known = |bound: f64| bound.is_finite().then_some(bound);
        let outcome = proof.map(|proof| proof.outcome);
        let confirmed = proof.is_some_and(|proof| proof.confirms(alarm.direction));
        if !confirmed {
            alert::remove(&self.alerts(), &self.id(alarm.number))?;
        }
        self.ledger.append(Record::Closed(Closed {
            number: alarm.number,
            confirmed,
            ratio: outcome.map_or(1.0, |outcome| outcome.ratio),
            low: outcome.and_then(|outcome| known(outcome.interval.low)),
            high: outcome.and_then(|outcome| known(outcome.interval.high)),
            said,
        }))
    }

    /// Returns the folder of the alerts.
    fn alerts(&self) -> PathBuf {
        self.options.history.join("alerts")
    }

    /// Returns the name of the alert for the alarm with this number.
    fn id(&self, number: u32) -> String {
        format!("{}-{number}", self.stem)
    }

    fn alert(&self, alarm: &Alarm, state: &State, located: &Located, proof: &Proof) -> Result<Alert> {
        let named = |commit: &str| -> Result<Named> {
            Ok(Named { commit: commit.to_owned(), subject: self.setting.builds.subject(commit)? })
        };
        let [before, after] = [named(&located.pair[0])?, named(&located.pair[1])?];
        let (place, commits, why) = match &located.found {
            Found::Commit(commit, _) => (Place::Commit, vec![named(commit)?], String::new()),
            Found::Range(range, why) => {
                (Place::Range, range.iter().map(|commit| named(commit)).collect::<Result<_>>()?, why.clone())
            }
            Found::Gradual => (Place::Gradual, Vec::new(), "no single commit carries the change".to_owned()),
            Found::Nothing(why) => {
                let [good, bad] = &located.pair;
                let range = self.setting.builds.between(bad, std::slice::from_ref(good))?;
                let range: Vec<Named> = range.iter().map(|commit| named(commit)).collect::<Result<_>>()?;
                if range.len() == 1 {
                    (Place::Commit, range, String::new())
                } else {
                    (Place::Range, range, why.clone())
                }
            }
        };
        let outcome = proof.outcome;
        let known = |bound: f64| bound.is_finite().then_some(bound);
        let (low, high) = (outcome.interval.low, outcome.interval.high);
        let (level, present) = (state.level(&alarm.before), state.level(&alarm.at));
        let step = Step { level, ratio: outcome.ratio, low, high };
        let steps: Vec<Step> = state.steps.iter().map(|(_, step)| *step).chain([step]).collect();
        let takes_back = taken_back(&steps, present, self.rules.tolerance).map(|place| state.steps[place].0);
        Ok(Alert {
            version: alert::VERSION,
            id: self.id(alarm.number),
            time: now(),
            scenario: self.setting.scenario.name.clone(),
            parameters: self.setting.values.clone(),
            judge: self.rules.judge,
            direction: alarm.direction,
            place,
            commits,
            why,
            repeat: self.repeat(&located.pair, proof)?,
            before,
            after,
            ratio: outcome.ratio,
            low: known(outcome.interval.low),
            high: known(outcome.interval.high),
            runs: proof.runs,
            false_alarms: self.rules.rate,
            beside_reference: present,
            reference: state.start.reference.clone(),
            takes_back,
            rest: located.rest.clone(),
            conclusion: proof.conclusion.clone(),
            work: proof.work.clone(),
            alarm: alarm.clone(),
            machine: self.machine.about.clone(),
            lab: env!("CARGO_PKG_VERSION").to_owned(),
        })
    }

    /// Returns a command that repeats the comparison of the proof.
    fn repeat(&self, [a, b]: &[String; 2], proof: &Proof) -> Result<String> {
        let scenario = &self.setting.scenario.name;
        let named =
            self.options.scenario.iter().find(|name| {
                Path::new(name).file_stem().is_some_and(|stem| stem.to_string_lossy() == scenario.as_str())
            });
        // The command is for any folder, because alerts are read elsewhere.
        let whole = |path: &Path| -> Result<String> { Ok(quoted(&absolute(path)?.to_string_lossy())) };
        let named = named.unwrap_or(scenario);
        let file = if Scenario::is_shipped(named) { named.clone() } else { whole(Path::new(named))? };
        let mut command = format!("refdb-lab run {file} --revisions {} {a},{b}", whole(&self.options.repository)?);
        for (name, value) in self.setting.values {
            write!(command, " --parameter-list {name} {}", quoted(&list_of(value)))?;
        }
        let Rules { rate, tolerance, pairs_max, judge } = self.rules;
        write!(command, " --judge {} --false-alarms {rate} --tolerance {tolerance}", judge.name())?;
        write!(command, " --runs-max {} --seed {}", 2 * pairs_max, proof.seed)?;
        Ok(command)
    }

    /// Calls the user's command for each alert for which it was not called yet. An error is only printed: a command
    /// that failed is not called again, and one that could not be started is tried at the next call.
    pub(super) fn call_the_user(&self) {
        let Some(command) = &self.options.notify else { return };
        for record in self.ledger.records() {
            let Record::Closed(Closed { number, confirmed: true, .. }) = record else { continue };
            if let Err(error) = notify(command, &self.options.history, &self.id(*number)) {
                eprintln!("refdb-lab: {}", shown_lines(&format!("{error:#}")));
            }
        }
    }
}
