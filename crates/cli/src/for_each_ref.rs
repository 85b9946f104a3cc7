//! `refdb for-each-ref`. See git-for-each-ref(1).

// `format` compiles `--format` into pieces made of `atom`s, and `patterns` decide which refs are listed. `render`
// formats a ref, and asks the `world` for whatever else a field needs. `list` combines all of this, and keeps the refs
// in memory if it must `sort` them, if a field or the format depends on all of them, or if git would judge the objects
// of all of them before it shows the first; `branch` and `tag` use it too. `reach` walks `history`; `remote` finds the
// upstream of a branch; `repository` is the world of a real repository; `questions` runs other programs of git.
pub mod atom;
pub mod bases;
pub mod color;
pub mod date;
pub mod describe;
pub mod filter;
pub mod format;
pub mod history;
pub mod list;
pub mod object;
pub mod options;
pub mod patterns;
pub mod person;
pub mod questions;
pub mod quote;
pub mod reach;
pub mod remote;
pub mod render;
pub mod repository;
mod run;
pub mod sort;
pub mod trailers;
pub mod version;
pub mod world;

pub use options::{COMMAND, REFS_LIST};
pub use run::{run, run_refs_list};
