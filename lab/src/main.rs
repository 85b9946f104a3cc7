//! `refdb-lab`: see docs/lab.md.

use std::process::ExitCode;

use clap::Parser;
use refdb_lab::{
    bisect,
    options::{Action, Options},
    run,
};

fn main() -> ExitCode {
    let done = match Options::parse().action {
        Action::Run(options) => run::run(&options, &mut std::io::stdout()),
        Action::Bisect(options) => bisect::history::run(&options, &mut std::io::stdout()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("refdb-lab: {error:#}");
            ExitCode::FAILURE
        }
    }
}
