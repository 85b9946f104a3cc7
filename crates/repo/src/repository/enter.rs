//! Resolves the repository that a server's client names, by git's rules for `git receive-pack <git-dir>` and
//! `git upload-pack <git-dir>`.

use super::{RepositoryError, Served, discover, ownership};
use crate::{
    config::Outer,
    environment::{Environment, os},
};
use bstr::ByteSlice;
use refdb_vfs::Fs;
use std::{
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

/// The endings that may be missing from the path, in the order in which git tries them.
const SUFFIXES: [&str; 4] = ["/.git", "", ".git/.git", ".git"];

/// A repository that was found by its path.
struct Found {
    folder: PathBuf,
    /// The gitfile that names the folder, if the path is that of a gitfile.
    gitfile: Option<PathBuf>,
}

/// Resolves a path for a service that checks the owner.
pub(super) fn folder(fs: &Fs, environment: &Environment, given: &Path) -> Result<Served, RepositoryError> {
    let path = environment
        .expand_home(given.as_os_str().as_bytes())
        .ok_or_else(|| RepositoryError::NotServed(given.to_owned()))?;
    let Found { folder, gitfile } = find(fs, environment, given, &path, &SUFFIXES)?;
    let mut parts = vec![fs.stat_link(&folder)?];
    if let Some(gitfile) = gitfile {
        parts.push(fs.stat_link(&gitfile)?);
    }
    let outer = || Outer::read(fs, environment);
    let shown = || folder.canonicalize().unwrap_or_else(|_| folder.clone());
    let warnings = ownership::check(fs, environment, &parts, &outer, &shown)?;
    Ok(Served { folder, warnings })
}

/// Resolves a path for a service that does not check the owner. If `is_strict`, the path has to be that of the
/// repository itself: `~` is not expanded, and no ending may be missing.
pub(super) fn folder_of_anyone(
    fs: &Fs,
    environment: &Environment,
    given: &Path,
    is_strict: bool,
) -> Result<PathBuf, RepositoryError> {
    if is_strict {
        return Ok(find(fs, environment, given, given, &[""])?.folder);
    }
    let path = environment
        .expand_home(given.as_os_str().as_bytes())
        .ok_or_else(|| RepositoryError::NotServed(given.to_owned()))?;
    Ok(find(fs, environment, given, &path, &SUFFIXES)?.folder)
}

/// Finds the repository at `path` with the first ending for which there is a repository. A file with such a name has to
/// be a gitfile that leads to a repository.
fn find(
    fs: &Fs,
    environment: &Environment,
    given: &Path,
    path: &Path,
    suffixes: &[&str],
) -> Result<Found, RepositoryError> {
    let not_there = || RepositoryError::NotServed(given.to_owned());
    let path = environment.resolve(path);
    let bytes = path.as_os_str().as_bytes();
    let bytes = if bytes.len() > 1 { bytes.trim_end_with(|c| c == '/') } else { bytes };
    for suffix in suffixes {
        let path = [bytes, suffix.as_bytes()].concat();
        let path = os(&path);
        let stat = match fs.stat(path) {
            // A file system that fails does not say that there is no repository.
            Err(error) if error.is_transient() => return Err(error.into()),
            Err(_) => continue,
            Ok(stat) => stat,
        };
        if stat.is_file() {
            let folder = discover::gitfile_target(fs, path)?;
            if !discover::is_repository(fs, environment, &folder)? {
                return Err(not_there());
            }
            return Ok(Found { folder, gitfile: Some(path.to_owned()) });
        }
        if discover::is_repository(fs, environment, path)? {
            return Ok(Found { folder: path.to_owned(), gitfile: None });
        }
    }
    Err(not_there())
}
