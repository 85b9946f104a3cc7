//! Removes loose files whose values are packed, in portions for each of which packed-refs is locked anew.

use crate::Result;
use crate::files::{
    loose::{self, At, LooseRef, folders, listing::Rivals},
    packing::{
        bulk::folder_of,
        candidates::Loose,
        job::{self, BackgroundPacked, Packing},
    },
    store::Store,
};
use bstr::ByteSlice;
use refdb_vfs::{Lock, LockError, LockTimeout};
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// A portion of removals ends after about this time at the latest, and the lock of packed-refs is released. By default
/// git waits one second for that lock.
const PORTION: Duration = Duration::from_millis(150);

/// Between portions the lock stays free for the time for which it was held, divided by this, but at most for
/// [`PORTION`]. git polls the lock about 14 times in the second that it waits: with a divisor of 3, git would fail in
/// one of a hundred packings; with 2, it fails in one of two thousand at most.
const PAUSE_PART: u32 = 2;

/// Maximum number of threads that remove loose files.
const THREADS: usize = 4;

/// The number of loose files after which the first portion ends at the latest, give or take a piece.
const PORTION_FIRST: usize = 256;

/// The largest number of loose files after which a later portion ends.
const PORTION_MAX: usize = 4096;

/// The most loose files of one folder that a thread removes before it checks the clock again. On a network file system,
/// removing a file takes some 20 ms.
const PIECE_MAX: usize = 8;
const _: () = assert!(PIECE_MAX <= PORTION_FIRST && PORTION_FIRST <= PORTION_MAX, "portions of one scale");

/// Removes the loose files whose values are packed, until `goes_on` ends the packing; refs that others have locked stay
/// loose. Where refs are synced, each portion of removals is durable before the lock is released.
///
/// The lock is held as long as files are removed, because otherwise a ref that was deleted and created again meanwhile
/// would be removed although it is no longer packed.
pub(crate) fn remove_loose(packing: &Packing<'_>, done: &mut BackgroundPacked) -> Result<()> {
    let folders = packing.refs.chunk_by(|one, other| folder_of(one.name.as_bstr()) == folder_of(other.name.as_bstr()));
    let pieces: Vec<&[Loose]> = folders.flat_map(|refs| refs.chunks(PIECE_MAX)).collect();
    let (mut rest, mut portion) = (&pieces[..], PORTION_FIRST);
    while !rest.is_empty() && (packing.goes_on)(done)? {
        let lock = packing.lock_packed()?;
        let (taken, removed) = remove_portion(packing.store, lock.0.path(), rest, portion)?;
        let took = job::unlock(lock, done)?;
        done.removed += removed;
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

/// Removes the loose files of the next pieces until the portion is large enough or has taken long enough. Returns how
/// many pieces were taken and how many files were removed. Several threads take one piece after another, because they
/// often wait for the file system.
fn remove_portion(store: &Store, seed: &Path, pieces: &[&[Loose]], portion: usize) -> Result<(usize, usize)> {
    let (begun, old) = (Instant::now(), store.packed()?);
    // The index of the next piece, and the number of refs in the pieces before it.
    let next = Mutex::new((0, 0));
    let take = || {
        let mut next = next.lock().unwrap_or_else(PoisonError::into_inner);
        let refs = pieces.get(next.0).filter(|_| has_room(portion, next.0, next.1, begun.elapsed()))?;
        *next = (next.0 + 1, next.1 + refs.len());
        Some(*refs)
    };
    let prune = |pruning: &mut Pruning<'_>| -> Result<usize> {
        let (mut removed, mut position) = (0, old.packed.start());
        let mut folder = None;
        while let Some(refs) = take() {
            let present = folder_of(refs[0].name.as_bstr());
            if folder.replace(present).is_some_and(|before| before != present) {
                pruning.remove_folders();
            }
            for loose in refs {
                let (next, value) = job::packed_value(&old, position, loose.name.as_bstr())?;
                position = next;
                removed += usize::from(value == Some(loose.id) && pruning.remove(loose)?);
            }
        }
        Ok(removed)
    };
    let work = || {
        let mut pruning = Pruning::new(store, seed);
        let removed = prune(&mut pruning);
        pruning.remove_folders();
        (removed, pruning.into_changed())
    };
    let (mut removed, mut changed) = (Vec::new(), BTreeSet::new());
    for (files, mut folders) in store.options.fs.side_by_side(THREADS.min(pieces.len()), &work) {
        removed.push(files);
        changed.append(&mut folders);
    }
    // Even after a failure, what was removed must not come back.
    make_durable(store, &changed)?;
    let removed = removed.into_iter().sum::<Result<usize>>()?;
    let (taken, _) = *next.lock().unwrap_or_else(PoisonError::into_inner);
    debug_assert!(taken > 0, "each portion gets on");
    Ok((taken, removed))
}

/// Returns whether a portion may include one more piece. `pieces` and `refs` count what it has so far. The first piece
/// is always included, because otherwise a packing for which opening packed-refs takes long would make no progress
/// while it holds the lock.
fn has_room(portion: usize, pieces: usize, refs: usize, took: Duration) -> bool {
    pieces == 0 || refs < portion && took < PORTION
}

/// Removes loose files, each under its lock, which is a link to `seed` where that is possible.
struct Pruning<'s> {
    store: &'s Store,
    seed: &'s Path,
    buffer: Vec<u8>,
    /// Folders in which refs were locked, and which may be empty now.
    emptied: BTreeSet<PathBuf>,
    /// Folders that have changed and still exist.
    changed: BTreeSet<PathBuf>,
}

impl<'s> Pruning<'s> {
    fn new(store: &'s Store, seed: &'s Path) -> Self {
        Pruning { store, seed, buffer: Vec::new(), emptied: BTreeSet::new(), changed: BTreeSet::new() }
    }

    /// Removes a loose file if it still has the packed value, or is a symbolic link that leads nowhere. Returns whether
    /// the file was removed. A ref that somebody else has locked stays loose.
    fn remove(&mut self, Loose { name, id, .. }: &Loose) -> Result<bool> {
        let options = &self.store.options;
        let Some(path) = self.store.layout.ref_path(name.as_bstr()) else { return Ok(false) };
        let lock = match Lock::acquire_linked(&options.fs, &path, self.seed, LockTimeout::None) {
            Err(LockError::Io(error)) if !error.is_not_found() => {
                Lock::acquire_unsigned(&options.fs, &path, 0o666, LockTimeout::None)
            }
            locked => locked,
        };
        let lock = match lock {
            Ok(lock) => lock,
            Err(LockError::Held { .. }) => return Ok(false),
            Err(LockError::Io(error)) if error.is_not_found() => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        let is_removable = match loose::read(&options.fs, options.hash, &path, Rivals::LockedOut, &mut self.buffer)? {
            At::Ref(LooseRef::Direct(now)) => now == *id,
            // The target of a symbolic link was pruned before the link; git would not find the packed value through the
            // link.
            At::Missing => options.fs.find_link_content(&path)?.is_some(),
            _ => false,
        };
        if let Some(folder) = path.parent().filter(|folder| !self.emptied.contains(*folder)) {
            self.emptied.insert(folder.to_owned());
        }
        if is_removable {
            options.fs.remove_existing(&path)?;
        }
        lock.release()?;
        Ok(is_removable)
    }

    /// Removes the folders that have become empty, and those above them as far as they are empty, except for the first
    /// two below the common folder. Notes the lowest one that stays.
    fn remove_folders(&mut self) {
        let (fs, base) = (&self.store.options.fs, &self.store.layout.common_dir);
        let stay = std::mem::take(&mut self.emptied).into_iter();
        self.changed.extend(stay.map(|folder| folders::remove_emptied(fs, base, &folder).to_owned()));
    }

    /// The folders that have changed and still exist.
    fn into_changed(self) -> BTreeSet<PathBuf> {
        debug_assert!(self.emptied.is_empty(), "empty folders are removed first");
        self.changed
    }
}

/// Makes removals durable if refs are synced: a loose file that came back after a loss of power would hide the next
/// value in packed-refs. For removed folders, it is enough to sync the lowest folder above them that remains.
fn make_durable(store: &Store, changed: &BTreeSet<PathBuf>) -> Result<()> {
    if store.options.sync { Ok(store.options.fs.sync_dirs(changed)?) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_portion_gets_on_however_late_it_is() {
        assert!(has_room(1, 0, 0, PORTION * 10), "the first piece");
        assert!(has_room(8, 2, 7, PORTION / 2));
        assert!(!has_room(8, 2, 8, PORTION / 2), "enough");
        assert!(!has_room(8, 1, 1, PORTION), "long enough");
    }
}
