//! The log of segments: where bytes are in memory and in files, the order of all changes, and what a crash leaves of it.

pub(crate) mod append;
pub(crate) mod buffer;
pub(crate) mod handles;
pub(crate) mod image;
pub(crate) mod index;
pub(crate) mod recover;
pub(crate) mod replay;
pub(crate) mod segment;
pub(crate) mod space;
