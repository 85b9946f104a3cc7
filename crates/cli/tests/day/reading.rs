//! Readers, each in a process of its own.

use super::BATCH;
use refdb_refcache::{ListOptions, View, ViewSettings, Views, ViewsSettings};
use refdb_testkit::{Repo, this_program};
use std::{
    collections::BTreeMap,
    env,
    io::Read,
    ops::ControlFlow,
    path::Path,
    process::{Child, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// The names of the environment variables that make this program a reader.
const READS: &str = "REFDB_TEST_DAY_READS";
const HOW: &str = "REFDB_TEST_DAY_HOW";
const WRITERS: &str = "REFDB_TEST_DAY_WRITERS";

/// A read that takes longer than this counts as a pause.
pub(super) const PAUSE: Duration = Duration::from_millis(50);

/// The name of a ref that a writer creates.
pub(super) fn name(writer: usize, batch: usize, number: usize) -> String {
    format!("refs/x/{writer:02}/{batch:05}/{number:02}")
}

/// What a reader has seen.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) how: &'static str,
    /// The number of look-ups and lists.
    pub(super) reads: usize,
    /// The time of the longest read, and the time that all but one read in a thousand took at most.
    pub(super) longest: Duration,
    pub(super) p999: Duration,
    /// The number of reads that took more than [`PAUSE`].
    pub(super) pauses: usize,
}

/// A process that reads until its standard input ends.
pub(super) struct Reader {
    child: Child,
    how: &'static str,
}

impl Reader {
    pub(super) fn start(repo: &Repo, how: &'static str, writers: usize) -> Self {
        let mut program = this_program();
        program.args(["--exact", "reading::a_reader", "--test-threads=1", "--nocapture"]);
        program.env(READS, repo.git_dir()).env(HOW, how).env(WRITERS, writers.to_string());
        let child = program.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        Reader { child, how }
    }

    pub(super) fn end(self) -> Seen {
        let output = self.child.wait_with_output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{}: {said}", self.how);
        let line = said.lines().find_map(|line| line.split_once("seen ")).unwrap().1;
        let numbers: Vec<u64> = line.split(' ').map(|word| word.parse().unwrap()).collect();
        let [longest, p999] = [1, 2].map(|at| Duration::from_micros(numbers[at]));
        Seen { how: self.how, reads: numbers[0] as usize, longest, p999, pauses: numbers[3] as usize }
    }
}

/// A way to read refs in a long-lived process.
enum Source {
    Store(Box<refdb::Store>),
    View(Arc<View>),
}

impl Source {
    fn open(path: &Path, how: &str) -> Self {
        match how {
            "store" => Source::Store(Box::new(refdb::Store::open(path).unwrap())),
            _ => Source::View(Views::new(&ViewsSettings::new()).open(path, &ViewSettings::new()).unwrap()),
        }
    }

    fn has(&self, name: &str) -> bool {
        match self {
            Source::Store(store) => store.find(name).unwrap().is_some(),
            Source::View(view) => view.get(name.into()).unwrap().is_some(),
        }
    }

    fn list(&self, prefix: &str, each: &mut dyn FnMut(&[u8])) {
        match self {
            Source::Store(store) => store
                .visit(prefix, |found| {
                    each(found?.name);
                    Ok(ControlFlow::Continue(()))
                })
                .unwrap(),
            Source::View(view) => view
                .list(&ListOptions::new().prefixes(vec![prefix.into()]))
                .unwrap()
                .each(&mut |row| {
                    each(row.name);
                    ControlFlow::Continue(())
                })
                .unwrap(),
        }
    }
}

/// The process behind [`Reader`].
#[test]
fn a_reader() {
    let (Some(path), Ok(how), Ok(writers)) = (env::var_os(READS), env::var(HOW), env::var(WRITERS)) else { return };
    let writers: usize = writers.parse().unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let at_end = over.clone();
    thread::spawn(move || {
        std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
        at_end.store(true, Ordering::Relaxed);
    });
    let source = Source::open(Path::new(&path), &how);
    let is_atomic = Path::new(&path).join("reftable/tables.list").exists();
    let mut times = Vec::new();
    let mut measure = |read: &mut dyn FnMut()| {
        let begun = Instant::now();
        read();
        times.push(begun.elapsed());
    };
    for round in 0.. {
        if over.load(Ordering::Relaxed) {
            break;
        }
        measure(&mut || assert!(source.has("refs/heads/main"), "a ref that nobody touches is there"));
        let mut batches = BTreeMap::<Vec<u8>, usize>::new();
        let prefix = format!("refs/x/{:02}/", round % writers);
        measure(&mut || {
            source.list(&prefix, &mut |name| *batches.entry(name[..prefix.len() + 5].to_vec()).or_default() += 1);
        });
        let halves: Vec<_> = batches.iter().filter(|(_, count)| **count != BATCH).collect();
        assert!(!is_atomic || halves.is_empty(), "each transaction is seen as a whole: {halves:?}");
        assert!(!batches.is_empty(), "{prefix} has refs at any time");
        thread::sleep(Duration::from_millis(5));
    }
    times.sort_unstable();
    let [longest, p999] = [times.len() - 1, times.len() * 999 / 1000].map(|at| times[at].as_micros());
    let pauses = times.iter().filter(|time| **time > PAUSE).count();
    println!("\nseen {} {longest} {p999} {pauses}", times.len());
}
