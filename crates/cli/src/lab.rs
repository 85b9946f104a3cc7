//! `refdb lab`: the tool for slowdowns, which is a program of its own. It is looked for beside this one, then in `PATH`.

use crate::{
    Invocation,
    failure::{Result, fatal, system_text},
    options::Command,
};
use std::{env, io::ErrorKind, os::unix::process::CommandExt, path::PathBuf, process};

/// The command line, but for the words that the other program reads.
pub static COMMAND: Command = Command {
    program: "refdb",
    name: "lab",
    about: "Measure whether a revision is slower than another, and find out since when",
    synopsis: &["<command> [<argument>...]"],
    options: &[],
};

/// The program.
const PROGRAM: &str = "refdb-lab";

/// Becomes the other program. It returns only if that cannot be.
pub fn run(invocation: &Invocation<'_>) -> Result<u8> {
    let beside = env::current_exe().ok().map(|own| own.with_file_name(PROGRAM)).filter(|program| program.is_file());
    let error = process::Command::new(beside.unwrap_or_else(|| PathBuf::from(PROGRAM))).args(invocation.words).exec();
    if error.kind() == ErrorKind::NotFound {
        return fatal!["there is no 'refdb-lab', neither beside refdb nor in PATH: 'make dist' builds it"];
    }
    fatal!["cannot run 'refdb-lab': ", system_text(&error)]
}
