//! Loose refs: one small file per ref.
//!
//! [`file`] parses and encodes one of them, [`listing`] reads one folder, and [`folders`] creates and removes the
//! folders that names with slashes need.

pub(super) mod file;
pub(super) mod folders;
pub(super) mod listing;

pub(super) use file::*;
