//! Counting in an emulator, from the inside: this program is the machine's `init`, and starts each measured command.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};
use refdb_lab::process::{self, clean};
use rustix::{
    mount::{MountFlags, mount},
    system::{RebootCommand, reboot},
};
use serde::{Deserialize, Serialize};

use crate::{
    bench::make_repository,
    process::{LIMITS, Line},
};

/// Where the list of tasks lies.
pub const PLAN: &str = "/plan.json";

/// What a report on the console begins with.
pub const MARK: &str = "refdb-bench-report:";

/// Number of instructions up to which a step is short. A task with short steps only is repeated, because a cold start
/// adds a notable part to them.
const SHORT: u64 = 100_000_000;

/// How often a short task is run again after its first run, which does not count.
const REPEATS: usize = 5;

/// One job done by one program.
#[derive(Debug, Serialize, Deserialize)]
pub struct Task {
    /// The binary, inside the machine.
    pub program: PathBuf,
    /// The repository to start from.
    pub seed: PathBuf,
    /// Whether reflogs are written.
    pub reflogs: bool,
    /// The steps.
    pub lines: Vec<Line>,
}

/// What a task cost.
#[derive(Debug, Serialize, Deserialize)]
pub struct Report {
    /// The task's place in the plan.
    pub job: usize,
    /// What each step took; empty after an error.
    pub steps: Vec<Counted>,
    /// Why the task could not be done.
    pub error: Option<String>,
}

/// What a step took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Counted {
    /// Instructions of the step's process tree.
    pub instructions: u64,
    /// Nanoseconds by which the clock ran on beyond the instructions, while all processes waited.
    pub waited: u64,
    /// Whether the step's command was ended at the limit.
    pub cut: bool,
}

/// Whether this process is the machine's init.
pub fn is_init() -> bool {
    std::process::id() == 1
}

/// Does the tasks of the plan in turn, reports each, and turns the machine off.
pub fn run() {
    if let Err(error) = run_plan() {
        println!("refdb-bench: {error:#}");
    }
    reboot(RebootCommand::PowerOff).ok();
}

fn run_plan() -> Result<()> {
    mount("proc", "/proc", "proc", MountFlags::empty(), None)?;
    mount("dev", "/dev", "devtmpfs", MountFlags::empty(), None)?;
    mount("run", "/run", "tmpfs", MountFlags::empty(), Some(c"size=90%"))?;
    let plan: Vec<Task> = serde_json::from_slice(&fs::read(PLAN)?)?;
    for (job, task) in plan.iter().enumerate() {
        let report = match repeat(task) {
            Ok(steps) => Report { job, steps, error: None },
            Err(error) => Report { job, steps: Vec::new(), error: Some(format!("{error:#}")) },
        };
        // A kernel message may end without a line feed.
        println!("\n{MARK}{}", serde_json::to_string(&report)?);
    }
    Ok(())
}

/// The median of each step; only short tasks are run more than once.
fn repeat(task: &Task) -> Result<Vec<Counted>> {
    let first = once(task)?;
    if first.iter().any(|step| step.instructions > SHORT) {
        return Ok(first);
    }
    let runs = (0..REPEATS).map(|_| once(task)).collect::<Result<Vec<_>>>()?;
    let median = |step: usize| {
        let mut counts: Vec<Counted> = runs.iter().map(|run| run[step]).collect();
        counts.sort_unstable();
        counts[counts.len() / 2]
    };
    Ok((0..first.len()).map(median).collect())
}

fn once(task: &Task) -> Result<Vec<Counted>> {
    let work = Path::new("/run/repository");
    fs::remove_dir_all(work).ok();
    make_repository(&task.seed, work, task.reflogs)?;
    task.lines.iter().map(|line| count(&task.program, work, line)).collect()
}

/// Counts the instructions of one command and of the programs that it waits for, which is their processor time in
/// nanoseconds, because the machine's clock advances by one with each instruction. The time from start to end would not
/// do, because the clock leaps to the next timer while all processes wait. The command inherits this process's folder,
/// so that it can be started without copying this process.
fn count(program: &Path, dir: &Path, line: &Line) -> Result<Counted> {
    std::env::set_current_dir(dir)?;
    let mut command = Command::new(program);
    command.args(&line.args);
    clean(&mut command, line.input.as_deref())?;
    let usage = process::run(command, LIMITS).with_context(|| line.args.join(" "))?;
    let instructions = u64::try_from((usage.user + usage.system).as_nanos())?;
    let clock = u64::try_from(usage.wall.as_nanos())?;
    Ok(Counted { instructions, waited: clock.saturating_sub(instructions), cut: usage.cut })
}
