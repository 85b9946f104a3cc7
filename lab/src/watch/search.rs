//! Searches for the commit that made a change, within a budget of time.

use std::{
    fmt,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};
use refdb_vfs::interrupt;

use super::{
    ledger::Ledger,
    record::{Alarm, Judged, Record},
    rounds::Setting,
};
use crate::{
    bisect::{
        history::Repository,
        rounds::Step,
        search::{self, Alike, Commits, Known, search},
        state::End,
    },
    coin::Coin,
    compare::Rules,
    measure::Sample,
};

/// The end of a search.
#[derive(Debug, Clone, PartialEq)]
pub struct Search {
    /// What the search found, or what is left of the commits if the search failed or its time was over.
    pub found: Found,
    /// The ratio of the bad commit to the good one, unless the search failed or its time was over.
    pub ratio: Option<f64>,
    /// Why the search failed, for example because a command did. Another attempt may succeed.
    pub failure: Option<String>,
}

/// A search for the commit of an alarm, whose verdicts are recorded, so that another one goes on with them.
#[derive(Debug)]
pub struct Recorded<'a> {
    /// What runs are made of.
    pub setting: Setting<'a>,
    /// The alarm. Its commit `at` is the bad one.
    pub alarm: &'a Alarm,
    /// Where the verdicts are recorded.
    pub ledger: &'a mut Ledger,
    /// When this process began to search.
    pub begin: Instant,
    /// The time that the search may take, that of earlier attempts included.
    pub budget: Duration,
}

impl Recorded<'_> {
    /// Returns the recorded verdicts of the searches for this alarm.
    fn verdicts(&self) -> impl Iterator<Item = &Judged> {
        self.ledger.records().iter().filter_map(|record| match record {
            Record::Judged(judged) if judged.number == self.alarm.number => Some(judged),
            _ => None,
        })
    }

    /// Returns what is known about the commits after this good one.
    fn known(&self, good: &str) -> Known {
        let verdicts = || self.verdicts().filter(|judged| judged.good == good);
        let answers = verdicts().map(|judged| (judged.commit.clone(), judged.answer.clone())).collect();
        Known { answers, verdicts: verdicts().last().map_or(0, |judged| judged.verdicts) }
    }

    /// Returns the time that earlier attempts took, in seconds.
    fn spent(&self) -> u64 {
        self.verdicts().map(|judged| judged.seconds).max().unwrap_or_default()
    }
}

/// What a search found.
#[derive(Debug, Clone, PartialEq)]
pub enum Found {
    /// This commit made the change. The step is that of all other commits together, if it certainly goes the other way.
    Commit(String, Option<Step>),
    /// One of these commits made the change; the last is known to have it. The text says why no single one is named.
    Range(Vec<String>, String),
    /// Several commits made the change together.
    Gradual,
    /// No commit was found, for this reason.
    Nothing(String),
}

/// The commits of a search that ends when its time is over.
struct Hurried<'a> {
    commits: Repository<'a>,
    recorded: Recorded<'a>,
    good: &'a str,
    /// The time that earlier attempts took, in seconds.
    spent: u64,
    /// The earliest commit that is known to have the change.
    bad: String,
    /// Commits that are known to lack the change.
    goods: Vec<String>,
}

/// The error of a search whose time is over.
#[derive(Debug)]
struct Over;

impl fmt::Display for Over {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("the time of the search is over")
    }
}

impl std::error::Error for Over {}

impl Hurried<'_> {
    fn check(&self) -> Result<()> {
        if self.recorded.begin.elapsed().saturating_add(Duration::from_secs(self.spent)) >= self.recorded.budget {
            bail!(Over);
        }
        Ok(())
    }
}

impl Commits for Hurried<'_> {
    fn suspects(&mut self, bad: &str, goods: &[String]) -> Result<Vec<String>> {
        (self.bad, self.goods) = (bad.to_owned(), goods.to_vec());
        self.check()?;
        self.commits.suspects(bad, goods)
    }

    fn between(&mut self, bad: &str, goods: &[String]) -> Result<Vec<String>> {
        self.commits.between(bad, goods)
    }

    fn parent(&mut self, commit: &str) -> Result<Option<String>> {
        self.commits.parent(commit)
    }

    fn prepare(&mut self, commit: &str, beside: &[&str]) -> Result<Result<(), String>> {
        self.check()?;
        let ready = self.commits.prepare(commit, beside)?;
        if ready.is_err() {
            self.recorded.setting.check_room()?;
        }
        Ok(ready)
    }

    fn sample(&mut self, commit: &str) -> Result<Sample> {
        self.commits.sample(commit)
    }

    fn both(&mut self, commits: [&str; 2], coin: &mut Coin) -> Result<[Sample; 2]> {
        self.check()?;
        self.commits.both(commits, coin)
    }

    fn known(&mut self) -> Known {
        self.recorded.known(self.good)
    }

    fn hear(&mut self, judged: &search::Judged, verdicts: u32) -> Result<()> {
        self.commits.hear(judged, verdicts)?;
        self.recorded.ledger.append(Record::Judged(Judged {
            number: self.recorded.alarm.number,
            good: self.good.to_owned(),
            commit: judged.commit.clone(),
            answer: judged.answer.clone(),
            verdicts,
            seconds: self.spent + self.recorded.begin.elapsed().as_secs(),
        }))
    }
}

/// Searches for the commit after `good` that made the change of an alarm, until its time is over, and goes on with the
/// verdicts that are recorded already. The work of both sides is not compared, since the proof does that.
///
/// # Errors
///
/// Fails if a signal arrives, a disk is full, or git cannot list the commits that are left. Any other failure is
/// returned as [`Search::failure`].
pub fn find(
    commits: Repository<'_>,
    recorded: Recorded<'_>,
    good: &str,
    rules: Rules,
    coin: &mut Coin,
) -> Result<Search> {
    let bad = recorded.alarm.at.as_str();
    let (state, spent) = (recorded.known(good).state(good, bad), recorded.spent());
    let mut hurried = Hurried { commits, recorded, good, spent, bad: state.bad, goods: state.goods };
    let ended = search(&mut hurried, good, bad, rules, coin);
    interrupt::check()?;
    match ended {
        Ok(found) => {
            let place = match found.end {
                _ if found.gradual => Found::Gradual,
                End::First(commit) => Found::Commit(commit, found.rest),
                End::Range(commits) => Found::Range(commits, "the others cannot be judged".to_owned()),
                End::Gradual(_) => Found::Gradual,
            };
            Ok(Search { found: place, ratio: Some(found.whole.ratio), failure: None })
        }
        Err(error) if error.is::<Alike>() => {
            Ok(Search { found: Found::Nothing(error.to_string()), ratio: None, failure: None })
        }
        Err(error) => {
            // Before the stages are removed, which makes room.
            hurried.recorded.setting.check_room()?;
            let failure = (!error.is::<Over>()).then(|| format!("{error:#}"));
            let left = hurried.commits.between(&hurried.bad, &hurried.goods)?;
            let found = match left.as_slice() {
                [one] => Found::Commit(one.clone(), None),
                _ => Found::Range(left, failure.clone().unwrap_or_else(|| Over.to_string())),
            };
            Ok(Search { found, ratio: None, failure })
        }
    }
}
