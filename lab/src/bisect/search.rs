//! Runs a search: compares the good commit with the bad one, judges commits between them, and then compares the first
//! bad commit, if one was found, with its parent.

use std::fmt;

use anyhow::{Result, bail};

use super::{
    rounds::{Rounds, Step, Watch},
    state::{Answer, End, Next, State, judge, rate_of},
};
use crate::{
    coin::Coin,
    compare::{Comparison, Rules, Which, compare, pair},
    measure::Sample,
    stats::{self, Odds, interval, is_above, is_below},
};

/// A source of the commits of a search, and of their costs.
pub trait Commits {
    /// Returns the commits that `bad` has and none of `goods` has, the most informative first. `bad` itself is among
    /// them.
    fn suspects(&mut self, bad: &str, goods: &[String]) -> Result<Vec<String>>;

    /// Returns the same commits as [`Commits::suspects`] in the order of history, so that `bad` is the last.
    fn between(&mut self, bad: &str, goods: &[String]) -> Result<Vec<String>>;

    /// Returns the first parent of a commit, or `None` for a root commit.
    fn parent(&mut self, commit: &str) -> Result<Option<String>>;

    /// Builds a commit and sets it up, so that it can be run in turn with the commits `beside`. These are at most four,
    /// with or without the commit itself, and only they need to stay ready. The inner error is the reason why the
    /// commit cannot be judged.
    fn prepare(&mut self, commit: &str, beside: &[&str]) -> Result<Result<(), String>>;

    /// Runs a commit that was prepared.
    fn sample(&mut self, commit: &str) -> Result<Sample>;

    /// Runs two commits that were prepared, one after the other or at the same time. The coin decides which of them
    /// starts first.
    fn both(&mut self, commits: [&str; 2], coin: &mut Coin) -> Result<[Sample; 2]> {
        pair(coin, |which| self.sample(commits[usize::from(which == Which::B)]))
    }

    /// Returns sentences that describe how the work and the instructions of two prepared commits differ.
    fn work(&mut self, _a: &str, _b: &str) -> Result<Vec<String>> {
        Ok(Vec::new())
    }

    /// Returns what an earlier search between the same two commits found before it was interrupted.
    fn known(&mut self) -> Known {
        Known::default()
    }

    /// Receives the verdict on a commit, and the number of verdicts so far, including those of [`Commits::known`]. The
    /// search fails if this does.
    fn hear(&mut self, _judged: &Judged, _verdicts: u32) -> Result<()> {
        Ok(())
    }
}

/// What is left of a search that was interrupted.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Known {
    /// The commits that were judged, in order, with their verdicts.
    pub answers: Vec<(String, Answer)>,
    /// The number of verdicts up to the last of these. Further ones are counted from there, so that the rate of false
    /// alarms holds for all parts of the search together.
    pub verdicts: u32,
}

impl Known {
    /// Returns the knowledge of a search between `good` and `bad` that goes on from here.
    pub fn state(&self, good: &str, bad: &str) -> State {
        let mut state = State::new(good.to_owned(), bad.to_owned());
        self.answers.iter().for_each(|(commit, answer)| state.learn(commit.clone(), answer.clone()));
        state
    }
}

/// The error of a search whose ends cannot be told apart in this number of runs of each.
#[derive(Debug)]
pub struct Alike(usize);

impl fmt::Display for Alike {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "good and bad cannot be told apart in {} runs of each: there is nothing to search for", self.0)
    }
}

impl std::error::Error for Alike {}

/// The result of a search.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// The difference between the good commit and the bad one.
    pub whole: Step,
    /// How the search ended.
    pub end: End,
    /// The difference between the parent of the first bad commit and that commit. `None` if no single commit was found,
    /// if it has no parent, or if one of the two or an end of the search cannot be run.
    pub step: Option<Step>,
    /// Sentences about how the work and the instructions of the first bad commit and its parent differ, or the reason
    /// why the two could not be compared.
    pub work: Vec<String>,
    /// Whether the difference is spread over several commits: either [`Found::step`] is certainly less than half of the
    /// whole difference, or the search ended at a commit whose cost is between those of good and bad.
    pub gradual: bool,
    /// Whether [`Found::step`] is certainly more than half of the whole difference. If neither this nor
    /// [`Found::gradual`] is set, that is not known.
    pub most: bool,
    /// The difference that the other commits between good and bad make together, if it is certainly in the direction
    /// opposite to [`Found::whole`], so that the whole hides a part of the step.
    pub rest: Option<Step>,
    /// The commits that were judged, except those that were [`Known`] before.
    pub judged: Vec<Judged>,
    /// How the machine changed during the search.
    pub watch: Watch,
}

/// A commit that was judged.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// The id of the commit.
    pub commit: String,
    /// The verdict on the commit.
    pub answer: Answer,
    /// The number of runs of each end that the verdict took. The commit itself ran twice as often.
    pub runs: usize,
    /// The difference between the good commit and this one; `None` if it was not run.
    pub from_good: Option<Step>,
    /// The difference between this commit and the bad one; `None` if it was not run.
    pub to_bad: Option<Step>,
}

/// A search in progress.
struct Search<'a, C> {
    commits: &'a mut C,
    rules: Rules,
    coin: &'a mut Coin,
    /// The number of verdicts so far, including those of an earlier search that this one goes on with.
    verdicts: u32,
    good: &'a str,
    bad: &'a str,
    /// 1 if the bad commit costs more. If it costs less, -1: a search for the first faster commit is the same search
    /// with all signs reversed.
    direction: f64,
    watch: Watch,
}

/// Searches for the first commit that is slower than `good`, or faster if `bad` is faster. The result is wrong in at
/// most `rules.rate` of all searches, even if the machine changes while they run.
pub fn search<C: Commits>(commits: &mut C, good: &str, bad: &str, rules: Rules, coin: &mut Coin) -> Result<Found> {
    let (watch, known) = (Watch::default(), commits.known());
    let mut search = Search { commits, rules, coin, verdicts: known.verdicts, good, bad, direction: 1.0, watch };
    for (end, beside) in [(good, [].as_slice()), (bad, &[good])] {
        search.commits.prepare(end, beside)?.map_err(|why| anyhow::anyhow!("{end} cannot be judged: {why}"))?;
    }
    let (ends, odds) = search.pairs(good, bad)?;
    let between = interval(&ends.differences, &odds);
    if between.low <= 0.0 && between.high >= 0.0 {
        bail!(Alike(ends.differences.len()));
    }
    let whole = step(&ends.differences, &odds);
    search.direction = if between.low > 0.0 { 1.0 } else { -1.0 };
    search.watch = Watch::new(search.values(&ends.a), whole);
    let (end, judged) = search.narrow(known.state(good, bad))?;
    let gradual = matches!(end, End::Gradual(_));
    let first = if let End::First(first) = &end { Some(first.clone()) } else { None };
    let watch = Watch::default();
    let mut found = Found { whole, end, step: None, work: Vec::new(), gradual, most: false, rest: None, judged, watch };
    if let Some(first) = first {
        search.look_at_step(&first, &mut found)?;
    }
    found.watch = search.watch;
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

    fn values(&self, samples: &[Sample]) -> Vec<f64> {
        samples.iter().filter_map(|sample| sample.value(self.rules.judge)).collect()
    }

    /// Compares two commits until the difference is known to be more than half of what it seems to be, or the permitted
    /// number of pairs has run.
    fn pairs(&mut self, a: &str, b: &str) -> Result<(Comparison, Odds)> {
        let odds = self.next_odds();
        let (most, commits) = (self.rules.pairs_max, &mut *self.commits);
        let settled = |known: &[f64]| {
            let least = stats::centre(known).abs() / 2.0;
            known.len() >= most || (least > 0.0 && (is_above(known, least, &odds) || is_below(known, -least, &odds)))
        };
        Ok((compare(self.rules.judge, self.coin, settled, |coin| commits.both([a, b], coin))?, odds))
    }

    /// Runs rounds of two pairs until `settled`, which receives them with the signs of a search for a slower commit,
    /// returns `true`, or the permitted number has run. Returns the rounds, and the costs of the good commit, which is
    /// the first one of the pair with the index `good`.
    fn rounds(
        &mut self,
        pairs: [[&str; 2]; 2],
        good: usize,
        settled: impl Fn(&Rounds) -> bool,
    ) -> Result<(Rounds, Vec<f64>)> {
        let (judge, direction, mut costs) = (self.rules.judge, self.direction, Vec::new());
        let settled = |rounds: &Rounds| settled(&rounds.mirrored(direction));
        let seen = |number: usize, both: &[Sample; 2]| {
            if number == good {
                costs.extend(both[0].value(judge));
            }
        };
        let (most, commits) = (self.rules.pairs_max, &mut *self.commits);
        let both = |number: usize, coin: &mut Coin| commits.both(pairs[number], coin);
        let rounds = Rounds::run(self.coin, (judge, most), settled, both, seen)?;
        Ok((rounds, costs))
    }

    fn narrow(&mut self, mut state: State) -> Result<(End, Vec<Judged>)> {
        let mut judged = Vec::new();
        loop {
            let suspects = self.commits.suspects(&state.bad, &state.goods)?;
            let commit = match state.next(&suspects) {
                Next::Try(commit) => commit,
                // The suspects that are left are the range, but in the order in which they would be tried.
                Next::Over(End::Range(_)) => {
                    return Ok((End::Range(self.commits.between(&state.bad, &state.goods)?), judged));
                }
                Next::Over(end) => return Ok((end, judged)),
            };
            let verdict = self.answer(&commit)?;
            self.commits.hear(&verdict, self.verdicts)?;
            state.learn(commit, verdict.answer.clone());
            judged.push(verdict);
        }
    }

    /// Judges a commit, which runs in each round once beside the good one and once beside the bad one.
    fn answer(&mut self, commit: &str) -> Result<Judged> {
        let (good, bad) = (self.good, self.bad);
        let judged = |answer: Answer, runs: usize| Judged {
            commit: commit.to_owned(),
            answer,
            runs,
            from_good: None,
            to_bad: None,
        };
        if let Err(why) = self.commits.prepare(commit, &[good, bad])? {
            return Ok(judged(Answer::Skipped(why), 0));
        }
        for end in [good, bad] {
            if let Err(why) = self.commits.prepare(end, &[good, bad, commit])? {
                return Ok(judged(Answer::Skipped(format!("{end} cannot be run beside it: {why}")), 0));
            }
        }
        let odds = self.next_odds();
        let pairs = [[good, commit], [bad, commit]];
        let (rounds, costs) = self.rounds(pairs, 0, |rounds| judge(rounds, &odds).is_some())?;
        self.watch.look(&costs, &rounds.combined(1.0, -1.0), &odds);
        let answer = judge(&rounds.mirrored(self.direction), &odds).unwrap_or(Answer::Unsure);
        let from_good = Some(step(&rounds.first, &odds));
        let to_bad = Some(step(&rounds.combined(0.0, -1.0), &odds));
        Ok(Judged { from_good, to_bad, ..judged(answer, costs.len()) })
    }

    /// Measures the step from the parent of the first bad commit to that commit, and records it in `found`, with
    /// whether it is certainly more or certainly less than half of the difference between good and bad, and whether the
    /// other commits change the cost the other way. The difference between good and bad is measured again, in the same
    /// rounds as the step.
    fn look_at_step(&mut self, first: &str, found: &mut Found) -> Result<()> {
        let (good, bad) = (self.good, self.bad);
        let Some(parent) = self.commits.parent(first)? else {
            found.work.push("it has no parent with which it could be compared".into());
            return Ok(());
        };
        let round = [parent.as_str(), first, good, bad];
        for (commit, name) in round.into_iter().zip(["its parent", "it", "the good commit", "the bad commit"]) {
            if let Err(why) = self.commits.prepare(commit, &round)? {
                found.work.push(format!("{name} cannot be run now: {why}"));
                return Ok(());
            }
        }
        if (parent.as_str(), first) == (good, bad) {
            // The step is the whole difference.
            let (pairs, odds) = self.pairs(&parent, first)?;
            found.step = Some(step(&pairs.differences, &odds));
            found.most = true;
        } else {
            let (of_share, of_step, of_rest) = (self.next_odds(), self.next_odds(), self.next_odds());
            let share = |rounds: &Rounds| rounds.combined(1.0, -0.5);
            let more = |rounds: &Rounds| is_above(&share(rounds), 0.0, &of_share);
            let less = |rounds: &Rounds| is_below(&share(rounds), 0.0, &of_share);
            // The share can be certain before it is certain that there is a step.
            let differs =
                |rounds: &Rounds| is_above(&rounds.first, 0.0, &of_step) || is_below(&rounds.first, 0.0, &of_step);
            let pairs = [[parent.as_str(), first], [good, bad]];
            let rest = |rounds: &Rounds| rounds.combined(-1.0, 1.0);
            let is_opposite = |rounds: &Rounds| is_below(&rest(rounds), 0.0, &of_rest);
            // As long as the rest seems to go the other way, more rounds make that certain or refute it.
            let margin = self.rules.tolerance.ln_1p();
            let knows_rest = |rounds: &Rounds| stats::centre(&rest(rounds)) >= -margin || is_opposite(rounds);
            let settled = |rounds: &Rounds| less(rounds) || (more(rounds) && differs(rounds) && knows_rest(rounds));
            let (rounds, costs) = self.rounds(pairs, 1, settled)?;
            self.watch.look(&costs, &rounds.second, &of_share);
            found.step = Some(step(&rounds.first, &of_step));
            let others = step(&rest(&rounds), &of_rest);
            let rounds = rounds.mirrored(self.direction);
            (found.most, found.gradual) = (more(&rounds), less(&rounds));
            found.rest = is_opposite(&rounds).then_some(others);
        }
        found.work = self.commits.work(&parent, first)?;
        Ok(())
    }
}
