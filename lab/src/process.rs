//! Running one command: a clean environment, a limit, and how much it used.

use std::{
    fs::File,
    os::unix::process::ExitStatusExt,
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Resource, Rlimit, Signal, prlimit};
use serde::Serialize;
use wait4::Wait4;

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

/// Gives `command` the clean environment and the input.
pub fn clean(command: &mut Command, input: Option<&Path>) -> Result<()> {
    command.env_clear().envs(ENVIRONMENT);
    command.stdin(match input {
        Some(path) => Stdio::from(File::open(path).with_context(|| path.display().to_string())?),
        None => Stdio::null(),
    });
    Ok(())
}

/// Runs `command` to its end, or until it has used `seconds` of CPU time. Standard output is thrown away; an error tells
/// how the command complained.
pub fn run(mut command: Command, seconds: u64) -> Result<Usage> {
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let start = Instant::now();
    let mut child = command.spawn().with_context(|| command.get_program().display().to_string())?;
    limit(&child, seconds)?;
    let said = child.stderr.take().map(std::io::read_to_string).transpose()?.unwrap_or_default();
    let used = child.wait4()?;
    let wall = start.elapsed();
    let cut = was_cut(used.status);
    ensure!(cut || used.status.success(), "{}", failure(&said, used.status));
    Ok(Usage { wall, user: used.rusage.utime, system: used.rusage.stime, peak: used.rusage.maxrss, cut })
}

/// Runs a helper program that must succeed.
pub fn tool(command: &mut Command) -> Result<()> {
    output(command).map(drop)
}

/// The standard output of a helper program that must succeed.
pub fn output(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| format!("cannot run {name}"))?;
    ensure!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Sets the limit of CPU time for a running child.
pub fn limit(child: &Child, seconds: u64) -> Result<()> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let limit = Rlimit { current: Some(seconds), maximum: Some(seconds.saturating_add(1)) };
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
