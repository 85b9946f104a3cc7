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

/// When a command is ended, in seconds.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// CPU time of one process.
    pub cpu: u64,
    /// From the start on.
    pub wall: u64,
}

/// Runs `command` to its end, or until it has used all the CPU time that it may. Standard output is thrown away; an
/// error tells how the command complained. What it started in the background may still run afterwards.
pub fn run(command: Command, limits: Limits) -> Result<Usage> {
    run_into(command, Stdio::null(), limits)
}

/// The same with standard output in `output`.
pub fn run_into(command: Command, output: Stdio, limits: Limits) -> Result<Usage> {
    let done = start(command, output)?.finish(limits);
    if done.is_err() {
        end_strays()?;
    }
    done
}

/// A command that was started and is measured.
#[derive(Debug)]
pub struct Running {
    child: Child,
    start: Instant,
}

/// Starts `command`; its clock runs from now on.
pub fn start(mut command: Command, output: Stdio) -> Result<Running> {
    command.stdout(output).stderr(Stdio::piped());
    let start = Instant::now();
    let child = command.spawn().with_context(|| command.get_program().display().to_string())?;
    Ok(Running { child, start })
}

impl Running {
    /// Waits for its end, at which it must have succeeded or used all the CPU time that it may. If that fails, programs
    /// that it started may go on.
    pub fn finish(mut self, limits: Limits) -> Result<Usage> {
        let said = limit(&self.child, limits.cpu).and_then(|()| listen(&mut self.child, limits.wall, true));
        if said.is_err() {
            end(&mut self.child)?;
        }
        let said = said?;
        // It has ended, so this does not wait.
        let used = self.child.wait4()?;
        let wall = self.start.elapsed();
        let cut = was_cut(used.status);
        ensure!(cut || used.status.success(), "{}", failure(&said, used.status));
        Ok(Usage { wall, user: used.rusage.utime, system: used.rusage.stime, peak: used.rusage.maxrss, cut })
    }
}

/// Waits until `child` ends, and does not reap it. What it wrote to its standard error is returned, if that is a pipe,
/// up to its first 64 KiB. After `seconds`, or when this process is told to stop, the child and all stray processes are
/// ended.
pub fn wait(child: &mut Child, seconds: u64) -> Result<String> {
    let said = listen(child, seconds, true);
    if said.is_err() {
        end(child)?;
        end_strays()?;
    }
    said
}

/// Ends a child that is not wanted any more.
fn end(child: &mut Child) -> Result<()> {
    child.kill().ok();
    let start = Instant::now();
    while child.try_wait()?.is_none() {
        ensure!(start.elapsed() < TIMEOUT, "process {} does not end: see why, and end it by hand", child.id());
        sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// How long a process may take to end once it was told to. One that waits for a disk may take for ever.
const TIMEOUT: Duration = Duration::from_secs(60);

/// What a child says until it ends. It fails after `seconds`, or, if it heeds them, by a signal.
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
        // A signal may come between the check and the wait: it is seen a little later then.
        let pause = Timespec::try_from(left.min(Duration::from_millis(200)))?;
        let mut fds = Vec::from([PollFd::new(&ended, PollFlags::IN)]);
        fds.extend(pipe.iter().map(|pipe| PollFd::new(pipe, PollFlags::IN)));
        match poll(&mut fds, Some(&pause)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error).context("cannot wait for a process"),
        }
        let is_over = !fds[0].revents().is_empty();
        // What it left in the background may hold the pipe open, so its end is not waited for.
        if pipe.as_mut().map(|pipe| take_in(pipe, &mut said)).transpose()? == Some(true) {
            pipe = None;
        }
        if is_over {
            return Ok(String::from_utf8_lossy(&said).into_owned());
        }
    }
}

/// Reads all that is there, and keeps the first of it. Says whether that was the end. A program may write as fast as
/// this reads, so it stops after a while.
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

/// Pieces that are read at once. A pipe holds sixteen of them.
const PIECES_MAX: usize = 32;

/// Bytes of a complaint that are kept.
const SAID_MAX: usize = 64 << 10;

/// Runs a helper program that must succeed.
pub fn tool(command: &mut Command) -> Result<()> {
    output(command).map(drop)
}

/// The standard output of a helper program that must succeed.
pub fn output(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let finished = finish(command)?;
    ensure!(finished.status.success(), "{name}: {}", finished.said.trim());
    Ok(String::from_utf8_lossy(&finished.output).into_owned())
}

/// A helper program that has ended.
#[derive(Debug)]
pub struct Ended {
    /// How.
    pub status: ExitStatus,
    /// Its standard output.
    pub output: Vec<u8>,
    /// The first 64 KiB of its standard error.
    pub said: String,
}

/// Runs a helper program to its end. Programs that it leaves in the background are not waited for. Signals do not
/// end it, since folders are tidied up after them, but it may take ten minutes at most.
pub fn finish(command: &mut Command) -> Result<Ended> {
    finish_within(command, HELPER_LIMIT, false)
}

/// The same of a program that may take `seconds`, and that may heed signals.
pub fn finish_within(command: &mut Command, seconds: u64, heeds_signals: bool) -> Result<Ended> {
    let name = command.get_program().to_string_lossy().into_owned();
    // A pipe would be full at some time, and may be held open by others.
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

/// Seconds that a helper program may take.
const HELPER_LIMIT: u64 = 600;

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
