//! What blocks hold: records in the order of their keys. A record is a key, compressed against the key before it, a
//! type of three bits, and a value.

mod fit;
mod index_record;
pub(crate) mod key;
mod log_record;
mod object_record;
mod ref_record;

pub use fit::LogFit;
pub(crate) use index_record::{IndexRecords, IndexValue};
pub use log_record::{LogRecord, LogValue};
pub(crate) use log_record::{LogRecords, log_key, log_update_index};
pub(crate) use object_record::{ObjectRecords, ObjectValue};
pub(crate) use ref_record::{RefPlace, RefRecords};
pub use ref_record::{RefRecord, RefValue};

use crate::{Fault, format::BlockKind};
use refdb_types::{HashKind, ObjectId};

/// What a file's header says that its records depend on.
#[derive(Clone, Copy)]
pub(crate) struct Context {
    pub(crate) hash: HashKind,
    pub(crate) min_update_index: u64,
}

/// One of the four kinds of records.
pub(crate) trait Records {
    /// The kind of block they are in.
    const BLOCK: BlockKind;
    /// Where in the block a record's value is, and its parts that are cheap to read.
    type Value: Copy + Default;

    /// Reads the value at `at` and returns it with where it ends. `records` ends where the block's records end.
    fn parse(
        records: &[u8],
        at: usize,
        value_type: u8,
        context: &Context,
        key: &[u8],
    ) -> Result<(Self::Value, usize), Fault>;

    /// Whether the record hides records of the same key in older tables.
    fn is_deletion(value: &Self::Value) -> bool;
}

/// The object id at `at`, whose place `parse` has checked.
#[inline(always)]
pub(crate) fn id_at(records: &[u8], at: usize, hash: HashKind) -> ObjectId {
    ObjectId::from_bytes(hash, &records[at..at + hash.len_bytes()]).expect("the slice is as long as the id")
}

/// The place of a string that its length precedes.
#[inline]
fn string_at(records: &[u8], at: &mut usize) -> Result<(u32, u32), Fault> {
    let len = crate::format::varint::get_len(records, at)?;
    let start = *at;
    *at = start.checked_add(len).filter(|end| *end <= records.len()).ok_or(Fault::RecordTruncated)?;
    debug_assert!(*at < 1 << 24, "a block is shorter than 16 MiB, so that a place in it has 32 bits");
    Ok((start as u32, len as u32))
}
