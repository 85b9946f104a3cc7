//! The part of upload-pack that needs only refs: capabilities, `ls-refs`, the advertisement of versions 0 and 1, and
//! the check of wants. Git does everything else.

pub(crate) mod capabilities;
pub(crate) mod ls_refs;
pub(crate) mod rows;
pub(crate) mod wants;

/// The number of bytes beyond which the server stops examining a request and passes it to git. Git's own clients hardly
/// send as much.
pub(crate) const REQUEST_BYTES_MAX: usize = 8 << 20;

/// Maximum number of bytes that are read at once from the beginning of a request to upload-pack. Nearly all such
/// requests are shorter.
pub(crate) const READ_BYTES: usize = 8 << 10;
