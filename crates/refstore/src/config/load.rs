//! Which files there are and in which order they are read: git-config(1), "FILES".

use super::{BadLine, Config, ConfigError, Level, Origin, Parser, command_line, include, parse_boolean};
use crate::environment::{Environment, os};
use bstr::{BString, ByteSlice};
use refdb_vfs::Fs;
use std::{
    io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

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
    pub(crate) fn new(fs: &'a Fs, environment: &'a Environment, local: Option<&'a Local<'a>>) -> Self {
        Loader {
            fs,
            environment,
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
        let mut buffer = Vec::new();
        if !no_system(self.environment)? {
            let path = self.environment.get("GIT_CONFIG_SYSTEM").unwrap_or_else(|| "/etc/gitconfig".into());
            self.optional_file(Level::System, path.as_ref(), &mut buffer)?;
        }
        for path in global_files(self.environment).into_iter().flatten() {
            self.optional_file(Level::Global, &path, &mut buffer)?;
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

    /// Reads a file that need not be there.
    pub(super) fn optional_file(&mut self, level: Level, path: &Path, buffer: &mut Vec<u8>) -> Result<(), ConfigError> {
        match self.fs.read_small(&self.environment.resolve(path), true, buffer) {
            Ok(()) => self.text(level, buffer, path, path),
            Err(error) if error.is_not_found() => Ok(()),
            // The user's own files may lie where this process has no right to look, under sudo for instance.
            Err(error) if level == Level::Global && error.source.kind() == io::ErrorKind::PermissionDenied => Ok(()),
            Err(error) => Err(error.into()),
        }
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

fn no_system(environment: &Environment) -> Result<bool, ConfigError> {
    const NAME: &str = "GIT_CONFIG_NOSYSTEM";
    match environment.get(NAME) {
        None => Ok(false),
        Some(value) => parse_boolean(Some(value.as_bytes().as_bstr()))
            .ok_or_else(|| ConfigError::BadEnvironment { value: value.as_bytes().into(), name: NAME }),
    }
}

/// The user's files: the one that XDG wants, then the old one; or the one that `GIT_CONFIG_GLOBAL` names.
fn global_files(environment: &Environment) -> [Option<PathBuf>; 2] {
    if let Some(only) = environment.get("GIT_CONFIG_GLOBAL") {
        return [Some(only.into()), None];
    }
    let home = environment.home();
    let xdg = match environment.get("XDG_CONFIG_HOME") {
        Some(folder) if !folder.is_empty() => Some(PathBuf::from(folder).join("git/config")),
        _ => home.as_ref().map(|home| home.join(".config/git/config")),
    };
    [xdg, home.map(|home| home.join(os(b".gitconfig")))]
}
