//! How room is freed: `plan` and `keep` decide, without effects; `evict` does it; `worker` says when.

pub(crate) mod evict;
pub(crate) mod keep;
pub(crate) mod plan;
pub(crate) mod worker;
