//! `pack-refs`: which loose refs it packs, and when `--auto` finds that worth while.

use crate::files::{
    lock::{
        set::{heed_signals, packed_lock_timeout},
        stale,
    },
    packing::{
        candidates::{self, Loose},
        job::{self, BackgroundPacked, Packing},
        prune, write,
    },
    store::Store,
};
use crate::{
    Limit, Result,
    backend::{OptimizeOptions, OptimizePlan, Optimized},
};
use bstr::{BStr, BString, ByteSlice};
use gix_glob::wildmatch;
use refdb_vfs::Lock;
use std::sync::Arc;

/// Implements [`Maintenance::optimize`](crate::backend::Maintenance::optimize).
pub(crate) fn optimize(store: &Arc<Store>, options: &OptimizeOptions) -> Result<Optimized> {
    store.check_storage()?;
    let choice = Choice::new(options);
    if options.auto {
        let (count, optimized) = count_loose(store, &choice)?;
        if !is_worth_while(count, store.packed_len_bytes()?) {
            return Ok(optimized);
        }
    }
    store.check_format()?;
    let one = job::lock_aside(store, packed_lock_timeout(store))?;
    if options.prune {
        stale::clear(&store.options.fs, &store.layout.common_dir.join("refs"))?;
    }
    let old = write::opened_packed(store)?;
    let (refs, optimized) = loose_refs(store, &choice)?;
    if refs.is_empty() && write::is_as_we_write(&old)? {
        // Like git, this fails where packed-refs stays locked, even if there is nothing to do.
        Lock::wait_until_free(&store.options.fs, &store.packed_target()?, packed_lock_timeout(store))?;
    } else {
        let packing = Packing {
            store,
            old,
            refs: &refs,
            lock_timeout: packed_lock_timeout(store),
            rewrites_foreign: true,
            goes_on: &|_| heed_signals().map(|()| true),
        };
        let mut done = BackgroundPacked::default();
        if !packing.put_into_packed(&mut done)? {
            return Err(Limit::Packing.into());
        }
        if options.prune {
            prune::remove_loose(&packing, &mut done)?;
        }
    }
    one.release()?;
    Ok(optimized)
}

/// Implements [`Maintenance::plan_optimize`](crate::backend::Maintenance::plan_optimize).
pub(crate) fn plan(store: &Arc<Store>, options: &OptimizeOptions) -> Result<OptimizePlan> {
    let choice = Choice::new(options);
    if options.auto {
        let (count, optimized) = count_loose(store, &choice)?;
        if !is_worth_while(count, store.packed_len_bytes()?) {
            return Ok(OptimizePlan { missing: optimized.missing, ..OptimizePlan::default() });
        }
    }
    let (loose, optimized) = loose_refs(store, &choice)?;
    let old = write::examined_packed(store)?;
    let rewrites_packed = !loose.is_empty() || !write::is_as_we_write(&old)?;
    let pack = loose.into_iter().map(|loose| loose.name).collect();
    Ok(OptimizePlan { pack, rewrites_packed, compact: Vec::new(), missing: optimized.missing })
}

/// Returns whether packing is worth while by the rule of git 2.55 for `--auto`: the more refs are packed, the more
/// loose refs it takes. A packed ref counts as 100 bytes.
fn is_worth_while(loose: usize, packed_len_bytes: u64) -> bool {
    let refs = packed_len_bytes / 100;
    let log2 = u64::from(refs.checked_ilog2().unwrap_or(0));
    loose as u64 >= (log2 * 5).max(16)
}

/// The selection of refs to pack.
struct Choice<'o> {
    options: &'o OptimizeOptions,
}

impl<'o> Choice<'o> {
    fn new(options: &'o OptimizeOptions) -> Self {
        Choice { options }
    }

    fn wants(&self, name: &BStr) -> bool {
        let matches = |patterns: &[BString]| {
            patterns.iter().any(|pattern| wildmatch(pattern.as_bstr(), name, wildmatch::Mode::empty()))
        };
        let by_default = self.options.include.is_empty() && name.starts_with(b"refs/tags/");
        !matches(&self.options.exclude) && (self.options.all || by_default || matches(&self.options.include))
    }
}

fn count_loose(store: &Arc<Store>, choice: &Choice<'_>) -> Result<(usize, Optimized)> {
    let (mut count, mut optimized) = (0, Optimized::default());
    candidates::for_each_loose(store, &mut |name, id| {
        if !store.options.objects.exists(&id)? {
            optimized.missing.push(name.to_owned());
        } else if choice.wants(name) {
            count += 1;
        }
        Ok(())
    })?;
    Ok((count, optimized))
}

/// The selected loose refs, and the names of all loose refs whose objects are missing.
fn loose_refs(store: &Arc<Store>, choice: &Choice<'_>) -> Result<(Vec<Loose>, Optimized)> {
    let (mut refs, mut optimized) = (Vec::new(), Optimized::default());
    candidates::for_each_loose(store, &mut |name, id| {
        // Like git, this checks the objects of all loose refs, whether they are packed or not.
        let loose = match choice.wants(name) {
            true => candidates::packable(store, name.to_owned(), id)?,
            false if store.options.objects.exists(&id)? => return Ok(()),
            false => None,
        };
        match loose {
            Some(loose) => refs.push(loose),
            None => optimized.missing.push(name.to_owned()),
        }
        Ok(())
    })?;
    debug_assert!(refs.is_sorted_by(|a: &Loose, b| a.name < b.name), "loose refs are found in order of name");
    Ok((refs, optimized))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_more_is_packed_the_more_loose_refs_auto_needs() {
        for (loose, packed_len_bytes, expected) in [
            (15, 0, false),
            (16, 0, true),
            (16, 1000, true),
            (24, 6700, false),
            (30, 6700, true),
            (99, 99_000_000, true),
        ] {
            assert_eq!(is_worth_while(loose, packed_len_bytes), expected, "{loose} beside {packed_len_bytes} bytes");
        }
    }
}
