//! The command `refdb-lab`, which docs/lab.md describes.

use std::process::ExitCode;

use clap::Parser;
use refdb_lab::{
    bisect, cache, gate,
    guard::guarded,
    import, init,
    options::{Action, Options},
    page, run,
    shown::shown_lines,
    watch,
};

fn main() -> ExitCode {
    let out = &mut std::io::stdout();
    let action = Options::parse().action;
    let done = guarded(|| match &action {
        Action::Run(options) => run::run(options, out).map(|()| 0),
        Action::Bisect(options) => bisect::history::run(options, out).map(|()| 0),
        Action::Watch(options) => watch::run(options, out),
        Action::Gate(options) => gate::run(options, out).map(|()| 0),
        Action::Cache(options) => cache::run(options, out).map(|()| 0),
        Action::Report(options) => page::run(options, out).map(|()| 0),
        Action::Import(options) => import::run(options, out).map(|()| 0),
        Action::Init(options) => init::run(options, out).map(|()| 0),
    });
    match done {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            eprintln!("refdb-lab: {}", shown_lines(&format!("{error:#}")));
            ExitCode::FAILURE
        }
    }
}
