//! packed-refs: one sorted text file with most of a repository's refs (docs/formats/packed-refs.md).
//!
//! A reader opens the file through [`cache`], which validates it by `stat` and keeps what it has read. [`read`] parses
//! records as they are reached, in a mapping, in memory or in [`pages`] that are loaded on demand; [`search`] bisects,
//! with [`far_reads`] in place of page faults; [`look_up`] answers repeated look-ups from compact [`blocks`] that count
//! against a [`budget`]; [`lines`] offers whole lines to listings. A file that claims to be sorted and is not is noticed
//! in [`order`] and sorted in memory from then on.
//!
//! A writer copies what does not change ([`write`]). Transactions that write many refs use [`bulk`]; pack-refs is
//! [`optimize`], and [`background`] does the same beside writers without keeping them waiting.

pub(super) mod background;
pub(super) mod blocks;
pub(super) mod budget;
pub(super) mod bulk;
pub(super) mod cache;
pub(super) mod far_reads;
pub(super) mod lines;
pub(super) mod look_up;
pub(super) mod optimize;
pub(super) mod order;
pub(super) mod pages;
pub(super) mod read;
pub(super) mod search;
pub(super) mod write;
