//! In which order files are read, and what becomes of them: git-config(1), "FILES".

use super::{BadLine, Config, ConfigError, Level, Origin, Outer, Parser, command_line, include};
use crate::environment::Environment;
use bstr::BString;
use refdb_vfs::Fs;
use std::path::Path;

/// What reading the configuration of a repository needs to know of it.
pub(crate) struct Local<'a> {
    /// For `includeIf.gitdir:`.
    pub(crate) git_dir: &'a Path,
    /// The content of `config` in the common folder, and its path as it is opened and as git shows it.
    pub(crate) file: (&'a [u8], &'a Path, &'a Path),
    /// The same of `config.worktree`, if there is one that counts.
    pub(crate) worktree_file: Option<(&'a [u8], &'a Path, &'a Path)>,
    /// The branch that is checked out, for `includeIf.onbranch:`.
    pub(crate) branch: &'a dyn Fn() -> Option<BString>,
}

/// Reads configuration files into a [`Config`].
pub(crate) struct Loader<'a> {
    pub(super) fs: &'a Fs,
    pub(super) environment: &'a Environment,
    pub(super) outer: &'a Outer,
    pub(super) local: Option<&'a Local<'a>>,
    pub(super) config: Config,
    pub(super) depth: u32,
    /// Set while only remote URLs are looked for: `includeIf.hasconfig:` then counts as false.
    pub(super) only_urls: bool,
    /// Set inside a file that a condition on remote URLs included.
    pub(super) urls_forbidden: bool,
    /// The remote URLs of all files, once a condition has asked for them.
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

    /// Everything, in order.
    pub(crate) fn load(mut self) -> Result<Config, ConfigError> {
        self.read_all()?;
        Ok(self.config)
    }

    pub(super) fn read_all(&mut self) -> Result<(), ConfigError> {
        for (level, path, text) in &self.outer.files {
            self.text(*level, text, path, path)?;
        }
        if let Some(local) = self.local {
            let (text, path, shown) = local.file;
            self.text(Level::Local, text, path, shown)?;
            if let Some((text, path, shown)) = local.worktree_file {
                self.text(Level::Worktree, text, path, shown)?;
            }
        }
        self.command_line()
    }

    /// Reads what a file holds, includes too.
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
                        let from = include::From { level, file: Some((path, shown)), line: variable.line };
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
                self.maybe_include(key, value, &include::From { level: Level::Command, file: None, line: 0 })?;
            }
            Ok(())
        })
    }
}

impl Config {
    /// What one file says, without following its includes. `file` is for messages.
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
