//! Checks loose refs: their names, the kind of their files, and their content.

use super::{Check, Looking, Verifier, Worktree, content::verify_target};
use crate::Result;
use bstr::{BStr, BString, ByteSlice};
use refdb_types::{
    FormatOptions, ObjectId, check_format, is_root_ref,
    space::{is_space, trim_end, trim_start},
};
use refdb_vfs::{EntryKind, plain_path};
use std::{ffi::OsStr, os::unix::ffi::OsStrExt, path::Path};

/// Checks the files below `refs/`, then the root refs.
pub(super) fn verify(verifier: &mut Verifier<'_>, worktree: &Worktree) -> Result<()> {
    folder(verifier, worktree, "refs".into())?;
    for (name, kind) in entries(verifier, &worktree.folder, worktree.prefix.clone()) {
        if kind != EntryKind::Dir && is_root_ref(name.as_bstr()) {
            one(verifier, worktree, name.as_bstr(), kind)?;
        }
    }
    Ok(())
}

fn folder(verifier: &mut Verifier<'_>, worktree: &Worktree, name: BString) -> Result<()> {
    // There is no recursion, because folders on the disk may be nested deeply.
    let mut folders = vec![name];
    while let Some(name) = folders.pop() {
        debug_assert!(name == "refs" || name.starts_with(b"refs/"), "the walk stays below refs/: {name}");
        let path = worktree.folder.join(OsStr::from_bytes(&name));
        let mut below = Vec::new();
        let place = BString::from([&worktree.prefix[..], &name].concat());
        for (entry, kind) in entries(verifier, &path, place) {
            let name = BString::from([&name[..], b"/", &entry].concat());
            // A lock file belongs to a writer. A name that begins with a dot is not one of git's locks.
            let is_lock = entry.ends_with(b".lock") && !entry.starts_with(b".");
            match kind {
                EntryKind::Dir => below.push(name),
                _ if is_lock => {}
                _ => one(verifier, worktree, name.as_bstr(), kind)?,
            }
        }
        folders.extend(below.into_iter().rev());
    }
    Ok(())
}

/// A folder's entries in order of name; none if there is no such folder. A folder that cannot be read is reported as a
/// fault and has no entries, so that other folders are still checked.
fn entries(verifier: &mut Verifier<'_>, path: &Path, place: BString) -> Vec<(Vec<u8>, EntryKind)> {
    match verifier.store.fs().read_dir(path) {
        Ok(mut entries) => {
            entries.sort_unstable_by(|a, b| a.0.cmp(&b.0));
            entries
        }
        Err(error) if error.is_not_found() => Vec::new(),
        Err(error) => {
            verifier.fault(place.as_bstr(), Check::BadRefContent, error.to_string());
            Vec::new()
        }
    }
}

/// Checks one file. In reports, the worktree's prefix precedes the name of the ref.
fn one(verifier: &mut Verifier<'_>, worktree: &Worktree, name: &BStr, kind: EntryKind) -> Result<()> {
    debug_assert!(is_root_ref(name) || name.starts_with(b"refs/"), "others' files are not looked at: {name}");
    let place = BString::from([&worktree.prefix[..], name].concat());
    let place = place.as_bstr();
    verifier.looking(Looking::Ref(place.to_owned()));
    // The id of a linked worktree is a part of its refs' names, so it is checked as well.
    if !is_root_ref(place) && check_format(place, FormatOptions::default()).is_err() {
        verifier.fault(place, Check::BadRefName, "invalid refname format");
    }
    let path = worktree.folder.join(OsStr::from_bytes(name));
    match kind {
        EntryKind::Symlink => link(verifier, place, name, &path),
        EntryKind::File => file(verifier, place, name, &path),
        EntryKind::Dir | EntryKind::Other => {
            verifier.fault(place, Check::BadRefFiletype, "unexpected file type");
            Ok(())
        }
    }
}

/// Checks a symbolic link. The path to which it leads is the refname: relative to the folder of the shared refs if the
/// path lies there, and otherwise whole.
fn link(verifier: &mut Verifier<'_>, place: &BStr, name: &BStr, path: &Path) -> Result<()> {
    verifier.fault(place, Check::SymlinkRef, "use deprecated symbolic link for symref");
    let Some(content) = verifier.store.fs().find_link_content(path)? else { return Ok(()) };
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let led = plain_path(&real(path.parent().unwrap_or(path)).join(content));
    let target = led.strip_prefix(real(verifier.store.repository().refs_dir())).unwrap_or(&led);
    verify_target(verifier, place, name, target.as_os_str().as_bytes().as_bstr());
    Ok(())
}

fn file(verifier: &mut Verifier<'_>, place: &BStr, name: &BStr, path: &Path) -> Result<()> {
    let content = match verifier.store.fs().read(path) {
        // A zero byte ends the content, as for readers.
        Ok(mut content) => {
            content.truncate(content.find_byte(0).unwrap_or(content.len()));
            content
        }
        Err(error) if error.is_not_found() => return Ok(()),
        Err(error) => {
            verifier.fault(place, Check::BadRefContent, error.to_string());
            return Ok(());
        }
    };
    if let Some(rest) = content.strip_prefix(b"ref:") {
        symbolic(verifier, place, name, rest);
        return Ok(());
    }
    let hash = verifier.store.hash();
    let id = content.get(..hash.len_hex()).and_then(|hex| ObjectId::from_hex(hash, hex).ok());
    let Some(id) = id.filter(|_| content.get(hash.len_hex()).is_none_or(is_space)) else {
        verifier.fault(place, Check::BadRefContent, trim_end(&content));
        return Ok(());
    };
    match &content[hash.len_hex()..] {
        b"\n" if id.is_null() => {
            verifier.fault(place, Check::BadRefOid, format!("points to invalid object ID '{id}'"));
        }
        b"\n" => {}
        b"" => verifier.fault(place, Check::RefMissingNewline, "misses LF at the end"),
        rest => {
            let what = [b"has trailing garbage: '", rest, b"'"].concat();
            verifier.fault(place, Check::TrailingRefContent, what);
        }
    }
    verifier.object(place, name, &id)
}

fn symbolic(verifier: &mut Verifier<'_>, place: &BStr, name: &BStr, rest: &[u8]) {
    let written = trim_start(rest);
    let target = trim_end(written);
    let spare = written.len() - target.len();
    if spare == 0 || written.last() != Some(&b'\n') {
        verifier.fault(place, Check::RefMissingNewline, "misses LF at the end");
    }
    if spare > 1 || spare == 1 && written.last() != Some(&b'\n') {
        verifier.fault(place, Check::TrailingRefContent, "has trailing whitespaces or newlines");
    }
    verify_target(verifier, place, name, target.as_bstr());
}
