use crate::Result;
use bstr::ByteSlice;
use refdb_vfs::File;
use std::{
    fmt,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

/// How many bytes of private memory the pages of any number of files take together, and what else is charged to it. It
/// only counts; whoever owns it decides who has to give up what ([`FilesBackend::shed`](super::FilesBackend::shed)).
#[derive(Debug, Default)]
pub struct PageBudget {
    used_bytes: AtomicUsize,
}

impl PageBudget {
    /// Bytes in memory now.
    pub fn used_bytes(&self) -> usize {
        self.used_bytes.load(Relaxed)
    }

    /// Counts so many bytes for as long as the charge lives.
    pub fn charge(self: &Arc<Self>, bytes: usize) -> Charge {
        let mut charge = Charge { budget: Arc::clone(self), bytes: 0 };
        charge.add(bytes);
        charge
    }
}

/// Bytes that are counted in a [`PageBudget`].
#[derive(Debug)]
pub struct Charge {
    budget: Arc<PageBudget>,
    bytes: usize,
}

impl Charge {
    /// How many they are.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Counts more.
    pub fn add(&mut self, bytes: usize) {
        self.bytes += bytes;
        self.budget.used_bytes.fetch_add(bytes, Relaxed);
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.budget.used_bytes.fetch_sub(self.bytes, Relaxed);
    }
}

/// Bytes of a file in one page, more or less: a page holds whole records.
pub(super) const PAGE_LEN: usize = 16 << 10;

/// Read beyond a page at first, for the last record's end.
const SLACK_LEN: usize = 256;

/// A packed-refs file of which those parts are in private memory that were needed so far. They stay as long as this
/// does, so that nobody waits for a lock to read them.
pub(super) struct Pages {
    file: Arc<File>,
    len: usize,
    pages: Box<[OnceLock<Page>]>,
    loaded_bytes: AtomicUsize,
    budget: Arc<PageBudget>,
}

/// The records, or lines before the first record, that begin within [`PAGE_LEN`] bytes of the file, to their ends.
struct Page {
    base: usize,
    bytes: Box<[u8]>,
}

impl fmt::Debug for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pages({} of {} bytes)", self.loaded_bytes(), self.len)
    }
}

impl Pages {
    /// A file of this length. Nothing is read.
    pub(super) fn new(file: Arc<File>, len: usize, budget: &Arc<PageBudget>) -> Self {
        let count = len.div_ceil(PAGE_LEN);
        let pages = std::iter::repeat_with(OnceLock::new).take(count).collect();
        Pages { file, len, pages, loaded_bytes: AtomicUsize::new(0), budget: Arc::clone(budget) }
    }

    /// The same file, nothing of it in memory.
    pub(super) fn emptied(&self) -> Self {
        Self::new(Arc::clone(&self.file), self.len, &self.budget)
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn loaded_bytes(&self) -> usize {
        self.loaded_bytes.load(Relaxed)
    }

    /// The page that has the record which the byte at `position` belongs to, and where in the file it begins. The end
    /// of the file belongs to the last record.
    #[inline]
    pub(super) fn around(&self, position: usize) -> Result<(&[u8], usize)> {
        let mut at = (position / PAGE_LEN).min(self.pages.len().saturating_sub(1));
        loop {
            let Some(page) = self.page(at)? else { return Ok((&[], 0)) };
            // The last record that begins in the page before may reach into this one, or past all of it.
            let is_before = position < page.base || page.bytes.is_empty();
            match at.checked_sub(1) {
                Some(before) if is_before => at = before,
                _ => return Ok((&page.bytes, page.base)),
            }
        }
    }

    #[inline]
    fn page(&self, at: usize) -> Result<Option<&Page>> {
        let Some(cell) = self.pages.get(at) else { return Ok(None) };
        if cell.get().is_none() {
            self.load(at, cell)?;
        }
        Ok(cell.get())
    }

    #[cold]
    fn load(&self, at: usize, cell: &OnceLock<Page>) -> Result<()> {
        let (base, bytes) = self.read_records(at * PAGE_LEN, PAGE_LEN)?;
        let len = bytes.len();
        // Another thread may have been quicker; its page is the same.
        if cell.set(Page { base, bytes: bytes.into() }).is_ok() {
            self.loaded_bytes.fetch_add(len, Relaxed);
            self.budget.used_bytes.fetch_add(len, Relaxed);
        }
        Ok(())
    }

    /// Reads the records that begin in the `len` bytes from `from` on, each to its end; also returns where the first
    /// begins. They are not kept.
    pub(super) fn read_records(&self, from: usize, len: usize) -> Result<(usize, Vec<u8>)> {
        let to = from.saturating_add(len).min(self.len);
        // One byte more in front: a record begins behind a newline.
        let origin = from.saturating_sub(1);
        let mut bytes = vec![0; self.len.min(to + SLACK_LEN) - origin];
        self.file.read_exact_at(&mut bytes, origin as u64)?;
        let start = self.record_start(&mut bytes, origin, from)?;
        let end = self.record_start(&mut bytes, origin, to)?;
        bytes.truncate(end - origin);
        bytes.drain(..start - origin);
        Ok((start, bytes))
    }

    /// Where the first record that begins at `from` or later begins. `bytes` are those of the file from `origin` on; more
    /// are added where the record is longer.
    fn record_start(&self, bytes: &mut Vec<u8>, origin: usize, from: usize) -> Result<usize> {
        if from == 0 || from >= self.len {
            return Ok(from.min(self.len));
        }
        let mut at = from - 1;
        loop {
            let newline = bytes.get(at - origin..).and_then(|rest| rest.find_byte(b'\n'));
            match newline.map(|len| at + len + 1) {
                Some(next) if next == self.len => return Ok(next),
                Some(next) => match bytes.get(next - origin) {
                    // What a tag peels to belongs to the record before.
                    Some(b'^') => at = next,
                    Some(_) => return Ok(next),
                    None => self.read_more(bytes, origin)?,
                },
                None if origin + bytes.len() >= self.len => return Ok(self.len),
                None => self.read_more(bytes, origin)?,
            }
        }
    }

    fn read_more(&self, bytes: &mut Vec<u8>, origin: usize) -> Result<()> {
        let len = bytes.len();
        let more = (len * 2).min(self.len - origin);
        bytes.resize(more, 0);
        self.file.read_exact_at(&mut bytes[len..], (origin + len) as u64)?;
        Ok(())
    }

    /// Reads a part of the file as it is.
    pub(super) fn read(&self, position: usize, len: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; len.min(self.len.saturating_sub(position))];
        self.file.read_exact_at(&mut bytes, position as u64)?;
        Ok(bytes)
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        self.budget.used_bytes.fetch_sub(self.loaded_bytes(), Relaxed);
    }
}
