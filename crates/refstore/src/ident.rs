//! Who changes refs: the committer's identity for reflogs.

pub(crate) mod passwd;
