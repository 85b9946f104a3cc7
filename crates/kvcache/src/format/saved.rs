//! The saved index: the places of all entries as they were when the cache was closed, so that opening the cache need
//! not read every footer.
//!
//! ```text
//! segment header 64 | head 64 | segment 32 ... | shard 8 ... | entry 14 ...
//! ```
//!
//! A saved index depends on nothing but the segments that it names. It is right if the folder has exactly these, and
//! worthless otherwise.

use crate::format::{
    footer::TRAILER_BYTES,
    place::{MAX_SEGMENTS, Place},
    record::{RECORD_HEADER_BYTES, SEGMENT_HEADER_BYTES, SegmentHeader, u32_at, u64_at},
};

const MAGIC: [u8; 8] = *b"refdbkvI";
const VERSION: u32 = 1;
const HEAD_BYTES: usize = 64;
/// Number of bytes before the list of segments.
const LIST_AT: usize = SEGMENT_HEADER_BYTES + HEAD_BYTES;
const SEGMENT_BYTES: usize = 32;
const SHARD_BYTES: usize = 8;
/// More shards than any version of the index has had.
const MAX_SHARDS: usize = 1 << 12;
/// Length of an entry, in bytes.
pub(crate) const ENTRY_BYTES: usize = 14;

/// What identifies the content of a sealed segment: its number, its length, and the checksums of its header and of its
/// trailer, which contains the checksum of the footer's entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Content {
    pub(crate) seq: u64,
    pub(crate) file_bytes: u64,
    pub(crate) header_crc: u32,
    pub(crate) trailer_crc: u32,
}

impl Content {
    pub(crate) fn new(
        seq: u64,
        file_bytes: u64,
        header: &[u8; SEGMENT_HEADER_BYTES],
        trailer: &[u8; TRAILER_BYTES],
    ) -> Self {
        Content { seq, file_bytes, header_crc: u32_at(header, 60), trailer_crc: u32_at(trailer, 60) }
    }
}

/// A segment in the list, with the bytes that its marks (tombstones, for example) take, so that the entries of its
/// footer need not be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Listed {
    pub(crate) content: Content,
    pub(crate) mark_bytes: u64,
}

/// The number of a shard's entries, and the checksum of their bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Part {
    pub(crate) entries: u32,
    pub(crate) crc: u32,
}

/// Everything before the entries.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Contents {
    /// Identity of the cache.
    pub(crate) store: u64,
    /// The segments in the order of the log; the slot in an entry's place is a position in this list.
    pub(crate) segments: Vec<Listed>,
    pub(crate) shards: Vec<Part>,
}

/// Length of the file before the entries.
pub(crate) fn contents_len(segments: usize, shards: usize) -> u64 {
    (LIST_AT + segments * SEGMENT_BYTES + shards * SHARD_BYTES) as u64
}

impl Contents {
    /// The bytes before the entries. They begin with the header of a segment of another cache, because a program that
    /// does not know this file then deletes it when it opens the cache for writing, and ignores it otherwise.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = self.disguise().encode().to_vec();
        bytes.resize(LIST_AT, 0);
        for Listed { content, mark_bytes } in &self.segments {
            bytes.extend_from_slice(&content.seq.to_le_bytes());
            bytes.extend_from_slice(&content.file_bytes.to_le_bytes());
            bytes.extend_from_slice(&mark_bytes.to_le_bytes());
            bytes.extend_from_slice(&content.header_crc.to_le_bytes());
            bytes.extend_from_slice(&content.trailer_crc.to_le_bytes());
        }
        for part in &self.shards {
            bytes.extend_from_slice(&part.entries.to_le_bytes());
            bytes.extend_from_slice(&part.crc.to_le_bytes());
        }
        let lists_crc = crc32c::crc32c(&bytes[LIST_AT..]);
        let head = &mut bytes[SEGMENT_HEADER_BYTES..LIST_AT];
        head[..8].copy_from_slice(&MAGIC);
        head[8..12].copy_from_slice(&VERSION.to_le_bytes());
        head[12..16].copy_from_slice(&(self.segments.len() as u32).to_le_bytes());
        head[16..20].copy_from_slice(&(self.shards.len() as u32).to_le_bytes());
        head[20..24].copy_from_slice(&lists_crc.to_le_bytes());
        head[24..32].copy_from_slice(&self.store.to_le_bytes());
        let crc = crc32c::crc32c(&head[..60]);
        head[60..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Decodes the beginning of a file of this length, of which `read_at` fills a buffer from an offset; `None` if it
    /// cannot be read, is damaged, is of another version, or does not describe exactly this length.
    pub(crate) fn decode(file_bytes: u64, mut read_at: impl FnMut(&mut [u8], u64) -> Option<()>) -> Option<Self> {
        if file_bytes < LIST_AT as u64 {
            return None;
        }
        let (mut disguise, mut head) = ([0; SEGMENT_HEADER_BYTES], [0; HEAD_BYTES]);
        read_at(&mut disguise, 0)?;
        read_at(&mut head, SEGMENT_HEADER_BYTES as u64)?;
        let ok = head[..8] == MAGIC && u32_at(&head, 60) == crc32c::crc32c(&head[..60]);
        if !ok || u32_at(&head, 8) != VERSION || head[32..60].iter().any(|byte| *byte != 0) {
            return None;
        }
        let (segments, shards) = (u32_at(&head, 12) as usize, u32_at(&head, 16) as usize);
        // The lists are bounded, so that wrong numbers cause no large allocation, even if the file is sparse.
        if segments > MAX_SEGMENTS || shards > MAX_SHARDS || contents_len(segments, shards) > file_bytes {
            return None;
        }
        let mut lists = vec![0; segments * SEGMENT_BYTES + shards * SHARD_BYTES];
        read_at(&mut lists, LIST_AT as u64)?;
        if crc32c::crc32c(&lists) != u32_at(&head, 20) {
            return None;
        }
        let (segments, shards) = lists.split_at(segments * SEGMENT_BYTES);
        let segments = segments.as_chunks::<SEGMENT_BYTES>().0.iter().map(|bytes| Listed {
            content: Content {
                seq: u64_at(bytes, 0),
                file_bytes: u64_at(bytes, 8),
                header_crc: u32_at(bytes, 24),
                trailer_crc: u32_at(bytes, 28),
            },
            mark_bytes: u64_at(bytes, 16),
        });
        let shards = shards.as_chunks::<SHARD_BYTES>().0.iter();
        let shards = shards.map(|bytes| Part { entries: u32_at(bytes, 0), crc: u32_at(bytes, 4) });
        let contents = Contents { store: u64_at(&head, 24), segments: segments.collect(), shards: shards.collect() };
        (contents.file_len() == file_bytes && contents.disguise().encode() == disguise).then_some(contents)
    }

    fn disguise(&self) -> SegmentHeader {
        SegmentHeader { seq: 1, floor: 0, before_end: 0, synced: 0, store: !self.store }
    }

    /// Length of the whole file.
    pub(crate) fn file_len(&self) -> u64 {
        self.offset_of(self.shards.len())
    }

    /// Where the entries of a shard begin.
    pub(crate) fn offset_of(&self, shard: usize) -> u64 {
        let before: u64 = self.shards[..shard].iter().map(|part| u64::from(part.entries)).sum();
        contents_len(self.segments.len(), self.shards.len()) + before * ENTRY_BYTES as u64
    }
}

/// Appends an entry: the low 48 bits of its hash, and its place without the use count. The slot of the place must be
/// the position of the segment in the list.
pub(crate) fn push(bytes: &mut Vec<u8>, hash: u64, place: Place) {
    bytes.extend_from_slice(&hash.to_le_bytes()[..6]);
    bytes.extend_from_slice(&place.with_uses(0).word().to_le_bytes());
}

/// The bytes of a shard's entries, checked against their number and checksum.
pub(crate) struct Checked<'a>(&'a [[u8; ENTRY_BYTES]]);

impl Part {
    pub(crate) fn of(bytes: &[u8]) -> Self {
        debug_assert!(bytes.len().is_multiple_of(ENTRY_BYTES), "only whole entries are written");
        Part { entries: (bytes.len() / ENTRY_BYTES) as u32, crc: crc32c::crc32c(bytes) }
    }

    /// Length of the entries in bytes.
    pub(crate) fn len(&self) -> usize {
        self.entries as usize * ENTRY_BYTES
    }

    pub(crate) fn check<'a>(&self, bytes: &'a [u8]) -> Option<Checked<'a>> {
        (bytes.len() == self.len() && crc32c::crc32c(bytes) == self.crc).then_some(Checked(bytes.as_chunks().0))
    }
}

impl Checked<'_> {
    /// Returns the low 48 bits of the hash, and the place, of each entry; `None` for an entry with a hash that the
    /// index never has, with a use count, or with a place outside the records of a segment in the list. `records_end`
    /// has, in the order of the list, the offset at which the records of each segment end.
    pub(crate) fn entries(&self, records_end: &[u64]) -> impl Iterator<Item = Option<(u64, Place)>> {
        self.0.iter().map(move |bytes| {
            let hash = u64::from(u32_at(bytes, 0)) | (u64::from(u32_at(bytes, 2)) >> 16) << 32;
            let place = Place::from_word(u64_at(bytes, 6))?;
            let end = *records_end.get(usize::from(place.slot()))?;
            let is_inside = place.offset() >= SEGMENT_HEADER_BYTES
                && place.len() >= RECORD_HEADER_BYTES
                && (place.offset() + place.len()) as u64 <= end;
            (is_inside && place.uses() == 0 && hash as u32 != 0).then_some((hash, place))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> (Contents, Vec<u8>) {
        let content = |seq| Content { seq, file_bytes: 500 + seq, header_crc: 7, trailer_crc: 8 };
        let segments =
            vec![Listed { content: content(3), mark_bytes: 0 }, Listed { content: content(5), mark_bytes: 48 }];
        let (mut first, mut second) = (Vec::new(), Vec::new());
        push(&mut first, 0xaa01_0203_0405_0607, Place::new(0, 64, 48).with_uses(2));
        push(&mut first, 0xaa00_0000_0000_0001, Place::new(1, 112, 32));
        push(&mut second, 0xbb00_ffff_ffff_ffff, Place::new(1, 64, 48));
        let contents = Contents { store: 9, segments, shards: vec![Part::of(&first), Part::of(&second)] };
        let bytes = [contents.encode(), first, second].concat();
        (contents, bytes)
    }

    fn decode(bytes: &[u8]) -> Option<Contents> {
        Contents::decode(bytes.len() as u64, |into, at| {
            into.copy_from_slice(bytes.get(at as usize..)?.get(..into.len())?);
            Some(())
        })
    }

    fn entries(contents: &Contents, bytes: &[u8], shard: usize, ends: &[u64]) -> Option<Vec<(u64, Place)>> {
        let start = contents.offset_of(shard) as usize;
        let part = &contents.shards[shard];
        part.check(&bytes[start..start + part.len()])?.entries(ends).collect()
    }

    #[test]
    fn a_saved_index_comes_back_without_use_counts() {
        let (contents, bytes) = file();
        assert_eq!((decode(&bytes), contents.file_len()), (Some(contents.clone()), bytes.len() as u64));
        let first = [(0x0203_0405_0607, Place::new(0, 64, 48)), (1, Place::new(1, 112, 32))];
        assert_eq!(entries(&contents, &bytes, 0, &[112, 144]).unwrap(), first);
        assert_eq!(entries(&contents, &bytes, 1, &[112, 144]).unwrap(), [(0xffff_ffff_ffff, Place::new(1, 64, 48))]);
    }

    /// Programs from before the saved index delete segments of other caches, which they recognize by the header of the
    /// file alone.
    #[test]
    fn it_looks_like_a_segment_of_another_cache_than_any_with_its_name() {
        let (contents, bytes) = file();
        let header = SegmentHeader::decode(&bytes).unwrap();
        assert!(header.seq != 0 && header.store != contents.store, "{header:?}");
    }

    #[test]
    fn any_flipped_bit_and_any_other_length_is_seen() {
        let (contents, bytes) = file();
        let is_whole = |bytes: &[u8]| {
            decode(bytes).is_some_and(|found| {
                found == contents && (0..2).all(|shard| entries(&found, bytes, shard, &[112, 144]).is_some())
            })
        };
        assert!(is_whole(&bytes));
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(!is_whole(&damaged), "bit {bit}");
        }
        assert!((0..bytes.len()).all(|len| !is_whole(&bytes[..len])));
        assert!(!is_whole(&[bytes, vec![0]].concat()));
    }

    #[test]
    fn an_entry_outside_the_records_is_refused() {
        let (contents, bytes) = file();
        for ends in [&[111, 144][..], &[112, 143], &[112], &[]] {
            assert_eq!(entries(&contents, &bytes, 0, ends), None, "{ends:?}");
        }
        let refused = |low: u64, place: Place| {
            let mut bytes = low.to_le_bytes()[..6].to_vec();
            bytes.extend_from_slice(&place.word().to_le_bytes());
            Part::of(&bytes).check(&bytes).unwrap().entries(&[1 << 20]).any(|entry| entry.is_none())
        };
        assert!(!refused(1, Place::new(0, 64, 32)));
        assert!(refused(1, Place::new(0, 48, 32)), "in the header");
        assert!(refused(1, Place::new(0, 64, 16)), "shorter than a record's header");
        assert!(refused(1, Place::new(0, 64, 32).with_uses(1)), "with a use count");
        assert!(refused(1 << 32, Place::new(0, 64, 32)), "a hash that no entry has");
    }
}
