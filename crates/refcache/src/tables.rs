//! Reads refs from the store's own stack of reftables, in which writes through that store appear at once.

use crate::{
    Found, Result, Row, Storage, Trust, TrustSettings,
    answer::Answer,
    found::Pointing,
    in_flight::InFlightBatches,
    listing::Source,
    memory::{Memory, Part},
    plan::{Plan, Range},
    reader::ReadRefs,
    row::OwnRow,
    stats::{Counters, count},
};
use bstr::{BStr, BString, ByteSlice};
use refdb::{
    RefName, Store, Target, TargetView, backend::Peeled, files::Charge, reftable::ReftableBackend,
    transaction::ObjectCheck,
};
use refdb_types::{ObjectId, is_pseudo};
use reftable::{
    MergedRefCursor, RefRecord, RefValue,
    stack::{Snapshot, Stack},
};
use std::{
    ops::ControlFlow,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Instant,
};

/// Reads refs from a stack of reftables, which is current as long as its list of tables is the same.
pub(crate) struct TablesReader {
    stack: Stack,
    trust: TrustSettings,
    memory: Arc<Memory>,
    counters: Arc<Counters>,
    /// A number that no other reader has.
    owner: u64,
    /// Counts a step whenever a view of the repository, this one included, has written.
    in_flight: Arc<InFlightBatches>,
    belief: Mutex<Belief>,
    /// The sequence number of the latest snapshot that was seen.
    seen: AtomicU64,
    /// The number that is added to the sequence number of this reader's stack, so that the sum continues the sequence
    /// of the earlier readers of the same folder.
    before: u64,
    /// Counts the memory of the tables of the latest snapshot.
    charge: Mutex<Charge>,
}

/// When the list was last checked. The time is valid only as long as neither the epoch nor the steps have changed.
#[derive(Default)]
struct Belief {
    epoch: u64,
    /// The steps of all views of the repository when the list was checked.
    steps: u64,
    looked: Option<Instant>,
}

impl TablesReader {
    pub(crate) fn new(
        backend: &ReftableBackend,
        trust: TrustSettings,
        memory: &Arc<Memory>,
        counters: &Arc<Counters>,
        in_flight: &Arc<InFlightBatches>,
    ) -> Result<Self> {
        let stack = backend.stack()?;
        let snapshot = stack.snapshot();
        counters.forget_files();
        Ok(TablesReader {
            seen: AtomicU64::new(snapshot.sequence()),
            before: 0,
            charge: Mutex::new(memory.pages.charge(bytes_of(&snapshot))),
            stack,
            trust,
            counters: Arc::clone(counters),
            owner: memory.owner(),
            memory: Arc::clone(memory),
            in_flight: Arc::clone(in_flight),
            belief: Mutex::default(),
        })
    }

    /// Continues the sequence of the reader that this one replaces in the same folder, and returns its position in it.
    /// If the list has other tables now, the sequence grows.
    pub(crate) fn follow(&mut self, old: &TablesReader) -> u64 {
        let (now, before) = (self.stack.snapshot(), old.stack.snapshot());
        let is_changed =
            !now.tables().iter().map(|listed| &listed.name).eq(before.tables().iter().map(|listed| &listed.name));
        let position = old.sequence_of(&before);
        self.before = (position + u64::from(is_changed)).saturating_sub(now.sequence());
        position
    }

    /// The snapshot from which a query is answered: the one at hand if the list was checked a short enough time ago,
    /// else the one that [`look`](Self::look) returns.
    fn fresh(&self) -> Result<Answer<Snapshot>> {
        let Some(believe) = self.trust.believe else { return self.look() };
        let (begun, steps) = (Instant::now(), self.in_flight.steps());
        let epoch = {
            let belief = self.belief();
            if belief.steps == steps && belief.looked.is_some_and(|looked| begun.duration_since(looked) < believe) {
                // The stack already has the commits through this store.
                return Ok(Answer::Validated(self.stack.snapshot()));
            }
            belief.epoch
        };
        let seen = self.look()?;
        let mut belief = self.belief();
        debug_assert!(belief.epoch >= epoch, "the epoch only grows: {epoch}");
        if belief.epoch == epoch && belief.steps <= steps {
            belief.looked = belief.looked.filter(|_| belief.steps == steps).max(Some(begun));
            belief.steps = steps;
        }
        Ok(seen)
    }

    /// Returns the present snapshot, after the list of tables was checked by its attributes or, if those are not
    /// trusted, read again. The snapshot has to be revalidated if the list has changed, is empty or is missing, since
    /// the folder may then hold another repository.
    fn look(&self) -> Result<Answer<Snapshot>> {
        let fresh = match self.trust.tables_list {
            Trust::Always | Trust::AfterOpen => self.stack.refresh()?,
            Trust::Never => self.stack.reload()?,
        };
        let is_new = fresh.sequence() != self.seen.load(Relaxed);
        if is_new {
            self.see(&fresh);
            count(&self.counters.loads, 1);
        }
        // An empty stack may be what a converted repository left behind: a stack in use has at least HEAD, which git
        // puts into every new one.
        let needs_revalidation = is_new || fresh.tables().is_empty();
        Ok(Answer::new(fresh, needs_revalidation))
    }

    /// Records that this snapshot was seen.
    #[cold]
    fn see(&self, snapshot: &Snapshot) {
        self.seen.store(snapshot.sequence(), Relaxed);
        self.charge.lock().unwrap_or_else(PoisonError::into_inner).set(bytes_of(snapshot));
    }

    fn belief(&self) -> MutexGuard<'_, Belief> {
        self.belief.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get_in(&self, snapshot: &Snapshot, name: &BStr) -> Result<Option<Found>> {
        let state = snapshot.sequence();
        if let Some(found) = self.memory.direct_mapped.get(self.owner, state, name) {
            count(&self.counters.hits, 1);
            return Ok(found);
        }
        let mut has_read = false;
        let kept = snapshot.merged().get_noting(name, &mut has_read, |record| found(name, &record));
        count(if has_read { &self.counters.misses } else { &self.counters.hits }, 1);
        let kept = kept?.transpose()?;
        if !has_read {
            self.memory.direct_mapped.put(self.owner, state, name, &kept);
        }
        Ok(kept)
    }

    fn sequence_of(&self, snapshot: &Snapshot) -> u64 {
        self.before + snapshot.sequence()
    }
}

impl ReadRefs for TablesReader {
    fn get(&self, store: &Store, name: &BStr) -> Result<Answer<Option<Found>>> {
        if is_pseudo(name) {
            return Ok(Answer::NeedsRevalidation(store.get(name)?.map(Found::of_other_place)));
        }
        self.fresh()?.try_map(|snapshot| self.get_in(&snapshot, name))
    }

    fn get_many(&self, store: &Store, names: &[&BStr]) -> Result<Answer<Vec<Option<Found>>>> {
        debug_assert!(names.is_sorted(), "tables are read in order of name");
        let mut needs_revalidation = false;
        let snapshot = self.fresh()?.into_part(&mut needs_revalidation);
        let mut answers = Vec::with_capacity(names.len());
        for name in names {
            answers.push(if is_pseudo(name) {
                needs_revalidation = true;
                store.get(name)?.map(Found::of_other_place)
            } else {
                self.get_in(&snapshot, name)?
            });
        }
        Ok(Answer::new(answers, needs_revalidation))
    }

    fn list(&self, _: &Plan) -> Result<Answer<Box<dyn Source>>> {
        let source = |snapshot: Snapshot| {
            let (cursor, state) = (snapshot.merged().refs(), snapshot.sequence());
            Box::new(TablesSource { cursor, state, end: None }) as Box<dyn Source>
        };
        Ok(self.fresh()?.map(source))
    }

    fn pointing_at(&self, ids: &[ObjectId], most: usize, _: &dyn ObjectCheck) -> Result<Answer<Pointing>> {
        let of_each = |snapshot: Snapshot| {
            let merged = snapshot.merged();
            let names = |id: &ObjectId| -> Result<_> {
                let pointing = merged.few_refs_pointing_at(id, most)?;
                let Some(mut pointing) = pointing else { return Ok(None) };
                // Root refs such as ORIG_HEAD are in the tables, too.
                pointing.retain(|pointing| pointing.name.starts_with(b"refs/"));
                Ok(Some((*id, pointing.into_iter().map(|pointing| pointing.name).collect())))
            };
            ids.iter().map(names).filter_map(Result::transpose).collect()
        };
        self.fresh()?.try_map(of_each)
    }

    fn look_for_broken(&self) -> Result<()> {
        Ok(())
    }

    fn questionable(&self, _: &Store) -> Result<Vec<BString>> {
        // Blocks need no comparison here, because a verification also compares the view's listing, which reads through
        // the cached blocks.
        Ok(self.memory.direct_mapped.of(self.owner))
    }

    fn sequence(&self) -> u64 {
        self.sequence_of(&self.stack.snapshot())
    }

    fn owner(&self) -> u64 {
        self.owner
    }

    fn in_flight(&self) -> Option<&Arc<InFlightBatches>> {
        None
    }

    fn invalidate(&self) {
        // Commits through this store do not count as found changes.
        self.see(&self.stack.snapshot());
        let mut belief = self.belief();
        belief.epoch += 1;
        belief.looked = None;
    }

    fn wrote(&self) {
        self.invalidate();
        self.in_flight.wrote();
    }

    fn bytes(&self) -> usize {
        self.charge.lock().unwrap_or_else(PoisonError::into_inner).bytes()
    }

    fn release(&self, _: Part) {
        // Blocks are counted and released by the cache that all views share.
    }
}

/// The rows of a listing of reftables, one range after the other.
struct TablesSource {
    cursor: MergedRefCursor,
    /// The sequence number of the stack.
    state: u64,
    end: Option<BString>,
}

impl Source for TablesSource {
    fn enter(&mut self, range: &Range) -> Result<()> {
        debug_assert!(range.end.as_ref().is_none_or(|end| range.start < *end), "a range has room: {range:?}");
        self.end = range.end.clone();
        Ok(self.cursor.seek(&range.start)?)
    }

    fn advance(&mut self) -> Result<bool> {
        let end = self.end.as_ref().map(|end| end.as_bstr());
        let Some(record) = self.cursor.next()? else { return Ok(false) };
        let is_in_range = end.is_none_or(|end| record.name < end);
        if !is_in_range {
            self.cursor.check_ahead()?;
        }
        Ok(is_in_range)
    }

    fn current(&self) -> Result<Option<Row<'_>>> {
        Ok(self.cursor.current().and_then(row))
    }

    fn each(&mut self, show: &mut dyn FnMut(&Row<'_>) -> ControlFlow<()>) -> Result<bool> {
        let end = self.end.as_ref().map(|end| end.as_bstr());
        let mut is_behind = false;
        let flow = self.cursor.for_each(|entry| {
            is_behind = end.is_some_and(|end| entry.name() >= end);
            if is_behind {
                return ControlFlow::Break(());
            }
            row(entry.record()).map_or(ControlFlow::Continue(()), |row| show(&row))
        })?;
        if is_behind {
            self.cursor.check_ahead()?;
        }
        Ok(flow.is_break() && !is_behind)
    }

    fn state(&self) -> (u64, &[OwnRow]) {
        (self.state, &[])
    }
}

#[inline]
fn row(record: RefRecord<'_>) -> Option<Row<'_>> {
    let (target, peeled) = match record.value {
        RefValue::Direct(id) => (TargetView::Direct(id), Peeled::NotTag),
        RefValue::Peeled { target, peeled } => (TargetView::Direct(target), Peeled::To(peeled)),
        RefValue::Symbolic(target) => (TargetView::Symbolic(target), Peeled::NotTag),
        RefValue::Deletion => return None,
    };
    let (name, update_index) = (record.name, record.update_index);
    Some(Row { name, target, peeled, storage: Storage::Table, update_index })
}

/// Bytes of memory that the tables of a snapshot take, besides blocks.
fn bytes_of(snapshot: &Snapshot) -> usize {
    snapshot.tables().iter().map(|listed| listed.table.held_bytes()).sum()
}

fn found(name: &BStr, record: &RefRecord<'_>) -> Result<Found> {
    let (target, peeled) = match record.value {
        RefValue::Direct(id) => (Target::Direct(id), Peeled::NotTag),
        RefValue::Peeled { target, peeled } => (Target::Direct(target), Peeled::To(peeled)),
        RefValue::Symbolic(target) => match RefName::new_safe(target.to_vec()) {
            Some(target) => (Target::Symbolic(target), Peeled::NotTag),
            None => {
                let (name, target) = (name.to_owned(), target.to_owned());
                return Err(refdb::Error::BadTarget { name, target }.into());
            }
        },
        RefValue::Deletion => unreachable!("'{name}' was read although it is deleted"),
    };
    Ok(Found { target, peeled, storage: Storage::Table, update_index: record.update_index })
}
