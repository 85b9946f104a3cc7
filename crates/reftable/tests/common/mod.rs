//! Tables for tests, and the plain values that the tables hold.

#![allow(clippy::unwrap_used, reason = "a test may fail in its helpers too")]
#![allow(dead_code, unreachable_pub, reason = "each test binary uses its own part")]

use bstr::BString;
use reftable::{
    HashKind, LogRecord, LogValue, ObjectId, RefRecord, RefValue, Result, Source, Summary, Table, TableWriter,
    WriteOptions,
};
use std::sync::Arc;

/// Returns an object id that is determined by `seed`.
pub fn id(hash: HashKind, seed: u64) -> ObjectId {
    let mut state = seed ^ 0x9e37_79b9_7f4a_7c15;
    let raw: Vec<u8> = (0..hash.len_bytes())
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        })
        .collect();
    ObjectId::from_bytes(hash, &raw).unwrap()
}

/// A ref that owns its parts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OwnRef {
    pub name: BString,
    pub update_index: u64,
    pub value: OwnValue,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OwnValue {
    Deletion,
    Direct(ObjectId),
    Peeled(ObjectId, ObjectId),
    Symbolic(BString),
}

impl OwnRef {
    pub fn of(record: RefRecord<'_>) -> Self {
        let value = match record.value {
            RefValue::Deletion => OwnValue::Deletion,
            RefValue::Direct(id) => OwnValue::Direct(id),
            RefValue::Peeled { target, peeled } => OwnValue::Peeled(target, peeled),
            RefValue::Symbolic(target) => OwnValue::Symbolic(target.to_owned()),
        };
        OwnRef { name: record.name.to_owned(), update_index: record.update_index, value }
    }

    pub fn record(&self) -> RefRecord<'_> {
        let value = match &self.value {
            OwnValue::Deletion => RefValue::Deletion,
            OwnValue::Direct(id) => RefValue::Direct(*id),
            OwnValue::Peeled(target, peeled) => RefValue::Peeled { target: *target, peeled: *peeled },
            OwnValue::Symbolic(target) => RefValue::Symbolic(target.as_ref()),
        };
        RefRecord { name: self.name.as_ref(), update_index: self.update_index, value }
    }
}

/// A log entry that owns its parts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OwnLog {
    pub name: BString,
    pub update_index: u64,
    /// Old id, new id, committer, email, time, offset, message; `None` for a deletion.
    pub entry: Option<(ObjectId, ObjectId, BString, BString, u64, i16, BString)>,
}

impl OwnLog {
    pub fn of(record: LogRecord<'_>) -> Self {
        let entry = match record.value {
            LogValue::Deletion => None,
            LogValue::Update { old, new, name, email, time_seconds, tz_offset, message } => {
                Some((old, new, name.to_owned(), email.to_owned(), time_seconds, tz_offset, message.to_owned()))
            }
        };
        OwnLog { name: record.name.to_owned(), update_index: record.update_index, entry }
    }

    pub fn record(&self) -> LogRecord<'_> {
        let value = match &self.entry {
            None => LogValue::Deletion,
            Some((old, new, name, email, time_seconds, tz_offset, message)) => LogValue::Update {
                old: *old,
                new: *new,
                name: name.as_ref(),
                email: email.as_ref(),
                time_seconds: *time_seconds,
                tz_offset: *tz_offset,
                message: message.as_ref(),
            },
        };
        LogRecord { name: self.name.as_ref(), update_index: self.update_index, value }
    }
}

/// Returns `count` refs sorted by name. Eight or more of them have every kind of value, deletions included.
pub fn refs(hash: HashKind, count: u64) -> Vec<OwnRef> {
    (0..count)
        .map(|at| OwnRef {
            name: format!("refs/heads/topic-{:02}/change-{at:07}", at * 10 / count.max(1)).into(),
            update_index: 1 + at % 7,
            value: match at % 11 {
                3 => OwnValue::Deletion,
                5 => OwnValue::Peeled(id(hash, at), id(hash, at + 1_000_000)),
                7 => OwnValue::Symbolic(format!("refs/heads/target-{at}").into()),
                9 => OwnValue::Direct(id(hash, 42)),
                _ => OwnValue::Direct(id(hash, at)),
            },
        })
        .collect()
}

/// Returns `count` log entries in the order of a table, some of them deletions: three for each ref, or fewer for the
/// last one.
pub fn logs(hash: HashKind, count: u64) -> Vec<OwnLog> {
    (0..count)
        .map(|at| OwnLog {
            name: format!("refs/heads/topic/{:07}", at / 3).into(),
            update_index: 7 - at % 3,
            entry: (at % 13 != 4).then(|| {
                let message = format!("commit: number {at}\n");
                (id(hash, at), id(hash, at + 1), "A U Thor".into(), "a@b".into(), 1 << 33 | at, -130, message.into())
            }),
        })
        .collect()
}

/// Writes a table with update indexes 1 to 7.
pub fn write(options: WriteOptions, refs: &[OwnRef], logs: &[OwnLog]) -> (Vec<u8>, Summary) {
    try_write(options, refs, logs).unwrap()
}

pub fn try_write(options: WriteOptions, refs: &[OwnRef], logs: &[OwnLog]) -> Result<(Vec<u8>, Summary)> {
    let mut bytes = Vec::new();
    let mut writer = TableWriter::new(options, 1, 7, &mut bytes)?;
    for record in refs {
        writer.add_ref(&record.record())?;
    }
    for record in logs {
        writer.add_log(&record.record())?;
    }
    let summary = writer.finish()?;
    assert_eq!(summary.bytes, bytes.len() as u64);
    Ok((bytes, summary))
}

pub fn open(bytes: &[u8]) -> Result<Arc<Table>> {
    Table::open(Source::Memory(bytes.into()), "table")
}

/// Returns all refs of a table, including tombstones.
pub fn all_refs(table: &Arc<Table>) -> Result<Vec<OwnRef>> {
    let (mut cursor, mut all) = (table.refs(), Vec::new());
    while let Some(record) = cursor.next()? {
        all.push(OwnRef::of(record));
    }
    Ok(all)
}

/// Returns all log entries of a table, including deletions.
pub fn all_logs(table: &Arc<Table>) -> Result<Vec<OwnLog>> {
    let (mut cursor, mut all) = (table.logs(), Vec::new());
    while let Some(record) = cursor.next()? {
        all.push(OwnLog::of(record));
    }
    Ok(all)
}
