//! The lab: is one revision of a program slower than another, and since which commit?
//!
//! Read in this order: [`scenario`] (the file that says how), [`revision`] (built once, kept) and [`stage`]
//! (one run). Then come [`measure`] (its values), [`compare`] (runs in turn), [`stats`] (their proof, by bets) and
//! [`ranks`] (at the last pair). [`work`] is the work of a side, from its [`trace`] and its [`stock`] of refs, and
//! [`profile`] has its functions. [`bisect`](mod@bisect) searches a history. [`gate`] holds one build against recorded
//! counts. [`report`] says it in words, [`out`] to other tools, [`page`] over many commits. [`process`], [`counter`],
//! [`calls`], [`perf`], [`emulator`] and [`progress`] are below them, and `refdb-bench` uses them too.

pub mod bisect;
pub mod cache;
pub mod calls;
pub mod coin;
pub mod compare;
pub mod counter;
pub mod emulator;
pub mod finished;
pub mod gate;
pub mod guard;
pub mod measure;
pub mod options;
pub mod out;
pub mod page;
pub mod perf;
pub mod process;
pub mod profile;
pub mod progress;
pub mod ranks;
pub mod report;
pub mod revision;
pub mod run;
pub mod scenario;
pub mod stage;
pub mod stats;
pub mod stock;
pub mod trace;
pub mod work;
