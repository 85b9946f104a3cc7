//! The bytes of the files, as `docs/formats/kvcache.md` describes them. Only `identity` touches a disk.

pub(crate) mod footer;
pub(crate) mod identity;
pub(crate) mod place;
pub(crate) mod rate;
pub(crate) mod record;
pub(crate) mod saved;
pub(crate) mod seal;
