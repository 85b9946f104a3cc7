//! The git to which refdb delegates what it does not do itself.

use crate::Environment;
use std::{ffi::OsString, process::Command};

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

/// Returns a command that runs git in this environment. The caller adds the words.
pub fn command(environment: &Environment) -> Command {
    let mut command = Command::new(program(environment));
    environment.give_to(&mut command);
    command.env(DEPTH, (depth(environment) + 1).to_string());
    command
}

/// Returns whether delegation keeps leading back to refdb.
pub fn is_circular(environment: &Environment) -> bool {
    depth(environment) >= DEPTH_MAX
}

fn depth(environment: &Environment) -> u32 {
    environment.get(DEPTH).and_then(|depth| depth.to_str()?.parse().ok()).unwrap_or(0)
}
