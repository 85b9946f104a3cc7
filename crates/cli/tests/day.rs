//! A day of a busy host in minutes: 64 processes create a million refs and delete most of them again, while others
//! read. The last six hours take little longer than the first six, the storage ends near its packed size, and no read
//! takes much longer than on an idle copy.
#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "day/reading.rs"]
mod reading;

use reading::{Reader, Seen};
use refdb_testkit::{Git, RefFormat, Repo, UpdateRefs};
use refdb_types::{HashKind, ObjectId};
use std::{
    path::Path,
    sync::{
        Barrier, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

const REFDB: &str = env!("CARGO_BIN_EXE_refdb");

/// The number of refs in a transaction.
const BATCH: usize = 25;
const HOURS: usize = 24;

/// How much is written.
struct Day {
    writers: usize,
    /// The number of batches that each writer creates before the first hour, and has again after each deletion later.
    live: usize,
    /// The number of batches that each writer creates in an hour, and of those that it deletes.
    hourly: usize,
}

/// In all 1,024,000 refs are created and 921,600 deleted.
const WHOLE: Day = Day { writers: 64, live: 64, hourly: 24 };
const SMALL: Day = Day { writers: 4, live: 4, hourly: 1 };

/// What came of a day.
#[derive(Debug)]
struct Record {
    /// How long each hour took.
    hours: Vec<Duration>,
    readers: Vec<Seen>,
    /// The most files and the most bytes of the storage that were seen at any time.
    most: (usize, u64),
    /// The files and bytes when all writers have ended; `packed` has the bytes of a copy whose refs are packed.
    end: (usize, u64),
    packed: u64,
}

/// A process that writes, by its number among the writers.
struct Writer {
    program: UpdateRefs,
    at: usize,
}

impl Writer {
    fn start(repo: &Repo, at: usize) -> Self {
        Writer { program: UpdateRefs::start(repo, REFDB, &["core.fsync=reference"]), at }
    }

    /// Creates or deletes the refs of a batch in one transaction, and waits for the answer.
    fn transact(&mut self, verb: &str, batch: usize, id: ObjectId) {
        let line = |number| format!("{verb} {} {id}\n", reading::name(self.at, batch, number));
        let commands: String = (0..BATCH).map(line).collect();
        assert!(self.program.transact(&commands), "writer {} at batch {batch}", self.at);
    }

    fn end(self) {
        assert!(self.program.end().success());
    }
}

/// The number of files in which refs are stored, and their bytes: the folder of tables, or packed-refs and loose refs.
fn storage(repo: &Repo) -> (usize, u64) {
    let paths: &[&str] = match repo.format() {
        RefFormat::Reftable => &["reftable"],
        RefFormat::Files => &["packed-refs", "refs"],
    };
    let sizes = paths.iter().map(|path| size_of(&repo.git_dir().join(path)));
    sizes.fold((0, 0), |(files, bytes), (more_files, more_bytes)| (files + more_files, bytes + more_bytes))
}

/// The files at or below `path` and their bytes. What disappears meanwhile is not counted.
fn size_of(path: &Path) -> (usize, u64) {
    let Ok(found) = std::fs::symlink_metadata(path) else { return (0, 0) };
    if !found.is_dir() {
        return (1, found.len());
    }
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    entries.map(|entry| size_of(&entry.path())).fold((0, 0), |sum, size| (sum.0 + size.0, sum.1 + size.1))
}

/// Lives through a day in a new repository, with readers of it and one reader of a copy that nobody writes to, whose
/// times show what the machine alone costs.
fn live(day: &Day, format: RefFormat) -> Record {
    let repo = Repo::bare(format, HashKind::Sha1);
    let id = repo.commit();
    repo.create_refs([("refs/heads/main", id)]);
    let mut writers: Vec<_> = (0..day.writers).map(|at| Writer::start(&repo, at)).collect();
    thread::scope(|scope| {
        for writer in &mut writers {
            scope.spawn(move || (0..day.live).for_each(|batch| writer.transact("create", batch, id)));
        }
    });
    // A writer may still pack refs after its last answer, and the copy of a repository that changes can lack refs.
    let lists_all = |copy: &Repo| {
        let mut git = Git::find().command(copy.git_dir());
        let listed = git.args(["for-each-ref", "--format=x", "refs/x"]).output().unwrap().stdout;
        listed.len() / 2 == day.writers * day.live * BATCH
    };
    let at_rest = (0..100).find_map(|_| repo.twin().filter(&lists_all)).expect("the writers come to rest");
    let readers = ["store", "view"].map(|how| Reader::start(&repo, how, day.writers));
    let beside = Reader::start(&at_rest, "store", day.writers);
    let (hourly_done, done) = (day.writers * day.hourly * 2, Mutex::new((0, vec![Instant::now()])));
    let (begin, over) = (Barrier::new(day.writers), AtomicBool::new(false));
    let (most, end) = thread::scope(|scope| {
        let observer = scope.spawn(|| {
            let mut most = (0, 0);
            while !over.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(20));
                let (files, bytes) = storage(&repo);
                most = (most.0.max(files), most.1.max(bytes));
            }
            most
        });
        let (begin, done) = (&begin, &done);
        let threads: Vec<_> = writers
            .into_iter()
            .map(|mut writer| {
                scope.spawn(move || {
                    begin.wait();
                    for batch in day.live..day.live + HOURS * day.hourly {
                        for (verb, batch) in [("create", batch), ("delete", batch - day.live)] {
                            writer.transact(verb, batch, id);
                            let (count, ends) = &mut *done.lock().unwrap();
                            *count += 1;
                            if *count % hourly_done == 0 {
                                ends.push(Instant::now());
                            }
                        }
                    }
                    writer
                })
            })
            .collect();
        let writers: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        over.store(true, Ordering::Relaxed);
        let most = observer.join().unwrap();
        writers.into_iter().for_each(Writer::end);
        (most, storage(&repo))
    });
    let readers = readers.into_iter().chain([beside]).map(Reader::end).collect();
    repo.verify();
    let left = repo.refs().iter().filter(|listed| listed.name.starts_with(b"refs/x/")).count();
    assert_eq!(left, day.writers * day.live * BATCH, "what was not deleted is there");
    let packed = repo.twin().unwrap();
    assert!(packed.command(REFDB).arg("pack-refs").arg("--all").status().unwrap().success());
    let ends = done.into_inner().unwrap().1;
    let hours = ends.windows(2).map(|hour| hour[1] - hour[0]).collect();
    Record { hours, readers, most, end, packed: storage(&packed).1 }
}

fn report(day: &Day, record: &Record) {
    let refs = day.writers * day.hourly * BATCH * 2;
    for (at, hour) in record.hours.iter().enumerate() {
        println!("hour {at}: {:.2} s, {:.0} refs a second", hour.as_secs_f64(), refs as f64 / hour.as_secs_f64());
    }
    let [(most_files, most_bytes), (files, bytes)] = [record.most, record.end];
    println!(
        "at most {most_files} files of {most_bytes} bytes, {files} of {bytes} in the end, packed {}",
        record.packed
    );
    for Seen { how, reads, longest, p999, pauses } in &record.readers {
        println!("{how}: {reads} reads, {longest:?} at most, p99.9 {p999:?}, {pauses} pauses");
    }
}

/// Requires that the last six hours take at most 1.3 times as long as the first six, and that the storage ends with at
/// most 1.3 times its packed size.
fn require_steadiness(record: &Record) {
    let [first, last] = [&record.hours[..HOURS / 4], &record.hours[HOURS - HOURS / 4..]];
    let [first, last] = [first, last].map(|hours| hours.iter().sum::<Duration>().as_secs_f64());
    assert!(last <= first * 1.3, "six hours took {first:.1} s in the beginning and {last:.1} s in the end");
    assert!(record.end.1 as f64 <= record.packed as f64 * 1.3, "{} bytes, packed {}", record.end.1, record.packed);
}

#[test]
#[ignore = "takes minutes, and needs an idle machine: scripts/test-long \"a day of 64 writers\""]
fn a_day_of_64_writers() {
    let record = live(&WHOLE, RefFormat::Reftable);
    report(&WHOLE, &record);
    require_steadiness(&record);
    assert!(record.most.0 <= 400, "{} files", record.most.0);
    let at_rest = record.readers.last().unwrap().longest;
    for reader in &record.readers {
        assert!(reader.longest <= reading::PAUSE.max(at_rest * 2), "{reader:?}, at rest {at_rest:?}");
    }
}

#[test]
fn a_small_day() {
    for format in RefFormat::ALL {
        let record = live(&SMALL, format);
        report(&SMALL, &record);
    }
}
