//! Counts the system calls of a command and of all programs that it starts, with `strace -c`.

use std::{ffi::OsString, fs, path::Path};

use anyhow::{Context, Result};

/// The words that come before a command, so that its table ends up in the file `log`.
pub fn words(log: &Path) -> Vec<OsString> {
    let start = ["strace", "-f", "-qq", "-c", "-o"].into_iter().map(OsString::from);
    start.chain([log.into(), OsString::from("--")]).collect()
}

/// The calls in the table `log`, which is removed.
pub fn take_total(log: &Path) -> Result<u64> {
    let text = fs::read_to_string(log).with_context(|| log.display().to_string())?;
    fs::remove_file(log)?;
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
