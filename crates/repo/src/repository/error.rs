use crate::{
    config::ConfigError,
    messages::{system_text, without_controls},
};
use bstr::BString;
use std::path::PathBuf;

/// The reason why there is no repository to work with. Git exits with status 128 for each of these reasons that it
/// knows.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RepositoryError {
    /// There is no repository in the current folder or above it, as far up as git searches.
    #[error("not a git repository (or any of the parent directories): .git")]
    NotFound,
    /// There is no repository between the current folder and the topmost folder of its file system.
    #[error(
        "not a git repository (or any parent up to mount point {})\n\
         Stopping at filesystem boundary (GIT_DISCOVERY_ACROSS_FILESYSTEM not set).",
        mount_point.display()
    )]
    Boundary {
        /// The nearest folder above the current one that is on another file system, or whose attributes cannot be read.
        mount_point: PathBuf,
    },
    /// `GIT_DIR`, `--git-dir` or a caller names something that is not a repository.
    #[error("not a git repository: '{}'", .0.display())]
    NotARepository(PathBuf),
    /// A server's client names something that is not a repository.
    #[error("'{}' does not appear to be a git repository", .0.display())]
    NotServed(PathBuf),
    /// A `.git` file names something that is not a repository.
    #[error("not a git repository: {}", .0.display())]
    GitFileTarget(PathBuf),
    /// A `.git` file does not begin with `gitdir: `.
    #[error("invalid gitfile format: {}", .0.display())]
    GitFileFormat(PathBuf),
    /// A `.git` file names no path.
    #[error("no path in gitfile: {}", .0.display())]
    GitFileEmpty(PathBuf),
    /// The `commondir` file of a worktree is empty, for instance after a loss of power.
    #[error("failed to read {}: the file is empty", .0.display())]
    CommonDirEmpty(PathBuf),
    /// A `.git` file is larger than 1 MiB.
    #[error("too large to be a .git file: '{}'", .0.display())]
    GitFileTooLarge(PathBuf),
    /// A `.git` is neither a file nor a folder.
    #[error("not a regular file: '{}'", .0.display())]
    NotARegularFile(PathBuf),
    /// The repository belongs to someone else, who could run commands through its configuration.
    #[error(
        "detected dubious ownership in repository at '{path}'\n\
         To add an exception for this directory, call:\n\n\
         \tgit config --global --add safe.directory {quoted}"
    )]
    DubiousOwnership {
        /// The path of the repository.
        path: String,
        /// The path, quoted for a shell.
        quoted: String,
        /// Git's warnings about relative values of `safe.directory`, without `warning: `.
        warnings: Vec<String>,
    },
    /// `safe.bareRepository` forbids a bare repository that was not named.
    #[error("cannot use bare repository '{}' (safe.bareRepository is 'explicit')", .0.display())]
    BareForbidden(PathBuf),
    /// The repository's `core.repositoryFormatVersion` is higher than 1.
    #[error("Expected git repo version <= 1, found {found}")]
    Version {
        /// The value of `core.repositoryFormatVersion`.
        found: i32,
    },
    /// The repository has extensions that are unknown, or that only version 1 allows although its version is 0.
    #[error("{0}")]
    Format(String),
    /// `GIT_REFERENCE_BACKEND` names an unknown format.
    #[error("unknown ref storage format: '{0}'")]
    UnknownRefStorage(String),
    /// The refs were migrated to another format, or moved to another folder, after the repository was opened.
    #[error("the refs of this repository were {} meanwhile; try again", change_of_format(from, to))]
    FormatChanged {
        /// The format when the repository was opened.
        from: &'static str,
        /// The present format, which is the same if only the folder has changed.
        to: &'static str,
    },
    /// `GIT_NAMESPACE` does not make a valid refname.
    #[error("bad git namespace path \"{0}\"")]
    BadNamespace(BString),
    /// An environment variable that has to be a boolean is not one.
    #[error("bad boolean environment value '{value}' for '{name}'")]
    BadEnvironment {
        /// The value of the variable.
        value: BString,
        /// The name of the variable.
        name: &'static str,
    },
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A file or folder cannot be read.
    #[error("unable to read '{}': {}", .0.path.display(), system_text(&.0.source))]
    Io(#[from] refdb_vfs::Error),
    /// The current folder cannot be determined, for example because it is gone or access to it is denied.
    #[error("Unable to read current working directory: {}", system_text(.0))]
    CurrentDir(std::io::Error),
}

fn change_of_format(from: &str, to: &str) -> String {
    if from == to { "moved to another folder".into() } else { format!("migrated from '{from}' to '{to}'") }
}

impl RepositoryError {
    /// Returns what git prints to stderr before it exits with status 128. Control characters other than tabs and
    /// newlines became `?`.
    pub fn report(&self) -> String {
        without_controls(&match self {
            RepositoryError::Config(error) => error.report(),
            RepositoryError::DubiousOwnership { warnings, .. } => {
                let warnings = warnings.iter().map(|warning| format!("warning: {warning}\n"));
                format!("{}fatal: {self}\n", warnings.collect::<String>())
            }
            _ => format!("fatal: {self}\n"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Previously, refs that were moved to another folder were said to be migrated from `files` to `files`.
    #[test]
    fn refs_in_another_folder_are_said_to_be_moved() {
        let said = |from, to| RepositoryError::FormatChanged { from, to }.to_string();
        assert!(said("files", "files").contains("were moved to another folder"));
        assert!(said("files", "reftable").contains("were migrated from 'files' to 'reftable'"));
    }
}
