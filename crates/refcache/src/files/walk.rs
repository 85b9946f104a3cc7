use super::{FilesReader, loose::NO_STAT, target_of};
use crate::{Result, Storage, Trust, broken::broken_ref, name_cache::Known, plan::Plan, row::OwnRow, stats::count};
use bstr::{BStr, BString, ByteSlice};
use refdb::{
    LooseError,
    backend::Peeled,
    files::{Charge, PageBudget},
};
use refdb_vfs::{Stat, now_nanos};
use std::{
    collections::HashMap,
    num::NonZero,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread,
};

/// The folders that were listed or found missing, by name. The time stamp of a folder changes whenever an entry is
/// added, removed or replaced.
pub(crate) struct Folders {
    known: HashMap<BString, Folder>,
    charge: Charge,
}

struct Folder {
    stat: Stat,
    is_racy: bool,
    entries: Arc<[BString]>,
}

impl Folders {
    pub(crate) fn new(budget: &Arc<PageBudget>) -> Self {
        Folders { known: HashMap::new(), charge: budget.charge(0) }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.charge.bytes()
    }

    fn put(&mut self, name: &BStr, folder: Folder) -> Option<Folder> {
        self.charge.add(name_bytes(name) + entries_bytes(&folder.entries));
        let before = self.known.insert(name.to_owned(), folder);
        if let Some(before) = &before {
            self.charge.sub(name_bytes(name) + entries_bytes(&before.entries));
        }
        before
    }

    /// Records that there is no such folder, unless it is not recorded yet and [`MISSING_MAX`] others are. Returns the
    /// entries that were recorded for the folder before; `None` if nothing was recorded.
    pub(super) fn put_missing(&mut self, name: &BStr) -> Option<Arc<[BString]>> {
        if let Some(known) = self.known.get_mut(name) {
            known.is_racy = true;
            let entries = std::mem::take(&mut known.entries);
            self.charge.sub(entries_bytes(&entries));
            return Some(entries);
        }
        if self.known.len() < MISSING_MAX {
            self.put(name, Folder { stat: NO_STAT, is_racy: true, entries: Arc::default() });
        }
        None
    }

    /// Returns whether the innermost recorded folder on the way to a ref has neither the ref nor a folder that leads to
    /// it. `false` if no folder on the way is recorded.
    pub(super) fn were_listed_without(&self, name: &BStr) -> bool {
        for slash in name.rfind_iter("/") {
            let (folder, rest) = name.split_at(slash + 1);
            if let Some(known) = self.known.get(BStr::new(folder)) {
                let child = rest.find_byte(b'/').map_or(rest, |end| &rest[..=end]);
                return known.entries.binary_search_by(|entry| entry.as_slice().cmp(child)).is_err();
            }
        }
        false
    }
}

/// The bytes beside its text that a name takes, in a list or as a key.
const NAME_BYTES: usize = 48;

fn name_bytes(name: &BStr) -> usize {
    name.len() + NAME_BYTES + size_of::<Folder>()
}

fn entries_bytes(entries: &[BString]) -> usize {
    entries.iter().map(|entry| entry.len() + NAME_BYTES).sum()
}

/// Once this many folders are recorded, further missing ones are not.
const MISSING_MAX: usize = 4096;

/// From this number of folders on, several threads read them. Each folder costs some system calls.
const SIDE_BY_SIDE_FROM: usize = 64;
const THREADS_MAX: usize = 4;
/// Computed once, because asking the system takes longer than listing a folder.
static THREADS: LazyLock<usize> =
    LazyLock::new(|| thread::available_parallelism().map_or(1, NonZero::get).min(THREADS_MAX));

impl FilesReader {
    /// The loose refs of a plan, sorted, each looked up by this call. Broken ones are included, because they hide the
    /// values in packed-refs.
    pub(super) fn walk(&self, plan: &Plan) -> Result<Vec<OwnRow>> {
        let begun = self.counters.broken.walk();
        let mut rows = Vec::new();
        if plan.root_refs {
            for name in self.entries(BStr::new(""))?.iter() {
                if name.last() != Some(&b'/') && plan.takes(name.as_bstr()) && plan.has(name.as_bstr()) {
                    self.add(name, &mut rows)?;
                }
            }
        }
        self.walk_folders(self.root_of(plan), plan, &mut rows)?;
        rows.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        debug_assert!(rows.is_sorted_by(|a, b| a.name < b.name), "each loose ref is looked at once");
        let broken: Vec<BString> = rows.iter().filter(|row| row.is_broken()).map(|row| row.name.clone()).collect();
        self.counters.broken.walked(begun, plan, &broken);
        Ok(rows)
    }

    /// The folder where the walk of a plan begins: if attributes are trusted and the plan has one range, the folder
    /// that [`Range::folder`](crate::plan::Range::folder) finds, if any, else `refs/`. Without trust the folders above
    /// are opened too, which makes a network file system ask its server.
    fn root_of<'p>(&self, plan: &'p Plan) -> &'p BStr {
        let innermost = match &*plan.ranges {
            [range] if self.trust.loose_refs == Trust::Always => range.folder(),
            _ => None,
        };
        debug_assert!(
            innermost.is_none_or(|folder| folder.starts_with(b"refs/")),
            "refs lie below refs/: {innermost:?}"
        );
        innermost.unwrap_or(BStr::new("refs/"))
    }

    /// Adds the refs of the plan in a folder and in all folders below it, one level after the other. Several threads
    /// read the folders of a level that has many.
    fn walk_folders(&self, root: &BStr, plan: &Plan, rows: &mut Vec<OwnRow>) -> Result<()> {
        let mut level = vec![root.to_owned()];
        while !level.is_empty() {
            let threads = if level.len() < SIDE_BY_SIDE_FROM { 1 } else { *THREADS };
            let next = AtomicUsize::new(0);
            let walk = || {
                let (mut rows, mut below) = (Vec::new(), Vec::new());
                while let Some(folder) = level.get(next.fetch_add(1, Relaxed)) {
                    self.walk_folder(folder.as_bstr(), plan, &mut rows, &mut below)?;
                }
                Ok((rows, below))
            };
            let walked: Vec<Result<(Vec<OwnRow>, Vec<BString>)>> = self.fs.side_by_side(threads, &walk);
            level.clear();
            for found in walked {
                let (mut found, mut below) = found?;
                rows.append(&mut found);
                level.append(&mut below);
            }
        }
        Ok(())
    }

    /// Adds the refs of one folder to `rows`, and its folders to `below`.
    fn walk_folder(&self, folder: &BStr, plan: &Plan, rows: &mut Vec<OwnRow>, below: &mut Vec<BString>) -> Result<()> {
        debug_assert!(folder.ends_with(b"/"), "a folder's name ends with a slash: {folder}");
        if !plan.reaches_into(folder) {
            return Ok(());
        }
        let entries = self.entries(folder);
        if let Some(unreadable) = broken_ref(&entries) {
            self.counters.broken.found_folder(folder, unreadable);
            rows.push(OwnRow::broken(folder.to_owned()));
            return Ok(());
        }
        let entries = entries?;
        self.counters.broken.is_whole(folder);
        for entry in entries.iter() {
            let name = BString::from([folder.as_bytes(), entry].concat());
            if name.last() == Some(&b'/') {
                below.push(name);
            } else if plan.has(name.as_bstr()) {
                self.add(&name, rows)?;
            }
        }
        Ok(())
    }

    fn add(&self, name: &BString, rows: &mut Vec<OwnRow>) -> Result<()> {
        let epoch = self.epoch();
        let looked_nanos = self.clock();
        let before = self.memory.name_cache.get(self.knowledge.number, name.as_bstr());
        let found = self.loose(name.as_bstr(), before.as_ref().and_then(|known| known.loose.as_ref()));
        if let Some(broken) = broken_ref(&found) {
            // A symbolic ref to a name that no ref can have leads to no ref, as if that ref were missing.
            let is_corrupt = !matches!(broken.why, LooseError::Target(_));
            rows.push(OwnRow { is_corrupt, ..OwnRow::broken(name.clone()) });
            return Ok(());
        }
        let Some((loose, is_new)) = found? else { return Ok(()) };
        let target = Some(loose.target.clone());
        if is_new {
            if before.is_some_and(|before| target_of(&before.answer()) != target.as_ref()) {
                count(&self.knowledge.changes, 1);
            }
            let known = Known { epoch, looked_nanos, loose: Some(loose), kept: None };
            self.remember(name.as_bstr(), known);
        }
        let (name, peeled) = (name.clone(), Peeled::Unknown);
        rows.push(OwnRow { name, target, peeled, storage: Storage::Loose, is_corrupt: false });
        Ok(())
    }

    /// The entries of a folder; none if there is no such folder.
    fn entries(&self, name: &BStr) -> Result<Arc<[BString]>> {
        let found = match self.trust.loose_refs {
            Trust::Always => self.fs.find(&self.backend.folder_path(name)),
            // The folder is opened in any case, which makes a network file system ask its server.
            Trust::AfterOpen | Trust::Never => Ok(Some(NO_STAT)),
        };
        let stat = match found {
            Err(error) if !error.is_too_long() => return Err(error.into()),
            Err(_) | Ok(None) => {
                self.notice_gone(name);
                return Ok(Arc::default());
            }
            Ok(Some(stat)) => stat,
        };
        if stat != NO_STAT
            && let Some(known) = self.folders().known.get(name)
            && known.stat == stat
            && !known.is_racy
        {
            return Ok(Arc::clone(&known.entries));
        }
        let is_racy = stat.is_racy(now_nanos());
        let entries: Arc<[BString]> = self.backend.list_folder(name)?.into();
        let folder = Folder { stat, is_racy, entries: Arc::clone(&entries) };
        let before = self.folders().put(name, folder);
        if let Some(before) = before.filter(|before| before.entries != entries) {
            self.notice(name, &before.entries, &entries);
        }
        Ok(entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_listed_again_counts_once() {
        let budget = Arc::default();
        let mut folders = Folders::new(&budget);
        let listed = |count: usize| {
            let entries = (0..count).map(|at| BString::from(format!("{at}"))).collect();
            Folder { stat: NO_STAT, is_racy: true, entries }
        };
        folders.put("refs/a/".into(), listed(10));
        let few_bytes = folders.bytes();
        folders.put("refs/a/".into(), listed(1000));
        assert!(folders.bytes() > 50 * few_bytes);
        for _ in 0..3 {
            folders.put("refs/a/".into(), listed(10));
            assert_eq!(folders.bytes(), few_bytes);
        }
        assert_eq!(folders.put_missing("refs/a/".into()).map(|entries| entries.len()), Some(10));
        assert!(folders.bytes() < few_bytes);
        folders.put("refs/a/".into(), listed(10));
        assert_eq!(folders.bytes(), few_bytes);
        assert_eq!(budget.used_bytes(), few_bytes);
    }
}
