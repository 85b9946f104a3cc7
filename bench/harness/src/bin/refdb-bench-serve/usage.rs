//! How much processor time a process and its children have taken, and how much memory it has.

use anyhow::{Context, Result};
use std::{fs, time::Duration};

/// The user and kernel time of a process and of its children that have ended. The kernel counts in ticks of 10 ms.
pub(crate) fn of(pid: u32) -> Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).context("the server has ended")?;
    let fields = stat.rsplit_once(')').context("an unknown /proc/PID/stat")?.1;
    // utime, stime, cutime and cstime are fields 14 to 17 of the line, whose fields 1 and 2 end at the parenthesis.
    let ticks: u64 = fields.split_whitespace().skip(11).take(4).filter_map(|field| field.parse::<u64>().ok()).sum();
    Ok(Duration::from_millis(10 * ticks))
}

/// The time that all children of this process have taken, once they have ended.
pub(crate) fn of_children() -> Result<Duration> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let fields = stat.rsplit_once(')').context("an unknown /proc/PID/stat")?.1;
    let ticks: u64 = fields.split_whitespace().skip(13).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Ok(Duration::from_millis(10 * ticks))
}

/// The resident memory of a process in MiB, and the most that it ever was.
pub(crate) fn memory(pid: u32) -> Result<(u64, u64)> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let kib = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key));
        line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or(0)
    };
    Ok((kib("VmRSS:") / 1024, kib("VmHWM:") / 1024))
}
