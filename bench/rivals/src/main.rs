//! refdb's engine beside other libraries, in one process: no start-up, no output, only the library's own work.
//!
//! `engines` has one adapter a library; here are the jobs and the table. Every engine must find or leave the same
//! number of refs.

mod engines;

use std::{
    collections::BTreeMap,
    env,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use engines::{Engine, engines, title};
use refdb_bench::{
    place::{Disk, Place, copy_folder},
    process::Program,
    seed::{Content, Format, Seeds, change, fresh},
    size::Size,
};

/// A job: how many refs it must meet, and what it does in a repository.
struct Job<'a> {
    title: String,
    content: Content,
    writes: bool,
    expected: usize,
    work: Box<dyn Fn(&dyn Engine, &Path) -> Result<usize> + 'a>,
}

/// Number of times that each engine does a job; the engines take turns.
const ROUNDS: usize = 5;

fn main() -> Result<()> {
    let mut args = env::args_os().skip(1);
    let (git, cache) = args.next().zip(args.next()).context("usage: refdb-bench-rivals GIT CACHE [--quick]")?;
    let size = if args.next().is_some() { Size::QUICK } else { Size::FULL };
    let git = Program { name: "git", path: PathBuf::from(git), real_git: None };
    let cache = PathBuf::from(cache);
    let seeds = Seeds::new(&cache, git.clone(), size);
    let commit = seeds.commits()?.swap_remove(0);
    let jobs = jobs(size, &commit);
    println!(
        "In one process; milliseconds of processor time, user and kernel, the median of {ROUNDS} runs in turn, and how \
         many \
         times refdb's that is.\n"
    );
    for format in [Format::Reftable, Format::Files] {
        let engines: Vec<Box<dyn Engine>> = engines().into_iter().filter(|engine| engine.reads(format)).collect();
        let names: Vec<String> = engines.iter().map(|engine| title(engine.as_ref())).collect();
        println!("| {} | {} |\n|{}", format.name(), names.join(" | "), "-|".repeat(names.len() + 1));
        for job in &jobs {
            let seed = seeds.repository(format, job.content)?;
            let times = measure(job, &seed, &engines, &git, &cache)?;
            println!("| {} | {} |", job.title, cells(&times).join(" | "));
        }
        println!();
    }
    Ok(())
}

fn jobs<'a>(size: Size, commit: &'a str) -> Vec<Job<'a>> {
    // In an order that is not that of the names.
    let wanted: Vec<String> = (0..size.edits).map(|n| change((n * 7919) % size.big)).collect();
    let created: Vec<String> = (0..size.edits).map(fresh).collect();
    vec![
        Job {
            title: format!("open, list all of {}", size.big),
            content: Content::Big,
            writes: false,
            expected: size.big,
            work: Box::new(|engine, dir| engine.list(dir)),
        },
        Job {
            title: format!("open, look up {} of {}, one by one", size.edits, size.big),
            content: Content::Big,
            writes: false,
            expected: size.edits,
            work: Box::new(move |engine, dir| engine.look_up(dir, &wanted)),
        },
        Job {
            title: format!("open, create {} on {} in one transaction", size.edits, size.existing),
            content: Content::Existing,
            writes: true,
            expected: size.edits,
            work: Box::new(move |engine, dir| engine.create(dir, &created, commit)),
        },
    ]
}

/// The median time of each engine, or why it has none.
fn measure(
    job: &Job<'_>,
    seed: &Path,
    engines: &[Box<dyn Engine>],
    git: &Program,
    cache: &Path,
) -> Result<Vec<Result<Duration, String>>> {
    let mut times: BTreeMap<usize, Vec<Duration>> = BTreeMap::new();
    let mut faults: BTreeMap<usize, String> = BTreeMap::new();
    let place = Place::new(Disk::Tmpfs, cache)?;
    let dir = place.dir().join("repository");
    copy_folder(seed, &dir)?;
    for _ in 0..ROUNDS {
        for (number, engine) in
            engines.iter().enumerate().filter(|(number, _)| !faults.contains_key(number)).collect::<Vec<_>>()
        {
            if job.writes {
                std::fs::remove_dir_all(&dir)?;
                copy_folder(seed, &dir)?;
            }
            let start = processor_time();
            let outcome = (job.work)(engine.as_ref(), &dir);
            let took = processor_time() - start;
            match outcome.and_then(|met| check(job, met, git, &dir)) {
                Ok(()) => times.entry(number).or_default().push(took),
                Err(error) => drop(faults.insert(number, format!("{error:#}"))),
            }
        }
    }
    let median = |number: usize| match faults.remove(&number) {
        Some(fault) => Err(fault),
        None => {
            let mut times = times.remove(&number).unwrap_or_default();
            times.sort();
            times.get(times.len() / 2).copied().ok_or_else(|| "never ran".to_owned())
        }
    };
    Ok((0..engines.len()).map(median).collect())
}

/// The processor time that this process has used so far, user and kernel. Unlike wall time it is little troubled by
/// what else runs.
fn processor_time() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32)
}

/// Checks that the job met as many refs as it must and, if it writes, that git sees as many new ones.
fn check(job: &Job<'_>, met: usize, git: &Program, dir: &Path) -> Result<()> {
    ensure!(met == job.expected, "met {met} refs, not {}", job.expected);
    if job.writes {
        let list = git.output(dir, &["for-each-ref", "--format=%(refname)", "refs/heads/new/"])?;
        let there = list.iter().filter(|byte| **byte == b'\n').count();
        ensure!(there == job.expected, "git sees {there} refs, not {}", job.expected);
    }
    Ok(())
}

fn cells(times: &[Result<Duration, String>]) -> Vec<String> {
    let own = times.first().and_then(|time| time.as_ref().ok()).map(Duration::as_secs_f64);
    let cell = |time: &Result<Duration, String>| match (time, own) {
        (Ok(time), Some(own)) => format!("{:.1} ({:.1})", time.as_secs_f64() * 1e3, time.as_secs_f64() / own),
        (Ok(time), None) => format!("{:.1}", time.as_secs_f64() * 1e3),
        (Err(fault), _) => format!("fails: {}", fault.replace(['|', '\n'], "/")),
    };
    times.iter().map(cell).collect()
}
