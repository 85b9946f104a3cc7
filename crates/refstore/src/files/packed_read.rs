use super::{loose::is_space, pages::Pages};
use crate::{Error, RefView, Result, TargetView, backend::Peeled};
use bstr::{BStr, ByteSlice};
use refdb_types::{HashKind, ObjectId};
use refdb_vfs::Mapping;
use std::{
    borrow::Cow,
    cmp::Ordering,
    ops::Range,
    path::{Path, PathBuf},
};

/// The bytes of a packed-refs file, wherever they are kept.
#[derive(Debug)]
pub(super) enum Bytes {
    /// Mapped.
    Mapped(Mapping),
    /// In memory.
    Owned(Vec<u8>),
    /// In memory as far as they were needed.
    Paged(Pages),
}

impl Bytes {
    fn len(&self) -> usize {
        match self {
            Bytes::Mapped(mapping) => mapping.len(),
            Bytes::Owned(bytes) => bytes.len(),
            Bytes::Paged(pages) => pages.len(),
        }
    }

    /// Bytes that have all of the record which the byte at `position` belongs to, and where they begin.
    #[inline(always)]
    fn around(&self, position: usize) -> Result<(&[u8], usize)> {
        match self {
            Bytes::Mapped(mapping) => Ok((mapping, 0)),
            Bytes::Owned(bytes) => Ok((bytes, 0)),
            Bytes::Paged(pages) => pages.around(position),
        }
    }

    /// A copy of a part.
    fn read(&self, range: Range<usize>) -> Result<Cow<'_, [u8]>> {
        match self {
            Bytes::Mapped(mapping) => Ok(mapping[range].into()),
            Bytes::Owned(bytes) => Ok(bytes[range].into()),
            Bytes::Paged(pages) => Ok(pages.read(range.start, range.len())?.into()),
        }
    }
}

/// Read at once to see whether the records of a file are sorted, and of a file that is listed.
const PART_LEN: usize = 256 << 10;

/// The records of a packed-refs file, sorted. Bytes are checked when they are touched, not before, so that one ref of
/// millions is found in a few pages.
///
/// Positions are offsets of the first byte of a record; [`Packed::end`] is the position behind the last.
#[derive(Debug)]
pub struct Packed {
    path: PathBuf,
    hash: HashKind,
    bytes: Bytes,
    body: usize,
    traits: Traits,
    /// Whether the records had to be sorted: then positions are not those in the file.
    reordered: bool,
}

/// What the first line promises.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Traits {
    pub(super) sorted: bool,
    /// Tags that lead to another object have it on a line of their own, below `refs/tags/` at least.
    pub(super) peeled: bool,
    /// They have it everywhere.
    pub(super) fully_peeled: bool,
}

/// The first line of a file that keeps all the promises there are. The space at its end belongs to it.
pub(super) const HEADER: &[u8] = b"# pack-refs with: peeled fully-peeled sorted \n";
const HEADER_START: &[u8] = b"# pack-refs with:";

/// A ref in packed-refs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PackedRecord<'a> {
    /// The name, which has not been checked.
    pub name: &'a BStr,
    /// The object.
    pub id: ObjectId,
    /// What the file says of the object behind a tag.
    pub peeled: Peeled,
    /// Where the next record begins.
    pub next: usize,
}

impl<'a> PackedRecord<'a> {
    /// As any other ref.
    #[inline]
    pub(super) fn view(self) -> RefView<'a> {
        RefView { name: self.name, target: TargetView::Direct(self.id), peeled: self.peeled }
    }
}

impl Packed {
    /// No packed-refs file.
    pub(super) fn empty(path: &Path, hash: HashKind) -> Self {
        let traits = Traits { sorted: true, peeled: true, fully_peeled: true };
        Packed { path: path.to_owned(), hash, bytes: Bytes::Owned(Vec::new()), body: 0, traits, reordered: false }
    }

    /// Reads bytes that are in memory; `path` is for messages.
    pub fn parse(path: &Path, hash: HashKind, bytes: Vec<u8>) -> Result<Self> {
        Self::open(path, hash, Bytes::Owned(bytes))
    }

    pub(super) fn open(path: &Path, hash: HashKind, bytes: Bytes) -> Result<Self> {
        let mut packed =
            Packed { path: path.to_owned(), hash, bytes, body: 0, traits: Traits::default(), reordered: false };
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
                sorted: promised("sorted"),
                peeled: promised("peeled"),
                fully_peeled: promised("fully-peeled"),
            };
            packed.body = line_end + 1;
        }
        if packed.traits.sorted || packed.is_sorted()? { Ok(packed) } else { packed.sort() }
    }

    /// Whether the records of a file that does not promise it are in order; the whole file is checked.
    fn is_sorted(&self) -> Result<bool> {
        let mut last = Vec::new();
        let mut from = self.body;
        while from < self.end() {
            let (part, next) = self.part(from)?;
            let mut at = part.start();
            while at < part.end() {
                // Said of the whole file, so that the line's number is right.
                let record = part.record(at).or_else(|_| self.record(from + at))?;
                if last.as_slice() >= record.name.as_bytes() {
                    return Ok(false);
                }
                last.clear();
                last.extend_from_slice(record.name);
                at = record.next;
            }
            from = next;
        }
        Ok(true)
    }

    /// The next records from a position on, in memory of their own, and where the records behind them begin. To read a
    /// large file once, without keeping it.
    pub fn part(&self, from: usize) -> Result<(Packed, usize)> {
        let bytes = match &self.bytes {
            Bytes::Paged(pages) => pages.read_records(from, PART_LEN)?,
            bytes => bytes.read(from..bytes.len())?.into_owned(),
        };
        let next = from + bytes.len();
        let (path, traits) = (self.path.clone(), Traits { sorted: true, ..self.traits });
        Ok((Packed { path, hash: self.hash, bytes: Bytes::Owned(bytes), body: 0, traits, reordered: true }, next))
    }

    /// The same file, nothing of it in memory; `None` if it is not read by parts.
    pub(super) fn emptied(&self) -> Option<Self> {
        let Bytes::Paged(pages) = &self.bytes else { return None };
        let bytes = Bytes::Paged(pages.emptied());
        Some(Packed { path: self.path.clone(), bytes, ..*self })
    }

    /// How much of it is in private memory.
    pub fn loaded_bytes(&self) -> usize {
        match &self.bytes {
            Bytes::Mapped(_) => 0,
            Bytes::Owned(bytes) => bytes.len(),
            Bytes::Paged(pages) => pages.loaded_bytes(),
        }
    }

    /// Puts the records in order.
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
        self.bytes = Bytes::Owned(bytes);
        self.reordered = true;
        Ok(self)
    }

    /// The position of the first record.
    pub fn start(&self) -> usize {
        self.body
    }

    /// The position behind the last record.
    pub fn end(&self) -> usize {
        self.bytes.len()
    }

    /// Whether untouched ranges of the file may be copied as they are: it says that it is sorted.
    pub(super) fn is_copyable(&self) -> bool {
        self.traits.sorted
    }

    /// Bytes as they are in the file.
    pub(super) fn read(&self, range: Range<usize>) -> Result<Cow<'_, [u8]>> {
        self.bytes.read(range)
    }

    /// The record at a position before the end.
    #[inline]
    pub fn record(&self, at: usize) -> Result<PackedRecord<'_>> {
        match self.hash {
            // Lengths that are known when this is compiled save a third of the work.
            HashKind::Sha1 => self.record_of::<40>(at),
            HashKind::Sha256 => self.record_of::<64>(at),
        }
    }

    #[inline(always)]
    fn record_of<const LEN_HEX: usize>(&self, at: usize) -> Result<PackedRecord<'_>> {
        let (bytes, base) = self.bytes.around(at)?;
        let line = bytes.get(at - base..).unwrap_or_default();
        let Some((hex, [separator, rest @ ..])) = line.split_first_chunk::<LEN_HEX>() else {
            return Err(self.unexpected(at));
        };
        let Ok(id) = ObjectId::from_hex(self.hash, hex) else { return Err(self.unexpected(at)) };
        if !matches!(separator, b' ' | b'\t' | b'\r') || rest.first() == Some(&b'\n') {
            return Err(self.unexpected(at));
        }
        let Some(name_len) = rest.find_byte(b'\n') else { return Err(self.unterminated()) };
        let name = rest[..name_len].as_bstr();
        let next = at + LEN_HEX + 1 + name_len + 1;
        if rest.get(name_len + 1) == Some(&b'^') {
            return self.peeled_line(bytes, base, next).map(|(to, next)| PackedRecord {
                name,
                id,
                peeled: Peeled::To(to),
                next,
            });
        }
        let peeled = match self.traits {
            Traits { fully_peeled: true, .. } => Peeled::NotTag,
            Traits { peeled: true, .. } if name.starts_with(b"refs/tags/") => Peeled::NotTag,
            _ => Peeled::Unknown,
        };
        Ok(PackedRecord { name, id, peeled, next })
    }

    /// The line `^HEX` at `at`, and the position behind it.
    fn peeled_line(&self, bytes: &[u8], base: usize, at: usize) -> Result<(ObjectId, usize)> {
        let end = at + 1 + self.hash.len_hex();
        match bytes.get(at + 1 - base..end - base).map(|hex| ObjectId::from_hex(self.hash, hex)) {
            Some(Ok(id)) if bytes.get(end - base) == Some(&b'\n') => Ok((id, end + 1)),
            _ => Err(self.unexpected(at)),
        }
    }

    /// The position of the line after the one at `at`, to go on behind a broken one.
    pub(super) fn after_line(&self, at: usize) -> usize {
        self.line_end(at).map_or(self.end(), |end| end + 1)
    }

    /// The position of the first record from `from` on whose name is not less than `name`. Costs little if it is near.
    pub fn seek(&self, from: usize, name: &BStr) -> Result<usize> {
        let mut low = from;
        let mut step = 1;
        while low < self.end() {
            let at = if step == 1 { low } else { self.record_around(low, low.saturating_add(step))? };
            match self.compare(at, name)? {
                (Ordering::Less, next) => low = next,
                (Ordering::Equal, _) => return Ok(at),
                (Ordering::Greater, _) => return self.bisect(low, at, name),
            }
            step = if step == 1 { 256 } else { step.saturating_mul(2) };
            if step >= self.end() - low {
                return self.bisect(low, self.end(), name);
            }
        }
        Ok(low)
    }

    /// As [`Packed::seek`], for a name that may be anywhere.
    pub fn lower_bound(&self, name: &BStr) -> Result<usize> {
        match &self.bytes {
            Bytes::Paged(pages) => {
                let page = pages.page_of(name, self.hash.len_hex() + 1)?;
                self.bisect(page.start.max(self.start()), page.end.max(self.start()), name)
            }
            _ => self.bisect(self.start(), self.end(), name),
        }
    }

    /// The record of this name.
    pub fn find(&self, name: &BStr) -> Result<Option<PackedRecord<'_>>> {
        let at = self.lower_bound(name)?;
        if at >= self.end() {
            return Ok(None);
        }
        Ok(Some(self.record(at)?).filter(|record| record.name == name))
    }

    /// The position of the first record that begins at `position` or later.
    pub fn first_from(&self, position: usize) -> Result<usize> {
        if position <= self.start() || position >= self.end() {
            return Ok(position.clamp(self.start(), self.end()));
        }
        let around = self.record_around(self.start(), position)?;
        if around < position { Ok(self.compare(around, BStr::new(""))?.1) } else { Ok(around) }
    }

    /// As [`Packed::seek`] between two positions, the second of which is not less than `name`.
    fn bisect(&self, mut low: usize, mut high: usize, name: &BStr) -> Result<usize> {
        while low < high {
            let at = self.record_around(low, low + (high - low) / 2)?;
            match self.compare(at, name)? {
                (Ordering::Less, next) => low = next,
                (Ordering::Equal, _) => return Ok(at),
                (Ordering::Greater, _) => high = at,
            }
        }
        Ok(low)
    }

    /// The position of the record that `at` lies in, `low` being a position not behind it.
    fn record_around(&self, low: usize, at: usize) -> Result<usize> {
        let at = at.min(self.end());
        let (bytes, base) = self.bytes.around(at)?;
        let low = low.max(base);
        let mut line = line_around(bytes, base, low, at);
        if line > low && bytes.get(line - base) == Some(&b'^') {
            line = line_around(bytes, base, low, line - 1);
        }
        Ok(line)
    }

    /// Compares a record's name with `name`; also returns where the next record begins. The object ids are not looked
    /// at: whoever wants the record reads it.
    fn compare(&self, at: usize, name: &BStr) -> Result<(Ordering, usize)> {
        let (bytes, base) = self.bytes.around(at)?;
        // Relative to these bytes from here on.
        let at = at - base;
        let line_end = self.line_end_in(bytes, at)?;
        let name_start = at + self.hash.len_hex() + 1;
        if name_start >= line_end || !is_space(&bytes[name_start - 1]) || bytes[at] == b'^' {
            return Err(self.unexpected(base + at));
        }
        let mut next = line_end + 1;
        if bytes.get(next) == Some(&b'^') {
            next = self.line_end_in(bytes, next)? + 1;
        }
        Ok((bytes[name_start..line_end].cmp(name), base + next))
    }

    fn line_end(&self, at: usize) -> Result<usize> {
        let (bytes, base) = self.bytes.around(at)?;
        Ok(base + self.line_end_in(bytes, at - base)?)
    }

    #[inline]
    fn line_end_in(&self, bytes: &[u8], at: usize) -> Result<usize> {
        match bytes.get(at..).and_then(|rest| rest.find_byte(b'\n')) {
            Some(len) => Ok(at + len),
            None => Err(self.unterminated()),
        }
    }

    #[cold]
    fn unexpected(&self, at: usize) -> Error {
        self.corrupt("unexpected", |bytes| {
            let at = at.min(bytes.len());
            (at, bytes[at..].find_byte(b'\n').map_or(bytes.len(), |len| at + len))
        })
    }

    #[cold]
    fn unterminated(&self) -> Error {
        self.corrupt("unterminated", |bytes| (line_around(bytes, 0, 0, bytes.len()), bytes.len()))
    }

    /// Says which line of the file is wrong: `line` finds its start and end.
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

/// The start of the line that the byte at `at` is in, but not before `low`. `bytes` begin at `base`.
#[inline]
fn line_around(bytes: &[u8], base: usize, low: usize, at: usize) -> usize {
    bytes[low - base..at - base].rfind_byte(b'\n').map_or(low, |newline| low + newline + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(byte: u8) -> ObjectId {
        ObjectId::from_bytes(HashKind::Sha1, &[byte; 20]).unwrap()
    }

    fn packed(text: &str) -> Result<Packed> {
        let text = text.replace("%1", &id(1).to_string()).replace("%2", &id(2).to_string());
        Packed::parse(Path::new("packed-refs"), HashKind::Sha1, text.into_bytes())
    }

    fn listed(packed: &Packed) -> Result<Vec<String>> {
        let mut out = Vec::new();
        let mut at = packed.start();
        while at < packed.end() {
            let record = packed.record(at)?;
            let peeled = match record.peeled {
                Peeled::Unknown => "?".into(),
                Peeled::NotTag => "-".into(),
                Peeled::To(id) => id.as_bytes()[0].to_string(),
            };
            out.push(format!("{} {} {peeled}", record.name, record.id.as_bytes()[0]));
            at = record.next;
        }
        Ok(out)
    }

    const SORTED: &str = "# pack-refs with: peeled fully-peeled sorted \n";

    #[test]
    fn a_seek_past_the_last_record_ends_at_the_end_however_long_the_file() {
        let id = "1".repeat(40);
        for len in 1..600 {
            let text = format!("{id} refs/a\n{id} refs/b{}\n", "x".repeat(len));
            let traits = "# pack-refs with: peeled fully-peeled sorted \n";
            let bytes = [traits.as_bytes(), text.as_bytes()].concat();
            let packed = Packed::parse(Path::new("packed-refs"), HashKind::Sha1, bytes).unwrap();
            assert_eq!(packed.seek(packed.start(), "refs/z".into()).unwrap(), packed.end(), "{len}");
        }
    }

    #[test]
    fn the_header_says_what_a_missing_peeled_line_means() {
        for (promises, expected) in [
            ("peeled fully-peeled sorted ", ["refs/heads/a 1 -", "refs/tags/b 1 2", "refs/tags/c 1 -"]),
            ("peeled ", ["refs/heads/a 1 ?", "refs/tags/b 1 2", "refs/tags/c 1 -"]),
            ("unheard-of", ["refs/heads/a 1 ?", "refs/tags/b 1 2", "refs/tags/c 1 ?"]),
        ] {
            let text = format!("# pack-refs with: {promises}\n%1 refs/heads/a\n%1 refs/tags/b\n^%2\n%1 refs/tags/c\n");
            assert_eq!(listed(&packed(&text).unwrap()).unwrap(), expected);
        }
    }

    #[test]
    fn a_file_that_does_not_say_it_is_sorted_is_sorted_with_its_peeled_lines() {
        let packed = packed("%1 refs/tags/b\n^%2\n%2 refs/tags/a\n").unwrap();
        assert_eq!(listed(&packed).unwrap(), ["refs/tags/a 2 ?", "refs/tags/b 1 2"]);
        assert!(packed.reordered && !packed.is_copyable());
    }

    #[test]
    fn broken_lines_are_reported_with_their_number_in_gits_words() {
        for (text, line, what) in [
            ("%1 refs/a\n%1 refs/b", 2, format!("unterminated line in packed-refs: {} refs/b", id(1))),
            ("# foo\n%1 refs/a\n", 1, "unexpected line in packed-refs: # foo".into()),
            ("# pack-refs with:", 1, "unterminated line in packed-refs: # pack-refs with:".into()),
            ("\n%1 refs/a\n", 1, "unexpected line in packed-refs: ".into()),
            ("%1 refs/a\n^%1\n^%2\n", 3, format!("unexpected line in packed-refs: ^{}", id(2))),
            ("%1 refs/a\n^%1 \n", 2, format!("unexpected line in packed-refs: ^{} ", id(1))),
            ("^%1\n%1 refs/a\n", 1, format!("unexpected line in packed-refs: ^{}", id(1))),
            ("%1 refs/a\n%1refs/b\n", 2, format!("unexpected line in packed-refs: {}refs/b", id(1))),
            ("%1 refs/a\n%1\n", 2, format!("unexpected line in packed-refs: {}", id(1))),
        ] {
            for header in ["", SORTED] {
                let lines = if header.is_empty() || text.starts_with('#') { 0 } else { 1 };
                let text = if text.starts_with('#') { text.into() } else { format!("{header}{text}") };
                let error = packed(&text).and_then(|packed| listed(&packed)).unwrap_err();
                let Error::Corrupt { line: at, what: said, .. } = error else { panic!("{error}") };
                assert_eq!((at, said), (line + lines, what.clone()), "{text:?}");
            }
        }
    }

    #[test]
    fn seeking_does_not_step_onto_the_end_when_a_stride_leads_exactly_there() {
        // Lines of 64 bytes, of which four make the first stride.
        let names: Vec<String> = (0..60).map(|n| format!("refs/heads/new/{n:07}")).collect();
        let text: String = names.iter().map(|name| format!("%1 {name}\n")).collect();
        let packed = packed(&format!("{SORTED}{text}")).unwrap();
        let mut position = packed.start();
        for name in &names {
            position = packed.seek(position, name.as_str().into()).unwrap();
            assert_eq!(packed.record(position).unwrap().name, name.as_str());
        }
    }

    #[test]
    fn seeking_finds_every_name_from_every_position() {
        let mut text = SORTED.to_string();
        let names: Vec<String> = (0..60).map(|i| format!("refs/{:03}{}", i * 2 + 1, "x".repeat(i % 7 * 40))).collect();
        for (i, name) in names.iter().enumerate() {
            text += &format!("%1 {name}\n{}", if i % 3 == 0 { "^%2\n" } else { "" });
        }
        let packed = packed(&text).unwrap();
        let mut positions = vec![packed.start()];
        while *positions.last().unwrap() < packed.end() {
            positions.push(packed.record(*positions.last().unwrap()).unwrap().next);
        }
        for (from, position) in positions.iter().enumerate() {
            for wanted in from..names.len() {
                assert_eq!(packed.seek(*position, names[wanted].as_bytes().as_bstr()).unwrap(), positions[wanted]);
                let before = format!("refs/{:03}", wanted * 2);
                assert_eq!(packed.seek(*position, before.as_bytes().as_bstr()).unwrap(), positions[wanted]);
            }
            assert_eq!(packed.seek(*position, "refs/zz".into()).unwrap(), packed.end());
        }
    }

    /// A gallop that landed exactly on the end of the file looked for a record there.
    #[test]
    fn seeking_in_a_file_of_any_length_stays_in_it() {
        for len in 0..600 {
            let last = format!("refs/b{}", "x".repeat(len));
            let packed = packed(&format!("{SORTED}%1 refs/a\n%1 {last}\n")).unwrap();
            let second = packed.record(packed.start()).unwrap().next;
            assert_eq!(packed.seek(packed.start(), last.as_bytes().as_bstr()).unwrap(), second, "{len}");
            assert_eq!(packed.seek(packed.start(), "refs/c".into()).unwrap(), packed.end(), "{len}");
        }
    }

    #[test]
    fn a_position_behind_the_end_is_an_error() {
        let packed = packed("%1 refs/heads/a\n").unwrap();
        assert!(packed.record(packed.end()).is_err() && packed.record(packed.end() + 9).is_err());
    }

    /// The same bytes in a file that is read page by page.
    fn paged(bytes: &[u8]) -> Result<Packed> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("packed-refs");
        std::fs::write(&path, bytes).unwrap();
        let file = std::sync::Arc::new(refdb_vfs::Fs::real().open(&path).unwrap());
        let pages = Pages::new(file, bytes.len(), &std::sync::Arc::default());
        Packed::open(Path::new("packed-refs"), HashKind::Sha1, Bytes::Paged(pages))
    }

    /// Names from a few bytes to many pages long, some with peeled lines.
    fn large(header: &str, order: impl Fn(usize) -> usize) -> (Vec<u8>, Vec<String>) {
        let mut text = header.to_string();
        let name = |i: usize| {
            let long = if i == 77 || i == 78 { 40_000 } else { i * 7919 % 400 };
            format!("refs/{i:04}{}", "x".repeat(long))
        };
        for i in (0..400).map(order) {
            let _ = std::fmt::Write::write_fmt(&mut text, format_args!("{} {}\n", id((i % 200) as u8), name(i)));
            if i % 3 == 0 {
                let _ = std::fmt::Write::write_fmt(&mut text, format_args!("^{}\n", id(250)));
            }
        }
        (text.into_bytes(), (0..400).map(name).collect())
    }

    #[test]
    fn a_file_read_page_by_page_has_the_same_records() {
        for header in [SORTED, "# pack-refs with: peeled \n", ""] {
            let (bytes, names) = large(header, |i| i);
            let whole = Packed::parse(Path::new("packed-refs"), HashKind::Sha1, bytes.clone()).unwrap();
            let paged = paged(&bytes).unwrap();
            assert!(matches!(paged.bytes, Bytes::Paged(_)));
            for name in &names {
                // In every page there is a first look-up.
                let fresh = paged.emptied().unwrap();
                let at = fresh.seek(fresh.start(), name.as_str().into()).unwrap();
                assert_eq!(at, whole.seek(whole.start(), name.as_str().into()).unwrap());
                assert_eq!(fresh.record(at).unwrap(), whole.record(at).unwrap());
                assert_eq!(fresh.find(name.as_str().into()).unwrap().unwrap(), whole.record(at).unwrap());
                assert_eq!(fresh.first_from(at).unwrap(), at);
                assert_eq!(fresh.first_from(at + 1).unwrap(), whole.record(at).unwrap().next);
                let behind = format!("{name}!");
                assert_eq!(fresh.find(behind.as_str().into()).unwrap(), None);
                let at = paged.seek(paged.start(), behind.as_str().into()).unwrap();
                assert_eq!(at, whole.seek(whole.start(), behind.as_str().into()).unwrap());
            }
            assert_eq!(listed(&paged).unwrap(), listed(&whole).unwrap());
            let (mut from, mut parts) = (paged.start(), Vec::new());
            while from < paged.end() {
                let (part, next) = paged.part(from).unwrap();
                parts.extend(listed(&part).unwrap());
                from = next;
            }
            assert_eq!(parts, listed(&whole).unwrap());
        }
    }

    #[test]
    fn a_paged_file_that_is_not_sorted_is_sorted_in_memory() {
        let (bytes, _) = large("", |i| 399 - i);
        let whole = Packed::parse(Path::new("packed-refs"), HashKind::Sha1, bytes.clone()).unwrap();
        let paged = paged(&bytes).unwrap();
        assert!(matches!(paged.bytes, Bytes::Owned(_)));
        assert_eq!(listed(&paged).unwrap(), listed(&whole).unwrap());
    }

    #[test]
    fn broken_lines_of_a_paged_file_have_the_same_numbers() {
        for header in [SORTED, ""] {
            let (bytes, _) = large(header, |i| i);
            let broken_at = bytes.len() / 2 + bytes[bytes.len() / 2..].find_byte(b'\n').unwrap() + 1;
            for (at, byte) in [(broken_at, b'g'), (broken_at + 40, b'_'), (bytes.len() - 1, b'x')] {
                let mut bytes = bytes.clone();
                bytes[at] = byte;
                let path = Path::new("packed-refs");
                let whole = Packed::parse(path, HashKind::Sha1, bytes.clone()).and_then(|packed| listed(&packed));
                let paged = paged(&bytes).and_then(|packed| listed(&packed));
                assert_eq!(paged.unwrap_err().to_string(), whole.unwrap_err().to_string());
            }
        }
    }

    #[test]
    fn a_file_that_is_truncated_under_its_pages_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("packed-refs");
        let (bytes, names) = large(SORTED, |i| i);
        std::fs::write(&path, &bytes).unwrap();
        let file = std::sync::Arc::new(refdb_vfs::Fs::real().open(&path).unwrap());
        let budget = std::sync::Arc::default();
        let pages = Pages::new(file, bytes.len(), &budget);
        let packed = Packed::open(&path, HashKind::Sha1, Bytes::Paged(pages)).unwrap();
        std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(100).unwrap();
        let results: Vec<_> = names.iter().map(|name| packed.seek(packed.start(), name.as_str().into())).collect();
        assert!(results.iter().any(|result| matches!(result, Err(Error::Io(_)))));
        assert!(budget.used_bytes() < 2 * bytes.len());
        drop(packed);
        assert_eq!(budget.used_bytes(), 0);
    }

    #[test]
    fn no_mutation_of_a_file_makes_the_reader_panic() {
        let seed = format!("{SORTED}%1 refs/heads/a\n%1 refs/tags/b\n^%2\n%2 refs/tags/c\n");
        let seed = seed.replace("%1", &id(1).to_string()).replace("%2", &id(2).to_string()).into_bytes();
        for at in 0..seed.len() {
            for byte in [0, b'\n', b'^', b' ', b'#', b'r', 0xff, seed[at] ^ 1] {
                for len in [seed.len(), at + 1] {
                    let mut bytes = seed.clone();
                    bytes[at] = byte;
                    bytes.truncate(len);
                    let Ok(packed) = Packed::parse(Path::new("p"), HashKind::Sha1, bytes) else { continue };
                    let _ = listed(&packed);
                    for name in ["refs/heads/a", "refs/tags/b", "refs/x", ""] {
                        let _ = packed.seek(packed.start(), name.into());
                    }
                }
            }
        }
    }
}
