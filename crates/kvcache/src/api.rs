//! What users of the crate see.

pub(crate) mod cache;
mod compute;
pub(crate) mod entries;
mod expiry;
pub(crate) mod get;
pub(crate) mod open;
pub(crate) mod options;
pub(crate) mod put;
pub(crate) mod transfer;
pub(crate) mod versions;
