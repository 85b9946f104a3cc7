//! Judges the history of a load: whether some order of its operations explains every answer.
//!
//! An operation takes effect at one moment between its question and its answer. A history is right if moments can be
//! chosen at which each write finds the value that it expects and each read returns the value at that moment
//! (linearizability). The search goes through the answers in the order of time and keeps all states in which the ref
//! can be, each with the unanswered operations that have taken effect already. The search is exact, but is given up at
//! [`STATES_MAX`]. It is usually quick, because few operations overlap and because every write, except for a deletion,
//! has a value of its own.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

/// The value of a ref: the number that its object id stands for, or [`NONE`].
pub(super) type Value = u64;

/// The value of a ref that does not exist.
pub(super) const NONE: Value = 0;

/// Maximum number of states of one ref that are visited for one answer. More occur if many writes have an unknown
/// outcome or overlap.
const STATES_MAX: usize = 100_000;

/// One operation on one ref. Writes that were refused are left out, because they must have no effect.
#[derive(Clone, Debug)]
pub(super) struct Operation {
    /// The number of the host.
    pub(super) host: usize,
    pub(super) client: usize,
    pub(super) what: What,
    /// The time of the question, in nanoseconds since the load began.
    pub(super) begun: u64,
    /// The time of the answer, in nanoseconds since the load began; `None` for a write that may have taken effect or
    /// may still do so.
    pub(super) ended: Option<u64>,
}

/// What an operation did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum What {
    Read(Value),
    Write { old: Value, new: Value },
}

/// What is wrong with a history.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Fault {
    /// An acknowledged write was lost: no order explains the writes and the last read that the last writer's host made
    /// after them, if there is one, even without the other reads. `host` is the one whose answer could not be
    /// explained.
    Lost { host: usize, what: What },
    /// No write was lost, but a host showed a value that the ref did not have at that time.
    Wrong { host: usize, value: Value },
    /// No write was lost, but somebody showed another value than the one that `host` then replaced, which was `value`.
    Contradicted { host: usize, value: Value },
    /// No write was lost, but a host showed a value this long after the write that replaced it was acknowledged.
    Late { host: usize, value: Value, by: Duration },
    /// No write was lost, but a client showed a value after it had shown the one that replaced it.
    Back { host: usize, value: Value },
    /// The search was given up: too many writes have an unknown outcome or overlap.
    Undecided,
}

/// Judges the operations on one ref, which does not exist at first.
pub(super) fn judge(history: &[Operation]) -> Result<(), Fault> {
    match unexplained(&writes_and_last_read(history)) {
        Err(Undecided) => return Err(Fault::Undecided),
        Ok(Some(operation)) => return Err(Fault::Lost { host: operation.host, what: operation.what }),
        Ok(None) => {}
    }
    match unexplained(&history.iter().collect::<Vec<_>>()) {
        Err(Undecided) => Err(Fault::Undecided),
        Ok(None) => Ok(()),
        Ok(Some(operation)) => Err(of_read(history, operation)),
    }
}

/// Returns the longest time after the acknowledgement of a write at which `host` still showed the value that the write
/// replaced, and the number of reads that showed such a value. Reads that found no ref are not counted.
pub(super) fn lateness(history: &[Operation], host: usize) -> (Duration, usize) {
    let replacements = history.iter().filter_map(|write| match write.what {
        What::Write { old, .. } if old != NONE => Some((old, write.ended?)),
        _ => None,
    });
    let replaced: HashMap<Value, u64> = replacements.collect();
    let mut late = (0, 0);
    for read in history.iter().filter(|operation| operation.host == host) {
        let What::Read(value) = read.what else { continue };
        if let Some(ended) = replaced.get(&value).filter(|ended| **ended < read.begun) {
            late = (late.0.max(read.begun - ended), late.1 + 1);
        }
    }
    (Duration::from_nanos(late.0), late.1)
}

/// Returns the writes and, of the host whose write was acknowledged last, the last read that began after that. This
/// host sees its own writes, however late it sees those of others.
fn writes_and_last_read(history: &[Operation]) -> Vec<&Operation> {
    let is_write = |operation: &&Operation| matches!(operation.what, What::Write { .. });
    let last_writer = history.iter().filter(is_write).filter(|write| write.ended.is_some()).max_by_key(|w| w.ended);
    let last_read = last_writer.and_then(|write| {
        let reads = history.iter().filter(|read| !is_write(read) && read.host == write.host);
        reads.filter(|read| Some(read.begun) > write.ended).max_by_key(|read| read.begun)
    });
    history.iter().filter(is_write).chain(last_read).collect()
}

struct Undecided;

/// Returns the first operation whose answer no order explains, or `None` if there is none.
fn unexplained<'a>(history: &[&'a Operation]) -> Result<Option<&'a Operation>, Undecided> {
    let mut events: Vec<(u64, bool, usize)> = Vec::new();
    for (at, operation) in history.iter().enumerate() {
        events.push((operation.begun, false, at));
        events.extend(operation.ended.map(|ended| (ended, true, at)));
    }
    events.sort_unstable();
    let mut open: Vec<usize> = Vec::new();
    let mut states: HashSet<State> = HashSet::from([(NONE, Vec::new())]);
    for (_, is_answer, at) in events {
        if !is_answer {
            open.push(at);
            states = states.into_iter().map(|state| with_reads(history, &[at], state)).collect();
            continue;
        }
        states = answered(history, &open, states, at)?;
        if states.is_empty() {
            return Ok(Some(history[at]));
        }
        open.retain(|other| *other != at);
    }
    Ok(None)
}

/// A value of the ref, and the indices of the unanswered operations that have taken effect, in ascending order.
type State = (Value, Vec<usize>);

/// Returns the state after those of the unanswered operations `open` that are reads of its value. It stands for all
/// states in which some of them have not taken effect yet, because a read changes nothing.
fn with_reads(history: &[&Operation], open: &[usize], (value, mut done): State) -> State {
    for &at in open.iter().filter(|at| history[**at].what == What::Read(value)) {
        if let Err(place) = done.binary_search(&at) {
            done.insert(place, at);
        }
    }
    (value, done)
}

/// Returns the states that can follow `states` and in which the operation `at`, which has just been answered, has taken
/// effect.
fn answered(
    history: &[&Operation],
    open: &[usize],
    states: HashSet<State>,
    at: usize,
) -> Result<HashSet<State>, Undecided> {
    let (mut seen, mut after) = (states.clone(), HashSet::new());
    let mut left: Vec<State> = states.into_iter().collect();
    while let Some((value, done)) = left.pop() {
        if let Ok(place) = done.binary_search(&at) {
            let mut done = done;
            done.remove(place);
            after.insert((value, done));
            continue;
        }
        for &next in open {
            let Err(place) = done.binary_search(&next) else { continue };
            let What::Write { old, new } = history[next].what else { continue };
            if old != value {
                continue;
            }
            let mut done = done.clone();
            done.insert(place, next);
            let state = with_reads(history, open, (new, done));
            if seen.insert(state.clone()) {
                left.push(state);
            }
        }
        if seen.len() > STATES_MAX {
            return Err(Undecided);
        }
    }
    Ok(after)
}

/// Returns what is wrong with an operation that no order explains although the writes alone can be explained.
fn of_read(history: &[Operation], operation: &Operation) -> Fault {
    let Operation { host, what, .. } = *operation;
    let value = match what {
        What::Read(value) | What::Write { old: value, .. } => value,
    };
    // Without the reads, this write could be explained, so it conflicts with one of them.
    if matches!(what, What::Write { .. }) {
        return Fault::Contradicted { host, value };
    }
    if went_back(history, operation, value) {
        return Fault::Back { host, value };
    }
    match late_by(history, operation) {
        Some(by) => Fault::Late { host, value, by },
        None => Fault::Wrong { host, value },
    }
}

/// Returns the time from the acknowledgement of the write that replaced the value of `read` to the beginning of `read`.
/// Returns `None` if no such write was acknowledged before the read began, or if `read` found no ref.
fn late_by(history: &[Operation], read: &Operation) -> Option<Duration> {
    let What::Read(value) = read.what else { return None };
    if value == NONE {
        return None;
    }
    let ended = replaced(history, value)?.ended?;
    (ended < read.begun).then(|| Duration::from_nanos(read.begun - ended))
}

/// Returns whether the client, before it read `value`, had already read what an acknowledged write put in place of
/// `value`. Returns `false` for [`NONE`].
fn went_back(history: &[Operation], read: &Operation, value: Value) -> bool {
    let Some(&Operation { what: What::Write { new, .. }, begun, .. }) = replaced(history, value) else { return false };
    // The ref also had no value before it was created.
    let is_replacement =
        |earlier: &Operation| earlier.what == What::Read(new) && (new != NONE || earlier.begun > begun);
    let is_own = |other: &&Operation| (other.host, other.client) == (read.host, read.client);
    value != NONE
        && history
            .iter()
            .filter(is_own)
            .any(|earlier| is_replacement(earlier) && earlier.ended.is_some_and(|ended| ended <= read.begun))
}

/// Returns the acknowledged write that replaced a value.
fn replaced(history: &[Operation], value: Value) -> Option<&Operation> {
    history.iter().find(|write| matches!(write.what, What::Write { old, .. } if old == value) && write.ended.is_some())
}

#[cfg(test)]
mod tests;
