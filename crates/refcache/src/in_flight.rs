//! Batches that are being written as loose files, one ref after the other. The views of this process must not see a
//! part of such a batch.
//!
//! While a batch is in flight, its refs are answered with their old values. A look-up of one ref checks for such
//! batches after it has read the disk. A query about several refs notes when it begins. At its end it takes all refs
//! that batches have changed since, and replaces their values by those from before.

use crate::loose_count::LooseCount;
use bstr::{BStr, BString};
use refdb::files::CommitObserver;
use refdb_types::ObjectId;
use refdb_vfs::Fs;
use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst},
    },
};

/// A ref's name, and its value before a batch; `None` if the batch creates the ref.
pub(crate) type OldValue = (BString, Option<ObjectId>);

/// The in-flight batches of one repository, which their writers announce and all its views check.
pub(crate) struct InFlightBatches {
    fs: Fs,
    /// The number of batches in flight, which each look-up in files reads.
    batches: AtomicUsize,
    /// Counts the beginnings and ends of batches, and all other writes of this process's views.
    steps: AtomicU64,
    state: Mutex<State>,
    /// The estimate of how many loose refs there are.
    pub(crate) loose: LooseCount,
}

#[derive(Default)]
struct State {
    /// The refs of batches in flight, each with its batch and its old value.
    refs: HashMap<BString, (u64, Option<ObjectId>)>,
    /// The batches that failed and could not be recovered, with the paths of their journal files. Such a batch stays in
    /// flight until its file is gone, or until another batch holds the lock of one of its refs.
    unrecovered: Vec<(u64, PathBuf)>,
    /// How many queries about several refs are being answered, by the step at which they began.
    spans: BTreeMap<u64, usize>,
    /// The old values of batches that ended during such queries, in the order of their last steps.
    ended: VecDeque<(u64, Vec<OldValue>)>,
    ended_refs: usize,
    /// Batches that ended at this step or before may be missing in `ended` although a query needs them.
    forgotten: u64,
}

/// The limit on refs in `ended`. A query that is so slow that old values which it needs were dropped is repeated.
const ENDED_MAX: usize = 1 << 16;

impl InFlightBatches {
    pub(crate) fn new(fs: &Fs) -> Self {
        InFlightBatches {
            fs: fs.clone(),
            batches: AtomicUsize::new(0),
            steps: AtomicU64::new(1),
            state: Mutex::default(),
            loose: LooseCount::default(),
        }
    }

    /// A number that grows whenever a batch begins or ends and whenever a view of this process has written refs in
    /// another way. A view uses what it learnt before the last step only after checking the disk.
    #[inline]
    pub(crate) fn steps(&self) -> u64 {
        self.steps.load(SeqCst)
    }

    /// Makes all views of the repository check the disk again, because one of them has written refs.
    pub(crate) fn wrote(&self) {
        self.steps.fetch_add(1, SeqCst);
    }

    /// The old value of a ref that a batch in flight is changing; the outer `None` if no batch is changing it.
    ///
    /// Must be called after the ref was read from disk: a batch is announced before its first change, and ends after
    /// its last one.
    #[inline]
    pub(crate) fn before(&self, name: &BStr) -> Option<Option<ObjectId>> {
        if self.batches.load(SeqCst) == 0 { None } else { self.look_up(name) }
    }

    #[cold]
    fn look_up(&self, name: &BStr) -> Option<Option<ObjectId>> {
        let mut state = self.state();
        self.end_settled(&mut state);
        state.refs.get(name).map(|(_, old)| *old)
    }

    /// Begins a query about several refs, before any of them is read.
    pub(crate) fn begin_span(&self) -> Span<'_> {
        let mut state = self.state();
        let began = self.steps();
        *state.spans.entry(began).or_default() += 1;
        Span { in_flight: self, began }
    }

    /// Ends the failed batches whose journal files are gone: recovery removes or renames the file.
    fn end_settled(&self, state: &mut State) {
        let is_gone = |record: &Path| matches!(self.fs.find_link(record), Ok(None));
        let gone: Vec<u64> =
            state.unrecovered.iter().filter(|(_, record)| is_gone(record)).map(|(batch, _)| *batch).collect();
        gone.into_iter().for_each(|batch| self.end_in(state, batch));
    }

    fn end_in(&self, state: &mut State, batch: u64) {
        let refs: Vec<OldValue> =
            state.refs.extract_if(|_, (of, _)| *of == batch).map(|(name, (_, old))| (name, old)).collect();
        state.unrecovered.retain(|(of, _)| *of != batch);
        if refs.is_empty() {
            return;
        }
        let step = self.steps.fetch_add(1, SeqCst) + 1;
        if !state.spans.is_empty() {
            state.ended_refs += refs.len();
            state.ended.push_back((step, refs));
            while state.ended_refs > ENDED_MAX {
                let Some((step, refs)) = state.ended.pop_front() else { break };
                (state.ended_refs, state.forgotten) = (state.ended_refs - refs.len(), step);
            }
        }
        let before = self.batches.fetch_sub(1, SeqCst);
        assert!(before > 0, "a batch ends once");
    }

    fn is_idle(&self) -> bool {
        self.batches.load(SeqCst) == 0
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CommitObserver for InFlightBatches {
    fn begin(&self, refs: Vec<OldValue>) -> u64 {
        let mut state = self.state();
        // The writer holds the locks of its refs, so that earlier batches of these refs have been recovered.
        let earlier: Vec<u64> =
            refs.iter().filter_map(|(name, _)| state.refs.get(name)).map(|(batch, _)| *batch).collect();
        earlier.into_iter().for_each(|batch| self.end_in(&mut state, batch));
        let batch = self.steps.fetch_add(1, SeqCst) + 1;
        state.refs.extend(refs.into_iter().map(|(name, old)| (name, (batch, old))));
        self.batches.fetch_add(1, SeqCst);
        batch
    }

    fn end(&self, batch: u64, unrecovered: Option<&Path>) {
        let mut state = self.state();
        match unrecovered {
            None => self.end_in(&mut state, batch),
            Some(record) => state.unrecovered.push((batch, record.to_owned())),
        }
    }
}

/// A query about several refs. It begins before the first of them is read.
pub(crate) struct Span<'u> {
    in_flight: &'u InFlightBatches,
    began: u64,
}

impl Span<'_> {
    /// Returns whether it is certain that no batch was in flight at any time since the query began. Other writes make
    /// this uncertain as well.
    ///
    /// The number of batches is read before that of the steps. If a batch has ended by the time of the first read, it
    /// has taken its last step before, which the second read shows. In the other order, a batch that ends between the
    /// two reads would be missed.
    fn is_undisturbed(&self) -> bool {
        let in_flight = self.in_flight;
        if refdb_vfs::planted("refcache-span") {
            let is_same_step = in_flight.steps() == self.began;
            std::thread::sleep(std::time::Duration::from_millis(1));
            return is_same_step && in_flight.is_idle();
        }
        in_flight.is_idle() && in_flight.steps() == self.began
    }

    /// The old values, in order of name, of all refs that batches have changed since the query began or are changing
    /// now. `None` if some old values are no longer known, so that the query has to be repeated.
    pub(crate) fn old_values(self) -> Option<Vec<OldValue>> {
        let in_flight = self.in_flight;
        if self.is_undisturbed() {
            return Some(Vec::new());
        }
        let mut state = in_flight.state();
        in_flight.end_settled(&mut state);
        if state.forgotten > self.began {
            return None;
        }
        let mut back: BTreeMap<BString, Option<ObjectId>> = BTreeMap::new();
        let ended = state.ended.iter().filter(|(step, _)| *step > self.began).flat_map(|(_, refs)| refs);
        let now = state.refs.iter().map(|(name, (_, old))| (name, old));
        // If several batches changed a ref, the value from before the first one is returned.
        for (name, old) in ended.map(|(name, old)| (name, old)).chain(now) {
            back.entry(name.clone()).or_insert(*old);
        }
        Some(back.into_iter().collect())
    }
}

impl Drop for Span<'_> {
    fn drop(&mut self) {
        let mut state = self.in_flight.state();
        if let Some(same) = state.spans.get_mut(&self.began) {
            *same -= 1;
            if *same == 0 {
                state.spans.remove(&self.began);
            }
        }
        let oldest = state.spans.keys().next().copied().unwrap_or(u64::MAX);
        while let Some((_, refs)) = state.ended.pop_front_if(|(step, _)| *step <= oldest) {
            state.ended_refs -= refs.len();
        }
        debug_assert!(!state.ended.is_empty() || state.ended_refs == 0, "refs that are kept are counted");
    }
}

/// The in-flight batches of each repository of a process, by the inode of its folder, to which several paths may lead.
#[derive(Default)]
pub(crate) struct Repositories(Mutex<HashMap<(u64, u64), Arc<InFlightBatches>>>);

/// From this number of remembered repositories on, each time the number is a power of two, those that neither a view
/// nor the thread that packs loose refs uses are removed, except for those with a batch in flight.
const KEPT: usize = 64;

impl Repositories {
    pub(crate) fn of(&self, inode: (u64, u64), fs: &Fs) -> Arc<InFlightBatches> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= KEPT && known.len().is_power_of_two() {
            known.retain(|_, in_flight| Arc::strong_count(in_flight) > 1 || !in_flight.is_idle());
        }
        let in_flight = known.entry(inode).or_insert_with(|| Arc::new(InFlightBatches::new(fs)));
        // While no view had the repository open, another repository may have got the inode; its loose refs have not
        // been counted.
        if Arc::strong_count(in_flight) == 1 && in_flight.is_idle() {
            *in_flight = Arc::new(InFlightBatches::new(fs));
        }
        Arc::clone(in_flight)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bstr::ByteSlice;
    use refdb_types::HashKind;

    fn id(byte: u8) -> ObjectId {
        ObjectId::from_bytes(HashKind::Sha1, &[byte; 20]).unwrap()
    }

    fn refs(names: &[&str], old: Option<u8>) -> Vec<OldValue> {
        names.iter().map(|name| (BString::from(*name), old.map(id))).collect()
    }

    #[test]
    fn a_repository_that_nobody_has_open_is_not_taken_for_the_next_in_its_place() {
        let (all, fs) = (Repositories::default(), Fs::real());
        let count = |in_flight: &InFlightBatches| {
            assert!(in_flight.loose.wrote(2), "at first packing is due");
            in_flight.loose.folded(2, 0, 1000);
            in_flight.loose.release();
        };
        let first = all.of((1, 2), &fs);
        count(&first);
        assert!(!all.of((1, 2), &fs).loose.wrote(2), "it is the same while it is open");
        drop(first);
        count(&all.of((1, 2), &fs));
    }

    #[test]
    fn a_question_gets_back_what_was_before_the_first_batch_since_it_began() {
        let all = InFlightBatches::new(&Fs::real());
        let ended = all.begin(refs(&["a", "b"], Some(1)));
        assert_eq!(all.before(b"a".as_bstr()), Some(Some(id(1))));
        all.end(ended, None);
        assert_eq!(all.before(b"a".as_bstr()), None);
        let (early, none) = (all.begin_span(), all.begin_span());
        assert_eq!(none.old_values(), Some(Vec::new()));
        let second = all.begin(refs(&["a", "b"], Some(2)));
        let between = all.begin_span();
        all.end(second, None);
        let late = all.begin_span();
        let third = all.begin(refs(&["b", "c"], Some(3)));
        let old = [refs(&["a", "b"], Some(2)), refs(&["c"], Some(3))].concat();
        assert_eq!((early.old_values(), between.old_values()), (Some(old.clone()), Some(old)));
        assert_eq!(late.old_values(), Some(refs(&["b", "c"], Some(3))));
        all.end(third, None);
        let state = all.state();
        assert!(state.ended.is_empty() && state.spans.is_empty() && state.refs.is_empty() && state.ended_refs == 0);
    }

    /// A query reads two numbers at its end, and the batch may end between these reads.
    #[test]
    fn a_batch_that_ends_while_a_question_ends_is_not_missed_by_it() {
        const ROUNDS: usize = 500;
        let all = InFlightBatches::new(&Fs::real());
        let [begun, asked, ended, answered] = [const { AtomicUsize::new(0) }; 4];
        let wait = |number: &AtomicUsize, round| {
            while number.load(SeqCst) < round {
                std::thread::yield_now();
            }
        };
        let missed = std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in (1..=ROUNDS).take_while(|round| answered.load(SeqCst) < *round) {
                    let batch = all.begin(refs(&["a"], Some(1)));
                    begun.store(round, SeqCst);
                    wait(&asked, round);
                    // Ends a little earlier or later than the query.
                    (0..round % 64).for_each(|_| std::hint::spin_loop());
                    all.end(batch, None);
                    ended.store(round, SeqCst);
                    wait(&answered, round);
                }
            });
            let is_missed = |round: &usize| {
                wait(&begun, *round);
                let question = all.begin_span();
                asked.store(*round, SeqCst);
                (0..round / 64 % 64).for_each(|_| std::hint::spin_loop());
                let old = question.old_values();
                wait(&ended, *round);
                answered.store(*round, SeqCst);
                old != Some(refs(&["a"], Some(1)))
            };
            let missed = (1..=ROUNDS).find(is_missed);
            answered.store(ROUNDS, SeqCst);
            asked.store(ROUNDS, SeqCst);
            missed
        });
        assert_eq!(missed, None, "no round misses its batch");
    }

    #[test]
    fn a_batch_that_could_not_be_settled_is_under_way_until_its_record_is_gone() {
        let all = InFlightBatches::new(&Fs::real());
        let record = tempfile::NamedTempFile::new().unwrap();
        let batch = all.begin(refs(&["a", "b"], None));
        all.end(batch, Some(record.path()));
        let question = all.begin_span();
        assert_eq!(all.before(b"b".as_bstr()), Some(None));
        drop(record);
        assert_eq!((all.before(b"b".as_bstr()), all.is_idle()), (None, true));
        assert_eq!(question.old_values(), Some(refs(&["a", "b"], None)), "it may have seen a part");
        // A failed batch whose journal entry stays is in flight until another batch with one of its refs begins.
        let record = tempfile::NamedTempFile::new().unwrap();
        let batch = all.begin(refs(&["a", "b"], None));
        all.end(batch, Some(record.path()));
        let next = all.begin(refs(&["b", "c"], Some(1)));
        assert_eq!((all.before(b"a".as_bstr()), all.before(b"b".as_bstr())), (None, Some(Some(id(1)))));
        all.end(next, None);
        assert!(all.is_idle());
    }

    #[test]
    fn a_question_that_is_too_slow_for_what_is_kept_is_asked_again() {
        let all = InFlightBatches::new(&Fs::real());
        let slow = all.begin_span();
        let name = |at: usize| BString::from(format!("refs/{at}"));
        for _ in 0..10 * ENDED_MAX / 1000 {
            let batch = all.begin((0..1000).map(|at| (name(at), None)).collect());
            all.end(batch, None);
        }
        assert!(all.state().ended_refs <= ENDED_MAX);
        assert_eq!(slow.old_values(), None);
        assert_eq!((all.begin_span().old_values(), all.state().ended_refs), (Some(Vec::new()), 0));
    }
}
