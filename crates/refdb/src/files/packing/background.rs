//! Background pack-refs: packs the loose refs of a repository once there are many.

use crate::files::{
    lock::stale,
    packing::{
        candidates,
        job::{self, BackgroundPacked, Packing},
        prune, write,
    },
    store::Store,
};
use crate::{Error, Limit, Result};
use refdb_vfs::{LockError, LockTimeout};
use std::{fmt, sync::Arc, time::Duration};

/// The bounds of one background pack-refs.
pub struct BackgroundPackOptions<'a> {
    /// The minimum number of loose refs. With fewer, nothing is packed.
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

/// How long to wait for the lock of packed-refs unless the configuration says otherwise. This time is short, because
/// one thread packs for all repositories, and a packing that fails is tried again.
const LOCK_TIMEOUT: LockTimeout = LockTimeout::For(Duration::from_secs(2));

/// Packs all loose refs that can be packed, if there are at least `options.from`, until `options.goes_on` ends that.
/// Returns `None` if another pack-refs of refdb is running in this repository, and fails with [`Limit::Packing`] if
/// other writers changed packed-refs or removed loose files during each attempt.
pub(crate) fn pack(store: &Arc<Store>, options: &BackgroundPackOptions<'_>) -> Result<Option<BackgroundPacked>> {
    store.check_storage()?;
    store.check_format()?;
    let one = match job::lock_aside(store, LockTimeout::None) {
        Err(Error::Lock(LockError::Held { .. })) => return Ok(None),
        locked => locked?,
    };
    // A packing that was killed may have left the locks of packed-refs and of refs whose loose files it was removing.
    stale::clear_of(&store.options.fs, &store.packed_target()?);
    stale::clear(&store.options.fs, &store.layout.common_dir.join("refs"))?;
    let old = write::opened_packed(store)?;
    let (loose, refs) = candidates::all_loose(store, options.from)?;
    let mut done = BackgroundPacked { loose, ..BackgroundPacked::default() };
    if !refs.is_empty() {
        let packing = Packing {
            store,
            old,
            refs: &refs,
            lock_timeout: store.options.packed_lock_timeout.unwrap_or(LOCK_TIMEOUT),
            rewrites_foreign: false,
            goes_on: &|done| Ok((options.goes_on)(done)),
        };
        if packing.put_into_packed(&mut done)? {
            prune::remove_loose(&packing, &mut done)?;
        } else if (options.goes_on)(&done) {
            return Err(Limit::Packing.into());
        }
    }
    one.release()?;
    debug_assert!(done.removed <= done.loose, "a loose file is removed once: {done:?}");
    Ok(Some(done))
}
