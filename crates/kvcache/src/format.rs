//! The bytes of the files; see `docs/formats/kvcache.md`. Nothing here touches a disk but `identity`.

pub(crate) mod footer;
pub(crate) mod identity;
pub(crate) mod place;
pub(crate) mod rate;
pub(crate) mod record;
pub(crate) mod seal;
