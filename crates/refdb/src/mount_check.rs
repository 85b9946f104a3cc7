//! Checks whether the mount that a repository is on gives the guarantees that a storage format needs.

use crate::{Misuse, Result};
use refdb_vfs::{Fs, Mount};
use std::{path::Path, sync::OnceLock};

/// The answer of the first check that found a repository's mount: why the format must not be written there, if there is
/// a reason.
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
        let why = match self.0.get() {
            Some(known) => *known,
            None => match Mount::of(folder) {
                Some(mount) => *self.0.get_or_init(|| fault(&mount)),
                // This may have a passing reason, so the next write looks again.
                None => Mount::fault_of_unknown(folder),
            },
        };
        why.map_or(Ok(()), |why| Err(Misuse::UnsafeStorage { folder: folder.to_owned(), why }.into()))
    }
}
