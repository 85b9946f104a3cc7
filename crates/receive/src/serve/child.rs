//! Runs programs for a push, and passes their output on to the client.

use super::channel::Channel;
use crate::{
    ending::Ending,
    watch::{self, Excess, Watch, WorkLimits},
};
use refdb::{hooks::SHELL, messages::say};
use refdb_vfs::interrupt;
use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
    process::{Pid, Signal, WaitOptions, WaitStatus, kill_process, waitpid},
};
use std::{
    ffi::{OsStr, OsString},
    io::{self, PipeReader, PipeWriter, Read},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

/// A program, with everything that is needed to run it.
#[derive(Clone, Debug)]
pub(super) struct Program {
    /// The name of the program in error messages.
    pub(super) name: OsString,
    pub(super) path: OsString,
    pub(super) arguments: Vec<OsString>,
    pub(super) directory: PathBuf,
    /// Environment variables to set, or to unset if the value is `None`.
    pub(super) variables: Vec<(OsString, Option<OsString>)>,
    /// The time after which the program is killed and is treated as failed.
    pub(super) timeout: Option<Duration>,
    /// The limits on the program and its descendants together. If they exceed one, they are killed, and the user is
    /// informed, except with [`Output::Nowhere`].
    pub(super) limits: Option<WorkLimits>,
}

/// The standard input of a program.
#[derive(Clone, Copy, Debug)]
pub(super) enum Input<'a> {
    Nothing,
    /// The data that the client sends.
    Client(BorrowedFd<'a>),
    Bytes(&'a [u8]),
}

/// The destination of the output of a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Output {
    /// Standard output and standard error both go to the user.
    ToUser,
    /// Standard output, for example the bytes that follow a small pack, is discarded. Standard error goes to the user.
    ErrorsToUser,
    /// Standard output and standard error both go to the standard error of the server, even if there is a side band.
    ToLog,
    /// Standard output and standard error are both discarded.
    Nowhere,
    /// Standard output is returned; more than [`OUTPUT_BYTES_MAX`] bytes of it are an error. Standard error goes to the
    /// user.
    Wanted,
}

/// From when on keepalive packets are sent to the client while the program is silent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Alive {
    /// From the start of the program.
    Always,
    /// After the program has written a zero byte to its standard error, as index-pack does when it has read everything.
    /// The byte is not passed on.
    AfterNul,
}

/// The result of running a program.
#[derive(Debug)]
pub(super) struct Ended {
    is_success: bool,
    is_started: bool,
    is_excessive: bool,
    pub(super) output: Vec<u8>,
}

impl Ended {
    /// Returns whether the program could be started. Git runs no further hooks of an event after one that could not be
    /// started.
    pub(super) fn started(&self) -> bool {
        self.is_started
    }

    /// Returns whether the program was killed because it exceeded its resource limits.
    pub(super) fn is_excessive(&self) -> bool {
        self.is_excessive
    }

    pub(super) fn success(&self) -> bool {
        self.is_success
    }
}

/// Maximum number of bytes of output that are returned.
const OUTPUT_BYTES_MAX: usize = 64 << 10;

/// Maximum duration of a wait before a check for signals, for programs without resource limits.
const PAUSE: Duration = Duration::from_millis(200);

impl Program {
    /// Adds arguments.
    pub(super) fn words(&mut self, words: impl IntoIterator<Item = impl AsRef<OsStr>>) {
        self.arguments.extend(words.into_iter().map(|word| word.as_ref().to_owned()));
    }

    /// Returns the command by which the program is started, with our own standard streams.
    pub(super) fn command(&self) -> Command {
        self.command_by(false)
    }

    fn command_by(&self, by_shell: bool) -> Command {
        let mut command = if by_shell { Command::new(SHELL) } else { Command::new(&self.path) };
        command.args(by_shell.then_some(&self.path)).args(&self.arguments);
        // The directory is set only if necessary. Without one, the standard library starts the child by a call that
        // shares our memory until exec; with one, and a C library that cannot set it in that call, by fork, which
        // copies the page tables.
        if self.directory != Path::new(".") {
            command.current_dir(&self.directory);
        }
        for (name, value) in &self.variables {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command
    }

    /// Runs the program to its end. Its messages for the user are sent to the client as they arrive. A program that
    /// cannot be run is treated as failed.
    ///
    /// # Errors
    ///
    /// Fails, for example, if the connection to the client fails, a signal arrives, or output that is to be returned is
    /// too long. If the program still runs, it is sent SIGTERM.
    pub(super) fn run(
        &self,
        input: Input<'_>,
        output: Output,
        alive: Alive,
        channel: &mut Channel<'_>,
    ) -> io::Result<Ended> {
        const EXEC_FORMAT: i32 = 8;
        let started = match self.start(false, input, output, channel) {
            // A script without a `#!` line is run by the shell, as in execvp(3).
            Err(error) if error.raw_os_error() == Some(EXEC_FORMAT) => self.start(true, input, output, channel),
            started => started,
        };
        self.attend(started, output, alive, channel)
    }

    /// Runs the program like [`run`](Self::run), but `start` starts it, with an empty standard input. All of its
    /// output is for the user.
    pub(super) fn run_by(
        &self,
        start: impl FnOnce(BorrowedFd<'_>) -> io::Result<Pid>,
        channel: &mut Channel<'_>,
    ) -> io::Result<Ended> {
        let started = way_to_user(Output::ToUser, channel).and_then(|(user, relay)| {
            let pid = start(user.as_fd())?;
            drop(user);
            Ok((pid, Pipes::new(None, relay, None)?))
        });
        self.attend(started, Output::ToUser, Alive::Always, channel)
    }

    fn attend(
        &self,
        started: io::Result<(Pid, Pipes<'_>)>,
        output: Output,
        alive: Alive,
        channel: &mut Channel<'_>,
    ) -> io::Result<Ended> {
        let (pid, mut pipes) = match started {
            Ok(started) => started,
            Err(error) => {
                if output != Output::Nowhere {
                    self.tell_why_not_started(&error, channel)?;
                }
                return Ok(Ended { is_success: false, is_started: false, is_excessive: false, output: Vec::new() });
            }
        };
        if let Some(limits) = self.limits {
            limits.set_backstop(pid);
        }
        pipes.alive = alive == Alive::Always;
        let end = self.timeout.map(|timeout| Instant::now() + timeout);
        let mut excess = None;
        match pipes.attend(pid, end, self.limits.map(Watch::new), channel) {
            Ok(Attended::ToItsEnd) => {}
            Ok(Attended::TooLong) => watch::end(pid),
            Ok(Attended::Excessive(met)) => {
                watch::end(pid);
                excess = Some(met);
            }
            Err(error) => {
                let _ = kill_process(pid, Signal::TERM);
                // Git's own programs end soon, and the quarantine into which they write can then be removed.
                if self.limits.is_some() {
                    await_end(pid);
                }
                reap(pid);
                return Err(error);
            }
        }
        let status = wait(pid)?;
        if let Some(excess) = excess.filter(|_| output != Output::Nowhere) {
            self.tell_excess(excess, channel)?;
        } else if let Some(signal) =
            status.terminating_signal().filter(|signal| output != Output::Nowhere && is_told(*signal))
        {
            let text = [self.name.as_bytes(), format!(" died of signal {signal}").as_bytes()].concat();
            channel.error(&text)?;
        }
        let (is_success, is_excessive) = (status.exit_status() == Some(0), excess.is_some());
        Ok(Ended { is_success, is_started: true, is_excessive, output: pipes.taken })
    }

    /// Reports a limit that was exceeded to the user, and to the log if that is another destination.
    fn tell_excess(&self, excess: Excess, channel: &mut Channel<'_>) -> io::Result<()> {
        let text = format!("git {} {excess}", self.name.display());
        if channel.has_side_band() {
            say("error: ", text.as_bytes());
        }
        channel.error(text.as_bytes())
    }

    /// Reports why the program was not started, in git's words. Git looks up a name in `PATH` before it starts the
    /// child, whereas a path with a slash fails only in the child.
    fn tell_why_not_started(&self, error: &io::Error, channel: &mut Channel<'_>) -> io::Result<()> {
        let why = error.to_string();
        let why = why.split_once(" (os error").map_or(&why[..], |(why, _)| why);
        if self.name == self.path && self.path.as_bytes().contains(&b'/') {
            channel.fatal(&[b"cannot exec '", self.path.as_bytes(), b"': ", why.as_bytes()].concat())
        } else {
            channel.error(&[b"cannot run ", self.name.as_bytes(), b": ", why.as_bytes()].concat())
        }
    }

    fn start<'a>(
        &self,
        by_shell: bool,
        input: Input<'a>,
        output: Output,
        channel: &Channel<'_>,
    ) -> io::Result<(Pid, Pipes<'a>)> {
        let mut command = self.command_by(by_shell);
        command.stdin(match input {
            Input::Nothing => Stdio::null(),
            Input::Client(client) => client.try_clone_to_owned()?.into(),
            Input::Bytes(_) => Stdio::piped(),
        });
        let (user, relay) = way_to_user(output, channel)?;
        command.stdout(match output {
            Output::ToUser | Output::ToLog | Output::Nowhere => Stdio::from(user.try_clone()?),
            Output::ErrorsToUser => Stdio::null(),
            Output::Wanted => Stdio::piped(),
        });
        command.stderr(user);
        let mut child = command.spawn()?;
        // Dropping the command closes our copies of the writing ends, so that reading ends when the program does.
        drop(command);
        let mut pipes = Pipes::new(child.stdin.take().map(OwnedFd::from), relay, child.stdout.take())?;
        if let Input::Bytes(bytes) = input {
            pipes.to_write = bytes;
        }
        Ok((pid(&child)?, pipes))
    }
}

/// Returns the destination of the standard error of a program, and our end of the pipe if the output is relayed.
fn way_to_user(output: Output, channel: &Channel<'_>) -> io::Result<(OwnedFd, Option<PipeReader>)> {
    if output == Output::Nowhere {
        Ok((std::fs::OpenOptions::new().write(true).open("/dev/null")?.into(), None))
    } else if channel.has_side_band() && output != Output::ToLog {
        let (reader, writer): (PipeReader, PipeWriter) = io::pipe()?;
        Ok((writer.into(), Some(reader)))
    } else {
        Ok((io::stderr().as_fd().try_clone_to_owned()?, None))
    }
}

/// Returns whether git reports that a program died of this signal. Git does not report the signals with which a user or
/// the reader of a pipe ends a program.
fn is_told(signal: i32) -> bool {
    ![Signal::INT, Signal::QUIT, Signal::PIPE].map(Signal::as_raw).contains(&signal)
}

pub(super) fn pid(child: &Child) -> io::Result<Pid> {
    let id = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    id.ok_or_else(|| io::Error::other("the system gave a process an invalid id"))
}

/// Waits for the end of a program that was told to end, but not for long.
fn await_end(pid: Pid) {
    const GRACE: Duration = Duration::from_secs(1);
    let (ending, told) = (Ending::of(pid), Instant::now());
    while told.elapsed() < GRACE && matches!(ending.has_come(), Ok(false)) {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Lets a thread wait for the end of a program that was told to end. The caller does not wait, because the program may
/// ignore the signal; but in a server, programs for which nobody waits would use up the process ids.
fn reap(pid: Pid) {
    // Without a thread, the program stays a zombie until this process ends.
    let _ = std::thread::Builder::new().name("reaper".into()).spawn(move || wait(pid));
}

fn wait(pid: Pid) -> io::Result<WaitStatus> {
    let ended = rustix::io::retry_on_intr(|| waitpid(Some(pid), WaitOptions::empty()))?;
    ended.map(|(_, status)| status).ok_or_else(|| io::Error::other("the system reported the end of no process"))
}

/// The outcome of serving the pipes of a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Attended {
    ToItsEnd,
    /// The program exceeded its time limit.
    TooLong,
    /// The program exceeded its resource limits.
    Excessive(Excess),
}

/// Our ends of a program's pipes.
struct Pipes<'a> {
    feed: Option<OwnedFd>,
    to_write: &'a [u8],
    relay: Option<PipeReader>,
    wanted: Option<ChildStdout>,
    taken: Vec<u8>,
    alive: bool,
}

impl Pipes<'_> {
    fn new(feed: Option<OwnedFd>, relay: Option<PipeReader>, wanted: Option<ChildStdout>) -> io::Result<Self> {
        for fd in feed.iter().map(AsFd::as_fd).chain(relay.iter().map(AsFd::as_fd)) {
            rustix::io::ioctl_fionbio(fd, true)?;
        }
        Ok(Pipes { feed, to_write: &[], relay, wanted, taken: Vec::new(), alive: false })
    }

    /// Serves the pipes until the program has ended and all of its output has been read, or it exceeds a limit.
    fn attend(
        &mut self,
        pid: Pid,
        end: Option<Instant>,
        mut watch: Option<Watch>,
        channel: &mut Channel<'_>,
    ) -> io::Result<Attended> {
        let pause = if watch.is_some() { Watch::PAUSE } else { PAUSE };
        let ending = Ending::of(pid);
        let mut has_ended = false;
        let mut heard = Instant::now();
        loop {
            if self.to_write.is_empty() {
                self.feed = None;
            }
            // A process that the program left running may still hold the pipe for messages to the user. Like git, this
            // reads that pipe to its end.
            if has_ended && self.relay.is_none() && self.wanted.is_none() {
                return Ok(Attended::ToItsEnd);
            }
            interrupt::check()?;
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(Attended::TooLong);
            }
            if let Some(watch) = watch.as_mut().filter(|_| !has_ended)
                && watch.is_due()
                && let Some(excess) = watch.excess(pid)
            {
                return Ok(Attended::Excessive(excess));
            }
            let ready = self.wait(&ending, has_ended, left.map_or(pause, |left| left.min(pause)))?;
            has_ended = has_ended || ending.has_come()?;
            if has_ended {
                self.feed = None;
            }
            if ready.feed {
                self.write()?;
            }
            if ready.relay && self.pass_on(channel)? {
                heard = Instant::now();
            }
            if ready.wanted {
                self.take()?;
            }
            if let Some(interval) = channel.keep_alive().filter(|_| self.alive)
                && heard.elapsed() >= interval
            {
                channel.keepalive()?;
                heard = Instant::now();
            }
        }
    }

    fn wait(&self, ending: &Ending, has_ended: bool, pause: Duration) -> io::Result<Ready> {
        let ends = [
            (self.feed.as_ref().map(AsFd::as_fd), PollFlags::OUT),
            (self.relay.as_ref().map(AsFd::as_fd), PollFlags::IN),
            (self.wanted.as_ref().map(AsFd::as_fd), PollFlags::IN),
            (ending.fd().filter(|_| !has_ended).map(AsFd::as_fd), PollFlags::IN),
        ];
        let open = ends.iter().filter_map(|(fd, events)| Some((fd.as_ref()?, *events)));
        let mut polled: Vec<_> = open.map(|(fd, events)| PollFd::new(fd, events)).collect();
        match poll(&mut polled, Some(&ending.pause(pause))) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let mut polled = polled.iter();
        let mut is_ready =
            |at: usize| ends[at].0.is_some() && polled.next().is_some_and(|polled| !polled.revents().is_empty());
        Ok(Ready { feed: is_ready(0), relay: is_ready(1), wanted: is_ready(2) })
    }

    fn write(&mut self) -> io::Result<()> {
        let Some(feed) = &self.feed else { return Ok(()) };
        match rustix::io::write(feed, self.to_write) {
            Ok(written) => self.to_write = &self.to_write[written..],
            Err(Errno::INTR | Errno::AGAIN) => {}
            // A program need not read its input.
            Err(Errno::PIPE) => self.to_write = &[],
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Passes on the output of the program. Returns whether there was any.
    fn pass_on(&mut self, channel: &mut Channel<'_>) -> io::Result<bool> {
        let Some(relay) = &mut self.relay else { return Ok(false) };
        let mut buffer = [0; 8 << 10];
        let mut count = match relay.read(&mut buffer) {
            Ok(0) => {
                self.relay = None;
                return Ok(false);
            }
            Ok(count) => count,
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                return Ok(false);
            }
            Err(error) => return Err(error),
        };
        if !self.alive
            && let Some(nul) = buffer[..count].iter().position(|byte| *byte == 0)
        {
            self.alive = true;
            buffer.copy_within(nul + 1..count, nul);
            count -= 1;
        }
        channel.text(&buffer[..count])?;
        Ok(true)
    }

    fn take(&mut self) -> io::Result<()> {
        let Some(wanted) = &mut self.wanted else { return Ok(()) };
        let mut buffer = [0; 1 << 10];
        match wanted.read(&mut buffer) {
            Ok(0) => self.wanted = None,
            Ok(count) if self.taken.len() + count <= OUTPUT_BYTES_MAX => self.taken.extend_from_slice(&buffer[..count]),
            Ok(_) => return Err(io::Error::other("the output of a program is longer than expected")),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

/// The ends of pipes that are ready.
struct Ready {
    feed: bool,
    relay: bool,
    wanted: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::redactor::Redactor;

    /// Regression: the quarantine was removed while a program still wrote into it.
    #[test]
    fn a_program_of_git_has_ended_when_its_push_fails() {
        let temp = tempfile::tempdir().unwrap();
        let (reader, writer) = io::pipe().unwrap();
        let mut channel = Channel::new(writer.as_fd(), Redactor::of([]));
        channel.use_side_band(0);
        drop(reader);
        let script = "sleep 60 & trap 'sleep 0.2; echo >ended; kill %1; exit' TERM; echo x; wait";
        let program = Program {
            name: "sh".into(),
            path: SHELL.into(),
            arguments: vec!["-c".into(), script.into()],
            directory: temp.path().to_owned(),
            variables: Vec::new(),
            timeout: None,
            limits: Some(WorkLimits { memory_bytes: 0, seconds: 0 }),
        };
        let failed = program.run(Input::Nothing, Output::ToUser, Alive::Always, &mut channel).unwrap_err();
        assert_eq!(failed.kind(), io::ErrorKind::BrokenPipe);
        assert!(temp.path().join("ended").exists(), "it is still running");
    }
}
