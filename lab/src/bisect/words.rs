//! Writes the report of a search.

use anyhow::Result;

use super::{
    search::{Found, Step},
    state::{Answer, End},
};
use crate::{compare::Rules, report::interval};

/// Returns the whole report. `subject` returns the first line of the message of a commit.
pub fn report(found: &Found, rules: &Rules, subject: impl Fn(&str) -> Result<String>) -> Result<String> {
    let (words, sure) = (rules.judge.words(), format!("{} % sure in all", 100.0 * (1.0 - rules.rate)));
    let named = |commit: &str| -> Result<String> { Ok(format!("{commit} {}", subject(commit)?)) };
    let mut text = format!("bad takes {} the {words} of good\n", times(&found.whole));
    for judged in &found.judged {
        text += &format!("{}: {}\n", named(&judged.commit)?, answer(&judged.answer, judged.runs));
    }
    text += &match (&found.end, &found.step) {
        (End::First(first), Some(step)) if found.gradual => format!(
            "gradual: no single commit carries it. The step in the middle is {}\n  it takes {} the {words} of its \
             parent ({sure})\n",
            named(first)?,
            times(step)
        ),
        (End::First(first), step) => {
            let verb = if found.whole.ratio < 1.0 { "better" } else { "bad" };
            let step = step.as_ref().map_or_else(
                || "the step from its parent was not measured by itself".to_owned(),
                |step| format!("it takes {} the {words} of its parent", times(step)),
            );
            format!("first {verb} commit: {}\n  {step} ({sure})\n", named(first)?)
        }
        (End::Gradual(middle), _) => format!(
            "gradual: no single commit carries it. In the middle between good and bad is {} ({sure})\n",
            named(middle)?
        ),
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
    Ok(text)
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
    format!("{told} ({runs} runs a side)")
}

fn times(step: &Step) -> String {
    format!("{:.3} times ({})", step.ratio, interval(step.interval))
}
