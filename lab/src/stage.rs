//! Runs one side: makes a fresh copy of its state, and runs `prepare`, the measured `command`, and `check` in it.

use std::{
    ffi::{OsStr, OsString},
    fs::{self, File},
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
};

use anyhow::{Context, Result, anyhow, ensure};
use tempfile::TempDir;

use crate::{
    calls,
    compare::Which,
    counter::Counter,
    emulator,
    guard::{end_strays, remove_folder},
    measure::Sample,
    perf,
    process::{Limits, Running, Usage, clean, run, start, tool},
    profile::Profile,
    scenario::{Scenario, Values},
    stock,
    trace::{self, Trace},
    work::Work,
};

/// Variables that keep git's automatic maintenance out of the figures, unless the scenario asks for it.
const NO_MAINTENANCE: [(&str, &str); 7] = [
    ("GIT_CONFIG_COUNT", "3"),
    ("GIT_CONFIG_KEY_0", "maintenance.auto"),
    ("GIT_CONFIG_VALUE_0", "false"),
    ("GIT_CONFIG_KEY_1", "gc.auto"),
    ("GIT_CONFIG_VALUE_1", "0"),
    ("GIT_CONFIG_KEY_2", "receive.autogc"),
    ("GIT_CONFIG_VALUE_2", "false"),
];

/// The factor by which a command may be slower under strace, and by which its limits are multiplied there.
/// [`EMULATOR_SLOWS`] is that of the emulator.
const STRACE_SLOWS: u64 = 3;
const EMULATOR_SLOWS: u64 = 100;

/// A built revision, and the state from which its runs start. The state is removed when this value is dropped.
#[derive(Debug)]
pub struct Stage<'a> {
    scenario: &'a Scenario,
    values: &'a Values,
    build: PathBuf,
    folder: TempDir,
    counter: Counter,
}

impl Stage<'_> {
    /// Sets up the scenario for one side, below the folder `place`.
    pub fn new<'a>(
        scenario: &'a Scenario,
        values: &'a Values,
        build: &Path,
        place: &Path,
        counter: Counter,
    ) -> Result<Stage<'a>> {
        let folder = tempfile::Builder::new()
            .prefix("refdb-lab.")
            .tempdir_in(place)
            .with_context(|| format!("cannot make a folder in '{}'", place.display()))?;
        let stage = Stage { scenario, values, build: build.to_owned(), folder, counter };
        fs::create_dir(stage.state())?;
        stage.script(&scenario.setup, &stage.state()).context("'setup' failed")?;
        Ok(stage)
    }

    /// Runs the command once, and before that in the emulator if that counts instructions. Returns the measurements.
    pub fn sample(&self) -> Result<Sample> {
        let emulated = self.emulated_first()?;
        let words = self.counting();
        let before: Vec<&OsStr> = words.iter().map(OsString::as_os_str).collect();
        self.run(&before, 1, |usage| self.sampled(usage, emulated))
    }

    /// Returns the number of instructions that the emulator counts, if it is the counter. The emulator has a separate
    /// run, because it slows everything down.
    fn emulated_first(&self) -> Result<Option<f64>> {
        if self.counter == Counter::Emulator { self.emulated(emulator::total).map(Some) } else { Ok(None) }
    }

    /// Returns the arguments that precede a measured command to count its instructions.
    fn counting(&self) -> Vec<OsString> {
        if self.counter == Counter::Processor { perf::words(&self.counted()) } else { Vec::new() }
    }

    /// Returns the sample of a finished run.
    fn sampled(&self, usage: Usage, emulated: Option<f64>) -> Result<Sample> {
        let by_processor = self.counter == Counter::Processor;
        let counted = if by_processor { perf::parse(&fs::read_to_string(self.counted())?) } else { None };
        Ok(Sample::new(usage, counted.or(emulated), self.reported()?))
    }

    /// Runs the command once, started by the program and arguments in `before` if there are any, under which it may
    /// take up to `slower` times as long. `then` receives the usage, and can read the folder before the next run
    /// replaces it.
    fn run<T>(&self, before: &[&OsStr], slower: u64, then: impl FnOnce(Usage) -> Result<T>) -> Result<T> {
        let done = self.run_once(before, slower).and_then(then);
        // Programs that still run in the background would disturb the next run, even after a failed run.
        end_strays()?;
        done
    }

    fn run_once(&self, before: &[&OsStr], slower: u64) -> Result<Usage> {
        self.make_ready()?;
        let limits = self.limits(slower);
        self.check(self.start(before)?.finish(limits), limits)
    }

    /// Makes a fresh copy of the state, and runs `prepare` in it.
    fn make_ready(&self) -> Result<()> {
        let work = self.work();
        remove_folder(&work)?;
        fs::remove_file(self.cost()).ok();
        tool(Command::new("cp").arg("-a").arg(self.state()).arg(&work))?;
        self.script(&self.scenario.prepare, &work).context("'prepare' failed")
    }

    /// Starts the measured command.
    fn start(&self, before: &[&OsStr]) -> Result<Running> {
        let words = before.iter().copied().chain(["sh", "-ec", self.scenario.command.trim()].map(OsStr::new));
        start(self.command(words, &self.work())?, Stdio::null()).context("'command' failed")
    }

    /// Checks that a run succeeded and that the scenario's `check` holds after it.
    fn check(&self, done: Result<Usage>, limits: Limits) -> Result<Usage> {
        let usage = done.context("'command' failed")?;
        ensure!(!usage.cut, "'command' took more than the {} s of 'cpu-limit'", limits.cpu);
        self.script(&self.scenario.check, &self.work()).context("'check' does not hold")?;
        Ok(usage)
    }

    /// Returns the work of one traced run, and the system calls of another. Nothing else is measured in them, because
    /// tracing slows them down.
    pub fn traced(&self) -> Result<Work> {
        let log = self.folder.path().join("trace");
        let words = calls::words(&log);
        let counting: Vec<&OsStr> = words.iter().map(OsString::as_os_str).collect();
        let calls = self.run(&counting, STRACE_SLOWS, |_| calls::take_total(&log))?;
        let which = format!("trace={}", trace::CALLS);
        let options = ["strace", "-f", "-y", "-qq", "-s", "300", "-e", &which, "-o"].map(OsStr::new);
        let before: Vec<&OsStr> = options.into_iter().chain([log.as_os_str(), OsStr::new("--")]).collect();
        self.run(&before, STRACE_SLOWS, |_| {
            let mut trace = Trace::default();
            let mut lines = BufReader::new(File::open(&log)?);
            let mut line = Vec::new();
            while lines.read_until(b'\n', &mut line)? > 0 {
                trace.add(&String::from_utf8_lossy(&line));
                line.clear();
            }
            fs::remove_file(&log)?;
            let (build, folder) = (self.build.to_string_lossy(), self.folder.path().to_string_lossy());
            let work = trace.finish(&[(&build, "$BUILD"), (&folder, "$RUN")]);
            Ok(Work { repositories: stock::below(&self.work())?, calls, ..work })
        })
    }

    /// Returns the instructions of one run, by function.
    pub fn profiled(&self) -> Result<Profile> {
        self.emulated(|counts| {
            let mut profile = Profile::default();
            for entry in fs::read_dir(counts)? {
                profile.add(&String::from_utf8_lossy(&fs::read(entry?.path())?));
            }
            Ok(profile)
        })
    }

    /// Runs the command once in the emulator. `then` receives the folder with the counts.
    pub fn emulated<T>(&self, then: impl FnOnce(&Path) -> Result<T>) -> Result<T> {
        let counts = tempfile::Builder::new().prefix("counts.").tempdir_in(self.folder.path())?;
        let words = emulator::words(counts.path());
        let before: Vec<&OsStr> = words.iter().map(OsString::as_os_str).collect();
        self.run(&before, EMULATOR_SLOWS, |_| then(counts.path()))
    }

    /// Returns the folder of the current run. All copies have the same name, so that both sides see paths of the same
    /// length.
    fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    /// Returns the file to which perf writes its count.
    fn counted(&self) -> PathBuf {
        self.folder.path().join("perf")
    }

    fn cost(&self) -> PathBuf {
        self.folder.path().join("cost")
    }

    /// Runs a script of the scenario that is not measured.
    fn script(&self, text: &str, dir: &Path) -> Result<()> {
        if text.trim().is_empty() {
            return Ok(());
        }
        let limits = self.limits(1);
        let usage = run(self.command(["sh", "-ec", text].map(OsStr::new), dir)?, limits)?;
        ensure!(!usage.cut, "it took more than the {} s of 'cpu-limit'", limits.cpu);
        Ok(())
    }

    /// Returns the limits of a program that may take up to `slower` times as long as usual.
    fn limits(&self, slower: u64) -> Limits {
        Limits { cpu: self.scenario.cpu_limit * slower, wall: self.scenario.wall_limit * slower }
    }

    fn command<'b>(&self, words: impl IntoIterator<Item = &'b OsStr>, dir: &Path) -> Result<Command> {
        let mut words = words.into_iter();
        let mut command = Command::new(words.next().context("no command")?);
        command.args(words).current_dir(dir);
        clean(&mut command, None)?;
        if !self.scenario.automatic_maintenance {
            command.envs(NO_MAINTENANCE);
        }
        command
            .envs(self.values)
            .envs(self.scenario.variables(self.values))
            .env("BUILD", &self.build)
            .env("COST", self.cost());
        Ok(command)
    }

    /// Returns the number that the command reported, if it did.
    fn reported(&self) -> Result<Option<f64>> {
        let Ok(text) = fs::read_to_string(self.cost()) else { return Ok(None) };
        let number =
            text.trim().parse().with_context(|| format!("the command reported '{}', no number", text.trim()))?;
        Ok(Some(number))
    }
}

/// Runs both sides once at the same time, starting with the one that `first` names. Each side has its own result, so
/// that a failure of its command or of `check` is attributed to it. If a side fails before that, in the emulator,
/// while it is made ready, or when its command is started, both have failed.
pub fn together(sides: [&Stage<'_>; 2], first: Which) -> Result<[Result<Sample>; 2]> {
    let samples = run_together(sides, first);
    end_strays()?;
    samples
}

fn run_together([a, b]: [&Stage<'_>; 2], first: Which) -> Result<[Result<Sample>; 2]> {
    let mut emulated = [None; 2];
    for (side, count) in [a, b].into_iter().zip(&mut emulated) {
        *count = side.emulated_first()?;
        side.make_ready()?;
    }
    let started = |side: &Stage<'_>| {
        let words = side.counting();
        side.start(&words.iter().map(OsString::as_os_str).collect::<Vec<_>>())
    };
    let (of_a, of_b) = if first == Which::A {
        let of_a = started(a)?;
        (of_a, started(b)?)
    } else {
        let of_b = started(b)?;
        (started(a)?, of_b)
    };
    // Each side is waited for by a thread of its own, so that the end of neither is noticed late.
    let (limits_a, limits_b) = (a.limits(1), b.limits(1));
    let (of_a, of_b) = thread::scope(|scope| {
        let waiting = scope.spawn(move || of_b.finish(limits_b));
        let of_a = of_a.finish(limits_a);
        (of_a, waiting.join())
    });
    let of_b = of_b.map_err(|_| anyhow!("the thread that waits for a run ended"))?;
    let over = |side: &Stage<'_>, done, limits, emulated| side.sampled(side.check(done, limits)?, emulated);
    Ok([over(a, of_a, limits_a, emulated[0]), over(b, of_b, limits_b, emulated[1])])
}

/// Returns whether strace is installed and permitted to trace.
pub fn traces() -> bool {
    tool(Command::new("strace").args(["-qq", "-c", "true"])).is_ok()
}
