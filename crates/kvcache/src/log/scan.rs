//! The records of a segment that has no footer, or one that is harmed.

use crate::format::{
    footer::{ENTRY_BYTES, Entries, Entry, TRAILER_BYTES},
    rate::Rate,
    record::{Kind, RECORD_HEADER_BYTES, RecordHeader, SEGMENT_HEADER_BYTES, check_record},
};

/// A footer is looked through for this many records at most, since each look goes through all of it.
const MOST_LOOKS: u32 = 16;

/// The records of a segment as they are found one behind the other.
pub(crate) struct Scanned {
    pub(crate) entries: Entries,
    /// Where they end.
    pub(crate) end: u64,
    /// The youngest whole one's age.
    pub(crate) newest_ms: u64,
    /// How many are harmed.
    pub(crate) harmed: usize,
}

/// Every whole record from the start of a segment's bytes. With `steps_over` a harmed record does not end it if its
/// header or the footer tells whose it was. Its key counts as removed, since the record's content is not known.
pub(crate) fn scan(bytes: &[u8], seq: u64, steps_over: bool) -> Scanned {
    let mut scanned = Scanned { entries: Entries::default(), end: 0, newest_ms: 0, harmed: 0 };
    let (mut at, mut looks) = (SEGMENT_HEADER_BYTES, 0);
    while let Some(rest) = bytes.get(at..) {
        let entry = if let Some(header) = check_record(rest, seq, at as u64) {
            scanned.newest_ms = header.created_ms.max(scanned.newest_ms);
            entry_of(&header, at)
        } else if let Some(entry) = steps_over.then(|| harmed_entry(bytes, at, &mut looks)).flatten() {
            scanned.harmed += 1;
            Entry { kind: if entry.kind == Kind::Dropped { Kind::Dropped } else { Kind::Remove }, ..entry }
        } else {
            break;
        };
        debug_assert!(at + entry.len <= bytes.len(), "a record is inside of its file: {entry:?}");
        scanned.entries.push(&entry);
        at += entry.len;
    }
    scanned.end = at as u64;
    scanned
}

/// The entries of a segment that has no footer, as a start would find them.
pub(crate) fn entries_without_footer(bytes: &[u8], seq: u64) -> Entries {
    scan(bytes, seq, true).entries
}

fn entry_of(header: &RecordHeader, offset: usize) -> Entry {
    Entry { hash: header.hash, kind: header.kind, offset, len: header.record_len(), rate: Rate::default() }
}

/// Whose a harmed record was, as its own header tells or else the footer.
fn harmed_entry(bytes: &[u8], at: usize, looks: &mut u32) -> Option<Entry> {
    let by_header = RecordHeader::decode_alone(&bytes[at..]).map(|header| entry_of(&header, at));
    let is_inside = |entry: &Entry| at.checked_add(entry.len).is_some_and(|end| end <= bytes.len());
    by_header.filter(is_inside).or_else(|| {
        *looks += 1;
        (*looks <= MOST_LOOKS).then(|| entry_in_footer(bytes, at)).flatten().filter(is_inside)
    })
}

/// What a footer says of the record at `at`, whose header is harmed. The footer may be harmed as well, be it this very
/// entry. So header and entry must agree on the hash, or the header must be whole with the entry's hash. A wrong length leads
/// to no record, and not to the end.
fn entry_in_footer(bytes: &[u8], at: usize) -> Option<Entry> {
    let header = bytes.get(at..)?.first_chunk::<RECORD_HEADER_BYTES>()?;
    let is_of_it = |entry: &Entry| {
        let mut mended = *header;
        mended[8..16].copy_from_slice(&entry.hash.to_le_bytes());
        mended == *header || RecordHeader::decode_alone(&mended).is_some()
    };
    let footer = bytes.get(at..bytes.len().checked_sub(TRAILER_BYTES)?)?.as_chunks::<ENTRY_BYTES>().0;
    let mut of_place = footer.iter().rev().filter_map(Entry::decode).filter(|entry| entry.offset == at);
    of_place.find(is_of_it)
}
