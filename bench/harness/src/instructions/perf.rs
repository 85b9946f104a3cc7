//! Counting with the processor's own counters.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context, Result};

use super::{Count, Counts};
use crate::{
    bench::Bench,
    paired::Who,
    process::{LIMIT, Line, Program, was_cut},
};

const EVENT: &str = "instructions:uk";

/// Whether perf may count user and kernel instructions here.
pub fn works() -> bool {
    let output = Command::new("perf").args(["stat", "-x,", "-e", EVENT, "true"]).output();
    output.is_ok_and(|output| parse(&String::from_utf8_lossy(&output.stderr)).is_some())
}

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
    let limited = format!("ulimit -t {LIMIT}; exec perf stat -x, -e {EVENT} -o \"$@\"");
    command.args(["-c", &limited, "sh"]).arg(&log).arg("--").arg(&program.path).args(&line.args);
    program.prepare(&mut command, dir, line.input.as_deref())?;
    let status = command.stdout(Stdio::null()).status()?;
    let cut = was_cut(status);
    anyhow::ensure!(cut || status.success(), "{} {} failed: {status}", program.name, line.args.join(" "));
    let text = fs::read_to_string(&log)?;
    fs::remove_file(&log)?;
    let millions = parse(&text).with_context(|| format!("perf counted nothing: {}", text.trim()))?;
    Ok(Count { millions, cut })
}

/// Millions of instructions, from perf's comma-separated output.
fn parse(text: &str) -> Option<f64> {
    let line = text.lines().find(|line| line.contains(EVENT))?;
    let count: f64 = line.split(',').next()?.parse().ok()?;
    Some(count / 1e6)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn perf_output_is_read_and_a_missing_counter_is_noticed() {
        assert_eq!(parse("# started\n\n2500000,,instructions:uk,1000,100.00,,\n"), Some(2.5));
        assert_eq!(parse("<not supported>,,instructions:uk,0,100.00,,\n"), None);
    }
}
