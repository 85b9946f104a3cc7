//! Decides, with pure functions, which commit is tried next and when the search is over.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::rounds::Rounds;
use crate::stats::{Odds, is_above, is_below};

/// The verdict on a commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Answer {
    /// The cost of the commit is nearer to that of the good one.
    Good,
    /// The cost of the commit is nearer to that of the bad one.
    Bad,
    /// The cost of the commit lies certainly between those of the good and the bad one, and was found to be nearer to
    /// neither. No single commit accounts for the whole difference.
    Between,
    /// The permitted number of runs was not enough for a verdict.
    Unsure,
    /// The commit could not be measured, for this reason; for example, the commit does not build, or the scenario fails
    /// with it, or with the good or the bad commit.
    Skipped(String),
}

/// The end of a search.
#[derive(Debug, Clone, PartialEq)]
pub enum End {
    /// This commit is bad, and all of its ancestors that were suspects are good.
    First(String),
    /// One of these commits is the first bad one. All but the last of them could not be judged.
    Range(Vec<String>),
    /// The cost of this commit is certainly between those of the good and the bad one, and nearer to neither.
    Gradual(String),
}

/// The next action of a search.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// Judge this commit.
    Try(String),
    /// The search is over, because nothing more can be learnt.
    Over(End),
}

/// The knowledge of a search.
#[derive(Debug, Clone)]
pub struct State {
    /// Commits that are good, as are all of their ancestors.
    pub goods: Vec<String>,
    /// The earliest commit that is known to be bad.
    pub bad: String,
    /// Commits that cannot be judged.
    aside: BTreeMap<String, Answer>,
    between: Option<String>,
}

impl State {
    /// Begins a search between a good commit and a bad one.
    pub fn new(good: String, bad: String) -> State {
        State { goods: vec![good], bad, aside: BTreeMap::new(), between: None }
    }

    /// Records the verdict on a commit.
    pub fn learn(&mut self, commit: String, answer: Answer) {
        match answer {
            Answer::Good => self.goods.push(commit),
            Answer::Bad => self.bad = commit,
            Answer::Between => self.between = Some(commit),
            Answer::Unsure | Answer::Skipped(_) => {
                self.aside.insert(commit, answer);
            }
        }
    }

    /// Returns the next action, where `suspects` are the ancestors of `bad`, including itself, that are not ancestors
    /// of a good commit, the most informative first.
    pub fn next(&self, suspects: &[String]) -> Next {
        assert!(suspects.contains(&self.bad), "a bad commit is itself a suspect");
        if let Some(between) = &self.between {
            return Next::Over(End::Gradual(between.clone()));
        }
        let mut open = suspects.iter().filter(|commit| **commit != self.bad);
        if let Some(commit) = open.clone().find(|commit| !self.aside.contains_key(*commit)) {
            return Next::Try(commit.clone());
        }
        if open.next().is_none() {
            return Next::Over(End::First(self.bad.clone()));
        }
        let aside = suspects.iter().filter(|commit| **commit != self.bad).cloned();
        Next::Over(End::Range(aside.chain([self.bad.clone()]).collect()))
    }
}

/// Returns the verdict on a commit from its differences to the good commit and to the bad one, which were measured in
/// the same rounds: `first` and `second` are logarithms of the cost of the commit divided by that of the good and of
/// the bad one. The bad commit costs more. Returns `None` if more rounds are needed.
///
/// Nothing that was measured at another time takes part. A commit that costs at each moment as much as one of the ends
/// gets a false verdict in at most the fraction of cases that `odds` permits, however much the machine changes.
pub fn judge(rounds: &Rounds, odds: &Odds) -> Option<Answer> {
    // Positive if the commit is nearer to the bad one.
    let nearer = rounds.combined(1.0, 1.0);
    if is_below(&nearer, 0.0, odds) {
        Some(Answer::Good)
    } else if is_above(&nearer, 0.0, odds) {
        Some(Answer::Bad)
    } else if is_above(&rounds.first, 0.0, odds) && is_below(&rounds.second, 0.0, odds) {
        Some(Answer::Between)
    } else {
        None
    }
}

/// Returns the rate of false answers for the verdict of this number, counted from 1. All verdicts together keep to
/// `rate`, however many there are, because 1/2 + 1/6 + 1/12 + ... is 1.
pub fn rate_of(number: u32, rate: f64) -> f64 {
    rate / (f64::from(number) * f64::from(number + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &str) -> Vec<String> {
        names.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn the_most_telling_suspect_is_tried_and_the_last_one_left_is_the_first_bad() {
        let mut state = State::new("a".into(), "f".into());
        assert_eq!(state.next(&names("c d b f e")), Next::Try("c".into()));
        state.learn("c".into(), Answer::Good);
        assert_eq!(state.next(&names("d f e")), Next::Try("d".into()));
        state.learn("d".into(), Answer::Bad);
        assert_eq!((state.goods.clone(), state.bad.as_str()), (names("a c"), "d"));
        assert_eq!(state.next(&names("d")), Next::Over(End::First("d".into())));
    }

    #[test]
    fn commits_that_cannot_be_judged_are_passed_over_and_end_as_a_range() {
        let mut state = State::new("a".into(), "e".into());
        state.learn("c".into(), Answer::Skipped("broken".into()));
        assert_eq!(state.next(&names("c b d e")), Next::Try("b".into()));
        state.learn("b".into(), Answer::Good);
        state.learn("d".into(), Answer::Unsure);
        assert_eq!(state.next(&names("d c e")), Next::Over(End::Range(names("d c e"))));
    }

    #[test]
    fn a_commit_in_the_middle_ends_the_search() {
        let mut state = State::new("a".into(), "e".into());
        state.learn("c".into(), Answer::Between);
        assert_eq!(state.next(&names("c b d e")), Next::Over(End::Gradual("c".into())));
    }

    #[test]
    fn the_answer_waits_until_only_one_is_left() {
        let odds = Odds::new(0.01, 60);
        let said = |to_good: f64, to_bad: f64, count: usize| {
            judge(&Rounds { first: vec![to_good; count], second: vec![to_bad; count] }, &odds)
        };
        assert_eq!(said(0.0, -0.1, 5), None);
        assert_eq!(said(0.0, -0.1, 20), Some(Answer::Good));
        assert_eq!(said(0.1, 0.0, 20), Some(Answer::Bad));
        assert_eq!(said(0.05, -0.05, 20), Some(Answer::Between));
        assert_eq!(said(0.0, 0.0, 60), None, "both ends cost the same now");
    }

    #[test]
    fn a_difference_that_shrinks_under_load_changes_no_verdict() {
        let odds = Odds::new(0.01, 60);
        let shrinking: Vec<f64> = (0..20).map(|number| 1.4 / f64::from(1 + number % 5)).collect();
        let none = vec![0.0; 20];
        let good = Rounds { first: none.clone(), second: shrinking.iter().map(|size| -size).collect() };
        assert_eq!(judge(&good, &odds), Some(Answer::Good));
        assert_eq!(judge(&Rounds { first: shrinking, second: none }, &odds), Some(Answer::Bad));
    }

    #[test]
    fn all_verdicts_together_keep_to_the_rate() {
        let sum: f64 = (1..10_000).map(|number| rate_of(number, 0.01)).sum();
        assert!(sum < 0.01 && sum > 0.009_99, "{sum}");
    }
}
