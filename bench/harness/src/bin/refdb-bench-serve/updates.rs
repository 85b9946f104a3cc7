//! Polls while other programs update the refs that are polled.

use crate::{
    Options, commits,
    polls::{self, Poller, Way},
    repository::{Repository, git, git_patiently},
    server::Target,
};
use anyhow::{Context, Result, ensure};
use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

/// Updates of all writers together in a second.
const UPDATES_A_SECOND: u32 = 200;

/// The number of values that a writer gives its ref in turn: more than an answer can be behind.
const VALUES: usize = 1000;

/// A program that updates a ref of its own again and again.
struct Writer {
    branch: &'static str,
    /// The number of the last update that has begun, and of the last one that was acknowledged; 0 before the first.
    begun: AtomicUsize,
    acknowledged: AtomicUsize,
}

/// What one poller, or all of them together, have seen.
#[derive(Default)]
struct Seen {
    answers: usize,
    stale: usize,
}

/// Measures polls of the refs that git, refdb and, if the options name its driver, JGit update at the same time, and
/// prints a line. An answer is stale if it is older than an update that was acknowledged before the poll began.
pub(crate) fn measure(options: &Options, target: &Target, repository: &Repository) -> Result<()> {
    let values = make_values(options, repository)?;
    let branches: &[_] = if options.jgit.is_some() { &["u0", "u1", "u2"] } else { &["u0", "u1"] };
    let writers: Vec<_> = branches
        .iter()
        .map(|branch| Writer { branch, begun: AtomicUsize::new(0), acknowledged: AtomicUsize::new(0) })
        .collect();
    for writer in &writers {
        let name = format!("refs/heads/{}", writer.branch);
        git(&options.git, &repository.path, &["update-ref", &name, &values[0]], "")?;
    }
    let is_over = AtomicBool::new(false);
    let (seen, taken, updates) = thread::scope(|scope| {
        let (is_over, values) = (&is_over, &values[..]);
        let interval = Duration::from_secs(writers.len() as u64) / UPDATES_A_SECOND;
        let spawn =
            |(at, writer)| scope.spawn(move || write(options, repository, writer, at, values, interval, is_over));
        let threads: Vec<_> = writers.iter().enumerate().map(spawn).collect();
        let measured = read_beside(options, target, repository, &writers, values, &|| {
            threads.iter().any(thread::ScopedJoinHandle::is_finished)
        });
        is_over.store(true, Ordering::Release);
        threads.into_iter().try_for_each(|thread| thread.join().expect("a writer panicked"))?;
        measured
    })?;
    println!(
        "| polls per second of server CPU, kept connection, beside {:.0} updates a second (stale of all) | {:.0} \
         ({} of {}) | |",
        updates as f64 / options.seconds as f64,
        seen.answers as f64 / taken.as_secs_f64(),
        seen.stale,
        seen.answers,
    );
    for writer in &writers {
        git(&options.git, &repository.path, &["update-ref", "-d", &format!("refs/heads/{}", writer.branch)], "")?;
    }
    Ok(())
}

/// Reads once every writer writes. Returns what was seen, the processor time of the server and the number of updates.
fn read_beside(
    options: &Options,
    target: &Target,
    repository: &Repository,
    writers: &[Writer],
    values: &[String],
    has_ended: &dyn Fn() -> bool,
) -> Result<(Seen, Duration, usize)> {
    // JGit starts slowly.
    while writers.iter().any(|writer| writer.acknowledged.load(Ordering::Acquire) == 0) {
        ensure!(!has_ended(), "a writer has ended");
        thread::sleep(Duration::from_millis(10));
    }
    let done = || writers.iter().map(|writer| writer.acknowledged.load(Ordering::Acquire)).sum::<usize>();
    let (before, first) = (target.usage.cpu()?, done());
    let seen = read(options, target, repository, writers, values)?;
    Ok((seen, target.usage.cpu()? - before, done() - first))
}

/// Makes the commits to which the refs are set, and returns their ids.
fn make_values(options: &Options, repository: &Repository) -> Result<Vec<String>> {
    let tree = git(&options.git, &repository.path, &["mktree"], "")?;
    let (mut ids, mut contents) = (Vec::new(), Vec::new());
    for number in 0..VALUES {
        let (id, content) = commits::commit(&tree, &repository.commit, &format!("value {number}"))?;
        ids.push(id);
        contents.push(content);
    }
    git(&options.git, &repository.path, &["unpack-objects", "-q"], commits::pack(&contents)?)?;
    Ok(ids)
}

/// Polls the writers' refs in turn.
fn read(
    options: &Options,
    target: &Target,
    repository: &Repository,
    writers: &[Writer],
    values: &[String],
) -> Result<Seen> {
    let until = Instant::now() + Duration::from_secs(options.seconds);
    let all = polls::at_once(&|number| {
        let poller = |writer: &Writer| Poller::new(target, repository, writer.branch, Way::Kept);
        let mut pollers: Vec<_> = writers.iter().map(poller).collect();
        let mut seen = Seen::default();
        while Instant::now() < until {
            let at = (number + seen.answers) % writers.len();
            let writer = &writers[at];
            let oldest = writer.acknowledged.load(Ordering::Acquire);
            let text = pollers[at].poll()?;
            let newest = writer.begun.load(Ordering::Acquire);
            let line = text.lines().find(|line| line.ends_with(&format!(" refs/heads/{}", writer.branch)));
            let line = line.with_context(|| format!("{} is not listed", writer.branch))?;
            let is_fresh = (oldest..=newest).any(|count| line[4..].starts_with(&values[count % VALUES]));
            seen.stale += usize::from(!is_fresh);
            seen.answers += 1;
        }
        Ok(vec![seen])
    })?;
    Ok(all
        .iter()
        .fold(Seen::default(), |sum, seen| Seen { answers: sum.answers + seen.answers, stale: sum.stale + seen.stale }))
}

/// Updates a ref at this interval until all is over.
fn write(
    options: &Options,
    repository: &Repository,
    writer: &Writer,
    at: usize,
    values: &[String],
    interval: Duration,
    is_over: &AtomicBool,
) -> Result<()> {
    let name = format!("refs/heads/{}", writer.branch);
    let refdb = options.serve.with_file_name("refdb");
    let mut jgit = match (at, &options.jgit) {
        (2, Some(driver)) => Some(JGit::start(driver, repository)?),
        _ => None,
    };
    let mut due = Instant::now();
    while !is_over.load(Ordering::Acquire) {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        due += interval;
        let count = writer.begun.fetch_add(1, Ordering::AcqRel) + 1;
        let value = &values[count % VALUES];
        let is_done = match &mut jgit {
            Some(jgit) => jgit.update(&name, value)?,
            None => {
                let program = if at == 0 { &options.git } else { &refdb };
                git_patiently(program, &repository.path, &["update-ref", &name, value], "")?;
                true
            }
        };
        if is_done {
            writer.acknowledged.store(count, Ordering::Release);
        }
    }
    Ok(())
}

/// The driver of the tests, in which JGit holds a repository open.
struct JGit {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl JGit {
    fn start(driver: &std::path::Path, repository: &Repository) -> Result<Self> {
        let java = std::fs::read_to_string(driver.join("java")).context("the driver of JGit is not built")?;
        let mut command = Command::new(java.trim());
        command.arg("-jar").arg(driver.join("jgit-driver.jar")).arg(&repository.path);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().context("cannot start JGit")?;
        let input = child.stdin.take().context("it has no input")?;
        let output = BufReader::new(child.stdout.take().context("it has no output")?);
        Ok(JGit { child, input, output })
    }

    /// Returns whether the ref was updated; it is not if another writer holds the lock, or has removed a file that JGit
    /// was about to read.
    fn update(&mut self, name: &str, value: &str) -> Result<bool> {
        writeln!(self.input, "update\t{name}\t{value}\t\tbench")?;
        let mut lines = String::new();
        while !lines.ends_with("ok\n") {
            let length = self.output.read_line(&mut lines)?;
            if lines.contains("error java.nio.file.NoSuchFileException") {
                return Ok(false);
            }
            ensure!(length > 0 && !lines.contains("error "), "JGit says {lines}");
        }
        let is_done = ["=NEW", "=FAST_FORWARD", "=FORCED"].iter().any(|word| lines.starts_with(word));
        ensure!(is_done || lines.starts_with("=LOCK_FAILURE"), "JGit says {lines}");
        Ok(is_done)
    }
}

impl Drop for JGit {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on shall panic")]
mod tests {
    use super::*;
    use std::{fs, os::unix::fs::PermissionsExt};

    /// Previously, it ended the row.
    #[test]
    fn an_update_of_jgit_that_misses_a_removed_file_counts_as_not_done() {
        let folder = tempfile::tempdir().unwrap();
        let java = folder.path().join("fake");
        let script = "#!/bin/sh\nread -r one; echo 'error java.nio.file.NoSuchFileException: gone'\n\
                      read -r two; echo 'error java.io.IOException: broken'\n";
        fs::write(&java, script).unwrap();
        fs::set_permissions(&java, fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(folder.path().join("java"), java.to_str().unwrap()).unwrap();
        let repository = Repository { path: folder.path().to_owned(), commit: String::new() };
        let mut jgit = JGit::start(folder.path(), &repository).unwrap();
        assert!(!jgit.update("refs/heads/u2", "value").unwrap());
        assert!(jgit.update("refs/heads/u2", "value").is_err());
    }
}
