//! The surroundings of a command: its current folder and its environment variables.

use bstr::{BStr, ByteSlice};
use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
};

/// The environment variables and the folder that decide which repository is meant and how it is configured.
///
/// A command-line program uses [`Environment::process`]. A server starts from [`Environment::empty`], because its own
/// variables mean nothing for the repositories that it serves.
#[derive(Clone, Debug)]
pub struct Environment {
    inherit: Inherit,
    variables: Vec<(OsString, OsString)>,
    directory: PathBuf,
}

/// Which variables of this process are visible.
#[derive(Clone, Copy, Debug)]
enum Inherit {
    All,
    AllButGit,
    Nothing,
}

impl Inherit {
    fn has(self, name: &[u8]) -> bool {
        match self {
            Inherit::All => true,
            Inherit::AllButGit => !name.starts_with(b"GIT_"),
            Inherit::Nothing => false,
        }
    }
}

impl Environment {
    /// Returns an environment with all variables of this process, and with its current folder.
    pub fn process() -> Self {
        Environment { inherit: Inherit::All, variables: Vec::new(), directory: PathBuf::new() }
    }

    /// Returns an environment with the variables of this process except `GIT_*`. This is for libraries, whose callers
    /// name the repository. Paths are relative to `directory`.
    pub fn without_git(directory: impl Into<PathBuf>) -> Self {
        Environment { inherit: Inherit::AllButGit, variables: Vec::new(), directory: directory.into() }
    }

    /// Returns the variables of this process that must not reach a hook.
    pub(crate) fn hidden(&self) -> Vec<OsString> {
        let names = || std::env::vars_os().map(|(name, _)| name);
        match self.inherit {
            Inherit::All | Inherit::Nothing => Vec::new(),
            Inherit::AllButGit => names().filter(|name| !self.inherit.has(name.as_bytes())).collect(),
        }
    }

    /// Returns an environment without any variables. Paths are relative to `directory`.
    pub fn empty(directory: impl Into<PathBuf>) -> Self {
        Environment { inherit: Inherit::Nothing, variables: Vec::new(), directory: directory.into() }
    }

    /// Sets a variable, as `--git-dir`, `--work-tree` and `--namespace` do.
    #[must_use]
    pub fn with(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.variables.push((name.into(), value.into()));
        self
    }

    /// Adds the setting `key=value` as `-c` does, so that it takes precedence over every file and every earlier `-c`.
    #[must_use]
    pub fn with_config(self, setting: &BStr) -> Self {
        const PARAMETERS: &str = "GIT_CONFIG_PARAMETERS";
        let mut parameters = self.get(PARAMETERS).map(OsString::into_vec).unwrap_or_default();
        if !parameters.is_empty() {
            parameters.push(b' ');
        }
        match setting.find_byte(b'=') {
            Some(at) => {
                quote(&setting[..at], &mut parameters);
                parameters.push(b'=');
                quote(&setting[at + 1..], &mut parameters);
            }
            None => {
                quote(setting, &mut parameters);
                parameters.push(b'=');
            }
        }
        self.with(PARAMETERS, OsString::from_vec(parameters))
    }

    /// Returns the value of a variable, which may be empty, or `None` if it is not set.
    pub fn get(&self, name: &str) -> Option<OsString> {
        match self.variables.iter().rev().find(|(known, _)| known == name) {
            Some((_, value)) => Some(value.clone()),
            None if self.inherit.has(name.as_bytes()) => std::env::var_os(name),
            None => None,
        }
    }

    /// Returns the variables that were set on top of the process's own, which hooks and other child processes need too.
    pub fn overrides(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.variables.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()))
    }

    /// Resolves a path against the folder of this environment. The result is relative if the folder is.
    pub fn resolve(&self, path: &Path) -> PathBuf {
        match (self.directory.as_os_str().is_empty(), path.as_os_str().is_empty()) {
            (true, _) => path.to_owned(),
            (false, true) => self.directory.clone(),
            (false, false) => self.directory.join(path),
        }
    }

    /// Returns the absolute path of the folder.
    pub fn current_dir(&self) -> std::io::Result<PathBuf> {
        if self.directory.as_os_str().is_empty() { std::env::current_dir() } else { self.directory.canonicalize() }
    }

    pub(crate) fn home(&self) -> Option<PathBuf> {
        self.get("HOME").map(PathBuf::from)
    }

    /// Returns the home of a user who is listed in `/etc/passwd`.
    pub(crate) fn home_of(&self, user: &BStr) -> Option<PathBuf> {
        crate::passwd::by_name(user).map(|entry| entry.home)
    }
}

/// Quotes text for a shell: `it's` becomes `'it'\''s'`.
fn quote(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'\'');
    for &byte in text {
        match byte {
            b'\'' | b'!' => out.extend_from_slice(&[b'\'', b'\\', byte, b'\'']),
            _ => out.push(byte),
        }
    }
    out.push(b'\'');
}

pub(crate) fn os(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}
