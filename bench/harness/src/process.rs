//! Running one command: a clean environment, and what it used.

use std::{
    fs::File,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use rustix::process::{Pid, Resource, Rlimit, Signal, prlimit};
use serde::{Deserialize, Serialize};
use wait4::Wait4;

/// A program under measurement.
#[derive(Debug, Clone)]
pub struct Program {
    /// Its name in tables.
    pub name: &'static str,
    /// The binary.
    pub path: PathBuf,
    /// The git that it calls.
    pub real_git: Option<PathBuf>,
}

/// One command line with its input, the same for every program under measurement.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Line {
    /// The arguments after the program's name.
    pub args: Vec<String>,
    /// The file on standard input, if any.
    pub input: Option<PathBuf>,
}

/// What a finished command used.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Usage {
    /// From start to exit.
    pub wall: Duration,
    /// CPU time in user space.
    pub user: Duration,
    /// CPU time in the kernel.
    pub system: Duration,
    /// The largest resident set, in bytes.
    pub peak: u64,
    /// Whether it was ended at the limit, so that it would have used more than this.
    pub cut: bool,
}

/// A command that takes more CPU seconds is ended by the kernel: its figures are lower bounds then.
pub const LIMIT: u64 = 30;

/// What keeps the machine's and the user's configuration out, and idents and dates the same in every run.
pub const ENVIRONMENT: [(&str, &str); 14] = [
    ("PATH", "/usr/bin:/bin"),
    ("HOME", "/nonexistent"),
    ("LC_ALL", "C"),
    ("TZ", "UTC"),
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ("GIT_AUTHOR_NAME", "A U Thor"),
    ("GIT_AUTHOR_EMAIL", "author@example.com"),
    ("GIT_AUTHOR_DATE", "1700000000 +0000"),
    ("GIT_COMMITTER_NAME", "C O Mitter"),
    ("GIT_COMMITTER_EMAIL", "committer@example.com"),
    ("GIT_COMMITTER_DATE", "1700000000 +0000"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_OPTIONAL_LOCKS", "0"),
];

impl Program {
    /// The command `line` in the folder `dir`, in the clean environment.
    pub fn command(&self, dir: &Path, line: &Line) -> Result<Command> {
        let mut command = Command::new(&self.path);
        command.args(&line.args);
        self.prepare(&mut command, dir, line.input.as_deref())?;
        Ok(command)
    }

    /// Gives `command`, which runs this program, the clean environment, the folder and the input.
    pub fn prepare(&self, command: &mut Command, dir: &Path, input: Option<&Path>) -> Result<()> {
        command.current_dir(dir);
        clean(command, input)?;
        command.envs(self.real_git.iter().map(|git| ("REFDB_GIT", git)));
        Ok(())
    }

    /// The output of a command that must succeed.
    pub fn output<S: AsRef<str>>(&self, dir: &Path, args: &[S]) -> Result<Vec<u8>> {
        let args: Vec<String> = args.iter().map(|arg| arg.as_ref().to_owned()).collect();
        let output = self.command(dir, &Line { args: args.clone(), input: None })?.output()?;
        anyhow::ensure!(
            output.status.success(),
            "{} {} failed: {}",
            self.name,
            args.join(" "),
            String::from_utf8_lossy(&output.stderr).trim()
        );
        Ok(output.stdout)
    }

    /// Runs `line` in `dir` with its output thrown away; an error tells what the command said.
    pub fn measure(&self, dir: &Path, line: &Line) -> Result<Usage> {
        run(self.command(dir, line)?).with_context(|| format!("{} {}", self.name, line.args.join(" ")))
    }
}

/// Gives `command` the clean environment and the input.
pub fn clean(command: &mut Command, input: Option<&Path>) -> Result<()> {
    command.env_clear().envs(ENVIRONMENT);
    command.stdin(match input {
        Some(path) => Stdio::from(File::open(path).with_context(|| path.display().to_string())?),
        None => Stdio::null(),
    });
    Ok(())
}

/// Runs `command` to its end or to the limit, with standard output thrown away.
pub fn run(mut command: Command) -> Result<Usage> {
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let start = Instant::now();
    let mut child = command.spawn()?;
    limit(&child)?;
    let said = child.stderr.take().map(std::io::read_to_string).transpose()?.unwrap_or_default();
    let used = child.wait4()?;
    let wall = start.elapsed();
    let cut = was_cut(used.status);
    anyhow::ensure!(cut || used.status.success(), "{}", failure(&said, used.status));
    Ok(Usage { wall, user: used.rusage.utime, system: used.rusage.stime, peak: used.rusage.maxrss, cut })
}

/// Sets the limit for a running child.
pub fn limit(child: &Child) -> Result<()> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let limit = Rlimit { current: Some(LIMIT), maximum: Some(LIMIT + 1) };
    match prlimit(pid, Resource::Cpu, limit) {
        // A short command may be over already.
        Ok(_) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => Err(error).context("cannot limit a command's CPU time"),
    }
}

/// Whether a command ended at the limit.
pub fn was_cut(status: ExitStatus) -> bool {
    status.signal() == Some(Signal::XCPU.as_raw())
}

/// The first thing a failed command said, else how it ended.
fn failure(said: &str, status: ExitStatus) -> String {
    said.lines().find(|line| !line.trim().is_empty()).map_or_else(|| status.to_string(), str::to_owned)
}
