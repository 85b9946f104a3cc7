//! Runs the git to which refdb delegates.

use crate::{
    Invocation,
    failure::{Failure, Result, message, system_text},
};
use refdb::Environment;
use std::{
    ffi::{OsStr, OsString},
    os::unix::{ffi::OsStrExt, process::CommandExt},
    process::Command,
};

/// The variable that names the program, if the git in `PATH` is not the real one.
const PROGRAM: &str = "REFDB_GIT";

/// The variable that counts nested delegations, so that a git that leads back to refdb is detected.
const DEPTH: &str = "REFDB_HANDED_OVER";

/// Maximum number of nested delegations. Hooks may push to other repositories, but hardly this deep.
const DEPTH_MAX: u32 = 10;

/// Returns the path of the program git.
pub fn program(environment: &Environment) -> OsString {
    environment.get(PROGRAM).filter(|program| !program.is_empty()).unwrap_or_else(|| "git".into())
}

/// Returns a command that runs git in the environment of the global options. The caller adds the words.
pub fn command(environment: &Environment) -> Command {
    let mut command = Command::new(program(environment));
    for (name, value) in environment.overrides() {
        command.env(name, value);
    }
    command.env(DEPTH, (depth(environment) + 1).to_string());
    command
}

fn depth(environment: &Environment) -> u32 {
    environment.get(DEPTH).and_then(|depth| depth.to_str()?.parse().ok()).unwrap_or(0)
}

/// Replaces this process by git with these words, and returns only if git cannot be started. In messages, `name` is
/// the name of the command, and `what` describes what is left to git.
pub fn exec(environment: &Environment, name: &str, words: &[OsString], what: &str) -> Failure {
    match handed_over(environment, name) {
        Ok(mut git) => not_run(&program(environment), name, what, &git.args(words).exec()),
        Err(failure) => failure,
    }
}

/// Returns a git command to which the command `name` is delegated, without its words. Fails if delegation keeps leading
/// back to refdb.
pub fn handed_over(environment: &Environment, name: &str) -> Result<Command> {
    if depth(environment) < DEPTH_MAX {
        return Ok(command(environment));
    }
    let program = program(environment);
    let program = program.as_bytes();
    Err(Failure::Fatal(message![
        "'",
        program,
        " ",
        name,
        "' leads back to refdb: set REFDB_GIT to the path of the real git"
    ]))
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
