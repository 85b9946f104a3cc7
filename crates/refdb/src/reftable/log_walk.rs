//! Reads reflogs one after another. If the reflog that comes next in the stack is requested, no seek is needed.

use crate::Result;
use bstr::{BStr, BString, ByteSlice};
use refdb_types::ObjectId;
use reftable::{LogRecord, LogValue, Merged, MergedLogCursor};
use std::ops::Range;

/// An entry of a reflog.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) update_index: u64,
    pub(super) old: ObjectId,
    pub(super) new: ObjectId,
    pub(super) time_seconds: u64,
    message: Range<usize>,
}

/// The entries of one reflog, the newest first.
#[derive(Default, Debug)]
pub(super) struct Log {
    entries: Vec<Entry>,
    markers: Vec<u64>,
    messages: Vec<u8>,
}

impl Log {
    pub(super) fn entries(&self) -> std::slice::Iter<'_, Entry> {
        self.entries.iter()
    }

    /// The update indexes of records that only mark that the reflog exists.
    pub(super) fn markers(&self) -> &[u64] {
        &self.markers
    }

    /// Returns whether the reflog does not exist.
    pub(super) fn is_missing(&self) -> bool {
        self.entries.is_empty() && self.markers.is_empty()
    }

    /// The message as the table stores it.
    pub(super) fn message(&self, entry: &Entry) -> &BStr {
        self.messages[entry.message.clone()].as_bstr()
    }

    fn clear(&mut self) {
        self.entries.clear();
        self.markers.clear();
        self.messages.clear();
    }

    fn push(&mut self, record: &LogRecord<'_>) {
        debug_assert!(
            self.entries.last().is_none_or(|newer| newer.update_index > record.update_index),
            "the newest entry comes first"
        );
        let LogValue::Update { old, new, time_seconds, message, .. } = record.value else { return };
        let update_index = record.update_index;
        if old.is_null() && new.is_null() {
            self.markers.push(update_index);
            return;
        }
        let start = self.messages.len();
        self.messages.extend_from_slice(message);
        self.entries.push(Entry { update_index, old, new, time_seconds, message: start..self.messages.len() });
    }
}

/// A walk over the reflogs of a stack.
pub(super) struct LogWalk {
    cursor: MergedLogCursor,
    /// The name of the next reflog, and its first record, which was read to find the end of the last one.
    ahead: Option<(BString, Log)>,
}

impl LogWalk {
    pub(super) fn new(merged: Merged) -> Self {
        LogWalk { cursor: merged.logs(), ahead: None }
    }

    /// Reads the reflog of a ref into `log`.
    pub(super) fn read(&mut self, name: &BStr, log: &mut Log) -> Result<()> {
        log.clear();
        match &mut self.ahead {
            Some((ahead, first)) if *ahead == name => std::mem::swap(log, first),
            _ => self.cursor.seek_log(name, u64::MAX)?,
        }
        while let Some(record) = self.cursor.next()? {
            debug_assert!(record.name >= name, "names before the one asked for are passed over");
            if record.name != name {
                let (ahead, first) = self.ahead.get_or_insert_default();
                ahead.clear();
                ahead.extend_from_slice(record.name);
                first.clear();
                first.push(&record);
                return Ok(());
            }
            log.push(&record);
        }
        self.ahead = None;
        Ok(())
    }
}
