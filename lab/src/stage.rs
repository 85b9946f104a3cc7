//! Where the runs of a side happen: a fresh copy of its state, `prepare`, the measured `command`, and `check`.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use crate::{
    measure::Sample,
    perf,
    process::{clean, run, tool},
    scenario::{Scenario, Values},
    trace::{self, Trace, Work},
};

/// Keeps git's automatic maintenance out of the figures, unless the scenario asks for it.
const NO_MAINTENANCE: [(&str, &str); 7] = [
    ("GIT_CONFIG_COUNT", "3"),
    ("GIT_CONFIG_KEY_0", "maintenance.auto"),
    ("GIT_CONFIG_VALUE_0", "false"),
    ("GIT_CONFIG_KEY_1", "gc.auto"),
    ("GIT_CONFIG_VALUE_1", "0"),
    ("GIT_CONFIG_KEY_2", "receive.autogc"),
    ("GIT_CONFIG_VALUE_2", "false"),
];

/// A built revision with the state that its runs start from. The state goes with the value.
#[derive(Debug)]
pub struct Stage<'a> {
    scenario: &'a Scenario,
    values: &'a Values,
    build: PathBuf,
    folder: TempDir,
    counters: bool,
}

impl Stage<'_> {
    /// Sets the scenario up for one side, below the folder `place`.
    pub fn new<'a>(
        scenario: &'a Scenario,
        values: &'a Values,
        build: &Path,
        place: &Path,
        counters: bool,
    ) -> Result<Stage<'a>> {
        let folder = tempfile::Builder::new()
            .prefix("refdb-lab.")
            .tempdir_in(place)
            .with_context(|| format!("cannot make a folder in '{}'", place.display()))?;
        let stage = Stage { scenario, values, build: build.to_owned(), folder, counters };
        fs::create_dir(stage.state())?;
        stage.script(&scenario.setup, &stage.state()).context("'setup' failed")?;
        Ok(stage)
    }

    /// One run, measured.
    pub fn sample(&self) -> Result<Sample> {
        let log = self.folder.path().join("perf");
        let before: &[&OsStr] =
            if self.counters { &["perf", "stat", "-x,", "-e", perf::EVENT, "-o"].map(OsStr::new) } else { &[] };
        let before: Vec<&OsStr> = match before {
            [] => Vec::new(),
            perf => perf.iter().copied().chain([log.as_os_str(), OsStr::new("--")]).collect(),
        };
        self.run(&before, |usage| {
            let instructions = if self.counters { perf::parse(&fs::read_to_string(&log)?) } else { None };
            Ok(Sample::new(usage, instructions, self.reported()?))
        })
    }

    /// One run of the command, started by the program and arguments in `before` if there are any. `then` sees the
    /// usage, and the folder before the next run replaces it.
    pub fn run<T>(&self, before: &[&OsStr], then: impl FnOnce(crate::process::Usage) -> Result<T>) -> Result<T> {
        let work = self.work();
        if work.exists() {
            fs::remove_dir_all(&work)?;
        }
        fs::remove_file(self.cost()).ok();
        tool(Command::new("cp").arg("-a").arg(self.state()).arg(&work))?;
        self.script(&self.scenario.prepare, &work).context("'prepare' failed")?;
        let words = before.iter().copied().chain(["sh", "-ec", self.scenario.command.trim()].map(OsStr::new));
        let usage = run(self.command(words, &work)?, self.scenario.cpu_limit).context("'command' failed")?;
        ensure!(!usage.cut, "'command' took more than the {} s of 'cpu-limit'", self.scenario.cpu_limit);
        self.script(&self.scenario.check, &work).context("'check' does not hold")?;
        then(usage)
    }

    /// The work of one run, traced. Tracing slows it, so nothing else is measured meanwhile.
    pub fn traced(&self) -> Result<Work> {
        let log = self.folder.path().join("trace");
        let which = format!("trace={}", trace::CALLS);
        let options = ["strace", "-f", "-y", "-qq", "-s", "300", "-e", &which, "-o"].map(OsStr::new);
        let before: Vec<&OsStr> = options.into_iter().chain([log.as_os_str(), OsStr::new("--")]).collect();
        self.run(&before, |_| {
            let mut trace = Trace::default();
            let mut lines = BufReader::new(File::open(&log)?);
            let mut line = Vec::new();
            while lines.read_until(b'\n', &mut line)? > 0 {
                trace.add(&String::from_utf8_lossy(&line));
                line.clear();
            }
            fs::remove_file(&log)?;
            let (build, folder) = (self.build.to_string_lossy(), self.folder.path().to_string_lossy());
            Ok(trace.finish(&[(&build, "$BUILD"), (&folder, "$RUN")]))
        })
    }

    /// The folder of the current run. Copies have one name, so that both sides see paths of one length.
    fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    fn cost(&self) -> PathBuf {
        self.folder.path().join("cost")
    }

    /// Runs a script of the scenario that is not measured.
    fn script(&self, text: &str, dir: &Path) -> Result<()> {
        if text.trim().is_empty() {
            return Ok(());
        }
        let usage = run(self.command(["sh", "-ec", text].map(OsStr::new), dir)?, self.scenario.cpu_limit)?;
        ensure!(!usage.cut, "it took more than the {} s of 'cpu-limit'", self.scenario.cpu_limit);
        Ok(())
    }

    fn command<'b>(&self, words: impl IntoIterator<Item = &'b OsStr>, dir: &Path) -> Result<Command> {
        let mut words = words.into_iter();
        let mut command = Command::new(words.next().context("no command")?);
        command.args(words).current_dir(dir);
        clean(&mut command, None)?;
        if !self.scenario.automatic_maintenance {
            command.envs(NO_MAINTENANCE);
        }
        command.envs(self.values).env("BUILD", &self.build).env("COST", self.cost());
        Ok(command)
    }

    /// The number that the command left, if it left one.
    fn reported(&self) -> Result<Option<f64>> {
        let Ok(text) = fs::read_to_string(self.cost()) else { return Ok(None) };
        let number =
            text.trim().parse().with_context(|| format!("the command reported '{}', no number", text.trim()))?;
        Ok(Some(number))
    }
}

/// Whether strace is there and may trace.
pub fn traces() -> bool {
    Command::new("strace")
        .args(["-qq", "-c", "true"])
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}
