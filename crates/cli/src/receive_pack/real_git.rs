//! The git that does what refdb leaves to it.

use crate::failure::{Failure, message, system_text};
use refdb::Environment;
use std::{ffi::OsString, os::unix::process::CommandExt, process::Command};

/// Names the program, where the one in `PATH` is not the real one.
const PROGRAM: &str = "REFDB_GIT";

/// Counts how often a push was handed over, one within the other. Should the called git lead back to us, the circle
/// ends.
const DEPTH: &str = "REFDB_HANDED_OVER";

/// Hooks may push to other repositories, but hardly this deep.
const DEPTH_MAX: u32 = 10;

/// The program git.
pub(super) fn program(environment: &Environment) -> OsString {
    environment.get(PROGRAM).filter(|program| !program.is_empty()).unwrap_or_else(|| "git".into())
}

/// Becomes `git receive-pack` with the same words. It returns only if that cannot be.
pub(super) fn exec<'w>(environment: &Environment, words: impl IntoIterator<Item = &'w OsString>) -> Failure {
    let program = program(environment);
    let shown = program.to_string_lossy().into_owned();
    let depth = environment.get(DEPTH).and_then(|depth| depth.to_str()?.parse().ok()).unwrap_or(0);
    if depth >= DEPTH_MAX {
        return Failure::Fatal(message![
            "'",
            shown,
            " receive-pack' leads back to refdb: set REFDB_GIT to the path of the real git"
        ]);
    }
    let mut command = Command::new(&program);
    for (name, value) in environment.overrides() {
        command.env(name, value);
    }
    command.env(DEPTH, (depth + 1).to_string()).arg("receive-pack").args(words);
    let error = command.exec();
    Failure::Fatal(message!["cannot run '", shown, " receive-pack', to which this push is left: ", system_text(&error)])
}

/// `git receive-pack --stateless-rpc` in the folder that we are in: for a client that has seen our advertisement.
pub(super) fn stateless(git: &OsString, quiet: bool) -> Command {
    let mut command = Command::new(git);
    command.env("GIT_DIR", ".").args(["receive-pack", "--stateless-rpc"]);
    command.args(quiet.then_some("--quiet")).arg(".");
    command
}
