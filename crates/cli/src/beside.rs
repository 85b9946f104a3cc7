//! Starts refdb's other programs in place of this one.

use crate::failure::{Result, fatal, system_text};
use std::{env, ffi::OsString, io::ErrorKind, os::unix::process::CommandExt, path::PathBuf, process};

/// Replaces this process by `program`, which is looked for in the folder of the running executable and then in `PATH`.
/// Returns only if the program cannot be started.
pub fn exec(program: &'static str, words: &[OsString]) -> Result<u8> {
    let beside = env::current_exe().ok().map(|own| own.with_file_name(program)).filter(|path| path.is_file());
    let error = process::Command::new(beside.unwrap_or_else(|| PathBuf::from(program))).args(words).exec();
    let name = program.as_bytes();
    if error.kind() == ErrorKind::NotFound {
        return fatal!["there is no '", name, "', neither beside refdb nor in PATH: 'make dist' builds it"];
    }
    fatal!["cannot run '", name, "': ", system_text(&error)]
}
