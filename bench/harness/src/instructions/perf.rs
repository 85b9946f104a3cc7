//! Counting with the processor's own counters.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context, Result};
use refdb_lab::{
    perf::{parse, words},
    process::was_cut,
};

use super::{Count, Counts};
use crate::{
    bench::Bench,
    paired::Who,
    process::{LIMIT, Line, Program},
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
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -t {LIMIT}; exec \"$@\""), "sh"]);
    command.args(words(&log)).arg(&program.path).args(&line.args);
    program.prepare(&mut command, dir, line.input.as_deref())?;
    let status = command.stdout(Stdio::null()).status()?;
    let cut = was_cut(status);
    anyhow::ensure!(cut || status.success(), "{} {} failed: {status}", program.name, line.args.join(" "));
    let text = fs::read_to_string(&log)?;
    fs::remove_file(&log)?;
    let instructions = parse(&text).with_context(|| format!("perf counted nothing: {}", text.trim()))?;
    Ok(Count { millions: instructions / 1e6, cut })
}
