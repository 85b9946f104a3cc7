//! Rewrites packed-refs by copying the ranges that do not change, long ones inside the kernel.

use crate::files::{
    Packed,
    loose::folders,
    packed::cache::{OPENED_MAX, PackedFile},
    store::Store,
};
use crate::{Error, Misuse, Result, backend::Peeled};
use bstr::BStr;
use refdb_types::ObjectId;
use refdb_vfs::{File, Lock, again_if_lost, interrupt};
use std::{
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Returns the present packed-refs. If the file promises an order, the order of all its records is checked, because the
/// ranges of a file that breaks the promise must not be copied.
pub(crate) fn examined_packed(store: &Arc<Store>) -> Result<Arc<PackedFile>> {
    let old = store.packed()?;
    if old.packed.is_copyable() && !old.packed.is_sorted()? {
        return store.packed();
    }
    Ok(old)
}

/// Returns what [`examined_packed`] does, with the file open, so that on a network file system the file can be read
/// even after it was replaced.
pub(crate) fn opened_packed(store: &Arc<Store>) -> Result<Arc<PackedFile>> {
    again_if_lost(OPENED_MAX, Error::is_stale, || {
        let old = examined_packed(store)?;
        if let Some(file) = &old.file {
            file.get()?;
        }
        Ok(old)
    })
}

/// Returns whether packed-refs exists, its unchanged ranges may be copied, and its first line is the one that refdb
/// would write.
pub(crate) fn is_as_we_write(old: &PackedFile) -> Result<bool> {
    Ok(old.exists() && old.packed.is_copyable() && old.packed.has_own_header()?)
}

/// One change to packed-refs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PackedEdit<'a> {
    /// Sets a ref to an object, with the peeled object if it is an annotated tag.
    Put(&'a BStr, ObjectId, Option<ObjectId>),
    /// Removes a ref, if it is there.
    Remove(&'a BStr),
}

impl<'a> PackedEdit<'a> {
    fn name(&self) -> &'a BStr {
        match self {
            PackedEdit::Put(name, ..) | PackedEdit::Remove(name) => name,
        }
    }
}

/// The length in bytes from which a range of the old file is copied by the kernel instead of through the buffer.
const COPY_FROM: usize = 64 << 10;
/// Buffered lines are written once they have this many bytes.
const BUFFER_LEN: usize = 256 << 10;

/// A new packed-refs beside the old one, which it is to replace. Dropping this removes the new file if it has not
/// replaced the old one.
///
/// Like git's new file, it is not the lock file, so that `packed-refs.lock` is held while the new file replaces the
/// old one and afterwards. Its name is not git's `packed-refs.new`, because git fails if that file is left behind.
#[derive(Debug)]
#[must_use = "the new packed-refs goes away when this is dropped"]
pub(crate) struct NewPacked {
    store: Arc<Store>,
    path: PathBuf,
    target: PathBuf,
    pending: bool,
}

impl NewPacked {
    /// Creates the file. The lock of `packed-refs` must be held or, with `is_aside`, the lock of [`aside`].
    fn create(store: &Arc<Store>, is_aside: bool) -> Result<(Self, File)> {
        let target = store.packed_target()?;
        let path = if is_aside { aside(&target) } else { under_lock(&target) };
        let fs = &store.options.fs;
        let locked = if is_aside { &path } else { &target };
        debug_assert!(fs.stat_link(&Lock::path_of(locked)).is_ok(), "a lock is held while packed-refs is rewritten");
        let file = fs.create_afresh(&path, 0o666)?;
        let new = NewPacked { store: Arc::clone(store), path, target, pending: true };
        folders::share(fs, &new.path, store.options.sharing, false)?;
        Ok((new, file))
    }

    /// Renames the file over packed-refs, and makes that durable where refs are synced.
    pub(crate) fn publish(mut self) -> Result<()> {
        self.rename()?;
        self.sync_name()
    }

    /// Renames the file over packed-refs.
    pub(crate) fn rename(&mut self) -> Result<()> {
        self.store.options.fs.rename(&self.path, &self.target)?;
        self.pending = false;
        Ok(())
    }

    /// Makes the renaming, or a later removal of packed-refs, durable where refs are synced.
    pub(crate) fn sync_name(&self) -> Result<()> {
        match self.target.parent().filter(|_| self.store.options.sync) {
            Some(folder) => Ok(self.store.options.fs.sync_dir(folder)?),
            None => Ok(()),
        }
    }
}

impl Drop for NewPacked {
    fn drop(&mut self) {
        if self.pending {
            // A file that stays is replaced by the next writer.
            let _ = self.store.options.fs.remove_file(&self.path);
        }
    }
}

/// The file in which a new packed-refs is made while `packed-refs.lock` is held.
fn under_lock(packed: &Path) -> PathBuf {
    packed.with_file_name("packed-refs.refdb")
}

/// Removes the new packed-refs that a killed writer left. `packed-refs.lock` must be held.
pub(crate) fn clear_left(store: &Store) -> Result<()> {
    let (fs, left) = (&store.options.fs, under_lock(&store.packed_target()?));
    if fs.find_link(&left)?.is_some() { Ok(fs.remove_existing(&left)?) } else { Ok(()) }
}

/// The file in which a new packed-refs is made without the lock of packed-refs, under a lock of its own.
pub(crate) fn aside(packed: &Path) -> PathBuf {
    packed.with_file_name("packed-refs.refdb-fold")
}

/// Writes `old` with the edits, which are in ascending order of name without repetition. `packed-refs.lock` must be
/// held.
pub(crate) fn rewrite<'e>(
    store: &Arc<Store>,
    old: &PackedFile,
    edits: &mut dyn Iterator<Item = PackedEdit<'e>>,
) -> Result<NewPacked> {
    write(store, old, edits, false)
}

/// Writes `old` with the edits while the lock of packed-refs is not held. The caller must later check, under that
/// lock, that `old` is still the present file.
pub(crate) fn rewrite_aside<'e>(
    store: &Arc<Store>,
    old: &PackedFile,
    edits: &mut dyn Iterator<Item = PackedEdit<'e>>,
) -> Result<NewPacked> {
    write(store, old, edits, true)
}

fn write<'e>(
    store: &Arc<Store>,
    old: &PackedFile,
    edits: &mut dyn Iterator<Item = PackedEdit<'e>>,
    is_aside: bool,
) -> Result<NewPacked> {
    let (new, file) = NewPacked::create(store, is_aside)?;
    let packed = &old.packed;
    // Opened in any case, for [`restore`]: once the file is replaced it can no longer be opened.
    let source = old.file.as_ref().map(|file| file.get()).transpose()?;
    let source = source.filter(|_| packed.is_copyable()).map(|file| &**file);
    let mut writer = RangeWriter { file, source, packed, kept: 0..0, buffer: Vec::with_capacity(BUFFER_LEN + 4096) };
    let mut position = packed.start();
    if packed.has_own_header()? {
        writer.keep(0..position)?;
    } else {
        writer.buffer.extend_from_slice(packed.header().as_bytes());
    }
    let mut last = BStr::new("");
    for edit in edits {
        debug_assert!(last < edit.name(), "packed-refs is sorted when it is written: {edit:?} behind {last}");
        last = edit.name();
        let at = packed.seek(position, edit.name())?;
        debug_assert!(position <= at, "records are copied in their order: {at} behind {position}");
        keep_records(store, &mut writer, position..at)?;
        position = at;
        if position < packed.end() {
            let record = packed.record(position)?;
            if record.name == edit.name() {
                position = record.next;
            }
        }
        if let PackedEdit::Put(name, id, peeled) = edit {
            writer.put(name, id, peeled)?;
        }
    }
    keep_records(store, &mut writer, position..packed.end())?;
    let file = writer.finish()?;
    if store.options.sync {
        file.sync()?
    } else {
        store.options.fs.deliver(&file)?
    }
    Ok(new)
}

/// Writes `old` again as it was, to undo [`rewrite`]. Returns `None` if there was no packed-refs.
pub(crate) fn restore(store: &Arc<Store>, old: &PackedFile) -> Result<Option<NewPacked>> {
    let (Some(source), Some(stat)) = (&old.file, old.stat()) else { return Ok(None) };
    let (new, mut file) = NewPacked::create(store, false)?;
    file.copy_from(source.get()?, 0, stat.len_bytes)?;
    if store.options.sync {
        file.sync()?
    } else {
        store.options.fs.deliver(&file)?
    }
    Ok(Some(new))
}

/// Copies records. If the old file does not promise to be sorted, or was found to break that promise, each record is
/// written anew with its peeled object.
fn keep_records(store: &Store, writer: &mut RangeWriter<'_>, range: Range<usize>) -> Result<()> {
    let packed = writer.packed;
    if packed.is_copyable() {
        return writer.keep(range);
    }
    let mut at = range.start;
    while at < range.end {
        let record = packed.record(at)?;
        let peeled = match record.peeled {
            Peeled::To(id) => Some(id),
            Peeled::NotTag => None,
            Peeled::Unknown => peel(store, &record.id)?,
        };
        writer.put(record.name, record.id, peeled)?;
        at = record.next;
    }
    Ok(())
}

/// Returns the object to which an annotated tag peels, for its peeled line; `None` for a tag that cannot be peeled, and
/// for any other object.
pub(crate) fn peel(store: &Store, id: &ObjectId) -> Result<Option<ObjectId>> {
    Ok(store.options.objects.peel_tag(id)?)
}

/// The first line of a packed-refs for which all promises hold.
pub(crate) const WHOLE_HEADER: &[u8] = b"# pack-refs with: peeled fully-peeled sorted \n";

/// Appends the line of a ref, and its peeled line if there is one.
pub(crate) fn encode(name: &BStr, id: ObjectId, peeled: Option<ObjectId>, out: &mut Vec<u8>) {
    id.write_hex(out);
    out.push(b' ');
    encode_rest(name, peeled, out);
}

/// Appends what follows the object id and the space in a ref's line, and the peeled line if there is one.
#[inline]
pub(crate) fn encode_rest(name: &BStr, peeled: Option<ObjectId>, out: &mut Vec<u8>) {
    out.extend_from_slice(name);
    out.push(b'\n');
    if let Some(peeled) = peeled {
        out.push(b'^');
        peeled.write_hex(out);
        out.push(b'\n');
    }
}

struct RangeWriter<'p> {
    file: File,
    /// The file of `packed`, if its ranges may be copied.
    source: Option<&'p File>,
    packed: &'p Packed,
    /// A range of the old file that is not written yet, because it may be extended.
    kept: Range<usize>,
    buffer: Vec<u8>,
}

impl RangeWriter<'_> {
    fn keep(&mut self, range: Range<usize>) -> Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        assert!(self.kept.end <= range.start && range.end <= self.packed.end(), "the old file is copied forward");
        if self.kept.end != range.start {
            self.flush_kept()?;
            self.kept.start = range.start;
        }
        self.kept.end = range.end;
        Ok(())
    }

    fn flush_kept(&mut self) -> Result<()> {
        let range = std::mem::take(&mut self.kept);
        assert!(self.source.is_none() || !self.packed.is_moved(), "positions are those in the file that is copied");
        match self.source {
            Some(source) if range.len() >= COPY_FROM => {
                self.flush_buffer()?;
                self.copy(source, range)
            }
            _ => {
                self.buffer.extend_from_slice(&self.packed.read(range)?);
                if self.buffer.len() >= BUFFER_LEN { self.flush_buffer() } else { Ok(()) }
            }
        }
    }

    /// Copies a range in pieces, so that a signal can end the copy.
    fn copy(&mut self, source: &File, range: Range<usize>) -> Result<()> {
        const PIECE_LEN: usize = 256 << 20;
        let mut at = range.start;
        while at < range.end {
            interrupt::check().map_err(Error::Interrupted)?;
            let len = (range.end - at).min(PIECE_LEN);
            self.file.copy_from(source, at as u64, len as u64)?;
            at += len;
        }
        Ok(())
    }

    fn put(&mut self, name: &BStr, id: ObjectId, peeled: Option<ObjectId>) -> Result<()> {
        if name.contains(&b'\n') {
            return Err(Misuse::BadName(name.to_owned()).into());
        }
        self.flush_kept()?;
        encode(name, id, peeled, &mut self.buffer);
        if self.buffer.len() >= BUFFER_LEN { self.flush_buffer() } else { Ok(()) }
    }

    fn flush_buffer(&mut self) -> Result<()> {
        if !self.buffer.is_empty() {
            self.file.write_all(&self.buffer)?;
            self.buffer.clear();
        }
        Ok(())
    }

    fn finish(mut self) -> Result<File> {
        self.flush_kept()?;
        self.flush_buffer()?;
        assert!(self.kept.is_empty() && self.buffer.is_empty(), "all of it is in the file that replaces the old one");
        Ok(self.file)
    }
}
