use crate::files::packed::{
    disorder::Disorder,
    far_reads::FarReads,
    pages::{Pages, Shed},
    source::PackedSource,
};
use crate::{Error, RefView, Result, TargetView, backend::Peeled};
use bstr::{BStr, BString, ByteSlice};
use refdb_types::{HashKind, ObjectId};
use refdb_vfs::Mapping;
use std::{
    borrow::Cow,
    ops::{ControlFlow, Range},
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

/// The bytes of a packed-refs file, in one of three forms.
#[derive(Debug)]
pub(crate) enum Bytes {
    /// Mapped; the first searches read the file instead.
    Mapped(Mapping, FarReads),
    /// Completely in private memory.
    Owned(Vec<u8>),
    /// In private memory as far as needed.
    Paged(Pages),
}

impl Bytes {
    fn len(&self) -> usize {
        match self {
            Bytes::Mapped(mapping, _) => mapping.len(),
            Bytes::Owned(bytes) => bytes.len(),
            Bytes::Paged(pages) => pages.len(),
        }
    }

    /// Bytes that contain the whole record to which the byte at `position` belongs, and their position in the file.
    #[inline(always)]
    pub(crate) fn around(&self, position: usize) -> Result<(&[u8], usize)> {
        match self {
            Bytes::Mapped(mapping, _) => Ok((mapping, 0)),
            Bytes::Owned(bytes) => Ok((bytes, 0)),
            Bytes::Paged(pages) => pages.around(position),
        }
    }

    /// Releases the memory of a mapping.
    fn forget(&self) {
        if let Bytes::Mapped(mapping, _) = self {
            mapping.forget();
        }
    }

    /// The bytes of a range, copied if need be.
    fn read(&self, range: Range<usize>) -> Result<Cow<'_, [u8]>> {
        match self {
            Bytes::Mapped(mapping, _) => Ok(mapping[range].into()),
            Bytes::Owned(bytes) => Ok(bytes[range].into()),
            Bytes::Paged(pages) => Ok(pages.read(range.start, range.len())?.into()),
        }
    }
}

/// The bytes to read at a time from a file that is checked or listed completely.
const PART_LEN: usize = 64 << 10;

/// The records of a packed-refs file, sorted by name. If the file claims to be sorted and was not found to be unsorted,
/// bytes are checked only when they are reached, so that one ref of millions is found by reading a few pages; otherwise
/// all are read at once.
///
/// A position is the offset of the first byte of a record; [`Packed::end`] is the position after the last one.
#[derive(Debug)]
pub struct Packed {
    path: PathBuf,
    pub(crate) hash: HashKind,
    pub(crate) bytes: Bytes,
    body: usize,
    traits: Traits,
    /// Whether these are records that were sorted in memory, or a part of a file, so that positions are not offsets in
    /// the file.
    reordered: bool,
    /// Where the file was found not to be sorted, whatever its header says.
    disorder: Arc<OnceLock<Disorder>>,
}

/// What the first line promises. `sorted` is not set if the file was known to break that promise when it was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Traits {
    pub(crate) sorted: bool,
    /// Annotated tags have a line with the peeled object, at least below `refs/tags/`.
    pub(crate) peeled: bool,
    /// Annotated tags have a line with the peeled object, whichever ref points to them.
    pub(crate) fully_peeled: bool,
}

const HEADER_START: &[u8] = b"# pack-refs with:";

/// One ref in packed-refs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PackedRecord<'a> {
    /// The name, not checked against the rules for refnames.
    pub name: &'a BStr,
    /// The object to which the ref points.
    pub id: ObjectId,
    /// What the file says about the peeled object.
    pub peeled: Peeled,
    /// The position of the next record.
    pub next: usize,
}

/// Why a record cannot be parsed.
pub(crate) enum Broken {
    /// The line at this position is not as the format demands.
    Unexpected(usize),
    /// The last line has no newline.
    Unterminated,
}

/// The state of a walk over the records.
#[derive(Debug)]
pub(crate) struct PackedWalk {
    /// The last name; all names to come must be greater.
    pub(crate) before: BString,
    /// The position of the record that was visited last.
    pub(crate) last: Option<usize>,
    /// The position of the next record, which may be broken.
    pub(crate) next: usize,
}

/// Called with each ref.
type Visit<'v> = dyn FnMut(&RefView<'_>) -> ControlFlow<()> + 'v;

impl<'a> PackedRecord<'a> {
    /// The record as a ref, for cursors.
    #[inline]
    pub(crate) fn view(self) -> RefView<'a> {
        RefView { name: self.name, target: TargetView::Direct(self.id), peeled: self.peeled }
    }
}

impl Packed {
    /// The records of a packed-refs file that does not exist.
    pub(crate) fn empty(path: &Path, hash: HashKind) -> Self {
        let traits = Traits { sorted: true, peeled: true, fully_peeled: true };
        let bytes = Bytes::Owned(Vec::new());
        Packed { path: path.to_owned(), hash, bytes, body: 0, traits, reordered: false, disorder: Arc::default() }
    }

    /// Parses a file that is in memory; `path` is for messages.
    pub fn parse(path: &Path, hash: HashKind, bytes: Vec<u8>) -> Result<Self> {
        Self::open(path, hash, Bytes::Owned(bytes), true)
    }

    /// Parses the first line, and sorts the records if that is needed. `is_trusted` says whether to believe a first
    /// line that promises sorted records.
    pub(crate) fn open(path: &Path, hash: HashKind, bytes: Bytes, is_trusted: bool) -> Result<Self> {
        let mut packed = Packed { bytes, traits: Traits::default(), ..Self::empty(path, hash) };
        let last = packed.bytes.read(packed.end().saturating_sub(1)..packed.end())?;
        if last.last().is_some_and(|last| *last != b'\n') {
            return Err(packed.unterminated());
        }
        if let (first, 0) = packed.bytes.around(0)?
            && first.first() == Some(&b'#')
        {
            let line_end = packed.line_end(0)?;
            let promises = first[..line_end].strip_prefix(HEADER_START).ok_or_else(|| packed.unexpected(0))?;
            let promised = |word: &str| promises.split_str(" ").any(|promise| promise == word.as_bytes());
            packed.traits = Traits {
                sorted: is_trusted && promised("sorted"),
                peeled: promised("peeled"),
                fully_peeled: promised("fully-peeled"),
            };
            packed.body = line_end + 1;
        }
        debug_assert!(packed.body <= packed.end(), "the first line lies within the file");
        if packed.traits.sorted || packed.is_sorted()? { Ok(packed) } else { packed.sort() }
    }

    /// Returns whether the records are in order, whatever the first line promises. Reads the file up to the first
    /// record that is not.
    pub(crate) fn is_sorted(&self) -> Result<bool> {
        let mut last = Vec::new();
        let (mut from, mut spare) = (self.body, Vec::new());
        while from < self.end() {
            let (part, next) = self.part(from, spare)?;
            let mut at = part.start();
            while at < part.end() {
                // An error is reported for the whole file, so that the line number is right.
                let record = part.record(at).or_else(|_| self.record(from + at))?;
                if last.as_slice() >= record.name.as_bytes() {
                    self.note_disorder(from + at, record.name);
                    return Ok(false);
                }
                last.clear();
                last.extend_from_slice(record.name);
                at = record.next;
            }
            (from, spare) = (next, part.into_memory());
        }
        Ok(true)
    }

    /// Reads the next records from a position on into memory of their own, and returns them with the position after
    /// them. This serves to read a large file once without keeping it; `spare` may be the memory of the previous part
    /// ([`Packed::into_memory`]).
    pub fn part(&self, from: usize, spare: Vec<u8>) -> Result<(Packed, usize)> {
        let bytes = match &self.bytes {
            Bytes::Paged(pages) => {
                let mut bytes = spare;
                pages.read_records_into(from, PART_LEN, &mut bytes)?;
                bytes
            }
            bytes => {
                // A file in memory is cut as well, because each of many readers may hold a part, which must not be a
                // copy of the whole file.
                let end = self.first_from((from + PART_LEN).min(bytes.len()))?;
                bytes.read(from..end)?.into_owned()
            }
        };
        let next = from + bytes.len();
        debug_assert!(next > from || from >= self.end(), "part by part, all of it is read: {from}");
        Ok((self.with_records(bytes), next))
    }

    /// The memory of a part that is no longer needed, for the next one.
    pub fn into_memory(self) -> Vec<u8> {
        match self.bytes {
            Bytes::Owned(bytes) => bytes,
            Bytes::Mapped(..) | Bytes::Paged(_) => Vec::new(),
        }
    }

    /// Reads the records that begin in a range of positions into memory of their own, for places of a large file that
    /// are seldom needed again.
    pub fn part_of(&self, range: Range<usize>) -> Result<Packed> {
        let bytes = match &self.bytes {
            Bytes::Paged(pages) => pages.read_records(range.start, range.len())?,
            _ => {
                let (start, end) = (self.first_from(range.start)?, self.first_from(range.end)?);
                self.bytes.read(start..end)?.into_owned()
            }
        };
        Ok(self.with_records(bytes))
    }

    fn with_records(&self, bytes: Vec<u8>) -> Packed {
        let (path, traits) = (self.path.clone(), Traits { sorted: true, ..self.traits });
        let disorder = Arc::clone(&self.disorder);
        Packed { path, hash: self.hash, bytes: Bytes::Owned(bytes), body: 0, traits, reordered: true, disorder }
    }

    /// A copy with less of the file in memory. Returns `None` if the file is not read page by page.
    pub(crate) fn without(&self, shed: Shed) -> Option<Self> {
        let Bytes::Paged(pages) = &self.bytes else { return None };
        let bytes = Bytes::Paged(pages.without(shed));
        Some(Packed { path: self.path.clone(), bytes, disorder: Arc::clone(&self.disorder), ..*self })
    }

    /// Returns a copy that reads further records through `file`, the same file opened again. Returns `None` if the file
    /// is not read page by page.
    pub(crate) fn through(&self, file: &Arc<PackedSource>) -> Option<Self> {
        let Bytes::Paged(pages) = &self.bytes else { return None };
        let bytes = Bytes::Paged(pages.through(Arc::clone(file)));
        Some(Packed { path: self.path.clone(), bytes, disorder: Arc::clone(&self.disorder), ..*self })
    }

    /// Releases the memory of a mapped file once it was read, for a caller that does not need it again.
    pub(crate) fn forget_read(&self) {
        self.bytes.forget();
    }

    /// How many bytes of private memory the file takes; 0 for one that is mapped, or read in place of being mapped.
    pub fn loaded_bytes(&self) -> usize {
        match &self.bytes {
            Bytes::Mapped(..) => 0,
            Bytes::Owned(bytes) => bytes.len(),
            Bytes::Paged(pages) => pages.loaded_bytes(),
        }
    }

    /// The number of bytes in private memory because the file was read completely.
    pub(crate) fn whole_bytes(&self) -> usize {
        if let Bytes::Owned(bytes) = &self.bytes { bytes.len() } else { 0 }
    }

    /// Sorts the records in memory.
    fn sort(mut self) -> Result<Self> {
        let all = self.bytes.read(0..self.end())?.into_owned();
        self.bytes = Bytes::Owned(all);
        let mut ranges: Vec<(Range<usize>, Range<usize>)> = Vec::new();
        let mut at = self.body;
        while at < self.end() {
            let record = self.record(at)?;
            let name_start = at + self.hash.len_hex() + 1;
            let name = name_start..name_start + record.name.len();
            let next = record.next;
            ranges.push((name, at..next));
            at = next;
        }
        let Bytes::Owned(all) = &self.bytes else { return Ok(self) };
        ranges.sort_by(|(a, _), (b, _)| all[a.clone()].cmp(&all[b.clone()]));
        let mut bytes = Vec::with_capacity(all.len());
        bytes.extend_from_slice(&all[..self.body]);
        for (_, record) in ranges {
            bytes.extend_from_slice(&all[record]);
        }
        assert_eq!(bytes.len(), all.len(), "sorting loses no record");
        self.bytes = Bytes::Owned(bytes);
        self.reordered = true;
        Ok(self)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether positions are not offsets in the file, because the records were sorted in memory or are a part
    /// of the file.
    pub(crate) fn is_moved(&self) -> bool {
        self.reordered
    }

    pub(crate) fn disorder_cell(&self) -> &OnceLock<Disorder> {
        &self.disorder
    }

    /// The position of the first record.
    pub fn start(&self) -> usize {
        self.body
    }

    /// The position after the last record.
    pub fn end(&self) -> usize {
        self.bytes.len()
    }

    /// Returns whether unchanged ranges of the file may be copied when it is rewritten, because it promises to be
    /// sorted and was not known to break that promise when it was opened.
    pub(crate) fn is_copyable(&self) -> bool {
        self.traits.sorted
    }

    /// The first line for a file into which these records are copied: it repeats the promises of this file. If this
    /// file [is not copyable](Self::is_copyable), its records are written anew and peeled, so that every promise holds.
    pub(crate) fn header(&self) -> String {
        let Traits { peeled, fully_peeled, .. } = self.traits;
        let is_kept = |promised| promised || !self.is_copyable();
        let promises = [("peeled ", is_kept(peeled)), ("fully-peeled ", is_kept(fully_peeled)), ("sorted ", true)];
        let kept = promises.into_iter().filter_map(|(promise, is_kept)| is_kept.then_some(promise));
        // git ends the line with a space.
        format!("# pack-refs with: {}\n", kept.collect::<String>())
    }

    /// Returns whether the file already begins with the line that [`header`](Self::header) returns.
    pub(crate) fn has_own_header(&self) -> Result<bool> {
        Ok(self.read(0..self.body)? == self.header().as_bytes())
    }

    /// The bytes of a range of the file.
    pub(crate) fn read(&self, range: Range<usize>) -> Result<Cow<'_, [u8]>> {
        self.bytes.read(range)
    }

    /// Parses the record at a position before the end.
    #[inline]
    pub fn record(&self, at: usize) -> Result<PackedRecord<'_>> {
        match self.hash {
            // A length that is known at compile time saves a third of the work.
            HashKind::Sha1 => self.record_of::<40>(at),
            HashKind::Sha256 => self.record_of::<64>(at),
        }
    }

    #[inline(always)]
    fn record_of<const LEN_HEX: usize>(&self, at: usize) -> Result<PackedRecord<'_>> {
        let (bytes, base) = self.bytes.around(at)?;
        self.record_in::<LEN_HEX>(bytes, base, at)
    }

    /// Visits the records from `walk.next` on that begin before `limit`. Stops at a record that is out of order if the
    /// file claims to be sorted.
    pub(crate) fn for_each(
        &self,
        walk: &mut PackedWalk,
        limit: usize,
        visit: &mut Visit<'_>,
    ) -> Result<ControlFlow<()>> {
        match self.hash {
            HashKind::Sha1 => self.for_each_of::<40>(walk, limit, visit),
            HashKind::Sha256 => self.for_each_of::<64>(walk, limit, visit),
        }
    }

    fn for_each_of<const LEN_HEX: usize>(
        &self,
        walk: &mut PackedWalk,
        limit: usize,
        visit: &mut Visit<'_>,
    ) -> Result<ControlFlow<()>> {
        debug_assert!(limit <= self.end(), "a walk ends with the records, at the latest: {limit}");
        // The state is kept in local variables, because storing it in `walk` for each record costs three writes.
        let (mut last, mut next) = (walk.last, walk.next);
        let mut before = walk.before.as_bstr();
        let mut flow = Ok(ControlFlow::Continue(()));
        'walk: while next < limit {
            // Looked up once for all records in these bytes.
            let (bytes, base) = match self.bytes.around(next) {
                Ok(around) => around,
                Err(error) => {
                    flow = Err(error);
                    break;
                }
            };
            let end = limit.min(base + bytes.len());
            while next < end {
                match self.record_in::<LEN_HEX>(bytes, base, next) {
                    Ok(record) => {
                        if record.name <= before && self.note_disorder(next, record.name) {
                            break 'walk;
                        }
                        before = record.name;
                        (last, next) = (Some(next), record.next);
                        if visit(&record.view()).is_break() {
                            flow = Ok(ControlFlow::Break(()));
                            break 'walk;
                        }
                    }
                    Err(error) => {
                        flow = Err(error);
                        break 'walk;
                    }
                }
            }
        }
        (walk.last, walk.next) = (last, next);
        flow
    }

    /// Parses the record at `at` in `bytes`, which begin at `base`.
    #[inline(always)]
    fn record_in<'a, const LEN_HEX: usize>(&self, bytes: &'a [u8], base: usize, at: usize) -> Result<PackedRecord<'a>> {
        self.parse_in::<_, LEN_HEX>(bytes, base, at, |broken| match broken {
            Broken::Unexpected(at) => self.unexpected(at),
            Broken::Unterminated => self.unterminated(),
        })
    }

    /// Parses a record, and makes the error with `fail` where the fault is found: passing the fault up costs each
    /// record about 20 instructions.
    #[inline(always)]
    pub(crate) fn parse_in<'a, E, const LEN_HEX: usize>(
        &self,
        bytes: &'a [u8],
        base: usize,
        at: usize,
        fail: impl Fn(Broken) -> E,
    ) -> std::result::Result<PackedRecord<'a>, E> {
        let line = bytes.get(at - base..).unwrap_or_default();
        let Some((hex, [separator, rest @ ..])) = line.split_first_chunk::<LEN_HEX>() else {
            return Err(fail(Broken::Unexpected(at)));
        };
        let Ok(id) = ObjectId::from_hex(self.hash, hex) else { return Err(fail(Broken::Unexpected(at))) };
        if !matches!(separator, b' ' | b'\t' | b'\r') || rest.first() == Some(&b'\n') {
            return Err(fail(Broken::Unexpected(at)));
        }
        let Some(name_len) = rest.find_byte(b'\n') else { return Err(fail(Broken::Unterminated)) };
        let name = rest[..name_len].as_bstr();
        let next = at + LEN_HEX + 1 + name_len + 1;
        if rest.get(name_len + 1) == Some(&b'^') {
            let Some((to, next)) = self.peeled_line(bytes, base, next) else {
                return Err(fail(Broken::Unexpected(next)));
            };
            return Ok(PackedRecord { name, id, peeled: Peeled::To(to), next });
        }
        Ok(PackedRecord { name, id, peeled: self.without_peeled_line(name), next })
    }

    /// What is known about the peeled object of a ref without a peeled line.
    #[inline(always)]
    pub(crate) fn without_peeled_line(&self, name: &BStr) -> Peeled {
        match self.traits {
            Traits { fully_peeled: true, .. } => Peeled::NotTag,
            Traits { peeled: true, .. } if name.starts_with(b"refs/tags/") => Peeled::NotTag,
            _ => Peeled::Unknown,
        }
    }

    /// Parses the line `^HEX` at `at`, and returns the object and the position after the line. Few refs have such a
    /// line.
    #[inline(never)]
    fn peeled_line(&self, bytes: &[u8], base: usize, at: usize) -> Option<(ObjectId, usize)> {
        let end = at + 1 + self.hash.len_hex();
        let id = ObjectId::from_hex(self.hash, bytes.get(at + 1 - base..end - base)?).ok()?;
        (bytes.get(end - base) == Some(&b'\n')).then_some((id, end + 1))
    }

    /// The position after the line at `at`, where a walk continues after a broken line.
    pub(crate) fn after_line(&self, at: usize) -> usize {
        self.line_end(at).map_or(self.end(), |end| end + 1)
    }

    fn line_end(&self, at: usize) -> Result<usize> {
        let (bytes, base) = self.bytes.around(at)?;
        Ok(base + self.line_end_in(bytes, at - base)?)
    }

    #[inline]
    pub(crate) fn line_end_in(&self, bytes: &[u8], at: usize) -> Result<usize> {
        match bytes.get(at..).and_then(|rest| rest.find_byte(b'\n')) {
            Some(len) => Ok(at + len),
            None => Err(self.unterminated()),
        }
    }

    #[cold]
    pub(crate) fn unexpected(&self, at: usize) -> Error {
        self.corrupt("unexpected", |bytes| {
            let at = at.min(bytes.len());
            (at, bytes[at..].find_byte(b'\n').map_or(bytes.len(), |len| at + len))
        })
    }

    #[cold]
    fn unterminated(&self) -> Error {
        self.corrupt("unterminated", |bytes| (line_around(bytes, 0, 0, bytes.len()), bytes.len()))
    }

    /// The error for a corrupt line, whose beginning and end `line` finds in the bytes of the file.
    fn corrupt(&self, how: &str, line: impl Fn(&[u8]) -> (usize, usize)) -> Error {
        let all = match self.bytes.read(0..self.end()) {
            Ok(all) => all,
            Err(error) => return error,
        };
        let (at, end) = line(&all);
        let shown = all[at..end.min(at + 200)].as_bstr();
        let number = all[..at].iter().filter(|byte| **byte == b'\n').count() as u64 + 1;
        let what = format!("{how} line in {}: {shown}", self.path.display());
        Error::Corrupt { path: self.path.clone(), line: number, what }
    }
}

/// The beginning of the line that contains the byte at `at`, but not before `low`. `bytes` begin at `base`.
#[inline]
pub(crate) fn line_around(bytes: &[u8], base: usize, low: usize, at: usize) -> usize {
    bytes[low - base..at - base].rfind_byte(b'\n').map_or(low, |newline| low + newline + 1)
}

#[cfg(test)]
mod tests;
