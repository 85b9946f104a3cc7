use crate::Result;
use crate::files::{
    budget::{PageBudget, uncount},
    packed::{
        blocks::{Blocks, Touch},
        source::PackedSource,
    },
};
use bstr::ByteSlice;
use refdb_types::common_prefix;
use reftable::RefBlock;
use std::{
    fmt,
    ops::Range,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

/// The length of a page in bytes, more or less: a page contains the records that begin in it, to their ends.
pub(crate) const PAGE_LEN: usize = 16 << 10;

/// The bytes to read beyond a page at first, for the end of its last record.
const SLACK_LEN: usize = 256;

/// The bytes to read at first for the first name in a page.
const FENCE_LEN: usize = 512;

/// A packed-refs file of which only the parts that were needed so far are in private memory. These parts stay in memory
/// as long as this value, so that readers need no mutex.
///
/// A page exists in two forms, each made at its first use: a walk and the first look-up read the text of the file, and
/// later look-ups use a block, which takes about half as much memory.
pub(crate) struct Pages {
    file: Arc<PackedSource>,
    len: usize,
    text: Arc<Text>,
    blocks: Arc<Blocks>,
    /// For each page, the name of the first record that begins in the page or after it, if any. The names are small
    /// enough to be kept when pages are released.
    fences: Arc<[OnceLock<Fence>]>,
}

/// The text of the pages that were read.
struct Text {
    pages: Box<[OnceLock<Box<Page>>]>,
    loaded_bytes: AtomicUsize,
    budget: Arc<PageBudget>,
}

/// The first name in a page or after it.
type Fence = Option<Box<[u8]>>;

/// The records (or lines before the first record) that begin within [`PAGE_LEN`] bytes of the file, to their ends.
struct Page {
    base: usize,
    records: Range<usize>,
    /// The bytes that were read. Nearly all pages allocate the same size, so that the allocator can reuse released
    /// memory.
    buffer: Vec<u8>,
}

impl Page {
    #[inline]
    fn bytes(&self) -> &[u8] {
        &self.buffer[self.records.clone()]
    }
}

/// How much of the memory of a file is released.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Shed {
    /// The text of pages.
    Text,
    /// The text of pages, and blocks of this number of bytes, first those without a recent look-up.
    Blocks(usize),
    /// Everything except the first names of pages.
    All,
}

impl fmt::Debug for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pages({} of {} bytes)", self.loaded_bytes(), self.len)
    }
}

impl Pages {
    /// A file of `len` bytes, of which nothing is read yet.
    pub(crate) fn new(file: Arc<PackedSource>, len: usize, budget: &Arc<PageBudget>) -> Self {
        let count = len.div_ceil(PAGE_LEN);
        let pages = std::iter::repeat_with(OnceLock::new).take(count).collect();
        let text = Arc::new(Text { pages, loaded_bytes: AtomicUsize::new(0), budget: Arc::clone(budget) });
        let blocks = Arc::new(Blocks::new(count, budget));
        let fences = std::iter::repeat_with(OnceLock::new).take(count).collect();
        Pages { file, len, text, blocks, fences }
    }

    /// Returns a copy that shares these pages and reads further ones through `file`, the same file opened again.
    pub(crate) fn through(&self, file: Arc<PackedSource>) -> Self {
        let (text, blocks, fences) = (Arc::clone(&self.text), Arc::clone(&self.blocks), Arc::clone(&self.fences));
        Pages { file, len: self.len, text, blocks, fences }
    }

    /// A copy with less of the file in memory. Positions stay valid.
    pub(crate) fn without(&self, shed: Shed) -> Self {
        let count = self.count();
        let pages = std::iter::repeat_with(OnceLock::new).take(count).collect();
        let text = Text { pages, loaded_bytes: AtomicUsize::new(0), budget: Arc::clone(&self.text.budget) };
        debug_assert_eq!(self.fences.len(), count, "the same file has the same pages");
        let blocks = Arc::new(Blocks::new(count, &self.text.budget));
        let mut fresh = Pages { text: Arc::new(text), blocks, ..self.through(Arc::clone(&self.file)) };
        match shed {
            Shed::Text => fresh.blocks = Arc::clone(&self.blocks),
            Shed::Blocks(bytes) => fresh.blocks = Arc::new(self.blocks.without(bytes)),
            Shed::All => {}
        }
        fresh
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn loaded_bytes(&self) -> usize {
        self.text.loaded_bytes.load(Relaxed) + self.blocks.loaded_bytes()
    }

    /// The number of pages.
    pub(crate) fn count(&self) -> usize {
        self.text.pages.len()
    }

    /// The block of a page. If it is not known yet, `make` builds it from the page's bytes and their position in the
    /// file.
    #[inline]
    pub(crate) fn block(
        &self,
        at: usize,
        make: impl FnOnce(&[u8], usize) -> Option<RefBlock>,
    ) -> Result<Option<&RefBlock>> {
        self.blocks.get(at, || {
            let mut buffer = Vec::with_capacity(1 + PAGE_LEN + SLACK_LEN);
            let from = at * PAGE_LEN;
            let records = self.read_around(from, PAGE_LEN, &mut buffer)?;
            Ok(make(&buffer[records.clone()], from.saturating_sub(1) + records.start))
        })
    }

    /// The block of a page, if it is in memory.
    pub(crate) fn block_in_memory(&self, at: usize) -> Option<&RefBlock> {
        self.blocks.in_memory(at)
    }

    /// See [`Blocks::touch`].
    pub(crate) fn touch(&self, at: usize) -> Touch {
        self.blocks.touch(at)
    }

    /// The bytes of the page with the record to which the byte at `position` belongs, and their position in the file.
    /// The end of the file belongs to the last record.
    #[inline]
    pub(crate) fn around(&self, position: usize) -> Result<(&[u8], usize)> {
        let mut at = (position / PAGE_LEN).min(self.text.pages.len().saturating_sub(1));
        loop {
            let Some(page) = self.page(at)? else { return Ok((&[], 0)) };
            // The last record of the page before may reach into this page, or past it.
            let is_before = position < page.base || page.records.is_empty();
            match at.checked_sub(1) {
                Some(before) if is_before => at = before,
                _ => return Ok((page.bytes(), page.base)),
            }
        }
    }

    #[inline]
    fn page(&self, at: usize) -> Result<Option<&Page>> {
        let Some(cell) = self.text.pages.get(at) else { return Ok(None) };
        if cell.get().is_none() {
            self.load(at, cell)?;
        }
        Ok(cell.get().map(|page| &**page))
    }

    #[cold]
    fn load(&self, at: usize, cell: &OnceLock<Box<Page>>) -> Result<()> {
        let from = at * PAGE_LEN;
        let mut buffer = Vec::with_capacity(1 + PAGE_LEN + SLACK_LEN);
        let records = self.read_around(from, PAGE_LEN, &mut buffer)?;
        let len = buffer.capacity();
        let base = from.saturating_sub(1) + records.start;
        debug_assert!(base >= from, "a page has the records that begin in it: {base}");
        // Another thread may have read the page first; both are equal.
        if cell.set(Box::new(Page { base, records, buffer })).is_ok() {
            self.text.loaded_bytes.fetch_add(len, Relaxed);
            if !refdb_vfs::planted("refdb-pages") {
                self.text.budget.used_bytes.fetch_add(len, Relaxed);
            }
            self.text.budget.text_bytes.fetch_add(len, Relaxed);
        }
        Ok(())
    }

    /// The page that contains the record of this name, if the record exists: all names in earlier pages are less.
    /// `name_at` is the offset of the name in its line.
    pub(crate) fn page_with(&self, name: &[u8], name_at: usize) -> Result<usize> {
        let (mut low, mut high) = (0, self.text.pages.len());
        // The fences at `low` and `high` share this many leading bytes with `name`, and so do all between them if the
        // file is sorted. If it is not, any page will do.
        let (mut low_matched, mut high_matched) = (0, 0);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            let Some(fence) = self.fence(middle, name_at)? else {
                (high, high_matched) = (middle, 0);
                continue;
            };
            let skip = usize::min(low_matched, high_matched).min(fence.len());
            let matched = skip + common_prefix(&fence[skip..], &name[skip..]);
            if fence.get(matched) <= name.get(matched) {
                (low, low_matched) = (middle, matched);
            } else {
                (high, high_matched) = (middle, matched);
            }
        }
        debug_assert!(low < self.text.pages.len().max(1), "each name has its page: {low}");
        Ok(low)
    }

    /// The range of positions of the records in the page that may contain `name`.
    pub(crate) fn page_of(&self, name: &[u8], name_at: usize) -> Result<Range<usize>> {
        let Some(page) = self.page(self.page_with(name, name_at)?)? else { return Ok(0..0) };
        debug_assert!(page.base + page.records.len() <= self.len, "a page lies within the file");
        Ok(page.base..page.base + page.records.len())
    }

    /// The first name in a page or after it; `None` if no record follows. A line that is too short for a name counts as
    /// one with an empty name, so that the search reaches the line and reports it.
    pub(crate) fn fence(&self, at: usize, name_at: usize) -> Result<Option<&[u8]>> {
        let Some(cell) = self.fences.get(at) else { return Ok(None) };
        if let Some(fence) = cell.get() {
            return Ok(fence.as_deref());
        }
        let from = at * PAGE_LEN;
        let mut buffer = Vec::with_capacity(FENCE_LEN);
        let origin = from.saturating_sub(1);
        self.read_more(&mut buffer, origin, FENCE_LEN)?;
        let start = self.record_start(&mut buffer, origin, from)? - origin;
        let line = loop {
            match buffer.get(start..).and_then(|rest| rest.find_byte(b'\n')) {
                Some(len) => break &buffer[start..start + len],
                None if origin + buffer.len() >= self.len => break &[],
                None => self.read_more(&mut buffer, origin, FENCE_LEN)?,
            }
        };
        let has_record = origin + start < self.len;
        let fence = has_record.then(|| line.get(name_at..).unwrap_or_default().into());
        Ok(cell.get_or_init(|| fence).as_deref())
    }

    /// Reads the records that begin in the `len` bytes from `from` on, each to its end, without keeping them.
    pub(crate) fn read_records(&self, from: usize, len: usize) -> Result<Vec<u8>> {
        let mut buffer = Vec::new();
        let records = self.read_around(from, len, &mut buffer)?;
        buffer.truncate(records.end);
        buffer.drain(..records.start);
        Ok(buffer)
    }

    /// Reads records as [`read_records`](Self::read_records) does, from a position at which a record begins, into
    /// memory that is reused without being cleared.
    pub(crate) fn read_records_into(&self, from: usize, len: usize, buffer: &mut Vec<u8>) -> Result<()> {
        let to = from.saturating_add(len).min(self.len);
        buffer.resize((to + SLACK_LEN).min(self.len).saturating_sub(from), 0);
        self.read_exact_at(buffer, from as u64)?;
        let end = self.record_start(buffer, from, to)?;
        buffer.truncate(end.saturating_sub(from));
        Ok(())
    }

    /// Reads the file from about `from` on into a buffer, and returns the range of the buffer with the records that
    /// begin in the `len` bytes from `from` on.
    fn read_around(&self, from: usize, len: usize, buffer: &mut Vec<u8>) -> Result<Range<usize>> {
        let to = from.saturating_add(len).min(self.len);
        // One byte more, because a record begins after a newline.
        let origin = from.saturating_sub(1);
        self.read_more(buffer, origin, to + SLACK_LEN - origin)?;
        let start = self.record_start(buffer, origin, from)?;
        let end = self.record_start(buffer, origin, to)?;
        debug_assert!(
            from.min(self.len) <= start && start <= end && end <= self.len,
            "records ascend: {start} to {end}"
        );
        debug_assert!(end - origin <= buffer.len(), "the last record is there to its end: {end}");
        Ok(start - origin..end - origin)
    }

    /// The position of the first record that begins at `from` or later. `bytes` are those of the file from `origin` on;
    /// more are read if the record is longer.
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
                    // A peeled line belongs to the record before it.
                    Some(b'^') => at = next,
                    Some(_) => return Ok(next),
                    None => self.read_more(bytes, origin, bytes.len())?,
                },
                None if origin + bytes.len() >= self.len => return Ok(self.len),
                None => self.read_more(bytes, origin, bytes.len())?,
            }
        }
    }

    /// Reads `len` more bytes of the file, or up to its end, and appends them to `bytes`, which are those from `origin`
    /// on.
    fn read_more(&self, bytes: &mut Vec<u8>, origin: usize, len: usize) -> Result<()> {
        let had = bytes.len();
        debug_assert!(origin + had <= self.len, "what was read lies within the file: {had} from {origin}");
        bytes.resize((had + len).min(self.len - origin), 0);
        self.read_exact_at(&mut bytes[had..], (origin + had) as u64)?;
        Ok(())
    }

    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> Result<()> {
        Ok(self.file.get()?.read_exact_at(bytes, offset)?)
    }

    /// Reads a range of the file.
    pub(crate) fn read(&self, position: usize, len: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; len.min(self.len.saturating_sub(position))];
        self.read_exact_at(&mut bytes, position as u64)?;
        Ok(bytes)
    }
}

impl Drop for Text {
    fn drop(&mut self) {
        let bytes = *self.loaded_bytes.get_mut();
        uncount(&self.budget.used_bytes, bytes);
        uncount(&self.budget.text_bytes, bytes);
    }
}
