//! Implements `refdb-lab watch`, which measures the commits of a branch as they come, and says which of them changed
//! the cost of a scenario.
//!
//! [`record`] and [`ledger`] are the history on the disk, [`state`] derives from it what to do next, and [`branch`]
//! lists commits. [`rounds`] measures one commit, and [`follow`] a whole series. When the bets of [`crate::series`]
//! find a change, [`inquiry`] looks into it: [`search`] finds its commit, [`proof`] measures it again, and
//! [`conclusion`] says what it is. [`alert`] is the report, and [`mod@notify`] calls the user's command.

pub mod alert;
pub mod branch;
pub mod conclusion;
pub mod follow;
pub mod inquiry;
pub mod ledger;
pub mod notify;
pub mod proof;
pub mod record;
pub mod rounds;
pub mod search;
pub mod state;

use std::{
    collections::BTreeMap,
    fs::{self, DirBuilder},
    io::Write,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use refdb_vfs::interrupt;

use crate::{
    coin::Coin,
    counter::Counter,
    emulator,
    gate::machine,
    options::watch::WatchOptions,
    progress::progress,
    revision::Builds,
    scenario::{Scenario, Values},
    shown::shown_lines,
};
use branch::Branch;
use follow::Series;
use rounds::{Setting, hardware};

/// The exit status of a watch that reported an alert.
const ALERTED: u8 = 3;

/// A scenario with everything that its series have in common.
struct Prepared {
    scenario: Scenario,
    builds: Builds,
    combinations: Vec<Values>,
}

/// Measures the new commits of the branch, and writes what it finds to `out` and to the history. Returns the exit
/// status: 0, or 3 if there was an alert.
///
/// # Errors
///
/// Fails, for example, if an option or the history is invalid, the history cannot be written, another watch uses it,
/// or a signal arrives. With `--interval`, a series that cannot be measured is tried again. Without it, the function
/// fails then, unless there was an alert: a status of 3 must not be hidden by such a failure, which is written to
/// standard error instead.
pub fn run(options: &WatchOptions, out: &mut impl Write) -> Result<u8> {
    let _lock = ledger::lock(&options.history)?;
    let cache = options.cache.cache()?;
    let place = Place::make(options)?;
    let prepared = prepare(options, &cache)?;
    let mut series = open(options, &prepared, &cache, &place.folder)?;
    let mut coin = options.seed.map_or_else(Coin::unforeseen, Coin::new);
    let mut alerts = 0;
    loop {
        let passed = pass(options, &prepared, &mut series, &mut coin, &mut alerts, out);
        progress("");
        interrupt::check()?;
        match passed {
            Err(error) if options.interval.is_none() && alerts == 0 => return Err(error),
            Err(error) => complain(&error),
            Ok(()) => {}
        }
        let Some(interval) = options.interval else { break };
        pause(interval)?;
    }
    Ok(if alerts > 0 { ALERTED } else { 0 })
}

/// The folder in which the runs of one history happen. It is removed when this value is dropped. If a watch was
/// killed, the next one of the same history and place removes the folder, so that memory does not fill up.
struct Place {
    folder: PathBuf,
}

impl Place {
    fn make(options: &WatchOptions) -> Result<Place> {
        let memory = Path::new("/dev/shm");
        let usual = || if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let history = fs::canonicalize(&options.history)?;
        let name = format!("refdb-lab.watch.{:016x}", ledger::hash(history.as_os_str().as_encoded_bytes()));
        let place = Place { folder: options.place.clone().unwrap_or_else(usual).join(name) };
        place.remove();
        let parent = place.folder.parent().map_or(Ok(()), fs::create_dir_all);
        // What runs there must not be another user's, so a folder that is there already is not used.
        let made = parent.and_then(|()| DirBuilder::new().mode(0o700).create(&place.folder));
        made.with_context(|| format!("cannot make '{}'", place.folder.display()))?;
        Ok(place)
    }

    fn remove(&self) {
        // What cannot be removed now is left to the next watch.
        fs::remove_dir_all(&self.folder).ok();
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.remove();
    }
}

fn prepare(options: &WatchOptions, cache: &Path) -> Result<Vec<Prepared>> {
    let prepared = |scenario: Scenario| {
        let builds = Builds::new(&options.repository, cache, &scenario)?;
        Ok(Prepared { combinations: scenario.combinations(), builds, scenario })
    };
    options.scenarios()?.into_iter().map(prepared).collect()
}

/// Opens the series of all scenarios and parameters.
fn open<'a>(
    options: &'a WatchOptions,
    prepared: &'a [Prepared],
    cache: &'a Path,
    place: &'a Path,
) -> Result<Vec<Series<'a>>> {
    let mut series: Vec<Series<'a>> = Vec::new();
    for Prepared { scenario, builds, combinations } in prepared {
        let rules = options.rules(scenario)?;
        let counter = Counter::find(rules.judge);
        let about = about(counter, options);
        for values in combinations {
            let setting = Setting {
                scenario,
                values,
                builds,
                place,
                cache,
                counter,
                judge: rules.judge,
                runs_max: options.runs_max,
            };
            let one = Series::open(options, setting, rules, about.clone())?;
            ensure!(!series.iter().any(|known| known.stem() == one.stem()), "two series are called {}", one.stem());
            series.push(one);
        }
    }
    Ok(series)
}

/// Returns the properties of this machine that must be the same for records to be comparable.
fn about(counter: Counter, options: &WatchOptions) -> BTreeMap<String, String> {
    let tool = match counter {
        Counter::Emulator => emulator::version().unwrap_or_default(),
        Counter::Processor => "perf".to_owned(),
        Counter::Nothing => "none".to_owned(),
    };
    let more: Vec<(String, String)> = hardware().into_iter().chain(options.with.iter().cloned()).collect();
    machine::find(&tool, &more)
}

/// Measures all commits that are due, in all series, reports what was found, and adds the number of alerts to `alerts`.
/// A series that fails does not keep the others from being measured.
fn pass(
    options: &WatchOptions,
    prepared: &[Prepared],
    series: &mut [Series<'_>],
    coin: &mut Coin,
    alerts: &mut usize,
    out: &mut impl Write,
) -> Result<()> {
    let builds = &prepared.first().context("there is no scenario")?.builds;
    if options.fetch {
        // One remote that is away must not keep the commits at hand from being measured.
        if let Err(error) = branch::fetch(&mut builds.git()) {
            interrupt::check()?;
            complain(&error.context("the watch goes on with the commits at hand"));
        }
    }
    let branch = Branch::find(builds, &options.branch, options.all_commits)?;
    let mut failed: BTreeMap<usize, anyhow::Error> = BTreeMap::new();
    let mut is_over = false;
    while !is_over {
        is_over = true;
        // A commit at a time in every series, so that no series waits for all of another one.
        for (number, one) in series.iter_mut().enumerate() {
            if failed.contains_key(&number) {
                continue;
            }
            match one.advance(&branch, coin, alerts, out) {
                Ok(is_done) => is_over &= is_done,
                Err(error) => {
                    interrupt::check()?;
                    failed.insert(number, error.context(one.name()));
                }
            }
        }
    }
    let Some((_, last)) = failed.pop_last() else { return Ok(()) };
    failed.values().for_each(complain);
    Err(last)
}

/// Writes an error to standard error.
fn complain(error: &anyhow::Error) {
    eprintln!("refdb-lab: {}", shown_lines(&format!("{error:#}")));
}

/// Waits, unless a signal arrives.
fn pause(time: Duration) -> Result<()> {
    let start = Instant::now();
    while start.elapsed() < time {
        interrupt::check()?;
        sleep(Duration::from_millis(100).min(time));
    }
    Ok(())
}
