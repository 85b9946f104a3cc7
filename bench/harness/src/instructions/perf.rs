//! Counting with the processor's own counters.

use std::{fs, path::Path};

use anyhow::{Context, Result};
use refdb_lab::perf::{parse, words};

use super::{Count, Counts};
use crate::{
    bench::Bench,
    paired::Who,
    process::{LIMITS, Line, Program},
};

/// Runs each able job once under perf.
pub fn count(bench: &Bench<'_>, able: &[(&'static str, Who)]) -> Result<Counts> {
    let mut counts = Counts::new();
    for (id, who) in able {
        let job = bench.job(id)?;
        let work = bench.start(job)?;
        let steps = bench.lines(job)?.into_iter().map(|line| one(bench.program(*who), &work.repository(), &line));
        let steps: Result<Vec<Count>> = steps.collect();
        counts.insert((job.id, *who), steps.map_err(|error| format!("{error:#}")));
    }
    Ok(counts)
}

fn one(program: &Program, dir: &Path, line: &Line) -> Result<Count> {
    let log = dir.with_extension("perf");
    let cut = program.watch(&words(&log), LIMITS, dir, line)?.cut;
    let text = fs::read_to_string(&log)?;
    fs::remove_file(&log)?;
    let instructions = parse(&text).with_context(|| format!("perf counted nothing: {}", text.trim()))?;
    Ok(Count { millions: instructions / 1e6, cut })
}
