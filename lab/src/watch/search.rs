//! Searches for the commit that made a change, within a budget of time.

use std::{fmt, time::Instant};

use anyhow::{Result, bail};
use refdb_vfs::interrupt;

use crate::{
    bisect::{
        history::Repository,
        rounds::Step,
        search::{Commits, search},
        state::{Answer, End},
    },
    coin::Coin,
    compare::Rules,
    measure::Sample,
};

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
    end: Instant,
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
        if Instant::now() >= self.end {
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
        self.commits.prepare(commit, beside)
    }

    fn sample(&mut self, commit: &str) -> Result<Sample> {
        self.commits.sample(commit)
    }

    fn both(&mut self, commits: [&str; 2], coin: &mut Coin) -> Result<[Sample; 2]> {
        self.check()?;
        self.commits.both(commits, coin)
    }

    fn hear(&mut self, commit: &str, answer: &Answer, runs: usize) {
        self.commits.hear(commit, answer, runs);
    }
}

/// Searches for the commit between `good` and `bad` that made the change, until `end`. Returns with it the ratio of
/// `bad` to `good`, unless the search failed or its time was over. The work of both sides is not compared, since the
/// proof does that.
///
/// # Errors
///
/// Fails if a signal arrives, or if git cannot list the commits that are left at `end`. Any other failure of the
/// search is [`Found::Nothing`].
pub fn find(
    commits: Repository<'_>,
    good: &str,
    bad: &str,
    rules: Rules,
    end: Instant,
    coin: &mut Coin,
) -> Result<(Found, Option<f64>)> {
    let mut hurried = Hurried { commits, end, bad: bad.to_owned(), goods: vec![good.to_owned()] };
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
            Ok((place, Some(found.whole.ratio)))
        }
        Err(error) if error.is::<Over>() => {
            let left = hurried.commits.between(&hurried.bad, &hurried.goods)?;
            if left.len() == 1 {
                return Ok((Found::Commit(hurried.bad, None), None));
            }
            Ok((Found::Range(left, Over.to_string()), None))
        }
        Err(error) => Ok((Found::Nothing(format!("{error:#}")), None)),
    }
}
