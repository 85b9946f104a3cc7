//! Small batches that are becoming loose files, one ref after the other. No view of this process sees a part of one.
//!
//! While a batch is under way its refs are answered with what they were before. A question about one ref looks here after
//! it looked at the disk. A question about several takes down when it begins, and sets back whatever batches changed since.

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

/// What a ref held before a batch; `None` if there was none.
pub(crate) type Before = (BString, Option<ObjectId>);

/// The batches of one repository. Their writers tell of them, and all views of it ask.
pub(crate) struct UnderWay {
    fs: Fs,
    /// How many are under way: looked at by every question.
    batches: AtomicUsize,
    /// Counts their beginnings and ends, and all other writes.
    steps: AtomicU64,
    state: Mutex<State>,
    /// What they and others leave to be folded.
    pub(crate) loose: LooseCount,
}

#[derive(Default)]
struct State {
    /// The refs of batches under way: of which batch, and their old values.
    refs: HashMap<BString, (u64, Option<ObjectId>)>,
    /// The records of batches that could not be settled. They are under way as long as those are there.
    unsettled: Vec<(u64, PathBuf)>,
    /// The questions that look at several refs, by the step at which they began.
    questions: BTreeMap<u64, usize>,
    /// What was before batches that ended while such questions looked, by the step of the end.
    over: VecDeque<(u64, Vec<Before>)>,
    over_refs: usize,
    /// Of ends up to this step some were forgotten.
    forgotten: u64,
}

/// More refs of batches that ended are not kept for slow questions: those look again.
const OVER_MAX: usize = 1 << 16;

impl UnderWay {
    pub(crate) fn new(fs: &Fs) -> Self {
        UnderWay {
            fs: fs.clone(),
            batches: AtomicUsize::new(0),
            steps: AtomicU64::new(1),
            state: Mutex::default(),
            loose: LooseCount::default(),
        }
    }

    /// Grows whenever a batch begins or ends, and when refs were written otherwise. What was known before is not believed
    /// without a look.
    #[inline]
    pub(crate) fn steps(&self) -> u64 {
        self.steps.load(SeqCst)
    }

    /// Has all views of the repository look at the disk again, since one of them has written refs.
    pub(crate) fn wrote(&self) {
        self.steps.fetch_add(1, SeqCst);
    }

    /// What the ref was before a batch that is under way. To be asked after the disk was. What a batch changed
    /// there is known here until the batch is over.
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

    /// Begins a question about several refs.
    pub(crate) fn question(&self) -> Question<'_> {
        let mut state = self.state();
        let began = self.steps();
        *state.questions.entry(began).or_default() += 1;
        Question { under_way: self, began }
    }

    /// Those that were settled by someone else are over.
    fn end_settled(&self, state: &mut State) {
        let is_gone = |record: &Path| matches!(self.fs.find_link(record), Ok(None));
        let gone: Vec<u64> =
            state.unsettled.iter().filter(|(_, record)| is_gone(record)).map(|(batch, _)| *batch).collect();
        gone.into_iter().for_each(|batch| self.end_in(state, batch));
    }

    fn end_in(&self, state: &mut State, batch: u64) {
        let refs: Vec<Before> =
            state.refs.extract_if(|_, (of, _)| *of == batch).map(|(name, (_, old))| (name, old)).collect();
        state.unsettled.retain(|(of, _)| *of != batch);
        if refs.is_empty() {
            return;
        }
        let step = self.steps.fetch_add(1, SeqCst) + 1;
        if !state.questions.is_empty() {
            state.over_refs += refs.len();
            state.over.push_back((step, refs));
            while state.over_refs > OVER_MAX {
                let Some((step, refs)) = state.over.pop_front() else { break };
                (state.over_refs, state.forgotten) = (state.over_refs - refs.len(), step);
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

impl CommitObserver for UnderWay {
    fn begin(&self, refs: Vec<Before>) -> u64 {
        let mut state = self.state();
        // Who has the lock of a ref has it after its last batch was settled.
        let earlier: Vec<u64> =
            refs.iter().filter_map(|(name, _)| state.refs.get(name)).map(|(batch, _)| *batch).collect();
        earlier.into_iter().for_each(|batch| self.end_in(&mut state, batch));
        let batch = self.steps.fetch_add(1, SeqCst) + 1;
        state.refs.extend(refs.into_iter().map(|(name, old)| (name, (batch, old))));
        self.batches.fetch_add(1, SeqCst);
        batch
    }

    fn end(&self, batch: u64, unsettled: Option<&Path>) {
        let mut state = self.state();
        match unsettled {
            None => self.end_in(&mut state, batch),
            Some(record) => state.unsettled.push((batch, record.to_owned())),
        }
    }
}

/// A question about several refs, while it looks at them.
pub(crate) struct Question<'u> {
    under_way: &'u UnderWay,
    began: u64,
}

impl Question<'_> {
    /// What the refs were, in order of name, that batches have changed since the question began, or may be changing. `None`
    /// if that is not known any more.
    pub(crate) fn set_back(self) -> Option<Vec<Before>> {
        let under_way = self.under_way;
        if under_way.steps() == self.began && under_way.is_idle() {
            return Some(Vec::new());
        }
        let mut state = under_way.state();
        under_way.end_settled(&mut state);
        if state.forgotten > self.began {
            return None;
        }
        let mut back: BTreeMap<BString, Option<ObjectId>> = BTreeMap::new();
        let over = state.over.iter().filter(|(step, _)| *step > self.began).flat_map(|(_, refs)| refs);
        let now = state.refs.iter().map(|(name, (_, old))| (name, old));
        // Of several batches the first counts.
        for (name, old) in over.map(|(name, old)| (name, old)).chain(now) {
            back.entry(name.clone()).or_insert(*old);
        }
        Some(back.into_iter().collect())
    }
}

impl Drop for Question<'_> {
    fn drop(&mut self) {
        let mut state = self.under_way.state();
        if let Some(same) = state.questions.get_mut(&self.began) {
            *same -= 1;
            if *same == 0 {
                state.questions.remove(&self.began);
            }
        }
        let oldest = state.questions.keys().next().copied().unwrap_or(u64::MAX);
        while let Some((_, refs)) = state.over.pop_front_if(|(step, _)| *step <= oldest) {
            state.over_refs -= refs.len();
        }
        debug_assert!(!state.over.is_empty() || state.over_refs == 0, "refs that are kept are counted");
    }
}

/// The batches under way in each repository of a process, by the inode of its folder. Several paths may lead there.
#[derive(Default)]
pub(crate) struct Repositories(Mutex<HashMap<(u64, u64), Arc<UnderWay>>>);

/// From this number on, those are looked for that nobody has open.
const KEPT: usize = 64;

impl Repositories {
    pub(crate) fn of(&self, inode: (u64, u64), fs: &Fs) -> Arc<UnderWay> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= KEPT && known.len().is_power_of_two() {
            known.retain(|_, under_way| Arc::strong_count(under_way) > 1 || !under_way.is_idle());
        }
        let under_way = known.entry(inode).or_insert_with(|| Arc::new(UnderWay::new(fs)));
        // While nobody has it open another repository may have got its place, whose loose refs nobody has counted.
        if Arc::strong_count(under_way) == 1 && under_way.is_idle() {
            *under_way = Arc::new(UnderWay::new(fs));
        }
        Arc::clone(under_way)
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

    fn refs(names: &[&str], old: Option<u8>) -> Vec<Before> {
        names.iter().map(|name| (BString::from(*name), old.map(id))).collect()
    }

    #[test]
    fn a_repository_that_nobody_has_open_is_not_taken_for_the_next_in_its_place() {
        let (all, fs) = (Repositories::default(), Fs::real());
        let count = |under_way: &UnderWay| {
            assert!(under_way.loose.wrote(2), "the first batch has a fold look");
            under_way.loose.folded(2, 0, 1000);
            under_way.loose.release();
        };
        let first = all.of((1, 2), &fs);
        count(&first);
        assert!(!all.of((1, 2), &fs).loose.wrote(2), "it is the same while it is open");
        drop(first);
        count(&all.of((1, 2), &fs));
    }

    #[test]
    fn a_question_gets_back_what_was_before_the_first_batch_since_it_began() {
        let all = UnderWay::new(&Fs::real());
        let ended = all.begin(refs(&["a", "b"], Some(1)));
        assert_eq!(all.before(b"a".as_bstr()), Some(Some(id(1))));
        all.end(ended, None);
        assert_eq!(all.before(b"a".as_bstr()), None);
        let (early, none) = (all.question(), all.question());
        assert_eq!(none.set_back(), Some(Vec::new()));
        let second = all.begin(refs(&["a", "b"], Some(2)));
        let between = all.question();
        all.end(second, None);
        let late = all.question();
        let third = all.begin(refs(&["b", "c"], Some(3)));
        let old = [refs(&["a", "b"], Some(2)), refs(&["c"], Some(3))].concat();
        assert_eq!((early.set_back(), between.set_back()), (Some(old.clone()), Some(old)));
        assert_eq!(late.set_back(), Some(refs(&["b", "c"], Some(3))));
        all.end(third, None);
        let state = all.state();
        assert!(state.over.is_empty() && state.questions.is_empty() && state.refs.is_empty() && state.over_refs == 0);
    }

    #[test]
    fn a_batch_that_could_not_be_settled_is_under_way_until_its_record_is_gone() {
        let all = UnderWay::new(&Fs::real());
        let record = tempfile::NamedTempFile::new().unwrap();
        let batch = all.begin(refs(&["a", "b"], None));
        all.end(batch, Some(record.path()));
        let question = all.question();
        assert_eq!(all.before(b"b".as_bstr()), Some(None));
        drop(record);
        assert_eq!((all.before(b"b".as_bstr()), all.is_idle()), (None, true));
        assert_eq!(question.set_back(), Some(refs(&["a", "b"], None)), "it may have seen a part");
        // Or until someone has the lock of one of its refs.
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
        let all = UnderWay::new(&Fs::real());
        let slow = all.question();
        let name = |at: usize| BString::from(format!("refs/{at}"));
        for _ in 0..10 * OVER_MAX / 1000 {
            let batch = all.begin((0..1000).map(|at| (name(at), None)).collect());
            all.end(batch, None);
        }
        assert!(all.state().over_refs <= OVER_MAX);
        assert_eq!(slow.set_back(), None);
        assert_eq!((all.question().set_back(), all.state().over_refs), (Some(Vec::new()), 0));
    }
}
