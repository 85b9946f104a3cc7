//! Runs the git to which refdb delegates.

use crate::{
    Invocation,
    failure::{Failure, message, system_text},
};
use refdb::Environment;
pub use refdb::real_git::{command, is_circular, program};
use std::{
    ffi::{OsStr, OsString},
    os::unix::{ffi::OsStrExt, process::CommandExt},
};

/// Replaces this process by git with these words, and returns only if git cannot be started. In messages, `name` is
/// the name of the command, and `what` describes what is left to git.
pub fn exec(environment: &Environment, name: &str, words: &[OsString], what: &str) -> Failure {
    let program = program(environment);
    if is_circular(environment) {
        let leads_back = "leads back to refdb: set REFDB_GIT to the path of the real git";
        return Failure::Fatal(message!["'", program.as_bytes(), " ", name, "' ", leads_back]);
    }
    not_run(&program, name, what, &command(environment).args(words).exec())
}

/// Returns the failure for a program that could not be run for `what`.
pub fn not_run(program: &OsStr, name: &str, what: &str, error: &std::io::Error) -> Failure {
    let program = program.as_bytes();
    Failure::Fatal(message!["cannot run '", program, " ", name, "', to which ", what, " is left: ", system_text(error)])
}

/// Delegates a whole command line to git as the user wrote it. Returns only if git cannot be started.
pub fn leave(invocation: &Invocation<'_>, name: &str) -> Failure {
    let words = invocation.globals.of_git.iter().cloned().chain([name.into()]);
    let words: Vec<OsString> = words.chain(invocation.words.iter().cloned()).collect();
    exec(&invocation.globals.environment(), name, &words, "this")
}
