//! Writing packed-refs.
//!
//! [`write`] makes a new file by copying what does not change. Transactions that write many refs use [`bulk`].
//! [`optimize`] implements pack-refs, and [`background`] does the same for a server once there are many loose refs.
//! Both take two steps: [`merge`] writes the loose values to packed-refs, whose lock it normally takes only once the
//! new file is made, and [`prune`] removes the loose files.

pub(super) mod background;
pub(super) mod bulk;
mod candidates;
pub(super) mod job;
mod merge;
pub(super) mod optimize;
mod prune;
pub(super) mod write;
