//! The command `refdb-lab`, which docs/lab.md describes.

use std::process::ExitCode;

use clap::Parser;
use refdb_lab::{
    bisect, cache, gate,
    guard::guarded,
    import, init,
    options::{Action, Options},
    page, run,
};

fn main() -> ExitCode {
    let out = &mut std::io::stdout();
    let action = Options::parse().action;
    let done = guarded(|| match &action {
        Action::Run(options) => run::run(options, out),
        Action::Bisect(options) => bisect::history::run(options, out),
        Action::Gate(options) => gate::run(options, out),
        Action::Cache(options) => cache::run(options, out),
        Action::Report(options) => page::run(options, out),
        Action::Import(options) => import::run(options, out),
        Action::Init(options) => init::run(options, out),
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("refdb-lab: {error:#}");
            ExitCode::FAILURE
        }
    }
}
