use crate::{
    format::{
        place::Place,
        record::{RECORD_HEADER_BYTES, RecordHeader, SEGMENT_HEADER_BYTES},
    },
    log::scratch::RecordBuffer,
    log::{handles::Handles, image::Image},
    sync::{AtomicBool, AtomicU64, Mutex, MutexGuard, Ordering, SharedOption, holds_log},
};
use refdb_vfs::{File, Fs, Growing, prefetch};
use std::{
    io,
    ops::Range,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock, PoisonError},
};

/// Maximum number of bytes in one write of records: the size of a processor's huge page, because file systems can keep
/// such a write in one large page of the page cache.
const PIECE_BYTES: usize = 2 << 20;
/// Maximum length of a record that is prefetched as a whole.
const PREFETCHED_BYTES: usize = 4 << 10;
/// Number of bytes that are prefetched of a longer record. The processor then fetches the rest by itself, and more
/// requests would hinder that.
const PREFETCHED_START_BYTES: usize = 1 << 10;

/// One file of the log, and its image in memory as long as the file is incomplete.
///
/// Bytes are read from the mapping of the file if there is one that has them, else from the image if the segment is not
/// sealed, else from the file. Readers never wait for the writer.
pub(crate) struct Segment {
    pub(crate) seq: u64,
    /// Slot in the cache's table of segments; reused after the segment is deleted.
    pub(crate) slot: u16,
    path: PathBuf,
    image: SharedOption<Image>,
    /// The open file, as long as it is being written.
    file: SharedOption<File>,
    handles: Arc<Handles>,
    mapping: OnceLock<Growing>,
    /// Number of bytes that are in the file.
    flushed: AtomicU64,
    /// Number of bytes that this process has brought to stable storage.
    synced: AtomicU64,
    /// Whether the file was deleted, so that nothing may keep its space.
    deleted: AtomicBool,
    /// Whether a sync failed once. Locked during a sync, so that no thread mistakes another's failure for success.
    lost: Mutex<bool>,
}

/// The name of a segment's file.
pub(crate) fn file_name(seq: u64) -> String {
    format!("{seq:016x}.seg")
}

/// The largest segment number that is accepted from a file name, so that numbers remain for later segments.
const MOST_SEQ: u64 = u64::MAX >> 1;

/// The number of the segment in a file with this name.
pub(crate) fn seq_of(name: &[u8]) -> Option<u64> {
    let digits = name.strip_suffix(b".seg").filter(|digits| digits.len() == 16)?;
    let digits = std::str::from_utf8(digits).ok()?;
    u64::from_str_radix(digits, 16).ok().filter(|seq| *seq <= MOST_SEQ && file_name(*seq).as_bytes() == name)
}

impl Segment {
    /// A segment to be filled.
    pub(crate) fn filling(dir: &Path, seq: u64, slot: u16, image: Arc<Image>, handles: &Arc<Handles>) -> Self {
        let segment = Segment::sealed(dir.join(file_name(seq)), seq, slot, 0, handles);
        segment.image.store(Some(image));
        segment
    }

    /// A segment whose file is complete.
    pub(crate) fn sealed(path: PathBuf, seq: u64, slot: u16, len_bytes: u64, handles: &Arc<Handles>) -> Self {
        Segment {
            seq,
            slot,
            path,
            image: SharedOption::empty(),
            file: SharedOption::empty(),
            handles: handles.clone(),
            mapping: OnceLock::new(),
            flushed: AtomicU64::new(len_bytes),
            synced: AtomicU64::new(0),
            deleted: AtomicBool::new(false),
            lost: Mutex::new(false),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn flushed(&self) -> u64 {
        self.flushed.load(Ordering::Acquire)
    }

    /// Returns the bytes of the record at `place`, borrowed from memory or read into `buffer`. Returns `None` if this
    /// segment has no such bytes, because the place is that of another one which had the same slot, or if the file
    /// cannot be read.
    pub(crate) fn record<'a>(&'a self, place: Place, buffer: &'a mut RecordBuffer) -> Option<&'a [u8]> {
        debug_assert_eq!(place.slot(), self.slot, "the place lies in this segment");
        let (start, end) = (place.offset(), place.offset() + place.len());
        if let Some(bytes) = self.mapping.get().and_then(|mapping| mapping.get(start..end)) {
            let is_long = bytes.len() > PREFETCHED_BYTES;
            prefetch(if is_long { &bytes[..PREFETCHED_START_BYTES] } else { bytes });
            return Some(bytes);
        }
        // The image is tried before the file, because it is released only after the file is complete.
        if let Some(image) = self.image.load_full() {
            return buffer.image.insert(image).get(start..end);
        }
        let file = self.file.load_full().or_else(|| self.handles.open(self.seq, &self.path))?;
        if self.deleted.load(Ordering::Acquire) {
            // The file was opened before its deletion, and kept after that had closed it.
            self.handles.close(self.seq);
        }
        if buffer.bytes.len() < place.len() {
            buffer.bytes.resize(place.len(), 0);
        }
        let bytes = &mut buffer.bytes[..place.len()];
        file.read_exact_at(bytes, start as u64).ok()?;
        Some(bytes)
    }

    /// The header of the record at `place`, without verification.
    pub(crate) fn record_header(&self, place: Place, buffer: &mut RecordBuffer) -> Option<RecordHeader> {
        RecordHeader::decode(self.record(place.with_len(RECORD_HEADER_BYTES), buffer)?)
    }

    /// Uses a mapping of the complete file for readers.
    pub(crate) fn use_mapping(&self, mapping: Growing) {
        let _ = self.mapping.set(mapping);
    }

    /// Bytes of the file, if it is mapped.
    pub(crate) fn mapped(&self, range: Range<usize>) -> Option<&[u8]> {
        self.mapping.get()?.get(range)
    }

    /// Maps a complete file for readers.
    pub(crate) fn map(&self, fs: &Fs) -> refdb_vfs::Result<()> {
        let len = self.flushed() as usize;
        self.use_mapping(Growing::new(&fs.open(&self.path)?, len, len)?);
        Ok(())
    }

    /// Returns whether the file was deleted; false if that cannot be found out.
    pub(crate) fn is_gone(&self, fs: &Fs) -> bool {
        matches!(fs.find(&self.path), Ok(None))
    }

    /// Deletes the file. A file that does not exist any more is no error.
    pub(crate) fn delete(&self, fs: &Fs) -> refdb_vfs::Result<()> {
        debug_assert!(!holds_log(), "no disk access happens under the log's lock");
        match fs.remove_file(&self.path) {
            Err(error) if !error.is_not_found() => return Err(error),
            _ => {}
        }
        self.file.store(None);
        self.deleted.store(true, Ordering::Release);
        self.handles.close(self.seq);
        Ok(())
    }

    /// Appends the bytes of the image up to `end` to the file. If `map` is set and the file can be mapped, readers use
    /// the mapping from then on.
    pub(crate) fn flush(&self, fs: &Fs, image: &Image, end: usize, map: bool) -> refdb_vfs::Result<()> {
        debug_assert!(!holds_log(), "no disk access happens under the log's lock");
        let bytes = image.get(0..end).expect("records lie in the image");
        let mut at = self.flushed() as usize;
        if at >= end {
            return Ok(());
        }
        let file = self.writable(fs)?;
        if map
            && self.mapping.get().is_none()
            && let Ok(mapping) = Growing::new(&file, at, image.capacity())
        {
            let _ = self.mapping.set(mapping);
        }
        while at < end {
            let to = ((at / PIECE_BYTES + 1) * PIECE_BYTES).min(end);
            file.write_all_at(&bytes[at..to], at as u64)?;
            at = to;
            self.flushed.store(at as u64, Ordering::Release);
            if let Some(mapping) = self.mapping.get() {
                mapping.grown_to(at);
            }
        }
        Ok(())
    }

    /// Appends the footer, which completes the file, and releases the image.
    pub(crate) fn seal(&self, fs: &Fs, footer: &[u8]) -> refdb_vfs::Result<()> {
        debug_assert!(self.flushed() as usize >= SEGMENT_HEADER_BYTES);
        self.writable(fs)?.write_all_at(footer, self.flushed())?;
        debug_assert!(!holds_log(), "no disk access happens under the log's lock");
        // Readers use the mapping, or open the file again.
        self.file.store(None);
        self.flushed.fetch_add(footer.len() as u64, Ordering::Release);
        self.image.store(None);
        Ok(())
    }

    /// Creates the file, unless this segment has created it already and still has it open.
    pub(crate) fn create(&self, fs: &Fs) -> refdb_vfs::Result<()> {
        self.writable(fs).map(drop)
    }

    fn writable(&self, fs: &Fs) -> refdb_vfs::Result<Arc<File>> {
        if let Some(file) = self.file.load_full() {
            return Ok(file);
        }
        let file = Arc::new(fs.create_new(&self.path, 0o600)?);
        self.file.store(Some(file.clone()));
        Ok(file)
    }

    /// Syncs the bytes in the file, unless all of them were already synced. After one failed `fsync` every
    /// call fails, because the operating system may have dropped the unwritten pages and reports such a loss only
    /// once, so that the next `fsync` would succeed.
    pub(crate) fn sync(&self, fs: &Fs) -> refdb_vfs::Result<()> {
        debug_assert!(!holds_log(), "no disk access happens under the log's lock");
        let mut lost = self.lost();
        if *lost {
            let source = io::Error::other("an earlier attempt failed");
            return Err(refdb_vfs::Error { operation: "sync", path: self.path.clone(), source });
        }
        let flushed = self.flushed();
        if self.synced.load(Ordering::Acquire) >= flushed {
            return Ok(());
        }
        let file = match self.file.load_full() {
            Some(file) => file,
            None => Arc::new(fs.open(&self.path)?),
        };
        file.sync().inspect_err(|_| *lost = true)?;
        self.synced.fetch_max(flushed, Ordering::Release);
        Ok(())
    }

    /// Returns whether a sync failed, so that nobody knows which bytes are durable.
    pub(crate) fn is_lost(&self) -> bool {
        *self.lost()
    }

    fn lost(&self) -> MutexGuard<'_, bool> {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_it_would_give_itself_are_segments() {
        assert_eq!(seq_of(file_name(0x1f).as_bytes()), Some(0x1f));
        for name in ["1f.seg", "000000000000001F.seg", "+00000000000001f.seg", "000000000000001f.tmp", "format"] {
            assert_eq!(seq_of(name.as_bytes()), None, "{name}");
        }
    }

    /// Previously, a file that a get opened just before its deletion stayed open, and kept its space.
    #[test]
    fn a_read_that_is_later_than_the_deletion_keeps_no_file_open() {
        let dir = tempfile::tempdir().unwrap();
        let (fs, path) = (Fs::real(), dir.path().join(file_name(7)));
        let handles = Handles::new(fs.clone());
        let make = || std::fs::write(&path, [1; 128]).unwrap();
        make();
        let segment = Segment::sealed(path.clone(), 7, 0, 128, &handles);
        let is_read = || segment.record(Place::new(0, 64, 32), &mut RecordBuffer::default()).is_some();
        assert!(is_read());
        segment.delete(&fs).unwrap();
        // As if the reader had found the file before it was deleted.
        make();
        assert!(is_read());
        std::fs::remove_file(&path).unwrap();
        assert!(handles.open(7, &path).is_none(), "the file is still open");
    }
}
