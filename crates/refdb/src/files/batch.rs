//! Small batches: a few refs changed atomically as loose files, without rewriting packed-refs. docs/formats/intent.md
//! explains them: the protocol, the files, and what readers may see.
//!
//! [`commit`] carries out the steps in order. [`entry`] encodes and parses a journal entry; [`journal`] knows the
//! folder in which entries lie, and [`journal_file`] reuses one file for one batch after another. [`recover`] completes
//! or drops a batch whose writer failed or died.

pub(super) mod commit;
pub(super) mod ended;
pub(super) mod entry;
pub(super) mod journal;
pub(super) mod journal_file;
pub(super) mod recover;

pub(super) use commit::{fits, publish};
