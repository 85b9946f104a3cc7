//! Gets, puts and invalidations under a scheduler that decides at each step which thread goes on. Whatever writes,
//! compacts and evicts meanwhile, they return the results of one thread after the other, even while the disk is full.

#![allow(clippy::unwrap_used, reason = "whatever fails here fails the test")]

use refdb_kvcache::{Cache, Clock, Durability, Options, Put, PutOptions, Ticket};
use refdb_testkit::rounds;
use refdb_vfs::{Fs, IoHook, Op, Verdict};
use shuttle::{
    Config, Runner,
    scheduler::{PctScheduler, RandomScheduler, Schedule, Scheduler, Task, TaskId},
    thread,
};
use std::{
    io::ErrorKind,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

// `shuttle` takes the place of locks, atomics and shared pointers (`src/sync.rs`). It tries many orders, each made from
// a seed, which a failure names. Then the history of each run is checked: is there a point in time within each call
// such that the calls, in this order, behave like a map?
const KEY: &[u8] = b"the key that is watched";
/// Two values fill the smallest segment, so that few puts are enough for new segments and compaction.
const VALUE_BYTES: usize = 7 << 10;
/// Room for some segments, in addition to the room kept free.
const TIGHT_LIMIT_BYTES: u64 = 176 << 10;
/// The files of what `overwritten` puts take more than half of this limit, so that there is something to compact.
const LIMIT_BYTES: u64 = 512 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    /// A put of this number, with the time at which its ticket had been taken if it has one.
    Put {
        number: u64,
        ticket_end: Option<u64>,
    },
    /// A put that stored nothing because its ticket was void.
    Stale {
        ticket_begin: u64,
    },
    Remove,
    Clear,
    Get(Option<u64>),
}

/// A call with its begin and its end, by a clock that ticks at every call.
#[derive(Clone, Copy, Debug)]
struct Call {
    begin: u64,
    end: u64,
    event: Event,
}

impl Call {
    /// Whether the call makes tickets void. A put with a ticket does not, but one without does.
    fn invalidates(&self) -> bool {
        matches!(self.event, Event::Put { ticket_end: None, .. } | Event::Remove | Event::Clear)
    }
}

/// Whether `a` must have happened before `b`: it had ended when `b` began, or it stored a value under a ticket that `b`
/// made void only later.
fn is_before(a: &Call, b: &Call) -> bool {
    let was_loaded_before = matches!(a.event, Event::Put { ticket_end: Some(had), .. } if had < b.begin);
    a.end < b.begin || (was_loaded_before && b.invalidates())
}

/// What a get that finds nothing tells about the value that was there.
#[derive(Clone, Copy)]
enum Miss {
    /// The value was replaced or removed, because nothing is evicted.
    Changed,
    /// The value may have been evicted, and is gone.
    Evicted,
    /// The value may have been evicted and be back after a restart, because its file may still have been there.
    MayComeBack,
}

/// Whether the calls can be put into an order in which each returned what a map would have returned, from which entries
/// are evicted as `miss` says.
fn is_linearizable(calls: &[Call], done: u32, value: Option<u64>, miss: Miss) -> bool {
    let is_left = |at: &usize| done & (1 << at) == 0;
    let left: Vec<usize> = (0..calls.len()).filter(is_left).collect();
    left.is_empty()
        || left.iter().any(|&next| {
            let is_first = left.iter().all(|&other| other == next || !is_before(&calls[other], &calls[next]));
            let after = match calls[next].event {
                Event::Put { number, .. } => Some(number),
                Event::Remove | Event::Clear => None,
                Event::Stale { .. } => value,
                Event::Get(found) if found == value => value,
                Event::Get(None) => match miss {
                    Miss::Changed => return false,
                    Miss::Evicted => None,
                    Miss::MayComeBack => value,
                },
                Event::Get(Some(_)) => return false,
            };
            is_first && is_linearizable(calls, done | 1 << next, after, miss)
        })
}

/// Whether each put that was refused because of its ticket had a reason for it.
fn stale_puts_have_a_reason(calls: &[Call]) -> bool {
    calls.iter().all(|call| match call.event {
        Event::Stale { ticket_begin } => {
            calls.iter().any(|other| other.invalidates() && other.end > ticket_begin && other.begin < call.end)
        }
        _ => true,
    })
}

/// A cache, and the calls that were made to it.
struct Run {
    cache: Cache,
    clock: AtomicU64,
    calls: Mutex<Vec<Call>>,
    disk: Arc<Disk>,
}

/// A disk that is full while `is_full` is set.
#[derive(Default)]
struct Disk {
    is_full: AtomicBool,
    failures: AtomicU64,
}

impl IoHook for Disk {
    fn before(&self, op: Op<'_>) -> Verdict {
        match op {
            Op::Write(..) | Op::Create(_) if self.is_full.load(Ordering::Relaxed) => {
                self.failures.fetch_add(1, Ordering::Relaxed);
                Verdict::Fail(ErrorKind::StorageFull.into())
            }
            _ => Verdict::Proceed,
        }
    }
}

impl Run {
    fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::Relaxed)
    }

    fn record(&self, call: impl FnOnce() -> Event) {
        let begin = self.tick();
        let event = call();
        let end = self.tick();
        self.calls.lock().unwrap().push(Call { begin, end, event });
    }

    fn put(&self, number: u64) {
        self.record(|| match self.cache.put(KEY, &value_of(number)).unwrap() {
            Put::Stored => Event::Put { number, ticket_end: None },
            // A refused put leaves the key without a value.
            Put::Refused if self.is_tight() => Event::Remove,
            refused => panic!("{refused:?}: there is room"),
        });
    }

    fn is_tight(&self) -> bool {
        self.cache.stats().limit_bytes == TIGHT_LIMIT_BYTES
    }

    /// Puts another key's value, which takes room.
    fn put_other(&self, number: u64) {
        self.cache.put(&number.to_le_bytes(), &value_of(number)).unwrap();
    }

    fn take_ticket(&self) -> (u64, Ticket, u64) {
        let begin = self.tick();
        let ticket = self.cache.ticket(KEY);
        (begin, ticket, self.tick())
    }

    fn put_with(&self, number: u64, (begin, ticket, end): (u64, Ticket, u64)) {
        self.record(|| {
            let options = PutOptions::new().ticket(ticket);
            match self.cache.put_with(KEY, &value_of(number), options).unwrap() {
                Put::Stored => Event::Put { number, ticket_end: Some(end) },
                Put::Stale => Event::Stale { ticket_begin: begin },
                Put::Refused => panic!("there is room"),
            }
        });
    }

    fn remove(&self, durability: Durability) {
        self.record(|| {
            // Whatever the disk reports, this process has no value any more.
            let removed = self.cache.remove_with(KEY, durability);
            assert!(removed.is_ok() || self.is_tight(), "{removed:?}");
            Event::Remove
        });
    }

    fn clear(&self) {
        self.record(|| {
            self.cache.clear().unwrap();
            Event::Clear
        });
    }

    fn get(&self) {
        self.record(|| Event::Get(get(&self.cache)));
    }
}

fn value_of(number: u64) -> Vec<u8> {
    number.to_le_bytes().repeat(VALUE_BYTES / 8)
}

fn get(cache: &Cache) -> Option<u64> {
    cache.get(KEY).map(|found| {
        let number = u64::from_le_bytes(found.value[..8].try_into().unwrap());
        assert_eq!(found.value, value_of(number), "a value is whole");
        number
    })
}

fn open(dir: &Path) -> Cache {
    open_on(Fs::real(), dir, LIMIT_BYTES)
}

fn open_on(fs: Fs, dir: &Path, limit_bytes: u64) -> Cache {
    let mut options = Options::new(limit_bytes).clock(Clock::new(|| 1_700_000_000_000));
    if limit_bytes == TIGHT_LIMIT_BYTES {
        // A put that finds no room is refused at once, because the scheduler decides how long another thread takes.
        options.put_timeout = Duration::ZERO;
    }
    Cache::open_idle(fs, dir, options).expect("it opens")
}

/// The work of one thread.
type Work = fn(&Run, u64);

/// Calls `run` with a new folder under many schedules, of which `make test` takes half.
fn explore(schedules: usize, run: impl Fn(&Path) + Send + Sync + 'static) {
    let schedules = rounds(schedules / 2, schedules);
    let base = if Path::new("/dev/shm").is_dir() { "/dev/shm".into() } else { std::env::temp_dir() };
    let dir = tempfile::tempdir_in(base).expect("a temporary folder can be made");
    let (count, run, base) = (AtomicU64::new(0), Arc::new(run), dir.path().to_owned());
    let run = Arc::new(move || {
        let dir = base.join(count.fetch_add(1, Ordering::Relaxed).to_string());
        run(&dir);
        std::fs::remove_dir_all(&dir).unwrap();
    });
    let go = |scheduler: Box<dyn Scheduler + Send>| {
        let mut config = Config::new();
        config.stack_size = 1 << 20;
        let run = run.clone();
        Runner::new(scheduler, config).run(move || run());
    };
    go(Box::new(RandomScheduler::new(schedules / 2)));
    go(Box::new(PctScheduler::new(3, schedules / 2)));
}

/// Runs `works` at once, beside a thread that does the cache's own work, and checks the outcome in memory and, after
/// closing, in the files. Returns how many records compaction copied.
fn check(works: &'static [Work], before: fn(&Cache), schedules: usize) -> u64 {
    let copies = Arc::new(AtomicU64::new(0));
    let counted = copies.clone();
    explore(schedules, move |dir| {
        let cache = open(dir);
        before(&cache);
        let first = get(&cache);
        let run = Arc::new(Run { cache, clock: AtomicU64::new(1), calls: Mutex::default(), disk: Arc::default() });
        let threads: Vec<_> = works
            .iter()
            .enumerate()
            .map(|(thread, work)| {
                let run = run.clone();
                thread::spawn(move || work(&run, 100 * (thread as u64 + 1)))
            })
            .collect();
        let worker = run.clone();
        let worker = thread::spawn(move || (0..2).for_each(|_| worker.cache.work().unwrap()));
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        worker.join().unwrap();
        run.get();
        let calls = run.calls.lock().unwrap();
        assert!(is_linearizable(&calls, 0, first, Miss::Changed), "no order explains {calls:#?}");
        assert!(stale_puts_have_a_reason(&calls), "{calls:#?}");
        let last = get(&run.cache);
        counted.fetch_add(run.cache.stats().compacted, Ordering::Relaxed);
        run.cache.close().unwrap();
        assert_eq!(get(&open(dir)), last, "the files say the same");
    });
    copies.load(Ordering::Relaxed)
}

fn nothing(_: &Cache) {}

const KEYS: std::ops::RangeInclusive<u64> = 1..=17;

fn key_of(number: u64) -> Vec<u8> {
    if number == 1 { KEY.to_vec() } else { number.to_string().into_bytes() }
}

/// Leaves segments that are half dead, the watched value first, so that the worker has something to compact.
fn overwritten(cache: &Cache) {
    for number in KEYS {
        cache.put(&key_of(number), &value_of(number)).unwrap();
        cache.put(b"overwritten", &value_of(number)).unwrap();
    }
    cache.flush(Durability::Written).unwrap();
    assert!(cache.stats().disk_bytes > LIMIT_BYTES / 2, "there is something to compact: {:?}", cache.stats());
}

fn reads(run: &Run, _: u64) {
    (0..3).for_each(|_| run.get());
}

fn puts_and_removes(run: &Run, number: u64) {
    run.put(number);
    run.remove(Durability::Buffered);
    run.put(number + 1);
}

fn removes_for_good(run: &Run, number: u64) {
    run.put(number);
    run.get();
    run.remove(Durability::Written);
}

fn clears(run: &Run, number: u64) {
    run.put(number);
    run.clear();
    run.get();
}

/// Loads values as a cache loader does: it takes the ticket first, and then needs time for the value.
fn loads(run: &Run, number: u64) {
    for number in [number, number + 1] {
        let ticket = run.take_ticket();
        run.get();
        run.put_with(number, ticket);
    }
}

#[test]
fn puts_gets_and_removals_are_linearizable() {
    check(&[puts_and_removes, removes_for_good, reads], nothing, 400);
}

#[test]
fn they_are_so_while_segments_are_compacted() {
    let copies = check(&[puts_and_removes, reads, removes_for_good], overwritten, 400);
    assert!(copies >= 200, "{copies} records were copied: the worker has too little to do");
}

/// A removal between compaction's look at a record and its copy of the record must win. With one key that would hardly
/// ever happen.
#[test]
fn what_is_removed_while_it_is_copied_stays_removed() {
    explore(800, |dir| {
        let cache = Arc::new(open(dir));
        overwritten(&cache);
        let worker = cache.clone();
        let worker = thread::spawn(move || worker.work().unwrap());
        for number in KEYS {
            cache.remove(&key_of(number)).unwrap();
        }
        worker.join().unwrap();
        assert!(cache.stats().evicted == 0, "{:?}", cache.stats());
        let is_there = |cache: &Cache| KEYS.filter(|number| cache.get(&key_of(*number)).is_some()).collect::<Vec<_>>();
        assert_eq!(is_there(&cache), [], "in memory");
        cache.close().unwrap();
        assert_eq!(is_there(&open(dir)), [], "in the files");
    });
}

/// In each of `most_steps` executions, pauses the first thread once, until the others have done all their work. Each
/// execution does so after one more step of the first thread than the execution before.
struct OnePause {
    most_steps: usize,
    execution: usize,
    steps: usize,
}

impl Scheduler for OnePause {
    fn new_execution(&mut self) -> Option<Schedule> {
        self.execution += 1;
        self.steps = 0;
        (self.execution <= self.most_steps).then(|| Schedule::new(0))
    }

    fn next_task(&mut self, runnable: &[&Task], _: Option<TaskId>, _: bool) -> Option<TaskId> {
        let other = runnable.iter().find(|task| task.id() != TaskId::from(0));
        let first = runnable.iter().find(|task| task.id() == TaskId::from(0));
        if other.is_some() && first.is_some() {
            self.steps += 1;
        }
        let next = if self.steps < self.execution { first.or(other) } else { other.or(first) };
        next.map(|task| task.id())
    }

    fn next_u64(&mut self) -> u64 {
        0
    }
}

/// A get that has read the place of a record from the index, and is delayed until the slot of the record's segment
/// belongs to another segment, finds a record of another key at that place. It must look where its own record is now.
#[test]
fn a_get_finds_a_value_whose_segment_is_replaced_meanwhile() {
    let dir = tempfile::tempdir().unwrap();
    let (count, base) = (AtomicU64::new(0), dir.path().to_owned());
    Runner::new(OnePause { most_steps: 100, execution: 0, steps: 0 }, Config::new()).run(move || {
        let dir = base.join(count.fetch_add(1, Ordering::Relaxed).to_string());
        let cache = Arc::new(open(&dir));
        overwritten(&cache);
        let writer = cache.clone();
        let writer = thread::spawn(move || {
            for number in 0..6 {
                writer.work().unwrap();
                writer.put(b"overwritten", &value_of(number)).unwrap();
                writer.put(b"overwritten too", &value_of(number)).unwrap();
            }
        });
        for number in KEYS {
            let found = cache.get(&key_of(number)).map(|found| found.value);
            assert!(found == Some(value_of(number)), "{number} is there all the time");
            assert!(cache.contains(&key_of(number)), "{number} is there all the time");
        }
        writer.join().unwrap();
        cache.close().unwrap();
    });
}

#[test]
fn they_are_so_while_all_is_cleared() {
    check(&[puts_and_removes, clears, reads], overwritten, 400);
}

#[test]
fn a_loaded_value_never_overtakes_an_invalidation() {
    check(&[loads, removes_for_good, reads], nothing, 400);
    check(&[loads, clears, loads], overwritten, 400);
}

/// Fills a cache to its limit with entries that nobody reads. The watched value is in the oldest segment.
fn filled(cache: &Cache) {
    cache.put(KEY, &value_of(1)).unwrap();
    for number in 1_000.. {
        let before = cache.stats().disk_bytes;
        if cache.put(&number.to_string().into_bytes(), &value_of(number)).unwrap() == Put::Refused {
            break;
        }
        cache.flush(Durability::Written).unwrap();
        assert!(cache.stats().disk_bytes > before, "it grows to its limit");
    }
}

/// What happened to the entries in all schedules.
#[derive(Default)]
struct Fates {
    evicted: AtomicU64,
    kept: AtomicU64,
    /// Writes that found the disk full.
    failed: AtomicU64,
}

/// Does what [`check`] does with a cache at its limit, whose entries may be evicted at any moment and whose disk
/// `works` may fill. With `is_read` the watched value is in use, and so worth a copy.
fn check_tight(works: &'static [Work], is_read: bool, schedules: usize) -> Arc<Fates> {
    let fates = Arc::new(Fates::default());
    let counted = fates.clone();
    explore(schedules, move |dir| {
        let disk = Arc::new(Disk::default());
        let cache = open_on(Fs::with_hook(disk.clone()), dir, TIGHT_LIMIT_BYTES);
        filled(&cache);
        assert!(!is_read || get(&cache) == Some(1), "nothing was evicted so far");
        let run = Arc::new(Run { cache, clock: AtomicU64::new(1), calls: Mutex::default(), disk: disk.clone() });
        let spawn = |(thread, work): (usize, &'static Work)| {
            let run = run.clone();
            thread::spawn(move || work(&run, 100 * (thread as u64 + 1)))
        };
        let threads: Vec<_> = works.iter().enumerate().map(spawn).collect();
        let worker = run.clone();
        // On a full disk the worker returns an error.
        let worker = thread::spawn(move || (0..2).for_each(|_| drop(worker.cache.work())));
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        worker.join().unwrap();
        disk.is_full.store(false, Ordering::Relaxed);
        run.get();
        let mut calls = run.calls.lock().unwrap().clone();
        assert!(is_linearizable(&calls, 0, Some(1), Miss::Evicted), "no order explains {calls:#?}");
        let stats = run.cache.stats();
        assert!(stats.disk_bytes <= TIGHT_LIMIT_BYTES, "{stats:?}");
        counted.evicted.fetch_add(stats.evicted, Ordering::Relaxed);
        counted.kept.fetch_add(stats.kept, Ordering::Relaxed);
        counted.failed.fetch_add(disk.failures.load(Ordering::Relaxed), Ordering::Relaxed);
        run.cache.close().unwrap();
        let found = get(&open_on(Fs::real(), dir, TIGHT_LIMIT_BYTES));
        calls.push(Call { begin: run.tick(), end: run.tick(), event: Event::Get(found) });
        assert!(is_linearizable(&calls, 0, Some(1), Miss::MayComeBack), "in the files: {calls:#?}");
    });
    fates
}

fn puts_others(run: &Run, number: u64) {
    (number..number + 3).for_each(|number| run.put_other(number));
}

/// Makes the disk full for a while.
fn fills_the_disk(run: &Run, number: u64) {
    run.disk.is_full.store(true, Ordering::Relaxed);
    run.put_other(number);
    run.get();
    thread::yield_now();
    run.disk.is_full.store(false, Ordering::Relaxed);
}

#[test]
fn they_are_so_at_the_limit_but_for_what_is_evicted() {
    let dropped = check_tight(&[puts_and_removes, puts_others, reads], false, 200);
    let kept = check_tight(&[removes_for_good, puts_others, clears], true, 400);
    let [evicted, evicted_too, kept] =
        [&dropped.evicted, &kept.evicted, &kept.kept].map(|count| count.load(Ordering::Relaxed));
    // A clear leaves little to evict.
    assert!(evicted >= 100 && evicted_too + kept >= 10, "{evicted}, {evicted_too} and {kept}: too little to do");
}

#[test]
fn they_are_so_on_a_disk_that_is_full_for_a_while() {
    let fates = check_tight(&[removes_for_good, fills_the_disk, puts_and_removes], true, 400);
    let failed = fates.failed.load(Ordering::Relaxed);
    assert!(failed >= 200, "{failed} writes failed: the disk is full too seldom");
}

/// The checker itself must find what cannot have happened.
#[test]
fn a_history_that_no_map_has_is_refused() {
    let call = |begin, end, event| Call { begin, end, event };
    let put = Event::Put { number: 1, ticket_end: None };
    let good = [call(1, 4, put), call(2, 5, Event::Get(None)), call(3, 6, Event::Get(Some(1)))];
    assert!(is_linearizable(&good, 0, None, Miss::Changed));
    let lost = [call(1, 2, put), call(3, 4, Event::Get(None))];
    assert!(!is_linearizable(&lost, 0, None, Miss::Changed));
    assert!(is_linearizable(&lost, 0, None, Miss::Evicted));
    let again = [lost[0], lost[1], call(5, 6, Event::Get(Some(1)))];
    assert!(!is_linearizable(&again, 0, None, Miss::Evicted) && is_linearizable(&again, 0, None, Miss::MayComeBack));
    let back = [call(1, 2, put), call(3, 4, Event::Remove), call(5, 6, Event::Get(Some(1)))];
    assert!(!is_linearizable(&back, 0, None, Miss::MayComeBack));
    assert!(!is_linearizable(&back, 0, None, Miss::Changed));
    // The removal began after the ticket was had, so the loaded value must not outlive it.
    let loaded = Event::Put { number: 1, ticket_end: Some(1) };
    let overtaken = [call(2, 5, Event::Remove), call(3, 6, loaded), call(7, 8, Event::Get(Some(1)))];
    assert!(!is_linearizable(&overtaken, 0, None, Miss::Changed));
    let in_time = [call(2, 5, Event::Remove), call(3, 6, loaded), call(7, 8, Event::Get(None))];
    assert!(is_linearizable(&in_time, 0, None, Miss::Changed));
    assert!(!stale_puts_have_a_reason(&[call(3, 4, Event::Stale { ticket_begin: 1 })]));
}

/// Runs `works` on a cache whose index another thread fills meanwhile, after a close and after a kill.
fn check_unread(works: &'static [Work], schedules: usize) {
    for is_killed in [false, true] {
        explore(schedules / 2, move |dir| {
            let cache = open(dir);
            (1..=2).for_each(|number| assert_eq!(cache.put(KEY, &value_of(number)).unwrap(), Put::Stored));
            if is_killed {
                cache.flush(Durability::Written).unwrap();
                cache.abandon();
            } else {
                cache.close().unwrap();
            }
            let options = Options::new(LIMIT_BYTES).clock(Clock::new(|| 1_700_000_000_000));
            let cache = Cache::open_unread(Fs::real(), dir, options, 1).unwrap();
            let run = Arc::new(Run { cache, clock: AtomicU64::new(1), calls: Mutex::default(), disk: Arc::default() });
            let start = |(work, thread): (&'static Work, u64)| {
                let run = run.clone();
                thread::spawn(move || work(&run, 100 * thread))
            };
            let mut threads: Vec<_> = works.iter().zip(1..).map(start).collect();
            let (reader, worker) = (run.clone(), run.clone());
            threads.push(thread::spawn(move || while reader.cache.read_on() {}));
            threads.push(thread::spawn(move || worker.cache.work().unwrap()));
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            run.get();
            let calls = run.calls.lock().unwrap();
            assert!(is_linearizable(&calls, 0, Some(2), Miss::MayComeBack), "no order explains {calls:#?}");
            let last = get(&run.cache);
            assert!(calls.iter().any(Call::invalidates) || last == Some(2), "it is a miss only until it is found");
            run.cache.close().unwrap();
            assert_eq!(get(&open(dir)), last, "the files say the same");
        });
    }
}

#[test]
fn what_is_put_or_removed_while_the_index_is_filled_wins() {
    for works in [&[puts_and_removes as Work, reads], &[removes_for_good, reads], &[clears, reads]] {
        check_unread(works, 400);
    }
}
