//! `refdb reflog list`.

use crate::{
    Invocation,
    failure::{FAILED, Failure, Result, message},
    options::Command,
    output::Output,
    session::Session,
};

/// The command line.
pub(super) static COMMAND: Command = Command {
    program: "git",
    name: "reflog list",
    about: "List all references that have a reflog",
    synopsis: &[""],
    options: &[],
};

/// Runs the command.
pub(super) fn run(invocation: &Invocation<'_>) -> Result<u8> {
    let session = Session::begin(invocation, &COMMAND)?;
    if let Some(argument) = COMMAND.arguments(invocation.words)?.first() {
        return Err(Failure::Error(message!["list does not accept arguments: '", argument, "'"], FAILED));
    }
    let mut output = Output::default();
    for name in session.store.snapshot()?.log_names()? {
        output.buffer().extend_from_slice(&name);
        output.buffer().push(b'\n');
        output.relieve()?;
    }
    output.flush()?;
    Ok(0)
}
