//! `refdb upload-pack`, also as `git-upload-pack`: serves a client that fetches. A running `refdb serve` lists the
//! refs, and git does the rest. See git-upload-pack(1).
//!
//! `REFDB_SERVE_SOCKET` names the server's socket. If the variable is unset or empty, or if the server cannot be asked
//! or does not serve the client, for example because it cannot do exactly what git would do, git does everything.

use crate::{
    Invocation,
    failure::{Failure, Result},
    options::{Command, Opt, Parser, Value, Word},
    real_git,
};
use bstr::{BStr, ByteSlice};
use refdb::{Environment, Repository};
use refdb_serve::shim::{Answered, Mode, NotAsked, Request, ask, variables};
use refdb_vfs::Fs;
use rustix::fs::FileType;
use std::{
    ffi::{OsStr, OsString},
    io::{self, Write},
    os::{
        fd::AsFd,
        unix::{ffi::OsStrExt, fs::MetadataExt},
    },
    path::Path,
};

mod syslog;
mod takeover;

pub static COMMAND: Command = Command {
    program: "git",
    name: "upload-pack",
    about: "Send objects packed back to git-fetch-pack",
    synopsis: &["[--[no-]strict] [--timeout=<n>] <directory>"],
    options: &[
        Opt::flag("strict", "do not try <directory>/.git/ if <directory> is no Git directory"),
        Opt::flag("timeout", "interrupt transfer after <n> seconds of inactivity").takes(Value::Required("n")),
        Opt::flag("stateless-rpc", "the references were advertised by another call").hidden(),
        Opt::flag("http-backend-info-refs", "only advertise the references").hidden(),
        Opt::flag("advertise-refs", "only advertise the references").hidden(),
    ],
};

/// The environment variable that names the socket of the server.
const SOCKET: &str = "REFDB_SERVE_SOCKET";

/// A parsed command line.
struct Call<'w> {
    mode: Mode,
    is_strict: bool,
    timeout_seconds: u32,
    folder: &'w BStr,
}

pub fn run(invocation: &Invocation<'_>) -> Result<u8> {
    let environment = invocation.globals.environment();
    // If the git program leads back to refdb, no server is asked again, and `leave` reports the loop.
    let socket = environment.get(SOCKET).filter(|socket| !socket.is_empty() && !real_git::is_circular(&environment));
    let (Some(socket), Some(call)) = (socket, parse(invocation.words)) else {
        return Err(leave(invocation));
    };
    let (input, output) = (io::stdin(), io::stdout());
    let can_wait = (call.mode == Mode::Advertisement || can_wait_for(&input)) && can_wait_for(&output);
    // If the folder cannot be used, git reports why.
    let Some(request) = request(&environment, &call).filter(|_| can_wait) else {
        return Err(leave(invocation));
    };
    match ask(Path::new(&socket), &request, [input.as_fd(), output.as_fd()]) {
        Err(not_asked) => {
            tell_host(&not_asked, &request);
            Err(leave(invocation))
        }
        Ok(Answered::Ended { code, error }) => {
            if !error.is_empty() {
                // If standard error is closed, the message is lost.
                let _ = writeln!(io::stderr(), "{error}");
            }
            Ok(code)
        }
        Ok(Answered::Continue(rest)) => takeover::run(&environment, invocation, rest),
        Ok(Answered::Lost(error)) => {
            Err(Failure::Fatal(format!("the connection to refdb serve broke ({error}); fetch again").into()))
        }
    }
}

/// Replaces this process by git, which does everything. Returns only if git cannot be started or the git program leads
/// back to refdb.
fn leave(invocation: &Invocation<'_>) -> Failure {
    real_git::leave(invocation, COMMAND.name, "this fetch")
}

/// Parses the command line. Returns `None` if git must interpret it, for example because of a usage error.
fn parse(words: &[OsString]) -> Option<Call<'_>> {
    let (mut is_stateless, mut only_advertises, mut is_strict, mut timeout, mut folder) =
        (false, false, false, 0, None);
    let mut parser = Parser::new(&COMMAND, words);
    while let Some(word) = parser.next_word().ok()? {
        match word {
            Word::Argument(_) if folder.is_some() => return None,
            Word::Argument(argument) => folder = Some(argument),
            Word::Option(opt, setting) => match opt.name {
                "strict" => is_strict = setting.is_on(),
                "timeout" => timeout = setting.value().map_or(Some(0), |value| value.to_str().ok()?.parse().ok())?,
                "stateless-rpc" => is_stateless = setting.is_on(),
                "http-backend-info-refs" | "advertise-refs" => only_advertises = setting.is_on(),
                _ => opt.unread(),
            },
        }
    }
    let mode = match (only_advertises, is_stateless) {
        (true, _) => Mode::Advertisement,
        (false, true) => Mode::Answer,
        (false, false) => Mode::Whole,
    };
    Some(Call { mode, is_strict, timeout_seconds: timeout, folder: folder? })
}

/// Returns whether the server can wait for this end of the client's connection, which must be a pipe or a socket.
fn can_wait_for(end: impl AsFd) -> bool {
    let kind = rustix::fs::fstat(end).map(|stat| FileType::from_raw_mode(stat.st_mode));
    matches!(kind, Ok(FileType::Fifo | FileType::Socket))
}

/// Returns the request for the server, or `None` if git must serve the client: because of global options, or because
/// the folder cannot be used.
fn request(environment: &Environment, call: &Call<'_>) -> Option<Request> {
    // Global options change the environment of git, but `variables` reports only the environment of this process.
    if !environment.changes().is_empty() {
        return None;
    }
    let given = Path::new(OsStr::from_bytes(call.folder));
    let found = Repository::folder_to_fetch_from(&Fs::real(), environment, given, call.is_strict).ok()?;
    let folder = found.canonicalize().ok()?;
    // The server compares these numbers, because it may see another folder at this path.
    let id = folder.metadata().ok()?;
    let text = |name: &str| environment.get(name).map(|value| value.to_string_lossy().into_owned());
    let ssh = text("SSH_CONNECTION").and_then(|ends| ends.split(' ').next().map(str::to_owned));
    Some(Request {
        mode: call.mode,
        protocol: environment.get("GIT_PROTOCOL").unwrap_or_default().as_bytes().to_vec(),
        timeout_seconds: call.timeout_seconds,
        user: text("GL_USER").or_else(|| text("REMOTE_USER")).unwrap_or_default(),
        address: text("REMOTE_ADDR").or(ssh).unwrap_or_default(),
        folder,
        folder_id: (id.dev(), id.ino()),
        variables: variables(),
    })
}

/// Writes to the system's log why the server did not serve a client, because the client does not notice it.
fn tell_host(why: &NotAsked, request: &Request) {
    syslog::write(&format!("git serves {} without refdb serve: {why}", request.folder.display()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_is_parsed_or_left_to_git() {
        let parsed = |words: &[&str]| {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            parse(&words).map(|call| (call.mode, call.is_strict, call.timeout_seconds, call.folder.to_string()))
        };
        let folder = || "/srv/x".to_owned();
        assert_eq!(parsed(&["/srv/x"]), Some((Mode::Whole, false, 0, folder())));
        assert_eq!(parsed(&["--strict", "--timeout=7", "/srv/x"]), Some((Mode::Whole, true, 7, folder())));
        assert_eq!(parsed(&["--stateless-rpc", "/srv/x"]), Some((Mode::Answer, false, 0, folder())));
        assert_eq!(parsed(&["--http-backend-info-refs", "/srv/x"]), Some((Mode::Advertisement, false, 0, folder())));
        let advertises = parsed(&["--stateless-rpc", "--advertise-refs", "/srv/x"]);
        assert_eq!(advertises, Some((Mode::Advertisement, false, 0, folder())));
        for words in [&["--timeout=x", "/srv/x"][..], &["--timeout=-1", "/srv/x"], &["--other", "x"], &["x", "y"], &[]]
        {
            assert_eq!(parsed(words), None, "{words:?}");
        }
    }
}
