//! Runs one command in a clean environment, with limits, and measures what it used.

use std::{
    fs::File,
    io::{ErrorKind, Read, Seek},
    os::unix::process::ExitStatusExt,
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use refdb_vfs::interrupt;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::{Errno, ioctl_fionbio},
    process::{Pid, PidfdFlags, Resource, Rlimit, Signal, pidfd_open, prlimit},
};
use serde::Serialize;
use wait4::Wait4;

use crate::guard::end_strays;

/// The resources that a finished command used.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Usage {
    /// The time from start to exit.
    pub wall: Duration,
    /// CPU time in user space.
    pub user: Duration,
    /// CPU time in the kernel.
    pub system: Duration,
    /// The maximum resident set size, in bytes.
    pub peak: u64,
    /// Whether the command was ended because it reached its limit of CPU time.
    pub cut: bool,
}

/// The clean environment, which excludes the configuration of the machine and of the user, and gives every run the
/// same idents and dates.
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
///
/// # Errors
///
/// Fails if the input cannot be opened.
pub fn clean(command: &mut Command, input: Option<&Path>) -> Result<()> {
    command.env_clear().envs(ENVIRONMENT);
    command.stdin(match input {
        Some(path) => Stdio::from(File::open(path).with_context(|| path.display().to_string())?),
        None => Stdio::null(),
    });
    Ok(())
}

/// The limits at which a command is ended, in seconds.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Maximum CPU time of each process.
    pub cpu: u64,
    /// Maximum time from the start to the end.
    pub wall: u64,
}

/// Runs `command` to its end, or until it has used its CPU time. Standard output is discarded. Programs that it
/// started in the background may still be running when this returns.
///
/// # Errors
///
/// Fails, for example, if the command cannot be started, if it fails, with its first message or else how it ended, if
/// it reaches its limit of wall time, or if a signal tells this process to stop.
pub fn run(command: Command, limits: Limits) -> Result<Usage> {
    run_into(command, Stdio::null(), limits)
}

/// Runs `command` like [`run`], but writes its standard output to `output`.
pub fn run_into(command: Command, output: Stdio, limits: Limits) -> Result<Usage> {
    let done = start(command, output)?.finish(limits);
    if done.is_err() {
        end_strays()?;
    }
    done
}

/// A running command that is being measured.
#[derive(Debug)]
pub struct Running {
    child: Child,
    start: Instant,
}

/// Starts `command`, and the measurement of its time.
pub fn start(mut command: Command, output: Stdio) -> Result<Running> {
    command.stdout(output).stderr(Stdio::piped());
    let start = Instant::now();
    let child = command.spawn().with_context(|| command.get_program().display().to_string())?;
    Ok(Running { child, start })
}

impl Running {
    /// Waits until the command ends. Fails unless it succeeded or reached its limit of CPU time. In either case,
    /// programs that it started may still be running afterwards.
    pub fn finish(mut self, limits: Limits) -> Result<Usage> {
        let said = limit(&self.child, limits.cpu).and_then(|()| listen(&mut self.child, limits.wall, true));
        if said.is_err() {
            end(&mut self.child)?;
        }
        let said = said?;
        // The command has ended, so this does not wait.
        let used = self.child.wait4()?;
        let wall = self.start.elapsed();
        let cut = was_cut(used.status);
        ensure!(cut || used.status.success(), "{}", failure(&said, used.status));
        Ok(Usage { wall, user: used.rusage.utime, system: used.rusage.stime, peak: used.rusage.maxrss, cut })
    }
}

/// Waits until `child` ends, without reaping it. Returns the first 64 KiB of its standard error, if that is a pipe.
/// After `seconds`, or when this process receives a signal to stop, the child and all stray processes are ended, and
/// this fails.
pub fn wait(child: &mut Child, seconds: u64) -> Result<String> {
    let said = listen(child, seconds, true);
    if said.is_err() {
        end(child)?;
        end_strays()?;
    }
    said
}

/// Ends a child that is no longer needed.
fn end(child: &mut Child) -> Result<()> {
    child.kill().ok();
    let start = Instant::now();
    while child.try_wait()?.is_none() {
        ensure!(start.elapsed() < TIMEOUT, "process {} does not end: see why, and end it by hand", child.id());
        sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Maximum time that a process may take to end after it was killed. A process that waits for a disk may never end.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Waits until a child ends, and returns the first 64 KiB that the child wrote to its standard error.
///
/// # Errors
///
/// Fails after `seconds`, if the child cannot be watched, if its standard error cannot be read or, if `heeds_signals`
/// is set, when a signal arrives.
fn listen(child: &mut Child, seconds: u64, heeds_signals: bool) -> Result<String> {
    let end = Instant::now() + Duration::from_secs(seconds);
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).context("a child has a number")?;
    let ended = pidfd_open(pid, PidfdFlags::empty()).context("cannot watch a process")?;
    let mut pipe = child.stderr.take();
    if let Some(pipe) = &pipe {
        ioctl_fionbio(pipe, true)?;
    }
    let mut said = Vec::new();
    loop {
        if heeds_signals {
            interrupt::check()?;
        }
        let left = end.saturating_duration_since(Instant::now());
        ensure!(!left.is_zero(), "it did not end within {seconds} s");
        // A signal that arrives between the check and the wait is noticed a little later.
        let pause = Timespec::try_from(left.min(Duration::from_millis(200)))?;
        let mut fds = Vec::from([PollFd::new(&ended, PollFlags::IN)]);
        fds.extend(pipe.iter().map(|pipe| PollFd::new(pipe, PollFlags::IN)));
        match poll(&mut fds, Some(&pause)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error).context("cannot wait for a process"),
        }
        let is_over = !fds[0].revents().is_empty();
        // Programs that the child left in the background may hold the pipe open, so this does not wait for its end.
        if pipe.as_mut().map(|pipe| take_in(pipe, &mut said)).transpose()? == Some(true) {
            pipe = None;
        }
        if is_over {
            return Ok(String::from_utf8_lossy(&said).into_owned());
        }
    }
}

/// Reads what is in the pipe, and appends it to `said` up to [`SAID_MAX`] bytes. Returns whether the pipe has ended.
/// Stops after [`PIECES_MAX`] pieces, because a program may write as fast as this reads.
fn take_in(pipe: &mut impl Read, said: &mut Vec<u8>) -> Result<bool> {
    let mut piece = [0; 4096];
    for _ in 0..PIECES_MAX {
        match pipe.read(&mut piece) {
            Ok(0) => return Ok(true),
            Ok(count) => said.extend(&piece[..count.min(SAID_MAX.saturating_sub(said.len()))]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error).context("cannot read what a program says"),
        }
    }
    Ok(false)
}

/// Maximum number of pieces that are read at once. By default, a pipe holds sixteen.
const PIECES_MAX: usize = 32;

/// Maximum number of bytes of standard error that are kept.
const SAID_MAX: usize = 64 << 10;

/// Runs a helper program, which must succeed.
pub fn tool(command: &mut Command) -> Result<()> {
    output(command).map(drop)
}

/// Returns the standard output of a helper program, which must succeed.
pub fn output(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let finished = finish(command)?;
    let said = finished.said.trim();
    ensure!(!said.is_empty() || finished.status.success(), "{name}: {}", finished.status);
    ensure!(finished.status.success(), "{name}: {said}");
    Ok(String::from_utf8_lossy(&finished.output).into_owned())
}

/// The result of a helper program.
#[derive(Debug)]
pub struct Ended {
    /// The exit status.
    pub status: ExitStatus,
    /// The standard output.
    pub output: Vec<u8>,
    /// The first 64 KiB of the standard error.
    pub said: String,
}

/// Runs a helper program to its end, for at most ten minutes. Programs that it leaves in the background are not waited
/// for. A signal to this process does not end it, because folders are removed by helper programs after a signal.
pub fn finish(command: &mut Command) -> Result<Ended> {
    finish_within(command, HELPER_LIMIT, false)
}

/// Runs a helper program like [`finish`], for at most `seconds`. A signal to this process ends it if `heeds_signals` is
/// set.
pub fn finish_within(command: &mut Command, seconds: u64, heeds_signals: bool) -> Result<Ended> {
    let name = command.get_program().to_string_lossy().into_owned();
    // Output goes to a file, because a pipe would fill up, and other processes may hold a pipe open.
    let mut file = tempfile::tempfile().context("cannot make a temporary file")?;
    command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("cannot run {name}"))?;
    let said = listen(&mut child, seconds, heeds_signals);
    if said.is_err() {
        end(&mut child)?;
    }
    let said = said.with_context(|| format!("{name} was ended"))?;
    let status = child.wait()?;
    let mut output = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut output)?;
    Ok(Ended { status, output, said })
}

/// Maximum number of seconds that a helper program may take.
const HELPER_LIMIT: u64 = 600;

/// Sets the limit of CPU time for a running child.
pub fn limit(child: &Child, seconds: u64) -> Result<()> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let limit = Rlimit { current: Some(seconds), maximum: Some(seconds.saturating_add(1)) };
    match prlimit(pid, Resource::Cpu, limit) {
        // A short command may have ended already.
        Ok(_) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => Err(error).context("cannot limit a command's CPU time"),
    }
}

/// Returns whether a command was ended by SIGXCPU, as it is at its limit of CPU time.
pub fn was_cut(status: ExitStatus) -> bool {
    status.signal() == Some(Signal::XCPU.as_raw())
}

/// Returns the first line that a failed command wrote, or how it ended.
fn failure(said: &str, status: ExitStatus) -> String {
    said.lines().find(|line| !line.trim().is_empty()).map_or_else(|| status.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_helper_is_not_delayed_by_a_program_that_holds_its_output_open() {
        let start = Instant::now();
        assert_eq!(output(Command::new("sh").args(["-c", "sleep 20 & echo said"])).unwrap(), "said\n");
        assert!(start.elapsed() < Duration::from_secs(15));
    }
}
