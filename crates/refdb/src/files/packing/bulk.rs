//! The further duties of a transaction that writes many refs into packed-refs. A packed ref leaves no path in the file
//! system for others to collide with.

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
use refdb_vfs::{EntryKind, Lock, LockError, Patience};
use std::{
    collections::BTreeSet,
    ffi::OsStr,
    ops::ControlFlow,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Moves the loose values of refs that will be written to packed-refs there, and removes their files. Otherwise the old
/// loose values would hide the new packed ones. `loose` are the locked refs that have a loose file, with their values,
/// in order. No reader sees a difference.
pub(crate) fn pack_old_values(store: &Arc<Store>, old: &PackedFile, loose: &[(&BStr, ObjectId)]) -> Result<()> {
    debug_assert!(loose.is_sorted_by(|a, b| a.0 < b.0), "refs are packed in order of name");
    let mut edits = Vec::with_capacity(loose.len());
    for (name, id) in loose {
        edits.push(PackedEdit::Put(name, *id, write::peel(store, id)?));
    }
    write::rewrite(store, old, &mut edits.into_iter())?.publish()?;
    let mut emptied = BTreeSet::new();
    for (name, _) in loose {
        let Some(path) = store.layout.ref_path(name) else { continue };
        store.options.fs.remove_file(&path)?;
        emptied.extend(path.parent().map(Path::to_owned));
    }
    if store.options.sync {
        // A file that came back after a loss of power would hide the new value.
        for folder in &emptied {
            store.options.fs.sync_dir(folder)?;
        }
    }
    Ok(())
}

/// The positions of the names, sorted, whose file has another name. A folder on the way to such a file is a symbolic
/// link. Packed under the one name, the ref would be gone under the other. `refs` itself is a link for both.
pub(crate) fn through_links<'n>(store: &Store, names: impl Iterator<Item = &'n BStr>) -> Result<BTreeSet<usize>> {
    let mut found = BTreeSet::new();
    // The folders of the name before. Each has its end in that name, and whether it or one above it is a link.
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

/// Whether the folder of this name up to `end` is a symbolic link.
fn is_link(store: &Store, name: &BStr, end: usize) -> Result<bool> {
    let folder = store.layout.common_dir.join(OsStr::from_bytes(&name[..end]));
    Ok(store.options.fs.find_link(&folder)?.is_some_and(|stat| stat.is_symlink()))
}

/// The positions of the names, sorted, that have a loose file; their locks are held.
pub(crate) fn with_loose_file(store: &Store, names: &[&BStr]) -> Result<Vec<usize>> {
    let mut found = Vec::new();
    for_each_folder(store, names, &mut |first, run, folder| {
        let limit = run.len().saturating_mul(LISTED_PER_NAME);
        match listing::list(&store.options.fs, folder, limit, Rivals::LockedOut)? {
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

/// Listing a folder is worth while up to this number of entries for each wanted name in it.
const LISTED_PER_NAME: usize = 8;

/// Takes the position of the first name of a run, the run and its folder.
type OnFolder<'f, 'n> = dyn FnMut(usize, &[&'n BStr], &Path) -> Result<()> + 'f;

/// Calls `act` for each run of names in one folder.
fn for_each_folder<'n>(store: &Store, names: &[&'n BStr], act: &mut OnFolder<'_, 'n>) -> Result<()> {
    let folder_of = |name: &BStr| name.len() - base_of(name).len();
    let mut first = 0;
    while let Some(name) = names.get(first) {
        let folder = &name[..folder_of(name)];
        let len = names[first..].iter().take_while(|name| name[..folder_of(name)] == *folder).count();
        let path = store.layout.ref_path(name);
        if let Some(folder) = path.as_deref().and_then(Path::parent) {
            act(first, &names[first..first + len], folder)?;
        }
        first += len;
    }
    Ok(())
}

fn base_of(name: &BStr) -> &[u8] {
    &name[name.rfind_byte(b'/').map_or(0, |slash| slash + 1)..]
}

/// Someone else's ref, committed or about to be, that cannot stand beside one of ours.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Rival {
    pub(crate) ours: BString,
    pub(crate) theirs: BString,
}

/// Looks for a writer that checked the old packed-refs and so did not see our refs. The new packed-refs is in place,
/// and the locks are still held.
///
/// - A parent of ours: its file cannot appear while the folder with our lock is there. Another writer may hold its
///   lock, though, and would commit once we are gone. A writer that locks it from now on sees our refs in packed-refs.
/// - A child of ours: nothing keeps its file from appearing. Its lock was made before packed-refs was replaced, or its
///   owner sees our refs.
pub(crate) fn find_rival(store: &Store, locks: &Locks, names: &[&BStr]) -> Result<Option<Rival>> {
    debug_assert!(locks.holds_packed(), "the new packed-refs stays until rivals were looked for");
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

/// The names of one folder whose path is a folder itself.
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
    match listed {
        Err(error) if error.is_not_found() => {}
        listed => listed?,
    }
    if seen > run.len().saturating_mul(LISTED_PER_NAME) {
        let is_folder = |name: &&&BStr| {
            store.options.fs.stat(&folder.join(OsStr::from_bytes(base_of(name)))).is_ok_and(|stat| stat.is_dir())
        };
        return Ok(run.iter().filter(is_folder).copied().collect());
    }
    Ok(found.into_iter().collect())
}

/// Waits until nobody holds the ref's lock. `Ok(false)` if that takes too long, or the lock is one of ours.
fn wait_for_rival(store: &Store, locks: &Locks, name: &BStr) -> Result<bool> {
    let Some(path) = store.layout.ref_path(name) else { return Ok(true) };
    for patience in [Patience::None, set::patience_for_rivals(store)] {
        match Lock::wait_until_free(&store.options.fs, &path, patience) {
            Ok(()) => return Ok(true),
            Err(LockError::Held { .. }) if locks.twin(&path).is_some() => break,
            Err(LockError::Held { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(false)
}

/// So often those are waited for who are busy below a ref of ours. New ones cannot go on, since they see our ref.
const LOOKS_MAX: usize = 100;

/// Looks below a ref of ours, and waits for writers that are busy there. Ends when there is a ref or no writer is left.
fn rival_below(store: &Store, locks: &Locks, name: &BStr) -> Result<Option<Rival>> {
    debug_assert!(locks.holds(name), "who is below a ref of ours matters as long as it is locked: {name}");
    let mut looks_left = LOOKS_MAX;
    loop {
        let Some(folder) = store.layout.ref_path(name) else { return Ok(None) };
        let mut refs = Vec::new();
        let mut busy = Vec::new();
        look_below(store, &folder, name, &mut refs, &mut busy)?;
        // Locks were looked for with their refs in one listing; who was busy then may have committed since.
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

/// Collects the refs below a folder, and those whose lock is held.
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
                // The content of a signed lock, which is there as well.
                (Some(locked), _) if locked.ends_with(b".lock") => {}
                (Some(locked), _) => {
                    busy.push(child(locked));
                    // It may be renamed from its lock while we list.
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

/// Whether the ref is packed: whether deleting it needs packed-refs rewritten. `position` goes forward to it.
pub(crate) fn is_packed(old: &PackedFile, position: &mut usize, name: &BStr) -> Result<bool> {
    Ok(probe::look_up(&old.packed, position, name)?.is_some())
}

/// The object of a direct value.
pub(crate) fn direct(value: Option<TargetView<'_>>) -> Option<ObjectId> {
    match value {
        Some(TargetView::Direct(id)) => Some(id),
        Some(TargetView::Symbolic(_)) | None => None,
    }
}

/// Removes the folders that were emptied by removing loose files.
pub(crate) fn remove_emptied(store: &Store, names: &[&BStr]) {
    let _ = for_each_folder(store, names, &mut |_, run, _| {
        if let Some(path) = run.first().and_then(|name| store.layout.ref_path(name)) {
            let base = store.layout.base_path(run[0]);
            folders::remove_empty_parents(&store.options.fs, &base, &path);
        }
        Ok(())
    });
}
