use super::{Context, Records, id_at, string_at};
use crate::{
    Fault,
    format::{BlockKind, be64, varint},
};
use bstr::{BStr, ByteSlice};
use refdb_types::{HashKind, ObjectId};

/// The value of a log record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogValue<'a> {
    /// A tombstone: the entry does not exist, whatever older tables say.
    Deletion,
    /// An entry of a reflog.
    Update {
        /// The ref's value before; null if the ref was created.
        old: ObjectId,
        /// The ref's value after; null if the ref was deleted.
        new: ObjectId,
        /// The name of the committer.
        name: &'a BStr,
        /// The email address of the committer, without angle brackets.
        email: &'a BStr,
        /// The time of the change, in seconds since 1970 (UTC).
        time_seconds: u64,
        /// The offset from UTC as it is stored. Git stores the digits that it prints (-0130 is -130), contrary to the
        /// format's document, while JGit stores minutes (-0130 is -90). Nothing in the file shows which program wrote
        /// the offset.
        tz_offset: i16,
        /// The message as it is stored; git ends it with a newline, JGit does not.
        message: &'a BStr,
    },
}

/// A reflog entry as a table stores it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogRecord<'a> {
    /// The ref's full name.
    pub name: &'a BStr,
    /// The update index of the transaction that made the entry.
    pub update_index: u64,
    /// The value.
    pub value: LogValue<'a>,
}

impl LogRecord<'_> {
    /// Returns whether this is a tombstone, which hides an entry of an older table.
    pub fn is_deletion(&self) -> bool {
        self.value == LogValue::Deletion
    }
}
const DELETION: u8 = 0;
const UPDATE: u8 = 1;

/// The length of the update index in a key, in bytes.
pub(super) const INDEX_LEN: usize = 8;

/// Replaces `key` with the key of a log record: the name, a NUL byte, and the complement of the update index, so that
/// newer entries sort before older ones.
pub(crate) fn log_key(key: &mut Vec<u8>, name: &[u8], update_index: u64) {
    key.clear();
    key.extend_from_slice(name);
    key.push(0);
    key.extend_from_slice(&(!update_index).to_be_bytes());
}

/// The update index in the key of a log record; `parse` has checked the key.
pub(crate) fn log_update_index(key: &[u8]) -> u64 {
    debug_assert!(key.len() > INDEX_LEN && key[key.len() - INDEX_LEN - 1] == 0, "`parse` accepts no other key");
    !be64(key, key.len() - INDEX_LEN)
}

impl LogValue<'_> {
    /// The type of the value, three bits that are stored beside the length of the key.
    pub(crate) fn type_bits(&self) -> u8 {
        match self {
            LogValue::Deletion => DELETION,
            LogValue::Update { .. } => UPDATE,
        }
    }

    /// Appends `old new string(name) string(email) varint(seconds) sint16(offset) string(message)`.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let LogValue::Update { old, new, name, email, time_seconds, tz_offset, message } = self else { return };
        debug_assert_eq!(old.kind(), new.kind(), "a reader takes both ids to be of the table's kind");
        out.extend_from_slice(old.as_bytes());
        out.extend_from_slice(new.as_bytes());
        let string = |out: &mut Vec<u8>, text: &BStr| {
            varint::put(out, text.len() as u64);
            out.extend_from_slice(text);
        };
        string(out, name);
        string(out, email);
        varint::put(out, *time_seconds);
        out.extend_from_slice(&tz_offset.to_be_bytes());
        string(out, message);
    }
}

/// The records of log blocks.
pub(crate) struct LogRecords;

/// The location of a log entry's value in its block.
#[derive(Clone, Copy, Default)]
pub(crate) struct LogPlace {
    value_type: u8,
    ids: u32,
    name: (u32, u32),
    email: (u32, u32),
    time_seconds: u64,
    tz_offset: i16,
    message: (u32, u32),
}

impl Records for LogRecords {
    const BLOCK: BlockKind = BlockKind::Log;
    type Value = LogPlace;

    fn parse(
        records: &[u8],
        mut at: usize,
        value_type: u8,
        context: &Context,
        key: &[u8],
    ) -> Result<(LogPlace, usize), Fault> {
        if key.len() <= INDEX_LEN + 1 || key[key.len() - INDEX_LEN - 1] != 0 {
            return Err(Fault::Key);
        }
        let mut place = LogPlace { value_type, ids: at as u32, ..LogPlace::default() };
        match value_type {
            DELETION => return Ok((place, at)),
            UPDATE => {}
            unknown => return Err(Fault::ValueType(unknown)),
        }
        at += 2 * context.hash.len_bytes();
        place.name = string_at(records, &mut at)?;
        place.email = string_at(records, &mut at)?;
        place.time_seconds = varint::get(records, &mut at)?;
        let offset = records.get(at..at + 2).ok_or(Fault::RecordTruncated)?;
        place.tz_offset = i16::from_be_bytes([offset[0], offset[1]]);
        at += 2;
        place.message = string_at(records, &mut at)?;
        Ok((place, at))
    }

    fn is_deletion(value: &LogPlace) -> bool {
        value.value_type == DELETION
    }
}

impl LogPlace {
    /// The record with this key; `block` is the block from which the location was parsed.
    pub(crate) fn record<'a>(&self, key: &'a [u8], block: &'a [u8], hash: HashKind) -> LogRecord<'a> {
        let text = |(at, len): (u32, u32)| block[at as usize..(at + len) as usize].as_bstr();
        let ids = self.ids as usize;
        let value = match self.value_type {
            DELETION => LogValue::Deletion,
            _ => LogValue::Update {
                old: id_at(block, ids, hash),
                new: id_at(block, ids + hash.len_bytes(), hash),
                name: text(self.name),
                email: text(self.email),
                time_seconds: self.time_seconds,
                tz_offset: self.tz_offset,
                message: text(self.message),
            },
        };
        let name_len = key.len() - INDEX_LEN - 1;
        LogRecord { name: key[..name_len].as_bstr(), update_index: log_update_index(key), value }
    }
}
