//! Git's configuration: files in the order git reads them, includes, `-c` and the environment.
//!
//! Our own reader, since start-up is a third of a command that reads one ref (docs/decisions/0020-config-reader.md).

// Read in this order: `parse` (bytes to variables), `outer` and `load` (which files, in which order, and their
// includes). Then read `value` (types), `settings` (the engine's needs) and `edit` (a file's text with a change).
mod command_line;
mod edit;
mod error;
mod git_packs;
mod hooks;
mod include;
mod load;
mod outer;
mod parse;
mod settings;
mod value;

pub(crate) use edit::Edit;
pub(crate) use error::reason;
pub use error::{ConfigError, Place};
pub use git_packs::GitPacks;
pub use hooks::ConfiguredHook;
pub(crate) use include::Local;
pub(crate) use load::Loader;
pub(crate) use outer::Outer;
pub use parse::BadKey;
pub(crate) use parse::{BadLine, Parser};
pub use settings::{Fsync, ReftableSettings, Settings, SharedRepository};
pub(crate) use value::expand_path;
pub use value::{Value, parse_boolean};

use bstr::{BStr, ByteSlice};
use std::path::PathBuf;

/// All variables, in the order in which git reads them: what comes later outranks what comes before.
#[derive(Debug, Default)]
pub struct Config {
    /// Keys and values, one after the other.
    text: Vec<u8>,
    entries: Vec<Entry>,
    origins: Vec<Origin>,
}

#[derive(Debug)]
struct Entry {
    key_start: usize,
    key_end: usize,
    /// As long as the key if there is no `=`; values start right behind the key.
    value_end: Option<usize>,
    origin: usize,
    line: u32,
}

/// Where variables were set.
#[derive(Clone, Debug)]
pub struct Origin {
    /// Whose setting it is.
    pub level: Level,
    /// The file, as git shows it; `None` for the command line and the environment.
    pub file: Option<PathBuf>,
}

/// Whose setting it is; later ones outrank earlier ones.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Level {
    /// The machine's: `/etc/gitconfig`.
    System,
    /// The user's: `~/.gitconfig`.
    Global,
    /// The repository's: `config`.
    Local,
    /// The worktree's: `config.worktree`.
    Worktree,
    /// `-c` and the environment.
    Command,
}

impl Level {
    /// Whether nobody can set it by handing someone else a repository (git-config(1), "SCOPES": protected).
    pub fn is_protected(self) -> bool {
        matches!(self, Level::System | Level::Global | Level::Command)
    }
}

impl Config {
    /// All variables, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Value<'_>> {
        self.entries.iter().map(|entry| self.value(entry))
    }

    /// The value that counts: the last one. `key` is canonical: `core.bare`.
    pub fn last(&self, key: &str) -> Option<Value<'_>> {
        self.all(key).next_back()
    }

    /// All values of a variable that may have many.
    pub fn all(&self, key: &str) -> impl DoubleEndedIterator<Item = Value<'_>> {
        self.entries
            .iter()
            .filter(move |entry| &self.text[entry.key_start..entry.key_end] == key.as_bytes())
            .map(|entry| self.value(entry))
    }

    fn value(&self, entry: &Entry) -> Value<'_> {
        debug_assert!(entry.value_end.is_none_or(|end| entry.key_end <= end), "a value stands behind its key");
        Value {
            key: self.text[entry.key_start..entry.key_end].as_bstr(),
            raw: entry.value_end.map(|end| BStr::new(&self.text[entry.key_end..end])),
            origin: &self.origins[entry.origin],
            line: entry.line,
        }
    }

    /// With room for what a usual set of files says.
    fn with_room() -> Self {
        Config { text: Vec::with_capacity(1024), entries: Vec::with_capacity(32), origins: Vec::with_capacity(4) }
    }

    fn push(&mut self, key: &[u8], value: Option<&[u8]>, origin: usize, line: u32) {
        debug_assert!(origin < self.origins.len(), "it is known where a variable was set");
        debug_assert!(!key.is_empty(), "a variable has a name");
        let key_start = self.text.len();
        self.text.extend_from_slice(key);
        let key_end = self.text.len();
        let value_end = value.map(|value| {
            self.text.extend_from_slice(value);
            self.text.len()
        });
        let last = self.entries.last().map_or(0, |last| last.value_end.unwrap_or(last.key_end));
        debug_assert_eq!(last, key_start, "variables stand one behind the other");
        self.entries.push(Entry { key_start, key_end, value_end, origin, line });
    }
}
