//! Answers many look-ups in one walk, [`CHUNK_LEN`] names at a time. A folder with many of the names, and not too many
//! others, is listed instead of opening a file for each name. If any file leaves a question open, packed-refs is
//! validated once for the chunk and searched by galloping.

use super::{
    Packed,
    loose::{
        self, At, LooseRef,
        listing::{self, Entry, Rivals},
    },
    store::Store,
};
use crate::{BrokenRef, Error, Probe, Result, TargetView, backend::Answers, error::LOSSES_MAX};
use bstr::{BStr, BString, ByteSlice};
use refdb_types::{ObjectId, Scope};
use refdb_vfs::again_if_lost;
use std::{
    cmp::Ordering,
    collections::BTreeMap,
    ffi::OsStr,
    mem::{Discriminant, discriminant},
    ops::Bound::{Included, Unbounded},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

/// The number of probes that are answered at a time: first their loose refs, then packed-refs.
const CHUNK_LEN: usize = 4096;

/// The fewest successive names of one folder for which listing the folder is tried, instead of opening each file.
const LIST_FROM: usize = 16;

/// About how many times cheaper it is to list an entry than to open a file that does not exist.
const ENTRIES_PER_OPEN: usize = 8;

/// The answer of the loose files to a probe.
enum LooseAnswer {
    Missing,
    Direct(ObjectId),
    Symbolic(BString),
    Broken(BrokenRef),
}

struct Answer {
    loose: LooseAnswer,
    below: Option<BString>,
}

/// Implements [`Snapshot::probe`](crate::Snapshot::probe).
pub(super) fn probe(
    store: &Store,
    rivals: Rivals,
    probes: &mut dyn Iterator<Item = Probe<'_>>,
    answers: &mut dyn Answers,
) -> Result<()> {
    let mut prober = Prober { store, rivals, buffer: Vec::new(), answers: Vec::new(), searched: Searched::default() };
    let mut probes = probes.peekable();
    let mut first = 0;
    while probes.peek().is_some() {
        let chunk: Vec<Probe<'_>> = probes.by_ref().take(CHUNK_LEN).collect();
        debug_assert!(chunk.is_sorted_by(|a, b| a.name <= b.name), "packed-refs is walked through once");
        prober.look_at_loose(&chunk)?;
        prober.look_at_packed(&chunk, first, answers)?;
        first += chunk.len();
    }
    Ok(())
}

/// Returns the object of `name` in packed-refs, searched from `position` on; `None` if packed-refs does not have the
/// name. Moves `position` to the first record that does not sort before the name.
pub(super) fn look_up(packed: &Packed, position: &mut usize, name: &BStr) -> Result<Option<ObjectId>> {
    *position = packed.seek((*position).max(packed.start()), name)?;
    if *position >= packed.end() {
        return Ok(None);
    }
    let record = packed.record(*position)?;
    Ok((record.name == name).then_some(record.id))
}

struct Prober<'s> {
    store: &'s Store,
    rivals: Rivals,
    buffer: Vec<u8>,
    answers: Vec<Answer>,
    searched: Searched,
}

/// The folders that were searched for a ref, and the first ref in each. An answer for a folder also tells what is in
/// the folders below it, as far as the search has come. Without this, the folders of many names, each below the one
/// before, would be searched once for each of the names.
///
/// A folder's name ends with `/`. A folder inside one that was searched is not searched itself, unless it lies beyond
/// the ref at which that search ended, so only the last of these folders at or before a name can tell about the name.
#[derive(Default)]
struct Searched(BTreeMap<BString, Option<BString>>);

impl Searched {
    /// Returns the first ref in a folder; the inner `None` says that the folder contains no ref, the outer one that
    /// earlier searches do not tell.
    fn first_in(&self, folder: &BStr) -> Option<Option<&BStr>> {
        let (outer, first) = self.0.range::<BStr, _>((Unbounded, Included(folder))).next_back()?;
        if !folder.starts_with(outer) {
            return None;
        }
        match first {
            Some(first) if first.starts_with(folder) => Some(Some(first.as_bstr())),
            // The search has not come as far as this folder.
            Some(first) if first.as_bstr() < folder => None,
            _ => Some(None),
        }
    }
}

impl Prober<'_> {
    fn look_at_loose(&mut self, chunk: &[Probe<'_>]) -> Result<()> {
        self.answers.clear();
        let mut rest = chunk;
        while let Some(probe) = rest.first() {
            let len = rest.iter().take_while(|other| place_of(other.name) == place_of(probe.name)).count();
            let (run, after) = rest.split_at(len);
            rest = after;
            if run.len() < LIST_FROM || !self.list_for(run)? {
                for probe in run {
                    let path = self.store.layout.ref_path(probe.name);
                    self.open_for(probe, path.as_deref())?;
                }
            }
        }
        Ok(())
    }

    /// Answers probes for names in one folder by listing it. Returns `false`, without an answer, if the folder has too
    /// many entries or may not be listed, or if the first name cannot be a path inside the repository.
    fn list_for(&mut self, run: &[Probe<'_>]) -> Result<bool> {
        let path = run.first().and_then(|probe| self.store.layout.ref_path(probe.name));
        let Some(folder) = path.as_deref().and_then(Path::parent) else { return Ok(false) };
        let fs = &self.store.options.fs;
        let Some(entries) = listing::list_for_names(fs, folder, run.len() * ENTRIES_PER_OPEN, self.rivals)? else {
            return Ok(false);
        };
        let mut entries = entries.as_slice();
        for probe in run {
            let base = &probe.name[probe.name.rfind_byte(b'/').map_or(0, |slash| slash + 1)..];
            // `base` may be a file or a folder. A folder sorts as `base/`, after files such as `base-x`, so each of the
            // two is searched for.
            let at = entries.partition_point(|entry| entry.name.as_slice() < base);
            entries = &entries[at..];
            let is_file = entries.first().is_some_and(|entry| entry.name == base);
            let is_folder = probe.below && has_folder(entries, base);
            if is_file || is_folder {
                self.open_for(probe, Some(&folder.join(OsStr::from_bytes(base))))?;
            } else {
                self.answers.push(Answer { loose: LooseAnswer::Missing, below: None });
            }
        }
        Ok(true)
    }

    fn open_for(&mut self, probe: &Probe<'_>, path: Option<&Path>) -> Result<()> {
        let options = &self.store.options;
        let at = match path {
            Some(path) => loose::read(&options.fs, options.hash, path, self.rivals, &mut self.buffer)?,
            None => At::Missing,
        };
        let is_folder = matches!(at, At::Folder);
        let loose = match at {
            At::Missing | At::Folder => LooseAnswer::Missing,
            At::Ref(LooseRef::Direct(id)) => LooseAnswer::Direct(id),
            At::Ref(LooseRef::Symbolic(name)) => LooseAnswer::Symbolic(name.to_owned()),
            At::Broken(why) => {
                let path = path.map(Path::to_owned).unwrap_or_default();
                LooseAnswer::Broken(BrokenRef { name: probe.name.to_owned(), path, why })
            }
        };
        let below = match path {
            Some(path) if is_folder && probe.below && may_hold_refs(probe.name) => {
                self.first_below(path, probe.name)?
            }
            _ => None,
        };
        self.answers.push(Answer { loose, below });
        Ok(())
    }

    /// Returns the first loose ref below a name whose path is a folder.
    fn first_below(&mut self, path: &Path, name: &BStr) -> Result<Option<BString>> {
        let folder: BString = [name.as_bytes(), b"/"].concat().into();
        if let Some(known) = self.searched.first_in(folder.as_bstr()) {
            return Ok(known.map(ToOwned::to_owned));
        }
        let first = first_below(self.store, path, name)?;
        self.searched.0.insert(folder, first.clone());
        Ok(first)
    }

    fn look_at_packed(&mut self, chunk: &[Probe<'_>], first: usize, answers: &mut dyn Answers) -> Result<()> {
        debug_assert_eq!(self.answers.len(), chunk.len(), "of each name it is known what its file says");
        let needs_packed =
            |(probe, answer): (&Probe<'_>, &Answer)| probe.below || matches!(answer.loose, LooseAnswer::Missing);
        if !chunk.iter().zip(&self.answers).any(needs_packed) {
            for (at, answer) in self.answers.drain(..).enumerate() {
                tell_loose(answer.loose, first + at, answers)?;
            }
            return Ok(());
        }
        let mut file = self.store.packed()?;
        let mut position = file.packed.start();
        for (at, (probe, answer)) in chunk.iter().zip(self.answers.drain(..)).enumerate() {
            let is_missing = matches!(answer.loose, LooseAnswer::Missing);
            let mut is_lost = false;
            // A second read is valid, because the name is locked, or because the caller accepts the value of any
            // moment.
            let (id, child) = again_if_lost(LOSSES_MAX + 1, Error::is_stale, || {
                if std::mem::replace(&mut is_lost, true) {
                    file = self.store.packed()?;
                    position = file.packed.start();
                }
                let packed = &file.packed;
                let id = if is_missing { look_up(packed, &mut position, probe.name)? } else { None };
                if !probe.below {
                    return Ok((id, None));
                }
                position = packed.seek(position, probe.name)?;
                let child = packed_below(packed, position, probe.name, &mut self.buffer)?;
                Ok((id, child.map(ToOwned::to_owned)))
            })?;
            match answer.loose {
                LooseAnswer::Missing => answers.value(first + at, id.map(TargetView::Direct))?,
                loose => tell_loose(loose, first + at, answers)?,
            }
            if let Some(below) = child.into_iter().chain(answer.below).min() {
                answers.below(first + at, below.as_bstr())?;
            }
        }
        Ok(())
    }
}

/// Passes on what a loose file says.
fn tell_loose(loose: LooseAnswer, at: usize, answers: &mut dyn Answers) -> Result<()> {
    match loose {
        LooseAnswer::Missing => answers.value(at, None),
        LooseAnswer::Direct(id) => answers.value(at, Some(TargetView::Direct(id))),
        LooseAnswer::Symbolic(name) => answers.value(at, Some(TargetView::Symbolic(name.as_bstr()))),
        LooseAnswer::Broken(error) => answers.broken(at, error),
    }
}

/// Returns whether the folder of this name is searched for refs. Folders at the root other than `refs`, such as
/// `objects` and `logs`, are not.
fn may_hold_refs(name: &BStr) -> bool {
    name == "refs" || name.contains(&b'/')
}

fn folder_of(name: &BStr) -> &BStr {
    name[..name.rfind_byte(b'/').unwrap_or(0)].as_bstr()
}

/// Names of which this is the same lie in one folder. Without a slash, this worktree's own names lie in another folder
/// than shared ones.
fn place_of(name: &BStr) -> (&BStr, Discriminant<Scope<'_>>) {
    (folder_of(name), discriminant(&Scope::of(name)))
}

fn has_folder(entries: &[Entry], base: &[u8]) -> bool {
    let compare = |entry: &Entry| -> Ordering {
        let split = entry.name.len().min(base.len());
        entry.name[..split]
            .cmp(&base[..split])
            .then_with(|| entry.name[split..].cmp(if split == base.len() { b"/" } else { &base[split..] }))
    };
    entries.binary_search_by(compare).is_ok()
}

/// The first ref below `name` in packed-refs, searched from `position` on.
fn packed_below<'p>(
    packed: &'p Packed,
    position: usize,
    name: &BStr,
    buffer: &mut Vec<u8>,
) -> Result<Option<&'p BStr>> {
    buffer.clear();
    buffer.extend_from_slice(name);
    buffer.push(b'/');
    let at = packed.seek(position, buffer.as_bstr())?;
    if at >= packed.end() {
        return Ok(None);
    }
    let record = packed.record(at)?;
    Ok(record.name.starts_with(buffer).then_some(record.name))
}

/// The first loose ref below a folder. Like git, this includes broken refs.
pub(super) fn first_below(store: &Store, folder: &Path, name: &BStr) -> Result<Option<BString>> {
    let mut pending: Vec<(PathBuf, BString)> = vec![(folder.to_owned(), [name.as_bytes(), b"/"].concat().into())];
    let options = &store.options;
    while let Some((path, prefix)) = pending.pop() {
        if prefix.last() != Some(&b'/') {
            match loose::read(&options.fs, options.hash, &path, Rivals::LockedOut, &mut Vec::new())? {
                At::Ref(_) | At::Broken(_) => return Ok(Some(prefix)),
                At::Missing | At::Folder => continue,
            }
        }
        // As for git, a folder that this user may not list has no refs.
        let entries = listing::list_for_names(&options.fs, &path, usize::MAX, Rivals::Possible)?.unwrap_or_default();
        for entry in entries.into_iter().rev() {
            let child = [prefix.as_bytes(), &entry.name].concat().into();
            pending.push((path.join(OsStr::from_bytes(&entry.name)), child));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{files::FilesOptions, memory::AnyObject};
    use refdb_types::HashKind;
    use refdb_vfs::Fs;
    use std::{fs, path::Path, sync::Arc};

    /// Asks for the first ref below each of the names, which are in order. Returns the answers and how many folders
    /// were searched.
    fn below(dir: &Path, names: &[String]) -> (Vec<Option<BString>>, usize) {
        let store = Store::new(FilesOptions::new(Fs::real(), dir.into(), HashKind::Sha1, Arc::new(AnyObject)));
        let searched = Searched::default();
        let mut prober =
            Prober { store: &store, rivals: Rivals::LockedOut, buffer: Vec::new(), answers: Vec::new(), searched };
        let found = names.iter().map(|name| prober.first_below(&dir.join(name), name.as_str().into()).unwrap());
        (found.collect(), prober.searched.0.len())
    }

    #[test]
    fn names_below_each_other_are_searched_once() {
        let dir = tempfile::tempdir().unwrap();
        let names: Vec<String> = (1..=200).map(|depth| format!("refs{}", "/x".repeat(depth))).collect();
        fs::create_dir_all(dir.path().join(names.last().unwrap())).unwrap();
        assert_eq!(below(dir.path(), &names), (vec![None; 200], 1));
        fs::write(dir.path().join(&names[150]).join("y"), "").unwrap();
        let first = BString::from(format!("{}/y", names[150]));
        let found: Vec<_> = (0..200).map(|at| (at <= 150).then(|| first.clone())).collect();
        // The search from the outermost name ends at the ref, so a second one looks at the folders behind it.
        let (answers, searches) = below(dir.path(), &names);
        assert_eq!(answers, found);
        assert!(searches <= 2, "{searches}");
    }

    /// Regression: in a linked worktree, all of many names without a slash were looked for where the first one lies.
    #[test]
    fn names_without_a_slash_are_looked_for_where_each_lies() {
        let dir = tempfile::tempdir().unwrap();
        let own = dir.path().join("worktrees/w");
        fs::create_dir_all(&own).unwrap();
        let names: Vec<String> = ('A'..='Z').chain('a'..='z').map(String::from).collect();
        for (folder, name) in [(own.as_path(), "Y"), (dir.path(), "b")] {
            fs::write(folder.join(name), format!("{}\n", "1".repeat(40))).unwrap();
        }
        let common = FilesOptions::new(Fs::real(), dir.path().into(), HashKind::Sha1, Arc::new(AnyObject));
        let store = Store::new(FilesOptions { git_dir: own, ..common });
        let (rivals, searched) = (Rivals::LockedOut, Searched::default());
        let mut prober = Prober { store: &store, rivals, buffer: Vec::new(), answers: Vec::new(), searched };
        let chunk: Vec<_> = names.iter().map(|name| Probe { name: name.as_str().into(), below: false }).collect();
        prober.look_at_loose(&chunk).unwrap();
        let is_there = |(_, answer): &(&String, &Answer)| matches!(answer.loose, LooseAnswer::Direct(_));
        let found: Vec<_> = names.iter().zip(&prober.answers).filter(is_there).map(|(name, _)| name).collect();
        assert_eq!(found, ["Y", "b"]);
    }

    #[test]
    fn what_an_earlier_search_tells_is_what_a_search_finds() {
        // Bits of a number decide which of these files exist.
        let files = ["a-b/x", "a/-", "a/a-b/a/x", "a/a/-", "a/a/a-b/x", "a/a/a/z", "a/a/z", "a/z", "b/a/a/x", "b/z"];
        let mut names: Vec<String> =
            ["a", "a-b", "a/a", "a/a-b", "a/a-b/a", "a/a/a", "a/a/a-b", "b", "b/a", "b/a/a"].map(Into::into).to_vec();
        names.sort();
        for bits in (0..1 << files.len()).step_by(7) {
            let dir = tempfile::tempdir().unwrap();
            names.iter().for_each(|name| fs::create_dir_all(dir.path().join(name)).unwrap());
            let exists = |at: &usize| bits & (1 << at) != 0;
            (0..files.len()).filter(exists).for_each(|at| fs::write(dir.path().join(files[at]), "").unwrap());
            let alone = |name: &String| below(dir.path(), std::slice::from_ref(name)).0.remove(0);
            assert_eq!(below(dir.path(), &names).0, names.iter().map(alone).collect::<Vec<_>>(), "{bits:b}");
        }
    }
}
