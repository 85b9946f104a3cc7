//! Runs a `git receive-pack` that receives a delegated push, within the limits on memory and processor time.

use super::{Client, FATAL, Failure, relay::Relay};
use crate::{Watch, WorkLimits, ending::Ending, watch::end};
use refdb::messages::{say, system_text};
use refdb_vfs::interrupt;
use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
    process::{Pid, Signal, kill_process},
};
use std::{
    io,
    process::{Child, ChildStdin, Command},
};

/// A running git, the watch that limits its programs, and the relay of its answer to the client.
pub(super) struct Supervised {
    git: Child,
    pid: Pid,
    watch: Watch,
    relay: Option<Relay>,
}

impl Supervised {
    /// Starts git, whose answer is relayed to the client. `is_stateless` means that no advertisement precedes the
    /// answer, because the client has received it before.
    pub(super) fn start(
        mut git: Command,
        limits: WorkLimits,
        is_stateless: bool,
        client: Client<'_>,
    ) -> io::Result<Self> {
        let to_client = client.output.try_clone_to_owned()?;
        let (answer, gits) = io::pipe()?;
        // The relay starts first, because without it git would have to be ended.
        let relay = Relay::start(answer, to_client.into(), is_stateless)?;
        let supervised = Self::of(git.stdout(gits), limits)?;
        Ok(Supervised { relay: Some(relay), ..supervised })
    }

    /// Starts git for a client that has not requested a side band. Such a client cannot be told that a limit was
    /// exceeded, so git writes its answer directly to the client, and the answer and git's standard error keep their
    /// order.
    pub(super) fn start_directly(mut git: Command, limits: WorkLimits, client: Client<'_>) -> io::Result<Self> {
        Self::of(git.stdout(client.output.try_clone_to_owned()?), limits)
    }

    fn of(git: &mut Command, limits: WorkLimits) -> io::Result<Self> {
        let git = git.spawn()?;
        let pid = i32::try_from(git.id()).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| io::Error::other("the system gave a process an invalid id"))?;
        Ok(Supervised { git, pid, watch: Watch::new(limits), relay: None })
    }

    /// Returns git's standard input if it is a pipe and was not taken before.
    pub(super) fn input(&mut self) -> Option<ChildStdin> {
        self.git.stdin.take()
    }

    /// If a check is due, ends a program of git that exceeds a limit, and reports the reason to the log and, if there
    /// is a relay, to the client. Unless git itself was ended, git decides what that means for the push.
    pub(super) fn look(&mut self) {
        if self.watch.is_due()
            && let Some((command, excess)) = self.watch.end_excess_below(self.pid)
        {
            let text = format!("git {command} {excess}");
            say("error: ", text.as_bytes());
            if let Some(relay) = &self.relay {
                relay.tell(&text);
            }
        }
    }

    /// Waits for git's end and returns its exit code, or 128 if a signal ended git. A signal that asks refdb to end is
    /// passed on to git, and the result is then [`Failure::Interrupted`].
    pub(super) fn wait(mut self) -> Result<u8, Failure> {
        let ended = self.until_end();
        if ended.is_err() {
            // Nobody would limit git any more.
            end(self.pid);
        }
        let ended = ended.and(self.git.wait());
        if ended.is_ok()
            && let Some(relay) = self.relay.take()
        {
            relay.finish();
        }
        match ended {
            _ if interrupt::received().is_some() => Err(Failure::Interrupted),
            Ok(status) => Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(FATAL)),
            Err(error) => Err(Failure::Fatal(format!("cannot wait for git: {}", system_text(&error)).into())),
        }
    }

    fn until_end(&mut self) -> io::Result<()> {
        let ending = Ending::of(self.pid);
        let mut told = None;
        loop {
            let received = interrupt::received();
            if received != told {
                told = received;
                if let Some(signal) = received.and_then(Signal::from_named_raw) {
                    kill_process(self.pid, signal)?;
                }
            }
            self.look();
            if ending.has_come()? {
                return Ok(());
            }
            let mut ends: Vec<_> = ending.fd().iter().map(|git| PollFd::new(*git, PollFlags::IN)).collect();
            match poll(&mut ends, Some(&ending.pause(Watch::PAUSE))) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Kills git, to which nothing was passed, with everything that it started, and waits for its end, so that refdb
    /// can answer the client.
    pub(super) fn stop(mut self) {
        end(self.pid);
        // Git has ended, or cannot be waited for.
        let _ = self.git.wait();
        if let Some(relay) = self.relay.take() {
            relay.finish();
        }
    }

    /// Kills git and waits for its end, but not for what it has started.
    pub(super) fn abandon(mut self) {
        // Git may have ended by itself.
        let _ = self.git.kill();
        let _ = self.git.wait();
    }
}
