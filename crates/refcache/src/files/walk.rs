use super::FilesReader;
use crate::{Result, Storage, Trust, broken::broken_ref, names::Known, plan::Plan, row::OwnRow};
use bstr::{BStr, BString, ByteSlice};
use refdb::{
    backend::Peeled,
    files::{Charge, PageBudget},
};
use refdb_vfs::{Stat, now_nanos};
use std::{
    collections::HashMap,
    num::NonZero,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
};

/// The folders that were listed, by name. A folder's time stamp changes with each entry that comes, goes or is replaced.
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

    fn put(&mut self, name: &BStr, folder: Folder) {
        const ENTRY_BYTES: usize = 48;
        // The entries that a folder had before stay counted. To be exact about less than is shed in the end is not
        // worth while.
        let entries: usize = folder.entries.iter().map(|entry| entry.len() + ENTRY_BYTES).sum();
        self.charge.add(entries + name.len() + size_of::<Folder>() + ENTRY_BYTES);
        self.known.insert(name.to_owned(), folder);
    }
}

/// With this number of folders at hand threads are worth their start. Each folder costs some calls of the system.
const SIDE_BY_SIDE_FROM: usize = 64;
const THREADS_MAX: usize = 4;

/// Folders that several threads look at.
struct Queue {
    left: Mutex<Left>,
    changed: Condvar,
}

struct Left {
    waiting: Vec<BString>,
    /// Threads that look at a folder, and may add those in it.
    busy: usize,
}

impl Queue {
    /// The next folder, and that this thread looks at it; `None` at the end of all.
    fn take(&self) -> Option<(BString, Busy<'_>)> {
        let may_come = |left: &mut Left| left.waiting.is_empty() && left.busy > 0;
        let left = self.changed.wait_while(self.left(), may_come);
        let mut left = left.unwrap_or_else(PoisonError::into_inner);
        let next = left.waiting.pop();
        left.busy += usize::from(next.is_some());
        next.map(|folder| (folder, Busy { queue: self, below: None }))
    }

    fn left(&self) -> MutexGuard<'_, Left> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A thread looks at a folder.
struct Busy<'q> {
    queue: &'q Queue,
    /// What was found in it. After a failure, which finds nothing, no other folder is looked at.
    below: Option<Vec<BString>>,
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        let mut left = self.queue.left();
        debug_assert!(left.busy > 0, "who is done was busy");
        left.busy -= 1;
        match self.below.take() {
            Some(mut below) => left.waiting.append(&mut below),
            None => left.waiting.clear(),
        }
        self.queue.changed.notify_all();
    }
}

impl FilesReader {
    /// The loose refs of a plan, sorted, each looked at now. A file that is no good is among them, to hide what packed-refs
    /// says.
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

    /// The folder in which all names of a plan are. Those above it need not be looked at, where attributes are trusted.
    /// Elsewhere only opening them makes a network file system ask.
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

    /// The refs of a folder and those below it. Several threads look at many folders.
    fn walk_folders(&self, root: &BStr, plan: &Plan, rows: &mut Vec<OwnRow>) -> Result<()> {
        let mut waiting = vec![root.to_owned()];
        while let Some(folder) = waiting.pop() {
            self.walk_folder(folder.as_bstr(), plan, rows, &mut waiting)?;
            if waiting.len() >= SIDE_BY_SIDE_FROM {
                return self.walk_side_by_side(waiting, plan, rows);
            }
        }
        Ok(())
    }

    fn walk_side_by_side(&self, waiting: Vec<BString>, plan: &Plan, rows: &mut Vec<OwnRow>) -> Result<()> {
        let queue = Queue { left: Mutex::new(Left { waiting, busy: 0 }), changed: Condvar::new() };
        let work = || {
            let mut rows = Vec::new();
            while let Some((folder, mut busy)) = queue.take() {
                let mut below = Vec::new();
                self.walk_folder(folder.as_bstr(), plan, &mut rows, &mut below)?;
                busy.below = Some(below);
            }
            Ok(rows)
        };
        let threads = thread::available_parallelism().map_or(1, NonZero::get).min(THREADS_MAX);
        let walked: Vec<Result<Vec<OwnRow>>> = self.fs.side_by_side(threads, &work);
        for found in walked {
            rows.append(&mut found?);
        }
        Ok(())
    }

    /// The refs of one folder. The folders in it are added to `below`.
    fn walk_folder(&self, folder: &BStr, plan: &Plan, rows: &mut Vec<OwnRow>, below: &mut Vec<BString>) -> Result<()> {
        debug_assert!(folder.ends_with(b"/"), "a folder's name ends with a slash: {folder}");
        if !plan.reaches_into(folder) {
            return Ok(());
        }
        let entries = self.entries(folder);
        if let Some(unreadable) = broken_ref(&entries) {
            self.counters.broken.found(unreadable);
            if plan.has(unreadable.name.as_bstr()) {
                rows.push(OwnRow::broken(unreadable.name.clone()));
            }
            return Ok(());
        }
        for entry in entries?.iter() {
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
        let known = self.memory.names.get(self.owner, name.as_bstr());
        let known = known.as_ref().and_then(|known| known.loose.as_ref());
        let found = self.loose(name.as_bstr(), known);
        if broken_ref(&found).is_some() {
            rows.push(OwnRow::broken(name.clone()));
            return Ok(());
        }
        let Some((loose, is_new)) = found? else { return Ok(()) };
        let target = Some(loose.target.clone());
        if is_new {
            let known = Known { epoch, looked_nanos, loose: Some(loose), kept: None };
            self.remember(name.as_bstr(), known);
        }
        rows.push(OwnRow { name: name.clone(), target, peeled: Peeled::Unknown, storage: Storage::Loose });
        Ok(())
    }

    /// A folder's entries; none if there is no such folder.
    fn entries(&self, name: &BStr) -> Result<Arc<[BString]>> {
        let stat = match self.fs.find(&self.backend.folder_path(name)) {
            Err(error) if !error.is_too_long() => return Err(error.into()),
            Err(_) | Ok(None) => return Ok(Arc::default()),
            Ok(Some(stat)) => stat,
        };
        if self.trust.loose_refs == Trust::Always
            && let Some(known) = self.folders().known.get(name)
            && known.stat == stat
            && !known.is_racy
        {
            return Ok(Arc::clone(&known.entries));
        }
        let is_racy = stat.is_racy(now_nanos());
        let entries: Arc<[BString]> = self.backend.list_folder(name)?.into();
        let folder = Folder { stat, is_racy, entries: Arc::clone(&entries) };
        self.folders().put(name, folder);
        Ok(entries)
    }
}
