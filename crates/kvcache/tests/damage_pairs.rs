//! Damage to two bits at once: one in a footer, one in a record.

use refdb_kvcache::{Cache, Options, Put};
use refdb_testkit::rounds;
use refdb_vfs::Fs;
use std::{ops::Range, path::Path};

const KEYS: u32 = 12;
const RECORD_HEADER_BYTES: usize = 32;
const SEGMENT_HEADER_BYTES: usize = 64;
const ENTRY_BYTES: usize = 16;

/// Leaves one segment, in which a third of the keys has a newer value and another third was removed.
fn filled(dir: &Path) {
    let cache = Cache::open_idle(Fs::real(), dir, Options::new(1 << 20)).expect("it opens");
    let put = |i: u32, byte| assert_eq!(cache.put(&i.to_le_bytes(), &[byte; 500]).expect("it works"), Put::Stored);
    (0..KEYS).for_each(|i| put(i, b'o'));
    (0..KEYS).filter(|i| i % 3 == 0).for_each(|i| put(i, b'n'));
    for i in (0..KEYS).filter(|i| i % 3 == 1) {
        assert!(cache.remove(&i.to_le_bytes()).expect("it works"));
    }
    cache.close().expect("it closes");
}

/// Returns how many keys have a value. Each must have its last value or none.
fn good(cache: &Cache, what: &str) -> usize {
    let is_there = |i: &u32| {
        let found = cache.get(&i.to_le_bytes()).map(|found| found.value);
        let last = [Some(b'n'), None, Some(b'o')][(*i % 3) as usize].map(|byte| vec![byte; 500]);
        assert!(found.is_none() || found == last, "{what}: {i} has another value than its last");
        found.is_some()
    };
    (0..KEYS).filter(is_there).count()
}

/// Returns the ranges of the segment's records.
fn records(bytes: &[u8]) -> Vec<Range<usize>> {
    let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes")) as usize;
    let (mut at, mut records) = (SEGMENT_HEADER_BYTES, Vec::new());
    while (1..=2).contains(&bytes[at + 2]) && records.len() < 20 {
        let len = (RECORD_HEADER_BYTES + number(at + 24) + number(at + 28)).next_multiple_of(16);
        records.push(at..at + len);
        at += len;
    }
    records
}

/// Damage beside a damaged footer costs only the record that is damaged, because its header or its entry in the footer
/// tells its key. If both are damaged, the cache may start empty, and then says so, because an older value of that key
/// may be in any segment.
#[test]
fn a_damaged_footer_beside_a_damaged_record_costs_that_record() {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path());
    let path = dir.path().join("0000000000000001.seg");
    let before = std::fs::read(&path).unwrap();
    let records = records(&before);
    assert_eq!(records.len(), 20, "16 puts and 4 removals");
    let footer_at = records.last().unwrap().end;
    let (mut payloads, mut headers, mut empty) = (0, 0, 0);
    let footer_bits = footer_at * 8..before.len() * 8;
    for footer_bit in footer_bits.clone().step_by(footer_bits.len() / rounds(5, 24)) {
        for (at, record) in records.iter().enumerate() {
            for bit in (record.start * 8..record.end * 8).step_by(if at < 16 { 97 } else { 31 }) {
                let mut bytes = before.clone();
                for bit in [footer_bit, bit] {
                    bytes[bit / 8] ^= 1 << (bit % 8);
                }
                std::fs::write(&path, &bytes).unwrap();
                let what = format!("bit {footer_bit} of the footer, bit {bit} of record {at}");
                let cache = Cache::open_read_only(dir.path(), None).unwrap();
                let found = good(&cache, &what);
                let is_header = bit / 8 < record.start + RECORD_HEADER_BYTES;
                let is_its_entry = (footer_bit / 8 - footer_at) / ENTRY_BYTES == at;
                let may_be_empty = is_header && is_its_entry && !cache.notices().is_empty();
                assert!(found >= 7 || (found == 0 && may_be_empty), "{what}: {found} of 8");
                payloads += u32::from(!is_header);
                headers += u32::from(is_header);
                empty += u32::from(found == 0);
            }
        }
    }
    println!("{payloads} pairs with a payload, {headers} with a header; {empty} start empty");
    assert!(payloads > 500 && headers > 50 && empty * 4 < headers, "{payloads}, {headers}, {empty}");
}
