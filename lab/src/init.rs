//! Implements `refdb-lab init`: writes a first scenario for a project, tries it, and says how steady it is. [`project`]
//! knows how projects are built, and [`steadiness`] what the runs can show.

pub mod project;
pub mod steadiness;

use std::{
    fs,
    io::Write,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow, bail, ensure};
use project::{Kind, text};
use refdb_vfs::interrupt;
use steadiness::{Found, STEPS, found, spread};

use crate::{
    coin::Coin,
    compare::{Comparison, Which, compare, pair},
    counter::Counter,
    measure::Measure,
    options::InitOptions,
    progress::progress,
    revision::Builds,
    scenario::{Scenario, Values, listed},
    shell::quoted,
    shown::shown_lines,
    stage::Stage,
    stats::centre,
};

/// Number of pairs of equal runs that show how steady a scenario is, unless they take longer than [`TRIAL_MAX`].
const PAIRS: usize = 20;

/// Number of pairs that are made however long they take.
const PAIRS_MIN: usize = 5;

/// The time after which no pairs are made beyond the first [`PAIRS_MIN`].
const TRIAL_MAX: Duration = Duration::from_secs(120);

/// Writes a scenario for the project that the options name, tries it, and writes to `out` which differences it can
/// find.
pub fn run(options: &InitOptions, out: &mut impl Write) -> Result<()> {
    let file = &options.output;
    ensure!(!file.exists(), "'{}' exists: name another file with --output", file.display());
    let kind = Kind::of(&options.repository)?;
    let mut parameters = Vec::new();
    for pair in options.parameter_list.chunks_exact(2) {
        parameters.push((pair[0].as_str(), listed(&pair[1])));
    }
    let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let scenario = |command: &str| Scenario::parse(&name, &text(kind, command, &parameters));
    let guess = options.command.clone().unwrap_or_else(|| "echo \"$BUILD/bin/\"*".to_owned());
    let first = scenario(&guess)?;
    let builds = Builds::new(&options.repository, &options.cache.cache()?, &first)?;
    let commit = builds.commit("HEAD")?;
    let write = |command: &str| {
        fs::write(file, text(kind, command, &parameters)).with_context(|| format!("cannot write '{}'", file.display()))
    };
    let build = match builds.build(&commit)? {
        Ok(build) => build,
        Err(said) => {
            write(&guess)?;
            bail!("HEAD does not build: {said}. The scenario is in '{}': correct its 'build'", file.display());
        }
    };
    let place = options.place();
    let command = match &options.command {
        Some(command) => command.clone(),
        None => chosen(&build, kind, &options.repository, |command| {
            let scenario = scenario(command)?;
            let values = scenario.combinations();
            Stage::new(&scenario, &values[0], &build, &place, Counter::Nothing)?.sample().map(drop)
        })?,
    };
    write(&command)?;
    let said = format!("'{}' times {command} of a {} project", file.display(), kind.name());
    writeln!(out, "{}", shown_lines(&said))?;
    let scenario = scenario(&command)?;
    for values in scenario.combinations() {
        let comparison = equal_runs(&scenario, &values, &build, &place)
            .with_context(|| format!("the scenario is in '{}', but it does not work yet", file.display()))?;
        progress("");
        write!(out, "{}", shown_lines(&report(&scenario, &values, &comparison)))?;
    }
    if options.command.is_none() {
        writeln!(out, "this is only the start of a program: set 'command' to something that your users wait for")?;
    }
    let quoted = quoted(&file.to_string_lossy());
    writeln!(out, "compare two revisions: refdb-lab run {quoted} --revisions REPO A,B")?;
    Ok(())
}

/// Returns a command that works without arguments that only the user knows: the main program with `--version`,
/// `--help`, or nothing.
fn chosen(build: &Path, kind: Kind, repository: &Path, works: impl Fn(&str) -> Result<()>) -> Result<String> {
    let mut programs = Vec::new();
    for entry in fs::read_dir(build.join("bin")).context("the build left no programs")? {
        programs.push(entry?.file_name().to_string_lossy().into_owned());
    }
    let program = kind.main_program(repository, programs)?;
    let commands =
        ["--version", "--help", ""].map(|option| format!("\"$BUILD/bin/{program}\" {option}").trim().to_owned());
    let mut complaint = anyhow!("no command was tried");
    for command in commands {
        match works(&command) {
            Ok(()) => return Ok(command),
            Err(error) => complaint = error,
        }
        interrupt::check()?;
    }
    Err(complaint
        .context(format!("{program} fails with --version, --help and without arguments: name one with --command")))
}

/// Runs one build against itself.
fn equal_runs(scenario: &Scenario, values: &Values, build: &Path, place: &Path) -> Result<Comparison> {
    let stage = || Stage::new(scenario, values, build, place, Counter::Nothing);
    let stages = [stage()?, stage()?];
    for stage in &stages {
        stage.sample()?;
    }
    let start = Instant::now();
    let settled = |known: &[f64]| {
        progress(&format!("pair {} of {PAIRS}", known.len()));
        known.len() >= PAIRS || (known.len() >= PAIRS_MIN && start.elapsed() > TRIAL_MAX)
    };
    let sample = |which: Which| stages[usize::from(which == Which::B)].sample();
    compare(Measure::Wall, &mut Coin::unforeseen(), settled, |coin| pair(coin, sample))
}

/// Says how steady equal runs are, and which steps can be found.
fn report(scenario: &Scenario, values: &Values, comparison: &Comparison) -> String {
    let walls: Vec<f64> = comparison.a.iter().chain(&comparison.b).map(|sample| sample.wall).collect();
    let wall = centre(&walls);
    let named = if values.is_empty() { scenario.name.clone() } else { crate::scenario::describe(values) };
    let mut text = format!(
        "{named}: {:.1} ms a run; two equal runs differ by {:.1} % in half of {} pairs\n",
        wall * 1000.0,
        100.0 * spread(&comparison.differences),
        comparison.differences.len()
    );
    let found = STEPS.map(|step| found(&comparison.differences, step));
    let words = STEPS.iter().zip(&found).filter_map(|(step, found)| {
        let Found::In(runs) = found else { return None };
        Some(format!("{:.0} % in {runs} runs a side", 100.0 * step))
    });
    let words: Vec<String> = words.collect();
    text += &if words.is_empty() {
        format!("  it cannot find a step of {:.0} % in 60 runs a side\n", 100.0 * STEPS[STEPS.len() - 1])
    } else {
        format!("  it can find a step of {}\n", words.join(", "))
    };
    if found[..3].iter().all(|found| *found == Found::No) {
        text += "  steadier: --judge instructions or cpu, a longer command, or a machine that does less\n";
    }
    text
}
