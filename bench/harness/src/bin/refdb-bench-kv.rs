//! `refdb-bench-kv`: see bench/kv-workload.md.

use clap::Parser;
use refdb_bench::kv::rows::{Settings, run};
use std::process::ExitCode;

fn main() -> ExitCode {
    match run(&Settings::parse(), &mut std::io::stdout()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("refdb-bench-kv: {error:#}");
            ExitCode::FAILURE
        }
    }
}
