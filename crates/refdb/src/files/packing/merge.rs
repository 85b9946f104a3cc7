//! Moves loose refs into packed-refs beside writers, which wait for it no longer than for each other.
//!
//! The new file is made before the lock of packed-refs is taken. It is used only if, under the lock, the old file is
//! still the same and the loose files still exist. Loose files are then removed in portions, and the lock is released
//! in between.

use crate::Result;
use crate::files::{
    packed::cache::PackedFile,
    packing::{
        background::BackgroundPacked,
        bulk,
        optimize::{self, Loose},
        prune,
        write::{self, NewPacked, PackedEdit},
    },
    store::Store,
};
use bstr::{BStr, ByteSlice};
use refdb_types::ObjectId;
use refdb_vfs::{Lock, LockTimeout};
use std::{
    borrow::Cow,
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant},
};

/// How many times a new packed-refs is made without the lock, although a change of the present one may make it useless.
const ASIDE_MAX: usize = 3;

/// How many times it is then made under the lock, where only git's removal of loose files that it has packed can still
/// make it useless.
const LOCKED_MAX: usize = 3;

/// The loose refs that are moved, and how.
pub(crate) struct Packing<'p> {
    pub(crate) store: &'p Arc<Store>,
    /// packed-refs as it was before the loose refs were read.
    pub(crate) old: Arc<PackedFile>,
    /// In ascending order of name.
    pub(crate) refs: &'p [Loose],
    /// How long to wait for the lock of packed-refs, each time.
    pub(crate) lock_timeout: LockTimeout,
    /// Whether a packed-refs that refdb would have written differently is replaced even if no ref has to be added.
    pub(crate) rewrites_foreign: bool,
    /// Whether loose files are removed.
    pub(crate) prunes: bool,
    /// Called between steps that take a while. `Ok(false)` ends the packing there, and what was done stays.
    pub(crate) goes_on: &'p dyn Fn(&BackgroundPacked) -> Result<bool>,
}

/// Locks the file in which a new packed-refs is made. All processes use the same one, so only one of them packs at a
/// time. The lock is signed, so that it does not prevent packing for good if the process is killed.
pub(crate) fn lock_aside(store: &Store, lock_timeout: LockTimeout) -> Result<Lock> {
    let fs = store.options.fs.signing_in(&store.layout.common_dir)?;
    let aside = write::aside(&store.packed_target()?);
    // A loss of power may leave a lock without its signature.
    Lock::remove_if_lost(&fs, &aside)?;
    Ok(Lock::acquire(&fs, &aside, 0o666, lock_timeout)?)
}

impl Packing<'_> {
    /// Moves the refs. The lock of [`lock_aside`] must be held.
    pub(crate) fn run(&self, done: &mut BackgroundPacked) -> Result<()> {
        if self.put_into_packed(done)? && self.prunes { prune::remove_loose(self, done) } else { Ok(()) }
    }

    /// Writes the values of the refs to packed-refs. `false` if the packing must end.
    fn put_into_packed(&self, done: &mut BackgroundPacked) -> Result<bool> {
        let before = packed_values(&self.old, self.refs)?;
        let mut old = Arc::clone(&self.old);
        let mut gone = BTreeSet::new();
        for attempt in 0..ASIDE_MAX + LOCKED_MAX {
            if !(self.goes_on)(done)? {
                return Ok(false);
            }
            let is_aside = attempt < ASIDE_MAX;
            let early = if is_aside { None } else { Some(self.lock_packed()?) };
            let now = if attempt == 0 {
                Cow::Borrowed(&before)
            } else {
                old = optimize::examined_packed(self.store)?;
                Cow::Owned(packed_values(&old, self.refs)?)
            };
            // Other packers remove loose files only after packed-refs has their values, so packed-refs may have got a
            // value that is newer than the one that was read from the loose file, and may be its only copy.
            let is_missing =
                |at: &usize| now[*at] == before[*at] && now[*at] != Some(self.refs[*at].id) && !gone.contains(at);
            let missing: Vec<usize> = (0..self.refs.len()).filter(is_missing).collect();
            let new = self.rewritten(&old, &missing, is_aside)?;
            let lock = match early {
                Some(lock) => lock,
                None => self.lock_packed()?,
            };
            // Every deletion holds this lock, even if packed-refs does not change.
            let is_same = self.store.packed()?.generation == old.generation;
            let lost = self.without_file(&missing)?;
            if is_same && lost.is_empty() {
                new.map_or(Ok(()), NewPacked::publish)?;
                write::clear_left(self.store)?;
                done.packed = missing.len();
                unlock(lock, done)?;
                return Ok(true);
            }
            gone.extend(lost);
            unlock(lock, done)?;
        }
        Ok(false)
    }

    /// A new packed-refs with the refs at these positions; `None` if the old one can stay.
    fn rewritten(&self, old: &PackedFile, refs: &[usize], is_aside: bool) -> Result<Option<NewPacked>> {
        if refs.is_empty() && (!self.rewrites_foreign || optimize::is_as_we_write(old)?) {
            return Ok(None);
        }
        let put = |at: &usize| {
            let Loose { name, id, peeled } = &self.refs[*at];
            PackedEdit::Put(name.as_bstr(), *id, *peeled)
        };
        let rewrite = if is_aside { write::rewrite_aside } else { write::rewrite };
        rewrite(self.store, old, &mut refs.iter().map(put)).map(Some)
    }

    /// The positions of the refs that have no loose file any more. One with any value outranks packed-refs.
    fn without_file(&self, refs: &[usize]) -> Result<Vec<usize>> {
        let names: Vec<&BStr> = refs.iter().map(|at| self.refs[*at].name.as_bstr()).collect();
        let mut with_file = bulk::with_loose_file(self.store, &names)?.into_iter().peekable();
        let is_lost = |at: &usize| with_file.next_if_eq(at).is_none();
        Ok((0..refs.len()).filter(is_lost).map(|at| refs[at]).collect())
    }

    pub(crate) fn lock_packed(&self) -> Result<Held> {
        let mut lock = Lock::acquire(&self.store.options.fs, &self.store.packed_target()?, 0o666, self.lock_timeout)?;
        lock.close();
        let since = Instant::now();
        self.store.check_format()?;
        Ok((lock, since))
    }
}

/// The values that packed-refs has of these refs.
fn packed_values(old: &PackedFile, refs: &[Loose]) -> Result<Vec<Option<ObjectId>>> {
    let (mut values, mut position) = (Vec::with_capacity(refs.len()), old.packed.start());
    for loose in refs {
        let (next, value) = packed_value(old, position, loose.name.as_bstr())?;
        position = next;
        values.push(value);
    }
    Ok(values)
}

/// Searches from a position on, and returns the position of the ref, or of the next one, and the ref's value.
pub(crate) fn packed_value(old: &PackedFile, from: usize, name: &BStr) -> Result<(usize, Option<ObjectId>)> {
    let packed = &old.packed;
    let at = packed.seek(from, name)?;
    debug_assert!(from <= at, "names are sought in their order");
    if at >= packed.end() {
        return Ok((at, None));
    }
    let record = packed.record(at)?;
    Ok((at, (record.name == name).then_some(record.id)))
}

/// The lock of packed-refs, and when it was taken.
pub(crate) type Held = (Lock, Instant);

pub(crate) fn unlock((lock, since): Held, done: &mut BackgroundPacked) -> Result<Duration> {
    lock.release()?;
    let took = since.elapsed();
    done.held_max = done.held_max.max(took);
    Ok(took)
}
