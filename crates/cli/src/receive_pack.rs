//! `refdb receive-pack`, also as `git-receive-pack`. See git-receive-pack(1).
//!
//! Pushes to repositories that need a feature refdb does not have are delegated to the real git, as
//! [`refdb_receive::delegation_reason`] decides.

use crate::{
    Invocation,
    failure::{Failure, Result, fatal, say, system_text},
    options::{Command, Opt, Parser, Word},
    real_git,
    session::before_locks,
};
use bstr::ByteSlice;
use refdb::{Environment, Repository};
use refdb_receive::{Call, Client, Reception};
use refdb_vfs::Fs;
use std::{
    ffi::{OsStr, OsString},
    io,
    os::{
        fd::AsFd,
        unix::{ffi::OsStrExt, process::CommandExt},
    },
    path::Path,
};

pub static COMMAND: Command = Command {
    program: "git",
    name: "receive-pack",
    about: "Receive what is pushed into the repository",
    synopsis: &["<git-dir>"],
    options: &[
        Opt::flag("quiet", "quiet").short(b'q'),
        Opt::flag("skip-connectivity-check", "skip connectivity check").hidden(),
        Opt::flag("stateless-rpc", "the references were advertised by another call").hidden(),
        Opt::flag("http-backend-info-refs", "only advertise the references").hidden(),
        Opt::flag("advertise-refs", "only advertise the references").hidden(),
        Opt::flag("reject-thin-pack-for-testing", "do not complete thin packs").hidden(),
    ],
};

pub fn run(invocation: &Invocation<'_>) -> Result<u8> {
    let environment = invocation.globals.environment();
    // Git interprets what refdb cannot parse, and reports usage errors.
    let Some((call, folder)) = parse(invocation.words, &environment) else {
        return Err(real_git::leave(invocation, COMMAND.name, "this push"));
    };
    let place = Repository::served_folder(&Fs::real(), &environment, Path::new(OsStr::from_bytes(folder)));
    let place = place.map_err(|error| Failure::Lines(error.report()))?;
    place.warnings.iter().for_each(|warning| say("warning: ", warning.as_bytes()));
    if let Err(error) = std::env::set_current_dir(&place.folder) {
        return fatal!["cannot change to '", place.folder.as_os_str().as_bytes(), "': ", system_text(&error)];
    }
    let reception = Reception::open(environment, call)?;
    if let Some(mut git) = reception.left_to_git()? {
        return Err(reception.not_run(&git.exec()).into());
    }
    before_locks()?;
    let (input, output) = (io::stdin(), io::stdout());
    Ok(reception.run(Client { input: input.as_fd(), output: output.as_fd() })?)
}

/// Parses the command line. Returns `None` for a usage error or a request for help, which git answers.
fn parse<'w>(words: &'w [OsString], environment: &Environment) -> Option<(Call, &'w [u8])> {
    let mut call = Call::in_environment(environment);
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
