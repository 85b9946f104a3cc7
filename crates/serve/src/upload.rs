//! The part of upload-pack that needs refs only: capabilities, `ls-refs`, and the advertisement of versions 0 and 1.
//! Everything else is left to git.

pub(crate) mod capabilities;
pub(crate) mod ls_refs;
pub(crate) mod rows;
pub(crate) mod wants;

/// How much of a request is interpreted: room for more prefixes or wants than any git sends. A longer one is left to
/// git.
pub(crate) const REQUEST_BYTES_MAX: usize = 8 << 20;

/// How much of a request is read at once. Nearly all requests are shorter.
pub(crate) const READ_BYTES: usize = 8 << 10;
