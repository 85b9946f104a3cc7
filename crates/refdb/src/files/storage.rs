//! Checks whether a mount of a network file system gives the guarantees that the files backend needs.

use super::store::Store;
use crate::{Misuse, Result};
use refdb_vfs::Mount;

impl Store {
    /// Fails if an update could be lost here, because the client of the network file system may see an old state under
    /// a lock, unless `refdb.unsafeStorage` is set.
    pub(super) fn check_storage(&self) -> Result<()> {
        if !self.options.fs.asks_server() || self.options.may_be_unsafe {
            return Ok(());
        }
        let fault = self.storage_fault.get_or_init(|| Mount::of(&self.layout.common_dir)?.fault_of_files());
        match fault {
            None => Ok(()),
            Some(why) => Err(Misuse::UnsafeStorage { folder: self.layout.common_dir.clone(), why }.into()),
        }
    }
}
