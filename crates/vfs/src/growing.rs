use crate::{Error, File, Result};
use std::{
    ops::Range,
    sync::atomic::{AtomicUsize, Ordering},
};

/// The bytes that have been written so far to a file that only grows, mapped read-only for as long as this value lives.
///
/// Use it only for files that no other process writes and that are deleted but never truncated, because truncating a
/// mapped file kills a process that reads the mapping.
pub struct Growing {
    map: memmap2::MmapRaw,
    /// The number of bytes at the start that are written and will not change.
    written: AtomicUsize,
}

impl Growing {
    /// Maps a file that has `written` bytes and will have at most `most` bytes.
    pub fn new(file: &File, written: usize, most: usize) -> Result<Self> {
        let map = memmap2::MmapOptions::new().len(most.max(1)).map_raw_read_only(file.as_std());
        let map = map.map_err(|source| Error::new("map", file.path(), source))?;
        Ok(Growing { map, written: AtomicUsize::new(written.min(most)) })
    }

    /// Records that the file's first `len` bytes are written and will not change. Bytes beyond the mapping are not
    /// shown. The pages of the new bytes are mapped at once, which saves readers the page faults.
    pub fn grown_to(&self, len: usize) {
        let len = len.min(self.map.len());
        let before = self.written.fetch_max(len, Ordering::Release);
        if before < len {
            // The pages are in the page cache anyway. A kernel before 5.14 refuses this advice, and readers cause the
            // page faults.
            let _ = self.map.advise_range(memmap2::Advice::PopulateRead, before, len - before);
        }
    }

    /// Does what [`Growing::grown_to`] does with bytes that may have to be read from the disk. Returns false and shows
    /// none of the new bytes if not all of them can be read, because a mapped byte that cannot be read ends the process
    /// that looks at it. A kernel before 5.14 cannot tell, and the result is false for any new bytes.
    #[must_use]
    pub fn fetched_to(&self, len: usize) -> bool {
        let (len, before) = (len.min(self.map.len()), self.written.load(Ordering::Acquire));
        if before >= len {
            return true;
        }
        // Without this advice the kernel would read a few pages at a time.
        let _ = self.map.advise_range(memmap2::Advice::WillNeed, before, len - before);
        let is_fetched = self.map.advise_range(memmap2::Advice::PopulateRead, before, len - before).is_ok();
        if is_fetched {
            self.written.fetch_max(len, Ordering::Release);
        }
        is_fetched
    }

    /// Returns the bytes of a range; `None` if they are not all written yet, or if the range ends before it starts.
    pub fn get(&self, range: Range<usize>) -> Option<&[u8]> {
        if range.start > range.end || range.end > self.written.load(Ordering::Acquire) {
            return None;
        }
        // SAFETY: the range is within the mapping, which `written` never exceeds, and lives as long as `self`. Its
        // bytes do not change: the callers of `new`, `grown_to` and `fetched_to` promise that the bytes which they call
        // written are never written again. Another process that writes to the file or truncates it breaks the rule of
        // this type, as with `Mapping`.
        #[expect(unsafe_code, reason = "there is no safe way to map a file")]
        let bytes = unsafe { std::slice::from_raw_parts(self.map.as_ptr().add(range.start), range.len()) };
        Some(bytes)
    }
}

impl std::fmt::Debug for Growing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Growing({} bytes)", self.written.load(Ordering::Relaxed))
    }
}

/// Announces to the processor that these bytes will be read soon, so that it fetches their cache lines at the same time
/// and not one after the other; the last line may be left out if the bytes fill only a part of it. This costs one
/// instruction for each line, so pass at most a few thousand bytes. On other processors than x86-64 it does nothing.
pub fn prefetch(bytes: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    for line in bytes.chunks(CACHE_LINE_BYTES) {
        // SAFETY: a prefetch reads nothing as far as the program can tell, and faults nowhere; the address is a
        // slice's.
        #[expect(unsafe_code, reason = "the instruction has no safe form")]
        unsafe {
            std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(line.as_ptr().cast());
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = bytes;
}

#[cfg(target_arch = "x86_64")]
const CACHE_LINE_BYTES: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Fs;

    #[test]
    fn a_growing_file_shows_what_was_written_and_nothing_beyond() {
        let dir = tempfile::tempdir().unwrap();
        let file = Fs::real().create_new(&dir.path().join("log"), 0o600).unwrap();
        let growing = Growing::new(&file, 0, 100_000).unwrap();
        assert_eq!(growing.get(0..1), None);
        assert_eq!(growing.get(0..0), Some(&[][..]));
        let bytes: Vec<u8> = (0..120_000u32).map(|at| at as u8).collect();
        let mut at = 0;
        for end in [5, 4096, 70_001, 100_000, 120_000] {
            file.write_all_at(&bytes[at..end], at as u64).unwrap();
            at = end;
            growing.grown_to(end);
            let shown = end.min(100_000);
            assert_eq!(growing.get(0..shown), Some(&bytes[..shown]));
            assert_eq!(growing.get(0..shown + 1), None, "{growing:?}");
        }
        growing.grown_to(7);
        assert_eq!(growing.get(99_000..100_000), Some(&bytes[99_000..100_000]), "it never shrinks");
        let (start, end) = (8, 7);
        assert_eq!(growing.get(start..end), None);
        prefetch(&bytes[..1000]);
    }

    #[test]
    fn bytes_that_cannot_be_read_are_not_shown() {
        let dir = tempfile::tempdir().unwrap();
        let file = Fs::real().create_new(&dir.path().join("log"), 0o600).unwrap();
        file.write_all_at(&[7; 10_000], 0).unwrap();
        let growing = Growing::new(&file, 100, 50_000).unwrap();
        assert!(growing.fetched_to(10_000) && growing.fetched_to(50), "{growing:?}");
        assert_eq!(growing.get(99..10_000), Some(&[7; 9_901][..]));
        // Beyond the end of the file nothing can be mapped, just as where a disk fails.
        assert!(!growing.fetched_to(50_000));
        assert_eq!(growing.get(0..10_001), None);
    }
}
