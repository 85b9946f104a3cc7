//! Follows one series: measures what is due, and looks into what the bets find.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    io::Write,
    path::Path,
    time::{Instant, SystemTime},
};

use anyhow::{Context, Result, bail, ensure};
use refdb_vfs::interrupt;

use super::{
    alert::{self, Alert, Named, Place, quoted, short},
    branch::{Branch, is_ancestor},
    ledger::{Ledger, hash, stem},
    notify::notify,
    options::WatchOptions,
    proof::{Proof, prove},
    record::{Alarm, Anchor, Broken, Closed, Half, Machine, Point, Record, Start, VERSION},
    rounds::{Rounds, Setting, Sides},
    search::{self, Found},
    state::{State, beside_reference},
};
use crate::{
    bisect::history::Repository,
    coin::Coin,
    compare::{Comparison, Rules, outcome},
    scenario::{Scenario, describe},
    series::{
        detector::Change,
        levels::{Step, taken_back},
    },
};

/// A series that is watched.
#[derive(Debug)]
pub struct Series<'a> {
    options: &'a WatchOptions,
    setting: Setting<'a>,
    rules: Rules,
    machine: Machine,
    stem: String,
    ledger: Ledger,
}

/// What one call of [`Series::advance`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Advance {
    /// The number of alerts that were reported.
    pub alerts: usize,
    /// Whether nothing is left to do until the branch has new commits.
    pub is_done: bool,
}

/// What a change turned out to be.
#[derive(Debug)]
struct Located {
    found: Found,
    /// The commits that the proof compares.
    pair: [String; 2],
}

impl<'a> Series<'a> {
    /// Opens the file of a series, and begins it if it is new.
    ///
    /// # Errors
    ///
    /// Fails if the file is invalid, or was begun with another scenario, reference or rate.
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
            None => ledger.append(Record::Start(start))?,
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

    /// Does the next thing: looks into an alarm, or measures the next commit.
    ///
    /// # Errors
    ///
    /// Fails if the anchor cannot be run, the branch has nothing in common with what was measured, a file cannot be
    /// written, or a signal arrives. What was recorded stays, and the next call goes on there.
    pub fn advance(&mut self, branch: &Branch<'_>, coin: &mut Coin, out: &mut impl Write) -> Result<Advance> {
        self.call_the_user();
        // Each build in use takes a file descriptor, of which a watch over many commits would run out.
        self.setting.builds.release();
        let mut state = State::of(self.ledger.records(), &self.machine.id)?;
        if let Some(alarm) = state.open.clone() {
            let alerts = usize::from(self.look_into(&alarm, &state, coin, out)?);
            return Ok(Advance { alerts, is_done: false });
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
            return Ok(Advance { alerts: 0, is_done: false });
        }
        let due = state.due(&line.commits, self.options.every as usize, |commit| line.is_new(commit));
        let Some(commit) = due.first() else { return Ok(Advance { alerts: 0, is_done: true }) };
        self.measure(commit, &state, lives, coin, out)?;
        Ok(Advance { alerts: 0, is_done: false })
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
                writeln!(out, "{}: {} cannot be measured: {why}", self.name(), short(commit))?;
                self.ledger.append(Record::Broken(Broken { time: now(), commit: commit.to_owned(), why }))?;
            }
            Ok(rounds) => {
                let point = self.point(sides, rounds)?;
                writeln!(
                    out,
                    "{}: {} takes {:.3} times the {} of {} ({} runs a side)",
                    self.name(),
                    short(commit),
                    point.ratio,
                    self.rules.judge.words(),
                    short(&state.anchor),
                    point.b.runs.len(),
                )?;
                self.ledger.append(Record::Point(Box::new(point)))?;
            }
        }
        out.flush()?;
        Ok(())
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

    /// Chooses another anchor after the branch was rebased: the last measured commit that it still has.
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
        let why = format!("the branch no longer has {}", state.anchor);
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
        writeln!(out, "{}: the cost changed between {} and {}", self.name(), short(&before), short(&at))?;
        self.ledger.append(Record::Alarm(Alarm {
            number: state.number,
            time: now(),
            direction: change.direction,
            anchor: state.anchor.clone(),
            before,
            first,
            at,
        }))
    }

    /// Searches for the commit of a change, proves the change again, and reports it if that succeeds. Returns whether
    /// it does.
    fn look_into(&mut self, alarm: &Alarm, state: &State, coin: &mut Coin, out: &mut impl Write) -> Result<bool> {
        if let Err(error) = self.setting.builds.commit(&alarm.at) {
            interrupt::check()?;
            self.close(alarm, None, format!("{error:#}"))?;
            return Ok(false);
        }
        let mut located = self.locate(alarm, coin)?;
        let mut proved = self.prove(&located.pair, alarm, coin)?;
        let fails =
            |proved: &Result<Proof, String>| !proved.as_ref().is_ok_and(|proof| proof.confirms(alarm.direction));
        if fails(&proved) && matches!(located.found, Found::Commit(_)) {
            // The search may have erred, but the change may still be there.
            let said = format!("the search named {}, and the proof did not confirm it", located.pair[1]);
            located = Located { found: Found::Nothing(said), pair: [alarm.anchor.clone(), alarm.at.clone()] };
            proved = self.prove(&located.pair, alarm, coin)?;
        }
        let failed = fails(&proved);
        match proved {
            Ok(proof) if !failed => {
                let alert = self.alert(alarm, state, &located, &proof)?;
                alert.write(&self.options.history.join("alerts"))?;
                self.close(alarm, Some(&proof), alert.title())?;
                writeln!(out, "ALERT {}: {}; {}", alert.id, alert.title(), alert.conclusion.sentence)?;
                out.flush()?;
                self.call_the_user();
                Ok(true)
            }
            Ok(proof) => {
                let said = format!("the proof measured {:.3} times, which confirms nothing", proof.outcome.ratio);
                writeln!(out, "{}: unconfirmed: {said}", self.name())?;
                self.close(alarm, Some(&proof), said)?;
                Ok(false)
            }
            Err(why) => {
                writeln!(out, "{}: unconfirmed: {why}", self.name())?;
                self.close(alarm, None, why)?;
                Ok(false)
            }
        }
    }

    /// Searches for the commit of a change: first where it seems to have begun, and then from the anchor on, because
    /// it may have begun earlier, or be the sum of several.
    fn locate(&self, alarm: &Alarm, coin: &mut Coin) -> Result<Located> {
        let pair = |good: &str| [good.to_owned(), alarm.at.clone()];
        if self.options.budget.is_zero() {
            let found = Found::Nothing("--budget 0 asks for no search".to_owned());
            return Ok(Located { found, pair: pair(&alarm.before) });
        }
        let end = Instant::now() + self.options.budget;
        let whole = self.point_of(&alarm.at).map_or(0.0, |point| point.ratio.ln().abs());
        let mut said = "the branch was rebased".to_owned();
        for good in [&alarm.before, &alarm.anchor] {
            if !is_ancestor(self.setting.builds, good, &alarm.at)? {
                continue;
            }
            let (found, ratio) = search::find(self.commits(), good, &alarm.at, self.rules, end, coin)?;
            let is_part = ratio.is_some_and(|ratio| ratio.ln().abs() < whole / 2.0);
            if is_part && *good != alarm.anchor {
                continue;
            }
            match found {
                Found::Commit(commit) => {
                    let parent = self.setting.builds.commit(&format!("{commit}^"))?;
                    return Ok(Located { pair: [parent, commit.clone()], found: Found::Commit(commit) });
                }
                Found::Range(commits, why) => {
                    let last = commits.last().unwrap_or(&alarm.at).clone();
                    return Ok(Located { pair: [good.clone(), last], found: Found::Range(commits, why) });
                }
                Found::Gradual => return Ok(Located { found, pair: pair(good) }),
                Found::Nothing(why) => said = why,
            }
        }
        let found = Found::Nothing(format!("the search failed: {said}"));
        Ok(Located { found, pair: pair(&alarm.anchor) })
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

    fn prove(&self, pair: &[String; 2], alarm: &Alarm, coin: &mut Coin) -> Result<Result<Proof, String>> {
        let folder = self.options.history.join("proof");
        let rules = Rules { pairs_max: 2 * self.rules.pairs_max, ..self.rules };
        let pair = [pair[0].as_str(), pair[1].as_str()];
        prove(self.setting, &self.options.repository, &folder, pair, alarm.direction, rules, coin.bits())
    }

    fn close(&mut self, alarm: &Alarm, proof: Option<&Proof>, said: String) -> Result<()> {
        let known = |bound: f64| bound.is_finite().then_some(bound);
        let outcome = proof.map(|proof| proof.outcome);
        self.ledger.append(Record::Closed(Closed {
            number: alarm.number,
            confirmed: proof.is_some_and(|proof| proof.confirms(alarm.direction)),
            ratio: outcome.map_or(1.0, |outcome| outcome.ratio),
            low: outcome.and_then(|outcome| known(outcome.interval.low)),
            high: outcome.and_then(|outcome| known(outcome.interval.high)),
            said,
        }))
    }

    fn alert(&self, alarm: &Alarm, state: &State, located: &Located, proof: &Proof) -> Result<Alert> {
        let named = |commit: &str| -> Result<Named> {
            Ok(Named { commit: commit.to_owned(), subject: self.setting.builds.subject(commit)? })
        };
        let [before, after] = [named(&located.pair[0])?, named(&located.pair[1])?];
        let (place, commits, why) = match &located.found {
            Found::Commit(commit) => (Place::Commit, vec![named(commit)?], String::new()),
            Found::Range(range, why) => {
                (Place::Range, range.iter().map(|commit| named(commit)).collect::<Result<_>>()?, why.clone())
            }
            Found::Gradual => (Place::Gradual, Vec::new(), "no single commit carries the change".to_owned()),
            Found::Nothing(why) => {
                let [good, bad] = &located.pair;
                let range = self.setting.builds.suspects(bad, std::slice::from_ref(good))?;
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
        let step = Step { ratio: outcome.ratio, low: outcome.interval.low, high: outcome.interval.high };
        let steps: Vec<Step> = state.steps.iter().map(|(_, step)| *step).chain([step]).collect();
        let takes_back = taken_back(&steps, self.rules.tolerance).map(|place| state.steps[place].0);
        Ok(Alert {
            version: alert::VERSION,
            id: format!("{}-{}", self.stem, alarm.number),
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
            beside_reference: self.point_of(&alarm.at).map_or(Ok(1.0), beside_reference)?,
            reference: state.start.reference.clone(),
            takes_back,
            conclusion: proof.conclusion.clone(),
            work: proof.work.clone(),
            alarm: alarm.clone(),
            machine: self.machine.about.clone(),
            lab: env!("CARGO_PKG_VERSION").to_owned(),
        })
    }

    /// Returns the command that repeats the proof.
    fn repeat(&self, [a, b]: &[String; 2], proof: &Proof) -> Result<String> {
        let scenario = &self.setting.scenario.name;
        let named =
            self.options.scenario.iter().find(|name| {
                Path::new(name).file_stem().is_some_and(|stem| stem.to_string_lossy() == scenario.as_str())
            });
        let mut command = format!(
            "refdb-lab run {} --revisions {} {a},{b}",
            quoted(named.unwrap_or(scenario)),
            quoted(&self.options.repository.to_string_lossy()),
        );
        for (name, value) in self.setting.values {
            write!(command, " --parameter-list {name} {}", quoted(value))?;
        }
        let most = 2 * self.rules.pairs_max;
        write!(command, " --judge {} --runs-max {most} --seed {}", self.rules.judge.name(), proof.seed)?;
        Ok(command)
    }

    /// Calls the user's command for each alert for which it was not called yet. A failure is only reported, because
    /// the command is not called again.
    fn call_the_user(&self) {
        let Some(command) = &self.options.notify else { return };
        for record in self.ledger.records() {
            let Record::Closed(Closed { number, confirmed: true, .. }) = record else { continue };
            if let Err(error) = notify(command, &self.options.history, &format!("{}-{number}", self.stem)) {
                eprintln!("refdb-lab: {error:#}");
            }
        }
    }
}

/// Returns a hash of everything in a scenario that affects results, except the parameters and the measure.
fn recipe(scenario: &Scenario) -> String {
    let texts = [&scenario.build, &scenario.setup, &scenario.prepare, &scenario.command, &scenario.check];
    let cases = format!("{:?}{}", scenario.cases, scenario.automatic_maintenance);
    let all: Vec<&[u8]> = texts.into_iter().chain([&cases]).map(String::as_bytes).collect();
    format!("{:016x}", hash(&all.join(&0)))
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

/// Returns the time in seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_secs())
}
