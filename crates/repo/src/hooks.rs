//! The hooks of a repository: githooks(5), git-hook(1).

mod program;

pub use program::{HookError, HookProgram, HookPrograms, SHELL};

use crate::{Config, ConfigError, Environment, Repository, config::parse_boolean};
use bstr::{BString, ByteSlice};
use refdb_vfs::Fs;
use std::{
    ffi::OsString,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
    sync::Arc,
};

/// Finds the hooks of a repository.
#[derive(Debug)]
pub struct RepositoryHooks {
    fs: Fs,
    config: Arc<Config>,
    /// The folder of hook files.
    folder: PathBuf,
    /// The folder of hook files as it was given, which is how git names it in messages.
    shown_folder: PathBuf,
    /// The folder in which hooks run: the top of the working tree, or the repository's folder if there is no working
    /// tree.
    directory: PathBuf,
    git_dir: PathBuf,
    is_bare: bool,
    environment: Environment,
}

impl RepositoryHooks {
    /// Returns the hooks of a repository. `hooks_path` is `core.hooksPath`, if it is set.
    pub fn new(
        fs: Fs,
        repository: &Repository,
        environment: &Environment,
        config: Arc<Config>,
        hooks_path: Option<PathBuf>,
    ) -> Self {
        let directory = repository.work_tree().unwrap_or(repository.git_dir()).to_owned();
        let shown_folder = hooks_path.clone().unwrap_or_else(|| repository.common_dir().join("hooks"));
        let folder = match hooks_path {
            // A relative path is relative to the folder in which the hook runs.
            Some(path) => directory.join(path),
            None => repository.common_dir().join("hooks"),
        };
        RepositoryHooks {
            fs,
            config,
            folder,
            shown_folder,
            directory,
            git_dir: repository.git_dir().to_owned(),
            is_bare: repository.work_tree().is_none(),
            environment: environment.clone(),
        }
    }

    /// Looks for the reference-transaction hooks. Returns `None` if there are none at the moment.
    ///
    /// # Errors
    ///
    /// Fails as [`programs`](Self::programs) does.
    pub fn find(&self) -> Result<Option<HookPrograms>, ConfigError> {
        let programs = self.programs("reference-transaction")?;
        if programs.is_empty() {
            return Ok(None);
        }
        let directory = absolute(&self.environment, &self.directory);
        let programs = programs.into_iter().map(|program| program.called_from(&directory)).collect();
        Ok(Some(HookPrograms { programs, directory, environment: self.variables() }))
    }

    /// Looks for the programs of an event: first those that the configuration names, unless it disables the event, then
    /// the file of the event's name.
    ///
    /// # Errors
    ///
    /// Fails if git refuses the settings of hooks, for example because a hook has no command, even if the event is
    /// disabled.
    pub fn programs(&self, event: &str) -> Result<Vec<HookProgram>, ConfigError> {
        let configured = self.config.hooks(event)?.into_iter();
        let mut programs: Vec<_> =
            configured.map(|hook| HookProgram::Command(OsString::from_vec(hook.command.into()))).collect();
        let file = self.folder.join(event);
        // As in git, a folder with the event's name is taken for a hook, and fails when it is run.
        if self.fs.is_executable(&file) {
            programs.push(HookProgram::File(absolute(&self.environment, &file)));
        }
        Ok(programs)
    }

    /// Returns git's warnings about the settings of hooks, without the prefix `warning: `. Git prints them when it
    /// looks for a hook for the first time.
    #[doc(hidden)]
    pub fn warnings(&self) -> Vec<String> {
        self.config.hook_warnings()
    }

    /// Returns git's advice about a hook file that is ignored because it is not executable. Returns `None` if there is
    /// no such file, or if `advice.ignoredHook` or `GIT_ADVICE` disables the advice.
    pub fn ignored(&self, event: &str) -> Option<String> {
        if !self.fs.is_execution_denied(&self.folder.join(event)) || !self.advises("advice.ignoredhook") {
            return None;
        }
        let folder = self.shown_folder.as_os_str().as_bytes();
        let folder = folder.strip_prefix(b"./").unwrap_or(folder).as_bstr();
        Some(format!(
            "hint: The '{folder}/{event}' hook was ignored because it's not set as executable.\n\
             hint: You can disable this warning with `git config set advice.ignoredHook false`.\n"
        ))
    }

    fn advises(&self, key: &str) -> bool {
        let is_off = |value: &OsString| parse_boolean(Some(value.as_bytes().as_bstr())) == Some(false);
        let configured = self.config.last(key).is_none_or(|value| value.boolean().unwrap_or(true));
        configured && !self.environment.get("GIT_ADVICE").as_ref().is_some_and(is_off)
    }

    /// Returns how the variables of a hook differ from those of this process: by the environment's changes, and by what
    /// git sets for its hooks. `GIT_DIR` is set if it was given, or if there is no working tree. Paths are made
    /// absolute if the current folder is known, because a hook may run in another folder.
    fn variables(&self) -> Vec<(OsString, Option<OsString>)> {
        let mut variables = self.environment.changes();
        if self.is_bare || self.environment.get("GIT_DIR").is_some() {
            let git_dir = absolute(&self.environment, &self.git_dir);
            variables.push(("GIT_DIR".into(), Some(git_dir.into_os_string())));
        }
        for name in ["GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY"] {
            if let Some(path) = self.environment.get(name).filter(|path| !path.is_empty()) {
                variables.push((name.into(), Some(absolute(&self.environment, Path::new(&path)).into_os_string())));
            }
        }
        variables.push(("GIT_PREFIX".into(), Some(self.prefix())));
        variables
    }

    /// Returns the path from the folder in which hooks run to the current folder, with a slash at its end. The result
    /// is empty if the current folder is not known to be below the folder in which hooks run.
    fn prefix(&self) -> OsString {
        let from = self.directory.canonicalize().ok();
        let here = self.environment.current_dir().ok();
        let below = from.zip(here).and_then(|(from, here)| here.strip_prefix(from).ok().map(ToOwned::to_owned));
        let mut prefix = BString::from(below.unwrap_or_default().as_os_str().as_bytes());
        if !prefix.is_empty() && !prefix.ends_with_str("/") {
            prefix.push(b'/');
        }
        OsString::from_vec(prefix.into())
    }
}

fn absolute(environment: &Environment, path: &Path) -> PathBuf {
    match environment.current_dir() {
        // A `.` for the repository's folder should not appear in the path.
        Ok(here) => here.join(path).components().collect(),
        Err(_) => path.to_owned(),
    }
}
