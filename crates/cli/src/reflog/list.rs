//! `refdb reflog list`: see git-reflog(1).

use crate::{
    Invocation,
    failure::{FAILED, Failure, Result, message},
    options::Command,
    output::Output,
    session::Session,
};
use refdb::RefFormat;

pub(super) static COMMAND: Command = Command {
    program: "git",
    name: "reflog list",
    about: "List all references that have a reflog",
    synopsis: &[""],
    options: &[],
};

pub(super) fn run(invocation: &Invocation<'_>) -> Result<u8> {
    let session = Session::begin(invocation, &COMMAND)?;
    if let Some(argument) = COMMAND.arguments(invocation.words)?.first() {
        return Err(Failure::Error(message!["list does not accept arguments: '", argument, "'"], FAILED));
    }
    let mut names = session.store.read(refdb::Error::is_stale, |snapshot| snapshot.log_names())?;
    if session.store.repository().ref_format() == RefFormat::Files {
        // In git's walk through the folders, `a/b` comes before `a-b`.
        names.sort_by(|one, other| one.split(|byte| *byte == b'/').cmp(other.split(|byte| *byte == b'/')));
    }
    let mut output = Output::default();
    for name in names {
        output.buffer().extend_from_slice(&name);
        output.buffer().push(b'\n');
        output.relieve()?;
    }
    output.flush()?;
    Ok(0)
}
