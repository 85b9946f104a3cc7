//! `refdb receive-pack`, also as `git-receive-pack`. See git-receive-pack(1).
//!
//! Pushes to repositories that need a feature refdb does not have are delegated to the real git, as
//! [`refdb_receive::delegation_reason`] decides.

use crate::{
    Invocation,
    failure::{Failure, Result, fatal, say, system_text},
    options::{Command, Opt, Parser, Word},
    real_git,
    session::{Session, before_locks},
};
use bstr::ByteSlice;
use refdb::{Environment, Misuse, Repository, Store};
use refdb_receive::{Call, Facts, Screen, ServeError, Settings, delegation_reason, serve, wire::Version};
use refdb_vfs::Fs;
use std::{
    ffi::{OsStr, OsString},
    io,
    os::{fd::AsFd, unix::ffi::OsStrExt},
    path::Path,
    process::Stdio,
};
use supervise::Supervised;

// A push is delegated before anything is sent to the client, unless only the client's request shows that git is
// needed, as for a shallow clone or a signed push: then `replay` passes the request on. `screened` passes on a request
// only if git can store its refs.
mod relay;
mod replay;
mod screened;
mod supervise;

/// The command line.
pub static COMMAND: Command = Command {
    program: "git",
    name: "receive-pack",
    about: "Receive what is pushed into the repository",
    synopsis: &["<git-dir>"],
    options: &[
        Opt::flag("quiet", "quiet").short(b'q'),
        Opt::flag("skip-connectivity-check", "skip connectivity check").hidden(),
        Opt::flag("stateless-rpc", "the references were advertised by another call").hidden(),
        Opt::flag("http-backend-info-refs", "advertise the references, and no more").hidden(),
        Opt::flag("advertise-refs", "the same").hidden(),
        Opt::flag("reject-thin-pack-for-testing", "do not complete thin packs").hidden(),
    ],
};

/// Runs the command.
pub fn run(invocation: &Invocation<'_>) -> Result<u8> {
    let environment = invocation.globals.environment();
    // Git itself reports a usage error.
    let Some((call, folder)) = parse(invocation.words, &environment) else {
        return Err(leave(&environment, invocation.words));
    };
    let fs = Fs::real();
    let place = Repository::served_folder(&fs, &environment, Path::new(OsStr::from_bytes(folder)));
    let place = place.map_err(|error| Failure::Lines(error.report()))?;
    place.warnings.iter().for_each(|warning| say("warning: ", warning.as_bytes()));
    if let Err(error) = std::env::set_current_dir(&place.folder) {
        return fatal!["cannot change to '", place.folder.as_os_str().as_bytes(), "': ", system_text(&error)];
    }
    let session = Session::open_served(environment.clone().with("GIT_DIR", "."))?;
    let settings = Settings::of(session.store.config()).map_err(refdb::Error::from)?;
    let facts = Facts::of(&fs, session.store.repository(), &environment)?;
    if delegation_reason(&settings, &facts).is_some() {
        check_git_may(&session.store)?;
        return delegate(&environment, &session.store, &settings, &call);
    }
    before_locks()?;
    let (input, output) = (io::stdin(), io::stdout());
    let result = serve(&session.store, &settings, &call, input.as_fd(), output.as_fd());
    match result {
        Err(ServeError::Delegated(words)) => {
            check_git_may(&session.store)?;
            replay::replay(&call, &words, settings.work_limits)
        }
        result => exit_code(result),
    }
}

/// Returns the exit code of a push that refdb has answered itself.
fn exit_code(result: std::result::Result<(), ServeError>) -> Result<u8> {
    match result {
        Ok(()) => Ok(0),
        Err(ServeError::Store(error)) => Err(error.into()),
        Err(_) if refdb_vfs::interrupt::received().is_some() => Err(Failure::Interrupted),
        Err(ServeError::Io(error)) if error.kind() == io::ErrorKind::BrokenPipe => Err(Failure::BrokenPipe),
        Err(error) => fatal![error.to_string()],
    }
}

/// Fails if git would bypass the global ref database, so that a push must not be delegated.
fn check_git_may(store: &Store) -> Result<()> {
    match store.context().forbidden {
        Some(why @ Misuse::Global { .. }) => Err(refdb::Error::from(why.clone()).into()),
        _ => Ok(()),
    }
}

/// Replaces this process by git, to which the push is delegated. Returns only if git cannot be started.
fn leave<'w>(environment: &Environment, words: impl IntoIterator<Item = &'w OsString>) -> Failure {
    let words: Vec<OsString> = [COMMAND.name.into()].into_iter().chain(words.into_iter().cloned()).collect();
    real_git::exec(environment, COMMAND.name, &words, "this push")
}

/// Runs git, to which the push is delegated before anything is sent to the client.
fn delegate(environment: &Environment, store: &Store, settings: &Settings, call: &Call) -> Result<u8> {
    let words = words_of(call);
    let screen = if call.only_advertise { None } else { Screen::of(store, settings, call) };
    if screen.is_none() && !settings.work_limits.any() {
        return Err(leave(environment, &words));
    }
    before_locks()?;
    let mut git = real_git::handed_over(environment, COMMAND.name)?;
    git.arg(COMMAND.name).args(&words);
    let not_run = |error| real_git::not_run(&real_git::program(environment), COMMAND.name, "this push", &error);
    match screen {
        None => Supervised::start(git, settings.work_limits, call.stateless).map_err(not_run)?.wait(),
        Some(screen) => {
            git.stdin(Stdio::piped());
            let git = Supervised::start(git, settings.work_limits, call.stateless).map_err(not_run)?;
            screened::pass_on(git, screen, store, settings, call)
        }
    }
}

/// Returns the words of git's command line for a call in the current folder.
fn words_of(call: &Call) -> Vec<OsString> {
    let options = [
        (call.quiet, "--quiet"),
        (call.skip_connectivity, "--skip-connectivity-check"),
        (call.stateless, "--stateless-rpc"),
        (call.only_advertise, "--http-backend-info-refs"),
        (call.reject_thin_pack, "--reject-thin-pack-for-testing"),
    ];
    let given = options.into_iter().filter(|(is_given, _)| *is_given).map(|(_, word)| word);
    given.chain(["."]).map(OsString::from).collect()
}

/// Parses the command line. Returns `None` if git would report a usage error.
fn parse<'w>(words: &'w [OsString], environment: &Environment) -> Option<(Call, &'w [u8])> {
    let agent = concat!("refdb/", env!("CARGO_PKG_VERSION"));
    let mut call = Call::new(real_git::program(environment), agent.into());
    (call.version_1, call.session_id) = (wants_version_1(environment), session_id().into());
    let mut folder = None;
    let mut parser = Parser::new(&COMMAND, words);
    while let Some(word) = parser.next_word().ok()? {
        match word {
            Word::Argument(_) if folder.is_some() => return None,
            Word::Argument(argument) => folder = Some(argument.as_bytes()),
            Word::Option(opt, setting) => match opt.name {
                "quiet" => call.quiet = setting.is_on(),
                "skip-connectivity-check" => call.skip_connectivity = setting.is_on(),
                "stateless-rpc" => call.stateless = setting.is_on(),
                "http-backend-info-refs" | "advertise-refs" => call.only_advertise = setting.is_on(),
                "reject-thin-pack-for-testing" => call.reject_thin_pack = setting.is_on(),
                _ => opt.unread(),
            },
        }
    }
    folder.map(|folder| (call, folder))
}

/// Returns whether the client asks for version 1. Version 2 does not define pushes, so it is answered like version 0.
fn wants_version_1(environment: &Environment) -> bool {
    let protocol = environment.get("GIT_PROTOCOL").unwrap_or_default();
    Version::of(OsStr::as_bytes(&protocol)) == Version::V1
}

/// Returns a session id that is unique on this machine.
fn session_id() -> String {
    let now = refdb_vfs::now_nanos();
    format!("{}.{:09}-P{:08x}", now / 1_000_000_000, now % 1_000_000_000, std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_version_of_the_protocol_counts_and_2_is_answered_as_0() {
        for (protocol, wanted) in [
            ("", false),
            ("version=0", false),
            ("version=1", true),
            ("x:version=1:version=0", true),
            ("version=1:version=2", false),
            ("version=9:version=1", true),
        ] {
            let environment = Environment::empty("/").with("GIT_PROTOCOL", protocol);
            assert_eq!(wants_version_1(&environment), wanted, "{protocol}");
        }
    }
}
