//! The bytes of a segment file; the picture is in `docs/formats/kvcache.md`.
//!
//! ```text
//! header | record ... | (garbage of a killed writer) | footer entry ... | trailer
//! ```
//!
//! Nothing here touches a file. Every number is little-endian and checked before it is used.

use crate::place::{ALIGN, MAX_OFFSET_BYTES, MAX_RECORD_BYTES};

/// The version of the whole format, in the cache's `format` file.
pub(crate) const FORMAT_VERSION: u32 = 1;

const SEGMENT_MAGIC: [u8; 8] = *b"refdbkv1";
const TRAILER_MAGIC: [u8; 8] = *b"refdbkvE";
const RECORD_MAGIC: u16 = 0x564b;

/// Length of a segment's header.
pub(crate) const SEGMENT_HEADER_BYTES: usize = 64;
/// Length of a record before its key.
pub(crate) const RECORD_HEADER_BYTES: usize = 32;
/// Length of a footer entry.
pub(crate) const ENTRY_BYTES: usize = 16;
/// Length of the trailer.
pub(crate) const TRAILER_BYTES: usize = 64;

const _: () = assert!(SEGMENT_HEADER_BYTES.is_multiple_of(ALIGN) && RECORD_HEADER_BYTES.is_multiple_of(ALIGN));

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) | u32::from(u16_at(bytes, at + 2)) << 16
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

/// A number bound to the place it stands at: a block that strayed from another file or offset does not pass.
fn bound(crc: u32, seq: u64, offset: u64) -> u32 {
    let mut place = [0; 16];
    place[..8].copy_from_slice(&seq.to_le_bytes());
    place[8..].copy_from_slice(&offset.to_le_bytes());
    crc32c::crc32c_append(crc, &place)
}

/// The first bytes of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SegmentHeader {
    /// Number of the segment; later ones are larger, none is used twice.
    pub(crate) seq: u64,
    /// Segments with smaller numbers were cleared.
    pub(crate) floor: u64,
    /// Where the records of segment `seq - 1` end, in bytes; 0 if it had none or is not known.
    pub(crate) before_end: u64,
    /// Which cache the segment belongs to.
    pub(crate) store: u64,
}

impl SegmentHeader {
    pub(crate) fn encode(&self) -> [u8; SEGMENT_HEADER_BYTES] {
        let mut bytes = [0; SEGMENT_HEADER_BYTES];
        bytes[..8].copy_from_slice(&SEGMENT_MAGIC);
        bytes[8..16].copy_from_slice(&self.seq.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.floor.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.before_end.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.store.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..60]);
        bytes[60..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// None if these are not the bytes of a whole header.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..SEGMENT_HEADER_BYTES)?;
        let ok = bytes[..8] == SEGMENT_MAGIC && u32_at(bytes, 60) == crc32c::crc32c(&bytes[..60]);
        // Nothing is written there yet: whoever writes something means something.
        let ok = ok && bytes[40..60].iter().all(|byte| *byte == 0);
        ok.then(|| SegmentHeader {
            seq: u64_at(bytes, 8),
            floor: u64_at(bytes, 16),
            before_end: u64_at(bytes, 24),
            store: u64_at(bytes, 32),
        })
    }
}

/// What a record says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Kind {
    /// The key has this value.
    Put = 1,
    /// The key, known by its hash, has no value.
    Remove = 2,
    /// The segment whose number stands where a hash would was compacted away.
    Dropped = 3,
}

impl Kind {
    fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            1 => Some(Kind::Put),
            2 => Some(Kind::Remove),
            3 => Some(Kind::Dropped),
            _ => None,
        }
    }
}

/// The first bytes of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RecordHeader {
    pub(crate) kind: Kind,
    /// Whether key and value are encrypted: nonce and tag stand around them.
    pub(crate) encrypted: bool,
    /// The key's hash, or a segment's number.
    pub(crate) hash: u64,
    /// Milliseconds since 1970.
    pub(crate) created_ms: u64,
    pub(crate) key_len: u32,
    pub(crate) value_len: u32,
}

impl RecordHeader {
    /// Key, value and what encryption adds, without padding.
    pub(crate) fn payload_len(&self) -> usize {
        let extra = if self.encrypted { crate::seal::EXTRA_BYTES } else { 0 };
        (self.key_len as usize).saturating_add(self.value_len as usize).saturating_add(extra)
    }

    /// The whole record, padding included.
    pub(crate) fn record_len(&self) -> usize {
        record_len(self.payload_len())
    }

    /// The header with a checksum of 0.
    pub(crate) fn encode(&self) -> [u8; RECORD_HEADER_BYTES] {
        let mut bytes = [0; RECORD_HEADER_BYTES];
        bytes[..2].copy_from_slice(&RECORD_MAGIC.to_le_bytes());
        bytes[2] = self.kind as u8;
        bytes[3] = u8::from(self.encrypted);
        bytes[8..16].copy_from_slice(&self.hash.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.created_ms.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.key_len.to_le_bytes());
        bytes[28..32].copy_from_slice(&self.value_len.to_le_bytes());
        bytes
    }

    /// None if these are not the bytes of a header, or it asks for more than any record has.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..RECORD_HEADER_BYTES)?;
        let header = RecordHeader {
            kind: Kind::from_byte(bytes[2])?,
            encrypted: match bytes[3] {
                0 => false,
                1 => true,
                _ => return None,
            },
            hash: u64_at(bytes, 8),
            created_ms: u64_at(bytes, 16),
            key_len: u32_at(bytes, 24),
            value_len: u32_at(bytes, 28),
        };
        let fits = header.payload_len() <= MAX_RECORD_BYTES - RECORD_HEADER_BYTES;
        (u16_at(bytes, 0) == RECORD_MAGIC && fits).then_some(header)
    }
}

/// Length of a record with this payload, padding included.
pub(crate) fn record_len(payload_len: usize) -> usize {
    (RECORD_HEADER_BYTES.saturating_add(payload_len)).checked_next_multiple_of(ALIGN).unwrap_or(usize::MAX)
}

/// The checksum of a whole record but for where it stands; computed before the log's lock is taken.
pub(crate) fn body_crc(record: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&record[..4]), &record[8..])
}

/// Puts the checksum into the record, which goes to `offset` of segment `seq`.
pub(crate) fn finish_record(record: &mut [u8], body_crc: u32, seq: u64, offset: u64) {
    record[4..8].copy_from_slice(&bound(body_crc, seq, offset).to_le_bytes());
}

/// The header of the record that `bytes` starts with, if it is whole, unharmed and stands where it was written to.
pub(crate) fn check_record(bytes: &[u8], seq: u64, offset: u64) -> Option<RecordHeader> {
    let header = RecordHeader::decode(bytes)?;
    let record = bytes.get(..header.record_len())?;
    (u32_at(record, 4) == bound(body_crc(record), seq, offset)).then_some(header)
}

/// What a footer says of one record, so that opening a cache reads no record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    pub(crate) hash: u64,
    pub(crate) kind: Kind,
    /// Offset of the record in the segment.
    pub(crate) offset: usize,
    /// Its length, padding included.
    pub(crate) len: usize,
}

impl Entry {
    /// Kind in the low 2 bits, then the length and the offset in units of 16 bytes, as in a place.
    pub(crate) fn encode(&self) -> [u8; ENTRY_BYTES] {
        let place = ((self.offset / ALIGN) as u64) << 26 | ((self.len / ALIGN) as u64) << 2 | self.kind as u64;
        let mut bytes = [0; ENTRY_BYTES];
        bytes[..8].copy_from_slice(&self.hash.to_le_bytes());
        bytes[8..].copy_from_slice(&place.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8; ENTRY_BYTES]) -> Option<Self> {
        let place = u64_at(bytes, 8);
        let (offset, len) = ((place >> 26) as usize * ALIGN, (place >> 2) as usize % (1 << 24) * ALIGN);
        let fits = (SEGMENT_HEADER_BYTES..=MAX_OFFSET_BYTES).contains(&offset) && len >= RECORD_HEADER_BYTES;
        let kind = Kind::from_byte(place as u8 & 3)?;
        fits.then_some(Entry { hash: u64_at(bytes, 0), kind, offset, len })
    }
}

/// The last bytes of a sealed segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Trailer {
    pub(crate) seq: u64,
    /// Where the records end, in bytes.
    pub(crate) records_end: u64,
    /// How many footer entries stand before the trailer.
    pub(crate) entries: u32,
    /// The youngest record, in milliseconds since 1970.
    pub(crate) newest_ms: u64,
    entries_crc: u32,
}

impl Trailer {
    /// Reads the last [`TRAILER_BYTES`] bytes of a file; None if they are no trailer of segment `seq`.
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

    fn encode(&self) -> [u8; TRAILER_BYTES] {
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

    /// The entries, from the bytes before the trailer; None if they are harmed or lie outside the records.
    pub(crate) fn decode_entries(&self, bytes: &[u8]) -> Option<Vec<Entry>> {
        let (chunks, rest) = bytes.as_chunks::<ENTRY_BYTES>();
        if !rest.is_empty() || chunks.len() != self.entries as usize || crc32c::crc32c(bytes) != self.entries_crc {
            return None;
        }
        let entries: Option<Vec<Entry>> = chunks.iter().map(Entry::decode).collect();
        entries.filter(|entries| entries.iter().all(|entry| (entry.offset + entry.len) as u64 <= self.records_end))
    }
}

/// Length of a footer with this many entries.
pub(crate) fn footer_len(entries: usize) -> usize {
    entries * ENTRY_BYTES + TRAILER_BYTES
}

/// The footer of a segment whose records end at `records_end`.
pub(crate) fn encode_footer(seq: u64, records_end: u64, newest_ms: u64, entries: &[Entry]) -> Vec<u8> {
    let mut bytes: Vec<u8> = Vec::with_capacity(footer_len(entries.len()));
    entries.iter().for_each(|entry| bytes.extend_from_slice(&entry.encode()));
    let entries_crc = crc32c::crc32c(&bytes);
    let trailer = Trailer { seq, records_end, newest_ms, entries: entries.len() as u32, entries_crc };
    bytes.extend_from_slice(&trailer.encode());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(key: &[u8], value: &[u8], seq: u64, offset: u64) -> Vec<u8> {
        let header = RecordHeader {
            kind: Kind::Put,
            encrypted: false,
            hash: 77,
            created_ms: 1_700_000_000_000,
            key_len: key.len() as u32,
            value_len: value.len() as u32,
        };
        let mut bytes = [&header.encode(), key, value].concat();
        bytes.resize(header.record_len(), 0);
        let crc = body_crc(&bytes);
        finish_record(&mut bytes, crc, seq, offset);
        bytes
    }

    /// The fuzzer found that it was read as a header, though none is written like that.
    #[test]
    fn a_segment_header_with_something_in_its_reserved_bytes_is_none() {
        let header = SegmentHeader { seq: 1, floor: 0, before_end: 0, store: 7 };
        assert_eq!(SegmentHeader::decode(&header.encode()).map(|header| header.seq), Some(1));
        for at in 40..60 {
            let mut bytes = header.encode();
            bytes[at] = 1;
            let crc = crc32c::crc32c(&bytes[..60]);
            bytes[60..].copy_from_slice(&crc.to_le_bytes());
            assert!(SegmentHeader::decode(&bytes).is_none());
        }
    }

    #[test]
    fn a_record_passes_only_whole_unharmed_and_at_its_place() {
        let bytes = record(b"key", b"value", 5, 64);
        let header = check_record(&bytes, 5, 64).unwrap();
        assert_eq!((header.key_len, header.value_len, header.record_len()), (3, 5, 48));
        assert_eq!(check_record(&bytes, 6, 64), None, "another segment");
        assert_eq!(check_record(&bytes, 5, 80), None, "another offset");
        for len in 0..bytes.len() {
            assert_eq!(check_record(&bytes[..len], 5, 64), None, "cut to {len}");
        }
        for bit in 0..bytes.len() * 8 {
            let mut harmed = bytes.clone();
            harmed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(check_record(&harmed, 5, 64), None, "bit {bit}");
        }
    }

    #[test]
    fn a_length_no_record_has_is_refused_before_it_is_used() {
        let mut bytes = record(b"key", b"value", 5, 64);
        bytes[24..32].fill(0xff);
        assert_eq!(RecordHeader::decode(&bytes), None);
    }

    #[test]
    fn headers_and_footers_come_back_and_any_flipped_bit_is_seen() {
        let header = SegmentHeader { seq: 9, floor: 4, before_end: 4096, store: 0xfeed };
        let bytes = header.encode();
        assert_eq!(SegmentHeader::decode(&bytes), Some(header));
        let entries = [
            Entry { hash: 1, kind: Kind::Put, offset: 64, len: 48 },
            Entry { hash: 2, kind: Kind::Remove, offset: 112, len: 32 },
            Entry { hash: 3, kind: Kind::Dropped, offset: 144, len: 32 },
        ];
        let footer = encode_footer(9, 176, 1234, &entries);
        let decode = |footer: &[u8]| {
            let (entries, trailer) = footer.split_at(footer.len() - TRAILER_BYTES);
            let trailer = Trailer::decode(trailer, 9)?;
            Some((trailer.newest_ms, trailer.decode_entries(entries)?))
        };
        assert_eq!(decode(&footer), Some((1234, entries.to_vec())));
        assert_eq!(footer.len(), footer_len(3));
        for bit in 0..footer.len() * 8 {
            let mut harmed = footer.clone();
            harmed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode(&harmed), None, "bit {bit} of the footer");
        }
        for bit in 0..bytes.len() * 8 {
            let mut harmed = bytes;
            harmed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(SegmentHeader::decode(&harmed), None, "bit {bit} of the header");
        }
    }

    #[test]
    fn a_footer_entry_past_the_records_is_refused() {
        let footer = encode_footer(9, 100, 0, &[Entry { hash: 1, kind: Kind::Put, offset: 64, len: 48 }]);
        let (entries, trailer) = footer.split_at(ENTRY_BYTES);
        assert_eq!(Trailer::decode(trailer, 9).unwrap().decode_entries(entries), None);
    }
}
