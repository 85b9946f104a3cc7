//! Runs a search: compares the good commit with the bad one, judges commits between them, and then compares the first
//! bad commit with its parent.

use anyhow::{Result, ensure};

use super::state::{Answer, End, Next, State, judge, rate_of};
use crate::{
    coin::Coin,
    compare::{Rules, Which, compare, pair},
    measure::Sample,
    stats::{self, Interval, Odds, interval, is_above, is_below, mirrored},
};

/// A source of the commits of a search, and of their costs.
pub trait Commits {
    /// Returns the commits that `bad` has and none of `goods` has, the most informative first. `bad` itself is among
    /// them.
    fn suspects(&mut self, bad: &str, goods: &[String]) -> Result<Vec<String>>;

    /// Returns the first parent of a commit.
    fn parent(&mut self, commit: &str) -> Result<String>;

    /// Builds a commit and sets it up, so that it can be run in turn with the commit `beside`. Only these two need to
    /// stay ready. The inner error is the reason why the commit cannot be judged.
    fn prepare(&mut self, commit: &str, beside: Option<&str>) -> Result<Result<(), String>>;

    /// Runs a commit that was prepared.
    fn sample(&mut self, commit: &str) -> Result<Sample>;

    /// Runs two commits that were prepared, in the order that the coin decides, or at the same time.
    fn both(&mut self, commits: [&str; 2], coin: &mut Coin) -> Result<[Sample; 2]> {
        pair(coin, |which| self.sample(commits[usize::from(which == Which::B)]))
    }

    /// Returns sentences that describe how the work and the instructions of two prepared commits differ.
    fn work(&mut self, _a: &str, _b: &str) -> Result<Vec<String>> {
        Ok(Vec::new())
    }

    /// Receives the verdict on a commit, and the number of runs of each side that the verdict took.
    fn hear(&mut self, _commit: &str, _answer: &Answer, _runs: usize) {}
}

/// The difference between the costs of two commits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// The cost of the second commit divided by that of the first: the median of all pairs.
    pub ratio: f64,
    /// The confidence interval of the ratio.
    pub interval: Interval,
}

/// The result of a search.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// The difference between the good commit and the bad one.
    pub whole: Step,
    /// How the search ended.
    pub end: End,
    /// The difference between the parent of the first bad commit and that commit, if there is one and the parent can
    /// be run.
    pub step: Option<Step>,
    /// Sentences about how the work and the instructions of the first bad commit and its parent differ.
    pub work: Vec<String>,
    /// Whether [`Found::step`] is certainly less than half of the whole difference, so that other commits account for
    /// the rest.
    pub gradual: bool,
    /// The commits that were judged.
    pub judged: Vec<Judged>,
}

/// A commit that was judged.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// The id of the commit.
    pub commit: String,
    /// The verdict on the commit.
    pub answer: Answer,
    /// The number of runs of each side that the verdict took.
    pub runs: usize,
}

/// A search in progress.
struct Search<'a, C> {
    commits: &'a mut C,
    rules: Rules,
    coin: &'a mut Coin,
    /// The number of verdicts so far.
    verdicts: u32,
}

/// Searches for the first commit that is slower than `good`, or faster if `bad` is faster. The result is wrong in at
/// most `rules.rate` of all searches.
pub fn search<C: Commits>(commits: &mut C, good: &str, bad: &str, rules: Rules, coin: &mut Coin) -> Result<Found> {
    let mut search = Search { commits, rules, coin, verdicts: 0 };
    for (end, beside) in [(good, None), (bad, Some(good))] {
        search.commits.prepare(end, beside)?.map_err(|why| anyhow::anyhow!("{end} cannot be judged: {why}"))?;
    }
    let odds = search.next_odds();
    let enough = |known: &[f64]| {
        let least = stats::centre(known).abs() / 2.0;
        least > 0.0 && (is_above(known, least, &odds) || is_below(known, -least, &odds))
    };
    let whole = search.differences(good, bad, enough)?;
    let known = interval(&whole, &odds);
    ensure!(
        known.low > 0.0 || known.high < 0.0,
        "good and bad cannot be told apart in {} runs of each: there is nothing to search for",
        whole.len()
    );
    // A search for the first faster commit is the same search with all signs reversed.
    let direction = if known.low > 0.0 { 1.0 } else { -1.0 };
    let slowdown = stats::centre(&whole) * direction;
    let (end, judged) = search.narrow(good, bad, slowdown, direction)?;
    let mut found = Found { whole: step(&whole, &odds), end, step: None, work: Vec::new(), gradual: false, judged };
    match &found.end {
        End::First(first) => {
            let first = first.clone();
            search.look_at_step(&first, slowdown, direction, &mut found)?;
        }
        End::Gradual(_) => found.gradual = true,
        End::Range(_) => {}
    }
    Ok(found)
}

fn step(differences: &[f64], odds: &Odds) -> Step {
    Step { ratio: stats::centre(differences).exp(), interval: interval(differences, odds).of_ratio() }
}

impl<C: Commits> Search<'_, C> {
    fn next_odds(&mut self) -> Odds {
        self.verdicts += 1;
        Odds::new(rate_of(self.verdicts, self.rules.rate), self.rules.pairs_max)
    }

    /// Returns logarithms of the ratios of `b` to `a`, measured until `enough` returns `true` or the maximum is
    /// reached.
    fn differences(&mut self, a: &str, b: &str, enough: impl Fn(&[f64]) -> bool) -> Result<Vec<f64>> {
        let (most, commits) = (self.rules.pairs_max, &mut *self.commits);
        let settled = |known: &[f64]| known.len() >= most || enough(known);
        Ok(compare(self.rules.judge, self.coin, settled, |coin| commits.both([a, b], coin))?.differences)
    }

    fn narrow(&mut self, good: &str, bad: &str, slowdown: f64, direction: f64) -> Result<(End, Vec<Judged>)> {
        let (mut state, mut judged) = (State::new(good.to_owned(), bad.to_owned()), Vec::new());
        loop {
            let suspects = self.commits.suspects(&state.bad, &state.goods)?;
            let commit = match state.next(&suspects) {
                Next::Try(commit) => commit,
                Next::Over(end) => return Ok((end, judged)),
            };
            let (answer, runs) = self.answer(good, &commit, slowdown, direction)?;
            self.commits.hear(&commit, &answer, runs);
            state.learn(commit.clone(), answer.clone());
            judged.push(Judged { commit, answer, runs });
        }
    }

    /// Judges a commit in comparison with the good one.
    fn answer(&mut self, good: &str, commit: &str, slowdown: f64, direction: f64) -> Result<(Answer, usize)> {
        if let Err(why) = self.commits.prepare(commit, Some(good))? {
            return Ok((Answer::Skipped(why), 0));
        }
        let odds = self.next_odds();
        let said = |known: &[f64]| judge(&mirrored(known, direction), slowdown, &odds);
        let differences = self.differences(good, commit, |known| said(known).is_some())?;
        Ok((said(&differences).unwrap_or(Answer::Unsure), differences.len()))
    }

    /// Compares the first bad commit with its parent, and records in `found` whether it accounts for less than half of
    /// the slowdown.
    fn look_at_step(&mut self, first: &str, slowdown: f64, direction: f64, found: &mut Found) -> Result<()> {
        let parent = self.commits.parent(first)?;
        for (commit, name, beside) in [(parent.as_str(), "its parent", None), (first, "it", Some(parent.as_str()))] {
            if let Err(why) = self.commits.prepare(commit, beside)? {
                found.work.push(format!("{name} cannot be run now: {why}"));
                return Ok(());
            }
        }
        let odds = self.next_odds();
        let half = slowdown / 2.0;
        let more = |known: &[f64]| is_above(&mirrored(known, direction), half, &odds);
        let less = |known: &[f64]| is_below(&mirrored(known, direction), half, &odds);
        let differences = self.differences(&parent, first, |known| more(known) || less(known))?;
        found.step = Some(step(&differences, &odds));
        found.gradual = less(&differences);
        found.work = self.commits.work(&parent, first)?;
        Ok(())
    }
}
