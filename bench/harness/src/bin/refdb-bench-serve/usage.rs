//! How much processor time servers have taken, and how much memory they have.

use anyhow::{Context, Result};
use std::{fs, path::PathBuf, time::Duration};

/// Where the kernel says how much processor time a server has taken.
pub(crate) enum Usage {
    /// A process, with its children that have ended.
    Process(u32),
    /// A file of a control group, with all processes of that group: `cpuacct.usage` or `cpu.stat`.
    Group(PathBuf),
}

impl Usage {
    /// The user and kernel time until now. For a process, the kernel counts in ticks of 10 ms.
    pub(crate) fn cpu(&self) -> Result<Duration> {
        match self {
            // utime, stime, cutime and cstime.
            Usage::Process(pid) => ticks(&pid.to_string(), 14..18),
            Usage::Group(file) => {
                let text = fs::read_to_string(file).with_context(|| format!("cannot read '{}'", file.display()))?;
                let micros = text.lines().find_map(|line| line.strip_prefix("usage_usec "));
                let nanos = micros.map_or_else(|| text.trim().parse(), |micros| Ok(1000 * micros.parse::<u64>()?))?;
                Ok(Duration::from_nanos(nanos))
            }
        }
    }
}

/// The time that all children of this process have taken, once they have ended.
pub(crate) fn of_children() -> Result<Duration> {
    ticks("self", 16..18)
}

/// Adds up fields of a process's `stat` file, which proc(5) numbers from 1.
fn ticks(pid: &str, fields: std::ops::Range<usize>) -> Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).context("the server has ended")?;
    // The first two fields end at the parenthesis.
    let rest = stat.rsplit_once(')').context("an unknown /proc/PID/stat")?.1;
    let counted = rest.split_whitespace().skip(fields.start - 3).take(fields.len());
    let ticks: u64 = counted.filter_map(|field| field.parse::<u64>().ok()).sum();
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
