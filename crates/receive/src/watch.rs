//! Limits the memory and the processor time of the git programs that work for a push, as `/proc` reports them.
//!
//! A limit on the address space would count the packs that git maps. This module instead counts the memory, resident or
//! swapped out, that is not mapped from files.

use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};
use std::{
    fmt, fs,
    time::{Duration, Instant},
};

/// The resources that a program and its descendants may use together; 0 means no limit. The processor time of programs
/// that have ended does not count, and neither do descendants whose parents have ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WorkLimits {
    /// `refdb.receiveMemoryLimit` in bytes.
    pub memory_bytes: u64,
    /// `refdb.receiveTimeLimit` in seconds of processor time.
    pub seconds: u64,
}

impl WorkLimits {
    /// Returns whether anything is limited.
    pub fn any(self) -> bool {
        self.memory_bytes > 0 || self.seconds > 0
    }

    /// Sets limits of the kernel on a program that has just been started, and on each program that it starts from now
    /// on. These limits hold even if refdb is killed, unless it is killed before this call. They are so generous that
    /// [`Watch`], where it runs, normally ends a program first, with a message.
    pub(crate) fn set_backstop(self, program: Pid) {
        let set = |resource, most: u64| {
            let limit = Rlimit { current: Some(most), maximum: Some(most) };
            // The program may have ended, or may have a lower limit.
            let _ = prlimit(Some(program), resource, limit);
        };
        if self.seconds > 0 {
            set(Resource::Cpu, self.seconds.saturating_add(self.seconds / 8 + 2));
        }
        if self.memory_bytes > 0 {
            // The kernel counts private memory that can be written, such as the stacks of threads, and not the packs
            // that git maps.
            set(Resource::Data, self.memory_bytes.saturating_mul(2).saturating_add(1 << 30));
        }
    }
}

/// The limit that a program, together with what it started, exceeded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Excess {
    /// More memory than this many bytes was taken.
    Memory(u64),
    /// At least this many seconds of processor time were taken.
    Time(u64),
}

impl fmt::Display for Excess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Excess::Memory(bytes) => {
                write!(f, "was ended because it took more than {bytes} bytes of memory (refdb.receiveMemoryLimit)")
            }
            Excess::Time(seconds) => {
                write!(f, "was ended because it took more than {seconds} s of processor time (refdb.receiveTimeLimit)")
            }
        }
    }
}

/// Checks at intervals whether a program exceeds its limits.
#[derive(Debug)]
pub struct Watch {
    limits: WorkLimits,
    next: Instant,
}

impl Watch {
    /// The interval between checks.
    pub const PAUSE: Duration = Duration::from_millis(50);

    /// Returns a watch that checks these limits.
    pub fn new(limits: WorkLimits) -> Self {
        Watch { limits, next: Instant::now() + Self::PAUSE }
    }

    /// Returns whether a check is due, and if so, schedules the next one after [`Watch::PAUSE`].
    pub fn is_due(&mut self) -> bool {
        let now = Instant::now();
        let is_due = self.limits.any() && now >= self.next;
        if is_due {
            self.next = now + Self::PAUSE;
        }
        is_due
    }

    /// Returns the limit that the program exceeds, together with its descendants. The program must not have been waited
    /// for.
    pub fn excess(&self, program: Pid) -> Option<Excess> {
        self.excess_of(&with_descendants(program))
    }

    /// Returns the limit that these processes exceed together.
    fn excess_of(&self, processes: &[Pid]) -> Option<Excess> {
        let WorkLimits { memory_bytes, seconds } = self.limits;
        let sum = |one: fn(Pid) -> Option<u64>| processes.iter().filter_map(|pid| one(*pid)).sum::<u64>();
        if memory_bytes > 0 && sum(own_memory_bytes) > memory_bytes {
            return Some(Excess::Memory(memory_bytes));
        }
        let ticks_per_second = rustix::param::clock_ticks_per_second();
        if seconds > 0 && sum(processor_ticks) / ticks_per_second.max(1) >= seconds {
            return Some(Excess::Time(seconds));
        }
        None
    }

    /// Ends the first program found that a `git receive-pack` runs for the push itself and that exceeds a limit, or
    /// the whole push if receive-pack itself exceeds a limit. Hooks and what they start are not limited, except a hook
    /// that has replaced itself by such a program. Returns the command that was ended, and the limit that was exceeded.
    pub fn end_excess_below(&self, receive_pack: Pid) -> Option<(String, Excess)> {
        if let Some(excess) = self.excess_of(&[receive_pack]) {
            end(receive_pack);
            return Some(("receive-pack".to_owned(), excess));
        }
        for child in children(receive_pack) {
            let Some(command) = git_command(child) else { continue };
            if command == "receive-pack" {
                // `receive_pack` is a wrapper that runs git as a child.
                if let Some(ended) = self.end_excess_below(child) {
                    return Some(ended);
                }
            } else if WORKERS.contains(&&*command)
                && let Some(excess) = self.excess(child)
            {
                end(child);
                return Some((command, excess));
            }
        }
        None
    }
}

/// The commands of receive-pack that are limited: those that receive and check a push. Git's maintenance, which may
/// rightly take long, is not among them.
const WORKERS: [&str; 5] = ["index-pack", "unpack-objects", "rev-list", "merge-base", "for-each-ref"];

/// Kills a program and its descendants, except those whose parents have ended.
pub fn end(program: Pid) {
    for process in with_descendants(program) {
        // The process may have ended by itself.
        let _ = kill_process(process, Signal::KILL);
    }
}

/// Git's own options whose value is the next word. With `--shallow-file`, for example, receive-pack tells its programs
/// where the edge of a shallow clone is.
const OPTIONS_WITH_VALUES: [&[u8]; 8] =
    [b"-C", b"-c", b"--attr-source", b"--config-env", b"--git-dir", b"--namespace", b"--shallow-file", b"--work-tree"];

/// Returns the command in the command line of a process, which follows git's own options. Returns `None` if the program
/// is not called `git`.
fn git_command(process: Pid) -> Option<String> {
    command_of(&fs::read(format!("/proc/{process}/cmdline")).ok()?)
}

/// Returns the command in a command line whose words each end with a zero byte.
fn command_of(line: &[u8]) -> Option<String> {
    let mut words = line.split(|byte| *byte == 0);
    let program = words.next()?.rsplit(|byte| *byte == b'/').next()?;
    if program != b"git" {
        return None;
    }
    let mut word = words.next().unwrap_or_default();
    while word.starts_with(b"-") {
        if OPTIONS_WITH_VALUES.contains(&word) {
            words.next();
        }
        word = words.next().unwrap_or_default();
    }
    Some(String::from_utf8_lossy(word).into_owned())
}

fn with_descendants(program: Pid) -> Vec<Pid> {
    let mut all = vec![program];
    let mut at = 0;
    while let Some(process) = all.get(at).copied() {
        all.extend(children(process));
        at += 1;
    }
    all
}

/// Returns the children of all threads of a process, or none if the kernel does not list them.
fn children(process: Pid) -> Vec<Pid> {
    let Ok(threads) = fs::read_dir(format!("/proc/{process}/task")) else { return Vec::new() };
    let lists = threads.filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("children")).ok());
    lists
        .flat_map(|list| list.split_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect::<Vec<_>>())
        .collect()
}

fn own_memory_bytes(process: Pid) -> Option<u64> {
    own_memory(&fs::read_to_string(format!("/proc/{process}/status")).ok()?)
}

fn own_memory(status: &str) -> Option<u64> {
    let kib = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()
    };
    let kib = kib("RssAnon:")? + kib("RssShmem:").unwrap_or(0) + kib("VmSwap:").unwrap_or(0);
    Some(kib << 10)
}

fn processor_ticks(process: Pid) -> Option<u64> {
    ticks(&fs::read_to_string(format!("/proc/{process}/stat")).ok()?)
}

/// Returns the ticks of user and system time in a line of `/proc/PID/stat`. The name of the program, which may contain
/// anything, is in parentheses.
fn ticks(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11).map(|field| field.parse::<u64>().ok());
    Some(fields.next()?? + fields.next()??)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_counted_without_mapped_files_and_time_behind_any_name() {
        let status = "Name:\tgit\nVmRSS:\t 9000 kB\nRssAnon:\t    2000 kB\nRssFile:\t 7000 kB\nRssShmem:\t 8 kB\nVmSwap:\t 16 kB\n";
        assert_eq!(own_memory(status), Some(2024 << 10));
        assert_eq!(own_memory("Name:\tkthread\n"), None);
        assert_eq!(ticks("7 (a) b 1 (c) S 1 7 7 0 -1 4194304 100 0 0 0 30 12 0 0 20 0"), Some(42));
        assert_eq!(ticks("7 (git"), None);
    }

    #[test]
    fn a_command_is_found_behind_the_options_of_git() {
        for (line, command) in [
            ("git\0rev-list\0--all\0", Some("rev-list")),
            ("/usr/bin/git\0--shallow-file\0/srv/a.git/shallow\0unpack-objects\0-q\0", Some("unpack-objects")),
            ("git\0--git-dir=/srv/b.git\0for-each-ref\0", Some("for-each-ref")),
            ("git\0-c\0a.b=c\0--no-pager\0index-pack\0", Some("index-pack")),
            ("git\0", Some("")),
            ("git\0-c\0", Some("")),
            ("sh\0-c\0git rev-list\0", None),
        ] {
            assert_eq!(command_of(line.as_bytes()).as_deref(), command, "{line:?}");
        }
    }

    #[test]
    fn a_program_is_counted_with_all_that_it_started() {
        let script = "sleep 60 & exec sleep 60";
        let mut child = std::process::Command::new("sh").args(["-c", script]).spawn().unwrap();
        let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
        while with_descendants(pid).len() < 2 {
            std::thread::sleep(Duration::from_millis(5));
        }
        let watch = |memory_bytes| Watch::new(WorkLimits { memory_bytes, seconds: 0 });
        assert_eq!(watch(1 << 40).excess(pid), None);
        assert_eq!(watch(1).excess(pid), Some(Excess::Memory(1)));
        end(pid);
        child.wait().unwrap();
    }
}
