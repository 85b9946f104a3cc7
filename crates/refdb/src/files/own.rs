//! The refs and reflogs that belong to one worktree, for a migration, which must visit each exactly once. Shared refs
//! and reflogs are visited with the main worktree's own.

use super::{FilesBackend, cursor::FilesCursor, packed::cache::PackedProof, packing::write, reflog};
use crate::{BrokenRef, Cursor, Error, RefView, Result};
use bstr::{BStr, BString, ByteSlice};
use refdb_types::{LogEntry, ObjectId};
use refdb_vfs::{Nearby, Stat, now_nanos};
use std::{ops::ControlFlow, sync::Arc, time::Duration};

/// The folders of refs that a linked worktree has of its own (git-worktree(1), "REFS").
const OWN_FOLDERS: [&[u8]; 3] = [b"refs/bisect/", b"refs/rewritten/", b"refs/worktree/"];

/// Called with each ref, or with a broken one.
pub(crate) type OnOwn<'v> = dyn FnMut(std::result::Result<&RefView<'_>, BrokenRef>) -> Result<()> + 'v;

/// What a walk over all refs has seen. As long as packed-refs is the same, only loose refs can have changed since.
pub(crate) struct Walked {
    packed: PackedProof,
    /// The names of the loose files, even of broken ones and of those that were gone when they were to be read, in
    /// ascending order.
    pub(crate) loose: Vec<BString>,
}

impl FilesBackend {
    fn is_linked(&self) -> bool {
        self.store.layout.git_dir != self.store.layout.common_dir
    }

    /// Visits this worktree's root refs, then its refs below `refs/`, in ascending order of name. Shared refs are
    /// visited in the main worktree only.
    pub(crate) fn for_each_own(&self, visit: &mut OnOwn<'_>) -> Result<()> {
        let mut cursor = FilesCursor::new(&self.store, true)?;
        if !self.is_linked() {
            return walk(&mut cursor, b"", b"\xff", visit);
        }
        walk(&mut cursor, b"", b"refs/", visit)?;
        for folder in OWN_FOLDERS {
            let mut end = folder.to_vec();
            // The byte that follows the slash in ASCII.
            *end.last_mut().expect("a folder's name is not empty") += 1;
            cursor.seek(folder.as_bstr())?;
            walk(&mut cursor, folder, &end, visit)?;
        }
        Ok(())
    }

    /// Visits the refs as [`for_each_own`](Self::for_each_own) does and returns what was seen. Returns `None` in a
    /// linked worktree, on a network file system, if packed-refs changed or was opened anew meanwhile, or if there are
    /// very many loose refs.
    pub(crate) fn for_each_own_noting(&self, visit: &mut OnOwn<'_>) -> Result<Option<Walked>> {
        if self.is_linked() {
            return self.for_each_own(visit).map(|()| None);
        }
        let packed = self.store.packed()?;
        let mut cursor = FilesCursor::new(&self.store, true)?.noting_loose();
        walk(&mut cursor, b"", b"\xff", visit)?;
        let is_one = Arc::ptr_eq(&packed, &self.store.packed()?);
        let noted = cursor.into_noted().filter(|_| is_one);
        debug_assert!(noted.as_ref().is_none_or(|loose| loose.is_sorted()), "a walk goes forward");
        Ok(noted.map(|loose| Walked { packed: packed.proof(), loose }))
    }

    /// If a large packed-refs was changed so recently that a `stat` cannot reveal a later change yet, but can in 60 ms,
    /// waits for that time, because reading such a file twice would take at least as long.
    pub(crate) fn let_packed_settle(&self) -> Result<()> {
        const LARGE_BYTES: u64 = 32 << 20;
        const MOMENT: Duration = Duration::from_millis(60);
        let store = &self.store;
        let is_soon_settled = |stat: &Stat| {
            let now = now_nanos();
            stat.len_bytes >= LARGE_BYTES && stat.is_racy(now) && !stat.is_racy(now + MOMENT.as_nanos() as i128)
        };
        if store.options.fs.find_link(&store.layout.packed_path())?.as_ref().is_some_and(is_soon_settled) {
            std::thread::sleep(MOMENT);
        }
        Ok(())
    }

    /// Releases the memory that a mapped packed-refs takes up so far. It does nothing to a file that is not mapped.
    pub(crate) fn forget_packed_so_far(&self) -> Result<()> {
        self.store.packed()?.packed.forget_read();
        Ok(())
    }

    /// Drops the cached packed-refs. That closes the file and releases its memory, unless a reader still has the file.
    pub(crate) fn forget_packed(&self) {
        self.store.cache.forget();
    }

    /// Returns whether packed-refs is certainly still the file that `walked` was made from, unchanged. A rename does
    /// not count as a change. The result is `false` for a file that was changed shortly before it was opened.
    pub(crate) fn has_packed_of(&self, walked: &Walked) -> Result<bool> {
        let store = &self.store;
        walked.packed.is_at(&store.options.fs, &store.layout.packed_path())
    }

    /// Visits only the loose refs of the main worktree, in the order of [`FilesBackend::for_each_own`].
    pub(crate) fn for_each_loose(&self, visit: &mut OnOwn<'_>) -> Result<()> {
        debug_assert!(!self.is_linked(), "a linked worktree has some of the folders only");
        walk(&mut FilesCursor::new(&self.store, true)?.only_loose(), b"", b"\xff", visit)
    }

    /// The names in packed-refs that are not below `refs/` and so are no refs. Some may be missed in a file that claims
    /// to be sorted and is not. A linked worktree has none.
    pub(crate) fn packed_elsewhere(&self) -> Result<Vec<BString>> {
        let mut names = Vec::new();
        if self.is_linked() {
            return Ok(names);
        }
        let file = self.store.packed()?;
        let packed = &file.packed;
        // The byte that follows the slash in ASCII.
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

    /// The names of this worktree's own reflogs, in ascending order; in the main worktree the shared ones are among
    /// them.
    pub(crate) fn own_log_names(&self) -> Result<Vec<BString>> {
        reflog::own_names(&self.store)
    }

    /// The `stat` of what is at a reflog's path; `None` if nothing is there.
    pub(crate) fn log_stat(&self, near: &mut Nearby<'_>, name: &BStr) -> Result<Option<Stat>> {
        debug_assert!(!name.is_empty(), "a reflog has a name");
        let path = self.store.layout.log_path(name);
        path.map_or(Ok(None), |path| Ok(near.find_link(&path)?))
    }

    /// A helper to `stat` very many files in few folders.
    pub(crate) fn nearby(&self) -> Nearby<'_> {
        Nearby::new(&self.store.options.fs)
    }

    /// The `stat` of what is at a reflog's path, and its bytes if it is a small file that could be read completely.
    /// Returns `None` if nothing is there.
    pub(crate) fn look_at_log(&self, near: &mut Nearby<'_>, name: &BStr) -> Result<Option<(Stat, Option<Vec<u8>>)>> {
        const LEN_MAX: u64 = 16 << 10;
        let Some(path) = self.store.layout.log_path(name) else { return Ok(None) };
        let file = match near.open(&path) {
            Err(error) if error.is_not_found() => return Ok(None),
            file => file?,
        };
        let stat = file.stat()?;
        if !stat.is_file() || stat.len_bytes > LEN_MAX {
            return Ok(Some((stat, None)));
        }
        let mut bytes = vec![0; usize::try_from(stat.len_bytes).unwrap_or(0)];
        let is_whole = file.read_at(&mut bytes, 0).is_ok_and(|len| len == bytes.len());
        Ok(Some((stat, is_whole.then_some(bytes))))
    }

    /// Visits a reflog's entries from the newest to the oldest, taking `bytes` if they were read already. Returns the
    /// number of broken lines, which git skips.
    pub(crate) fn for_each_entry(
        &self,
        name: &BStr,
        bytes: Option<Vec<u8>>,
        entry: &mut dyn FnMut(&LogEntry) -> Result<()>,
    ) -> Result<u64> {
        let (mut failed, mut skipped) = (Ok(()), 0);
        let mut each = |read: &LogEntry| match entry(read) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                failed = Err(error);
                ControlFlow::Break(())
            }
        };
        match bytes {
            Some(bytes) => reflog::entries_in(&self.store, bytes, &mut skipped, &mut each)?,
            None => reflog::read_counting(&self.store, name, &mut skipped, &mut each).map(drop)?,
        }
        failed.map(|()| skipped)
    }

    /// The null id, which stands for no object.
    pub(crate) fn null_id(&self) -> ObjectId {
        ObjectId::null(self.store.options.hash)
    }

    /// The object to which an annotated tag peels; `None` for a tag that cannot be peeled, and for any other object.
    pub(crate) fn peel(&self, id: &ObjectId) -> Result<Option<ObjectId>> {
        write::peel(&self.store, id)
    }
}

/// Visits the refs that come before `end`. The cursor must stand at `start`.
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
