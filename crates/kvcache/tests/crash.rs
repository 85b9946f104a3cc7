//! After a kill, a disk operation that fails, or a power loss, a cache has the entries of one state that it had before.
//! If no write was ever synced, a power loss may take some of these.

use refdb_kvcache::{Cache, Clock, Durability, Error, Options, PutOptions};
use refdb_testkit::{Rng, crash};
use refdb_vfs::{Fs, IoHook, Op, Verdict};
use std::{collections::BTreeMap, path::Path};

const KEYS: u64 = 24;
const STEPS: u64 = 90;

/// The smallest cache has segments of 16 KiB, of which values of some hundred bytes to some KiB fill several.
fn options() -> Options {
    let mut options = Options::new(1 << 20);
    options.clock = Clock::new(|| 1_700_000_000_000);
    options
}

#[derive(Clone, Debug)]
enum Step {
    Put(u64, Vec<u8>, Durability),
    Remove(u64, Durability),
    Clear(Durability),
    Flush,
    Work,
    Compact,
    /// Closes the cache, which saves its index, and opens it again. The index is filled part by part with each `Work`.
    Reopen,
    /// Writes everything, ends like a killed process, and opens the cache again as `Reopen` does.
    Restart,
}

/// Returns a workload that fills several segments, overwrites, removes, clears, compacts and lets the worker run now
/// and then.
fn steps(seed: u64) -> Vec<Step> {
    let mut rng = Rng::new(seed);
    let durability = |rng: &mut Rng| match rng.below(8) {
        0 => Durability::Synced,
        1 | 2 => Durability::Written,
        _ => Durability::Buffered,
    };
    (0..STEPS)
        .map(|step| match rng.below(24) {
            0..=15 => {
                let mut value = format!("value {step} ").into_bytes();
                value.resize(200 + rng.below(3000), step as u8);
                Step::Put(rng.bits() % KEYS, value, durability(&mut rng))
            }
            16..=18 => Step::Remove(rng.bits() % KEYS, durability(&mut rng)),
            19 if step > 60 => Step::Clear(durability(&mut rng)),
            20 => Step::Compact,
            21 => Step::Flush,
            _ => Step::Work,
        })
        .collect()
}

/// The steps with some closes and opens in between, of which two follow each other, and some kills.
fn with_reopens(mut steps: Vec<Step>) -> Vec<Step> {
    for at in [70, 45, 45, 20] {
        steps.insert(at, Step::Reopen);
    }
    for at in [80, 60, 32] {
        steps.insert(at, Step::Restart);
    }
    steps
}

type State = BTreeMap<u64, Vec<u8>>;

/// Returns the states that the cache goes through: the empty one, and one after each step. For each number of finished
/// steps it also returns the last step that must survive a kill, and the last that must survive a power loss.
fn states(steps: &[Step]) -> (Vec<State>, Vec<(usize, usize)>) {
    let (mut state, mut states, mut floors) = (State::new(), vec![State::new()], vec![(0, 0)]);
    for (at, step) in steps.iter().enumerate() {
        let done = at + 1;
        let (mut written, mut synced) = *floors.last().expect("there is a first");
        let durability = match step {
            Step::Put(key, value, durability) => {
                state.insert(*key, value.clone());
                *durability
            }
            Step::Remove(key, durability) => {
                state.remove(key);
                *durability
            }
            Step::Clear(durability) => {
                state.clear();
                *durability
            }
            Step::Flush | Step::Reopen | Step::Restart => Durability::Written,
            Step::Work | Step::Compact => Durability::Buffered,
        };
        if durability >= Durability::Written {
            written = done;
        }
        if durability == Durability::Synced {
            synced = done;
        }
        states.push(state.clone());
        floors.push((written, synced));
    }
    (states, floors)
}

fn run(fs: &Fs, dir: &Path, steps: &[Step], done: &dyn Fn(usize)) -> Result<(), Error> {
    let mut cache = Cache::open_idle(fs.clone(), dir, options())?;
    for (at, step) in steps.iter().enumerate() {
        match step {
            Step::Put(key, value, durability) => {
                let options = PutOptions::new().durability(*durability);
                cache.put_with(&key.to_le_bytes(), value, options)?;
            }
            Step::Remove(key, durability) => drop(cache.remove_with(&key.to_le_bytes(), *durability)?),
            Step::Clear(durability) => cache.clear_with(*durability)?,
            Step::Flush => cache.flush(Durability::Written)?,
            Step::Work => {
                cache.read_on();
                cache.work()?;
            }
            Step::Compact => drop(cache.compact()?),
            Step::Reopen => {
                cache.close()?;
                cache = Cache::open_unread(fs.clone(), dir, options(), 8)?;
            }
            Step::Restart => {
                cache.flush(Durability::Written)?;
                cache.abandon();
                cache = Cache::open_unread(fs.clone(), dir, options(), 8)?;
            }
        }
        done(at + 1);
    }
    // A killed process does not close its cache.
    cache.abandon();
    Ok(())
}

fn found(dir: &Path) -> State {
    let cache = Cache::open_idle(Fs::real(), dir, options()).expect("what a crash left can be opened");
    let mut state = State::new();
    for key in 0..KEYS {
        if let Some(found) = cache.get(&key.to_le_bytes()) {
            state.insert(key, found.value);
        }
    }
    assert_eq!(cache.stats().entries as usize, state.len(), "the count is right: {:?}", cache.stats());
    // The cache can be written to and opened again.
    cache.put(b"after", b"the crash").expect("it can be written to");
    cache.close().expect("it closes");
    let again = Cache::open_idle(Fs::real(), dir, options()).expect("it opens a second time");
    assert_eq!(again.get(b"after").expect("it is there").value, b"the crash");
    for key in 0..KEYS {
        assert_eq!(again.get(&key.to_le_bytes()).map(|found| found.value).as_ref(), state.get(&key));
    }
    state
}

/// Returns the number of steps that the process had finished when it was stopped, and a function that sets it. One cell
/// is enough because the explorer runs the workload and the check in turn.
fn progress() -> (std::rc::Rc<std::cell::Cell<usize>>, impl Fn(usize)) {
    let progress = std::rc::Rc::new(std::cell::Cell::new(0));
    let set = progress.clone();
    (progress, move |done| set.set(done))
}

#[test]
fn a_killed_process_leaves_a_state_it_had_and_all_that_was_written() {
    for seed in 1..3 {
        let steps = if seed == 1 { steps(seed) } else { with_reopens(steps(seed)) };
        let (states, floors) = states(&steps);
        let (at, done) = progress();
        let start = tempfile::tempdir().unwrap();
        crash::kill_everywhere(
            start.path(),
            |fs, dir| {
                done(0);
                run(fs, dir, &steps, &done)
            },
            |dir, crash| {
                let (written, _) = floors[at.get()];
                let state = found(dir);
                // The step in which the process died may have taken effect already.
                let possible = &states[written..(at.get() + 2).min(states.len())];
                assert!(possible.contains(&state), "seed {seed}, {crash:?}: after step {} of {steps:?}", at.get());
            },
        );
    }
}

#[test]
fn an_operation_that_fails_once_harms_nothing() {
    let steps = steps(7);
    let (states, _) = states(&steps);
    let start = tempfile::tempdir().unwrap();
    crash::refuse_everywhere(
        start.path(),
        |fs, dir| {
            let cache = Cache::open_idle(fs.clone(), dir, options())?;
            let mut failed = None;
            for step in &steps {
                let outcome = match step {
                    Step::Put(key, value, durability) => {
                        let options = PutOptions::new().durability(*durability);
                        cache.put_with(&key.to_le_bytes(), value, options).map(drop)
                    }
                    Step::Remove(key, durability) => cache.remove_with(&key.to_le_bytes(), *durability).map(drop),
                    Step::Clear(durability) => cache.clear_with(*durability),
                    Step::Flush => cache.flush(Durability::Written),
                    Step::Work => cache.work(),
                    Step::Compact => cache.compact().map(drop),
                    Step::Reopen | Step::Restart => unreachable!("these steps have none"),
                };
                failed = outcome.err().or(failed);
            }
            // The cache in memory is right even if the disk failed. A sync that fails costs all entries so far.
            let has_lost = matches!(&failed, Some(Error::File(error)) if error.operation == "sync");
            for (key, value) in states.last().expect("there is one") {
                let found = cache.get(&key.to_le_bytes()).map(|found| found.value);
                assert!(found.as_ref() == Some(value) || found.is_none() && has_lost, "{key}: {failed:?}");
            }
            cache.close()?;
            failed.map_or(Ok(()), Err)
        },
        |dir, crash| {
            let state = found(dir);
            let last = states.last().expect("there is one");
            let may_lack = crash.next.starts_with("sync 0");
            // Opening the cache may itself have failed.
            assert!(state.is_empty() || state == *last || may_lack && is_part(&state, last), "{crash:?}");
        },
    );
}

/// If no write was promised to survive a power loss, copies are not synced before the oldest segment is deleted.
/// Entries may then be missing, but all entries found are from the same state.
#[test]
fn without_a_promise_a_power_loss_takes_entries_but_brings_none_back() {
    let mut steps = steps(5);
    for step in &mut steps {
        match step {
            Step::Put(_, _, durability) | Step::Remove(_, durability) | Step::Clear(durability) => {
                *durability = (*durability).min(Durability::Written);
            }
            Step::Flush | Step::Work | Step::Compact | Step::Reopen | Step::Restart => {}
        }
    }
    let (states, _) = states(&steps);
    lose_power(&steps, |_, done, state| states[..(done + 2).min(states.len())].iter().any(|of| is_part(state, of)));
}

fn is_part(state: &State, of: &State) -> bool {
    state.iter().all(|(key, value)| of.get(key) == Some(value))
}

/// Loses power after each operation of these steps. `is_possible` gets the kind of disk, the number of finished steps,
/// and the entries found afterwards.
fn lose_power(steps: &[Step], is_possible: impl Fn(crash::Disk, usize, &State) -> bool) {
    for disk in [crash::Disk::Journaled, crash::Disk::Unordered, crash::Disk::Scattered] {
        let start = tempfile::tempdir().expect("a temporary folder can be made");
        let ends = operations_by_step(steps);
        crash::lose_power_everywhere(
            start.path(),
            disk,
            |fs, dir| run(fs, dir, steps, &|_| {}),
            |dir, crash| {
                let done = ends.iter().filter(|end| **end <= crash.at).count();
                let state = found(dir);
                assert!(is_possible(disk, done, &state), "{disk:?}, {crash:?}: after step {done}: {:?}", state.keys());
            },
        );
    }
}

#[derive(Default)]
struct Counting(std::sync::atomic::AtomicUsize);

impl IoHook for Counting {
    fn before(&self, _: Op<'_>) -> Verdict {
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Verdict::Proceed
    }
}

/// Returns the number of disk operations at the end of each step.
fn operations_by_step(steps: &[Step]) -> Vec<usize> {
    let temp = tempfile::tempdir().expect("a temporary folder can be made");
    let counting = std::sync::Arc::new(Counting::default());
    let ends = std::cell::RefCell::new(Vec::new());
    let done = |_| ends.borrow_mut().push(counting.0.load(std::sync::atomic::Ordering::Relaxed));
    run(&Fs::with_hook(counting.clone()), temp.path(), steps, &done).expect("nothing stops it");
    ends.into_inner()
}

#[test]
fn a_power_loss_leaves_a_state_it_had_and_all_that_was_synced() {
    check_power_losses(&steps(11));
}

/// A saved index may be on the disk without the segments that it stands for, or with later ones.
#[test]
fn a_power_loss_around_a_saved_index_leaves_a_state_it_had_and_all_that_was_synced() {
    let mut steps = steps(11);
    // After a buffered clear, a loss of power may take some of the entries.
    steps.retain(|step| !matches!(step, Step::Clear(_)));
    check_power_losses(&with_reopens(steps));
}

fn check_power_losses(steps: &[Step]) {
    let (states, floors) = states(steps);
    lose_power(steps, |disk, done, state| {
        let (_, synced) = floors[done];
        let mut possible = states[synced..(done + 2).min(states.len())].iter();
        // Until the first sync has ended, the footers of earlier segments may be there without their records.
        let may_lack = disk == crash::Disk::Scattered && synced == 0;
        possible.any(|of| state == of || may_lack && is_part(state, of))
    });
}
