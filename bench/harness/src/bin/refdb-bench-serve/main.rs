//! `refdb-bench-serve`: what polls, lists and pushes over HTTP cost `refdb serve` beside git; see bench/README.md,
//! question 13.

mod client;
mod commits;
mod daemon;
mod http_backend;
mod lists;
mod many;
mod polls;
mod pushes;
mod repository;
mod rivals;
mod rows;
mod server;
mod shims;
mod storms;
mod updates;
mod usage;

use anyhow::{Context, Result};
use clap::Parser;
use rivals::Rival;
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
    /// Seconds for each line that sends requests for a time, except in the group `storm`.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// The number of refs of the repository of each format.
    #[arg(long, default_value_t = 1_500_000)]
    refs: usize,
    /// The number of clients that poll in the group `storm`, which is rounded down to a multiple of 64.
    #[arg(long, default_value_t = 10_000)]
    clients: usize,
    /// Keep the repositories in the folder, and use those that are there.
    #[arg(long)]
    keep: bool,
    /// Measure only these groups of lines: poll, updates, list, ssh, storm, push or many; repeatable. With `none`, only
    /// the repositories are made.
    #[arg(long)]
    only: Vec<String>,
    /// Give the clients the first processor and the server that is started the second one.
    #[arg(long)]
    one_core_each: bool,
    /// The driver of JGit that the tests use, so that it takes part in the group `updates`.
    #[arg(long)]
    jgit: Option<PathBuf>,
    /// Measure the server that listens at `HOST:PORT`, or `git://HOST:PORT`, instead, and print one line for each
    /// format.
    #[arg(long, requires = "usage")]
    address: Option<String>,
    /// The name of that server in the line.
    #[arg(long)]
    name: Option<String>,
    /// The file of the server's control group that says how much processor time it has taken: cpuacct.usage or
    /// cpu.stat.
    #[arg(long)]
    usage: Option<PathBuf>,
    /// The file for the proxy before that server, which is reported by itself.
    #[arg(long)]
    proxy_usage: Option<PathBuf>,
    /// A header for pushes to that server, which proves who the client is.
    #[arg(long)]
    push_header: Option<String>,
    /// Measure only repositories of this format, files or reftable.
    #[arg(long)]
    format: Option<String>,
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
    if options.one_core_each {
        server::run_on(0)?;
    }
    let temporary = tempfile::tempdir_in(&options.folder).context("cannot make a folder for the repositories")?;
    let root = if options.keep { options.folder.clone() } else { temporary.path().to_owned() };
    let rival = Rival::of(options)?;
    for format in ["files", "reftable"] {
        if options.format.as_deref().is_some_and(|wanted| wanted != format) {
            continue;
        }
        let repository = repository::make(options, &root, format)?;
        if let Some(rival) = &rival {
            rival.measure(options, &repository)?;
            continue;
        }
        println!("\n{format}, {} refs\n", options.refs);
        rows::measure(options, &repository)?;
    }
    if rival.is_none() { many::measure(options, &root) } else { Ok(()) }
}
