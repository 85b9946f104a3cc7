//! Finds the records of a segment whose footer is missing or damaged.

use crate::format::{
    footer::{ENTRY_BYTES, Entries, Entry, TRAILER_BYTES, Trailer},
    rate::Rate,
    record::{Kind, RECORD_HEADER_BYTES, RecordHeader, SEGMENT_HEADER_BYTES, check_record},
};

/// Maximum number of damaged records that are looked up in a footer, because each look-up reads all of it.
const MOST_LOOKS: u32 = 16;

/// The records of a segment, found one after another.
pub(crate) struct Scanned {
    pub(crate) entries: Entries,
    /// Where the last record ends, or the segment's header if there is no record, in bytes.
    pub(crate) end: u64,
    /// Creation of the youngest intact record, in milliseconds since 1970.
    pub(crate) newest_ms: u64,
    /// Number of damaged records.
    pub(crate) damaged: usize,
}

/// Finds every intact record from the start of a segment's bytes up to the first that is not. With `steps_over`, a
/// damaged record does not end the scan if its header or the footer gives its key's hash and length; a damaged put then
/// counts as a removal of its key, because the value is not known.
pub(crate) fn scan(bytes: &[u8], seq: u64, steps_over: bool) -> Scanned {
    let mut scanned = Scanned { entries: Entries::default(), end: 0, newest_ms: 0, damaged: 0 };
    let (mut at, mut looks) = (SEGMENT_HEADER_BYTES, 0);
    while let Some(rest) = bytes.get(at..) {
        let entry = if let Some(header) = check_record(rest, seq, at as u64) {
            scanned.newest_ms = header.created_ms.max(scanned.newest_ms);
            entry_of(&header, at)
        } else if let Some(entry) = steps_over.then(|| damaged_entry(bytes, at, &mut looks)).flatten() {
            scanned.damaged += 1;
            Entry { kind: if entry.kind == Kind::Dropped { Kind::Dropped } else { Kind::Remove }, ..entry }
        } else {
            break;
        };
        debug_assert!(at + entry.len <= bytes.len(), "a record lies in its file: {entry:?}");
        scanned.entries.push(&entry);
        at += entry.len;
    }
    scanned.end = at as u64;
    scanned
}

/// The marks (tombstones and notes of dropped segments) of a sealed segment whose footer is damaged; none unless the
/// trailer is intact and the scan reaches the end of the records that it names, because records that the scan does not
/// reach may be marks too.
pub(crate) fn marks_without_footer(bytes: &[u8], seq: u64) -> Entries {
    let found = scan(bytes, seq, true);
    let trailer = bytes.last_chunk::<TRAILER_BYTES>().and_then(|end| Trailer::decode_in(end, seq, bytes.len() as u64));
    let mut marks = Entries::default();
    if trailer.is_some_and(|trailer| trailer.records_end == found.end) {
        found.entries.iter().filter(|entry| entry.kind != Kind::Put).for_each(|mark| marks.push(&mark));
    }
    marks
}

fn entry_of(header: &RecordHeader, offset: usize) -> Entry {
    Entry { hash: header.hash, kind: header.kind, offset, len: header.record_len(), rate: Rate::default() }
}

/// Hash and length of a damaged record, from its own header or else from the footer.
fn damaged_entry(bytes: &[u8], at: usize, looks: &mut u32) -> Option<Entry> {
    let by_header = RecordHeader::decode_alone(&bytes[at..]).map(|header| entry_of(&header, at));
    let is_inside = |entry: &Entry| at.checked_add(entry.len).is_some_and(|end| end <= bytes.len());
    by_header.filter(is_inside).or_else(|| {
        *looks += 1;
        (*looks <= MOST_LOOKS).then(|| entry_in_footer(bytes, at)).flatten().filter(is_inside)
    })
}

/// Returns the footer's entry about the record at `at`, whose header is damaged. Because the entry may be damaged as
/// well, it is used only if the header has the same hash, or if the header is intact once its hash is replaced by
/// that of the entry. If the entry's length is wrong, the scan continues at bytes that are no record and stops there,
/// which is not where the records are known to end.
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
