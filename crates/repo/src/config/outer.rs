//! The configuration files above any repository: the machine's and the user's.

use super::{ConfigError, Level, parse_boolean, read_file};
use crate::environment::Environment;
use bstr::ByteSlice;
use refdb_vfs::Fs;
use std::{io, os::unix::ffi::OsStrExt, path::PathBuf};

/// The content of the configuration files above any repository. It is kept because it may be needed twice: before a
/// repository is trusted, and afterwards.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outer {
    pub(super) files: Vec<(Level, PathBuf, Vec<u8>)>,
    /// The files that were looked for, whether they exist or not.
    pub(super) looked_for: Vec<PathBuf>,
}

impl Outer {
    pub(crate) fn read(fs: &Fs, environment: &Environment) -> Result<Self, ConfigError> {
        let mut outer = Outer::default();
        if !no_system(environment)? {
            let path = environment.get("GIT_CONFIG_SYSTEM").unwrap_or_else(|| "/etc/gitconfig".into());
            outer.add(fs, environment, Level::System, path.into())?;
        }
        for path in global_files(environment).into_iter().flatten() {
            outer.add(fs, environment, Level::Global, path)?;
        }
        Ok(outer)
    }

    fn add(&mut self, fs: &Fs, environment: &Environment, level: Level, path: PathBuf) -> Result<(), ConfigError> {
        debug_assert!(
            self.files.last().is_none_or(|(last, ..)| *last <= level),
            "files come in the order of their rank"
        );
        // As for git, an empty variable names no file.
        if path.as_os_str().is_empty() {
            return Ok(());
        }
        let mut text = Vec::new();
        let file = environment.resolve(&path);
        let read = read_file(fs, &file, level, &mut text);
        self.looked_for.push(file);
        match read {
            Ok(()) => self.files.push((level, path, text)),
            Err(error) if error.is_not_found() => {}
            // The user's files may be in a folder that this process must not read, for instance under sudo.
            Err(error) if level == Level::Global && error.source.kind() == io::ErrorKind::PermissionDenied => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
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

/// Returns the paths of the user's files: that of the XDG specification and then `~/.gitconfig`, or only the file that
/// `GIT_CONFIG_GLOBAL` names.
fn global_files(environment: &Environment) -> [Option<PathBuf>; 2] {
    if let Some(only) = environment.get("GIT_CONFIG_GLOBAL") {
        return [Some(only.into()), None];
    }
    let xdg = match environment.get("XDG_CONFIG_HOME") {
        Some(folder) if !folder.is_empty() => Some(PathBuf::from(folder).join("git/config")),
        _ => environment.expand_home(b"~/.config/git/config"),
    };
    [xdg, environment.expand_home(b"~/.gitconfig")]
}
