//! Measures refdb beside git: the same jobs on the same repositories, in turn, in one run.
//!
//! Read in this order: [`size`] and [`seed`] (the repositories the jobs start from), [`job`], [`described`] and
//! [`catalogue`] (commands, and targets). Then come [`bench`](mod@bench) and [`run`], [`paired`] (wall time),
//! [`instructions`] (the steady measure) and [`writers`] (many writers at once). Last come [`same`] (both must end with
//! the same refs) and [`report`] (the tables).

pub mod bench;
pub mod catalogue;
pub mod described;
pub mod instructions;
pub mod job;
pub mod kv;
pub mod options;
pub mod paired;
pub mod place;
pub mod process;
pub mod push;
pub mod receive;
pub mod record;
pub mod report;
pub mod run;
pub mod same;
pub mod seed;
pub mod size;
pub mod writers;
