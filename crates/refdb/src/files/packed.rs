//! packed-refs as readers see it: one sorted text file with most of a repository's refs
//! (docs/formats/packed-refs.md).
//!
//! [`cache`] opens the file, validates it by `stat` and keeps what it has read from its [`source`]. [`read`] parses
//! records as they are reached, in a mapping, in memory or in [`pages`] that are loaded on demand. [`search`] bisects,
//! with [`far_reads`] in place of page faults; [`look_up`] answers repeated look-ups from compact [`blocks`]; [`lines`]
//! offers whole lines to listings. [`order`] notices a file that claims to be sorted and is not, which is sorted in
//! memory from then on.

pub(super) mod blocks;
pub(super) mod cache;
pub(super) mod disorder;
pub(super) mod far_reads;
pub(super) mod lines;
pub(super) mod look_up;
pub(super) mod order;
pub(super) mod pages;
pub(super) mod read;
pub(super) mod search;
pub(super) mod source;
