//! Checks whether the mount that a repository is on gives the guarantees that a storage format needs.

use crate::{Misuse, Result};
use refdb_vfs::{Fs, Mount};
use std::{path::Path, sync::OnceLock};

/// The answer of the first check of a repository's mount: why the format must not be written there, if there is a
/// reason.
#[derive(Default, Debug)]
pub(crate) struct MountCheck(OnceLock<Option<&'static str>>);

impl MountCheck {
    /// Fails if an update could be lost in this folder, because the client of a network file system may see an old
    /// state under a lock, or cannot change a name in one step. `fault` returns what makes a mount unsafe for the
    /// format, if anything does.
    pub(crate) fn check(&self, fs: &Fs, folder: &Path, fault: fn(&Mount) -> Option<&'static str>) -> Result<()> {
        if !fs.asks_server() {
            return Ok(());
        }
        let examine = || Mount::of(folder).map_or_else(|| Mount::fault_of_unknown(folder), |mount| fault(&mount));
        match self.0.get_or_init(examine) {
            None => Ok(()),
            Some(why) => Err(Misuse::UnsafeStorage { folder: folder.to_owned(), why }.into()),
        }
    }
}
