//! The check finds damage that mere reading would not notice, and finds none in sound tables.

#![allow(clippy::unwrap_used, reason = "a test may fail in its helpers too")]

mod common;

use common::*;
use refdb_testkit::exercise::mend_checksum;
use reftable::{Fault, HashKind, ObjectId, Source, WriteOptions};

/// Returns options with blocks so small that a few records need an index.
fn small_blocks() -> WriteOptions {
    WriteOptions::default().block_size(256)
}

fn faults(bytes: &[u8]) -> Vec<(u64, Fault)> {
    let found = reftable::check(Source::Memory(bytes.into()), "table").unwrap();
    found.into_iter().map(|found| (found.offset, found.fault)).collect()
}

/// A table of 60 refs in aligned blocks of 256 bytes, with every kind of index.
fn table() -> Vec<u8> {
    write(small_blocks(), &refs(HashKind::Sha1, 60), &logs(HashKind::Sha1, 30)).0
}

fn find(bytes: &[u8], needle: &[u8]) -> usize {
    bytes.windows(needle.len()).position(|window| window == needle).unwrap()
}

fn position(bytes: &[u8], section: usize) -> usize {
    let at = bytes.len() - 44 + 8 * section;
    u64::from_be_bytes(bytes[at..at + 8].try_into().unwrap()) as usize
}

#[test]
fn sound_tables_of_every_shape_pass() {
    for hash in [HashKind::Sha1, HashKind::Sha256] {
        for (block_size, ref_count, log_count) in
            [(4096, 0, 0), (4096, 3, 3), (4096, 0, 900), (256, 700, 60), (512, 2000, 0), (65_536, 5000, 100)]
        {
            for aligned in [true, false] {
                let options = WriteOptions::new(hash).block_size(block_size).aligned(aligned);
                let bytes = write(options, &refs(hash, ref_count), &logs(hash, log_count)).0;
                assert_eq!(faults(&bytes), [], "{options:?} {ref_count} {log_count}");
            }
        }
    }
}

#[test]
fn something_in_the_padding_is_found() {
    let mut bytes = table();
    let end = usize::from(bytes[26]) << 8 | usize::from(bytes[27]);
    assert_eq!(bytes[end..256], vec![0; 256 - end], "there is no padding");
    bytes[255] = 1;
    assert_eq!(faults(&bytes), [(255, Fault::Padding)]);
}

#[test]
fn names_out_of_order_are_found() {
    let mut bytes = table();
    // The second record stores only the last digit of its name. A slash in its place makes the name sort before the
    // first.
    let first = find(&bytes, b"change-0000000") + b"change-0000000".len();
    let second = first + bytes[first..].iter().position(|byte| *byte == b'1').unwrap();
    bytes[second] = b'/';
    let found = faults(&bytes);
    assert!(found.iter().any(|(offset, fault)| *offset < 256 && *fault == Fault::KeyOrder), "{found:?}");
}

#[test]
fn update_indexes_beyond_the_headers_limit_are_found() {
    let mut bytes = table();
    bytes[23] = 5;
    mend_checksum(&mut bytes);
    let found = faults(&bytes);
    assert!(found.len() > 10 && found.iter().all(|(_, fault)| *fault == Fault::UpdateIndex), "{found:?}");
}

#[test]
fn an_index_entry_with_another_key_is_found() {
    let mut bytes = table();
    let index = position(&bytes, 0);
    let key = index + find(&bytes[index..], b"change-") + 7;
    bytes[key] ^= 1;
    let found = faults(&bytes);
    assert!(found.contains(&(index as u64, Fault::IndexEntry(0))), "{found:?}");
}

#[test]
fn an_object_index_that_leaves_an_object_out_is_found() {
    let mut bytes = table();
    let objects = position(&bytes, 1) >> 5;
    assert_eq!(bytes[objects], b'o');
    // The first record's key becomes another id, to which no ref points.
    bytes[objects + 6] ^= 1;
    let found = faults(&bytes);
    assert!(found.iter().any(|(offset, fault)| *offset == objects as u64 && *fault == Fault::ObjectPositions));
    assert!(found.iter().any(|(_, fault)| matches!(fault, Fault::ObjectMissing(_))), "{found:?}");
}

/// Previously, the object of such a record was reported as missing, too.
#[test]
fn positions_that_do_not_ascend_are_the_only_fault_that_is_found() {
    let mut refs = refs(HashKind::Sha1, 60);
    let mut least = [0; 20];
    least[19] = 1;
    // The first record of the object index has this id and the positions of the first and the last block.
    let value = OwnValue::Direct(ObjectId::from_bytes(HashKind::Sha1, &least).unwrap());
    (refs[0].value, refs[59].value) = (value.clone(), value);
    let mut bytes = write(small_blocks(), &refs, &[]).0;
    let section = position(&bytes, 1);
    let (objects, id_len) = (section >> 5, section & 0x1f);
    let (kind, positions) = (objects + 5, objects + 6 + id_len);
    assert_eq!((usize::from(bytes[kind]), bytes[positions]), (id_len << 3 | 2, 0), "two positions, the first is 0");
    assert!(bytes[positions + 1] >= 0x80 && bytes[positions + 2] < 0x80, "two bytes for the distance");
    // Now there are three positions, all of them 0.
    bytes[kind] += 1;
    bytes[positions + 1..positions + 3].fill(0);
    let found = faults(&bytes);
    assert!(matches!(found.as_slice(), [(_, Fault::PositionOrder)]), "{found:?}");
}

/// Previously, such a record was not found if it listed no blocks, as that of an object with very many refs.
#[test]
fn an_object_to_which_no_ref_points_is_found() {
    let mut refs = refs(HashKind::Sha1, 60);
    let mut id = [0; 20];
    id[1] = 1;
    // The first record of the object index has this id and the position of the first block.
    refs[0].value = OwnValue::Direct(ObjectId::from_bytes(HashKind::Sha1, &id).unwrap());
    let mut bytes = write(small_blocks(), &refs, &[]).0;
    let section = position(&bytes, 1);
    let (objects, id_len) = (section >> 5, section & 0x1f);
    let (kind, id) = (objects + 5, objects + 6);
    assert_eq!((usize::from(bytes[kind]), bytes[id + id_len]), (id_len << 3 | 1, 0), "one position, which is 0");
    let mut unlisted = bytes.clone();
    unlisted[kind] -= 1;
    assert_eq!(faults(&unlisted), [], "the position is now the number of positions");
    for table in [&mut bytes, &mut unlisted] {
        table[id + 1] = 0;
        let missing = Fault::ObjectMissing(1 << 48);
        let expected = [(objects as u64, Fault::ObjectPositions), (objects as u64, missing)];
        assert_eq!(faults(table), expected);
    }
}

#[test]
fn logs_that_the_footer_does_not_tell_of_are_found() {
    let mut bytes = table();
    let logs = position(&bytes, 3);
    let at = bytes.len() - 44 + 24;
    bytes[at..at + 16].fill(0);
    mend_checksum(&mut bytes);
    assert_eq!(faults(&bytes), [(logs as u64, Fault::Unreachable)]);
}

#[test]
fn damage_in_one_block_does_not_hide_damage_in_later_sections() {
    let mut bytes = table();
    bytes[256] = b'x';
    let objects = position(&bytes, 1) >> 5;
    bytes[objects] = b'y';
    let found = faults(&bytes);
    for offset in [256, objects as u64] {
        assert!(found.iter().any(|(at, fault)| *at == offset && matches!(fault, Fault::BlockType(_))), "{found:?}");
    }
}
