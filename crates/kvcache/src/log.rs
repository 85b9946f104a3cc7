//! The log of segments: where bytes are in memory and files, the order of changes, and recovery after a crash.
//!
//! `image` and `segment` hold the bytes of one segment, `handles` keeps a few files open, and `index` finds the record
//! of a key. `append` decides the order of all changes under the log's lock, `files` represents the folder, and `store`
//! combines these and writes. `recover` finds out after a start which segments are usable, and `loading` reads their
//! entries from a saved index or by a `replay`.

pub(crate) mod append;
pub(crate) mod buffer;
pub(crate) mod files;
pub(crate) mod footers;
pub(crate) mod handles;
pub(crate) mod health;
pub(crate) mod image;
pub(crate) mod index;
mod lease;
pub(crate) mod loading;
pub(crate) mod recover;
pub(crate) mod replay;
pub(crate) mod saved;
pub(crate) mod scan;
pub(crate) mod scratch;
pub(crate) mod segment;
pub(crate) mod space;
pub(crate) mod store;
pub(crate) mod tickets;
mod unmarked;
pub(crate) mod view;
