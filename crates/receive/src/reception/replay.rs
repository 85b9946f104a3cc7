//! Delegates a push to git after the refs were advertised: git receives the bytes that the client has sent so far, and
//! everything that the client sends later.

use super::{Client, Failure, Reception, supervise::Supervised};
use crate::Watch;
use bstr::ByteSlice;
use refdb::messages::system_text;
use refdb_vfs::interrupt;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};
use std::{
    io,
    process::{ChildStdin, Stdio},
};

const PIECE_BYTES: usize = 64 << 10;

/// Maximum duration of a wait for the client or for git before the limits are checked again.
const PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: Watch::PAUSE.subsec_nanos() as i64 };

impl Reception {
    /// Runs git with the input `words`, followed by everything that the client sends from now on.
    pub(super) fn replay(&self, words: &[u8], client: Client<'_>) -> Result<u8, Failure> {
        // `--stateless-rpc` keeps git from sending an advertisement, because the client has received ours.
        let mut command = self.git()?;
        command.env("GIT_DIR", ".").args(["receive-pack", "--stateless-rpc"]);
        command.args(self.call.quiet.then_some("--quiet")).arg(".");
        command.stdin(Stdio::piped());
        let limits = self.settings.work_limits;
        let started = match words.contains_str("side-band") {
            true => Supervised::start(command, limits, true, client),
            false => Supervised::start_directly(command, limits, client),
        };
        let mut child = started.map_err(|error| {
            let text = system_text(&error);
            Failure::Fatal(format!("cannot run git, to which this push is delegated: {text}").into())
        })?;
        let Some(git) = child.input() else { return child.wait() };
        finish(git, words, child, client)
    }
}

/// Passes `bytes`, and then everything that the client sends, to git, and waits for git's end. Kills git if the bytes
/// cannot be passed on.
pub(super) fn finish(git: ChildStdin, bytes: &[u8], mut child: Supervised, client: Client<'_>) -> Result<u8, Failure> {
    match feed(git, bytes, &mut child, client) {
        Ok(()) => child.wait(),
        Err(error) => {
            child.abandon();
            Err(not_passed_on(&error))
        }
    }
}

/// Returns the failure for an error of the connection to the client or to git: [`Failure::Interrupted`] if a signal has
/// arrived.
pub(super) fn not_passed_on(error: &io::Error) -> Failure {
    if interrupt::received().is_some() {
        return Failure::Interrupted;
    }
    Failure::Fatal(format!("cannot pass on what the client sends: {}", system_text(error)).into())
}

/// Passes `words`, and then what the client sends, to git until the client or git closes its end. Does not wait for
/// git's output.
fn feed(git: ChildStdin, words: &[u8], child: &mut Supervised, client: Client<'_>) -> io::Result<()> {
    // Only our end of the pipe becomes non-blocking.
    rustix::io::ioctl_fionbio(&git, true)?;
    if write(&git, words, child)? {
        return Ok(());
    }
    let mut buffer = vec![0; PIECE_BYTES];
    loop {
        match read(&git, child, client, &mut buffer)? {
            None | Some(0) => return Ok(()),
            Some(count) if write(&git, &buffer[..count], child)? => return Ok(()),
            Some(_) => {}
        }
    }
}

/// Reads what the client sends next, and returns the number of bytes, which is 0 if the client has closed its end.
/// Returns `None` if git has closed its end.
pub(super) fn read(
    git: &ChildStdin,
    child: &mut Supervised,
    client: Client<'_>,
    buffer: &mut [u8],
) -> io::Result<Option<usize>> {
    loop {
        interrupt::check()?;
        child.look();
        // Poll reports a pipe without a reader even if no events are requested.
        let mut fds = [PollFd::new(&client.input, PollFlags::IN), PollFd::new(git, PollFlags::empty())];
        match poll(&mut fds, Some(&PAUSE)) {
            Ok(0) | Err(Errno::INTR) => continue,
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        if !fds[1].revents().is_empty() {
            return Ok(None);
        }
        match rustix::io::read(client.input, &mut *buffer) {
            Ok(count) => return Ok(Some(count)),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Writes bytes to git, whose limits are checked while git reads nothing. Returns whether git has closed its end.
fn write(git: &ChildStdin, mut bytes: &[u8], child: &mut Supervised) -> io::Result<bool> {
    while !bytes.is_empty() {
        match rustix::io::write(git, bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(Errno::INTR) => interrupt::check()?,
            Err(Errno::AGAIN) => {
                interrupt::check()?;
                child.look();
                match poll(&mut [PollFd::new(git, PollFlags::OUT)], Some(&PAUSE)) {
                    Ok(_) | Err(Errno::INTR) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            Err(Errno::PIPE) => return Ok(true),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(false)
}
