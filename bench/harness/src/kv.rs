//! The persistent key-value cache under Gerrit's shapes of keys and values; see bench/kv-workload.md.
//!
//! Read in this order: [`workload`] (which keys and values, and how often), [`histogram`] (how long), [`drive`]
//! (threads), [`rows`] (operations in their order).

pub mod drive;
pub mod histogram;
pub mod rows;
pub mod workload;
