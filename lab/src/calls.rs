//! Counts the system calls of a command and of all programs that it starts, with `strace -c`.

use std::{ffi::OsString, fs, path::Path};

use anyhow::{Context, Result};

/// Returns the arguments that precede a command to count its system calls, with the result in the file `log`.
pub fn words(log: &Path) -> Vec<OsString> {
    let start = ["strace", "-f", "-qq", "-c", "-o"].into_iter().map(OsString::from);
    start.chain([log.into(), OsString::from("--")]).collect()
}

/// Returns the number of calls in the table in the file `log`, and removes the file.
pub fn take_total(log: &Path) -> Result<u64> {
    let text = fs::read_to_string(log).with_context(|| log.display().to_string())?;
    fs::remove_file(log)?;
    total(&text).with_context(|| format!("strace counted nothing: {}", text.trim()))
}

/// Returns the total number of calls at the end of strace's table, whose columns are percent, seconds, usecs/call,
/// calls, possibly errors, and the word `total`.
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
