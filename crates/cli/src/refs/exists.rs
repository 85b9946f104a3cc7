//! `refdb refs exists`: see git-refs(1).

use crate::{
    Invocation,
    failure::{Result, fatal},
    options::Command,
    session::Session,
    show_ref,
};

pub(super) static COMMAND: Command = Command {
    program: "git",
    name: "refs exists",
    about: "Test whether a reference exists, without following it",
    synopsis: &["<ref>"],
    options: &[],
};

pub(super) fn run(invocation: &Invocation<'_>) -> Result<u8> {
    let session = Session::begin(invocation, &COMMAND)?;
    let names = COMMAND.arguments(invocation.words)?;
    match names[..] {
        [name] => show_ref::tell_existence(&session, name),
        _ => fatal!["'git refs exists' requires a reference"],
    }
}
