//! The persistent key-value cache under Gerrit's shapes of keys and values; see bench/kv-workload.md.
//!
//! Read [`workload`] (which keys and values, and how often) and [`histogram`] (how long) first. Then read [`drive`]
//! (threads) and [`rows`] (operations in their order).

pub mod drive;
pub mod histogram;
pub mod rows;
pub mod workload;
