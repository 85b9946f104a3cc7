//! `refdb lab`: starts `refdb-lab`, the tool for finding slowdowns. It is looked for beside this program, then in
//! `PATH`.

use crate::{Invocation, beside, failure::Result, options::Command};

/// The command line, whose words `refdb-lab` parses.
pub static COMMAND: Command = Command {
    program: "refdb",
    name: "lab",
    about: "Measure whether a revision is slower than another, and find out since when",
    synopsis: &["<command> [<argument>...]"],
    options: &[],
};

/// Replaces this process by `refdb-lab`. Returns only if that program cannot be started.
pub fn run(invocation: &Invocation<'_>) -> Result<u8> {
    beside::exec("refdb-lab", invocation.words)
}
