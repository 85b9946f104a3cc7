//! The cost of a push, counted over all programs that receive it.

use refdb_testkit::Repo;
use std::{
    fs::{self, File},
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

/// The cost of a receive-pack and everything that it started.
#[derive(Debug, Default)]
pub(crate) struct Cost {
    /// Processor time in milliseconds.
    pub(crate) millis: u64,
    /// Peak memory that no file backs, in KiB.
    pub(crate) memory_kib: u64,
    /// Peak number of processes.
    pub(crate) processes: usize,
    /// Size of all files in the server's repository afterwards, in KiB.
    pub(crate) disk_kib: u64,
    /// Whether the receive-pack was killed because it took too much processor time or memory, or too long.
    pub(crate) is_endless: bool,
}

/// A receive-pack that takes more memory than this counts as endless, because some crafted packs make git fill the
/// memory.
const ENDLESS_MEMORY_KIB: u64 = 3 << 20;

/// A receive-pack that takes longer than this counts as endless, even if it only waits.
const ENDLESS_WAIT: Duration = Duration::from_secs(180);

/// Feeds the request to a receive-pack, and kills it if it takes more than `endless_seconds` of processor time,
/// [`ENDLESS_MEMORY_KIB`] or [`ENDLESS_WAIT`]. The wait is long, because other work on the machine can make the elapsed
/// time many times as long as the processor time.
pub(crate) fn run(server: &Repo, program: &Path, request: &[u8], endless_seconds: u64) -> Cost {
    let (input, time) = (server.scratch().join("request"), server.scratch().join("time"));
    fs::write(&input, request).unwrap();
    let mut shell = server.command("bash");
    shell.args(["-c", "TIMEFORMAT='%3U %3S'; { time \"$@\" 2>/dev/null; } 2>\"$TIMES\"", "bash"]);
    shell.arg(program).args(["receive-pack", "--stateless-rpc"]).arg(server.dir()).env("TIMES", &time);
    // The request comes through a pipe, as from a client, because index-pack sees where a file ends.
    let mut feed = Command::new("cat").arg(&input).stdout(Stdio::piped()).spawn().unwrap();
    shell.stdin(feed.stdout.take().unwrap()).stdout(File::create("/dev/null").unwrap());
    let spawned = shell.spawn().unwrap();
    // The command holds the reading end of the pipe.
    drop(shell);
    let mut shell = spawned;
    let (mut cost, start) = (Cost::default(), Instant::now());
    while shell.try_wait().unwrap().is_none() {
        let processes = descendants(shell.id());
        let memory_kib = processes.iter().map(|pid| memory_kib(*pid)).sum();
        let ticks: u64 = processes.iter().map(|pid| processor_ticks(*pid)).sum();
        cost.memory_kib = cost.memory_kib.max(memory_kib);
        cost.processes = cost.processes.max(processes.len());
        let is_too_much = ticks > endless_seconds * TICKS_PER_SECOND || memory_kib > ENDLESS_MEMORY_KIB;
        if is_too_much || start.elapsed() > ENDLESS_WAIT {
            cost.is_endless = true;
            for pid in processes.iter().filter_map(|pid| rustix::process::Pid::from_raw(i32::try_from(*pid).ok()?)) {
                // The process may have ended by itself.
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    feed.wait().unwrap();
    let times = fs::read_to_string(time).unwrap();
    let seconds: f64 =
        times.lines().last().unwrap_or_default().split(' ').filter_map(|one| one.parse::<f64>().ok()).sum();
    cost.millis = Duration::from_secs_f64(seconds).as_millis().try_into().unwrap();
    cost.disk_kib = bytes_below(server.dir()) >> 10;
    cost
}

pub(crate) fn descendants(program: u32) -> Vec<u32> {
    let list = fs::read_to_string(format!("/proc/{program}/task/{program}/children")).unwrap_or_default();
    let children = list.split_whitespace().filter_map(|pid| pid.parse().ok());
    children.flat_map(|child| [vec![child], descendants(child)].concat()).collect()
}

pub(crate) fn memory_kib(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse().ok()).unwrap_or(0)
}

/// Units of processor time per second in `/proc`, where Linux counts in hundredths of a second on x86-64 and ARM.
pub(crate) const TICKS_PER_SECOND: u64 = 100;

/// Returns the processor time of a process and of its children that have ended, in ticks.
fn processor_ticks(process: u32) -> u64 {
    times(process, 4)
}

/// Returns the processor time of a process alone, in ticks.
pub(crate) fn own_processor_ticks(process: u32) -> u64 {
    times(process, 2)
}

/// Sums the first `fields` of these: user time, system time, and both of the children that have ended.
fn times(process: u32, fields: usize) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let Some((_, all)) = stat.rsplit_once(')') else { return 0 };
    all.split_whitespace().skip(11).take(fields).filter_map(|field| field.parse::<u64>().ok()).sum()
}

fn bytes_below(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let bytes = entries.map(|entry| {
        let data = entry.metadata().unwrap();
        if data.is_dir() { bytes_below(&entry.path()) } else { data.len() }
    });
    bytes.sum()
}
