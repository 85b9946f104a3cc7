//! Damage in the bytes of a table that is noticed gives an error with its position, and no damage gives a panic or an
//! endless loop.
//!
//! The first tests are for the nine faults that git's reader had for years, until it was fuzzed in July 2026.

#![allow(clippy::unwrap_used, reason = "a test may fail in its helpers too")]

mod common;

use bstr::ByteSlice;
use common::*;
use refdb_testkit::exercise::{self, mend_checksum};
use refdb_vfs::Fs;
use reftable::{BlockCache, Error, Fault, HashKind, Merged, PagedFile, Result, Source, Table, WriteOptions};
use std::sync::Arc;

/// Returns a table without an index, with one ref block at offset 0 and one log block after it.
fn small() -> Vec<u8> {
    write(WriteOptions::default(), &refs(HashKind::Sha1, 12), &logs(HashKind::Sha1, 12)).0
}

/// Returns a table with all kinds of blocks.
fn large(options: WriteOptions) -> Vec<u8> {
    write(options, &refs(options.hash, 30), &logs(options.hash, 9)).0
}

fn be24(bytes: &[u8], at: usize) -> usize {
    usize::from(bytes[at]) << 16 | usize::from(bytes[at + 1]) << 8 | usize::from(bytes[at + 2])
}

fn put_be24(bytes: &mut [u8], at: usize, value: usize) {
    bytes[at..at + 3].copy_from_slice(&(value as u32).to_be_bytes()[1..]);
}

/// Reads all refs and log entries, seeks one ref, and returns the first error.
fn read(bytes: &[u8]) -> Result<()> {
    let table = open(bytes)?;
    let mut cursor = table.refs();
    cursor.seek(b"refs/heads/topic-05/change-0000006")?;
    cursor.next()?;
    all_refs(&table)?;
    all_logs(&table)?;
    Ok(())
}

/// Requires that both reading and checking report this fault at this offset.
fn assert_fault(bytes: &[u8], offset: u64, expected: impl Fn(&Fault) -> bool) {
    match read(bytes) {
        Err(Error::Corrupt(corruption)) => {
            assert!(corruption.offset == offset && expected(&corruption.fault), "{corruption}");
            assert!(corruption.to_string().contains(&format!("'table' is corrupt at byte {offset}: ")));
        }
        other => panic!("damage was not met: {other:?}"),
    }
    let found = reftable::check(Source::Memory(bytes.into()), "table").unwrap();
    assert!(found.iter().any(|found| found.offset == offset && expected(&found.fault)), "{found:?}");
    exercise::reftable(bytes);
}

#[test]
fn no_restart_point_at_all_is_no_empty_range_to_search() {
    let mut bytes = small();
    let end = be24(&bytes, 25);
    bytes[end - 2..end].fill(0);
    assert_fault(&bytes, 0, |fault| *fault == Fault::RestartCount(0));
}

#[test]
fn an_unknown_type_of_value_is_an_error() {
    let mut bytes = small();
    // The first record is at offset 28: the length of the shared prefix, then the length of the key with the type.
    assert_eq!(bytes[29] & 0x80, 0x80);
    bytes[30] |= 7;
    assert_fault(&bytes, 28, |fault| *fault == Fault::ValueType(7));
}

#[test]
fn a_log_that_inflates_to_another_length_than_announced_is_an_error() {
    let sound = small();
    let log = be24(&sound, 25);
    assert_eq!(sound[log], b'g');
    let len = be24(&sound, log + 1);
    for announced in [len - 1, len + 1, 9, 0xff_ffff] {
        let mut bytes = sound.clone();
        put_be24(&mut bytes, log + 1, announced);
        assert_fault(&bytes, log as u64, |fault| matches!(fault, Fault::Inflate));
    }
}

#[test]
fn a_bogus_block_length_is_an_error() {
    for len in [0, 4, 24, 28, 32, 0xff_ffff] {
        let mut bytes = small();
        put_be24(&mut bytes, 25, len);
        assert_fault(&bytes, 0, |fault| *fault == Fault::BlockLen(len as u32));
    }
}

#[test]
fn a_bogus_number_of_restart_points_is_an_error() {
    let mut bytes = small();
    let end = be24(&bytes, 25);
    bytes[end - 2..end].fill(0xff);
    assert_fault(&bytes, 0, |fault| *fault == Fault::RestartCount(0xffff));
}

#[test]
fn a_bogus_restart_point_is_an_error() {
    // A search looks at the second of the two restart points.
    let sound = write(WriteOptions::default(), &refs(HashKind::Sha1, 20), &[]).0;
    let end = be24(&sound, 25);
    for offset in [0, 27, end - 5, end, 0xff_ffff] {
        let mut bytes = sound.clone();
        put_be24(&mut bytes, end - 5, offset);
        assert_fault(&bytes, (end - 8) as u64, |fault| *fault == Fault::RestartOffset(offset as u32));
    }
}

#[test]
fn a_restart_point_at_a_shortened_key_is_not_searched() {
    let sound = write(WriteOptions::default(), &refs(HashKind::Sha1, 20), &[]).0;
    let end = be24(&sound, 25);
    let restart = be24(&sound, end - 5);
    let mut bytes = sound;
    bytes[restart] = 3;
    assert_fault(&bytes, (end - 8) as u64, |fault| *fault == Fault::RestartOffset(restart as u32));
}

#[test]
fn a_bogus_position_of_a_section_is_an_error() {
    let sound = large(WriteOptions::default().block_size(256));
    let footer = sound.len() - 68;
    for section in 0..5 {
        for position in [1, 23, footer as u64, sound.len() as u64, u64::MAX >> 5] {
            let mut bytes = sound.clone();
            let value = if section == 1 { position << 5 | 2 } else { position };
            bytes[footer + 24 + 8 * section..][..8].copy_from_slice(&value.to_be_bytes());
            mend_checksum(&mut bytes);
            assert_fault(&bytes, footer as u64, |fault| *fault == Fault::SectionPosition(position));
        }
    }
    // The index of the log does not come before the log. Regression: a walk over the blocks began again and again
    // there.
    for section in [0, 3] {
        let mut bytes = sound.clone();
        let position = u64::from_be_bytes(bytes[footer + 24 + 8 * section..][..8].try_into().unwrap());
        bytes[footer + 56..][..8].copy_from_slice(&position.to_be_bytes());
        mend_checksum(&mut bytes);
        assert!(position > 0, "the table has this section");
        assert_fault(&bytes, footer as u64, |fault| *fault == Fault::SectionPosition(position));
    }
    // These positions are inside the file, but hardly any of them is the start of such a section.
    for section in 0..5 {
        for position in (24..footer as u64).step_by(61) {
            let mut bytes = sound.clone();
            let value = if section == 1 { position << 5 | 2 } else { position };
            bytes[footer + 24 + 8 * section..][..8].copy_from_slice(&value.to_be_bytes());
            mend_checksum(&mut bytes);
            exercise::reftable(&bytes);
        }
    }
}

#[test]
fn a_truncated_table_is_an_error_at_every_length() {
    for bytes in [small(), large(WriteOptions::new(HashKind::Sha256).block_size(256))] {
        for len in 0..bytes.len() {
            let truncated = &bytes[..len];
            assert!(matches!(Table::open(Source::Memory(truncated.into()), "table"), Err(Error::Corrupt(_))), "{len}");
            assert!(!reftable::check(Source::Memory(truncated.into()), "table").unwrap().is_empty());
            // With a footer that looks sound, positions may lead beyond the end of the file.
            let mut mended = [truncated, &bytes[bytes.len() - 72..]].concat();
            mend_checksum(&mut mended);
            exercise::reftable(&mended);
        }
    }
}

/// Returns small tables of each kind.
fn kinds() -> Vec<Vec<u8>> {
    let mut kinds = Vec::new();
    for hash in [HashKind::Sha1, HashKind::Sha256] {
        let options =
            |block_size, aligned| WriteOptions::new(hash).block_size(block_size).aligned(aligned).restart_interval(3);
        kinds.push(write(options(4096, true), &[], &[]).0);
        kinds.push(write(options(4096, true), &refs(hash, 12), &[]).0);
        kinds.push(write(options(4096, true), &[], &logs(hash, 6)).0);
        kinds.push(write(options(4096, false), &refs(hash, 5), &logs(hash, 5)).0);
        kinds.push(write(options(256, true), &refs(hash, 20), &logs(hash, 6)).0);
        kinds.push(write(options(256, false), &refs(hash, 14), &[]).0);
    }
    kinds
}

#[test]
fn a_sound_table_of_each_kind_passes_the_check() {
    for bytes in kinds() {
        assert_eq!(reftable::check(Source::Memory(bytes.as_slice().into()), "table").unwrap(), []);
        assert!(exercise::reftable(&bytes).1);
    }
}

#[test]
fn a_flipped_bit_anywhere_is_survived() {
    for bytes in kinds() {
        for at in 0..bytes.len() {
            // Every bit of the smallest tables is flipped, and one bit per byte of larger ones.
            for bit in 0..if bytes.len() < 200 { 8 } else { 1 } {
                let mut bad = bytes.clone();
                bad[at] ^= 1 << ((bit + at) % 8);
                exercise::reftable(&bad);
                mend_checksum(&mut bad);
                exercise::reftable(&bad);
            }
        }
    }
}

#[test]
fn damage_is_survived_when_blocks_are_read_from_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("table");
    let cache = BlockCache::new(1 << 16);
    for (number, bytes) in kinds().into_iter().enumerate() {
        for at in (number % 7..bytes.len()).step_by(7) {
            let mut bad = bytes.clone();
            bad[at] ^= 0x81;
            mend_checksum(&mut bad);
            std::fs::write(&path, &bad).unwrap();
            let file = PagedFile::new(Fs::real().open(&path).unwrap(), cache.clone()).unwrap();
            let paged = Table::open(Source::Paged(file), "table");
            let whole = open(&bad);
            match (paged, whole) {
                (Ok(paged), Ok(whole)) => {
                    let told = |read: Result<Vec<OwnRef>>| read.map_err(|error| error.to_string());
                    assert_eq!(told(all_refs(&paged)), told(all_refs(&whole)), "{at}");
                    let told = |read: Result<Vec<OwnLog>>| read.map_err(|error| error.to_string());
                    assert_eq!(told(all_logs(&paged)), told(all_logs(&whole)), "{at}");
                }
                (paged, whole) => assert_eq!(paged.is_ok(), whole.is_ok(), "{at}"),
            }
        }
    }
}

#[test]
fn a_file_that_shrinks_while_it_is_open_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("table");
    std::fs::write(&path, large(WriteOptions::default().block_size(256))).unwrap();
    let file = PagedFile::new(Fs::real().open(&path).unwrap(), BlockCache::new(1 << 16)).unwrap();
    let table = Table::open(Source::Paged(file), "table").unwrap();
    std::fs::File::options().write(true).open(&path).unwrap().set_len(300).unwrap();
    assert!(matches!(all_refs(&table), Err(Error::Io(_))));
}

#[test]
fn an_index_that_leads_round_in_a_circle_is_an_error() {
    let sound = write(WriteOptions::default().block_size(256), &refs(HashKind::Sha1, 60), &[]).0;
    let footer = sound.len() - 68;
    let root = u64::from_be_bytes(sound[footer + 24..footer + 32].try_into().unwrap()) as usize;
    assert_eq!(sound[root], b'i');
    // The first record consists of lengths, key and position. Its position is that of the first block, 0 in one byte,
    // and is replaced by the root's.
    let key_len = usize::from(sound[root + 5] & 0x7f) + 1;
    let suffix = ((key_len << 7) | usize::from(sound[root + 6])) >> 3;
    let position = root + 7 + suffix;
    assert_eq!(sound[position], 0);
    // The root's first entry now leads to the root itself. Positions below 16512 take two bytes.
    let high = ((root >> 7) - 1) as u8 | 0x80;
    let mut bytes = sound.clone();
    bytes.splice(position..position + 1, [high, (root & 0x7f) as u8]);
    let len = be24(&bytes, root + 1) + 1;
    put_be24(&mut bytes, root + 1, len);
    // Restart points after the first move by one byte as well.
    let count = usize::from(u16::from_be_bytes([bytes[root + len - 2], bytes[root + len - 1]]));
    for at in 1..count {
        let place = root + len - 2 - 3 * (count - at);
        let moved = be24(&bytes, place) + 1;
        put_be24(&mut bytes, place, moved);
    }
    let table = open(&bytes).unwrap();
    let mut cursor = table.refs();
    assert!(matches!(cursor.seek(b"a"), Err(Error::Corrupt(_))));
    assert!(!reftable::check(Source::Memory(bytes.as_slice().into()), "table").unwrap().is_empty());
    exercise::reftable(&bytes);
}

/// Changes the seeds of the fuzz targets at random, so that every test run briefly does the work of the fuzzer.
#[test]
fn mutated_seeds_of_the_fuzz_targets_are_survived() {
    let seeds = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds");
    let mut random = refdb_testkit::Rng::new(7);
    let mut read_whole = 0;
    for (target, exercise) in [
        ("reftable_table", exercise::reftable as fn(&[u8]) -> (usize, bool)),
        ("reftable_block", exercise::reftable_blocks),
    ] {
        let mut seeds: Vec<_> =
            std::fs::read_dir(seeds.join(target)).unwrap().map(|seed| seed.unwrap().path()).collect();
        seeds.sort();
        for seed in seeds {
            let bytes = std::fs::read(&seed).unwrap();
            read_whole += usize::from(exercise(&bytes).1);
            for _ in 0..200 {
                let mut bad = bytes.clone();
                for _ in 0..1 + random.below(4) {
                    let at = random.below(bad.len());
                    match random.below(4) {
                        0 => bad[at] = random.bits() as u8,
                        1 => bad[at] ^= 1 << random.below(8),
                        2 => drop(bad.drain(at..(at + 1 + random.below(8)).min(bad.len()))),
                        _ => bad.insert(at, random.bits() as u8),
                    }
                    if bad.is_empty() {
                        break;
                    }
                }
                if target == "reftable_table" && random.one_in(2) {
                    mend_checksum(&mut bad);
                }
                exercise(&bad);
            }
        }
    }
    assert!(read_whole >= 4, "the seeds are no tables: the test proves nothing");
}

#[test]
fn handles_can_be_shared_between_threads() {
    fn shared<T: Send + Sync>(_: &T) {}
    let table: Arc<Table> = open(&small()).unwrap();
    shared(&table);
    shared(&reftable::Merged::new(vec![table]).unwrap());
}

/// Returns a table of refs with these names, in which the name `from`, which must be stored whole, has become `to`.
fn with_changed_name(names: &[String], restart_interval: u16, from: &str, to: &str) -> Arc<Table> {
    let options = WriteOptions::default().block_size(512).restart_interval(restart_interval);
    let refs: Vec<OwnRef> = names
        .iter()
        .map(|name| OwnRef {
            name: name.as_str().into(),
            update_index: 1,
            value: OwnValue::Direct(id(HashKind::Sha1, 1)),
        })
        .collect();
    let mut bytes = write(options, &refs, &[]).0;
    let at = bytes.find(from).expect("the name is stored whole");
    bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
    open(&bytes).unwrap()
}

#[test]
fn a_name_that_a_flipped_bit_moved_is_an_error_and_not_the_end_of_the_list() {
    let names: Vec<String> = (0..100).map(|at| format!("refs/heads/{at:03}")).collect();
    for (restart_interval, from, to) in [
        (1, "refs/heads/050", "refs/heads/\u{40}50"),
        (1, "refs/heads/050", "refs/xeads/050"),
        (16, "refs/heads/016", "refs/xeads/016"),
    ] {
        let table = with_changed_name(&names, restart_interval, from, to);
        let merged = Merged::new(vec![table]).unwrap();
        let walks: [(&str, &dyn Fn() -> reftable::Result<usize>); 2] = [
            ("to the end", &|| {
                let (mut refs, mut count) = (merged.refs(), 0);
                while refs.next()?.is_some() {
                    count += 1;
                }
                Ok(count)
            }),
            ("to the end of a prefix", &|| {
                let (mut refs, mut count) = (merged.refs(), 0);
                refs.seek(b"refs/heads/")?;
                while let Some(record) = refs.next()? {
                    if !record.name.starts_with(b"refs/heads/") {
                        refs.check_ahead()?;
                        break;
                    }
                    count += 1;
                }
                Ok(count)
            }),
        ];
        for (what, walk) in walks {
            let error = walk().expect_err(what).to_string();
            assert!(error.contains("a key is out of order") && error.contains("is corrupt at byte"), "{error}");
            assert!(error.contains(&format!("behind '{}", &to[..12])), "{what}: {error}");
        }
    }
}

#[test]
fn blocks_that_changed_places_are_an_error() {
    let options = WriteOptions::default().block_size(256);
    let mut bytes = write(options, &refs(HashKind::Sha1, 60), &[]).0;
    let (second, third) = (bytes[256..512].to_vec(), bytes[512..768].to_vec());
    assert_eq!((second[0], third[0]), (b'r', b'r'));
    bytes[256..512].copy_from_slice(&third);
    bytes[512..768].copy_from_slice(&second);
    let table = open(&bytes).unwrap();
    let error = all_refs(&table).expect_err("a list in the wrong order").to_string();
    assert!(error.contains("a key is out of order") && error.contains("byte 516"), "{error}");
}

/// After a seek that met damage, a cursor once showed the record of an earlier seek, or one of a block that the cursor
/// no longer had.
#[test]
fn a_cursor_is_at_the_end_after_a_seek_that_met_damage() {
    let options = WriteOptions::new(HashKind::Sha1).block_size(256);
    let (refs, logs) = (refs(HashKind::Sha1, 60), logs(HashKind::Sha1, 60));
    let whole = write(options, &refs, &logs).0;
    let (mut of_refs, mut of_logs) = (0, 0);
    for at in (256..whole.len()).step_by(16) {
        let mut bytes = whole.clone();
        bytes[at..whole.len().min(at + 4)].fill(0xff);
        let Ok(table) = open(&bytes) else { continue };
        let (mut cursor, mut log_cursor) = (table.refs(), table.logs());
        for name in refs.iter().map(|record| &record.name) {
            if cursor.seek(b"").is_ok() && cursor.seek(name).is_err() {
                assert!(matches!(cursor.next(), Ok(None)), "{at}");
                of_refs += 1;
            }
        }
        for name in logs.iter().map(|record| &record.name) {
            if log_cursor.seek(b"").is_ok() && log_cursor.seek(name).is_err() {
                assert!(matches!(log_cursor.next(), Ok(None)), "{at}");
                of_logs += 1;
            }
        }
    }
    assert!(of_refs > 0 && of_logs > 0, "{of_refs} {of_logs}");
}

/// Previously, the message had the bytes of the abbreviated id.
#[test]
fn damage_in_the_index_of_objects_is_told_with_an_id_in_hexadecimal_digits() {
    let sound = write(WriteOptions::default().block_size(256), &refs(HashKind::Sha1, 400), &logs(HashKind::Sha1, 9)).0;
    let footer = sound.len() - 68;
    let position = |section: usize| u64::from_be_bytes(sound[footer + 24 + 8 * section..][..8].try_into().unwrap());
    let (objects, end) = ((position(1) >> 5) as usize, position(3) as usize);
    assert!(position(2) > 0, "the objects have an index");
    let mut told = 0;
    for at in objects..end {
        let mut bytes = sound.clone();
        bytes[at] ^= 0x7f;
        let Ok(table) = open(&bytes) else { continue };
        for number in (0..400).step_by(13) {
            let Err(Error::Corrupt(found)) = table.refs_pointing_at(&id(HashKind::Sha1, number)) else { continue };
            if (objects..end).contains(&(found.offset as usize)) && !found.behind.is_empty() {
                assert!(found.behind.iter().all(u8::is_ascii_hexdigit) && found.behind.len() >= 4, "{found}");
                told += 1;
            }
        }
    }
    assert!(told > 0);
}
