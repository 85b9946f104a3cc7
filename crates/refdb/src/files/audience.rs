//! Who reads while the refs of a small batch change one after the other.

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
