use crate::{
    format::{
        place::Place,
        record::{RECORD_HEADER_BYTES, RecordHeader, SEGMENT_HEADER_BYTES},
    },
    log::scratch::Lent,
    log::{handles::Handles, image::Image},
    sync::{AtomicU64, Mutex, MutexGuard, Ordering, SharedOption, holds_log},
};
use refdb_vfs::{File, Fs, Growing, prefetch};
use std::{
    io,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock, PoisonError},
};

/// Written at once at most: a large page of the processor. File systems keep such a write in one page.
const PIECE_BYTES: usize = 2 << 20;
/// A record of up to this many bytes is fetched ahead as a whole.
const PREFETCHED_BYTES: usize = 4 << 10;
/// Of a longer one, this many bytes are requested. The processor then does the rest by itself, and more requests would
/// stand in its way.
const PREFETCHED_START_BYTES: usize = 1 << 10;

/// One file of the log, and its image as long as the file is not whole.
///
/// Its bytes are read from the mapping first: the part in the file, on a local file system. Then come the image (not
/// sealed yet) and the file. Readers never wait for the writer.
pub(crate) struct Segment {
    pub(crate) seq: u64,
    /// Which of the cache's segments it is; reused after it is gone.
    pub(crate) slot: u16,
    path: PathBuf,
    image: SharedOption<Image>,
    /// As long as it is being written.
    file: SharedOption<File>,
    handles: Arc<Handles>,
    mapping: OnceLock<Growing>,
    /// How many of its bytes the file has.
    flushed: AtomicU64,
    /// How many of its bytes are on stable storage.
    synced: AtomicU64,
    /// Whether bringing it there failed once. Held meanwhile, so that no thread takes another's failure for a success.
    lost: Mutex<bool>,
}

/// The name of a segment's file.
pub(crate) fn file_name(seq: u64) -> String {
    format!("{seq:016x}.seg")
}

/// No segment has a larger number: none would be left for those behind it.
const MOST_SEQ: u64 = u64::MAX >> 1;

/// The number of the segment a file of this name holds.
pub(crate) fn seq_of(name: &[u8]) -> Option<u64> {
    let digits = name.strip_suffix(b".seg").filter(|digits| digits.len() == 16)?;
    let digits = std::str::from_utf8(digits).ok()?;
    u64::from_str_radix(digits, 16).ok().filter(|seq| *seq <= MOST_SEQ && file_name(*seq).as_bytes() == name)
}

impl Segment {
    /// A segment that is to be filled.
    pub(crate) fn filling(dir: &Path, seq: u64, slot: u16, image: Arc<Image>, handles: &Arc<Handles>) -> Self {
        let segment = Segment::sealed(dir.join(file_name(seq)), seq, slot, 0, handles);
        segment.image.store(Some(image));
        segment
    }

    /// A segment whose file is whole.
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
            lost: Mutex::new(false),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn flushed(&self) -> u64 {
        self.flushed.load(Ordering::Acquire)
    }

    /// The bytes of the record at `place`, where they are or read into `lent`. None if there are no such bytes any
    /// more: another segment has the slot, or the file cannot be read.
    pub(crate) fn record<'a>(&'a self, place: Place, lent: &'a mut Lent) -> Option<&'a [u8]> {
        debug_assert_eq!(place.slot(), self.slot, "the place is one of this segment");
        let (start, end) = (place.offset(), place.offset() + place.len());
        if let Some(bytes) = self.mapping.get().and_then(|mapping| mapping.get(start..end)) {
            let is_long = bytes.len() > PREFETCHED_BYTES;
            prefetch(if is_long { &bytes[..PREFETCHED_START_BYTES] } else { bytes });
            return Some(bytes);
        }
        // The image first: it is let go only after the file is whole.
        if let Some(image) = self.image.load_full() {
            return lent.image.insert(image).get(start..end);
        }
        let file = self.file.load_full().or_else(|| self.handles.open(self.seq, &self.path))?;
        if lent.bytes.len() < place.len() {
            lent.bytes.resize(place.len(), 0);
        }
        let bytes = &mut lent.bytes[..place.len()];
        file.read_exact_at(bytes, start as u64).ok()?;
        Some(bytes)
    }

    /// The header of the record at `place`, unchecked.
    pub(crate) fn record_header(&self, place: Place, lent: &mut Lent) -> Option<RecordHeader> {
        RecordHeader::decode(self.record(place.with_len(RECORD_HEADER_BYTES), lent)?)
    }

    /// Maps a file that is whole, for readers.
    pub(crate) fn map(&self, fs: &Fs) -> refdb_vfs::Result<()> {
        let len = self.flushed() as usize;
        let _ = self.mapping.set(Growing::new(&fs.open(&self.path)?, len, len)?);
        Ok(())
    }

    /// Whether the process that writes has deleted it.
    pub(crate) fn is_gone(&self, fs: &Fs) -> bool {
        matches!(fs.find(&self.path), Ok(None))
    }

    /// Deletes the file; that it is not there any more is no failure.
    pub(crate) fn delete(&self, fs: &Fs) -> refdb_vfs::Result<()> {
        debug_assert!(!holds_log(), "the log's lock is held for moments, not for a disk");
        match fs.remove_file(&self.path) {
            Err(error) if !error.is_not_found() => return Err(error),
            _ => {}
        }
        self.file.store(None);
        self.handles.close(self.seq);
        Ok(())
    }

    /// Adds to the file what the image has up to `end`. With `map` readers see it in the file from then on.
    pub(crate) fn flush(&self, fs: &Fs, image: &Image, end: usize, map: bool) -> refdb_vfs::Result<()> {
        debug_assert!(!holds_log(), "the log's lock is held for moments, not for a disk");
        let bytes = image.get(0..end).expect("records end in the image");
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

    /// Adds the footer, which makes the file whole, and lets go of the image.
    pub(crate) fn seal(&self, fs: &Fs, footer: &[u8]) -> refdb_vfs::Result<()> {
        debug_assert!(self.flushed() as usize >= SEGMENT_HEADER_BYTES);
        self.writable(fs)?.write_all_at(footer, self.flushed())?;
        debug_assert!(!holds_log(), "the log's lock is held for moments, not for a disk");
        // Readers have the mapping, or open it again.
        self.file.store(None);
        self.flushed.fetch_add(footer.len() as u64, Ordering::Release);
        self.image.store(None);
        Ok(())
    }

    fn writable(&self, fs: &Fs) -> refdb_vfs::Result<Arc<File>> {
        if let Some(file) = self.file.load_full() {
            return Ok(file);
        }
        let file = Arc::new(fs.create_new(&self.path, 0o600)?);
        self.file.store(Some(file.clone()));
        Ok(file)
    }

    /// Brings what the file has to stable storage. Where that failed once it fails for good. The operating system may have
    /// dropped what it had of the file. It says so once, and the next attempt would succeed.
    pub(crate) fn sync(&self, fs: &Fs) -> refdb_vfs::Result<bool> {
        debug_assert!(!holds_log(), "the log's lock is held for moments, not for a disk");
        let mut lost = self.lost();
        if *lost {
            let source = io::Error::other("an earlier attempt failed");
            return Err(refdb_vfs::Error { operation: "sync", path: self.path.clone(), source });
        }
        let flushed = self.flushed();
        if self.synced.load(Ordering::Acquire) >= flushed {
            return Ok(false);
        }
        let file = match self.file.load_full() {
            Some(file) => file,
            None => Arc::new(fs.open(&self.path)?),
        };
        file.sync().inspect_err(|_| *lost = true)?;
        self.synced.fetch_max(flushed, Ordering::Release);
        Ok(true)
    }

    /// Whether nobody knows what of it will last.
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
}
