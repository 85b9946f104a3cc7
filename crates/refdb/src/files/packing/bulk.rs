//! The additional work of a transaction that writes refs into packed-refs. It looks for conflicting writers, because
//! a packed ref has no file that would stop them, and it removes loose files, which would hide the packed values.

use crate::files::{
    lock::set::{self, Locks},
    loose::{
        folders,
        listing::{self, Rivals},
    },
    packed::cache::PackedFile,
    packing::write::{self, PackedEdit},
    probe,
    store::Store,
};
use crate::{Result, TargetView};
use bstr::{BStr, BString, ByteSlice};
use refdb_types::ObjectId;
use refdb_vfs::{AskingOnce, EntryKind, Lock, LockError, LockTimeout};
use std::{
    collections::BTreeSet,
    ffi::OsStr,
    ops::ControlFlow,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Moves the loose values of refs that will change in packed-refs into packed-refs and removes their files, which would
/// hide the new packed values. `loose` are the locked refs with a loose file and their values, in order of name. No
/// reader sees a difference.
pub(crate) fn pack_old_values(store: &Arc<Store>, old: &PackedFile, loose: &[(&BStr, ObjectId)]) -> Result<()> {
    debug_assert!(loose.is_sorted_by(|a, b| a.0 < b.0), "refs are packed in order of name");
    let mut edits = Vec::with_capacity(loose.len());
    for (name, id) in loose {
        edits.push(PackedEdit::Put(name, *id, write::peel(store, id)?));
    }
    write::rewrite(store, old, &mut edits.into_iter())?.publish()?;
    let mut emptied = BTreeSet::new();
    let removed = loose.iter().filter_map(|(name, _)| store.layout.ref_path(name)).try_for_each(|path| {
        emptied.extend(path.parent().map(Path::to_owned));
        store.options.fs.remove_existing(&path)
    });
    if store.options.sync {
        // A file that reappeared after a loss of power would hide the new value, or the next one after a failure.
        for folder in &emptied {
            store.options.fs.sync_dir(folder)?;
        }
    }
    Ok(removed?)
}

/// The positions of the names (which are sorted) that lead through a folder that is a symbolic link, so that their
/// file has a second name. If such a ref were packed under one name, it would be missing under the other. `refs`
/// itself may be a link, because such a link changes the paths of all names alike.
pub(crate) fn through_links<'n>(store: &Store, names: impl Iterator<Item = &'n BStr>) -> Result<BTreeSet<usize>> {
    let mut found = BTreeSet::new();
    // For each folder of the previous name: where it ends in that name, and whether it or a folder above it is a
    // link.
    let mut folders: Vec<(usize, bool)> = Vec::new();
    let mut before: &BStr = Default::default();
    for (at, name) in names.enumerate() {
        debug_assert!(before < name, "the folders of a name are known from the one before: {before} {name}");
        let common = before.iter().zip(name.iter()).take_while(|(one, other)| one == other).count();
        folders.retain(|(end, _)| *end < common);
        let known =
            folders.last().map_or(name.find_byte(b'/').map_or(name.len(), |slash| slash + 1), |(end, _)| end + 1);
        let slashes = name.iter().enumerate().skip(known).filter(|(_, byte)| **byte == b'/').map(|(slash, _)| slash);
        for end in slashes {
            let is_link = match folders.last() {
                Some((_, true)) => true,
                _ => is_link(store, name, end)?,
            };
            folders.push((end, is_link));
        }
        if folders.last().is_some_and(|(_, is_link)| *is_link) {
            found.insert(at);
        }
        before = name;
    }
    Ok(found)
}

/// Returns whether the folder of this name up to `end` is a symbolic link.
fn is_link(store: &Store, name: &BStr, end: usize) -> Result<bool> {
    let folder = store.layout.common_dir.join(OsStr::from_bytes(&name[..end]));
    Ok(store.options.fs.find_link(&folder)?.is_some_and(|stat| stat.is_symlink()))
}

/// The positions of the names (which are sorted) that have a loose file. If the names are not locked, a file that
/// another writer is replacing may be missed.
pub(crate) fn with_loose_file(store: &Store, names: &[&BStr]) -> Result<Vec<usize>> {
    let mut found = Vec::new();
    for_each_folder(store, names, &mut |first, run, folder| {
        let limit = run.len().saturating_mul(LISTED_PER_NAME);
        match listing::list_for_names(&store.options.fs, folder, limit, Rivals::LockedOut)? {
            Some(entries) => {
                let mut entries = entries.iter().peekable();
                for (at, name) in run.iter().enumerate() {
                    let base = base_of(name);
                    while entries.next_if(|entry| entry.name.as_slice() < base).is_some() {}
                    if entries.peek().is_some_and(|entry| entry.name == base) {
                        found.push(first + at);
                    }
                }
            }
            None => {
                for (at, name) in run.iter().enumerate() {
                    match store.options.fs.stat_link(&folder.join(OsStr::from_bytes(base_of(name)))) {
                        Ok(stat) if !stat.is_dir() => found.push(first + at),
                        Ok(_) => {}
                        Err(error) if error.is_not_found() => {}
                        Err(error) => return Err(error.into()),
                    }
                }
            }
        }
        Ok(())
    })?;
    debug_assert!(found.is_sorted_by(|a, b| a < b), "positions ascend with the names");
    Ok(found)
}

/// Listing a folder pays as long as it has at most this many entries for each wanted name.
const LISTED_PER_NAME: usize = 8;

/// Called with the position of the first name of a run, the run and its folder.
type OnFolder<'f, 'n> = dyn FnMut(usize, &[&'n BStr], &Path) -> Result<()> + 'f;

/// Calls `act` for each run of names in one folder.
fn for_each_folder<'n>(store: &Store, names: &[&'n BStr], act: &mut OnFolder<'_, 'n>) -> Result<()> {
    let mut first = 0;
    while let Some(name) = names.get(first) {
        let folder = folder_of(name);
        let len = names[first..].iter().take_while(|name| folder_of(name) == folder).count();
        let path = store.layout.ref_path(name);
        if let Some(folder) = path.as_deref().and_then(Path::parent) {
            act(first, &names[first..first + len], folder)?;
        }
        first += len;
    }
    Ok(())
}

/// The folder of a name, with its slash.
pub(crate) fn folder_of(name: &BStr) -> &[u8] {
    &name[..name.len() - base_of(name).len()]
}

fn base_of(name: &BStr) -> &[u8] {
    &name[name.rfind_byte(b'/').map_or(0, |slash| slash + 1)..]
}

/// Another writer's ref, committed or about to be, whose name conflicts with one of this transaction.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Rival {
    pub(crate) ours: BString,
    pub(crate) theirs: BString,
}

/// Looks for a writer that made its checks against the old packed-refs and so did not see the new refs. The new
/// packed-refs is in place, and the locks are still held.
///
/// - A parent of a new name: its file cannot appear while the folder with our lock exists. Another writer may hold
///   the parent's lock, though, and would commit after us, so we wait for that writer. A writer that locks the parent
///   from now on sees the new refs in packed-refs.
/// - A name below a new one: nothing prevents its file. Either its lock was taken before packed-refs was replaced, so
///   that we wait for its owner, or its owner sees the new refs.
pub(crate) fn find_rival(store: &Store, locks: &Locks, names: &[&BStr]) -> Result<Option<Rival>> {
    debug_assert!(locks.holds_packed(), "the new packed-refs stays until rivals were looked for");
    // What is looked up from now on is newer than the new packed-refs.
    let _asking = AskingOnce::afresh();
    debug_assert!(names.iter().all(|name| locks.holds(name)), "our refs are locked until rivals were looked for");
    let mut parents: BTreeSet<&BStr> = BTreeSet::new();
    for name in names {
        for parent in name.iter().enumerate().rev().filter(|(_, byte)| **byte == b'/').map(|(at, _)| &name[..at]) {
            if !parents.insert(parent.as_bstr()) {
                break;
            }
        }
    }
    for parent in parents {
        if !locks.holds(parent) && !wait_for_rival(store, locks, parent)? {
            let ours = names.iter().find(|name| name.starts_with(parent) && name.get(parent.len()) == Some(&b'/'));
            let ours = ours.map(|name| name.to_vec().into()).unwrap_or_default();
            return Ok(Some(Rival { ours, theirs: parent.to_owned() }));
        }
    }
    let mut rival = None;
    for_each_folder(store, names, &mut |_, run, folder| {
        for name in with_folder(store, run, folder)? {
            if rival.is_none() {
                rival = rival_below(store, locks, name)?;
            }
        }
        Ok(())
    })?;
    Ok(rival)
}

/// The names of a run for which a folder exists at the path of the ref, or a symbolic link that may lead to one.
fn with_folder<'n>(store: &Store, run: &[&'n BStr], folder: &Path) -> Result<Vec<&'n BStr>> {
    debug_assert!(run.is_sorted_by(|a, b| base_of(a) < base_of(b)), "the names of a folder are sorted");
    let mut found = BTreeSet::new();
    let mut seen = 0;
    let listed = store.options.fs.read_dir_with(folder, &mut |entry, kind| {
        seen += 1;
        if matches!(kind, EntryKind::Dir | EntryKind::Symlink)
            && let Ok(at) = run.binary_search_by(|name| base_of(name).cmp(entry))
        {
            found.insert(run[at]);
        }
        if seen > run.len().saturating_mul(LISTED_PER_NAME) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    let is_listed = match listed {
        Err(error) if error.is_not_found() => true,
        Err(error) if error.is_forbidden() => false,
        listed => listed.map(|()| true)?,
    };
    if !is_listed || seen > run.len().saturating_mul(LISTED_PER_NAME) {
        let is_folder = |name: &&&BStr| {
            store.options.fs.stat(&folder.join(OsStr::from_bytes(base_of(name)))).is_ok_and(|stat| stat.is_dir())
        };
        return Ok(run.iter().filter(is_folder).copied().collect());
    }
    Ok(found.into_iter().collect())
}

/// Waits until nobody holds the ref's lock. Returns `Ok(false)` if that takes too long, or if this transaction itself
/// holds the lock.
fn wait_for_rival(store: &Store, locks: &Locks, name: &BStr) -> Result<bool> {
    let Some(path) = store.layout.ref_path(name) else { return Ok(true) };
    for timeout in [LockTimeout::None, set::rival_lock_timeout(store)] {
        match Lock::wait_until_free(&store.options.fs, &path, timeout) {
            Ok(()) => return Ok(true),
            Err(LockError::Held { .. }) if locks.twin(&path).is_some() => break,
            Err(LockError::Held { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(false)
}

/// How many times to wait for writers below a new ref. Writers that begin later see the new ref and give up.
const LOOKS_MAX: usize = 100;

/// Looks for refs below a new one, and waits for writers that hold locks there, until a ref is found or no writer is
/// left. The ref of a writer that does not finish in time is returned like one that exists.
fn rival_below(store: &Store, locks: &Locks, name: &BStr) -> Result<Option<Rival>> {
    debug_assert!(locks.holds(name), "who is below a ref of ours matters as long as it is locked: {name}");
    let mut looks_left = LOOKS_MAX;
    loop {
        let Some(folder) = store.layout.ref_path(name) else { return Ok(None) };
        let mut refs = Vec::new();
        let mut busy = Vec::new();
        look_below(store, &folder, name, &mut refs, &mut busy)?;
        // Locks and refs come from one listing, and the writer of a locked ref may have committed since.
        let rival = refs.into_iter().filter(|theirs| !locks.holds(theirs.as_bstr())).find_map(|theirs| {
            let path = store.layout.ref_path(theirs.as_bstr())?;
            store.options.fs.stat_link(&path).ok().map(|_| theirs)
        });
        if let Some(theirs) = rival {
            return Ok(Some(Rival { ours: name.to_owned(), theirs }));
        }
        busy.retain(|theirs| !locks.holds(theirs.as_bstr()));
        if busy.is_empty() {
            return Ok(None);
        }
        for theirs in busy {
            if looks_left == 0 || !wait_for_rival(store, locks, theirs.as_bstr())? {
                return Ok(Some(Rival { ours: name.to_owned(), theirs }));
            }
        }
        looks_left -= 1;
    }
}

/// Collects in `refs` the refs below a folder, including those of which only the lock is seen, and in `busy` the locked
/// ones.
fn look_below(
    store: &Store,
    folder: &Path,
    name: &BStr,
    refs: &mut Vec<BString>,
    busy: &mut Vec<BString>,
) -> Result<()> {
    let mut pending: Vec<(PathBuf, BString)> = vec![(folder.to_owned(), name.to_owned())];
    while let Some((folder, name)) = pending.pop() {
        let child = |entry: &[u8]| -> BString { [name.as_bytes(), b"/", entry].concat().into() };
        let listed = store.options.fs.read_dir_with(&folder, &mut |entry, kind| {
            match (entry.strip_suffix(b".lock"), kind) {
                (_, EntryKind::Dir) => pending.push((folder.join(OsStr::from_bytes(entry)), child(entry))),
                // This is the new content beside a lock; the lock is listed as well.
                (Some(locked), _) if locked.ends_with(b".lock") => {}
                (Some(locked), _) => {
                    busy.push(child(locked));
                    // The file of this ref may be renamed into place during the listing.
                    refs.push(child(locked));
                }
                (None, _) => refs.push(child(entry)),
            }
            ControlFlow::Continue(())
        });
        match listed {
            Err(error) if error.is_not_found() => {}
            listed => listed?,
        }
    }
    Ok(())
}

/// Returns whether the ref is packed, so that its deletion must rewrite packed-refs. `position` moves forward to the
/// ref.
pub(crate) fn is_packed(old: &PackedFile, position: &mut usize, name: &BStr) -> Result<bool> {
    Ok(probe::look_up(&old.packed, position, name)?.is_some())
}

/// The object of a direct ref; `None` for a symbolic or missing ref.
pub(crate) fn direct(value: Option<TargetView<'_>>) -> Option<ObjectId> {
    match value {
        Some(TargetView::Direct(id)) => Some(id),
        Some(TargetView::Symbolic(_)) | None => None,
    }
}

/// Removes folders that became empty because loose files were removed.
pub(crate) fn remove_emptied(store: &Store, names: &[&BStr]) {
    let _ = for_each_folder(store, names, &mut |_, run, _| {
        if let Some(path) = run.first().and_then(|name| store.layout.ref_path(name)) {
            let base = store.layout.base_path(run[0]);
            folders::remove_empty_parents(&store.options.fs, &base, &path);
        }
        Ok(())
    });
}
