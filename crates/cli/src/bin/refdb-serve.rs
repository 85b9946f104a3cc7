//! The program that `refdb serve` starts. It is separate so that the program `refdb` stays small.

use refdb_serve::{Wanted, command, run};
use std::process::ExitCode;

/// The exit code that git uses for a usage error.
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
