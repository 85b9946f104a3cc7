use super::loose::is_space;
use crate::{Error, RefView, Result, TargetView, backend::Peeled};
use bstr::{BStr, ByteSlice};
use refdb_types::{HashKind, ObjectId};
use refdb_vfs::Mapping;
use std::{
    cmp::Ordering,
    ops::{Deref, Range},
    path::{Path, PathBuf},
};

/// The bytes of a packed-refs file, wherever they are kept.
#[derive(Debug)]
pub(super) enum Bytes {
    /// Mapped.
    Mapped(Mapping),
    /// In memory.
    Owned(Vec<u8>),
}

impl Deref for Bytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match self {
            Bytes::Mapped(mapping) => mapping,
            Bytes::Owned(bytes) => bytes,
        }
    }
}

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
        if packed.bytes.last().is_some_and(|last| *last != b'\n') {
            return Err(packed.unterminated());
        }
        if packed.bytes.first() == Some(&b'#') {
            let line_end = packed.line_end(0)?;
            let promises = packed.bytes[..line_end].strip_prefix(HEADER_START).ok_or_else(|| packed.unexpected(0))?;
            let promised = |word: &str| promises.split_str(" ").any(|promise| promise == word.as_bytes());
            packed.traits = Traits {
                sorted: promised("sorted"),
                peeled: promised("peeled"),
                fully_peeled: promised("fully-peeled"),
            };
            packed.body = line_end + 1;
        }
        if packed.traits.sorted { Ok(packed) } else { packed.sort() }
    }

    /// Puts the records of a file that does not promise to be sorted in order; the whole file is checked.
    fn sort(mut self) -> Result<Self> {
        let mut ranges: Vec<(Range<usize>, Range<usize>)> = Vec::new();
        let mut sorted = true;
        let mut at = self.body;
        while at < self.end() {
            let record = self.record(at)?;
            let name_start = at + self.hash.len_hex() + 1;
            let name = name_start..name_start + record.name.len();
            sorted &= ranges.last().is_none_or(|(last, _)| self.bytes[last.clone()] < self.bytes[name.clone()]);
            ranges.push((name, at..record.next));
            at = record.next;
        }
        if sorted {
            return Ok(self);
        }
        ranges.sort_by(|(a, _), (b, _)| self.bytes[a.clone()].cmp(&self.bytes[b.clone()]));
        let mut bytes = Vec::with_capacity(self.end());
        bytes.extend_from_slice(&self.bytes[..self.body]);
        for (_, record) in ranges {
            bytes.extend_from_slice(&self.bytes[record]);
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

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
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
        let line = self.bytes.get(at..).unwrap_or_default();
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
            return self.peeled_line(next).map(|(to, next)| PackedRecord { name, id, peeled: Peeled::To(to), next });
        }
        let peeled = match self.traits {
            Traits { fully_peeled: true, .. } => Peeled::NotTag,
            Traits { peeled: true, .. } if name.starts_with(b"refs/tags/") => Peeled::NotTag,
            _ => Peeled::Unknown,
        };
        Ok(PackedRecord { name, id, peeled, next })
    }

    /// The line `^HEX` at `at`, and the position behind it.
    fn peeled_line(&self, at: usize) -> Result<(ObjectId, usize)> {
        let end = at + 1 + self.hash.len_hex();
        match self.bytes.get(at + 1..end).map(|hex| ObjectId::from_hex(self.hash, hex)) {
            Some(Ok(id)) if self.bytes.get(end) == Some(&b'\n') => Ok((id, end + 1)),
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
        let mut line = self.line_around(low, at.min(self.end()));
        if line > low && self.bytes.get(line) == Some(&b'^') {
            line = self.line_around(low, line - 1);
        }
        Ok(line)
    }

    fn line_around(&self, low: usize, at: usize) -> usize {
        self.bytes[low..at].rfind_byte(b'\n').map_or(low, |newline| low + newline + 1)
    }

    /// Compares a record's name with `name`; also returns where the next record begins. The object ids are not looked
    /// at: whoever wants the record reads it.
    fn compare(&self, at: usize, name: &BStr) -> Result<(Ordering, usize)> {
        let line_end = self.line_end(at)?;
        let name_start = at + self.hash.len_hex() + 1;
        if name_start >= line_end || !is_space(&self.bytes[name_start - 1]) || self.bytes[at] == b'^' {
            return Err(self.unexpected(at));
        }
        let mut next = line_end + 1;
        if self.bytes.get(next) == Some(&b'^') {
            next = self.line_end(next)? + 1;
        }
        Ok((self.bytes[name_start..line_end].cmp(name), next))
    }

    fn line_end(&self, at: usize) -> Result<usize> {
        match self.bytes.get(at..).and_then(|rest| rest.find_byte(b'\n')) {
            Some(len) => Ok(at + len),
            None => Err(self.unterminated()),
        }
    }

    #[cold]
    fn unexpected(&self, at: usize) -> Error {
        let at = at.min(self.end());
        let line_end = self.bytes[at..].find_byte(b'\n').map_or(self.end(), |len| at + len);
        self.corrupt("unexpected", at, &self.bytes[at..line_end])
    }

    #[cold]
    fn unterminated(&self) -> Error {
        let at = self.line_around(0, self.end());
        self.corrupt("unterminated", at, &self.bytes[at..])
    }

    fn corrupt(&self, how: &str, at: usize, line: &[u8]) -> Error {
        let shown = line[..line.len().min(200)].as_bstr();
        let number = self.bytes[..at].iter().filter(|byte| **byte == b'\n').count() as u64 + 1;
        let what = format!("{how} line in {}: {shown}", self.path.display());
        Error::Corrupt { path: self.path.clone(), line: number, what }
    }
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
