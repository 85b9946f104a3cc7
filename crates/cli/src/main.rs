//! git's ref commands on refdb's engine.

use std::{ffi::OsString, process::ExitCode};

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    refdb_cli::run(&words).into()
}
