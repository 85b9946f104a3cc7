//! Reflogs: one text file per ref, one line per entry, the oldest first.
//!
//! [`line`] encodes and parses an entry, [`file`] reads and replaces a whole file, [`logs`] reads and appends by ref
//! name, and [`edit`] drops entries under git's locks.

pub(super) mod edit;
pub(super) mod file;
pub(super) mod line;
pub(super) mod logs;

pub(super) use logs::*;
