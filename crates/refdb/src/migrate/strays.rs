//! Finds files where the other format has its refs. A program that opened the repository before it was migrated may
//! have written them.

use super::Result;
use super::place::{BLANK_HEAD, BLANK_HEADS, Place, Site, holds};
use super::retire::is_unlisted;
use crate::{
    Error, MigrateError, RefFormat, Store,
    files::{AtLoosePath, Rivals, read_loose},
};
use bstr::{BStr, BString, ByteSlice};
use refdb_types::{is_file_of_git, is_pseudo, is_root_ref};
use refdb_vfs::EntryKind;
use reftable::stack::Stack;
use std::{
    collections::BTreeSet,
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

/// Maximum number of files that an error names.
const NAMED_MAX: usize = 10;

/// Implements [`Store::strays`].
pub(super) fn all(store: &Store) -> Result<Vec<BString>, Error> {
    match Site::to_look_at(store) {
        Ok(site) => of(&site, store.repository().ref_format(), Unlisted::Told),
        Err(MigrateError::Store(error)) => Err(error),
        // In a repository that cannot be migrated, such as one whose refs are in another folder, no strays are sought.
        Err(_) => Ok(Vec::new()),
    }
}

/// What to do with the files of refs such as `TEMP_TAG`, which git neither lists nor migrates. They stay where they are,
/// and are read again after a migration to files.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Unlisted {
    Told,
    PassedOver,
}

/// Returns the stray refs beside refs of this format.
pub(super) fn of(site: &Site<'_>, format: RefFormat, unlisted: Unlisted) -> Result<Vec<BString>, Error> {
    let mut found = Vec::new();
    for place in &site.places {
        match format {
            RefFormat::Reftable => files(site, place, unlisted, &mut found)?,
            RefFormat::Files => {
                if site.fs.find(&Stack::list_path_in(&place.reftable()))?.is_some() {
                    found.push(shown(site, &place.reftable()));
                }
            }
        }
    }
    Ok(found)
}

/// Fails if files other than reflogs, or reflogs together with their refs, lie where the files format has its refs.
/// Returns the reflogs that lie there without their refs, and removes them unless this is a dry run.
pub(super) fn clear(site: &Site<'_>, dry_run: bool) -> Result<Vec<BString>> {
    let found: BTreeSet<BString> = of(site, RefFormat::Reftable, Unlisted::PassedOver)?.into_iter().collect();
    let (logs, mut refs): (Vec<_>, Vec<_>) = found.iter().cloned().partition(|path| is_lone_log(site, path, &found));
    if refs.is_empty() {
        let removed = if dry_run { &[] } else { &logs[..] };
        removed.iter().try_for_each(|log| remove(site, log.as_bstr()))?;
        return Ok(logs);
    }
    let more = refs.len().saturating_sub(NAMED_MAX);
    refs.truncate(NAMED_MAX);
    Err(MigrateError::Strays { found: refs, more })
}

/// Removes a stray file. Fails if a folder in its path has become a symbolic link.
fn remove(site: &Site<'_>, path: &BStr) -> Result<()> {
    let path = Path::new(OsStr::from_bytes(path));
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { unreachable!("a reflog is in a folder") };
    Ok(site.fs.folder(&site.common)?.below(folder)?.remove_file(name)?)
}

/// Returns whether `path` is that of a reflog whose ref is not among the files found. Writers of files write the reflog
/// first, so the writer of such a reflog failed when it came to the ref.
fn is_lone_log(site: &Site<'_>, path: &BString, found: &BTreeSet<BString>) -> bool {
    let path = site.common.join(OsStr::from_bytes(path));
    let of_log = |place: &Place| path.strip_prefix(place.dir.join("logs")).ok().map(|name| place.dir.join(name));
    // The contents of a packed-refs that was written late are not known.
    let has_ref = |file: PathBuf| found.contains(&shown(site, &file)) || found.contains(BStr::new("packed-refs"));
    site.places.iter().find_map(of_log).is_some_and(|file| !has_ref(file))
}

fn files(site: &Site<'_>, place: &Place, unlisted: Unlisted, found: &mut Vec<BString>) -> Result<(), Error> {
    let heads = place.dir.join("refs/heads");
    for folder in ["refs", "logs"] {
        let mut waiting: Vec<PathBuf> = vec![place.dir.join(folder)];
        while let Some(folder) = waiting.pop() {
            let entries = match site.fs.read_dir(&folder) {
                Err(error) if error.is_not_found() => continue,
                entries => entries?,
            };
            for (name, kind) in entries {
                let path = folder.join(OsStr::from_bytes(&name));
                if kind == EntryKind::Dir {
                    waiting.push(path);
                } else if !(path == heads && holds(site, &path, BLANK_HEADS)) {
                    found.push(shown(site, &path));
                }
            }
        }
    }
    for (name, kind) in site.fs.read_dir(&place.dir)? {
        let path = place.dir.join(OsStr::from_bytes(&name));
        let is_packed = name == b"packed-refs" && place.id.is_none();
        let is_ref = match is_root_ref(name.as_bstr()) {
            true => !(name == b"HEAD" && holds(site, &path, BLANK_HEAD)),
            false => unlisted == Unlisted::Told && is_unlisted_ref(site, &path, name.as_bstr()),
        };
        if kind != EntryKind::Dir && (is_packed || is_ref) {
            found.push(shown(site, &path));
        }
    }
    found.sort_unstable();
    Ok(())
}

/// Returns whether this is the file of an unlisted ref, such as `TEMP_TAG`: one whose name is spelt like that of a root
/// ref but is none, nor that of a pseudo ref or another file of git.
fn is_unlisted_ref(site: &Site<'_>, path: &Path, name: &BStr) -> bool {
    let may_be_ref = is_unlisted(name) && !is_pseudo(name) && !is_file_of_git(name);
    let read = |buffer: &mut Vec<u8>| {
        let read = read_loose(&site.fs, site.store.hash(), path, Rivals::Possible, buffer);
        matches!(read, Ok(AtLoosePath::Ref(_)))
    };
    may_be_ref && read(&mut Vec::new())
}

fn shown(site: &Site<'_>, path: &Path) -> BString {
    path.strip_prefix(&site.common).unwrap_or(path).as_os_str().as_bytes().into()
}
