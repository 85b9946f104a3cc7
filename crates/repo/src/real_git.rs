//! The git to which refdb delegates what it does not do itself.

use crate::{Environment, messages::system_text};
use bstr::BString;
use std::{
    ffi::{OsStr, OsString},
    io,
    os::unix::ffi::OsStrExt,
    process::Command,
};

/// The variable that names the program, if the git in `PATH` is not the real one.
const PROGRAM: &str = "REFDB_GIT";

/// The variable that counts nested delegations, so that a git that leads back to refdb is detected.
const DEPTH: &str = "REFDB_HANDED_OVER";

/// Maximum number of nested delegations. Hooks may push to other repositories, but hardly this deep.
const DEPTH_MAX: u32 = 10;

/// Returns the git program: a path, or a name to look for in `PATH`.
pub fn program(environment: &Environment) -> OsString {
    environment.get(PROGRAM).filter(|program| !program.is_empty()).unwrap_or_else(|| "git".into())
}

/// Returns a command that runs git in this environment and counts one more nested delegation. The caller adds the
/// arguments.
pub fn command(environment: &Environment) -> Command {
    let mut command = Command::new(program(environment));
    environment.give_to(&mut command);
    command.env(DEPTH, (depth(environment) + 1).to_string());
    command
}

/// Returns whether so many delegations are nested that git seems to lead back to refdb.
pub fn is_circular(environment: &Environment) -> bool {
    depth(environment) >= DEPTH_MAX
}

/// Returns the message that says that delegation of the command `name` keeps leading back to refdb.
pub fn leads_back(environment: &Environment, name: &str) -> BString {
    let (program, name) = (program(environment), name.as_bytes());
    let text = b"' leads back to refdb: set REFDB_GIT to the path of the real git";
    [b"'", program.as_bytes(), b" ", name, text].concat().into()
}

/// Returns the message that says that the program git could not be run. `what` describes what is left to its command
/// `name`.
pub fn not_run(program: &OsStr, name: &str, what: &str, error: &io::Error) -> BString {
    let tail = format!(" {name}', to which {what} is left: {}", system_text(error));
    [b"cannot run '", program.as_bytes(), tail.as_bytes()].concat().into()
}

fn depth(environment: &Environment) -> u32 {
    environment.get(DEPTH).and_then(|depth| depth.to_str()?.parse().ok()).unwrap_or(0)
}
