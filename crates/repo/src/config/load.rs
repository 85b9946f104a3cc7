//! Reads configuration files in git's order and follows includes: git-config(1), "FILES".

use super::{
    BadLine, Config, ConfigError, Level, Origin, Outer, Parser, command_line, expand_path,
    include::{From, Local, NoFolder, beside, git_dir_matches, is_remote_url, matches, with_all_below},
    read_file,
};
use crate::environment::Environment;
use bstr::{BStr, BString, ByteSlice};
use gix_glob::wildmatch::Mode;
use refdb_vfs::Fs;
use std::path::Path;

/// The greatest depth of nested includes. The limit is git's.
const DEPTH_MAX: u32 = 10;

/// Reads configuration files into a [`Config`].
pub(crate) struct Loader<'a> {
    pub(super) fs: &'a Fs,
    pub(super) environment: &'a Environment,
    pub(super) outer: &'a Outer,
    pub(super) local: Option<&'a Local<'a>>,
    pub(super) config: Config,
    pub(super) depth: u32,
    /// Whether this pass only collects remote URLs. Such a pass also checks that files whose inclusion depends on URLs
    /// configure no URL, even if their condition turns out not to hold.
    pub(super) only_urls: bool,
    /// Whether the current file was included by a condition on remote URLs, directly or through other files.
    pub(super) urls_forbidden: bool,
    /// The remote URLs of all files and of the command line, collected when the first condition asks for them.
    pub(super) remote_urls: Option<Vec<BString>>,
}

impl<'a> Loader<'a> {
    pub(crate) fn new(
        fs: &'a Fs,
        environment: &'a Environment,
        outer: &'a Outer,
        local: Option<&'a Local<'a>>,
    ) -> Self {
        Loader {
            fs,
            environment,
            outer,
            local,
            config: Config::with_room(),
            depth: 0,
            only_urls: false,
            urls_forbidden: false,
            remote_urls: None,
        }
    }

    /// Reads all files in order, and then the settings of the command line.
    pub(crate) fn load(mut self) -> Result<Config, ConfigError> {
        self.config.files.clone_from(&self.outer.looked_for);
        self.read_all()?;
        debug_assert!(self.depth == 0 && !self.urls_forbidden, "all included files have ended");
        Ok(self.config)
    }

    pub(super) fn read_all(&mut self) -> Result<(), ConfigError> {
        debug_assert!(self.outer.files.is_sorted_by_key(|(level, ..)| *level), "a later file outranks an earlier one");
        for (level, path, text) in &self.outer.files {
            self.text(*level, text, path, path)?;
        }
        if let Some(local) = self.local {
            let (text, path, shown) = local.file;
            self.config.files.push(path.to_owned());
            self.text(Level::Local, text, path, shown)?;
            if let Some((text, path, shown)) = local.worktree_file {
                self.text(Level::Worktree, text, path, shown)?;
            }
        }
        self.command_line()
    }

    /// Reads the content of a file and what it includes.
    pub(super) fn text(&mut self, level: Level, text: &[u8], path: &Path, shown: &Path) -> Result<(), ConfigError> {
        let origin = self.config.origins.len();
        self.config.origins.push(Origin { level, file: Some(shown.to_owned()) });
        let mut parser = Parser::new(text);
        loop {
            match parser.next() {
                Ok(None) => return Ok(()),
                Err(BadLine(line)) => return Err(ConfigError::BadLine { line, file: shown.to_owned() }),
                Ok(Some(variable)) => {
                    self.config.push(variable.key, variable.value, origin, variable.line);
                    if variable.key.starts_with(b"include") || self.urls_forbidden {
                        let from = From { level, file: Some((path, shown)), line: variable.line };
                        self.maybe_include(variable.key, variable.value, &from)?;
                    }
                }
            }
        }
    }

    fn command_line(&mut self) -> Result<(), ConfigError> {
        let origin = self.config.origins.len();
        let environment = self.environment;
        command_line::each(environment, &mut |key, value| {
            if self.config.origins.len() == origin {
                self.config.origins.push(Origin { level: Level::Command, file: None });
            }
            self.config.push(key, value, origin, 0);
            if key.starts_with(b"include") {
                self.maybe_include(key, value, &From { level: Level::Command, file: None, line: 0 })?;
            }
            Ok(())
        })
    }

    /// Follows a variable if it is an include whose condition holds. Fails, for example, if it is a remote URL that
    /// must not be configured in this file.
    fn maybe_include(&mut self, key: &[u8], value: Option<&[u8]>, from: &From<'_>) -> Result<(), ConfigError> {
        if self.urls_forbidden && is_remote_url(key) {
            return Err(ConfigError::RemoteUrlInInclude);
        }
        if key == b"include.path" {
            return self.include(value, from, self.urls_forbidden);
        }
        let Some(condition) = key.strip_prefix(b"includeif.").and_then(|rest| rest.strip_suffix(b".path")) else {
            return Ok(());
        };
        let asks_for_urls = condition.starts_with(b"hasconfig:remote.*.url:");
        if self.holds(condition.as_bstr(), from)? {
            self.include(value, from, self.urls_forbidden || asks_for_urls)?;
        }
        Ok(())
    }

    fn include(&mut self, value: Option<&[u8]>, from: &From<'_>, no_urls: bool) -> Result<(), ConfigError> {
        let value = value.ok_or_else(|| from.error("missing value for 'include.path'".into()))?.as_bstr();
        let target = expand_path(value, self.environment)
            .ok_or_else(|| from.error(format!("could not expand include path '{value}'")))?;
        let (path, shown) = match from.file {
            // A relative path is relative to the folder of the file that contains it.
            Some((path, shown)) => (beside(path, &target), beside(shown, &target)),
            None if target.is_absolute() => (target.clone(), target),
            None => return Err(from.error("relative config includes must come from files".into())),
        };
        let mut text = Vec::new();
        let file = self.environment.resolve(&path);
        let read = read_file(self.fs, &file, from.level, &mut text);
        self.config.files.push(file);
        match read {
            Err(error) if error.is_not_found() => return Ok(()),
            read => read?,
        }
        debug_assert!(self.depth <= DEPTH_MAX, "no file is included deeper than the limit");
        if self.depth == DEPTH_MAX {
            let from = from.file.map_or_else(|| "the command line".into(), |(_, shown)| shown.to_owned());
            return Err(ConfigError::IncludeDepth { file: shown, from, most: DEPTH_MAX });
        }
        self.depth += 1;
        let outer = std::mem::replace(&mut self.urls_forbidden, no_urls);
        self.text(from.level, &text, &path, &shown)?;
        self.urls_forbidden = outer;
        self.depth -= 1;
        Ok(())
    }

    fn holds(&mut self, condition: &BStr, from: &From<'_>) -> Result<bool, ConfigError> {
        let after = |keyword: &str| condition.strip_prefix(keyword.as_bytes()).map(BStr::new);
        if let Some(pattern) = after("gitdir:") {
            Ok(self.git_dir_matches(pattern, from, Mode::empty()))
        } else if let Some(pattern) = after("gitdir/i:") {
            Ok(self.git_dir_matches(pattern, from, Mode::IGNORE_CASE))
        } else if let Some(pattern) = after("onbranch:") {
            self.config.depends_on_branch = true;
            let branch = self.local.and_then(|local| (local.branch)());
            Ok(branch.is_some_and(|branch| matches(&with_all_below(pattern.into()), branch.as_ref(), Mode::empty())))
        } else if let Some(pattern) = after("hasconfig:remote.*.url:") {
            self.any_remote_url_matches(pattern)
        } else {
            // An unknown condition does not hold, so that files can be shared with newer versions of git.
            Ok(false)
        }
    }

    fn git_dir_matches(&mut self, pattern: &BStr, from: &From<'_>, mode: Mode) -> bool {
        let Some(local) = self.local else { return false };
        git_dir_matches(pattern, from, mode, local, self.environment).unwrap_or_else(|NoFolder| {
            // As in git, the file is included.
            self.config.complaints.push(NoFolder::TEXT);
            true
        })
    }

    fn any_remote_url_matches(&mut self, pattern: &BStr) -> Result<bool, ConfigError> {
        if self.only_urls {
            // The file is read only to check that it configures no URL. If it did, the condition would depend on its
            // own outcome.
            return Ok(true);
        }
        if self.remote_urls.is_none() {
            let mut scan = Loader::new(self.fs, self.environment, self.outer, self.local);
            scan.only_urls = true;
            scan.read_all()?;
            let urls = scan.config.iter().filter(|value| is_remote_url(value.key)).filter_map(|value| value.raw);
            self.remote_urls = Some(urls.map(BString::from).collect());
        }
        let urls = self.remote_urls.as_deref().unwrap_or_default();
        Ok(urls.iter().any(|url| matches(pattern, url, Mode::empty())))
    }
}

impl Outer {
    /// Reads the configuration that a repository cannot influence: the files of the system and of the user, and the
    /// command line.
    pub(crate) fn protected(&self, fs: &Fs, environment: &Environment) -> Result<Config, ConfigError> {
        Loader::new(fs, environment, self, None).load()
    }
}

impl Config {
    /// Parses the text of a single file without following its includes. `file` is the file's name in messages.
    ///
    /// # Errors
    ///
    /// Returns [`ConfigError::BadLine`] if the text violates the syntax of git-config(1).
    pub fn parse(text: &[u8], file: &Path) -> Result<Config, ConfigError> {
        let mut config = Config::with_room();
        config.origins.push(Origin { level: Level::Local, file: Some(file.to_owned()) });
        let mut parser = Parser::new(text);
        loop {
            match parser.next() {
                Ok(None) => return Ok(config),
                Ok(Some(variable)) => config.push(variable.key, variable.value, 0, variable.line),
                Err(BadLine(line)) => return Err(ConfigError::BadLine { line, file: file.to_owned() }),
            }
        }
    }
}
