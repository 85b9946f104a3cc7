//! Several writers at once on one repository, each one `update-ref --stdin` with many transactions (the races `s6…`):
//! how many updates a second, is anything lost, does anyone starve?

use std::{
    collections::HashSet,
    fs::{self, File},
    io::{BufWriter, Write},
    path::{Path, PathBuf},
    process::{Child, Stdio},
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use refdb_lab::process::wait;
use serde::Serialize;

use crate::{
    bench::{Bench, make_repository},
    place::{Disk, Place},
    process::{Line, Program},
    seed::{Content, Format, LISTING},
};

/// A race: who writes, and how long they wait for locks.
#[derive(Debug, Clone, Copy)]
pub struct Race {
    /// Its name on the command line and in results.
    pub id: &'static str,
    /// The format of the repository.
    pub format: Format,
    /// How many writers are the program under test.
    pub own: usize,
    /// How many writers are git.
    pub git: usize,
    /// Whether writers wait for locks without end (`reftable.lockTimeout=-1`), or as long as each does by default.
    pub patient: bool,
}

/// How one program's writers fared.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Side {
    /// The number of writers.
    pub writers: usize,
    /// The number of writers that failed.
    pub failed: usize,
    /// The number of updates that the writers were told are committed.
    pub committed: usize,
    /// The slowest writer's time over the fastest's, among those that finished.
    pub unfairness: Option<f64>,
    /// The first line on standard error of the first failed writer that wrote any.
    pub said: Option<String>,
}

/// How a race ended.
#[derive(Debug, Clone, Serialize)]
pub struct Outcome {
    /// The race.
    pub race: &'static str,
    /// `files` or `reftable`.
    pub format: &'static str,
    /// Whether the writers waited for locks without end.
    pub patient: bool,
    /// The program under test.
    pub own: Side,
    /// git.
    pub git: Side,
    /// Updates applied, a second, until the last writer ended.
    pub rate: f64,
    /// Updates that were asked for.
    pub asked: usize,
    /// Updates that were reported as committed, but whose ref is not there.
    pub lost: usize,
    /// Most tables seen in the stack while the writers ran; 0 for files.
    pub tables: usize,
}

/// All races. The first two are the ones a target compares.
pub fn races() -> Vec<Race> {
    let race = |id, format, own, git, patient| Race { id, format, own, git, patient };
    vec![
        race("s6", Format::Reftable, 8, 0, true),
        race("s6-git", Format::Reftable, 0, 8, true),
        race("s6-default", Format::Reftable, 8, 0, false),
        race("s6-git-default", Format::Reftable, 0, 8, false),
        race("s6-mixed", Format::Reftable, 4, 4, true),
        race("s6-mixed-default", Format::Reftable, 4, 4, false),
        race("files-s6", Format::Files, 8, 0, false),
        race("files-s6-git", Format::Files, 0, 8, false),
        race("files-s6-mixed", Format::Files, 4, 4, false),
    ]
}

/// Runs one race.
pub fn run(bench: &Bench<'_>, race: Race) -> Result<Outcome> {
    let place = Place::new(Disk::Tmpfs, &bench.cache)?;
    let dir = place.dir().join("repository");
    make_repository(&bench.seeds.repository(race.format, Content::Empty)?, &dir, false)?;
    if race.patient {
        bench.git.output(&dir, &["config", "reftable.lockTimeout", "-1"])?;
    }
    let writers = (0..race.own + race.git)
        .map(|number| Writer::new(number, number % 2 == 0, race, bench, place.dir()))
        .collect::<Result<Vec<_>>>()?;

    let start = Instant::now();
    let (ended, tables) = with_most_tables(&dir, || {
        let children = writers.iter().map(|writer| writer.spawn(&dir)).collect::<Result<Vec<_>>>()?;
        Ok(wait_for_all(children, start))
    })?;

    let time = ended.iter().map(|ended| ended.time).max().unwrap_or_default();
    let there: HashSet<Vec<u8>> =
        bench.git.output(&dir, &LISTING)?.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
    let there = |name: &str| there.contains(format!("{} {name} ", bench.commits[0]).as_bytes());
    let (mut own, mut git, mut applied, mut lost) = (Vec::new(), Vec::new(), 0, 0);
    for (writer, ended) in writers.iter().zip(&ended) {
        let committed = writer.committed()?;
        applied += (0..bench.size.updates).filter(|n| there(&writer.name(*n))).count();
        lost += (0..committed).filter(|n| !there(&writer.name(*n))).count();
        let side = if writer.own { &mut own } else { &mut git };
        side.push((committed, ended.success, ended.time, writer.said()?));
    }
    Ok(Outcome {
        race: race.id,
        format: race.format.name(),
        patient: race.patient,
        own: Side::of(own),
        git: Side::of(git),
        rate: applied as f64 / time.as_secs_f64(),
        asked: writers.len() * bench.size.updates,
        lost,
        tables,
    })
}

impl Side {
    fn of(writers: Vec<(usize, bool, Duration, Option<String>)>) -> Side {
        let times = || writers.iter().filter(|(_, success, ..)| *success).map(|(_, _, time, _)| time.as_secs_f64());
        let (fastest, slowest) = (times().reduce(f64::min), times().reduce(f64::max));
        Side {
            writers: writers.len(),
            failed: writers.iter().filter(|(_, success, ..)| !success).count(),
            committed: writers.iter().map(|(committed, ..)| committed).sum(),
            unfairness: fastest.zip(slowest).map(|(fastest, slowest)| slowest / fastest),
            said: writers.into_iter().find_map(|(_, success, _, said)| said.filter(|_| !success)),
        }
    }
}

/// One `update-ref --stdin` that is given all its transactions at once.
struct Writer {
    own: bool,
    number: usize,
    program: Program,
    input: PathBuf,
    output: PathBuf,
    error: PathBuf,
}

struct Ended {
    success: bool,
    time: Duration,
}

impl Writer {
    /// Writer `number`; in a mixed race the programs take turns.
    fn new(number: usize, even: bool, race: Race, bench: &Bench<'_>, dir: &Path) -> Result<Writer> {
        let own = if race.git == 0 { true } else { race.own > 0 && even };
        let program = if own { bench.own.context("there is no program under test")? } else { bench.git };
        let path = |what: &str| dir.join(format!("{number}.{what}"));
        let (input, output, error) = (path("in"), path("out"), path("err"));
        let writer = Writer { own, number, program: program.clone(), input, output, error };
        let mut out = BufWriter::new(File::create(&writer.input)?);
        for n in 0..bench.size.updates {
            write!(out, "start\ncreate {} {}\ncommit\n", writer.name(n), bench.commits[0])?;
        }
        out.flush()?;
        Ok(writer)
    }

    /// The ref of its `n`-th transaction.
    fn name(&self, n: usize) -> String {
        format!("refs/heads/writer-{}/{n:05}", self.number)
    }

    fn spawn(&self, dir: &Path) -> Result<Child> {
        let line = Line { args: vec!["update-ref".into(), "--stdin".into()], input: Some(self.input.clone()) };
        let mut command = self.program.command(dir, &line)?;
        let out = Stdio::from(File::create(&self.output)?);
        command.stdout(out).stderr(File::create(&self.error)?).spawn().context("cannot start a writer")
    }

    /// How many transactions it was told are committed.
    fn committed(&self) -> Result<usize> {
        Ok(fs::read_to_string(&self.output)?.lines().filter(|line| *line == "commit: ok").count())
    }

    fn said(&self) -> Result<Option<String>> {
        Ok(fs::read_to_string(&self.error)?.lines().next().map(str::to_owned))
    }
}

/// Seconds that a writer may take.
const WRITER_LIMIT: u64 = 900;

/// Waits for each child in a thread of its own, so that each child's own time is known.
fn wait_for_all(children: Vec<Child>, start: Instant) -> Vec<Ended> {
    let ended = |mut child: Child| {
        // One that starves for ever has failed.
        let success = wait(&mut child, WRITER_LIMIT).is_ok() && child.wait().is_ok_and(|status| status.success());
        Ended { success, time: start.elapsed() }
    };
    thread::scope(|scope| {
        let threads: Vec<_> = children.into_iter().map(|child| scope.spawn(move || ended(child))).collect();
        let failed = || Ended { success: false, time: start.elapsed() };
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| failed())).collect()
    })
}

/// The pause between two looks at the stack.
const GLANCE: Duration = Duration::from_millis(2);

/// Does `work`, and returns the largest number of tables that were seen in the repository's stack meanwhile.
fn with_most_tables<T>(dir: &Path, work: impl FnOnce() -> Result<T>) -> Result<(T, usize)> {
    let (done, most) = (AtomicBool::new(false), AtomicUsize::new(0));
    let list = dir.join("reftable/tables.list");
    let look = || {
        let tables = fs::read_to_string(&list).map_or(0, |text| text.lines().count());
        most.fetch_max(tables, Ordering::Relaxed);
    };
    let outcome = thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                look();
                thread::sleep(GLANCE);
            }
        });
        let outcome = work();
        done.store(true, Ordering::Relaxed);
        outcome
    })?;
    look();
    Ok((outcome, most.load(Ordering::Relaxed)))
}
