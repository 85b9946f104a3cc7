//! Entry points of the fuzzers: the parsers of segment files and of the saved index on arbitrary bytes.

use crate::{
    format::{
        footer::{ENTRY_BYTES, Entries, TRAILER_BYTES, encode_footer},
        record::{RECORD_HEADER_BYTES, SegmentHeader, check_record},
        saved::Contents,
    },
    log::{
        recover::footer_from,
        scan::{Scanned, scan},
    },
};

/// Reads `bytes` as a segment file, by its footer and by its records.
///
/// # Panics
///
/// If a result contradicts the bytes or another result, for example because it lies outside the file.
pub fn segment(bytes: &[u8]) {
    let seq = SegmentHeader::decode(bytes).map_or(1, |header| {
        assert_eq!(header.encode(), bytes[..header.encode().len()]);
        header.seq
    });
    let Scanned { entries, end, newest_ms, .. } = scan(bytes, seq, false);
    assert!(end <= bytes.len().max(64) as u64);
    let stepped = scan(bytes, seq, true);
    assert!(stepped.end >= end && stepped.end <= bytes.len().max(64) as u64 && stepped.entries.len() >= entries.len());
    for entry in entries.iter() {
        let record = &bytes[entry.offset..entry.offset + entry.len];
        let header = check_record(record, seq, entry.offset as u64).expect("the scan found it");
        assert!(header.record_len() == entry.len && header.created_ms <= newest_ms && header.hash == entry.hash);
        assert!(header.payload_len() <= entry.len);
    }
    let read = footer_from(bytes.len() as u64, seq, |into, offset| {
        into.copy_from_slice(&bytes[offset as usize..][..into.len()]);
        Ok(())
    });
    if let Ok(Some((trailer, entries))) = read {
        assert!(entries.iter().all(|entry| entry.offset + entry.len <= bytes.len()));
        assert!(entries.iter().collect::<Entries>() == entries, "every bit of an entry means something");
        let footer = encode_footer(seq, trailer.records_end, trailer.newest_ms, &entries);
        assert_eq!(footer.len(), entries.len() * ENTRY_BYTES + TRAILER_BYTES);
    }
}

fn contents_of(bytes: &[u8]) -> Option<Contents> {
    Contents::decode(bytes.len() as u64, |into, at| {
        into.copy_from_slice(bytes.get(at as usize..)?.get(..into.len())?);
        Some(())
    })
}

/// Reads `bytes` as a saved index.
///
/// # Panics
///
/// If an entry lies outside its segment, or if the beginning would be written differently from how it was read.
pub fn index(bytes: &[u8]) {
    let Some(contents) = contents_of(bytes) else { return };
    assert_eq!(contents.encode(), bytes[..contents.offset_of(0) as usize]);
    let ends: Vec<u64> = contents.segments.iter().map(|listed| listed.content.file_bytes).collect();
    for (shard, part) in contents.shards.iter().enumerate() {
        let start = contents.offset_of(shard) as usize;
        let Some(checked) = part.check(&bytes[start..start + part.len()]) else { continue };
        for (low, place) in checked.entries(&ends).flatten() {
            assert!(low < 1 << 48 && place.len() >= RECORD_HEADER_BYTES);
            assert!((place.offset() + place.len()) as u64 <= ends[usize::from(place.slot())]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_of_a_saved_index_is_of_this_format() {
        let seed = include_bytes!("../../../fuzz/seeds/kvcache_index/two_entries");
        let entries = |contents: Contents| contents.shards.iter().map(|part| part.entries).sum::<u32>();
        assert_eq!(contents_of(seed).map(entries), Some(2));
        index(seed);
    }

    /// With seeds of another format, the fuzzer would begin with bytes that the first check refuses.
    #[test]
    fn seeds_are_of_this_format() {
        let sealed = include_bytes!("../../../fuzz/seeds/kvcache_segment/sealed");
        let torn = include_bytes!("../../../fuzz/seeds/kvcache_segment/torn");
        for (seed, records) in [(&sealed[..], 3), (torn, 2)] {
            assert!(SegmentHeader::decode(seed).is_some());
            assert_eq!(scan(seed, 1, false).entries.len(), records);
            segment(seed);
        }
    }
}
