//! Small batches: a few refs changed atomically as loose files, without rewriting packed-refs
//! (docs/formats/intent.md).
//!
//! [`commit`] writes a batch in the order that docs/crash-model.md proves. Its journal entry ([`entry`] has the format)
//! lies in one of the files that [`journal`] finds and [`journal_file`] reuses; [`recover`] completes or reverts a batch
//! whose writer failed or died.

pub(super) mod commit;
pub(super) mod entry;
pub(super) mod journal;
pub(super) mod journal_file;
pub(super) mod recover;

pub(super) use commit::{fits, publish};

use bstr::BString;
use refdb_types::ObjectId;
use std::path::Path;

/// The readers of a process. Of its own small batches they are to see all or nothing.
pub trait Audience: Send + Sync {
    /// From now on a batch may show in part. `refs` are its refs and their old values; their locks are held. Returns a
    /// number for [`end`](Self::end).
    fn begin(&self, refs: Vec<(BString, Option<ObjectId>)>) -> u64;

    /// The batch is over, and its record is gone. Or it could not be settled: then its record, `unsettled`, is there until
    /// someone does.
    fn end(&self, batch: u64, unsettled: Option<&Path>);
}
