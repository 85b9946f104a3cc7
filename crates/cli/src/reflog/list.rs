//! `refdb reflog list`.

use super::FAILED;
use crate::{
    Invocation,
    failure::{Failure, Result, message},
    options::{Command, Parser, Word},
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
    let mut first = None;
    let mut parser = Parser::new(&COMMAND, invocation.words);
    while let Some(word) = parser.next_word()? {
        match word {
            Word::Argument(argument) => {
                first.get_or_insert(argument);
            }
            Word::Option(opt, _) => opt.unread(),
        }
    }
    if let Some(argument) = first {
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
