//! What belongs to one worktree: in the main one the shared refs too. For who moves refs and has to name each once.

use super::{FilesBackend, cursor::FilesCursor, packed_write, reflog};
use crate::{BrokenRef, Cursor, Error, RefView, Result};
use bstr::{BStr, BString, ByteSlice};
use refdb_types::{LogEntry, ObjectId};
use std::ops::ControlFlow;

/// Where a linked worktree has refs of its own (git-worktree(1), "REFS").
const OWN_FOLDERS: [&[u8]; 3] = [b"refs/bisect/", b"refs/rewritten/", b"refs/worktree/"];

/// Called with each ref, or with one that cannot be read.
pub(crate) type OnOwn<'v> = dyn FnMut(std::result::Result<&RefView<'_>, BrokenRef>) -> Result<()> + 'v;

impl FilesBackend {
    fn is_linked(&self) -> bool {
        self.store.layout.git_dir != self.store.layout.common_dir
    }

    /// Hands over the root refs, then the refs below `refs/`, in order of name.
    pub(crate) fn for_each_own(&self, visit: &mut OnOwn<'_>) -> Result<()> {
        let mut cursor = FilesCursor::new(&self.store, true)?;
        if !self.is_linked() {
            return walk(&mut cursor, b"", b"\xff", visit);
        }
        walk(&mut cursor, b"", b"refs/", visit)?;
        for folder in OWN_FOLDERS {
            let mut end = folder.to_vec();
            // The byte behind the slash.
            *end.last_mut().expect("a folder's name is not empty") += 1;
            cursor.seek(folder.as_bstr())?;
            walk(&mut cursor, folder, &end, visit)?;
        }
        Ok(())
    }

    /// The names in packed-refs that are not below `refs/`: no ref is packed there. In a file that is not sorted, which says
    /// it is, some may be missed.
    pub(crate) fn packed_elsewhere(&self) -> Result<Vec<BString>> {
        let mut names = Vec::new();
        if self.is_linked() {
            return Ok(names);
        }
        let file = self.store.packed()?;
        let packed = &file.packed;
        // The byte behind the slash.
        let [below, behind] = [packed.lower_bound("refs/".into())?, packed.lower_bound("refs0".into())?];
        for range in [packed.start()..below, behind..packed.end()] {
            let mut at = range.start;
            while at < range.end {
                let record = packed.record(at)?;
                debug_assert!(record.next > at, "a record has a length");
                names.push(record.name.to_owned());
                at = record.next;
            }
        }
        Ok(names)
    }

    /// The names of the reflogs, in order.
    pub(crate) fn own_log_names(&self) -> Result<Vec<BString>> {
        reflog::own_names(&self.store)
    }

    /// The most entries that a reflog has room for.
    pub(crate) fn log_entries_max(&self, name: &BStr) -> Result<u64> {
        let Some(path) = self.store.layout.log_path(name) else { return Ok(0) };
        debug_assert!(!name.is_empty(), "a reflog has a name");
        let found = self.store.options.fs.find(&path)?;
        // Two ids, the blanks behind them, and no name.
        let least = 2 * self.store.options.hash.len_hex() as u64 + 10;
        Ok(found.map_or(0, |stat| stat.len_bytes / least + 1))
    }

    /// Hands over a reflog's entries, the newest first. Returns the number of lines that are none, which git passes over.
    pub(crate) fn for_each_entry(&self, name: &BStr, entry: &mut dyn FnMut(&LogEntry) -> Result<()>) -> Result<u64> {
        let (mut failed, mut skipped) = (Ok(()), 0);
        reflog::read_counting(&self.store, name, &mut skipped, &mut |read| match entry(read) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                failed = Err(error);
                ControlFlow::Break(())
            }
        })?;
        failed.map(|()| skipped)
    }

    /// The id that stands for no object.
    pub(crate) fn null_id(&self) -> ObjectId {
        ObjectId::null(self.store.options.hash)
    }

    /// What an annotated tag leads to.
    pub(crate) fn peel(&self, id: &ObjectId) -> Result<Option<ObjectId>> {
        packed_write::peel(&self.store, id)
    }
}

/// Hands over the refs from where the cursor stands that come before `end`.
fn walk(cursor: &mut FilesCursor<'_>, start: &[u8], end: &[u8], visit: &mut OnOwn<'_>) -> Result<()> {
    let mut failed = Ok(());
    loop {
        let walked = cursor.for_each(&mut |view| {
            if **view.name >= *end {
                return ControlFlow::Break(());
            }
            debug_assert!(**view.name >= *start, "the cursor was sought to its start: {}", view.name);
            failed = visit(Ok(view));
            if failed.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        match walked {
            Ok(_) => return failed,
            Err(Error::BrokenRef(broken)) if **broken.name < *end => visit(Err(*broken))?,
            Err(Error::BrokenRef(_)) => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}
