//! Counts instructions with the processor's own counters, through `perf stat`. Most virtual machines have none.

use std::{ffi::OsString, path::Path, process::Command};

use crate::process::finish;

/// The event that is counted: instructions in user space and in the kernel.
const EVENT: &str = "instructions:uk";

/// Returns the arguments that precede a command to count its instructions, with the result in the file `log`.
pub fn words(log: &Path) -> Vec<OsString> {
    let start = ["perf", "stat", "-x,", "-e", EVENT, "-o"].into_iter().map(OsString::from);
    start.chain([log.into(), OsString::from("--")]).collect()
}

/// Returns whether perf can count instructions in user space and in the kernel on this machine.
pub fn works() -> bool {
    let ended = finish(Command::new("perf").args(["stat", "-x,", "-e", EVENT, "true"]));
    ended.is_ok_and(|ended| parse(&ended.said).is_some())
}

/// Parses the number of instructions from perf's comma-separated output; `None` if there is no counter.
pub fn parse(text: &str) -> Option<f64> {
    let line = text.lines().find(|line| line.contains(EVENT))?;
    line.split(',').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn perf_output_is_read_and_a_missing_counter_is_noticed() {
        assert_eq!(parse("# started\n\n2500000,,instructions:uk,1000,100.00,,\n"), Some(2_500_000.0));
        assert_eq!(parse("<not supported>,,instructions:uk,0,100.00,,\n"), None);
    }
}
