//! Background pack-refs: moves loose refs into packed-refs beside writers, which wait for it no longer than for each
//! other.
//!
//! The new file is made before the lock of packed-refs is taken. It is used only if, under the lock, the old file is
//! still the same and the loose files still exist. Loose files are then removed in portions, and the lock is released
//! in between.

use crate::Result;
use crate::files::{
    lock::stale,
    loose::{self, At, LooseRef, listing::Rivals},
    packed::cache::PackedFile,
    packing::{
        optimize::{self, Loose, Pruning},
        write::{self, NewPacked, PackedEdit},
    },
    store::Store,
};
use bstr::ByteSlice;
use refdb_vfs::{Lock, LockError, LockTimeout};
use std::{
    collections::BTreeSet,
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

/// The bounds of one background pack-refs.
pub struct BackgroundPackOptions<'a> {
    /// The number of loose refs from which on they are packed. With fewer nothing is done.
    pub from: usize,
    /// Called between steps that take a while, with what was done so far. If it returns `false`, the packing ends
    /// there, and what was done stays.
    pub goes_on: &'a dyn Fn(&BackgroundPacked) -> bool,
}

impl fmt::Debug for BackgroundPackOptions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BackgroundPackOptions").field("from", &self.from).finish_non_exhaustive()
    }
}

/// What a background pack-refs has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BackgroundPacked {
    /// Loose refs that were found, without symbolic and broken ones.
    pub loose: usize,
    /// Refs that were written to packed-refs.
    pub packed: usize,
    /// Loose files that were removed.
    pub removed: usize,
    /// The longest time for which the lock of packed-refs was held.
    pub held_max: Duration,
}

/// How many times a new packed-refs is made without the lock, although a change of the present one may make it useless.
/// After that it is made under the lock.
const ASIDE_MAX: usize = 3;

/// The time for which a portion of loose files is removed under the lock of packed-refs, for which git waits a second.
const PORTION: Duration = Duration::from_millis(150);

/// How long to wait for the lock of packed-refs unless the configuration says otherwise. It is short, because one
/// thread packs for all repositories, and a packing that fails is tried again.
const LOCK_TIMEOUT: LockTimeout = LockTimeout::For(Duration::from_secs(2));

/// Between portions the lock is free for the time for which it was held, divided by this. git polls the lock about 14
/// times in the second that it waits: with a third it would fail in one of a hundred packings, with a half it fails in
/// one of two thousand at most.
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
    // A loss of power may leave a lock without its signature, which would prevent packing for good.
    Lock::remove_if_lost(&store.options.fs, &aside)?;
    // All processes use the same file, so only one of them packs at a time.
    let one = match Lock::acquire(&store.options.fs, &aside, 0o666, LockTimeout::None) {
        Err(LockError::Held { .. }) => return Ok(None),
        locked => locked?,
    };
    // A packing that was killed leaves the locks of packed-refs and of refs that no longer have a loose file.
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

/// Writes the values of these refs to packed-refs. `false` if the packing must end.
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
        // git removes loose files only after it has released the lock of packed-refs, so packed-refs may contain a
        // value newer than the one that was read here, and may soon be its only copy. Refs that have changed since they
        // were read are left alone.
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
        // Every deletion holds this lock, even if packed-refs does not change.
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

/// The refs that packed-refs does not contain with their value.
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

/// Searches from a position on, and returns the position of the ref, or of the next one, and whether packed-refs
/// contains the ref with its value.
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

/// Whether the loose file still has the value that was read.
fn holds(store: &Store, Loose { name, id, .. }: &Loose, buffer: &mut Vec<u8>) -> Result<bool> {
    let Some(path) = store.layout.ref_path(name.as_bstr()) else { return Ok(false) };
    let now = loose::read(&store.options.fs, store.options.hash, &path, Rivals::LockedOut, buffer)?;
    Ok(matches!(now, At::Ref(LooseRef::Direct(now)) if now == *id))
}

/// Whether the ref still has a loose file, with any value. Such a file outranks packed-refs.
fn is_there(store: &Store, loose: &Loose) -> bool {
    let path = store.layout.ref_path(loose.name.as_bstr());
    path.is_some_and(|path| matches!(store.options.fs.find_link(&path), Ok(Some(stat)) if !stat.is_dir()))
}

/// Removes the loose files whose values are packed. Each portion of removals is durable before the lock is released.
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
            // Other writers poll the lock, so it stays free for a while.
            std::thread::sleep((took / PAUSE_PART).min(PORTION));
        }
    }
    Ok(())
}

/// Removes the loose files of the next folders until there were enough or it took long enough. Returns the number of
/// folders and of files. Several threads take one folder after another, because they often wait for the file system.
fn remove_portion(store: &Store, seed: &Path, folders: &[&[Loose]], portion: usize) -> Result<(usize, usize)> {
    let (begun, old) = (Instant::now(), store.packed()?);
    // The index of the next folder, and the number of refs in the folders before it.
    let next = Mutex::new((0, 0));
    let take = || {
        let mut next = next.lock().unwrap_or_else(PoisonError::into_inner);
        let refs = folders.get(next.0).filter(|_| has_room(portion, next.0, next.1, begun.elapsed()))?;
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

/// Whether a portion may include one more folder. `folders` and `refs` count what it has. The first folder is always
/// included, because otherwise a packing for which opening packed-refs takes long would make no progress while it holds
/// the lock.
fn has_room(portion: usize, folders: usize, refs: usize, took: Duration) -> bool {
    folders == 0 || refs < portion && took < PORTION
}

/// The lock of packed-refs, and when it was taken.
type Held = (Lock, Instant);

fn lock_packed(store: &Arc<Store>) -> Result<Held> {
    let timeout = store.options.packed_lock_timeout.unwrap_or(LOCK_TIMEOUT);
    let mut lock = Lock::acquire(&store.options.fs, &store.packed_target()?, 0o666, timeout)?;
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
        assert!(has_room(1, 0, 0, PORTION * 10), "the first folder");
        assert!(has_room(8, 2, 7, PORTION / 2));
        assert!(!has_room(8, 2, 8, PORTION / 2), "enough");
        assert!(!has_room(8, 1, 1, PORTION), "long enough");
    }
}
