//! Notices that a repository's refs were migrated to another format since it was opened. A writer has to check this
//! after it has taken its locks and before it writes.

use super::{RefStorage, RepositoryError, format::Format};
use crate::config::{Level, read_file};
use refdb_vfs::{Fs, Stat};
use std::path::PathBuf;

/// The format of a repository's refs when it was opened, and the attributes of `config`. While the attributes are
/// unchanged, the format counts as unchanged, and a check takes a single stat. On a network file system each check
/// reads `config` again instead.
#[derive(Clone, Debug)]
pub struct FormatWatch {
    pub(super) config: PathBuf,
    pub(super) common_dir: PathBuf,
    /// The attributes of `config`, taken before it was read; `None` if the file did not exist.
    pub(super) seen: Option<Stat>,
    pub(super) storage: RefStorage,
}

impl FormatWatch {
    /// Checks that the refs still have the same format. If `config` does not exist, nothing counts as changed.
    ///
    /// # Errors
    ///
    /// Returns [`RepositoryError::FormatChanged`] if the refs have another format or are in another folder by now, and
    /// other errors if `config` cannot be read or parsed.
    pub fn check(&self, fs: &Fs) -> Result<(), RepositoryError> {
        debug_assert!(self.config.starts_with(&self.common_dir), "the file is the repository's: {:?}", self.config);
        // The attributes that the client of a network file system has may be old.
        if !fs.asks_server() {
            let now = fs.find(&self.config)?;
            if now.is_none() || now == self.seen {
                return Ok(());
            }
        }
        let mut text = Vec::new();
        match read_file(fs, &self.config, Level::Local, &mut text) {
            Err(error) if error.is_not_found() => return Ok(()),
            read => read?,
        }
        let storage = Format::parse(&text, &self.common_dir, &self.config)?.storage;
        if storage == self.storage {
            return Ok(());
        }
        Err(RepositoryError::FormatChanged { from: self.storage.format.name(), to: storage.format.name() })
    }
}
