//! Parses the options of `watch`.

use std::{path::PathBuf, time::Duration};

use anyhow::{Context, Result, ensure};
use clap::Args;

use super::{CacheFolder, check_parts, pair};
use crate::{
    compare::Rules,
    measure::Measure,
    scenario::{Scenario, listed},
    stats,
};

/// The options of `watch`.
#[derive(Debug, Args)]
pub struct WatchOptions {
    /// The repository
    #[arg(value_name = "REPO")]
    pub repository: PathBuf,

    /// The branch to watch, or any other name of its last commit
    #[arg(long, value_name = "NAME")]
    pub branch: String,

    /// The folder of the history, which one watch at a time can use
    #[arg(long, value_name = "DIR")]
    pub history: PathBuf,

    /// A scenario file, such as `init` writes, or the name of a scenario that comes with the lab; repeatable
    #[arg(long, value_name = "SCENARIO", default_value = "lab.toml")]
    pub scenario: Vec<String>,

    /// Comma-separated values of a parameter (`\,` is a comma in one), in all scenarios that have it; repeatable
    #[arg(long, num_args = 2, value_names = ["NAME", "VALUES"], action = clap::ArgAction::Append)]
    pub parameter_list: Vec<String>,

    /// The commit that is measured beside all others, and after which the watch begins [default: the last commit when
    /// the history is new]
    #[arg(long, value_name = "REVISION")]
    pub reference: Option<String>,

    /// Measures only one of every COUNT commits
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub every: u32,

    /// Measures the merges of topics and not the commits in them (the default)
    #[arg(long, conflicts_with = "all_commits")]
    pub first_parent: bool,

    /// Measures the commits of merged topics too
    #[arg(long)]
    pub all_commits: bool,

    /// Ends when all commits are measured (the default)
    #[arg(long, conflicts_with = "interval")]
    pub once: bool,

    /// Goes on, and looks for new commits each time this much time has passed, such as 90s, 10m or 2h
    #[arg(long, value_name = "TIME", value_parser = interval)]
    pub interval: Option<Duration>,

    /// Fetches from all remotes before it looks for new commits
    #[arg(long)]
    pub fetch: bool,

    /// Maximum time of the search for the commit that made a change; 0 searches for none
    #[arg(long, value_name = "TIME", default_value = "30m", value_parser = time)]
    pub budget: Duration,

    /// A shell command that is called once for each alert, with the report on its standard input
    #[arg(long, value_name = "COMMAND")]
    pub notify: Option<String>,

    /// The measure that decides: wall, user, system, cpu, peak, instructions or reported
    #[arg(long, value_name = "MEASURE")]
    pub judge: Option<Measure>,

    /// Maximum fraction of series without a change that ever have an alarm
    #[arg(long, value_name = "PART", default_value_t = 0.01)]
    pub false_alarms: f64,

    /// Difference, as a fraction, above which a change counts
    #[arg(long, value_name = "PART", default_value_t = 0.01)]
    pub tolerance: f64,

    /// Maximum number of runs when a commit is measured; a verdict of a search or a proof may take twice as many
    #[arg(long, value_name = "COUNT", default_value_t = 60)]
    pub runs_max: usize,

    /// Makes the order of the runs repeatable; without it, the order is unpredictable
    #[arg(long, value_name = "NUMBER")]
    pub seed: Option<u64>,

    /// Something else that must be the same for measurements to be comparable, such as the name of the machine;
    /// repeatable
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair, action = clap::ArgAction::Append)]
    pub with: Vec<(String, String)>,

    /// The folder in which runs happen [default: a file system in memory, or else the folder for temporary files]
    #[arg(long, value_name = "FOLDER")]
    pub place: Option<PathBuf>,

    /// The folder of the builds
    #[command(flatten)]
    pub cache: CacheFolder,
}

impl WatchOptions {
    /// Returns the scenarios with the chosen values.
    ///
    /// # Errors
    ///
    /// Fails if a scenario cannot be read or is invalid, if no scenario has a parameter that is named, or if a value is
    /// invalid.
    pub fn scenarios(&self) -> Result<Vec<Scenario>> {
        let mut scenarios: Vec<Scenario> =
            self.scenario.iter().map(|name| Scenario::find(name)).collect::<Result<_>>()?;
        for pair in self.parameter_list.chunks_exact(2) {
            let mut having =
                scenarios.iter_mut().filter(|scenario| scenario.parameters.contains_key(&pair[0])).peekable();
            ensure!(having.peek().is_some(), "no scenario has a parameter '{}'", pair[0]);
            let values = listed(&pair[1]);
            having.try_for_each(|scenario| scenario.choose(&pair[0], values.clone()))?;
        }
        Ok(scenarios)
    }

    /// Returns the rules of comparisons in searches and proofs.
    ///
    /// # Errors
    ///
    /// Fails if an option is out of range.
    pub fn rules(&self, scenario: &Scenario) -> Result<Rules> {
        let rate = self.false_alarms;
        check_parts(rate, self.tolerance)?;
        let (least, most) = (stats::fewest(rate), stats::LAST_MAX / 2);
        ensure!((least..=most).contains(&self.runs_max), "--runs-max is from {least} to {most}, not {}", self.runs_max);
        let judge = self.judge.unwrap_or(scenario.judge);
        Ok(Rules { rate, tolerance: self.tolerance, pairs_max: self.runs_max, judge })
    }
}

/// Parses a number of seconds, or of the unit that follows it: s, m, h or d.
fn time(text: &str) -> Result<Duration> {
    let digits = text.trim_end_matches(|letter: char| !letter.is_ascii_digit());
    let unit = match &text[digits.len()..] {
        "" | "s" => 1,
        "m" => 60,
        "h" => 60 * 60,
        "d" => 24 * 60 * 60,
        unit => anyhow::bail!("'{unit}' is no unit of time: there are s, m, h and d"),
    };
    let number: u64 = digits.parse().with_context(|| format!("'{text}' is no time, such as 90s, 10m or 2h"))?;
    number.checked_mul(unit).filter(|seconds| *seconds <= TIME_MAX).map(Duration::from_secs).context("that is too long")
}

fn interval(text: &str) -> Result<Duration> {
    let interval = time(text)?;
    anyhow::ensure!(!interval.is_zero(), "a watch looks for new commits once a second at most");
    Ok(interval)
}

/// The longest time that an option accepts, in seconds: a thousand days.
const TIME_MAX: u64 = 1000 * 24 * 60 * 60;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        for (text, seconds) in [("90", 90), ("90s", 90), ("10m", 600), ("2h", 7200), ("1d", 86_400), ("0", 0)] {
            assert_eq!(time(text).unwrap().as_secs(), seconds, "{text}");
        }
        for text in ["", "m", "10 m", "1w", "-1", "1.5h", "99999999999999999999", "1001d"] {
            assert!(time(text).is_err(), "{text}");
        }
        assert!(interval("0m").is_err() && interval("1s").is_ok());
    }
}
