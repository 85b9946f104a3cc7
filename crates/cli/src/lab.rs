//! `refdb lab`: starts `refdb-lab`, the tool for finding slowdowns. It is looked for beside this program, then in
//! `PATH`.

use crate::{
    Invocation,
    failure::{Result, fatal, system_text},
    options::Command,
};
use std::{env, io::ErrorKind, os::unix::process::CommandExt, path::PathBuf, process};

/// The command line, whose words are read by the other program.
pub static COMMAND: Command = Command {
    program: "refdb",
    name: "lab",
    about: "Measure whether a revision is slower than another, and find out since when",
    synopsis: &["<command> [<argument>...]"],
    options: &[],
};

/// The name of the program.
const PROGRAM: &str = "refdb-lab";

/// Replaces this process by the other program. Returns only if that program cannot be started.
pub fn run(invocation: &Invocation<'_>) -> Result<u8> {
    let beside = env::current_exe().ok().map(|own| own.with_file_name(PROGRAM)).filter(|program| program.is_file());
    let error = process::Command::new(beside.unwrap_or_else(|| PathBuf::from(PROGRAM))).args(invocation.words).exec();
    if error.kind() == ErrorKind::NotFound {
        return fatal!["there is no 'refdb-lab', neither beside refdb nor in PATH: 'make dist' builds it"];
    }
    fatal!["cannot run 'refdb-lab': ", system_text(&error)]
}
