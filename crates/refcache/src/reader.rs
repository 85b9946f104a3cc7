//! The queries that a view makes about the refs of an open repository, whatever their format.

use crate::{
    Found, Result, answer::Answer, found::Pointing, in_flight::InFlightBatches, listing::Source, memory::Part,
    plan::Plan,
};
use bstr::{BStr, BString};
use refdb::{Store, transaction::ObjectCheck};
use refdb_types::ObjectId;
use std::sync::Arc;

/// Reads the refs of one open repository.
///
/// Each answer either is current as the trust settings define it, or says that it is current only if the folder still
/// holds the repository that was opened. `store` is always the store of that repository.
pub(crate) trait ReadRefs: Send + Sync {
    /// Looks up one ref.
    fn get(&self, store: &Store, name: &BStr) -> Result<Answer<Option<Found>>>;

    /// Looks up several refs, whose names are sorted, as of one point in time as far as the format allows.
    fn get_many(&self, store: &Store, names: &[&BStr]) -> Result<Answer<Vec<Option<Found>>>>;

    /// Begins a listing.
    fn list(&self, plan: &Plan) -> Result<Answer<Box<dyn Source>>>;

    /// Finds, for each object, the refs below `refs/` that point at it, directly or, as far as the reader can tell,
    /// through an annotated tag. An object is left out if more than `most` refs in packed-refs or in one table point at
    /// it, those with a newer value elsewhere included.
    fn pointing_at(&self, ids: &[ObjectId], most: usize, objects: &dyn ObjectCheck) -> Result<Answer<Pointing>>;

    /// Looks up every loose ref, and records those that are broken.
    fn look_for_broken(&self) -> Result<()>;

    /// The names for which memory may differ from `disk`: those that are cached one by one, and those whose cached
    /// pages differ from the disk.
    fn questionable(&self, disk: &Store) -> Result<Vec<BString>>;

    /// A number that grows whenever refs are changed here or found to have changed.
    fn sequence(&self) -> u64;

    /// The number of this reader, which no other reader of the process has.
    fn owner(&self) -> u64;

    /// The batches of this process that are being written as loose files; `None` if the format has none.
    fn in_flight(&self) -> Option<&Arc<InFlightBatches>>;

    /// Makes the next query check the disk, whatever the trust settings allow.
    fn invalidate(&self);

    /// Makes the next query of every view of the repository check the disk, after refs were changed here.
    fn wrote(&self);

    /// Bytes of private memory that the reader holds itself.
    fn bytes(&self) -> usize;

    /// Releases a part of the memory that the reader holds.
    fn release(&self, part: Part);
}
