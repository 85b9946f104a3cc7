//! What a push costs, counted over all programs that receive it.

use refdb_testkit::Repo;
use std::{
    fs::{self, File},
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

/// What a receive-pack and all that it started took.
#[derive(Debug, Default)]
pub(crate) struct Cost {
    /// Processor time.
    pub(crate) millis: u64,
    /// The most memory at a time that no file backs.
    pub(crate) memory_kib: u64,
    /// The most processes at a time.
    pub(crate) processes: usize,
    /// What is on the server's disk afterwards.
    pub(crate) disk_kib: u64,
    /// It was ended because it took too long.
    pub(crate) is_endless: bool,
}

/// Git is given up after this long. It is more than what refdb's own limit in the test allows.
const PATIENCE: Duration = Duration::from_secs(5);

/// Feeds the request to a receive-pack.
pub(crate) fn run(server: &Repo, program: &Path, request: &[u8]) -> Cost {
    let (input, time) = (server.scratch().join("request"), server.scratch().join("time"));
    fs::write(&input, request).unwrap();
    let mut shell = server.command("bash");
    shell.args(["-c", "TIMEFORMAT='%3U %3S'; { time \"$@\" 2>/dev/null; } 2>\"$TIMES\"", "bash"]);
    shell.arg(program).args(["receive-pack", "--stateless-rpc"]).arg(server.dir()).env("TIMES", &time);
    // A file whose end index-pack sees is another case than a client's connection.
    let mut feed = Command::new("cat").arg(&input).stdout(Stdio::piped()).spawn().unwrap();
    shell.stdin(feed.stdout.take().unwrap()).stdout(File::create("/dev/null").unwrap());
    let spawned = shell.spawn().unwrap();
    // It holds the reading end of the pipe.
    drop(shell);
    let mut shell = spawned;
    let (mut cost, start) = (Cost::default(), Instant::now());
    while shell.try_wait().unwrap().is_none() {
        let processes = descendants(shell.id());
        cost.memory_kib = cost.memory_kib.max(processes.iter().map(|pid| memory_kib(*pid)).sum());
        cost.processes = cost.processes.max(processes.len());
        if start.elapsed() > PATIENCE {
            cost.is_endless = true;
            for pid in processes.iter().filter_map(|pid| rustix::process::Pid::from_raw(i32::try_from(*pid).ok()?)) {
                // It may have ended by itself.
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

fn descendants(program: u32) -> Vec<u32> {
    let list = fs::read_to_string(format!("/proc/{program}/task/{program}/children")).unwrap_or_default();
    let children = list.split_whitespace().filter_map(|pid| pid.parse().ok());
    children.flat_map(|child| [vec![child], descendants(child)].concat()).collect()
}

fn memory_kib(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse().ok()).unwrap_or(0)
}

fn bytes_below(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let bytes = entries.map(|entry| {
        let data = entry.metadata().unwrap();
        if data.is_dir() { bytes_below(&entry.path()) } else { data.len() }
    });
    bytes.sum()
}
