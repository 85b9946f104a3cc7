//! Helpers for the tests of stacks.
#![allow(dead_code, reason = "each test binary uses its own part")]

use refdb_types::{HashKind, ObjectId};
use refdb_vfs::{Fs, LockTimeout};
use reftable::{
    LogRecord, LogValue, RefRecord, RefValue, Summary, WriteOptions,
    stack::{Addition, Durability, Snapshot, Stack, StackError, StackOptions},
};
use std::{collections::BTreeMap, path::Path, time::Duration};

pub(crate) const LOCK_TIMEOUT: LockTimeout = LockTimeout::For(Duration::from_secs(300));

/// The name of a ref and its new value; `None` deletes it.
pub(crate) type Edit<'a> = (&'a str, Option<ObjectId>);

pub(crate) type Refs = BTreeMap<String, ObjectId>;

pub(crate) fn options(hash: HashKind) -> StackOptions {
    StackOptions::new(WriteOptions::new(hash))
}

pub(crate) fn open(dir: &Path) -> Stack {
    Stack::open(Fs::real(), dir, options(HashKind::Sha1)).unwrap()
}

pub(crate) fn synced() -> StackOptions {
    options(HashKind::Sha1).durability(Durability::Sync)
}

/// Returns a made-up object id.
pub(crate) fn oid(number: u64) -> ObjectId {
    let mut raw = [0x5a; 20];
    raw[..8].copy_from_slice(&number.to_be_bytes());
    ObjectId::from_bytes(HashKind::Sha1, &raw).unwrap()
}

/// Adds one table with these edits, which must be sorted by name, to a locked stack.
pub(crate) fn add(addition: &mut Addition, edits: &[Edit<'_>]) {
    add_expecting(addition, 0, edits).unwrap();
}

/// Adds one table with these edits, like [`add`], with an estimate of its size in bytes.
pub(crate) fn add_expecting(
    addition: &mut Addition,
    expected_bytes: u64,
    edits: &[Edit<'_>],
) -> Result<Summary, StackError> {
    let update_index = addition.next_update_index();
    addition.add_table(update_index..=update_index, expected_bytes, |writer| {
        for (name, value) in edits {
            let value = value.map_or(RefValue::Deletion, RefValue::Direct);
            writer.add_ref(&RefRecord { name: (*name).into(), update_index, value })?;
        }
        Ok(())
    })
}

/// Commits one transaction, and runs the compaction that is due after it.
pub(crate) fn write(stack: &Stack, edits: &[Edit<'_>]) {
    try_write(stack, edits).unwrap();
}

pub(crate) fn try_write(stack: &Stack, edits: &[Edit<'_>]) -> Result<(), StackError> {
    let mut addition = stack.lock(LOCK_TIMEOUT)?;
    add_expecting(&mut addition, 0, edits)?;
    if let Some(compaction) = addition.commit()?.compaction {
        compaction.run(LOCK_TIMEOUT)?;
    }
    Ok(())
}

/// Returns a log entry with a message.
pub(crate) fn log<'a>(name: &'a str, update_index: u64, message: &'a str) -> LogRecord<'a> {
    let value = LogValue::Update {
        old: oid(0),
        new: oid(update_index),
        name: "A".into(),
        email: "a@example.com".into(),
        time_seconds: 1_700_000_000 + update_index,
        tz_offset: 0,
        message: message.into(),
    };
    LogRecord { name: name.into(), update_index, value }
}

/// Returns all refs of a snapshot except symbolic ones, such as the HEAD of a repository that git has created.
pub(crate) fn refs(snapshot: &Snapshot) -> Refs {
    let mut cursor = snapshot.merged().refs();
    let mut refs = BTreeMap::new();
    while let Some(record) = cursor.next().unwrap() {
        match record.value {
            RefValue::Direct(id) => drop(refs.insert(record.name.to_string(), id)),
            RefValue::Symbolic(_) => {}
            RefValue::Deletion | RefValue::Peeled { .. } => panic!("{record:?}"),
        }
    }
    refs
}

/// Returns the messages of all log entries of a snapshot, by name and update index.
pub(crate) fn logs(snapshot: &Snapshot) -> BTreeMap<(String, u64), String> {
    let mut cursor = snapshot.merged().logs();
    let mut logs = BTreeMap::new();
    while let Some(record) = cursor.next().unwrap() {
        let LogValue::Update { message, .. } = record.value else { panic!("{record:?}") };
        logs.insert((record.name.to_string(), record.update_index), message.to_string());
    }
    logs
}

/// Returns the sorted names of all files in a folder.
pub(crate) fn files(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Returns the sorted names of the files of which a stack with this snapshot consists.
pub(crate) fn files_of(snapshot: &Snapshot) -> Vec<String> {
    let mut names: Vec<_> = snapshot.tables().iter().map(|listed| listed.name.to_string()).collect();
    names.push("tables.list".into());
    names.sort();
    names
}
