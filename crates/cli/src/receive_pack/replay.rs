//! Delegates a push to git after the refs were advertised: git receives the bytes that the client has sent so far,
//! and everything that the client sends later.

use super::supervise::Supervised;
use crate::failure::{Failure, Result, fatal, message, system_text};
use bstr::ByteSlice;
use refdb_receive::{Call, Watch, WorkLimits};
use refdb_vfs::interrupt;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};
use std::{
    io,
    os::fd::AsFd,
    process::{ChildStdin, Command, Stdio},
};

const PIECE_BYTES: usize = 64 << 10;

/// Runs git with `words` and all that the client sends after them, within these limits.
pub(super) fn replay(call: &Call, words: &[u8], limits: WorkLimits) -> Result<u8> {
    // Git runs in the current folder. It sends no advertisement, because the client has received ours.
    let mut command = Command::new(&call.git);
    command.env("GIT_DIR", ".").args(["receive-pack", "--stateless-rpc"]);
    command.args(call.quiet.then_some("--quiet")).arg(".");
    command.stdin(Stdio::piped());
    let started = match words.contains_str("side-band") {
        true => Supervised::start(command, limits, true),
        false => Supervised::start_directly(command, limits),
    };
    let mut child = match started {
        Ok(child) => child,
        Err(error) => return fatal!["cannot run git, to which this push is left: ", system_text(&error)],
    };
    let Some(git) = child.input() else { return child.wait() };
    finish(git, words, child)
}

/// Passes these bytes and all that the client sends after them to git, and waits for git's end.
pub(super) fn finish(git: ChildStdin, bytes: &[u8], mut child: Supervised) -> Result<u8> {
    match feed(git, bytes, &mut child) {
        Ok(()) => child.wait(),
        Err(error) => {
            child.abandon();
            Err(not_passed_on(&error))
        }
    }
}

/// Returns the failure for an error of the connection to the client or to git.
pub(super) fn not_passed_on(error: &io::Error) -> Failure {
    if interrupt::received().is_some() {
        return Failure::Interrupted;
    }
    Failure::Fatal(message!["cannot pass on what the client sends: ", system_text(error)])
}

/// Passes bytes from the client to git until either of them closes its end. Returns while the client still waits for
/// the answer.
fn feed(git: ChildStdin, words: &[u8], child: &mut Supervised) -> io::Result<()> {
    if write(&git, words)? {
        return Ok(());
    }
    let mut buffer = vec![0; PIECE_BYTES];
    loop {
        match read(&git, child, &mut buffer)? {
            None | Some(0) => return Ok(()),
            Some(count) if write(&git, &buffer[..count])? => return Ok(()),
            Some(_) => {}
        }
    }
}

/// Reads what the client sends next, and returns the number of bytes, which is 0 if the client has closed its end.
/// Returns `None` if git has closed its end.
pub(super) fn read(git: &ChildStdin, child: &mut Supervised, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    let client = io::stdin();
    let pause = Timespec { tv_sec: 0, tv_nsec: Watch::PAUSE.subsec_nanos().into() };
    loop {
        interrupt::check()?;
        child.look();
        // Poll reports a pipe without a reader even if no events are requested.
        let mut fds = [PollFd::new(&client, PollFlags::IN), PollFd::new(git, PollFlags::empty())];
        match poll(&mut fds, Some(&pause)) {
            Ok(0) | Err(Errno::INTR) => continue,
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        if !fds[1].revents().is_empty() {
            return Ok(None);
        }
        match rustix::io::read(client.as_fd(), &mut *buffer) {
            Ok(count) => return Ok(Some(count)),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Writes bytes to git. Returns whether git has closed its end.
fn write(git: &ChildStdin, mut bytes: &[u8]) -> io::Result<bool> {
    while !bytes.is_empty() {
        match rustix::io::write(git, bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(Errno::INTR) => interrupt::check()?,
            Err(Errno::PIPE) => return Ok(true),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(false)
}
