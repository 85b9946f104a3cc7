//! Reads, appends to, removes and lists the reflogs of a store by the names of their refs.

use crate::files::{
    loose::{folders, listing},
    reflog::line::{encode, parse},
    store::Store,
};
use crate::{Rejection, RejectionReason, Result, backend::LogLine};
use bstr::{BStr, BString, ByteSlice};
use refdb_repo::config::SharedRepository;
use refdb_types::{FormatOptions, LogEntry, RefName, Scope, check_format, qualified_name};
use refdb_vfs::File;
use std::{
    ffi::OsStr,
    io::ErrorKind,
    ops::ControlFlow,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

/// The number of bytes that are read at a time while a reflog is read backwards from its end: more while a line is
/// longer, fewer at the start of the file.
const BLOCK_LEN: usize = 8192;

/// Returns whether a ref has a reflog of its own. As in git, a symbolic link is not the ref's own reflog, so that
/// another ref's reflog is not subject to this ref's rules.
pub(crate) fn exists(store: &Store, name: &BStr) -> Result<bool> {
    let Some(path) = store.layout.log_path(name) else { return Ok(false) };
    match store.options.fs.find_link(&path) {
        Err(error) if error.is_too_long() => Ok(false),
        stat => Ok(stat?.is_some_and(|stat| stat.is_file())),
    }
}

/// Returns whether an entry would be appended to an existing file, which may be reached through a symbolic link.
fn is_written(store: &Store, name: &BStr) -> Result<bool> {
    let Some(path) = store.layout.log_path(name) else { return Ok(false) };
    match store.options.fs.stat(&path) {
        Ok(stat) => Ok(!stat.is_dir()),
        Err(error) if error.is_not_found() => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Passes the positions of the names (which are sorted) that have a reflog, even behind a symbolic link, to `found`.
/// Files below a missing folder are not looked for, because many servers keep no reflogs and write thousands of refs at
/// once.
pub(crate) fn having(
    store: &Store,
    names: &mut dyn Iterator<Item = &BStr>,
    found: &mut dyn FnMut(usize) -> Result<()>,
) -> Result<()> {
    // The last folder of refs, with its slash, that is missing below `logs`, and the last one that exists there.
    let (mut missing, mut there) = (Vec::new(), Vec::new());
    for (at, name) in names.enumerate() {
        if !missing.is_empty() && name.starts_with(&missing) {
            continue;
        }
        if is_written(store, name)? {
            found(at)?;
            continue;
        }
        let folder = name.rfind_byte(b'/').map_or(0, |slash| slash + 1);
        if name[..folder] == there {
            continue;
        }
        let lacking = highest_missing(store, name);
        let list = if lacking.is_some() { &mut missing } else { &mut there };
        list.clear();
        list.extend_from_slice(&name[..lacking.unwrap_or(folder)]);
    }
    Ok(())
}

/// The length of the part of a ref's name, with its slash, that names the highest missing folder above the ref's
/// reflog; `None` if no folder is missing. Only folders below `refs` are considered, because the shared refs and those
/// of a worktree each have their own `logs/refs`.
fn highest_missing(store: &Store, name: &BStr) -> Option<usize> {
    const ABOVE: &[u8] = b"refs/";
    if !name.starts_with(ABOVE) {
        return None;
    }
    let slashes = name.rfind_iter(b"/").filter(|slash| *slash > ABOVE.len());
    let is_missing = |slash: &usize| {
        let path = store.layout.log_path(name[..*slash].as_bstr());
        path.is_some_and(|path| store.options.fs.stat(&path).is_err_and(|error| error.is_not_found()))
    };
    slashes.take_while(is_missing).last().map(|slash| slash + 1)
}

/// Implements [`Snapshot::log`](crate::Snapshot::log).
pub(crate) fn read(store: &Store, name: &BStr, entry: &mut dyn FnMut(&LogEntry) -> ControlFlow<()>) -> Result<bool> {
    read_counting(store, name, &mut 0, entry)
}

/// Visits the entries of a reflog from the newest on, and counts the broken ones among the complete lines that it
/// passes. Returns whether there is a reflog.
pub(crate) fn read_counting(
    store: &Store,
    name: &BStr,
    skipped: &mut u64,
    entry: &mut dyn FnMut(&LogEntry) -> ControlFlow<()>,
) -> Result<bool> {
    let Some(path) = store.layout.log_path(name) else { return Ok(false) };
    let file = match store.options.fs.open(&path) {
        Ok(file) => file,
        Err(error) if error.is_not_found() => return Ok(false),
        Err(error) => return Err(error.into()),
    };
    let stat = file.stat()?;
    if stat.is_dir() {
        return Ok(false);
    }
    let lines = LinesFromEnd { file: Some(file), start: stat.len_bytes, pending: Vec::new() };
    entries(store, lines, skipped, entry)?;
    Ok(true)
}

/// Visits the entries in a reflog's bytes from the newest on, and counts the broken ones among the complete lines that
/// it passes.
pub(crate) fn entries_in(
    store: &Store,
    bytes: Vec<u8>,
    skipped: &mut u64,
    entry: &mut dyn FnMut(&LogEntry) -> ControlFlow<()>,
) -> Result<()> {
    entries(store, LinesFromEnd { file: None, start: 0, pending: bytes }, skipped, entry)
}

fn entries(
    store: &Store,
    mut lines: LinesFromEnd,
    skipped: &mut u64,
    entry: &mut dyn FnMut(&LogEntry) -> ControlFlow<()>,
) -> Result<()> {
    while let Some(line) = lines.next()? {
        match parse(store.options.hash, &line) {
            None => *skipped += 1,
            Some(parsed) if entry(&parsed).is_break() => break,
            Some(_) => {}
        }
    }
    Ok(())
}

/// Iterates over the lines of a reflog, the last one first. A last line without a newline is skipped, because it is
/// still being written or was torn by a crash.
struct LinesFromEnd {
    /// `None` if all bytes were given, so that there is nothing to read.
    file: Option<File>,
    /// The offset before which nothing has been read yet.
    start: u64,
    /// The bytes that were read but not returned. They end with the newline of the next line to return, except that an
    /// incomplete last line follows until the first line is returned.
    pending: Vec<u8>,
}

impl LinesFromEnd {
    fn next(&mut self) -> Result<Option<Vec<u8>>> {
        loop {
            if let Some(end) = self.pending.rfind_byte(b'\n') {
                self.pending.truncate(end + 1);
                let before = self.pending[..end].rfind_byte(b'\n');
                if before.is_some() || self.start == 0 {
                    let line_start = before.map_or(0, |newline| newline + 1);
                    let line = self.pending[line_start..end].to_vec();
                    self.pending.truncate(line_start);
                    return Ok(Some(line));
                }
            } else if self.start == 0 {
                return Ok(None);
            }
            // Blocks double in length while a line continues, so that its bytes are moved only a few times.
            let want = self.pending.len().max(BLOCK_LEN) as u64;
            let from = self.start.saturating_sub(want);
            debug_assert!(from < self.start, "each block lies before the one that was read: {from}");
            let mut block = vec![0; usize::try_from(self.start - from).unwrap_or(BLOCK_LEN)];
            let Some(file) = &self.file else { unreachable!("what was not read lies in a file") };
            file.read_exact_at(&mut block, from)?;
            block.extend_from_slice(&self.pending);
            self.pending = block;
            self.start = from;
        }
    }
}

/// Appends to reflogs with one write(2) for each entry.
pub(crate) struct Writer<'s> {
    store: &'s Store,
    /// The reflogs that did not exist before. The list is complete only with `track`.
    pub(crate) created: Vec<PathBuf>,
    track: bool,
    line: Vec<u8>,
}

impl<'s> Writer<'s> {
    /// Creates a writer. With `track`, the writer notes which reflogs are new, in case they must be removed again.
    pub(crate) fn new(store: &'s Store, track: bool) -> Self {
        Writer { store, created: Vec::new(), track, line: Vec::new() }
    }

    /// Appends a line to a ref's reflog, which is created if necessary.
    pub(crate) fn append(&mut self, name: &BStr, line: &LogLine<'_>) -> Result<()> {
        self.line.clear();
        encode(line, &mut self.line);
        let line = std::mem::take(&mut self.line);
        let appended = self.append_bytes(name, &line);
        self.line = line;
        appended
    }

    fn append_bytes(&mut self, name: &BStr, line: &[u8]) -> Result<()> {
        let Some(path) = self.store.layout.log_path(name) else { return Ok(()) };
        let mut file = match self.open(&path) {
            // Empty folders of removed reflogs may be in the place of the file.
            Err(error) if error.is_folder() => {
                if !self.store.options.fs.remove_empty_tree(&path)? {
                    return Err(Rejection::of_claim(name, RejectionReason::LogsBelow { path }));
                }
                self.open(&path)?
            }
            opened => opened?,
        };
        file.write_all(line)?;
        Ok(self.store.options.fs.deliver(&file)?)
    }

    fn open(&mut self, path: &Path) -> refdb_vfs::Result<File> {
        let options = &self.store.options;
        let mut created = false;
        let open = || {
            if self.track || options.sharing != SharedRepository::Umask {
                match options.fs.create_new(path, 0o666) {
                    Err(error) if error.is_exists() => {}
                    file => {
                        created = file.is_ok();
                        return file;
                    }
                }
            }
            options.fs.append(path, 0o666)
        };
        let is_missing = |error: &refdb_vfs::Error| error.source.kind() == ErrorKind::NotFound;
        let file = folders::with_parents(&options.fs, path, options.sharing, &mut Vec::new(), is_missing, open)?;
        if created {
            folders::share(&options.fs, path, options.sharing, false)?;
            self.created.push(path.to_owned());
        } else if let Some(mode) = options.sharing.adjust(file.stat()?.mode, false) {
            // A failure is ignored: the file may belong to another user and was writable all the same.
            let _ = file.set_mode(mode);
        }
        Ok(file)
    }
}

/// Appends the missing rest of a line to a ref's reflog.
pub(crate) fn append_bytes(store: &Store, name: &BStr, rest: &[u8]) -> Result<()> {
    Writer::new(store, false).append_bytes(name, rest)
}

/// Removes a ref's reflog and the folders above it that become empty, except those of the two levels below `logs`, such
/// as `logs/refs` and `logs/refs/heads`.
pub(crate) fn remove(store: &Store, name: &BStr) -> Result<()> {
    let Some(path) = store.layout.log_path(name) else { return Ok(()) };
    match store.options.fs.remove_file(&path) {
        Ok(()) => {
            folders::remove_empty_parents(&store.options.fs, &store.layout.base_path(name).join("logs"), &path);
            Ok(())
        }
        Err(error) if error.is_not_found() || error.is_folder() => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Removes a ref's reflog and all folders that become empty, even `logs`, as git does when a reflog is dropped.
pub(crate) fn remove_with_folders(store: &Store, name: &BStr) -> Result<()> {
    remove(store, name)?;
    let Some(path) = store.layout.log_path(name) else { return Ok(()) };
    let base = store.layout.base_path(name).join("logs");
    debug_assert!(path.starts_with(&base), "a reflog lies below {}", base.display());
    for folder in path.ancestors().skip(1).take_while(|folder| folder.starts_with(&base)) {
        match store.options.fs.remove_dir(folder) {
            Err(error) if !error.is_not_found() => break,
            _ => {}
        }
    }
    Ok(())
}

/// The names of all refs with a reflog that is not a symbolic link, in ascending order: the worktree's own and the
/// shared ones.
pub(crate) fn names(store: &Store) -> Result<Vec<RefName>> {
    let mut names = Vec::new();
    let layout = &store.layout;
    walk(store, &layout.common_dir.join("logs"), Links::Passed, &mut names)?;
    if layout.git_dir != layout.common_dir {
        names.retain(|name| Scope::of(name.as_bstr()) == Scope::Shared);
        let mut own = Vec::new();
        walk(store, &layout.git_dir.join("logs"), Links::Passed, &mut own)?;
        names.extend(own.into_iter().filter(|name| Scope::of(name.as_bstr()) == Scope::Worktree));
    }
    names.sort_unstable();
    Ok(names.into_iter().filter_map(ref_of).collect())
}

/// The names of another worktree's per-worktree refs that have a reflog, in ascending order, as this worktree refers to
/// them. `worktree` is `None` for the main worktree.
pub(crate) fn names_elsewhere(store: &Store, worktree: Option<&BStr>) -> Result<Vec<RefName>> {
    let common = &store.layout.common_dir;
    let folder = worktree.map_or_else(|| common.clone(), |id| common.join("worktrees").join(OsStr::from_bytes(id)));
    let mut names = Vec::new();
    walk(store, &folder.join("logs"), Links::Passed, &mut names)?;
    names.retain(|name| Scope::of(name.as_bstr()) == Scope::Worktree);
    names.sort_unstable();
    Ok(names.into_iter().filter_map(|name| ref_of(qualified_name(worktree, name.as_bstr()).into())).collect())
}

/// The name of the ref to which a reflog belongs, or `None` if no ref may have that name. Like git, this checks only
/// the last part of an ill-formed name: git makes symbolic refs such as `refs/heads/x.lock/y`, whose reflogs must
/// expire too.
fn ref_of(name: BString) -> Option<RefName> {
    let last = name.rsplit_once_str("/").map_or(name.as_bytes(), |(_, last)| last);
    let is_last_good = check_format(last, FormatOptions { allow_onelevel: true, refspec_pattern: false }).is_ok();
    match RefName::new(&name[..]) {
        Ok(name) => Some(name),
        Err(_) => RefName::new_safe(name).filter(|_| is_last_good),
    }
}

/// The names of the reflogs in this worktree's own folder, in ascending order; in the main worktree the shared ones are
/// among them. Reflogs that are symbolic links are included, unless the link cannot be followed.
pub(crate) fn own_names(store: &Store) -> Result<Vec<BString>> {
    let layout = &store.layout;
    let mut names = Vec::new();
    walk(store, &layout.git_dir.join("logs"), Links::Named, &mut names)?;
    if layout.git_dir != layout.common_dir {
        names.retain(|name| Scope::of(name.as_bstr()) == Scope::Worktree);
    }
    names.sort_unstable();
    Ok(names)
}

/// Whether reflogs that are symbolic links are passed over in a listing, or named.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Links {
    Passed,
    Named,
}

fn walk(store: &Store, logs: &Path, links: Links, names: &mut Vec<BString>) -> Result<()> {
    let mut pending: Vec<(PathBuf, BString)> = vec![(logs.to_owned(), BString::default())];
    while let Some((folder, prefix)) = pending.pop() {
        // A reflog is rewritten by renaming its lock file, during which a listing may show only the lock.
        for entry in listing::list_logs(&store.options.fs, &folder)? {
            let name: BString = [prefix.as_bytes(), &entry.name].concat().into();
            let path = || folder.join(OsStr::from_bytes(&entry.name));
            if entry.is_link && links == Links::Passed {
                continue;
            }
            if entry.is_folder() {
                pending.push((path(), name));
            } else if !entry.is_in_doubt || store.options.fs.find(&path())?.is_some() {
                names.push(name);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_from_the_end_across_blocks_and_a_torn_one_is_passed_over() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let lines: Vec<String> = (0..500).map(|i| format!("{i}{}", "x".repeat(i * 37 % 20_000))).collect();
        std::fs::write(&path, format!("{}\ntorn", lines.join("\n"))).unwrap();
        let file = refdb_vfs::Fs::real().open(&path).unwrap();
        let start = file.stat().unwrap().len_bytes;
        let mut read = LinesFromEnd { file: Some(file), start, pending: Vec::new() };
        for line in lines.iter().rev() {
            assert_eq!(read.next().unwrap().unwrap(), line.as_bytes());
        }
        assert_eq!(read.next().unwrap(), None);
    }
}
