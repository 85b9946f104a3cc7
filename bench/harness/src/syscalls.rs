//! How many system calls a command makes, its children included.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};

use crate::process::{Line, Program};

/// Runs `line` once under strace.
pub fn count(program: &Program, dir: &Path, line: &Line) -> Result<u64> {
    let log = dir.with_extension("strace");
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-c", "-o"]).arg(&log).arg("--").arg(&program.path).args(&line.args);
    program.prepare(&mut command, dir, line.input.as_deref())?;
    let status = command.stdout(Stdio::null()).status()?;
    ensure!(status.success(), "{} {} failed: {status}", program.name, line.args.join(" "));
    let text = fs::read_to_string(&log)?;
    fs::remove_file(&log)?;
    total(&text).with_context(|| format!("strace counted nothing: {}", text.trim()))
}

/// The sum at the end of strace's table: percent, seconds, usecs/call, calls, maybe errors, and the word total.
fn total(table: &str) -> Option<u64> {
    let line = table.lines().rev().find(|line| line.trim_end().ends_with("total"))?;
    line.split_whitespace().nth(3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::total;

    #[test]
    fn the_sum_is_read_from_the_last_line() {
        let table = "% time     seconds  usecs/call     calls    errors syscall\n\
                     100.00    0.000446           7        63         3 total\n";
        assert_eq!(total(table), Some(63));
        assert_eq!(total(""), None);
    }
}
