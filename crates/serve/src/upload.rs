//! The part of upload-pack that needs refs only: capabilities, `ls-refs`, and the advertisement of versions 0 and 1.
//! Everything else is left to git.

pub(crate) mod capabilities;
pub(crate) mod ls_refs;
pub(crate) mod rows;
pub(crate) mod wants;
