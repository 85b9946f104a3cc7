//! Git's configuration: files in the order in which git reads them, includes, `-c`, and the environment.
//!
//! The reader is our own, because nearly every command reads the configuration, and start-up is a third of the cost of
//! a command that reads one ref (docs/decisions/0020-config-reader.md).

// Read in this order: `parse` turns bytes into variables; `outer` and `load` decide which files are read, in which
// order, and follow includes; `value` interprets values; `settings` collects what the engine needs; `edit` changes the
// text of a file.
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
pub use error::{BadSetting, ConfigError, Place};
pub use git_packs::GitPacks;
pub use hooks::ConfiguredHook;
pub(crate) use include::Local;
pub(crate) use load::Loader;
pub(crate) use outer::Outer;
pub use parse::BadKey;
pub(crate) use parse::{BadLine, Parser};
pub use settings::{Fsync, ReftableSettings, Settings, SharedRepository};
pub(crate) use value::expand_path;
pub use value::{Abbreviation, DIGITS_MIN, Value, parse_boolean};

use bstr::{BStr, ByteSlice};
use refdb_vfs::Fs;
use std::{
    io,
    path::{Path, PathBuf},
};

/// The size limit of a configuration file in bytes. It is far above the size of any that people or programs write, and
/// protects a server from a file that fills its memory.
const FILE_MAX_BYTES: usize = 64 << 20;

/// All variables in the order in which git reads them. A later value takes precedence over an earlier one.
#[derive(Debug, Default)]
pub struct Config {
    /// Keys and values, one after the other.
    text: Vec<u8>,
    entries: Vec<Entry>,
    origins: Vec<Origin>,
    pub(crate) files: Vec<PathBuf>,
    depends_on_branch: bool,
    complaints: Vec<&'static str>,
}

#[derive(Debug)]
struct Entry {
    key_start: usize,
    key_end: usize,
    /// The end of the value, or `None` if the variable has no `=`. A value starts right after its key.
    value_end: Option<usize>,
    origin: usize,
    line: u32,
}

/// Where variables were set.
#[derive(Clone, Debug)]
pub struct Origin {
    /// The scope of the setting.
    pub level: Level,
    /// The file, as git shows it; `None` for the command line and the environment.
    pub file: Option<PathBuf>,
}

/// The scope of a setting. Later scopes take precedence over earlier ones.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Level {
    /// The machine: `/etc/gitconfig`, or the file that `GIT_CONFIG_SYSTEM` names.
    System,
    /// The user: the file of the XDG specification and `~/.gitconfig`, or the file that `GIT_CONFIG_GLOBAL` names.
    Global,
    /// The repository: `config`.
    Local,
    /// The worktree: `config.worktree`.
    Worktree,
    /// The command line and the environment: `-c`, `GIT_CONFIG_COUNT`.
    Command,
}

impl Config {
    /// Returns all variables in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Value<'_>> {
        self.entries.iter().map(|entry| self.value(entry))
    }

    /// Returns the files that decide what the configuration is: those that were read for it, and those that were looked
    /// for but do not exist or must not be read. While none of them changes, the configuration of a repository that
    /// stays in its place is the same in the same environment, unless it [depends on the
    /// branch](Self::depends_on_branch) or on the home of a `~user`.
    ///
    /// A file whose inclusion depends on remote URLs is listed only if its condition holds. While the condition does
    /// not hold, git still refuses the configuration if that file configures a remote URL.
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// Returns whether an include depends on the branch that is checked out (`includeIf.onbranch:`).
    pub fn depends_on_branch(&self) -> bool {
        self.depends_on_branch
    }

    /// Returns the effective value of a variable, which is the last one. `key` must be canonical: `core.bare`.
    pub fn last(&self, key: &str) -> Option<Value<'_>> {
        self.all(key).next_back()
    }

    /// Returns all values of a variable that may occur several times.
    pub fn all(&self, key: &str) -> impl DoubleEndedIterator<Item = Value<'_>> {
        self.entries
            .iter()
            .filter(move |entry| &self.text[entry.key_start..entry.key_end] == key.as_bytes())
            .map(|entry| self.value(entry))
    }

    /// Returns what git prints with the prefix `error: ` while it reads the configuration, and then goes on.
    pub fn complaints(&self) -> &[&'static str] {
        &self.complaints
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

    /// Allocates room for the usual number of variables.
    fn with_room() -> Self {
        Config {
            text: Vec::with_capacity(1024),
            entries: Vec::with_capacity(32),
            origins: Vec::with_capacity(4),
            ..Config::default()
        }
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

/// Reads a configuration file of this level into `text`. Fails if the file exceeds the size limit.
pub(crate) fn read_file(fs: &Fs, path: &Path, level: Level, text: &mut Vec<u8>) -> Result<(), refdb_vfs::Error> {
    match level {
        // A pipe in the place of such a file is an error, because it would let whoever may write to a repository block
        // those who read it.
        Level::Local | Level::Worktree => read_limited(fs, path, FILE_MAX_BYTES, text),
        Level::System | Level::Global | Level::Command => {
            fs.read_input(path, FILE_MAX_BYTES, text)?;
            require_size(path, FILE_MAX_BYTES, text)
        }
    }
}

/// Reads a file into `buffer`. Fails if the file has more than `max_bytes` bytes.
pub(crate) fn read_limited(
    fs: &Fs,
    path: &Path,
    max_bytes: usize,
    buffer: &mut Vec<u8>,
) -> Result<(), refdb_vfs::Error> {
    fs.read_small(path, true, max_bytes, buffer)?;
    require_size(path, max_bytes, buffer)
}

fn require_size(path: &Path, max_bytes: usize, buffer: &[u8]) -> Result<(), refdb_vfs::Error> {
    if buffer.len() > max_bytes {
        let source = io::ErrorKind::FileTooLarge.into();
        return Err(refdb_vfs::Error { operation: "read", path: path.to_owned(), source });
    }
    Ok(())
}
