//! What the two steps of a packing share: the refs, its bounds, and the locks of packed-refs.

use crate::Result;
use crate::files::{
    packed::cache::PackedFile,
    packing::{candidates::Loose, write},
    store::Store,
};
use bstr::BStr;
use refdb_types::ObjectId;
use refdb_vfs::{Lock, LockTimeout};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// What a background pack-refs has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BackgroundPacked {
    /// Shared loose refs that were found, without symbolic, broken and badly named ones and those that hold the null
    /// id.
    pub loose: usize,
    /// Refs that were written to packed-refs.
    pub packed: usize,
    /// Loose files that were removed.
    pub removed: usize,
    /// The longest time for which the lock of packed-refs was held.
    pub held_max: Duration,
}

/// A packing: the loose refs that are moved, and how.
pub(crate) struct Packing<'p> {
    pub(crate) store: &'p Arc<Store>,
    /// packed-refs as it was before the loose refs were read.
    pub(crate) old: Arc<PackedFile>,
    /// The loose refs to pack, in ascending order of name.
    pub(crate) refs: &'p [Loose],
    /// How long to wait for the lock of packed-refs, each time.
    pub(crate) lock_timeout: LockTimeout,
    /// Whether a packed-refs that refdb would have written differently is replaced even if no ref has to be added.
    pub(crate) rewrites_foreign: bool,
    /// Called between steps that take a while. `Ok(false)` ends the packing there, and what was done stays.
    pub(crate) goes_on: &'p dyn Fn(&BackgroundPacked) -> Result<bool>,
}

/// Locks the file in which a new packed-refs is made. All processes of refdb use the same file, so only one of them
/// packs at a time. The lock is signed where that is possible, so that it does not prevent packing for good if the
/// process is killed.
pub(crate) fn lock_aside(store: &Store, lock_timeout: LockTimeout) -> Result<Lock> {
    let fs = store.options.fs.signing_in(&store.layout.common_dir)?;
    let aside = write::aside(&store.packed_target()?);
    // A loss of power may leave a lock without its signature.
    Lock::remove_if_lost(&fs, &aside)?;
    Ok(Lock::acquire(&fs, &aside, 0o666, lock_timeout)?)
}

impl Packing<'_> {
    pub(crate) fn lock_packed(&self) -> Result<Held> {
        let mut lock = Lock::acquire(&self.store.options.fs, &self.store.packed_target()?, 0o666, self.lock_timeout)?;
        lock.close();
        let since = Instant::now();
        self.store.check_format()?;
        Ok((lock, since))
    }
}

/// The lock of packed-refs, and when it was taken.
pub(crate) type Held = (Lock, Instant);

pub(crate) fn unlock((lock, since): Held, done: &mut BackgroundPacked) -> Result<Duration> {
    lock.release()?;
    let took = since.elapsed();
    done.held_max = done.held_max.max(took);
    Ok(took)
}

/// Searches packed-refs from a position on, and returns the ref's position and its packed value. A ref that is not
/// packed has no value and the position of the ref after it.
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
