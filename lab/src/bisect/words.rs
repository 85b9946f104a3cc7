//! Writes the report of a search.

use anyhow::Result;

use super::{
    rounds::Step,
    search::Found,
    state::{Answer, End},
};
use crate::{
    compare::Rules,
    report::interval,
    shown::{shown, shown_lines},
};

/// Returns the whole report. `subject` returns the subject of a commit's message.
pub fn report(found: &Found, rules: &Rules, subject: impl Fn(&str) -> Result<String>) -> Result<String> {
    let (words, sure) = (rules.judge.words(), format!("{} % sure in all", 100.0 * (1.0 - rules.rate)));
    let named = |commit: &str| -> Result<String> { Ok(format!("{commit} {}", shown(&subject(commit)?))) };
    let mut text = format!("bad takes {} the {words} of good\n", times(&found.whole));
    for judged in &found.judged {
        text += &format!("{}: {}\n", named(&judged.commit)?, answer(&judged.answer, judged.runs));
    }
    text += &machine(found);
    text += &match (&found.end, &found.step) {
        (End::First(first), Some(step)) if found.gradual => format!(
            "gradual: no single commit carries it. The step in the middle is {}\n  it takes {} the {words} of its \
             parent ({sure})\n",
            named(first)?,
            times(step)
        ),
        (End::First(first), step) => {
            let verb = if found.whole.ratio < 1.0 { "better" } else { "bad" };
            let step = match step {
                None => "the step from its parent was not measured by itself".to_owned(),
                Some(step) => {
                    let unknown = if (step.interval.low..=step.interval.high).contains(&1.0) {
                        "; whether that is a difference at all, it cannot tell"
                    } else if found.most {
                        ""
                    } else {
                        "; whether that is most of the difference, it cannot tell"
                    };
                    format!("it takes {} the {words} of its parent{unknown}", times(step))
                }
            };
            let rest = found.rest.map_or_else(String::new, |rest| {
                format!("  the other commits between good and bad change it the other way: {}\n", times(&rest))
            });
            format!("first {verb} commit: {}\n  {step} ({sure})\n{rest}", named(first)?)
        }
        (End::Gradual(middle), _) => gradual(found, middle, &named(middle)?, words, &sure),
        (End::Range(commits), _) => {
            let mut range = format!("the first bad commit is one of these {} ({sure}):\n", commits.len());
            for commit in commits {
                range += &format!("  {}\n", named(commit)?);
            }
            range
        }
    };
    for difference in &found.work {
        text += &format!("  {difference}\n");
    }
    Ok(shown_lines(&text))
}

/// Returns a line about how the machine changed during the search; empty if no change was noticed.
fn machine(found: &Found) -> String {
    let drift = found.watch.drift().map(|times| format!("good took {times:.2} times as much for some time"));
    let other = found.watch.other().map(|other| format!("bad took {} that of good for some time", times(&other)));
    let changes: Vec<String> = [drift, other].into_iter().flatten().collect();
    if changes.is_empty() {
        return String::new();
    }
    format!(
        "the machine changed during the search: {}. Verdicts compare only runs of the same time\n",
        changes.join(", and ")
    )
}

/// Returns the words for a search that ended at a commit that is certainly neither like the good one nor like the bad
/// one.
fn gradual(found: &Found, middle: &str, named: &str, words: &str, sure: &str) -> String {
    let judged = found.judged.iter().rev().find(|judged| judged.commit == middle);
    let steps = judged.and_then(|judged| Some((judged.from_good?, judged.to_bad?))).map_or_else(
        String::new,
        |(from_good, to_bad)| {
            format!("\n  it takes {} the {words} of good, and bad {} that of it", times(&from_good), times(&to_bad))
        },
    );
    format!("gradual: no single commit carries it. Between good and bad is {named}{steps} ({sure})\n")
}

/// Returns the verdict on a commit in words.
pub fn answer(answer: &Answer, runs: usize) -> String {
    let told = match answer {
        Answer::Good => "good",
        Answer::Bad => "bad",
        Answer::Between => "between good and bad",
        Answer::Unsure => "cannot tell",
        Answer::Skipped(why) => return format!("skipped: {why}"),
    };
    format!("{told} ({runs} runs of good and of bad, twice as many of it)")
}

fn times(step: &Step) -> String {
    format!("{:.3} times ({})", step.ratio, interval(step.interval))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{bisect::rounds::Watch, measure::Measure, stats::Interval};

    #[test]
    fn a_step_that_may_be_none_is_said_to_be_unknown() {
        let step = |low: f64, high: f64| Step { ratio: 1.1, interval: Interval { low, high } };
        let said = |low: f64, high: f64, most: bool| {
            let found = Found {
                whole: step(1.05, 1.15),
                end: End::First("a".into()),
                step: Some(step(low, high)),
                work: Vec::new(),
                gradual: false,
                most,
                rest: Some(step(0.8, 0.9)).filter(|_| most),
                judged: Vec::new(),
                watch: Watch::default(),
            };
            let rules = Rules { rate: 0.01, tolerance: 0.01, pairs_max: 60, judge: Measure::Wall };
            report(&found, &rules, |_| Ok("subject".into())).unwrap()
        };
        for most in [false, true] {
            let text = said(0.99, 1.2, most);
            assert!(text.contains("parent; whether that is a difference at all, it cannot tell (99 %"), "{text}");
        }
        let other =
            " % sure in all)\n  the other commits between good and bad change it the other way: 1.100 times (0.800 to";
        assert!(said(1.01, 1.2, true).contains(" of its parent (99 %"));
        assert!(said(1.01, 1.2, true).contains(other), "{}", said(1.01, 1.2, true));
        assert!(said(1.01, 1.2, false).contains("; whether that is most of the difference, it cannot tell (99 %"));
    }
}
