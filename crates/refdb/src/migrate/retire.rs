//! Moves the files of one format away from where readers and writers expect them. Any of these files may have been
//! moved already.

use super::Result;
use super::place::{BLANK_HEAD, BLANK_HEADS, Place, Root, Site, holds, make_folders};
use crate::{
    MigrateError, RefFormat,
    files::{is_symbolic_ref, share},
};
use bstr::{BStr, ByteSlice};
use refdb_types::{is_root_ref, is_root_syntax};
use refdb_vfs::{EntryKind, Lock, Stat};
use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

/// How many times the entries of `refs` are listed and moved at most, because writers may add others meanwhile.
const ROUNDS_MAX: usize = 8;

/// Fails if a folder or file that has refs of a worktree cannot be renamed to another folder of the repository.
pub(super) fn check_movable(site: &Site<'_>, place: &Place) -> Result<()> {
    let device = site.fs.stat(&site.common)?.device;
    site.fs.check_writable(&site.common)?;
    for name in ["", "refs", "logs", "packed-refs", "reftable"] {
        let path = if name.is_empty() { place.dir.clone() } else { place.dir.join(name) };
        let Some(stat) = site.fs.find_link(&path)? else { continue };
        let is_own = |stat: Stat| stat.device == device && !stat.is_symlink();
        // The folder of the repository itself may be reached through a symbolic link.
        if !is_own(stat) && !name.is_empty() {
            return Err(MigrateError::NotMovable(path));
        }
        if stat.is_dir() {
            site.fs.check_writable(&path)?;
        }
    }
    Ok(())
}

/// Fails if a folder of refs or reflogs cannot be moved, or for a symbolic link below `logs`, or one below `refs` or at
/// the root that [`check_ref`] refuses: what the link leads to would stay behind and no longer be read.
pub(super) fn check_trees(site: &Site<'_>, place: &Place) -> Result<()> {
    for path in root_ref_files(site, place)? {
        check_ref(site, path, true)?;
    }
    for (top, has_refs) in [("refs", true), ("logs", false)] {
        let mut waiting = vec![place.dir.join(top)];
        while let Some(folder) = waiting.pop() {
            let entries = match site.fs.read_dir(&folder) {
                Err(error) if error.is_not_found() => continue,
                entries => entries?,
            };
            check_own(site, &folder)?;
            for (name, kind) in entries {
                let path = folder.join(OsStr::from_bytes(&name));
                match kind {
                    EntryKind::Dir => waiting.push(path),
                    EntryKind::Symlink if has_refs => check_ref(site, path, false)?,
                    EntryKind::Symlink => return Err(MigrateError::NotMovable(path)),
                    _ => {}
                }
            }
        }
    }
    Ok(())
}

/// Fails if the file of a ref is a symbolic link. A root ref may be a symbolic ref in this form; one below `refs` would
/// not be copied, because lists of refs leave it out. Any other link is no ref if it leads nowhere, and is accepted.
fn check_ref(site: &Site<'_>, path: PathBuf, is_root: bool) -> Result<()> {
    let Some(content) = site.fs.find_link_content(&path)? else { return Ok(()) };
    let is_ref =
        if is_symbolic_ref(&content) { !is_root } else { site.fs.find(&path).is_ok_and(|found| found.is_some()) };
    if is_ref { Err(MigrateError::NotMovable(path)) } else { Ok(()) }
}

/// Fails if the files of a folder cannot be moved or removed.
fn check_own(site: &Site<'_>, folder: &Path) -> Result<()> {
    const STICKY: u32 = 0o1000;
    site.fs.check_writable(folder)?;
    let (stat, user) = (site.fs.stat(folder)?, refdb_vfs::effective_user());
    if stat.mode & STICKY != 0 && user != 0 && user != stat.uid {
        return Err(MigrateError::Sticky(folder.to_owned()));
    }
    Ok(())
}

/// Removes an empty folder at the path of the new stack, and fails if anything else exists there.
pub(super) fn check_no_stack(site: &Site<'_>, place: &Place) -> Result<()> {
    let folder = place.reftable();
    if site.fs.find_link(&folder)?.is_none() {
        return Ok(());
    }
    match site.fs.remove_dir(&folder) {
        Err(error) if !error.is_not_found() => Err(MigrateError::InTheWay(folder)),
        _ => Ok(()),
    }
}

/// Moves the new files of a migration to `to`, which are not in effect, into the migration's folder.
pub(super) fn undo(site: &Site<'_>, root: &Root, to: RefFormat) -> Result<()> {
    if root.noted(&site.fs)?.is_none() {
        return Ok(());
    }
    match to {
        RefFormat::Reftable => new_stacks(site, root)?,
        RefFormat::Files => {
            remove_unlisted(site, root)?;
            files(site, root)?;
        }
    }
    root.finish(&site.fs, false)
}

/// Returns whether a name is spelt like that of a root ref, but git lists and migrates no ref of it.
pub(super) fn is_unlisted(name: &BStr) -> bool {
    is_root_syntax(name) && !is_root_ref(name)
}

/// Removes the files of unlisted refs that equal those that were built, unlike files that were there before.
fn remove_unlisted(site: &Site<'_>, root: &Root) -> Result<()> {
    for place in &site.places {
        let built = place.below(&root.path);
        let entries = match site.fs.read_dir(&built) {
            Err(error) if error.is_not_found() => continue,
            entries => entries?,
        };
        for (name, _) in entries.iter().filter(|(name, _)| is_unlisted(name.as_bstr())) {
            let name = OsStr::from_bytes(name);
            let path = place.dir.join(name);
            if holds(site, &path, &site.fs.read(&built.join(name))?) {
                site.fs.remove_file(&path)?;
            }
        }
    }
    Ok(())
}

/// Moves the stacks away that the migration has installed. A stack of another program stays, because its refs exist
/// nowhere else.
fn new_stacks(site: &Site<'_>, root: &Root) -> Result<()> {
    assert!(site.format_on_disk()? == RefFormat::Files, "stacks that count stay where they are");
    for place in &site.places {
        let is_built = site.fs.find_link(&place.below(&root.path).join("reftable"))?.is_some();
        if is_built && site.fs.find_link(&place.new_reftable(root))?.is_none() {
            move_away(site, root, place, Path::new("reftable"))?;
        }
    }
    sync(site)
}

/// Moves the stacks away together with their locks, so that a writer that waits for a lock fails.
pub(super) fn stacks(site: &Site<'_>, root: &Root) -> Result<()> {
    assert!(site.format_on_disk()? == RefFormat::Files, "stacks that count stay where they are");
    for place in &site.places {
        move_away(site, root, place, Path::new("reftable"))?;
    }
    sync(site)
}

/// Moves the files away, and puts the placeholders that stand beside reftables in their place.
pub(super) fn files(site: &Site<'_>, root: &Root) -> Result<()> {
    assert!(site.format_on_disk()? == RefFormat::Reftable, "files that count stay where they are");
    for place in &site.places {
        keep_swapped(site, root, place)?;
        prepare_blanks(site, root, place)?;
        refs(site, root, place)?;
        move_away(site, root, place, Path::new("logs"))?;
        if place.id.is_none() {
            move_away(site, root, place, Path::new("packed-refs"))?;
        }
        root_refs(site, root, place)?;
    }
    sync(site)
}

fn sync(site: &Site<'_>) -> Result<()> {
    for place in &site.places {
        site.fs.sync_dir(&place.dir)?;
    }
    Ok(())
}

/// Moves each entry of `refs` once, including locks, so that a writer that is about to rename its lock fails. What
/// writers create again under the same name stays.
fn refs(site: &Site<'_>, root: &Root, place: &Place) -> Result<()> {
    let folder = place.dir.join("refs");
    let heads = folder.join("heads");
    for _ in 0..ROUNDS_MAX {
        let mut entries = match site.fs.read_dir(&folder) {
            Err(error) if error.is_not_found() => {
                site.fs.create_dir(&folder, 0o777)?;
                share(&site.fs, &folder, site.files(&site.common, place).sharing, true)?;
                Vec::new()
            }
            entries => entries?,
        };
        entries.retain(|(name, _)| !(name == b"heads" && holds(site, &heads, BLANK_HEADS)));
        // Branches are moved first: theirs is the only folder that a file then bars, and the sooner it is barred, the
        // fewer writers put branches into it again.
        entries.sort_unstable_by_key(|(name, _)| name != b"heads");
        for (name, _) in &entries {
            if name == b"heads" {
                swap_heads(site, root, place, &heads)?;
            }
            move_away(site, root, place, &Path::new("refs").join(OsStr::from_bytes(name)))?;
            if name == b"heads" {
                bar_heads(site, root, place, &heads)?;
            }
        }
        if entries.is_empty() {
            break;
        }
    }
    bar_heads(site, root, place, &heads)
}

/// Exchanges the folder of branches and the file that bars it, so that a writer finds no gap between the two. If the
/// file system cannot exchange files, the folder is left to [`move_away`].
fn swap_heads(site: &Site<'_>, root: &Root, place: &Place, heads: &Path) -> Result<()> {
    let blank = place.below(&root.blank()).join("heads");
    let is_folder = site.fs.find_link(heads)?.is_some_and(|stat| stat.is_dir());
    if !is_folder || !holds(site, &blank, BLANK_HEADS) || site.fs.find_link(&old_heads(root, place))?.is_some() {
        return Ok(());
    }
    match site.fs.exchange(&blank, heads) {
        Ok(()) => keep_swapped(site, root, place),
        Err(error) if error.is_unsupported() || error.is_not_found() => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Moves the folder of branches, if it has been exchanged, to the other old files. An earlier run may have been
/// interrupted between the exchange and this move.
fn keep_swapped(site: &Site<'_>, root: &Root, place: &Place) -> Result<()> {
    let (blank, old) = (place.below(&root.blank()).join("heads"), old_heads(root, place));
    if !site.fs.find_link(&blank)?.is_some_and(|stat| stat.is_dir()) {
        return Ok(());
    }
    debug_assert!(old.starts_with(&root.path), "old files stay within the migration's folder");
    make_folders(&site.fs, &root.path, &place.below(&root.old()).join("refs"))?;
    Ok(site.fs.rename(&blank, &old)?)
}

fn old_heads(root: &Root, place: &Place) -> PathBuf {
    place.below(&root.old()).join("refs/heads")
}

/// Puts a file in the place of the folder of branches, unless the file is there already. If a writer has recreated the
/// folder with files in it, the folder stays, and the files are reported as [strays](super::Migrated::strays).
fn bar_heads(site: &Site<'_>, root: &Root, place: &Place, heads: &Path) -> Result<()> {
    if holds(site, heads, BLANK_HEADS) || !make_room(site, heads)? {
        return Ok(());
    }
    match site.fs.rename(&place.below(&root.blank()).join("heads"), heads) {
        Err(error) if error.is_folder() || error.is_exists() || error.is_not_found() => Ok(()),
        renamed => Ok(renamed?),
    }
}

/// Returns the files of HEAD and the other root refs.
fn root_ref_files(site: &Site<'_>, place: &Place) -> Result<Vec<PathBuf>> {
    let mut entries = site.fs.read_dir(&place.dir)?;
    entries.retain(|(name, kind)| *kind != EntryKind::Dir && is_root_ref(name.as_bstr()));
    Ok(entries.into_iter().map(|(name, _)| place.dir.join(OsStr::from_bytes(&name))).collect())
}

/// Tries out whatever may fail for root refs before the new format takes effect: a lock may have been left behind, or
/// the disk may have no room for the second name of HEAD. The locks are released again, because a writer of the
/// branch to which HEAD leads also needs the lock of HEAD.
pub(super) fn try_root_refs(site: &Site<'_>, root: &Root, place: &Place) -> Result<()> {
    for file in root_ref_files(site, place)? {
        let lock = Lock::acquire(&site.fs, &file, 0o666, site.lock_timeout())?;
        if file.ends_with("HEAD") {
            keep_head(site, root, place)?;
        }
        lock.release()?;
    }
    Ok(())
}

fn root_refs(site: &Site<'_>, root: &Root, place: &Place) -> Result<()> {
    let mut files = root_ref_files(site, place)?;
    // HEAD comes after all other root refs, as it does when files are put in place.
    files.sort_unstable_by_key(|file| file.ends_with("HEAD"));
    for file in files {
        let lock = Lock::acquire(&site.fs, &file, 0o666, site.lock_timeout())?;
        debug_assert_eq!(lock.target(), file, "a root ref is moved under its own lock");
        match file.strip_prefix(&place.dir) {
            Ok(name) if name != Path::new("HEAD") => move_away(site, root, place, name)?,
            _ => head(site, root, place)?,
        }
        lock.release()?;
    }
    Ok(())
}

/// Adds HEAD to the old files, unless HEAD is the placeholder already. The caller must hold the lock of HEAD.
pub(super) fn keep_head(site: &Site<'_>, root: &Root, place: &Place) -> Result<()> {
    let (head, old) = (place.dir.join("HEAD"), place.below(&root.old()).join("HEAD"));
    make_folders(&site.fs, &root.path, &place.below(&root.old()).join("refs"))?;
    let inode = |path: &Path| site.fs.find_link(path).map(|stat| stat.map(|stat| stat.inode));
    if holds(site, &head, BLANK_HEAD) || inode(&old)?.is_some_and(|kept| Ok(Some(kept)) == inode(&head).map_err(drop)) {
        return Ok(());
    }
    match site.fs.remove_file(&old) {
        Err(error) if !error.is_not_found() => return Err(error.into()),
        _ => {}
    }
    match site.fs.hard_link(&head, &old) {
        Err(error) if error.is_not_found() => Ok(()),
        Err(_) => copy(site, &head, &old),
        Ok(()) => Ok(()),
    }
}

/// Replaces HEAD by its placeholder in one step. HEAD must not be missing even for a moment, because without it the
/// folder is not a repository.
fn head(site: &Site<'_>, root: &Root, place: &Place) -> Result<()> {
    let head = place.dir.join("HEAD");
    keep_head(site, root, place)?;
    if !holds(site, &head, BLANK_HEAD) {
        site.fs.rename(&place.below(&root.blank()).join("HEAD"), &head)?;
    }
    Ok(())
}

/// Copies a file, for a file system that does not support two names for one.
fn copy(site: &Site<'_>, from: &Path, to: &Path) -> Result<()> {
    let content = site.fs.read(from)?;
    let mut file = site.fs.create_afresh(to, 0o666)?;
    file.write_all(&content)?;
    Ok(file.sync()?)
}

/// Moves a file or folder to the old files, if it exists and the old files have none of this name.
fn move_away(site: &Site<'_>, root: &Root, place: &Place, name: &Path) -> Result<()> {
    debug_assert!(name.is_relative() && name != Path::new("HEAD"), "HEAD is never missing");
    let from = place.dir.join(name);
    let to: PathBuf = place.below(&root.old()).join(name);
    debug_assert!(to.starts_with(&root.path), "old files stay within the migration's folder");
    if site.fs.find_link(&from)?.is_none() || site.fs.find_link(&to)?.is_some() {
        return Ok(());
    }
    if let Some(folder) = to.parent() {
        make_folders(&site.fs, &root.path, folder)?;
    }
    match site.fs.rename(&from, &to) {
        Err(error) if error.is_not_found() => Ok(()),
        renamed => Ok(renamed?),
    }
}

/// Writes the placeholders that a repository with reftables has in place of `HEAD` and `refs/heads` into the migration's
/// folder, unless they are there already.
pub(super) fn prepare_blanks(site: &Site<'_>, root: &Root, place: &Place) -> Result<()> {
    let folder = place.below(&root.blank());
    make_folders(&site.fs, &root.path, &folder)?;
    make_folders(&site.fs, &root.path, &place.below(&root.old()))?;
    for (name, content) in [("heads", BLANK_HEADS), ("HEAD", BLANK_HEAD)] {
        let path = folder.join(name);
        if holds(site, &path, content) {
            continue;
        }
        let mut file = site.fs.create_afresh(&path, 0o666)?;
        file.write_all(content)?;
        file.sync()?;
        share(&site.fs, &path, site.files(&site.common, place).sharing, false)?;
    }
    Ok(())
}

/// Moves the placeholder of the folder of branches away, so that the folder can be created.
pub(super) fn take_blanks(site: &Site<'_>, root: &Root, place: &Place) -> Result<()> {
    let heads = place.dir.join("refs/heads");
    if !holds(site, &heads, BLANK_HEADS) {
        return Ok(());
    }
    let folder = place.below(&root.blank());
    make_folders(&site.fs, &root.path, &folder)?;
    Ok(site.fs.rename(&heads, &folder.join("heads"))?)
}

/// Removes empty folders at a path. Returns whether a file or folder can be renamed to the path now: nothing is there,
/// or only the file HEAD, which is replaced.
pub(super) fn make_room(site: &Site<'_>, path: &Path) -> Result<bool> {
    match site.fs.find_link(path)? {
        None => Ok(true),
        Some(stat) if stat.is_dir() => Ok(site.fs.remove_empty_tree(path)?),
        Some(_) => Ok(path.file_name().is_some_and(|name| name == "HEAD")),
    }
}
