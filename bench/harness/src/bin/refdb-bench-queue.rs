//! `refdb-bench-queue`: many long-lived processes that write to one repository, transactions a second; see
//! bench/README.md, question 12.

use anyhow::{Context, Result, ensure};
use clap::Parser;
use std::{
    io::{BufRead, BufReader, Read, Write},
    path::{Path, PathBuf},
    process::{ChildStdin, ChildStdout, Command, ExitCode, Stdio},
    thread,
    time::{Duration, Instant},
};

#[derive(Parser, Clone)]
struct Options {
    /// The program that is measured.
    #[arg(long)]
    refdb: PathBuf,
    /// Git, which makes the repositories, and is the rival and the foreign writer.
    #[arg(long)]
    git: PathBuf,
    /// A folder for the repositories, on the disk that is measured.
    #[arg(long)]
    folder: PathBuf,
    /// Seconds for each line.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// The number of refs that each repository has before the writers start.
    #[arg(long, default_value_t = 100_000)]
    refs: usize,
    /// Leave out the lines with writers of git.
    #[arg(long)]
    no_git: bool,
    /// Measure only this format, reftable or files.
    #[arg(long)]
    format: Option<String>,
    /// Measure only with syncs (true) or without (false).
    #[arg(long)]
    synced: Option<bool>,
    /// Measure only with this many writers: 1, 8, 32 or 64; the lines with seven writers of refdb and one of git stay.
    #[arg(long)]
    writers: Option<usize>,
    /// Also measure processes that answer the same requests and do nothing, which is the most that the driver's pipes
    /// allow; not with `--format files` or `--synced true`.
    #[arg(long)]
    floor: bool,
    /// Be a process that answers requests and does nothing.
    #[arg(long, hide = true, conflicts_with_all = ["no_git", "floor"])]
    answer: bool,
}

fn main() -> ExitCode {
    let options = Options::parse();
    match if options.answer { answer() } else { run(&options) } {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("refdb-bench-queue: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<()> {
    let mut out = std::io::stdout();
    writeln!(out, "| format | synced | writers | a second | p50 | p99 | p99.9 (ms) | most / fewest | failed |")?;
    writeln!(out, "|-|-|-|-|-|-|-|-|-|")?;
    let is_wanted = |options: &Options, format: &str, synced: bool, writers: usize| {
        options.format.as_deref().is_none_or(|wanted| wanted == format)
            && options.synced.is_none_or(|wanted| wanted == synced)
            && options.writers.is_none_or(|wanted| wanted == writers)
    };
    for format in ["reftable", "files"] {
        for synced in [true, false] {
            for writers in [1, 8, 32, 64] {
                if !is_wanted(options, format, synced, writers) {
                    continue;
                }
                race(options, format, synced, Writers { own: writers, gits: 0 }, &mut out)?;
                if !options.no_git {
                    race(options, format, synced, Writers { own: 0, gits: writers }, &mut out)?;
                }
            }
            if !options.no_git && is_wanted(options, format, synced, options.writers.unwrap_or(8)) {
                race(options, format, synced, Writers { own: 7, gits: 1 }, &mut out)?;
            }
        }
    }
    for writers in [1, 8, 32, 64] {
        if options.floor && is_wanted(options, "reftable", false, writers) {
            let done = write_all(options, &vec![Writer::Answers; writers], &options.folder, "", "")?;
            print(&mut out, &["none", "no", &format!("{writers} that only answer")], &done, options.seconds)?;
        }
    }
    Ok(())
}

/// Answers each request of [`transact`] at once.
fn answer() -> Result<()> {
    let mut out = std::io::stdout();
    for line in std::io::stdin().lines() {
        match line?.as_str() {
            "start" => out.write_all(b"start: ok\n")?,
            "commit" => out.write_all(b"commit: ok\n")?,
            _ => {}
        }
    }
    Ok(())
}

/// The numbers of processes that write at the same time.
#[derive(Clone, Copy)]
struct Writers {
    own: usize,
    gits: usize,
}

/// A process that is measured.
#[derive(Clone, Copy)]
enum Writer {
    Own,
    Git,
    Answers,
}

/// How long each committed transaction of one writer took, and how many transactions failed.
struct Done {
    times: Vec<Duration>,
    failed: usize,
}

/// Measures writers of refdb and of git at the same time, and prints a line for all of them. If both write, a second
/// line is for git alone.
fn race(options: &Options, format: &str, synced: bool, writers: Writers, out: &mut impl Write) -> Result<()> {
    let folder = tempfile::tempdir_in(&options.folder)?;
    let id = make_repository(options, format, folder.path())?;
    let setting = if synced { "core.fsync=reference,loose-object" } else { "core.fsync=none" };
    let Writers { own, gits } = writers;
    let all = [vec![Writer::Own; own], vec![Writer::Git; gits]].concat();
    let done = write_all(options, &all, folder.path(), setting, &id)?;
    let who = match (own, gits) {
        (own, 0) => format!("{own} refdb"),
        (0, gits) => format!("{gits} git"),
        (own, gits) => format!("{own} refdb, {gits} git"),
    };
    let synced = if synced { "yes" } else { "no" };
    print(out, &[format, synced, &who], &done, options.seconds)?;
    if own > 0 && gits > 0 {
        print(out, &[format, synced, "of these git"], &done[own..], options.seconds)?;
    }
    Ok(())
}

/// Lets these writers write at the same time.
fn write_all(options: &Options, writers: &[Writer], folder: &Path, setting: &str, id: &str) -> Result<Vec<Done>> {
    let until = Instant::now() + Duration::from_secs(options.seconds);
    thread::scope(|scope| {
        let write = |(at, writer): (usize, &Writer)| {
            let writer = *writer;
            scope.spawn(move || write_until(until, &|| command(options, writer, folder, setting), at, id))
        };
        let writers: Vec<_> = writers.iter().enumerate().map(write).collect();
        let join = |writer: thread::ScopedJoinHandle<'_, _>| writer.join().expect("a writer does not panic");
        writers.into_iter().map(join).collect()
    })
}

fn command(options: &Options, writer: Writer, folder: &Path, setting: &str) -> Result<Command> {
    let program = match writer {
        Writer::Own => &options.refdb,
        Writer::Git => &options.git,
        Writer::Answers => &std::env::current_exe()?,
    };
    let mut command = Command::new(program);
    if matches!(writer, Writer::Answers) {
        // The required options mean nothing to it.
        command.args(["--answer", "--refdb", "-", "--git", "-", "--folder", "-"]);
    } else {
        command.arg("-C").arg(folder).args(["-c", setting, "update-ref", "--stdin"]);
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    Ok(command)
}

fn print(out: &mut impl Write, words: &[&str], done: &[Done], seconds: u64) -> Result<()> {
    let mut times: Vec<_> = done.iter().flat_map(|done| &done.times).copied().collect();
    times.sort_unstable();
    let at = |part: f64| {
        let at = ((times.len() as f64 * part) as usize).min(times.len().saturating_sub(1));
        times.get(at).map_or(0.0, |time| time.as_secs_f64() * 1e3)
    };
    let counts = || done.iter().map(|done| done.times.len());
    let (most, fewest) = (counts().max().unwrap_or(0), counts().min().unwrap_or(0).max(1));
    let failed: usize = done.iter().map(|done| done.failed).sum();
    writeln!(
        out,
        "| {} | {} | {:.2} | {:.2} | {:.2} | {:.2} | {failed} |",
        words.join(" | "),
        times.len() as u64 / seconds,
        at(0.5),
        at(0.99),
        at(0.999),
        most as f64 / fewest as f64
    )?;
    Ok(())
}

fn git(options: &Options, folder: &Path, words: &[&str], input: &str) -> Result<String> {
    let mut command = Command::new(&options.git);
    command.arg("-C").arg(folder).args(words).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().context("cannot start git")?;
    let mut stdin = child.stdin.take().context("the input is a pipe")?;
    stdin.write_all(input.as_bytes())?;
    drop(stdin);
    let output = child.wait_with_output()?;
    ensure!(output.status.success(), "git {words:?} failed");
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

/// Makes a repository with `options.refs` packed refs, and returns the object to which all of them point.
fn make_repository(options: &Options, format: &str, folder: &Path) -> Result<String> {
    git(options, folder, &["init", "-q", "--bare", &format!("--ref-format={format}")], "")?;
    let id = git(options, folder, &["hash-object", "-w", "--stdin"], "refs point here\n")?;
    let lines: String = (0..options.refs).map(|at| format!("create refs/seed/{at:07} {id}\n")).collect();
    git(options, folder, &["-c", "core.fsync=none", "update-ref", "--stdin"], &lines)?;
    git(options, folder, &["pack-refs", "--all"], "")?;
    // In the files format, git has made and removed a file for each ref, whose traces the disk would otherwise write
    // while it is measured.
    ensure!(Command::new("sync").arg("--file-system").arg(folder).status()?.success(), "sync failed");
    Ok(id)
}

/// Writes until the time is over. A program that fails is started again.
fn write_until(until: Instant, program: &dyn Fn() -> Result<Command>, writer: usize, id: &str) -> Result<Done> {
    let (mut done, mut number) = (Done { times: Vec::new(), failed: 0 }, 0);
    while Instant::now() < until {
        let mut child = program()?.spawn().context("a writer")?;
        let mut stdin = child.stdin.take().context("the input is a pipe")?;
        let mut stdout = BufReader::new(child.stdout.take().context("the output is a pipe")?);
        while Instant::now() < until {
            number += 1;
            let begun = Instant::now();
            if transact(&mut stdin, &mut stdout, &format!("refs/x/{writer}/{}/{number}", number % 977), id).is_err() {
                done.failed += 1;
                break;
            }
            done.times.push(begun.elapsed());
        }
        drop(stdin);
        child.wait()?;
    }
    Ok(done)
}

/// Creates two refs in one transaction: waits for the answer to `start`, sends the rest at once, and waits for the
/// answer to `commit`.
fn transact(stdin: &mut ChildStdin, stdout: &mut BufReader<ChildStdout>, name: &str, id: &str) -> Result<()> {
    let mut ask = |request: &str, answer: &str| -> Result<()> {
        stdin.write_all(request.as_bytes())?;
        let line = stdout.by_ref().lines().next().context("the program has ended")??;
        ensure!(line == answer, "{line}");
        Ok(())
    };
    ask("start\n", "start: ok")?;
    ask(&format!("create {name}a {id}\ncreate {name}b {id}\ncommit\n"), "commit: ok")
}
