//! The header and the records of a segment file. Module `footer` has the end of the file, and `docs/formats/kvcache.md`
//! shows the whole.
//!
//! ```text
//! header | record ... | (garbage of a killed writer) | footer entry ... | trailer
//! ```
//!
//! Nothing here touches a file. Every number is little-endian.

use crate::format::place::{ALIGN, MAX_RECORD_BYTES};

/// Version of the whole format, as in the cache's `format` file.
pub(crate) const FORMAT_VERSION: u32 = 2;

const SEGMENT_MAGIC: [u8; 8] = *b"refdbkv2";

/// Length of a segment's header, in bytes.
pub(crate) const SEGMENT_HEADER_BYTES: usize = 64;
/// Length of a record's header, in bytes.
pub(crate) const RECORD_HEADER_BYTES: usize = 32;
/// Length of the nonce before an encrypted key, in bytes.
pub(crate) const NONCE_BYTES: usize = 24;
/// Length of the tag after an encrypted value, in bytes.
pub(crate) const TAG_BYTES: usize = 16;
/// Bytes that encryption adds to key and value.
pub(crate) const EXTRA_BYTES: usize = NONCE_BYTES + TAG_BYTES;

const _: () = assert!(SEGMENT_HEADER_BYTES.is_multiple_of(ALIGN) && RECORD_HEADER_BYTES.is_multiple_of(ALIGN));

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) | u32::from(u16_at(bytes, at + 2)) << 16
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

/// Extends a record's checksum by the record's place, so that a block that strayed from another file or offset does not
/// pass.
fn bound(crc: u32, seq: u64, offset: u64) -> u32 {
    let mut place = [0; 16];
    place[..8].copy_from_slice(&seq.to_le_bytes());
    place[8..].copy_from_slice(&offset.to_le_bytes());
    crc32c::crc32c_append(crc, &place)
}

/// The first bytes of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SegmentHeader {
    /// Number of the segment. Later segments have larger numbers. The number of a segment that recovery deletes,
    /// because a crash has cut the log before it, is used again.
    pub(crate) seq: u64,
    /// Segments with smaller numbers are void: the cache was cleared, or started empty after damage.
    pub(crate) floor: u64,
    /// Where the records of segment `seq - 1` end, in bytes; 0 if there was no such segment or this is not known.
    pub(crate) before_end: u64,
    /// Segments up to this number were on stable storage, so if bytes of them are missing, no loss of power took them.
    /// It is 0 in a cache that never had a synced write.
    pub(crate) synced: u64,
    /// Identity of the cache to which the segment belongs.
    pub(crate) store: u64,
}

impl SegmentHeader {
    pub(crate) fn encode(&self) -> [u8; SEGMENT_HEADER_BYTES] {
        debug_assert!(self.is_possible(), "a header that every reader refuses is not written: {self:?}");
        let mut bytes = [0; SEGMENT_HEADER_BYTES];
        bytes[..8].copy_from_slice(&SEGMENT_MAGIC);
        bytes[8..16].copy_from_slice(&self.seq.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.floor.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.before_end.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.store.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.synced.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..60]);
        bytes[60..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Decodes a header; `None` if the bytes are not a complete and intact one.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..SEGMENT_HEADER_BYTES)?;
        let ok = bytes[..8] == SEGMENT_MAGIC && u32_at(bytes, 60) == crc32c::crc32c(&bytes[..60]);
        // Reserved: a writer that puts other bytes there means something that this program does not know.
        let ok = ok && bytes[48..60].iter().all(|byte| *byte == 0);
        let header = ok.then(|| SegmentHeader {
            seq: u64_at(bytes, 8),
            floor: u64_at(bytes, 16),
            before_end: u64_at(bytes, 24),
            store: u64_at(bytes, 32),
            synced: u64_at(bytes, 40),
        });
        header.filter(Self::is_possible)
    }

    /// Returns whether a writer can have written these numbers: a clear makes only earlier segments void, and only
    /// earlier segments can be on stable storage when a segment begins.
    fn is_possible(&self) -> bool {
        self.floor <= self.seq && self.synced < self.seq
    }
}

/// What a record says. A *mark* is a record without key and value: a tombstone or a note that a segment was dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Kind {
    /// The key has this value.
    Put = 1,
    /// Tombstone: the key, known by its hash, has no value.
    Remove = 2,
    /// The segment whose number is in the place of the hash was compacted, and is deleted after this mark was written.
    Dropped = 3,
}

impl Kind {
    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
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
    /// The key's hash or, in [`Kind::Dropped`], the segment's number.
    pub(crate) hash: u64,
    /// Time of creation, in milliseconds since 1970.
    pub(crate) created_ms: u64,
    pub(crate) key_len: u32,
    pub(crate) value_len: u32,
}

impl RecordHeader {
    /// Length of key, value and what encryption adds, without padding, in bytes.
    pub(crate) fn payload_len(&self) -> usize {
        let extra = if self.encrypted { EXTRA_BYTES } else { 0 };
        (self.key_len as usize).saturating_add(self.value_len as usize).saturating_add(extra)
    }

    /// Length of the whole record, padding included, in bytes.
    pub(crate) fn record_len(&self) -> usize {
        record_len(self.payload_len())
    }

    /// The bytes of the header, with its own checksum, and with 0 for that of the whole record.
    pub(crate) fn encode(&self) -> [u8; RECORD_HEADER_BYTES] {
        debug_assert!(self.record_len() <= MAX_RECORD_BYTES, "a place has room for this length: {self:?}");
        debug_assert!(self.kind == Kind::Put || self.payload_len() == 0, "only puts have a key and a value: {self:?}");
        let mut bytes = [0; RECORD_HEADER_BYTES];
        bytes[2] = self.kind as u8;
        bytes[3] = u8::from(self.encrypted);
        bytes[8..16].copy_from_slice(&self.hash.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.created_ms.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.key_len.to_le_bytes());
        bytes[28..32].copy_from_slice(&self.value_len.to_le_bytes());
        let check = header_check(&bytes);
        bytes[..2].copy_from_slice(&check.to_le_bytes());
        bytes
    }

    /// Decodes a header without verifying a checksum; `None` if the bytes are no header or announce more than any
    /// record has.
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
        // No key has the hash 0, and no segment has the number 0.
        (header.hash != 0 && header.payload_len() <= MAX_RECORD_BYTES - RECORD_HEADER_BYTES).then_some(header)
    }

    /// Decodes a header whose own checksum is right, whatever follows it; `None` otherwise.
    pub(crate) fn decode_alone(bytes: &[u8]) -> Option<Self> {
        RecordHeader::decode(bytes).filter(|_| header_check(bytes) == u16_at(bytes, 0))
    }
}

/// The checksum of a record's header alone. If only the rest of the record is damaged, a header with the right one
/// still tells which key the record is for and where the next record begins.
fn header_check(bytes: &[u8]) -> u16 {
    crc32c::crc32c_append(crc32c::crc32c(&bytes[2..4]), &bytes[8..RECORD_HEADER_BYTES]) as u16
}

/// Length of a record with this payload, padding included.
pub(crate) fn record_len(payload_len: usize) -> usize {
    (RECORD_HEADER_BYTES.saturating_add(payload_len)).checked_next_multiple_of(ALIGN).unwrap_or(usize::MAX)
}

/// The checksum of a whole record without its place, so that it can be computed before the log's lock is taken.
pub(crate) fn body_crc(record: &[u8]) -> u32 {
    debug_assert!(record.len().is_multiple_of(ALIGN) && record.len() >= RECORD_HEADER_BYTES, "it is whole and padded");
    crc32c::crc32c_append(crc32c::crc32c(&record[..4]), &record[8..])
}

/// Writes the checksum into the record, which goes to `offset` of segment `seq`.
pub(crate) fn finish_record(record: &mut [u8], body_crc: u32, seq: u64, offset: u64) {
    record[4..8].copy_from_slice(&bound(body_crc, seq, offset).to_le_bytes());
}

/// Returns the header of the record at the start of `bytes`; `None` unless the record is whole, intact and at the place
/// to which it was written.
pub(crate) fn check_record(bytes: &[u8], seq: u64, offset: u64) -> Option<RecordHeader> {
    check_record_to_copy(bytes, seq, offset).map(|(header, _)| header)
}

/// Like [`check_record`], but also returns the [`body_crc`], which a copy at another place has too.
pub(crate) fn check_record_to_copy(bytes: &[u8], seq: u64, offset: u64) -> Option<(RecordHeader, u32)> {
    let header = RecordHeader::decode(bytes)?;
    let record = bytes.get(..header.record_len())?;
    let crc = body_crc(record);
    let is_intact = u32_at(record, 4) == bound(crc, seq, offset) || refdb_vfs::planted("caches-22");
    is_intact.then_some((header, crc))
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

    /// Returns a header that contains these bytes and a correct checksum.
    fn with_bytes(header: SegmentHeader, at: usize, part: &[u8]) -> [u8; SEGMENT_HEADER_BYTES] {
        let mut bytes = header.encode();
        bytes[at..at + part.len()].copy_from_slice(part);
        let crc = crc32c::crc32c(&bytes[..60]);
        bytes[60..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Regression, found by the fuzzer: such a header was accepted, and its numbers went into the next header, where
    /// they failed an assertion.
    #[test]
    fn a_segment_header_of_what_cannot_be_is_none() {
        let good = SegmentHeader { seq: 4, floor: 4, before_end: 0, synced: 3, store: 7 };
        assert_eq!(SegmentHeader::decode(&good.encode()), Some(good));
        for (at, number) in [(16, 5u64), (40, 4), (40, u64::MAX), (8, 3)] {
            let bytes = with_bytes(good, at, &number.to_le_bytes());
            assert_eq!(SegmentHeader::decode(&bytes), None, "{number} at {at}");
        }
    }

    /// Regression, found by the fuzzer: such bytes were read as a header, although no header is written like that.
    #[test]
    fn a_segment_header_with_something_in_its_reserved_bytes_is_none() {
        let header = SegmentHeader { seq: 4, floor: 0, before_end: 0, synced: 3, store: 7 };
        assert_eq!(SegmentHeader::decode(&header.encode()).map(|header| header.seq), Some(4));
        for at in 48..60 {
            assert!(SegmentHeader::decode(&with_bytes(header, at, &[1])).is_none());
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
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(check_record(&damaged, 5, 64), None, "bit {bit}");
        }
    }

    #[test]
    fn a_length_no_record_has_is_refused_before_it_is_used() {
        let mut bytes = record(b"key", b"value", 5, 64);
        bytes[24..32].fill(0xff);
        assert_eq!(RecordHeader::decode(&bytes), None);
    }

    #[test]
    fn a_header_comes_back_and_any_flipped_bit_is_seen() {
        let header = SegmentHeader { seq: 9, floor: 4, before_end: 4096, synced: 7, store: 0xfeed };
        let bytes = header.encode();
        assert_eq!(SegmentHeader::decode(&bytes), Some(header));
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(SegmentHeader::decode(&damaged), None, "bit {bit} of the header");
        }
    }
}
