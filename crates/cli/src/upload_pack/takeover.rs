//! Runs git from the point where the server stopped serving a client.

use super::COMMAND;
use crate::{Invocation, failure::Result, output::wait, real_git};
use refdb::{Environment, messages::say};
use refdb_receive::wire::pkt::LENGTH_BYTES;
use refdb_serve::shim::{CHECKED, HandOver};
use refdb_vfs::interrupt;
use std::{
    fs::File,
    io::{self, Read, Write},
    os::fd::AsFd,
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    thread,
};

/// Runs git with the bytes that the server has read from the client, followed by the rest of the input. If the client
/// has received the advertisement, git's own is dropped. Returns the exit code for this process.
pub(super) fn run(environment: &Environment, invocation: &Invocation<'_>, rest: HandOver) -> Result<u8> {
    let mut git = real_git::command(environment);
    if rest.is_checked {
        git.args(CHECKED);
    }
    git.arg(COMMAND.name).args(invocation.words).stdin(Stdio::piped());
    if rest.is_advertised {
        git.stdout(Stdio::piped());
    }
    let status = pass(git, rest).map_err(|error| {
        real_git::not_run(&real_git::program(environment), COMMAND.name, "the rest of this fetch", &error)
    })?;
    Ok(real_git::exit_code(status))
}

fn pass(mut git: Command, rest: HandOver) -> io::Result<ExitStatus> {
    let mut child = git.spawn()?;
    if let Some(pipe) = child.stdin.take() {
        let input = own(io::stdin())?;
        // This thread may still wait for the client after git has ended. It then ends with the process.
        thread::spawn(move || feed(pipe, &rest.input, input));
    }
    if let Err(error) = pass_answer(&mut child) {
        // If the client has disconnected, git notices it by the closed pipe.
        let is_clients = error.kind() == io::ErrorKind::BrokenPipe;
        if !is_clients {
            say("error: ", format!("cannot pass on what git sends: {error}").as_bytes());
        }
    }
    child.wait()
}

/// Copies git's output to the client, without the advertisement at its start. Does nothing if git writes to the client
/// itself.
fn pass_answer(child: &mut Child) -> io::Result<()> {
    let Some(mut answer) = child.stdout.take() else { return Ok(()) };
    if skip_to_flush(&mut answer)? {
        pass_on(&mut answer, &mut own(io::stdout())?)?;
    }
    Ok(())
}

fn feed(mut pipe: ChildStdin, begin: &[u8], mut input: File) -> io::Result<()> {
    pipe.write_all(begin)?;
    pass_on(&mut input, &mut pipe)
}

/// Maximum number of bytes that are copied at once, which is the usual capacity of a pipe.
const PIECE_BYTES: usize = 64 << 10;

/// Copies all bytes up to the end of `from`. [`io::copy`] is not used, because it would call splice(2), which keeps a
/// pipe locked while it waits for the bytes of a socket, so git could not read earlier bytes. Like git, this waits if a
/// descriptor is non-blocking.
fn pass_on(from: &mut (impl Read + AsFd), to: &mut (impl Write + AsFd)) -> io::Result<()> {
    let mut buffer = vec![0; PIECE_BYTES];
    loop {
        let count = match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => count,
            Err(error) => {
                wait(error, || interrupt::wait_readable(from.as_fd()))?;
                continue;
            }
        };
        let mut piece = &buffer[..count];
        while !piece.is_empty() {
            match to.write(piece) {
                Ok(written) => piece = &piece[written..],
                Err(error) => wait(error, || interrupt::wait_writable(to.as_fd()))?,
            }
        }
    }
}

/// Returns a duplicate of a stream's descriptor, for reads and writes without the buffer of the stream.
fn own(stream: impl AsFd) -> io::Result<File> {
    Ok(stream.as_fd().try_clone_to_owned()?.into())
}

/// Reads and drops packets up to a flush packet. Returns `false` if the output ends before one.
fn skip_to_flush(answer: &mut impl Read) -> io::Result<bool> {
    loop {
        let mut digits = [0; LENGTH_BYTES];
        match answer.read_exact(&mut digits) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
            read => read?,
        }
        let length = str::from_utf8(&digits).ok().and_then(|digits| u64::from_str_radix(digits, 16).ok());
        let Some(length) = length else { return Err(io::Error::other("git's advertisement is not a list of packets")) };
        if length == 0 {
            return Ok(true);
        }
        let data = length.saturating_sub(LENGTH_BYTES as u64);
        io::copy(&mut answer.take(data), &mut io::sink())?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_advertisement_ends_with_a_flush() {
        for (text, rest) in [
            ("000aabcdef0000rest", Some("rest")),
            ("0000", Some("")),
            ("0001" /* a delimiter */, None),
            ("0008abcd0004" /* an empty line */, None),
            ("", None),
            ("00", None),
        ] {
            let mut bytes = text.as_bytes();
            let is_there = skip_to_flush(&mut bytes).unwrap();
            assert_eq!(is_there.then_some(bytes), rest.map(str::as_bytes), "{text}");
        }
        assert!(skip_to_flush(&mut &b"zzzz"[..]).is_err());
    }
}
