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
