//! `refdb reflog show`: git's `log -g --abbrev-commit --pretty=oneline`.

use crate::{Invocation, failure::Result, options::Command, real_git};
use std::ffi::OsString;

/// The command line.
pub(super) static COMMAND: Command = Command {
    program: "git",
    name: "reflog [show]",
    about: "Show the reflog of a reference (the default)",
    synopsis: &["[<log-options>] [<ref>]"],
    options: &[],
};

/// Runs the command, which git does.
pub(super) fn run(invocation: &Invocation<'_>) -> Result<u8> {
    let environment = invocation.globals.environment();
    let words: Vec<OsString> =
        ["reflog".into(), "show".into()].into_iter().chain(invocation.words.iter().cloned()).collect();
    Err(real_git::exec(&environment, "reflog show", &words, "this log"))
}
