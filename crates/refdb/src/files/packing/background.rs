//! Folds loose refs into packed-refs beside writers, who wait for it no longer than for one another.
//!
//! The new file is made before the lock of packed-refs is taken. Under it the old one must be the same still, and the loose
//! files be there. They go in portions, with the lock free in between.

use crate::Result;
use crate::files::{
    lock::stale,
    loose::{self, At, LooseRef},
    packed::cache::PackedFile,
    packing::{
        optimize::{self, Loose, Pruning},
        write::{self, NewPacked, PackedEdit},
    },
    store::Store,
};
use bstr::ByteSlice;
use refdb_vfs::{Lock, LockError, Patience};
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

/// What a fold is to do.
pub struct BackgroundPackOptions<'a> {
    /// With fewer loose refs nothing is done.
    pub from: usize,
    /// Asked between steps that take a while, and told what was done so far. If it says no, the fold ends there. What was done
    /// by then stays.
    pub goes_on: &'a dyn Fn(&BackgroundPacked) -> bool,
}

/// What a fold did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BackgroundPacked {
    /// Loose refs that were found, symbolic and broken ones left out.
    pub loose: usize,
    /// Refs that packed-refs was given.
    pub packed: usize,
    /// Loose files that were removed.
    pub removed: usize,
    /// For how long the lock of packed-refs was held at most.
    pub held_max: Duration,
}

/// So often a new packed-refs is made that a change of the present one makes worthless. After that it is made under the lock.
const ASIDE_MAX: usize = 3;

/// Git waits a second for the lock of packed-refs. Loose files are removed in portions that take about this long.
const PORTION: Duration = Duration::from_millis(150);

/// So long a fold waits for one who holds the lock of packed-refs, unless the configuration says otherwise. A fold that fails is tried
/// again, and one thread makes those of all repositories.
const PATIENCE: Patience = Patience::For(Duration::from_secs(2));

/// The lock is free in between for this part of the time that it was held. Git looks for it some 14 times in the second that it waits.
/// With a third it would fail in one of a hundred folds. With a half it does in one of two thousand at most.
const PAUSE_PART: u32 = 2;

/// Threads that remove loose files.
const THREADS: usize = 4;

/// Loose files in the first portion, and in any.
const PORTION_FIRST: usize = 256;
const PORTION_MAX: usize = 4096;
const _: () = assert!(PORTION_FIRST <= PORTION_MAX, "portions of one scale");

/// Folds all loose refs that can be packed. `None` if another fold of this repository is under way.
pub(crate) fn pack(store: &Arc<Store>, options: &BackgroundPackOptions<'_>) -> Result<Option<BackgroundPacked>> {
    store.check_format()?;
    let packed = store.packed_target()?;
    let aside = write::aside(&packed);
    // A loss of power may leave a lock that nobody else would ever remove, and folds would end for good.
    Lock::remove_if_lost(&store.options.fs, &aside)?;
    // One at a time in all processes: they would make the same file.
    let one = match Lock::acquire(&store.options.fs, &aside, 0o666, Patience::None) {
        Err(LockError::Held { .. }) => return Ok(None),
        locked => locked?,
    };
    // A fold that was killed leaves locks: of packed-refs, and of refs that have no loose file any more.
    stale::clear_of(&store.options.fs, &packed);
    stale::clear(&store.options.fs, &store.layout.common_dir.join("refs"))?;
    let (found, refs) = optimize::all_loose(store, options.from)?;
    let mut folded = BackgroundPacked { loose: found, ..BackgroundPacked::default() };
    let is_wanted = !refs.is_empty() && (options.goes_on)(&folded);
    if is_wanted && put_into_packed(store, &refs, options, &mut folded)? {
        remove_loose(store, &refs, options, &mut folded)?;
    }
    one.release()?;
    debug_assert!(folded.removed <= folded.loose, "a loose file is removed once: {folded:?}");
    Ok(Some(folded))
}

/// Gives packed-refs the values of these refs. `false` if the fold is to end.
fn put_into_packed(
    store: &Arc<Store>,
    refs: &[Loose],
    options: &BackgroundPackOptions<'_>,
    folded: &mut BackgroundPacked,
) -> Result<bool> {
    let mut buffer = Vec::new();
    for attempt in 0..=ASIDE_MAX {
        if !(options.goes_on)(folded) {
            return Ok(false);
        }
        let is_aside = attempt < ASIDE_MAX;
        let early = if is_aside { None } else { Some(lock_packed(store)?) };
        let old = optimize::examined_packed(store)?;
        // Git packs under the lock, but removes loose files after it. So packed-refs may have a value that is newer than ours,
        // and soon be all that has it. Those that changed since they were read are left alone.
        let mut same = Vec::new();
        for loose in refs {
            if holds(store, loose, &mut buffer)? {
                same.push(loose);
            }
        }
        let missing = missing_in(&old, &same)?;
        let new = rewritten(store, &old, &missing, is_aside)?;
        let lock = match early {
            Some(lock) => lock,
            None => lock_packed(store)?,
        };
        // Who deletes a ref has this lock, also where packed-refs need not change for it.
        let is_same = store.packed()?.generation == old.generation;
        if is_same && missing.iter().all(|loose| is_there(store, loose)) {
            new.map_or(Ok(()), NewPacked::publish)?;
            folded.packed = missing.len();
            unlock(lock, folded)?;
            return Ok(true);
        }
        unlock(lock, folded)?;
    }
    Ok(false)
}

fn rewritten(store: &Arc<Store>, old: &PackedFile, refs: &[&Loose], is_aside: bool) -> Result<Option<NewPacked>> {
    if refs.is_empty() {
        return Ok(None);
    }
    let mut edits = refs.iter().map(|loose| PackedEdit::Put(loose.name.as_bstr(), loose.id, loose.peeled));
    let rewrite = if is_aside { write::rewrite_aside } else { write::rewrite };
    rewrite(store, old, &mut edits).map(Some)
}

/// Those that packed-refs does not have with their value.
fn missing_in<'l>(old: &PackedFile, refs: &[&'l Loose]) -> Result<Vec<&'l Loose>> {
    let mut missing = Vec::new();
    let mut position = old.packed.start();
    for loose in refs {
        let (next, is_packed) = is_packed(old, position, loose)?;
        position = next;
        if !is_packed {
            missing.push(*loose);
        }
    }
    Ok(missing)
}

/// Whether packed-refs has the ref with its value, and where it stands or would stand, at or behind a position.
fn is_packed(old: &PackedFile, from: usize, loose: &Loose) -> Result<(usize, bool)> {
    let packed = &old.packed;
    let at = packed.seek(from, loose.name.as_bstr())?;
    debug_assert!(from <= at, "names are sought in their order");
    if at >= packed.end() {
        return Ok((at, false));
    }
    let record = packed.record(at)?;
    Ok((at, record.name == loose.name.as_bstr() && record.id == loose.id))
}

/// Whether the loose file has the value with which it was found.
fn holds(store: &Store, Loose { name, id, .. }: &Loose, buffer: &mut Vec<u8>) -> Result<bool> {
    let Some(path) = store.layout.ref_path(name.as_bstr()) else { return Ok(false) };
    let now = loose::read(&store.options.fs, store.options.hash, &path, buffer)?;
    Ok(matches!(now, At::Ref(LooseRef::Direct(now)) if now == *id))
}

/// Whether the ref has a loose file, be it with another value: that outranks packed-refs.
fn is_there(store: &Store, loose: &Loose) -> bool {
    let path = store.layout.ref_path(loose.name.as_bstr());
    path.is_some_and(|path| matches!(store.options.fs.find_link(&path), Ok(Some(stat)) if !stat.is_dir()))
}

/// Removes the loose files whose values are packed. Each portion of removals is durable before the lock goes.
fn remove_loose(
    store: &Arc<Store>,
    refs: &[Loose],
    options: &BackgroundPackOptions<'_>,
    folded: &mut BackgroundPacked,
) -> Result<()> {
    let folder = |loose: &Loose| loose.name.rfind_byte(b'/').map_or(0, |slash| slash + 1);
    let is_same_folder = |a: &Loose, b: &Loose| a.name[..folder(a)] == b.name[..folder(b)];
    let folders: Vec<&[Loose]> = refs.chunk_by(is_same_folder).collect();
    let (mut rest, mut portion) = (&folders[..], PORTION_FIRST);
    while !rest.is_empty() && (options.goes_on)(folded) {
        let lock = lock_packed(store)?;
        let (taken, removed) = remove_portion(store, lock.0.path(), rest, portion)?;
        let took = unlock(lock, folded)?;
        folded.removed += removed;
        rest = &rest[taken..];
        portion = match took {
            took if took > PORTION => (portion / 2).max(1),
            took if took < PORTION / 2 => (portion * 2).min(PORTION_MAX),
            _ => portion,
        };
        if !rest.is_empty() {
            // Others who wait for the lock look at it now and then.
            std::thread::sleep((took / PAUSE_PART).min(PORTION));
        }
    }
    Ok(())
}

/// Removes the loose files of some folders, until there were enough or it took long enough. Returns the number of folders, and of
/// files. Several threads do it, each with one folder after the other, since they often wait for the file system.
fn remove_portion(store: &Store, seed: &Path, folders: &[&[Loose]], portion: usize) -> Result<(usize, usize)> {
    let (begun, old) = (Instant::now(), store.packed()?);
    // The next folder, and how many refs were taken before it.
    let next = Mutex::new((0, 0));
    let take = || {
        let mut next = next.lock().unwrap_or_else(PoisonError::into_inner);
        let refs = folders.get(next.0).filter(|_| has_room(portion, *next, begun.elapsed()))?;
        *next = (next.0 + 1, next.1 + refs.len());
        Some(*refs)
    };
    let work = || -> Result<(usize, BTreeSet<PathBuf>)> {
        let (mut removed, mut position, mut pruning) = (0, old.packed.start(), Pruning::new(store, seed));
        while let Some(refs) = take() {
            for loose in refs {
                let (next, is_packed) = is_packed(&old, position, loose)?;
                position = next;
                removed += usize::from(is_packed && pruning.remove(loose)?);
            }
            pruning.remove_folders();
        }
        Ok((removed, pruning.into_changed()))
    };
    let (mut removed, mut changed) = (0, BTreeSet::new());
    for done in store.options.fs.side_by_side(THREADS.min(folders.len()), &work) {
        let (files, mut folders) = done?;
        removed += files;
        changed.append(&mut folders);
    }
    optimize::make_durable(store, &changed)?;
    let (taken, _) = *next.lock().unwrap_or_else(PoisonError::into_inner);
    debug_assert!(taken > 0, "each portion gets on");
    Ok((taken, removed))
}

/// Whether a portion takes a folder more. `taken` counts those that it has, and their refs. The first one it takes however late it
/// is. Where it takes long to open packed-refs the fold would not get on. It would hold the lock most of the time.
fn has_room(portion: usize, taken: (usize, usize), took: Duration) -> bool {
    taken.0 == 0 || taken.1 < portion && took < PORTION
}

/// The lock of packed-refs, and since when it is held.
type Held = (Lock, Instant);

fn lock_packed(store: &Arc<Store>) -> Result<Held> {
    let patience = store.options.packed_patience.unwrap_or(PATIENCE);
    let mut lock = Lock::acquire(&store.options.fs, &store.packed_target()?, 0o666, patience)?;
    lock.close();
    let since = Instant::now();
    store.check_format()?;
    Ok((lock, since))
}

fn unlock((lock, since): Held, folded: &mut BackgroundPacked) -> Result<Duration> {
    lock.release()?;
    let took = since.elapsed();
    folded.held_max = folded.held_max.max(took);
    Ok(took)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_portion_gets_on_however_late_it_is() {
        assert!(has_room(1, (0, 0), PORTION * 10), "the first folder");
        assert!(has_room(8, (2, 7), PORTION / 2));
        assert!(!has_room(8, (2, 8), PORTION / 2), "enough");
        assert!(!has_room(8, (1, 1), PORTION), "long enough");
    }
}
