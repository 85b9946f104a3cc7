//! `refdb serve`: starts the resident server, a program `refdb-serve` beside this one or else in `PATH`.

use crate::{Invocation, beside, failure::Result, options::Command};

/// The command line, whose words `refdb-serve` parses.
pub static COMMAND: Command = Command {
    program: "refdb",
    name: "serve",
    about: "Serve repositories over HTTP to fetch from and push to",
    synopsis: &[
        "[--root [<prefix>=]<dir>]... [--http <address>:<port>] [--http-socket <path>] [--socket <path>] [<option>...]",
        "status --metrics <address>:<port>",
    ],
    options: &[],
};

/// Replaces this process by `refdb-serve`. Returns only if that program cannot be started.
pub fn run(invocation: &Invocation<'_>) -> Result<u8> {
    beside::exec("refdb-serve", invocation.words)
}
