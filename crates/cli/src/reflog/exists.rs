//! `refdb reflog exists`: see git-reflog(1).

use crate::{
    Invocation,
    failure::{Failure, Result, fatal},
    options::Command,
    session::Session,
};
use refdb_types::{FormatOptions, check_format};

pub(super) static COMMAND: Command = Command {
    program: "git",
    name: "reflog exists",
    about: "Test whether a reference has a reflog",
    synopsis: &["<ref>"],
    options: &[],
};

/// Runs the command. As in git, only the first name is used.
pub(super) fn run(invocation: &Invocation<'_>) -> Result<u8> {
    let session = Session::begin(invocation, &COMMAND)?;
    let names = COMMAND.arguments(invocation.words)?;
    let Some(name) = names.first() else {
        return Err(COMMAND.wrong_use(None));
    };
    if check_format(name, FormatOptions { allow_onelevel: true, refspec_pattern: false }).is_err() {
        return fatal!["invalid ref format: ", name];
    }
    match session.store.read(refdb::Error::is_stale, |snapshot| snapshot.has_log(name))? {
        true => Ok(0),
        false => Err(Failure::Exit(1)),
    }
}
