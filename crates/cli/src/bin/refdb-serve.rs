//! `refdb serve`, as a program of its own, so that refdb's short commands do not carry a server.

use refdb_serve::{Wanted, command, run};
use std::process::ExitCode;

/// git's exit code for a wrong command line.
const USAGE_ERROR: u8 = 129;

fn main() -> ExitCode {
    match Wanted::parse(command(), std::env::args_os()) {
        Ok(wanted) => run(&wanted),
        Err(error) if !error.use_stderr() => {
            print!("{error}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprint!("{error}");
            ExitCode::from(USAGE_ERROR)
        }
    }
}
