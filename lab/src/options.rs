//! Parses the command line.

pub mod watch;

use std::{
    env,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::{
    compare::Rules,
    measure::Measure,
    scenario::{Scenario, listed},
    stats,
};
use watch::WatchOptions;

/// Says whether one revision of a program is slower than another, and how sure that is.
#[derive(Debug, Parser)]
#[command(name = "refdb-lab", version)]
pub struct Options {
    /// The action
    #[command(subcommand)]
    pub action: Action,
}

/// The action of one call.
#[derive(Debug, Subcommand)]
pub enum Action {
    /// Compares two revisions
    Run(RunOptions),
    /// Searches for the first bad commit between a good revision, A, and a bad one, B
    Bisect(Common),
    /// Measures the new commits of a branch, and searches for those that made a difference
    Watch(WatchOptions),
    /// Compares the instructions of a build with recorded ones
    Gate(GateOptions),
    /// Lists the builds that are kept, and removes those that `--remove-unused` selects
    Cache(CacheOptions),
    /// Makes an HTML page of histories
    Report(ReportOptions),
    /// Adds results of another tool to a history, for `report`
    Import(ImportOptions),
    /// Writes a first scenario for a cargo, make or CMake project, and tries it
    Init(InitOptions),
}

/// A tool whose results can be imported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Tool {
    /// The JSON of `hyperfine --export-json`
    Hyperfine,
    /// Bencher Metric Format, or the JSON of `bencher perf`
    Bencher,
    /// Files `estimates.json` below Criterion's folder `target/criterion`
    Criterion,
    /// A CSV for Apache Otava, with a column `time`
    Otava,
}

impl Tool {
    /// Returns the name on the command line and in histories.
    pub fn name(self) -> &'static str {
        match self {
            Tool::Hyperfine => "hyperfine",
            Tool::Bencher => "bencher",
            Tool::Criterion => "criterion",
            Tool::Otava => "otava",
        }
    }
}

/// The options of `init`.
#[derive(Debug, Args)]
pub struct InitOptions {
    /// The folder of the project, which is a git repository
    #[arg(value_name = "REPO", default_value = ".")]
    pub repository: PathBuf,

    /// A command for `sh` to time; the built programs are in $BUILD/bin [default: the main program with --version,
    /// --help or no argument]
    #[arg(long, value_name = "COMMAND")]
    pub command: Option<String>,

    /// A parameter of the scenario with comma-separated values, which the command sees as $NAME; repeatable
    #[arg(long, num_args = 2, value_names = ["NAME", "VALUES"], action = clap::ArgAction::Append)]
    pub parameter_list: Vec<String>,

    /// The file to write the scenario to
    #[arg(long, short, value_name = "FILE", default_value = "lab.toml")]
    pub output: PathBuf,

    /// The folder of the builds
    #[command(flatten)]
    pub cache: CacheFolder,

    /// The folder in which runs happen [default: a file system in memory, or else the folder for temporary files]
    #[arg(long, value_name = "FOLDER")]
    pub place: Option<PathBuf>,
}

impl InitOptions {
    /// Returns the folder in which runs happen.
    pub fn place(&self) -> PathBuf {
        place_of(self.place.as_deref())
    }
}

/// The options of `import`.
#[derive(Debug, Args)]
pub struct ImportOptions {
    /// The tool that wrote the files
    #[arg(long, value_name = "TOOL")]
    pub from: Tool,

    /// The files; if values have the same time, in the order in which they were measured
    #[arg(value_name = "FILES", required = true)]
    pub files: Vec<PathBuf>,

    /// The file to which a line of JSON is appended for each value
    #[arg(long, value_name = "FILE")]
    pub history: PathBuf,
}

/// The options of `report`.
#[derive(Debug, Args)]
pub struct ReportOptions {
    /// Files that `run --history`, `watch` or `import` wrote
    #[arg(value_name = "HISTORY", required = true)]
    pub histories: Vec<PathBuf>,

    /// A history of the same scenarios with another program; repeatable
    #[arg(long, num_args = 2, value_names = ["NAME", "HISTORY"], action = clap::ArgAction::Append)]
    pub peer: Vec<String>,

    /// A history of the same scenarios with a minimal program that does only the unavoidable work; repeatable
    #[arg(long, num_args = 2, value_names = ["NAME", "HISTORY"], action = clap::ArgAction::Append)]
    pub floor: Vec<String>,

    /// The file to write the page to [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// The options of `cache`, which select the builds to remove.
#[derive(Debug, Args)]
pub struct CacheOptions {
    /// The folder of the builds
    #[command(flatten)]
    pub folder: CacheFolder,

    /// Removes builds that no lab has used for this many days; 0 removes all that are not in use
    #[arg(long, value_name = "DAYS")]
    pub remove_unused: Option<u64>,
}

/// The option that selects the folder of the builds.
#[derive(Debug, Args)]
pub struct CacheFolder {
    /// Where builds are kept [default: lab in $REFDB_CACHE, $XDG_CACHE_HOME/refdb or ~/.cache/refdb]
    #[arg(long, value_name = "FOLDER")]
    pub cache: Option<PathBuf>,
}

impl CacheFolder {
    /// Returns the folder, or the default one if none was named.
    pub fn cache(&self) -> Result<PathBuf> {
        if let Some(cache) = &self.cache {
            return Ok(cache.clone());
        }
        let folder = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let base = folder("REFDB_CACHE")
            .or_else(|| folder("XDG_CACHE_HOME").map(|cache| cache.join("refdb")))
            .or_else(|| folder("HOME").map(|home| home.join(".cache/refdb")));
        Ok(base.context("neither HOME nor XDG_CACHE_HOME is set: name a folder with --cache")?.join("lab"))
    }
}

/// The options of `run`.
#[derive(Debug, Args)]
pub struct RunOptions {
    /// The options that `run` and `bisect` have in common
    #[command(flatten)]
    pub common: Common,

    /// Files for other tools
    #[command(flatten)]
    pub exports: Exports,
}

/// The options that write results to files besides standard output.
#[derive(Debug, Default, Args)]
pub struct Exports {
    /// Writes JSON as hyperfine 1 does
    #[arg(long, value_name = "FILE")]
    pub export_hyperfine: Option<PathBuf>,

    /// Writes the results of B in Bencher Metric Format
    #[arg(long, value_name = "FILE")]
    pub export_bencher: Option<PathBuf>,

    /// Writes a CSV for Apache Otava
    #[arg(long, value_name = "FILE")]
    pub export_otava: Option<PathBuf>,

    /// Appends a line of JSON for each comparison
    #[arg(long, value_name = "FILE")]
    pub history: Option<PathBuf>,
}

/// The options of `gate`.
#[derive(Debug, Args)]
pub struct GateOptions {
    /// The scenario
    #[command(flatten)]
    pub chosen: Chosen,

    /// The folder with the build, as the scenario's `build` makes it
    #[arg(long, value_name = "FOLDER")]
    pub build: PathBuf,

    /// The file with the records
    #[arg(long, value_name = "FILE")]
    pub history: PathBuf,

    /// Something else that must be the same for records to be comparable; repeatable
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair, action = clap::ArgAction::Append)]
    pub with: Vec<(String, String)>,

    /// Appends the counts to the file
    #[arg(long)]
    pub record: bool,

    /// Records the counts as those of this release
    #[arg(long, value_name = "NAME", requires = "record")]
    pub release: Option<String>,
}

/// Parses `NAME=VALUE`.
pub fn pair(text: &str) -> std::result::Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("there is no '=' in it")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// The options that select a scenario and change it.
#[derive(Debug, Args)]
pub struct Chosen {
    /// A scenario file, or the name of a scenario that comes with the lab
    #[arg(value_name = "SCENARIO")]
    pub scenario: String,

    /// Comma-separated values of a parameter (`\,` is a comma in one), instead of those in the scenario; repeatable
    #[arg(long, num_args = 2, value_names = ["NAME", "VALUES"], action = clap::ArgAction::Append)]
    pub parameter_list: Vec<String>,

    /// Measures git's automatic maintenance too
    #[arg(long)]
    pub automatic_maintenance: bool,

    /// The folder in which runs happen [default: a file system in memory, or else the folder for temporary files]
    #[arg(long, value_name = "FOLDER")]
    pub place: Option<PathBuf>,
}

impl Chosen {
    /// Returns the scenario with the chosen values.
    ///
    /// # Errors
    ///
    /// Fails if the scenario cannot be read or is invalid, if it has no such parameter, or if a value is invalid.
    pub fn scenario(&self) -> Result<Scenario> {
        let mut scenario = Scenario::find(&self.scenario)?;
        for pair in self.parameter_list.chunks_exact(2) {
            scenario.choose(&pair[0], listed(&pair[1]))?;
        }
        scenario.automatic_maintenance |= self.automatic_maintenance;
        Ok(scenario)
    }

    /// Returns the folder in which runs happen.
    pub fn place(&self) -> PathBuf {
        place_of(self.place.as_deref())
    }
}

/// Returns the folder that was named, or the default one.
fn place_of(named: Option<&Path>) -> PathBuf {
    let memory = Path::new("/dev/shm");
    let default = || if memory.is_dir() { memory.to_owned() } else { env::temp_dir() };
    named.map_or_else(default, Path::to_owned)
}

/// Fails if `--false-alarms` or `--tolerance` is out of range.
fn check_parts(false_alarms: f64, tolerance: f64) -> Result<()> {
    let in_range = false_alarms > 0.0 && false_alarms <= 0.5;
    ensure!(in_range, "--false-alarms is more than 0 and at most 0.5, not {false_alarms}");
    ensure!(tolerance > 0.0 && tolerance < 1.0, "--tolerance lies between 0 and 1");
    Ok(())
}

/// The options of actions that compare two revisions.
#[derive(Debug, Args)]
pub struct Common {
    /// The scenario
    #[command(flatten)]
    pub chosen: Chosen,

    /// The repository, and two revisions of it with a comma between them
    #[arg(long, num_args = 2, value_names = ["REPO", "A,B"], required = true)]
    pub revisions: Vec<String>,

    /// The measure that decides: wall, user, system, cpu, peak, instructions or reported
    #[arg(long, value_name = "MEASURE")]
    pub judge: Option<Measure>,

    /// Maximum fraction of comparisons of equal revisions that end with a verdict, or of searches with a wrong result
    #[arg(long, value_name = "PART", default_value_t = 0.01)]
    pub false_alarms: f64,

    /// Difference, as a fraction, below which revisions count as equal and the comparison ends; it ends no search
    #[arg(long, value_name = "PART", default_value_t = 0.01)]
    pub tolerance: f64,

    /// Number of runs of each side after which the comparison ends, even without a verdict; in a search, of the good
    /// and the bad commit for each verdict
    #[arg(long, value_name = "COUNT", default_value_t = 60)]
    pub runs_max: usize,

    /// Runs both sides of a pair at the same time, so that a loaded machine disturbs both alike. Not for programs that
    /// need all processors
    #[arg(long)]
    pub side_by_side: bool,

    /// Makes the order of the runs repeatable; without it, the order is unpredictable
    #[arg(long, value_name = "NUMBER")]
    pub seed: Option<u64>,

    /// The folder of the builds
    #[command(flatten)]
    pub cache: CacheFolder,
}

impl Common {
    /// Returns the repository and the two revisions.
    ///
    /// # Errors
    ///
    /// Fails if the revisions are not two names with a comma between them.
    pub fn revisions(&self) -> Result<(&Path, &str, &str)> {
        let [repository, pair] = self.revisions.as_slice() else { unreachable!("clap wants two values") };
        let (a, b) = pair.split_once(',').unwrap_or_default();
        ensure!(
            !a.is_empty() && !b.is_empty() && !b.contains(','),
            "'{pair}' is to be two revisions with one comma between them"
        );
        Ok((Path::new(repository), a, b))
    }

    /// Returns the rules that say when to stop.
    ///
    /// # Errors
    ///
    /// Fails if an option is out of range.
    pub fn rules(&self, scenario: &Scenario) -> Result<Rules> {
        let rate = self.false_alarms;
        check_parts(rate, self.tolerance)?;
        let pairs_min = stats::fewest(rate);
        ensure!(
            self.runs_max >= pairs_min,
            "--runs-max is {}, but {pairs_min} runs of each side are the fewest that can be sure at this rate",
            self.runs_max,
        );
        ensure!(self.runs_max <= stats::LAST_MAX, "--runs-max is at most {}, not {}", stats::LAST_MAX, self.runs_max);
        Ok(Rules {
            rate,
            tolerance: self.tolerance,
            pairs_max: self.runs_max,
            judge: self.judge.unwrap_or(scenario.judge),
        })
    }
}
