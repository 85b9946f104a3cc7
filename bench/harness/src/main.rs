//! `refdb-bench`: see bench/README.md.

use std::{io::Write, process::ExitCode};

use anyhow::Result;
use clap::Parser;
use refdb_bench::{
    bench::Bench,
    catalogue,
    instructions::{Measure, guest},
    options::Options,
    place::Disk,
    process::Program,
    record::{Setting, append},
    report,
    seed::Seeds,
    size::Size,
    writers,
};
use refdb_lab::{guard::guarded, progress::progress, stage::traces};

fn main() -> ExitCode {
    if guest::is_init() {
        guest::run();
        return ExitCode::SUCCESS;
    }
    let options = Options::parse();
    match guarded(|| run(&options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("refdb-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<()> {
    let mut size = if options.quick { Size::QUICK } else { Size::FULL };
    if options.one_pair {
        size.pairs = (1, 1);
    }
    let git = Program { name: "git", path: options.git.clone(), real_git: None };
    let own = options.refdb.clone().map(|path| Program { name: "refdb", path, real_git: Some(options.git.clone()) });
    if options.list {
        return list(size);
    }
    std::fs::create_dir_all(&options.cache)?;
    progress("making the repositories");
    let seeds = Seeds::new(&options.cache, git.clone(), size);
    let commits = seeds.commits()?;
    let mut jobs = catalogue::jobs(size, &commits)?;
    jobs.retain(|job| options.wants(job.id) && !(options.no_ext4 && job.disk == Disk::Ext4));
    let bench = Bench {
        own: own.as_ref(),
        git: &git,
        size,
        seeds: &seeds,
        commits: &commits,
        jobs: &jobs,
        cache: options.cache.clone(),
        syscalls: !options.no_syscalls && traces(),
    };
    let measure = if options.no_instructions { Measure::Nothing } else { Measure::detect(&options.cache) };
    let rows = bench.run(measure)?;
    let mut races = Vec::new();
    for race in writers::races().into_iter().filter(|race| options.wants(race.id)) {
        if race.own == 0 || own.is_some() {
            progress(race.id);
            races.push(writers::run(&bench, race)?);
        }
    }
    progress("");
    let setting = Setting::find(&git.path, measure, size);
    write!(std::io::stdout(), "{}", report::text(&setting, &rows, &races))?;
    options.record.as_ref().map_or(Ok(()), |file| append(file, &setting, &rows, &races))
}

fn list(size: Size) -> Result<()> {
    let mut out = std::io::stdout();
    for job in catalogue::jobs(size, &vec![String::new()])? {
        for step in job.steps {
            writeln!(out, "{:<20} {}, {}: {}", job.id, job.format.name(), job.disk.name(), step.title)?;
        }
    }
    for race in writers::races() {
        let times = format!("{} refdb, {} git writers", race.own, race.git);
        writeln!(out, "{:<20} {}: {times}", race.id, race.format.name())?;
    }
    Ok(())
}
