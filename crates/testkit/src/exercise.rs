//! Reads arbitrary bytes as reftables and as lists of tables, for fuzz targets and corruption tests, which require that
//! no function of the library panics.

use refdb_types::{HashKind, ObjectId};
use reftable::{Merged, Source, Table, WriteOptions};
use std::sync::Arc;

/// Treats `bytes` as a reftable: opens it, walks it, seeks in it, looks up objects, checks it and dumps it. Errors are
/// expected. Returns how many refs and log records could be read, each kind up to its first error, and whether both
/// kinds were read to their end.
///
/// # Panics
///
/// If the check finds no fault in a table that cannot be read or dumped, or a cursor over refs goes on after an error.
pub fn reftable(bytes: &[u8]) -> (usize, bool) {
    let faults = reftable::check(Source::Memory(bytes.into()), "fuzzed").expect("memory can be read");
    let Ok(table) = Table::open(Source::Memory(bytes.into()), "fuzzed") else {
        assert!(!faults.is_empty(), "a table that cannot be opened passed the check");
        return (0, false);
    };
    let (refs, refs_fine) = walk_refs(&table);
    let (logs, logs_fine) = walk_logs(&table);
    let dumped = reftable::dump(&table, &mut std::io::sink()).is_ok();
    let fine = refs_fine && logs_fine;
    assert!(!faults.is_empty() || fine && dumped, "the check passed what cannot be read");
    seek_and_look_up(&table, &refs);
    (refs.len() + logs, fine)
}

/// Treats `bytes` as the blocks of a reftable, and calls [`reftable()`] with a file that has a valid header and footer
/// around them, so that a fuzzer does not have to guess checksums. The first 12 bytes select the version, whether
/// blocks are aligned, their size, the length of abbreviated ids and the positions of the sections.
pub fn reftable_blocks(bytes: &[u8]) -> (usize, bool) {
    let Some((choices, blocks)) = bytes.split_at_checked(12) else { return (0, false) };
    let hash = if choices[0] & 1 == 0 { HashKind::Sha1 } else { HashKind::Sha256 };
    let aligned = choices[0] & 2 == 0;
    let options = WriteOptions::new(hash).aligned(aligned).block_size(256 << (choices[0] >> 2 & 7));
    let mut empty = Vec::new();
    let writer = reftable::TableWriter::new(options, 1, 9, &mut empty).expect("the options are sound");
    writer.finish().expect("memory can be written");
    let header_len = if hash == HashKind::Sha1 { 24 } else { 28 };
    let (header, footer) = empty.split_at(header_len);
    let mut file = [header, blocks, footer].concat();
    let place = |at: usize| u64::from(u16::from_be_bytes([choices[at], choices[at + 1]]));
    let objects = place(4) << 5 | u64::from(choices[1] & 31);
    let positions = header_len + blocks.len() + header_len;
    for (number, value) in [place(2), objects, place(6), place(8), place(10)].into_iter().enumerate() {
        file[positions + 8 * number..][..8].copy_from_slice(&value.to_be_bytes());
    }
    mend_checksum(&mut file);
    reftable(&file)
}

/// Treats `bytes` as the content of the `tables.list` of a stack. Returns the number of tables that it names, or 0 if
/// it is malformed.
///
/// # Panics
///
/// If a name leads out of the stack's folder.
pub fn tables_list(bytes: &[u8]) -> usize {
    let Ok(names) = reftable::stack::table_names(bytes) else { return 0 };
    for name in &names {
        assert_eq!(name.path_in("stack".as_ref()).parent(), Some("stack".as_ref()), "{name} leads out of the folder");
    }
    names.len()
}

/// Repairs the footer of a reftable after a change: the copy of the header in it, and the checksum.
pub fn mend_checksum(file: &mut [u8]) {
    let (header_len, footer_len) = if file.get(4) == Some(&2) { (28, 72) } else { (24, 68) };
    let Some(footer) = file.len().checked_sub(footer_len).filter(|footer| *footer >= header_len) else { return };
    file.copy_within(..header_len, footer);
    let end = file.len() - 4;
    let checksum = crc32fast::hash(&file[footer..end]);
    file[end..].copy_from_slice(&checksum.to_be_bytes());
}

/// Returns the names in the table up to the first error, and whether there was no error.
fn walk_refs(table: &Arc<Table>) -> (Vec<Vec<u8>>, bool) {
    let (mut cursor, mut names) = (table.refs(), Vec::new());
    loop {
        match cursor.next() {
            Ok(Some(record)) => names.push(record.name.to_vec()),
            Ok(None) => return (names, true),
            Err(_) => {
                assert!(matches!(cursor.next(), Ok(None)), "a cursor goes on after an error");
                return (names, false);
            }
        }
    }
}

fn walk_logs(table: &Arc<Table>) -> (usize, bool) {
    let (mut cursor, mut count) = (table.logs(), 0);
    loop {
        match cursor.next() {
            Ok(Some(_)) => count += 1,
            Ok(None) => return (count, true),
            Err(_) => return (count, false),
        }
    }
}

fn seek_and_look_up(table: &Arc<Table>, names: &[Vec<u8>]) {
    let merged = Merged::new(vec![table.clone(), table.clone()]).expect("a table agrees with itself");
    let (mut refs, mut logs, mut both) = (table.refs(), table.logs(), merged.refs());
    let some = names.iter().step_by(1 + names.len() / 64).map(Vec::as_slice);
    for name in [b"".as_slice(), b"HEAD", b"refs/heads/m", b"\xff\xff"].into_iter().chain(some) {
        let _ = refs.seek(name).and_then(|()| refs.next().map(drop));
        let _ = logs.seek(name).and_then(|()| logs.next().map(drop));
        let _ = logs.seek_log(name, 3).and_then(|()| logs.next().map(drop));
        let _ = both.lookup(name);
        let _ = both.seek(name).and_then(|()| both.next().map(drop));
        let _ = merged.get(name, |_| ());
    }
    while let Ok(Some(_)) = both.next_with_tombstones() {}
    for byte in [0, 0x42, 0xff] {
        let raw = vec![byte; table.hash().len_bytes()];
        let id = ObjectId::from_bytes(table.hash(), &raw).expect("as long as the kind has");
        let _ = merged.refs_pointing_at(&id);
    }
}
