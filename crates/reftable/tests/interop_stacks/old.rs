//! A table as the first versions wrote it, whose index blocks grew beyond the block size until they had two records.

use crate::{
    common::{OwnRef, OwnValue, write},
    others::{Content, LOCK_TIMEOUT, Others, replace},
};
use bstr::BString;
use refdb_testkit::exercise::mend_checksum;
use refdb_vfs::Fs;
use reftable::{
    HashKind, Source, Table, WriteOptions,
    stack::{Compacted, Scope, Stack, StackError, StackOptions},
};
use std::fs;

const BLOCK: usize = 4096;
const FOOTER: usize = 68;

/// Returns names of which each fills a block, so that an index block of the block size has room for one.
fn names() -> impl Iterator<Item = BString> {
    (10..18).map(|at| format!("refs/heads/{at}{}", "n".repeat(2900)).into())
}

/// Adds the index that the old writer wrote to a table that has one ref in each block and no index.
fn with_old_index(table: &[u8], names: &[BString]) -> Vec<u8> {
    let (mut bytes, footer) = (table[..table.len() - FOOTER].to_vec(), &table[table.len() - FOOTER..]);
    let pad = |bytes: &mut Vec<u8>| bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
    let mut level: Vec<(&BString, usize)> = names.iter().enumerate().map(|(at, name)| (name, at * BLOCK)).collect();
    while level.len() > 1 {
        let mut above = Vec::new();
        for pair in level.chunks(2) {
            pad(&mut bytes);
            above.push((pair[pair.len() - 1].0, bytes.len()));
            bytes.extend(index_block(pair));
        }
        level = above;
    }
    let root = level[0].1 as u64;
    bytes.extend_from_slice(footer);
    let at = bytes.len() - FOOTER + 24;
    bytes[at..at + 8].copy_from_slice(&root.to_be_bytes());
    mend_checksum(&mut bytes);
    bytes
}

/// Builds an index block whose only restart point is its first record.
fn index_block(records: &[(&BString, usize)]) -> Vec<u8> {
    let mut block = vec![b'i', 0, 0, 0];
    for (key, position) in records {
        block.push(0);
        put_varint(&mut block, (key.len() << 3) as u64);
        block.extend_from_slice(key);
        put_varint(&mut block, *position as u64);
    }
    block.extend([0, 0, 4, 0, 1]);
    let len = (block.len() as u32).to_be_bytes();
    block[1..4].copy_from_slice(&len[1..]);
    block
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    let mut digits = vec![(value & 0x7f) as u8];
    while value >> 7 > 0 {
        value = (value >> 7) - 1;
        digits.push(0x80 | (value & 0x7f) as u8);
    }
    out.extend(digits.into_iter().rev());
}

#[test]
fn a_table_of_the_old_writer_hides_refs_from_git_and_a_compaction_of_all_tables_repairs_it() {
    let mut others = Others::new(HashKind::Sha1);
    let options = others.begin(WriteOptions::default());
    let names: Vec<BString> = names().collect();
    let value = OwnValue::Direct(others.commits[0]);
    let refs: Vec<_> =
        names.iter().map(|name| OwnRef { name: name.clone(), update_index: 1, value: value.clone() }).collect();
    let table = with_old_index(&write(options.write, &refs, &[]).0, &names);
    let name = "0x000000000001-0x000000000007-0123abcd.ref";
    replace(&others.folder(), &[(name.into(), table.clone()), ("tables.list".into(), format!("{name}\n").into())]);
    let content = Content { refs: names.into_iter().map(|name| (name, value.clone())).collect(), ..Content::default() };
    assert!(others.read(&options) == content);
    let open = Table::open(Source::Memory(table.into()), name).unwrap();
    assert!(open.block_beyond_git().unwrap().is_some(), "the index blocks are too long");
    assert_ne!(others.repo.git(["for-each-ref"]).lines().count(), content.refs.len(), "there is nothing to repair");

    let stack = Stack::open(Fs::real(), &others.folder(), options.clone()).unwrap();
    assert_eq!(stack.compact(Scope::All(None), LOCK_TIMEOUT).unwrap(), Compacted::Done(1));
    others.list(&options, &content, "compacted");
}

#[test]
fn a_compaction_that_cannot_keep_to_the_block_size_names_the_refs_and_leaves_the_tables_alone() {
    let others = Others::new(HashKind::Sha1);
    let options = others.begin(WriteOptions::default().block_size(65_536));
    let stack = Stack::open(Fs::real(), &others.folder(), options).unwrap();
    let long: Vec<BString> = [1, 2].map(|at| format!("refs/heads/{at}{}", "n".repeat(5000)).into()).into();
    let (gone, main) = (BString::from(format!("refs/heads/3{}", "n".repeat(5000))), "refs/heads/main".into());
    let value = || OwnValue::Direct(others.commits[0]);
    let live = long.iter().chain([&gone, &main]).map(|name| (name, value()));
    for (name, value) in live.chain([(&gone, OwnValue::Deletion)]) {
        let mut addition = stack.lock(LOCK_TIMEOUT).unwrap();
        let index = addition.next_update_index();
        let record = OwnRef { name: name.clone(), update_index: index, value };
        addition.add_table::<StackError>(index..=index, 0, |writer| writer.add_ref(&record.record())).unwrap();
        drop(addition.commit().unwrap());
    }
    let list = fs::read(others.folder().join("tables.list")).unwrap();
    let stack = Stack::open(Fs::real(), &others.folder(), StackOptions::new(WriteOptions::default())).unwrap();
    let refused = stack.compact(Scope::All(None), LOCK_TIMEOUT).unwrap_err();
    assert!(refused.is_too_large());
    let text = refused.to_string();
    assert!(long.iter().all(|name| text.contains(&name.to_string())), "{text}");
    assert!(!text.contains("refs/heads/3"), "a ref that is deleted already: {text}");
    assert!(!text.contains("refs/heads/main") && text.contains("reftable.blockSize"), "{text}");
    assert!(fs::read(others.folder().join("tables.list")).unwrap() == list);
    let files = fs::read_dir(others.folder()).unwrap().count();
    assert_eq!(files, 1 + list.split(|byte| *byte == b'\n').count() - 1, "nothing is left over");
}
