//! Whether a repository's refs still have the format that they had when it was opened. Who holds a lock asks before it writes.

use super::{RefStorage, RepositoryError, format::Format};
use refdb_vfs::{Fs, Stat};
use std::path::PathBuf;

/// The format of a repository's refs as it was found, and what proves that it is the same: one stat.
#[derive(Clone, Debug)]
pub struct FormatWatch {
    pub(super) config: PathBuf,
    pub(super) common_dir: PathBuf,
    /// From before the configuration was read; `None` where there was none.
    pub(super) seen: Option<Stat>,
    pub(super) storage: RefStorage,
}

impl FormatWatch {
    /// Fails if the refs have another format by now, or lie elsewhere.
    pub fn check(&self, fs: &Fs) -> Result<(), RepositoryError> {
        debug_assert!(self.config.starts_with(&self.common_dir), "the file is the repository's: {:?}", self.config);
        let now = fs.find(&self.config)?;
        if now.is_none() || now == self.seen {
            return Ok(());
        }
        let mut text = Vec::new();
        match fs.read_small(&self.config, true, &mut text) {
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
