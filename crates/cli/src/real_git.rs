//! Runs the git to which refdb delegates.

use crate::{
    Invocation,
    failure::{FAILED, Failure},
};
use refdb::Environment;
pub use refdb::real_git::{command, is_circular, program};
use std::{
    ffi::{OsStr, OsString},
    io,
    os::unix::process::{CommandExt, ExitStatusExt},
    process::ExitStatus,
};

/// Replaces this process by git with these words, and returns only if git cannot be started or if the git program leads
/// back to refdb. In messages, `name` is the name of the command, and `what` describes what is left to git.
pub fn exec(environment: &Environment, name: &str, words: &[OsString], what: &str) -> Failure {
    if is_circular(environment) {
        return Failure::Fatal(refdb::real_git::leads_back(environment, name));
    }
    not_run(&program(environment), name, what, &command(environment).args(words).exec())
}

/// Returns the failure for a program that could not be run for `what`.
pub fn not_run(program: &OsStr, name: &str, what: &str, error: &io::Error) -> Failure {
    Failure::Fatal(refdb::real_git::not_run(program, name, what, error))
}

/// Delegates a whole command line to git, as [`exec`] does: the command and its words as the user wrote them, and the
/// global options as words or as environment variables, except for `-C`, which has taken effect already.
pub fn leave(invocation: &Invocation<'_>, name: &str, what: &str) -> Failure {
    let words = invocation.globals.of_git.iter().cloned().chain([name.into()]);
    let words: Vec<OsString> = words.chain(invocation.words.iter().cloned()).collect();
    exec(&invocation.globals.environment(), name, &words, what)
}

/// Returns the exit code of git, or the one that a shell has for the signal that ended git.
pub fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(FAILED)
}
