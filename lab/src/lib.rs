//! The lab: is one revision of a program slower than another, and since which commit?
//!
//! Read in this order: [`scenario`] (the file that says how), [`revision`] (built once, kept) and [`stage`]
//! (one run). Then come [`measure`] (its values), [`compare`] (runs in turn) and [`stats`] (their proof); [`trace`] is the work of a side. [`bisect`](mod@bisect) searches a history.
//! [`report`] says it in words, [`out`] to other tools. [`process`], [`perf`] and [`progress`] are below them, and `refdb-bench` uses them too.

pub mod bisect;
pub mod coin;
pub mod compare;
pub mod finished;
pub mod measure;
pub mod options;
pub mod out;
pub mod perf;
pub mod process;
pub mod progress;
pub mod report;
pub mod revision;
pub mod run;
pub mod scenario;
pub mod stage;
pub mod stats;
pub mod trace;
