//! A single table: written records are read, by walking and by look-up, from memory and block by block.

#![allow(clippy::unwrap_used, reason = "a test may fail in its helpers too")]

mod common;

use common::*;
use refdb_vfs::Fs;
use reftable::{BlockCache, Error, HashKind, PagedFile, Source, Table, WriteOptions};
use std::sync::Arc;

/// Returns every shape of table: without an index, with one level, and with several; with both hashes; aligned or not.
fn shapes() -> Vec<(WriteOptions, u64, u64)> {
    let mut shapes = Vec::new();
    for hash in [HashKind::Sha1, HashKind::Sha256] {
        for aligned in [true, false] {
            for (block_size, refs, logs) in [
                (4096, 0, 0),
                (4096, 1, 0),
                (4096, 0, 1),
                (4096, 1, 1),
                (4096, 150, 40),
                (4096, 1000, 1000),
                (4096, 0, 1000),
                (512, 600, 100),
                (256, 900, 100),
                (65_536, 4000, 2000),
            ] {
                for restart_interval in [1, 16] {
                    let options = WriteOptions::new(hash)
                        .block_size(block_size)
                        .aligned(aligned)
                        .restart_interval(restart_interval);
                    shapes.push((options, refs, logs));
                }
            }
        }
    }
    shapes
}

#[test]
fn what_is_written_is_walked_in_order() {
    for (options, ref_count, log_count) in shapes() {
        let (refs, logs) = (refs(options.hash, ref_count), logs(options.hash, log_count));
        let (bytes, summary) = write(options, &refs, &logs);
        assert_eq!((summary.refs, summary.logs), (ref_count, log_count));
        let table = open(&bytes).unwrap();
        assert_eq!((table.hash(), table.min_update_index(), table.max_update_index()), (options.hash, 1, 7));
        assert!(all_refs(&table).unwrap() == refs, "{options:?} {ref_count} refs");
        assert!(all_logs(&table).unwrap() == logs, "{options:?} {log_count} logs");
    }
}

#[test]
fn every_name_is_found_and_what_lies_between_leads_to_the_next() {
    for (options, ref_count, log_count) in shapes() {
        let (refs, logs) = (refs(options.hash, ref_count), logs(options.hash, log_count));
        let table = open(&write(options, &refs, &logs).0).unwrap();
        // One cursor moves forward, one moves backward, and a new one is used each time.
        let (mut forward, mut backward) = (table.refs(), table.refs());
        for (at, record) in refs.iter().enumerate() {
            let mirrored = &refs[refs.len() - 1 - at];
            let mut between = record.name.clone();
            between.push(b'!');
            for (name, expected) in [(&record.name, Some(record)), (&between, refs.get(at + 1))] {
                forward.seek(name).unwrap();
                assert_eq!(forward.next().unwrap().map(OwnRef::of).as_ref(), expected, "{options:?} forward to {name}");
                let mut fresh = table.refs();
                fresh.seek(name).unwrap();
                assert_eq!(fresh.next().unwrap().map(OwnRef::of).as_ref(), expected, "{options:?} {name}");
                assert_eq!(
                    fresh.next().unwrap().map(OwnRef::of).as_ref(),
                    expected.and(refs.get(at + 1 + usize::from(expected != Some(record))))
                );
            }
            backward.seek(&mirrored.name).unwrap();
            assert_eq!(backward.next().unwrap().map(OwnRef::of).as_ref(), Some(mirrored), "{options:?} backward");
        }
        let mut entries = table.logs();
        for (at, record) in logs.iter().enumerate() {
            entries.seek_log(&record.name, record.update_index).unwrap();
            assert_eq!(entries.next().unwrap().map(OwnLog::of).as_ref(), Some(record), "{options:?} log");
            assert_eq!(entries.next().unwrap().map(OwnLog::of).as_ref(), logs.get(at + 1), "{options:?} log");
        }
        if let Some(newest) = logs.get(3) {
            entries.seek(&newest.name).unwrap();
            assert_eq!(
                entries.next().unwrap().map(OwnLog::of).as_ref(),
                Some(newest),
                "{options:?} backward in the log"
            );
        }
    }
}

#[test]
fn seeks_in_any_order_agree_with_a_sorted_list() {
    let options = WriteOptions::default().block_size(512);
    let all = refs(HashKind::Sha1, 2000);
    let table = open(&write(options, &all, &[]).0).unwrap();
    let mut cursor = table.refs();
    let mut random = 1u64;
    for _ in 0..20_000 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let at = (random >> 40) as usize % all.len();
        let mut name = all[at].name.clone();
        match random >> 33 & 3 {
            0 => name.push(b'0'),
            1 => name[15] = b'0' + (random >> 50 & 15) as u8,
            2 => name.truncate(20),
            _ => {}
        }
        if random >> 37 & 1 == 0 {
            let expected = all.iter().find(|record| record.name >= name);
            cursor.seek(&name).unwrap();
            assert_eq!(cursor.next().unwrap().map(OwnRef::of).as_ref(), expected, "{name}");
        } else {
            cursor.next().unwrap();
        }
    }
}

#[test]
fn a_table_read_block_by_block_is_the_same() {
    let dir = tempfile::tempdir().unwrap();
    // A cache too small for one block, and one large enough for all.
    for capacity in [0, 1 << 24] {
        let cache = BlockCache::new(capacity);
        for (options, ref_count, log_count) in shapes() {
            let (refs, logs) = (refs(options.hash, ref_count), logs(options.hash, log_count));
            let path = dir.path().join("table");
            std::fs::write(&path, write(options, &refs, &logs).0).unwrap();
            let file = PagedFile::new(Fs::real().open(&path).unwrap(), cache.clone()).unwrap();
            let table = Table::open(Source::Paged(file), "table").unwrap();
            assert!(all_refs(&table).unwrap() == refs && all_logs(&table).unwrap() == logs, "{options:?}");
            for record in refs.iter().step_by(97) {
                let mut cursor = table.refs();
                cursor.seek(&record.name).unwrap();
                assert_eq!(cursor.next().unwrap().map(OwnRef::of).as_ref(), Some(record), "{options:?}");
            }
            for record in logs.iter().step_by(97) {
                let mut cursor = table.logs();
                cursor.seek_log(&record.name, record.update_index).unwrap();
                assert_eq!(cursor.next().unwrap().map(OwnLog::of).as_ref(), Some(record), "{options:?}");
            }
        }
    }
}

#[test]
fn refs_are_found_by_the_object_they_point_at() {
    for (options, ref_count, _) in shapes() {
        for index_objects in [true, false] {
            let refs = refs(options.hash, ref_count);
            let table = open(&write(options.index_objects(index_objects), &refs, &[]).0).unwrap();
            let pointing = |wanted| {
                let points = |value: &OwnValue| match value {
                    OwnValue::Direct(id) => *id == wanted,
                    OwnValue::Peeled(target, peeled) => *target == wanted || *peeled == wanted,
                    OwnValue::Deletion | OwnValue::Symbolic(_) => false,
                };
                refs.iter().filter(|record| points(&record.value)).map(|record| record.name.clone()).collect::<Vec<_>>()
            };
            // Object 42 is in most blocks, 5 and 1000005 are a tag and its target, and 3 is nowhere.
            for seed in [42, 5, 1_000_005, 0, 3, 2_000_000] {
                let found = table.refs_pointing_at(&id(options.hash, seed)).unwrap();
                let names: Vec<_> = found.into_iter().map(|found| found.name).collect();
                assert_eq!(names, pointing(id(options.hash, seed)), "{options:?}, {ref_count} refs, {seed}");
            }
        }
    }
}

#[test]
fn an_object_in_too_many_blocks_is_found_by_scanning() {
    // Each block holds few refs, so that the positions of all blocks do not fit in an object block.
    let options = WriteOptions::default().block_size(256);
    let everywhere = id(HashKind::Sha1, 1);
    let all: Vec<OwnRef> = (0..4000u64)
        .map(|at| OwnRef {
            name: format!("refs/heads/{at:05}").into(),
            update_index: 1,
            value: OwnValue::Direct(if at % 3 == 0 { everywhere } else { id(HashKind::Sha1, 10 + at) }),
        })
        .collect();
    let table = open(&write(options, &all, &[]).0).unwrap();
    assert_eq!(table.refs_pointing_at(&everywhere).unwrap().len(), all.len().div_ceil(3));
    assert_eq!(table.refs_pointing_at(&id(HashKind::Sha1, 14)).unwrap()[0].name, all[4].name);
}

/// Previously, a block was read for each further place of the object.
#[test]
fn no_block_is_read_once_too_many_refs_of_an_object_are_found() {
    let options = WriteOptions::default().block_size(256);
    let wanted = id(HashKind::Sha1, 1);
    let all: Vec<OwnRef> = (0..100u64)
        .map(|at| OwnRef {
            name: format!("refs/heads/{at:05}").into(),
            update_index: 1,
            value: OwnValue::Direct(if at < 2 || at == 50 { wanted } else { id(HashKind::Sha1, 10 + at) }),
        })
        .collect();
    let (mut bytes, _) = write(options, &all, &[]);
    let table = open(&bytes).unwrap();
    assert_eq!(table.few_refs_pointing_at(&wanted, 3).unwrap().unwrap().len(), 3);
    for block in bytes[256..].chunks_mut(256).take_while(|block| block[0] == b'r') {
        block[0] = b'?';
    }
    let table = open(&bytes).unwrap();
    assert!(table.few_refs_pointing_at(&wanted, 2).is_err(), "the third ref is in a block that is broken");
    assert_eq!(table.few_refs_pointing_at(&wanted, 1).unwrap(), None);
}

#[test]
fn what_cannot_be_stored_is_refused_and_the_table_goes_on() {
    let own =
        |name: &str| OwnRef { name: name.into(), update_index: 1, value: OwnValue::Direct(id(HashKind::Sha1, 1)) };
    let mut bytes = Vec::new();
    let mut writer = reftable::TableWriter::new(WriteOptions::default(), 1, 7, &mut bytes).unwrap();
    writer.add_ref(&own("refs/heads/b").record()).unwrap();
    for bad in ["refs/heads/b", "refs/heads/a", "refs/heads"] {
        assert!(matches!(writer.add_ref(&own(bad).record()), Err(Error::Order { .. })), "{bad}");
    }
    assert!(matches!(writer.add_ref(&own("").record()), Err(Error::Unstorable { .. })));
    assert!(matches!(writer.add_ref(&own("refs/heads/c\0").record()), Err(Error::Unstorable { .. })));
    let late = OwnRef { update_index: 8, ..own("refs/heads/c") };
    assert!(matches!(writer.add_ref(&late.record()), Err(Error::Limits { update_index: 8, .. })));
    let foreign = OwnRef { value: OwnValue::Direct(id(HashKind::Sha256, 1)), ..own("refs/heads/c") };
    assert!(matches!(writer.add_ref(&foreign.record()), Err(Error::Unstorable { .. })));
    let long = OwnRef { name: [b"refs/heads/c", &[b'c'; 4096][..]].concat().into(), ..own("") };
    assert!(matches!(writer.add_ref(&long.record()), Err(Error::TooLarge { block_size: 4096, .. })));
    writer.add_ref(&own("refs/heads/d").record()).unwrap();
    writer.add_log(&logs(HashKind::Sha1, 1)[0].record()).unwrap();
    assert!(matches!(writer.add_ref(&own("refs/heads/e").record()), Err(Error::Order { .. })));
    writer.finish().unwrap();
    let table = open(&bytes).unwrap();
    assert_eq!(all_refs(&table).unwrap(), [own("refs/heads/b"), own("refs/heads/d")]);
    assert_eq!(all_logs(&table).unwrap().len(), 1);
    for block_size in [0, 1 << 24] {
        let options = WriteOptions::default().block_size(block_size);
        assert!(matches!(try_write(options, &[], &[]), Err(Error::BlockSize(_))));
    }
}

#[test]
fn a_log_message_longer_than_a_block_has_a_block_of_its_own() {
    let mut entries = logs(HashKind::Sha1, 5);
    let message: Vec<u8> = (0..100_000u32).map(|at| b'a' + (at.wrapping_mul(2_654_435_761) >> 28) as u8).collect();
    entries[2].entry.as_mut().unwrap().6 = message.into();
    for aligned in [true, false] {
        let options = WriteOptions::default().aligned(aligned);
        let table = open(&write(options, &refs(HashKind::Sha1, 3), &entries).0).unwrap();
        assert_eq!(all_logs(&table).unwrap(), entries);
    }
}

#[test]
fn names_too_long_for_an_index_are_found_without_one() {
    let all: Vec<OwnRef> = (0..200u8)
        .map(|at| OwnRef {
            name: [&[b'a' + at / 20, b'a' + at % 20][..], &[b'x'; 3900][..]].concat().into(),
            update_index: 1,
            value: OwnValue::Deletion,
        })
        .collect();
    for aligned in [true, false] {
        let table = open(&write(WriteOptions::default().aligned(aligned), &all, &[]).0).unwrap();
        assert_eq!(all_refs(&table).unwrap(), all);
        for record in &all {
            let mut cursor = table.refs();
            cursor.seek(&record.name).unwrap();
            assert_eq!(cursor.next().unwrap().map(OwnRef::of).as_ref(), Some(record));
        }
    }
}

#[test]
fn a_cursor_outlives_the_callers_handle_of_its_table() {
    let table = open(&write(WriteOptions::default(), &refs(HashKind::Sha1, 10), &[]).0).unwrap();
    let mut cursor = table.refs();
    assert_eq!(Arc::strong_count(&table), 2);
    drop(table);
    assert_eq!(cursor.next().unwrap().unwrap().name, "refs/heads/topic-00/change-0000000");
}
