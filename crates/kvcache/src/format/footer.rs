//! The end of a segment's file, which lists its records so that opening a cache need not read them.

use crate::format::{
    place::{ALIGN, MAX_OFFSET_BYTES},
    rate::Rate,
    record::{Kind, RECORD_HEADER_BYTES, SEGMENT_HEADER_BYTES, u32_at, u64_at},
};

const TRAILER_MAGIC: [u8; 8] = *b"refdbkvE";

/// Length of a footer entry, in bytes.
pub(crate) const ENTRY_BYTES: usize = 16;
/// Length of the trailer, in bytes.
pub(crate) const TRAILER_BYTES: usize = 64;

/// The footer's entry about one record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    pub(crate) hash: u64,
    pub(crate) kind: Kind,
    /// Offset of the record in the segment, in bytes.
    pub(crate) offset: usize,
    /// Length of the record, padding included, in bytes.
    pub(crate) len: usize,
    /// Average number of reads of the key in a round of the log (see [`Rate`]), as known when this record was written.
    pub(crate) rate: Rate,
}

impl Entry {
    /// The bytes of the entry. The second word is laid out like a [`Place`](super::place::Place), with the rate instead
    /// of the slot and the kind instead of the use count.
    pub(crate) fn encode(&self) -> [u8; ENTRY_BYTES] {
        debug_assert!(self.offset.is_multiple_of(ALIGN) && self.len.is_multiple_of(ALIGN), "{self:?}");
        debug_assert!(self.offset <= MAX_OFFSET_BYTES && self.len >= RECORD_HEADER_BYTES, "{self:?}");
        let rate = u64::from(self.rate.bits()) << 48;
        let place = rate | ((self.offset / ALIGN) as u64) << 26 | ((self.len / ALIGN) as u64) << 2 | self.kind as u64;
        let mut bytes = [0; ENTRY_BYTES];
        bytes[..8].copy_from_slice(&self.hash.to_le_bytes());
        bytes[8..].copy_from_slice(&place.to_le_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8; ENTRY_BYTES]) -> Option<Self> {
        let place = u64_at(bytes, 8);
        let (offset, len) = ((place >> 26) as usize % (1 << 22) * ALIGN, (place >> 2) as usize % (1 << 24) * ALIGN);
        let hash = u64_at(bytes, 0);
        let fits =
            (SEGMENT_HEADER_BYTES..=MAX_OFFSET_BYTES).contains(&offset) && len >= RECORD_HEADER_BYTES && hash != 0;
        let kind = Kind::from_byte(place as u8 & 3)?;
        let rate = Rate::from_bits((place >> 48) as u16);
        fits.then_some(Entry { hash, kind, offset, len, rate })
    }
}

/// The last bytes of a sealed segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Trailer {
    pub(crate) seq: u64,
    /// Where the records end, in bytes.
    pub(crate) records_end: u64,
    /// Number of footer entries before the trailer.
    pub(crate) entries: u32,
    /// Creation of the youngest record, in milliseconds since 1970.
    pub(crate) newest_ms: u64,
    entries_crc: u32,
}

impl Trailer {
    /// Decodes the last [`TRAILER_BYTES`] bytes of a file; `None` if they are not the trailer of segment `seq`.
    pub(crate) fn decode(bytes: &[u8], seq: u64) -> Option<Self> {
        let bytes = bytes.get(..TRAILER_BYTES)?;
        let trailer = Trailer {
            seq: u64_at(bytes, 8),
            records_end: u64_at(bytes, 16),
            newest_ms: u64_at(bytes, 24),
            entries: u32_at(bytes, 32),
            entries_crc: u32_at(bytes, 36),
        };
        let ok = bytes[..8] == TRAILER_MAGIC && u32_at(bytes, 60) == crc32c::crc32c(&bytes[..60]);
        (ok && trailer.seq == seq).then_some(trailer)
    }

    /// Decodes the last bytes of a file of this length; `None` if they are not the trailer of segment `seq`, or if
    /// records and footer do not fit into the file.
    pub(crate) fn decode_in(bytes: &[u8], seq: u64, file_bytes: u64) -> Option<Self> {
        let trailer = Trailer::decode(bytes, seq)?;
        let end = trailer.records_end.checked_add(trailer.footer_len() as u64)?;
        (trailer.records_end >= SEGMENT_HEADER_BYTES as u64 && end <= file_bytes).then_some(trailer)
    }

    /// Returns whether bytes that do not decode look like a damaged trailer of segment `seq`: they have the trailer's
    /// magic number, or the number of the segment where a trailer has it.
    pub(crate) fn was_one(bytes: &[u8], seq: u64) -> bool {
        bytes.len() >= TRAILER_BYTES && (bytes[..8] == TRAILER_MAGIC || u64_at(bytes, 8) == seq)
    }

    fn encode(&self) -> [u8; TRAILER_BYTES] {
        debug_assert!(self.records_end >= SEGMENT_HEADER_BYTES as u64, "records follow the header: {self:?}");
        let mut bytes = [0; TRAILER_BYTES];
        bytes[..8].copy_from_slice(&TRAILER_MAGIC);
        bytes[8..16].copy_from_slice(&self.seq.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.records_end.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.newest_ms.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.entries.to_le_bytes());
        bytes[36..40].copy_from_slice(&self.entries_crc.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..60]);
        bytes[60..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Length of the footer: entries and trailer.
    pub(crate) fn footer_len(&self) -> usize {
        footer_len(self.entries as usize)
    }

    /// Decodes and checks the entries that precede the trailer; `None` if they are damaged, or do not follow each other
    /// within the records.
    pub(crate) fn decode_entries(&self, bytes: Vec<u8>) -> Option<Entries> {
        self.check_entries(&bytes)?;
        Some(Entries { bytes })
    }

    /// Checks the entries that precede the trailer and returns the numbers of the segments that are marked there as
    /// dropped; `None` if the entries are damaged, or do not follow each other within the records.
    pub(crate) fn check_entries(&self, bytes: &[u8]) -> Option<Vec<u64>> {
        let (chunks, rest) = bytes.as_chunks::<ENTRY_BYTES>();
        if !rest.is_empty() || chunks.len() != self.entries as usize || crc32c::crc32c(bytes) != self.entries_crc {
            return None;
        }
        let (mut end, mut dropped) = (SEGMENT_HEADER_BYTES, Vec::new());
        for chunk in chunks {
            let entry = Entry::decode(chunk).filter(|entry| entry.offset >= end)?;
            end = entry.offset + entry.len;
            if end as u64 > self.records_end {
                return None;
            }
            if entry.kind == Kind::Dropped {
                dropped.push(entry.hash);
            }
        }
        Some(dropped)
    }
}

/// The checked entries of a segment, kept as the bytes of its footer because these take half of the memory of decoded
/// entries.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(crate) struct Entries {
    bytes: Vec<u8>,
}

impl Entries {
    /// Bytes of the segment's file that marks (see [`Kind`]) take with their footer entries.
    pub(crate) fn mark_bytes(&self) -> u64 {
        let marks = self.iter().filter(|entry| entry.kind != Kind::Put);
        marks.map(|entry| (entry.len + ENTRY_BYTES) as u64).sum()
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len() / ENTRY_BYTES
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(crate) fn push(&mut self, entry: &Entry) {
        self.bytes.extend_from_slice(&entry.encode());
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Entry> {
        self.chunks().iter().filter_map(Entry::decode)
    }

    /// The entries as they stand in a footer.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Numbers of the segments that are marked as dropped.
    pub(crate) fn dropped(&self) -> Vec<u64> {
        self.iter().filter(|entry| entry.kind == Kind::Dropped).map(|entry| entry.hash).collect()
    }

    fn chunks(&self) -> &[[u8; ENTRY_BYTES]] {
        self.bytes.as_chunks().0
    }
}

/// Returns for each of a footer's entries the hash and the second word: a place with the rate instead of the slot and
/// the [`Kind`] instead of the use count.
pub(crate) fn words(entries: &[u8]) -> impl Iterator<Item = (u64, u64)> {
    entries.as_chunks::<ENTRY_BYTES>().0.iter().map(|chunk| (u64_at(chunk, 0), u64_at(chunk, 8)))
}

impl FromIterator<Entry> for Entries {
    fn from_iter<I: IntoIterator<Item = Entry>>(iter: I) -> Self {
        let mut entries = Entries::default();
        iter.into_iter().for_each(|entry| entries.push(&entry));
        entries
    }
}

/// Length of a footer with this many entries.
pub(crate) fn footer_len(entries: usize) -> usize {
    entries * ENTRY_BYTES + TRAILER_BYTES
}

/// The footer of a segment whose records end at `records_end`.
pub(crate) fn encode_footer(seq: u64, records_end: u64, newest_ms: u64, entries: &Entries) -> Vec<u8> {
    let mut bytes: Vec<u8> = Vec::with_capacity(footer_len(entries.len()));
    bytes.extend_from_slice(&entries.bytes);
    let entries_crc = crc32c::crc32c(&bytes);
    let trailer = Trailer { seq, records_end, newest_ms, entries: entries.len() as u32, entries_crc };
    bytes.extend_from_slice(&trailer.encode());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_footer_comes_back_and_any_flipped_bit_is_seen() {
        let entries = Entries::from_iter([
            Entry { hash: 1, kind: Kind::Put, offset: 64, len: 48, rate: Rate::from_bits(0xffff) },
            Entry { hash: 2, kind: Kind::Remove, offset: 112, len: 32, rate: Rate::default() },
            Entry { hash: 3, kind: Kind::Dropped, offset: 144, len: 32, rate: Rate::default() },
        ]);
        let footer = encode_footer(9, 176, 1234, &entries);
        let decode = |footer: &[u8]| {
            let (entries, trailer) = footer.split_at(footer.len() - TRAILER_BYTES);
            let trailer = Trailer::decode(trailer, 9)?;
            Some((trailer.newest_ms, trailer.decode_entries(entries.to_vec())?))
        };
        assert_eq!(decode(&footer), Some((1234, entries.clone())));
        assert_eq!(entries.iter().collect::<Entries>(), entries);
        assert_eq!(footer.len(), footer_len(3));
        for bit in 0..footer.len() * 8 {
            let mut damaged = footer.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode(&damaged), None, "bit {bit} of the footer");
        }
    }

    #[test]
    fn a_footer_entry_past_the_records_is_refused() {
        let entries =
            Entries::from_iter([Entry { hash: 1, kind: Kind::Put, offset: 64, len: 48, rate: Rate::default() }]);
        let footer = encode_footer(9, 100, 0, &entries);
        let (entries, trailer) = footer.split_at(ENTRY_BYTES);
        assert_eq!(Trailer::decode(trailer, 9).unwrap().decode_entries(entries.to_vec()), None);
    }

    /// Regression: hash 0, which no key has, failed an assertion when its segment was evicted, and so did two entries
    /// for the same bytes, which count twice.
    #[test]
    fn a_footer_that_no_program_writes_is_refused() {
        let entry = |hash, offset| Entry { hash, kind: Kind::Put, offset, len: 48, rate: Rate::default() };
        let is_refused = |entries: &[Entry]| {
            let footer = encode_footer(9, 176, 0, &entries.iter().copied().collect());
            let (entries, trailer) = footer.split_at(footer.len() - TRAILER_BYTES);
            Trailer::decode(trailer, 9).unwrap().decode_entries(entries.to_vec()).is_none()
        };
        assert!(!is_refused(&[entry(1, 64), entry(2, 112)]));
        assert!(is_refused(&[entry(0, 64)]));
        assert!(is_refused(&[entry(1, 64), entry(2, 64)]));
        assert!(is_refused(&[entry(1, 112), entry(2, 64)]));
        assert!(is_refused(&[entry(1, 64), entry(2, 96)]));
    }
}
