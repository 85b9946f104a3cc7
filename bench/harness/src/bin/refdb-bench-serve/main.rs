//! `refdb-bench-serve`: what polls, lists and pushes over HTTP cost `refdb serve` beside git; see bench/README.md,
//! question 13.

mod client;
mod cpu;
mod http_backend;
mod lists;
mod many;
mod pushes;
mod repository;
mod rows;
mod server;

use anyhow::{Context, Result};
use clap::Parser;
use std::{path::PathBuf, process::ExitCode};

/// What is measured, and where.
#[derive(Parser, Clone)]
pub(crate) struct Options {
    /// The server that is measured. `refdb` is beside it.
    #[arg(long)]
    serve: PathBuf,
    /// Git, which is the rival.
    #[arg(long)]
    git: PathBuf,
    /// A folder for the repositories, on the disk that is measured.
    #[arg(long)]
    folder: PathBuf,
    /// Seconds for each line that sends requests for a time; the other lines send a fixed number.
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// The number of refs of each repository but those of the group `many`.
    #[arg(long, default_value_t = 1_500_000)]
    refs: usize,
    /// The number of clients that poll in the group `storm`, which is rounded down to a multiple of 64.
    #[arg(long, default_value_t = 10_000)]
    clients: usize,
    /// Keep the repositories in the folder, and use those that are there.
    #[arg(long)]
    keep: bool,
    /// Measure only these groups of lines: poll, list, storm, push or many; repeatable.
    #[arg(long)]
    only: Vec<String>,
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("refdb-bench-serve: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<()> {
    let temporary = tempfile::tempdir_in(&options.folder).context("cannot make a folder for the repositories")?;
    let root = if options.keep { options.folder.clone() } else { temporary.path().to_owned() };
    for format in ["files", "reftable"] {
        let repository = repository::make(options, &root, format)?;
        println!("\n{format}, {} refs\n", options.refs);
        rows::measure(options, &repository)?;
    }
    many::measure(options, &root)
}
