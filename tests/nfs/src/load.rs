//! Load: agents on all clients read and change a few refs at once, and every operation is written down for the checker
//! of histories (`tests/histories`), with times of this machine's clock.

use crate::{
    faults::{self, Fault},
    line::Failure,
    node::Cluster,
};
use refdb_testkit::Rng;
use std::{
    collections::BTreeMap,
    fs::File,
    io::{BufWriter, Write},
    path::Path,
    process::Command,
    sync::Mutex,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

const NAMES: [&str; 4] = ["refs/heads/a", "refs/heads/b", "refs/heads/deep/c", "refs/heads/deep/er/d"];
const NOTHING: &str = "0000000000000000000000000000000000000000";
/// Commits for each second of the load and of the recovery, several times as many as agents write: each write has a
/// commit of its own, which must exist beforehand.
const VALUES: u64 = 300;

/// The time in which an agent must be able to write a ref after the load.
const RECOVERED_MAX: Duration = Duration::from_secs(60);

/// What a load runs.
pub(crate) struct Plan<'a> {
    pub(crate) format: &'a str,
    pub(crate) trust: &'a str,
    /// The engine of each agent of a client: `view`, `serve`, `jgit`, `git`.
    pub(crate) engines: Vec<&'a str>,
    /// The number of the serial line on which the first of these agents answers; the others follow.
    pub(crate) line: usize,
    pub(crate) seconds: u64,
    pub(crate) seed: u64,
    /// The faults that come while the load runs, one after the other.
    pub(crate) faults: &'a [Fault],
}

/// What a load did.
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) reads: usize,
    pub(crate) writes: usize,
    pub(crate) refused: usize,
    /// Writes that failed with an error or were not answered, and may have been made.
    pub(crate) unknown: usize,
    /// Errors, each with how often it was told.
    pub(crate) errors: BTreeMap<String, usize>,
    /// Faults, each with how often it came.
    pub(crate) faults: BTreeMap<Fault, usize>,
}

impl Counts {
    /// Prints all counts.
    pub(crate) fn tell(&self) {
        let faults: Vec<String> = self.faults.iter().map(|(fault, times)| format!(", {times} {fault}")).collect();
        let Counts { reads, writes, refused, unknown, .. } = self;
        println!("{reads} reads, {writes} writes, {refused} refused, {unknown} unknown{}", faults.concat());
        self.errors.iter().for_each(|(error, times)| println!("{times} times: {error}"));
    }
}

/// Runs a plan, and writes its history to a file.
pub(crate) fn run(cluster: &Cluster, plan: &Plan<'_>, history: &Path) -> Counts {
    let git = refdb_testkit::Git::find().program().display().to_string();
    let path = format!("/mnt/share/load-{}-{}-{}.git", plan.format, plan.trust, plan.seed);
    let values = make(cluster, &git, plan, &path);
    let run = Run {
        cluster,
        path: &path,
        values: &values,
        next: AtomicUsize::new(0),
        begun: Instant::now(),
        end: Instant::now() + Duration::from_secs(plan.seconds),
        history: Mutex::new(BufWriter::new(File::create(history).expect("a history"))),
        counts: Mutex::default(),
    };
    thread::scope(|scope| {
        for node in 1..=cluster.clients() {
            for (at, engine) in plan.engines.iter().enumerate() {
                let engine = if *engine == "git" { git.as_str() } else { engine };
                let agent = Agent { run: &run, node, line: plan.line + at, engine, number: node * 100 + at };
                let seed = plan.seed * 1000 + agent.number as u64;
                scope.spawn(move || {
                    agent.work(&mut Rng::new(seed));
                    agent.write_at_last();
                });
            }
        }
        let mut rng = Rng::new(plan.seed);
        let came = faults::come(cluster, plan, run.path, run.end, &mut rng);
        run.counts.lock().expect("no thread panicked").faults = came;
    });
    run.history.into_inner().expect("no thread panicked").flush().expect("the history is whole");
    run.counts.into_inner().expect("no thread panicked")
}

/// Creates the repository, and a local one with the commits to write; the former borrows the latter's objects. Returns
/// the ids of the commits.
fn make(cluster: &Cluster, git: &str, plan: &Plan<'_>, path: &str) -> Vec<String> {
    let values = cluster.folder().join(format!("values-{}-{}.git", plan.format, plan.trust));
    let script = format!(
        "{git} init -q --bare {values} && cd {values} && for i in $(seq {count}); do echo commit refs/heads/values; \
         echo \"committer n <e> $((1700000000 + i)) +0000\"; echo data 0; echo; done | {git} fast-import --quiet && \
         {git} rev-list refs/heads/values",
        values = values.display(),
        count = VALUES * (plan.seconds + RECOVERED_MAX.as_secs()),
    );
    let listed = Command::new("bash").args(["-c", &script]).output().expect("bash is there");
    assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
    let settings = format!(
        "echo {}/objects >objects/info/alternates && $git config reftable.autoRefresh true && \
         $git config core.trustStat {} && $git config gc.auto 0 && $git pack-refs --all",
        values.display(),
        plan.trust,
    );
    cluster.make_repository(1, plan.format, path, &settings);
    String::from_utf8_lossy(&listed.stdout).split_whitespace().map(str::to_owned).collect()
}

struct Run<'a> {
    cluster: &'a Cluster,
    path: &'a str,
    values: &'a [String],
    next: AtomicUsize,
    begun: Instant,
    end: Instant,
    history: Mutex<BufWriter<File>>,
    counts: Mutex<Counts>,
}

struct Agent<'a> {
    run: &'a Run<'a>,
    node: usize,
    line: usize,
    engine: &'a str,
    number: usize,
}

impl Agent<'_> {
    fn work(&self, rng: &mut Rng) {
        while Instant::now() < self.run.end {
            let name = NAMES[rng.below(NAMES.len())];
            match rng.below(100) {
                0..3 => drop(self.ask("pack", &[])),
                3..6 => self.list(),
                6..60 => drop(self.read(name)),
                kind => {
                    let Some(old) = self.read(name) else { continue };
                    let mut swaps = vec![(name, old.clone(), self.new_value(&old, rng))];
                    let other = NAMES[rng.below(NAMES.len())];
                    if kind < 66
                        && other != name
                        && let Some(old) = self.read(other)
                    {
                        swaps.push((other, old.clone(), self.new_value(&old, rng)));
                    }
                    let _ = self.write(&swaps);
                }
            }
        }
    }

    /// Writes each ref once more, because no fault may leave one that cannot be written when it is over.
    fn write_at_last(&self) {
        for name in NAMES {
            let end = Instant::now() + RECOVERED_MAX;
            while !self.read(name).is_some_and(|old| {
                let new = self.new_value("", &mut Rng::new(0));
                self.write(&[(name, old, new)])
            }) {
                assert!(Instant::now() < end, "agent {} cannot write {name}", self.number);
                thread::sleep(Duration::from_millis(50));
            }
        }
    }

    /// The next unused value or, now and then if `old` is not empty, the empty text for a deletion.
    fn new_value(&self, old: &str, rng: &mut Rng) -> String {
        if !old.is_empty() && rng.below(8) == 0 {
            return String::new();
        }
        self.run.values.get(self.run.next.fetch_add(1, Relaxed)).expect("enough commits for all writes").clone()
    }

    /// Looks a ref up. Returns the empty text if there is no such ref, and `None` if the agent failed or was killed.
    fn read(&self, name: &str) -> Option<String> {
        let call = self.now();
        let value = self.ask("get", &[name])?;
        let value = if value == "none" { String::new() } else { value };
        self.run.counts.lock().expect("no thread panicked").reads += 1;
        self.note(&format!("\"kind\":\"read\",\"ref\":\"{name}\",\"to\":\"{value}\""), call, self.now());
        Some(value)
    }

    /// Lists all refs and records a look-up of each. Does nothing with JGit.
    fn list(&self) {
        if self.engine == "jgit" {
            return;
        }
        let call = self.now();
        let Some(all) = self.ask("list", &["refs/heads/"]) else { return };
        let end = self.now();
        let words: Vec<&str> = all.split_whitespace().collect();
        for name in NAMES {
            let value = words.chunks(2).find(|row| row[0] == name).map_or("", |row| row[1]);
            self.note(&format!("\"kind\":\"read\",\"ref\":\"{name}\",\"to\":\"{value}\""), call, end);
        }
        self.run.counts.lock().expect("no thread panicked").reads += NAMES.len();
    }

    /// Swaps the values of these refs in one transaction and records the outcome. Returns whether it was done.
    fn write(&self, swaps: &[(&str, String, String)]) -> bool {
        let id = |value: &String| if value.is_empty() { NOTHING.to_owned() } else { value.clone() };
        let words: Vec<String> =
            swaps.iter().flat_map(|(name, old, new)| [(*name).to_owned(), id(old), id(new)]).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let call = self.now();
        let said = self.ask("swap", &words);
        let (result, end) = match said.as_deref() {
            Some("done") => ("done", self.now()),
            // A refused batch does not say which ref was in the way, and a busy lock says nothing of the value. Neither
            // proves a value, so both count as failed.
            Some(said) if swaps.len() > 1 || is_lock(said) => ("failed", self.now()),
            Some(_) => ("refused", self.now()),
            None => ("unknown", -1),
        };
        let mut counts = self.run.counts.lock().expect("no thread panicked");
        match result {
            "done" => counts.writes += 1,
            "unknown" => counts.unknown += 1,
            _ => counts.refused += 1,
        }
        drop(counts);
        for (name, old, new) in swaps {
            let what = format!(
                "\"kind\":\"put\",\"ref\":\"{name}\",\"from\":\"{old}\",\"to\":\"{new}\",\"result\":\"{result}\""
            );
            self.note(&what, call, end);
        }
        result == "done"
    }

    fn ask(&self, operation: &str, arguments: &[&str]) -> Option<String> {
        let mut words = vec![self.engine, self.run.path, operation];
        words.extend(arguments);
        match self.run.cluster.ask(self.node, self.line, &words) {
            Ok(said) => Some(said),
            // A killed agent is started again, so this is no error: after a pause its successor is asked.
            Err(Failure::Killed) => {
                thread::sleep(Duration::from_millis(100));
                None
            }
            Err(Failure::Failed(said)) => {
                let engine = self.engine.rsplit('/').next().unwrap_or_default();
                let error = format!("{engine} {operation}: {}", said.chars().take(200).collect::<String>());
                *self.run.counts.lock().expect("no thread panicked").errors.entry(error).or_default() += 1;
                None
            }
        }
    }

    fn now(&self) -> i64 {
        self.run.begun.elapsed().as_nanos() as i64
    }

    fn note(&self, what: &str, call: i64, end: i64) {
        let line = format!("{{\"client\":{},{what},\"call\":{call},\"return\":{end}}}", self.number);
        writeln!(self.run.history.lock().expect("no thread panicked"), "{line}").expect("room for the history");
    }
}

/// Whether a refusal says that another writer was busy with the ref, not which value it has.
fn is_lock(said: &str) -> bool {
    ["lock file", ".lock", "LOCK_FAILURE", "Unable to create", "is locked"].iter().any(|word| said.contains(word))
}
