//! pack-refs: moves loose refs into packed-refs.

use super::{
    bulk, cursor, dead_locks,
    locks::patience_for_packed,
    loose::{self, At, LooseRef},
    packed_cache::PackedFile,
    packed_write::{self, PackedEdit},
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
use refdb_vfs::{Lock, LockError, Patience};
use std::{collections::BTreeSet, path::Path, sync::Arc};

/// See [`Backend::optimize`](crate::Backend::optimize).
pub(super) fn optimize(store: &Arc<Store>, options: &OptimizeOptions) -> Result<Optimized> {
    let choice = Choice::new(options);
    if options.auto {
        let (count, optimized) = count_loose(store, &choice)?;
        if !is_worth_while(count, store.packed_len_bytes()?) {
            return Ok(optimized);
        }
    }
    let target = store.packed_target()?;
    let mut lock = Lock::acquire(&store.options.fs, &target, 0o666, patience_for_packed(store))?;
    lock.close();
    store.check_format()?;
    if options.prune {
        dead_locks::clear(&store.options.fs, &store.layout.common_dir.join("refs"))?;
    }
    let (loose, optimized) = loose_refs(store, &choice)?;
    let old = examined_packed(store)?;
    if loose.is_empty() && is_as_we_write(&old)? {
        return Ok(optimized);
    }
    let mut edits = loose.iter().map(|loose| PackedEdit::Put(loose.name.as_bstr(), loose.id, loose.peeled));
    packed_write::rewrite(store, &old, &mut edits)?.publish()?;
    if options.prune {
        prune(store, &loose, lock.path())?;
    }
    // Held until now. Otherwise a ref that was deleted and created again meanwhile would be pruned though it is no
    // longer packed.
    lock.release()?;
    Ok(optimized)
}

/// See [`Backend::plan_optimize`](crate::Backend::plan_optimize).
pub(super) fn plan(store: &Arc<Store>, options: &OptimizeOptions) -> Result<OptimizePlan> {
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

/// Here is time to look at all of it, so that an order that is none is not written again.
fn examined_packed(store: &Arc<Store>) -> Result<Arc<PackedFile>> {
    let old = store.packed()?;
    if old.packed.is_copyable() && !old.packed.is_sorted()? {
        return store.packed();
    }
    Ok(old)
}

/// Whether packed-refs is there, and as we would write it.
fn is_as_we_write(old: &PackedFile) -> Result<bool> {
    Ok(old.file.is_some() && old.packed.is_copyable() && old.packed.has_own_header()?)
}

/// git 2.55's rule for --auto: the more is packed, the more loose refs must there be. It takes 100 bytes for the size
/// of a packed ref.
fn is_worth_while(loose: usize, packed_len_bytes: u64) -> bool {
    let refs = packed_len_bytes / 100;
    let log2 = u64::from(refs.checked_ilog2().unwrap_or(0));
    loose as u64 >= (log2 * 5).max(16)
}

/// Which refs are packed.
struct Choice<'o> {
    options: &'o OptimizeOptions,
}

impl<'o> Choice<'o> {
    fn new(options: &'o OptimizeOptions) -> Self {
        Choice { options }
    }

    fn wants(&self, name: &BStr) -> bool {
        let matches = |patterns: &[String]| {
            patterns.iter().any(|pattern| wildmatch(pattern.as_bytes().as_bstr(), name, wildmatch::Mode::empty()))
        };
        let by_default = self.options.include.is_empty() && name.starts_with(b"refs/tags/");
        !matches(&self.options.exclude) && (self.options.all || by_default || matches(&self.options.include))
    }
}

/// A loose ref that is being packed.
struct Loose {
    name: BString,
    id: ObjectId,
    peeled: Option<ObjectId>,
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

/// The chosen loose refs.
fn loose_refs(store: &Arc<Store>, choice: &Choice<'_>) -> Result<(Vec<Loose>, Optimized)> {
    let (mut refs, mut optimized) = (Vec::new(), Optimized::default());
    let objects = &store.options.objects;
    for_each_loose(store, &mut |name, id| {
        // As git does, all refs are held against the objects, be they packed or not.
        let class = match choice.wants(name) {
            true => objects.classify(&id)?,
            false if objects.exists(&id)? => return Ok(()),
            false => ObjectClass::Missing,
        };
        let peeled = match class {
            ObjectClass::Missing => {
                optimized.missing.push(name.to_owned());
                return Ok(());
            }
            ObjectClass::Tag(to) => to,
            ObjectClass::Commit | ObjectClass::Other => None,
        };
        refs.push(Loose { name: name.to_owned(), id, peeled });
        Ok(())
    })?;
    debug_assert!(refs.is_sorted_by(|a: &Loose, b| a.name < b.name), "loose refs are found in order of name");
    Ok((refs, optimized))
}

/// The loose refs that could be packed: neither symbolic nor broken ones, nor those of a worktree.
fn for_each_loose(store: &Arc<Store>, act: &mut dyn FnMut(&BStr, ObjectId) -> Result<()>) -> Result<()> {
    let mut buffer = Vec::new();
    let options = &store.options;
    cursor::loose_names(store, &mut |name| {
        if Scope::of(name) != Scope::Shared || check_format(name, FormatOptions::default()).is_err() {
            return Ok(());
        }
        let Some(path) = store.layout.ref_path(name) else { return Ok(()) };
        match loose::read(&options.fs, options.hash, &path, &mut buffer)? {
            At::Ref(LooseRef::Direct(id)) if !id.is_null() => act(name, id),
            At::Ref(_) | At::Broken(_) | At::Missing | At::Folder => Ok(()),
        }
    })
}

/// Removes the loose files whose values are packed now. Each is removed under its lock, and only if it still has that
/// value. A ref that someone is writing stays loose. packed-refs is locked, so no lock is waited for.
fn prune(store: &Arc<Store>, refs: &[Loose], seed: &Path) -> Result<()> {
    let options = &store.options;
    let (mut buffer, mut emptied) = (Vec::new(), BTreeSet::new());
    for Loose { name, id, .. } in refs {
        let Some(path) = store.layout.ref_path(name.as_bstr()) else { continue };
        let lock = match Lock::acquire_linked(&options.fs, &path, seed, Patience::None) {
            Err(LockError::Io(error)) if !error.is_not_found() => {
                Lock::acquire_unsigned(&options.fs, &path, 0o666, Patience::None)
            }
            locked => locked,
        };
        let lock = match lock {
            Ok(lock) => lock,
            Err(LockError::Held { .. }) => continue,
            Err(LockError::Io(error)) if error.is_not_found() => continue,
            Err(error) => return Err(error.into()),
        };
        match loose::read(&options.fs, options.hash, &path, &mut buffer)? {
            At::Ref(LooseRef::Direct(now)) if now == *id => options.fs.remove_file(&path)?,
            // A link to a ref that was pruned before it: git would not find the packed value behind it.
            At::Missing if options.fs.read_link(&path).is_ok() => options.fs.remove_file(&path)?,
            _ => {}
        }
        lock.release()?;
        if options.sync
            && let Some(folder) = path.parent().filter(|folder| !emptied.contains(*folder))
        {
            emptied.insert(folder.to_owned());
        }
    }
    // A loose file that came back after a loss of power would hide what packed-refs gets next.
    for folder in &emptied {
        match options.fs.sync_dir(folder) {
            Err(error) if error.is_not_found() => {}
            synced => synced?,
        }
    }
    debug_assert!(refs.iter().all(|loose| !loose.id.is_null()), "a null id is not packed");
    let names: Vec<&BStr> = refs.iter().map(|loose| loose.name.as_bstr()).collect();
    bulk::remove_emptied(store, &names);
    Ok(())
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
