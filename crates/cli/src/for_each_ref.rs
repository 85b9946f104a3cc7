//! `refdb for-each-ref`. See git-for-each-ref(1).

// `format` compiles `--format` into pieces made of `atom`s, and `patterns` say which refs are listed. `render` writes
// the refs, and asks the `world` for objects only if a field needs one. `sort` keeps refs only if they are shown in
// another order than they are stored in. `list` does all of it, for branches and tags too. `reach` looks at `history`; `remote` tells where branches come from;
// `repository` is the real world. `questions` go to git's other programs.
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
