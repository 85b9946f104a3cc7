use crate::config::{ConfigError, reason};
use bstr::BString;
use std::path::PathBuf;

/// Why there is no repository to work with. Git ends with status 128 for each of these.
#[derive(Debug, thiserror::Error)]
pub enum RepositoryError {
    /// Neither here nor above.
    #[error("not a git repository (or any of the parent directories): .git")]
    NotFound,
    /// Not found before the file system's boundary.
    #[error(
        "not a git repository (or any parent up to mount point {})\n\
         Stopping at filesystem boundary (GIT_DISCOVERY_ACROSS_FILESYSTEM not set).",
        mount_point.display()
    )]
    Boundary {
        /// The topmost folder of the file system.
        mount_point: PathBuf,
    },
    /// `GIT_DIR` or `--git-dir` names something else.
    #[error("not a git repository: '{}'", .0.display())]
    NotARepository(PathBuf),
    /// A server's client names something else.
    #[error("'{}' does not appear to be a git repository", .0.display())]
    NotServed(PathBuf),
    /// A `.git` file leads to something else.
    #[error("not a git repository: {}", .0.display())]
    GitFileTarget(PathBuf),
    /// A `.git` file does not begin with `gitdir: `.
    #[error("invalid gitfile format: {}", .0.display())]
    GitFileFormat(PathBuf),
    /// A `.git` file names nothing.
    #[error("no path in gitfile: {}", .0.display())]
    GitFileEmpty(PathBuf),
    /// A `.git` file is no path, but far larger.
    #[error("too large to be a .git file: '{}'", .0.display())]
    GitFileTooLarge(PathBuf),
    /// A `.git` that is neither file nor folder.
    #[error("not a regular file: '{}'", .0.display())]
    NotARegularFile(PathBuf),
    /// It belongs to someone else, who could run commands through its configuration.
    #[error(
        "detected dubious ownership in repository at '{path}'\n\
         To add an exception for this directory, call:\n\n\
         \tgit config --global --add safe.directory {quoted}"
    )]
    DubiousOwnership {
        /// The path.
        path: String,
        /// The path as a shell needs it.
        quoted: String,
        /// Git's warnings about relative values of `safe.directory`, without `warning: `.
        warnings: Vec<String>,
    },
    /// `safe.bareRepository` forbids to take a bare repository that was merely come across.
    #[error("cannot use bare repository '{}' (safe.bareRepository is 'explicit')", .0.display())]
    BareForbidden(PathBuf),
    /// A version that does not exist yet.
    #[error("Expected git repo version <= 1, found {found}")]
    Version {
        /// `core.repositoryFormatVersion`.
        found: i32,
    },
    /// Extensions that are not understood.
    #[error("{0}")]
    Format(String),
    /// `GIT_REFERENCE_BACKEND` names a format that is not known.
    #[error("unknown ref storage format: '{0}'")]
    UnknownRefStorage(String),
    /// The refs were brought into another format since the repository was opened. Nothing was written.
    #[error("the refs of this repository were migrated from '{from}' to '{to}' meanwhile; try again")]
    FormatChanged {
        /// The format that they had.
        from: &'static str,
        /// The format that they have.
        to: &'static str,
    },
    /// `GIT_NAMESPACE` would make no refname.
    #[error("bad git namespace path \"{0}\"")]
    BadNamespace(BString),
    /// An environment variable that shall be a boolean is none.
    #[error("bad boolean environment value '{value}' for '{name}'")]
    BadEnvironment {
        /// The value.
        value: BString,
        /// The variable.
        name: &'static str,
    },
    /// The configuration is broken.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A file cannot be read.
    #[error("unable to read '{}': {}", .0.path.display(), reason(&.0.source))]
    Io(#[from] refdb_vfs::Error),
    /// The folder that we are in is gone or closed to us.
    #[error("Unable to read current working directory: {}", reason(.0))]
    CurrentDir(std::io::Error),
}

impl RepositoryError {
    /// What git prints to stderr before it ends with status 128.
    pub fn report(&self) -> String {
        match self {
            RepositoryError::Config(error) => error.report(),
            RepositoryError::DubiousOwnership { warnings, .. } => {
                let warnings = warnings.iter().map(|warning| format!("warning: {warning}\n"));
                format!("{}fatal: {self}\n", warnings.collect::<String>())
            }
            _ => format!("fatal: {self}\n"),
        }
    }
}
