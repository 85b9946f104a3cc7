//! The lab finds out whether one revision of a program is slower than another, and since which commit.
//!
//! Read in this order: [`scenario`] (the file that says what to run), [`revision`] (builds, which are kept,
//! with [`complaint`] about those that fail) and [`stage`] (one run); [`measure`] (the values of a run), [`compare`]
//! (pairs of runs), [`stats`] (the test by bets) and [`ranks`] (the test after the last pair); [`work`], [`trace`],
//! [`stock`] and [`profile`] (what a side did, and in which functions); [`bisect`](mod@bisect) (the search through a
//! history), [`series`] (changes of a series), [`watch`](mod@watch) (a branch measured as it grows) and [`gate`] (one
//! build against recorded counts); [`report`], [`out`] and [`page`] (results for people, for
//! other tools, and over many commits), [`import`](mod@import) (results of other tools) and
//! [`init`](mod@init) (a first scenario).
//! [`process`], [`counter`], [`calls`], [`perf`], [`emulator`], [`progress`], [`shell`] and [`shown`] are the layer
//! below, parts of which `refdb-bench` uses too.

pub mod bisect;
pub mod cache;
pub mod calls;
pub mod coin;
pub mod compare;
pub mod complaint;
pub mod counter;
pub mod emulator;
pub mod finished;
pub mod gate;
pub mod guard;
pub mod import;
pub mod init;
pub mod lines;
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
pub mod series;
pub mod shell;
pub mod shown;
pub mod stage;
pub mod stats;
pub mod stock;
pub mod trace;
pub mod watch;
pub mod work;
