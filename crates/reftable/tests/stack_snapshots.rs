//! Snapshots, freshness and reloading: a snapshot never changes, and a reload does not open a table twice.

#![allow(clippy::unwrap_used, reason = "a test that fails shall panic")]

mod stack_support;

use refdb_testkit::exercise;
use refdb_types::HashKind;
use refdb_vfs::Fs;
use reftable::{
    BlockCache,
    stack::{Access, Scope, Stack},
};
use stack_support::{LOCK_TIMEOUT, oid, open, options, refs, write};
use std::{fs, sync::Arc};

fn many(from: u64, to: u64) -> Vec<String> {
    (from..to).map(|number| format!("refs/heads/{number:06}")).collect()
}

#[test]
fn a_reload_opens_only_tables_that_are_new() {
    let dir = tempfile::tempdir().unwrap();
    let (reader, writer) = (open(dir.path()), open(dir.path()));
    let names = many(0, 2_000);
    let edits: Vec<_> = names.iter().map(|name| (name.as_str(), Some(oid(1)))).collect();
    write(&writer, &edits);
    let first = reader.reload().unwrap();
    write(&writer, &[("refs/heads/x", Some(oid(2)))]);
    let second = reader.reload().unwrap();
    assert_eq!((first.tables().len(), second.tables().len()), (1, 2));
    assert!(Arc::ptr_eq(&first.tables()[0].table, &second.tables()[0].table));
    assert!(second.sequence() > first.sequence());
    let third = reader.reload().unwrap();
    assert_eq!(third.sequence(), second.sequence(), "nothing has changed");
    assert!(Arc::ptr_eq(&third.tables()[1].table, &second.tables()[1].table));
}

#[test]
fn tables_of_every_size_are_read_whole_however_they_are_opened() {
    let dir = tempfile::tempdir().unwrap();
    let writer = open(dir.path());
    let mut sizes = Vec::new();
    // Each table is smaller than half of the one before, so that none is merged. The first table is mapped, the second
    // is read in two steps, and the third in one.
    for (from, to) in [(0, 3_000), (3_000, 3_300), (3_300, 3_303)] {
        let names = many(from, to);
        let edits: Vec<_> = names.iter().map(|name| (name.as_str(), Some(oid(1)))).collect();
        write(&writer, &edits);
        sizes = writer.refresh().unwrap().tables().iter().map(|listed| listed.table.len_bytes()).collect();
    }
    let kinds: Vec<_> = sizes.iter().map(|size| (*size >= 2 << 10, *size > 16 << 10)).collect();
    assert_eq!(kinds, [(true, true), (true, false), (false, false)], "{sizes:?}");
    let names: Vec<String> = refs(&open(dir.path()).refresh().unwrap()).into_keys().collect();
    assert_eq!(names, many(0, 3_303));
}

#[test]
fn a_stack_is_fresh_until_someone_replaces_the_list_even_by_the_same_content() {
    let dir = tempfile::tempdir().unwrap();
    let (reader, writer) = (open(dir.path()), open(dir.path()));
    assert!(reader.is_fresh().unwrap(), "no list is what it has seen");
    write(&writer, &[("refs/heads/a", Some(oid(1)))]);
    assert!(!reader.is_fresh().unwrap() && writer.is_fresh().unwrap());
    let seen = reader.refresh().unwrap();
    assert!(reader.is_fresh().unwrap());
    // While the reader keeps its own list open, no list that replaces it can get the same inode.
    for number in 0..50 {
        let content = fs::read(reader.list_path()).unwrap();
        fs::remove_file(reader.list_path()).unwrap();
        fs::write(reader.list_path(), content).unwrap();
        assert!(!reader.is_fresh().unwrap(), "{number}");
    }
    let again = reader.refresh().unwrap();
    assert_eq!(again.sequence(), seen.sequence(), "it is the same list all the same");
    assert!(reader.is_fresh().unwrap());
}

#[test]
fn a_snapshot_outlives_the_files_it_was_read_from() {
    let cache = BlockCache::new(1 << 16);
    for access in [Access::Map, Access::Page(cache)] {
        let dir = tempfile::tempdir().unwrap();
        let stack = Stack::open(Fs::real(), dir.path(), options(HashKind::Sha1).access(access)).unwrap();
        let names = many(0, 30_000);
        let edits: Vec<_> = names.iter().map(|name| (name.as_str(), Some(oid(1)))).collect();
        write(&stack, &edits);
        write(&stack, &[("refs/heads/x", Some(oid(2)))]);
        let before = stack.snapshot();
        let gone: Vec<_> = names.iter().map(|name| (name.as_str(), None)).collect();
        write(&stack, &gone);
        stack.compact(Scope::All(None), LOCK_TIMEOUT).unwrap();
        assert_eq!(refs(&stack.snapshot()).len(), 1);
        for listed in before.tables() {
            assert!(!dir.path().join(listed.name.to_string()).exists());
        }
        assert_eq!(refs(&before).len(), 30_001);
    }
}

#[test]
fn names_of_jgit_and_of_older_versions_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let stack = open(dir.path());
    let names = many(0, 2_000);
    let edits: Vec<_> = names.iter().map(|name| (name.as_str(), Some(oid(1)))).collect();
    write(&stack, &edits);
    write(&stack, &[("refs/heads/b", Some(oid(2)))]);
    let tables = stack.snapshot().tables().to_vec();
    let names = ["000000000001-000000000001.ref", "000000000002-000000000002-1a2b3c4d.log"];
    for (listed, name) in tables.iter().zip(names) {
        fs::rename(dir.path().join(listed.name.to_string()), dir.path().join(name)).unwrap();
    }
    fs::write(stack.list_path(), names.join("\n") + "\n").unwrap();
    assert_eq!(refs(&open(dir.path()).snapshot()).len(), 2_001);
    stack.reload().unwrap();
    stack.compact(Scope::All(None), LOCK_TIMEOUT).unwrap();
    assert_eq!(refs(&open(dir.path()).snapshot()).len(), 2_001);
}

#[test]
fn the_seeds_of_the_fuzzer_are_lists_that_can_be_read() {
    let seeds = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds/reftable_list");
    let mut count = 0;
    for seed in fs::read_dir(seeds).unwrap() {
        assert_eq!(exercise::tables_list(&fs::read(seed.unwrap().path()).unwrap()), 2);
        count += 1;
    }
    assert!(count > 0);
}
