//! The records in a block, in the order of their keys. A record has a key, stored without the prefix that it shares
//! with the key before it, a type of three bits, and a value.

mod fit;
mod index_record;
pub(crate) mod key;
mod log_record;
mod object_record;
mod ref_record;

pub use fit::LogFit;
pub(crate) use fit::RefLimits;
pub(crate) use index_record::{IndexRecords, IndexValue};
pub use log_record::{LogRecord, LogValue};
pub(crate) use log_record::{LogRecords, log_key, log_update_index};
pub(crate) use object_record::{ObjectRecords, ObjectValue};
pub(crate) use ref_record::{RefPlace, RefRecords};
pub use ref_record::{RefRecord, RefValue};

use crate::{Fault, format::BlockKind};
use refdb_types::{HashKind, ObjectId};

/// The fields of a table's header on which the meaning of its records depends.
#[derive(Clone, Copy)]
pub(crate) struct Context {
    pub(crate) hash: HashKind,
    pub(crate) min_update_index: u64,
}

/// One of the four kinds of records.
pub(crate) trait Records {
    /// The kind of block that holds these records.
    const BLOCK: BlockKind;
    /// The location of a record's value in its block, and those parts that are cheap to decode.
    type Value: Copy + Default;

    /// Decodes the value at `at`; returns it and the offset of its end. `records` are the bytes of the
    /// block, headers included, up to the end of its records. `key` is the key of a log record; for other records it
    /// may be empty.
    fn parse(
        records: &[u8],
        at: usize,
        value_type: u8,
        context: &Context,
        key: &[u8],
    ) -> Result<(Self::Value, usize), Fault>;

    /// Returns whether the record is a tombstone, which only hides records with the same key in older tables.
    fn is_deletion(value: &Self::Value) -> bool;
}

/// The object id at `at`; `parse` has checked that it lies within the records.
#[inline(always)]
pub(crate) fn id_at(records: &[u8], at: usize, hash: HashKind) -> ObjectId {
    ObjectId::from_bytes(hash, &records[at..at + hash.len_bytes()]).expect("the slice is as long as the id")
}

/// Reads the length of a string at `at` and moves `at` after the string. Returns the string's offset and length.
#[inline]
fn string_at(records: &[u8], at: &mut usize) -> Result<(u32, u32), Fault> {
    let len = crate::format::varint::get_len(records, at)?;
    let start = *at;
    *at = start.checked_add(len).filter(|end| *end <= records.len()).ok_or(Fault::RecordTruncated)?;
    debug_assert!(*at < 1 << 24, "a block is shorter than 16 MiB, so that a place in it has 32 bits");
    Ok((start as u32, len as u32))
}
