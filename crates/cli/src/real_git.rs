//! The git that does what refdb leaves to it.

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

/// Names the program, where the one in `PATH` is not the real one.
const PROGRAM: &str = "REFDB_GIT";

/// Counts how often a command was handed over, one within the other. Should the called git lead back to us, the circle
/// ends.
const DEPTH: &str = "REFDB_HANDED_OVER";

/// Hooks may push to other repositories, but hardly this deep.
const DEPTH_MAX: u32 = 10;

/// The program git.
pub fn program(environment: &Environment) -> OsString {
    environment.get(PROGRAM).filter(|program| !program.is_empty()).unwrap_or_else(|| "git".into())
}

/// The program in the environment that the global options made. What it runs comes from `words`.
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

/// Becomes git with these words, in which the command is called `name`. It returns only if that cannot be; `what` is
/// left to git.
pub fn exec(environment: &Environment, name: &str, words: &[OsString], what: &str) -> Failure {
    match handed_over(environment, name) {
        Ok(mut git) => not_run(&program(environment), name, what, &git.args(words).exec()),
        Err(failure) => failure,
    }
}

/// Git, to which the command `name` is handed over, without words. It fails where that leads back to refdb.
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

/// Why a program was not run, to which `what` is left.
pub fn not_run(program: &OsStr, name: &str, what: &str, error: &std::io::Error) -> Failure {
    let program = program.as_bytes();
    Failure::Fatal(message!["cannot run '", program, " ", name, "', to which ", what, " is left: ", system_text(error)])
}

/// Leaves a whole command line to git, as the user wrote it. It returns only if that cannot be.
pub fn leave(invocation: &Invocation<'_>, name: &str) -> Failure {
    let words = invocation.globals.of_git.iter().cloned().chain([name.into()]);
    let words: Vec<OsString> = words.chain(invocation.words.iter().cloned()).collect();
    exec(&invocation.globals.environment(), name, &words, "this")
}
