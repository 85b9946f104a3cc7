//! Reflogs: one text file per ref, one line per entry, the oldest first.
//!
//! [`line`] encodes and parses an entry, [`file`] reads and replaces a whole file, and [`logs`] reads and
//! appends by ref name.

pub(super) mod file;
pub(super) mod line;
pub(super) mod logs;

pub(super) use logs::*;
