//! Checks whether the mount that a repository is on gives the guarantees that a storage format needs.

use crate::{Misuse, Result};
use refdb_vfs::{Fs, Mount};
use std::{path::Path, sync::OnceLock};

/// Why a format must not be written on the mount of a repository, once that was asked.
#[derive(Default, Debug)]
pub(crate) struct MountCheck(OnceLock<Option<&'static str>>);

impl MountCheck {
    /// Fails if an update could be lost in this folder, because the client of a network file system may see an old state
    /// under a lock, or cannot change a name in one step. `fault` is the one that a mount has for the format.
    pub(crate) fn check(&self, fs: &Fs, folder: &Path, fault: fn(&Mount) -> Option<&'static str>) -> Result<()> {
        if !fs.asks_server() {
            return Ok(());
        }
        match self.0.get_or_init(|| fault(&Mount::of(folder)?)) {
            None => Ok(()),
            Some(why) => Err(Misuse::UnsafeStorage { folder: folder.to_owned(), why }.into()),
        }
    }
}
