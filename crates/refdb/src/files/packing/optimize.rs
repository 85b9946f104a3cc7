//! `pack-refs`: which loose refs it packs, and when `--auto` finds that worth while.

use crate::files::{
    cursor,
    lock::{
        set::{heed_signals, packed_lock_timeout},
        stale,
    },
    loose::{self, At, LooseRef, listing::Rivals},
    packed::cache::PackedFile,
    packing::{
        background::BackgroundPacked,
        merge::{self, Packing},
    },
    store::Store,
};
use crate::{
    Result,
    backend::{OptimizeOptions, OptimizePlan, Optimized},
};
use bstr::{BStr, BString, ByteSlice};
use gix_glob::wildmatch;
use refdb_repo::ObjectClass;
use refdb_types::{FormatOptions, ObjectId, Scope, check_format};
use std::sync::Arc;

/// See [`Backend::optimize`](crate::Backend::optimize).
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
    let one = merge::lock_aside(store, packed_lock_timeout(store))?;
    if options.prune {
        stale::clear(&store.options.fs, &store.layout.common_dir.join("refs"))?;
    }
    let old = examined_packed(store)?;
    let (refs, optimized) = loose_refs(store, &choice)?;
    if !refs.is_empty() || !is_as_we_write(&old)? {
        let packing = Packing {
            store,
            old,
            refs: &refs,
            lock_timeout: packed_lock_timeout(store),
            rewrites_foreign: true,
            prunes: options.prune,
            goes_on: &|_| heed_signals().map(|()| true),
        };
        packing.run(&mut BackgroundPacked::default())?;
    }
    one.release()?;
    Ok(optimized)
}

/// See [`Backend::plan_optimize`](crate::Backend::plan_optimize).
pub(crate) fn plan(store: &Arc<Store>, options: &OptimizeOptions) -> Result<OptimizePlan> {
    let choice = Choice::new(options);
    if options.auto {
        let (count, optimized) = count_loose(store, &choice)?;
        if !is_worth_while(count, store.packed_len_bytes()?) {
            return Ok(OptimizePlan { missing: optimized.missing, ..OptimizePlan::default() });
        }
    }
    let (loose, optimized) = loose_refs(store, &choice)?;
    let old = examined_packed(store)?;
    let rewrites_packed = !loose.is_empty() || !is_as_we_write(&old)?;
    let pack = loose.into_iter().map(|loose| loose.name).collect();
    Ok(OptimizePlan { pack, rewrites_packed, compact: Vec::new(), missing: optimized.missing })
}

/// The present packed-refs, whose order is checked completely, so that a disordered file is not copied.
pub(crate) fn examined_packed(store: &Arc<Store>) -> Result<Arc<PackedFile>> {
    let old = store.packed()?;
    if old.packed.is_copyable() && !old.packed.is_sorted()? {
        return store.packed();
    }
    Ok(old)
}

/// Whether packed-refs exists and is as refdb would write it.
pub(crate) fn is_as_we_write(old: &PackedFile) -> Result<bool> {
    Ok(old.exists() && old.packed.is_copyable() && old.packed.has_own_header()?)
}

/// Applies the rule of git 2.55 for `--auto`: the more refs are packed, the more loose refs make packing worth while. A
/// packed ref counts as 100 bytes.
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

/// A loose ref that is being packed.
pub(crate) struct Loose {
    pub(crate) name: BString,
    pub(crate) id: ObjectId,
    pub(crate) peeled: Option<ObjectId>,
}

fn count_loose(store: &Arc<Store>, choice: &Choice<'_>) -> Result<(usize, Optimized)> {
    let (mut count, mut optimized) = (0, Optimized::default());
    for_each_loose(store, &mut |name, id| {
        if !store.options.objects.exists(&id)? {
            optimized.missing.push(name.to_owned());
        } else if choice.wants(name) {
            count += 1;
        }
        Ok(())
    })?;
    Ok((count, optimized))
}

/// Counts the direct loose refs and, if there are at least `from`, returns those that can be packed.
pub(crate) fn all_loose(store: &Arc<Store>, from: usize) -> Result<(usize, Vec<Loose>)> {
    let mut found = Vec::new();
    for_each_loose(store, &mut |name, id| {
        found.push((name.to_owned(), id));
        Ok(())
    })?;
    let (count, mut refs) = (found.len(), Vec::new());
    if count >= from {
        for (name, id) in found {
            refs.extend(packable(store, name, id)?);
        }
    }
    Ok((count, refs))
}

/// The selected loose refs, and the refs whose objects are missing.
fn loose_refs(store: &Arc<Store>, choice: &Choice<'_>) -> Result<(Vec<Loose>, Optimized)> {
    let (mut refs, mut optimized) = (Vec::new(), Optimized::default());
    for_each_loose(store, &mut |name, id| {
        // Like git it checks the objects of all loose refs, whether they are packed or not.
        let loose = match choice.wants(name) {
            true => packable(store, name.to_owned(), id)?,
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

/// Peels a loose ref for packing; `None` if its object is missing.
fn packable(store: &Store, name: BString, id: ObjectId) -> Result<Option<Loose>> {
    let peeled = match store.options.objects.classify(&id)? {
        ObjectClass::Missing => return Ok(None),
        ObjectClass::Tag(to) => to,
        ObjectClass::Commit | ObjectClass::Other => None,
    };
    Ok(Some(Loose { name, id, peeled }))
}

/// Visits the loose refs that can be packed: shared refs that are neither symbolic nor broken.
fn for_each_loose(store: &Arc<Store>, act: &mut dyn FnMut(&BStr, ObjectId) -> Result<()>) -> Result<()> {
    let mut buffer = Vec::new();
    let options = &store.options;
    cursor::loose_names(store, &mut |name| {
        if Scope::of(name) != Scope::Shared || check_format(name, FormatOptions::default()).is_err() {
            return Ok(());
        }
        let Some(path) = store.layout.ref_path(name) else { return Ok(()) };
        match loose::read(&options.fs, options.hash, &path, Rivals::Possible, &mut buffer)? {
            At::Ref(LooseRef::Direct(id)) if !id.is_null() => act(name, id),
            At::Ref(_) | At::Broken(_) | At::Missing | At::Folder => Ok(()),
        }
    })
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
