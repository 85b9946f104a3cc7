//! Which mounts of a network file system keep what files promise.

use super::store::Store;
use crate::{Misuse, Result};

/// Why loose refs and packed-refs must not be written on a mount with these options, if that is so.
fn fault_of(options: &str) -> Option<&'static str> {
    let mut words = options.split(',');
    let is_nfs = words.next().is_some_and(|kind| kind.starts_with("nfs"));
    let has = |option: &str| options.split(',').any(|word| word == option);
    let version = |prefix: &str| options.split(',').any(|word| word.starts_with(prefix));
    if !is_nfs {
        return None;
    }
    if has("nocto") {
        return Some("the mount option nocto keeps the client from asking the server about a file that is opened");
    }
    // NFS 4 counts the changes of a folder, so that none is missed.
    if !version("vers=4") {
        return Some(
            "NFS 3 shows changes of a folder by its time stamp alone, so that a change within the same tick of the \
             server's clock is missed; mount it as NFS 4, or keep refs in reftables",
        );
    }
    None
}

impl Store {
    /// Fails if an update could be lost here, because the client of the network file system may see an old state under
    /// a lock, unless `refdb.unsafeStorage` is set.
    pub(super) fn check_storage(&self) -> Result<()> {
        if !self.options.fs.asks_server() || self.options.may_be_unsafe {
            return Ok(());
        }
        let fault = self.storage_fault.get_or_init(|| {
            let options = self.options.fs.mount_options(&self.layout.common_dir)?;
            fault_of(&options)
        });
        match fault {
            None => Ok(()),
            Some(why) => Err(Misuse::UnsafeStorage { folder: self.layout.common_dir.clone(), why }.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_on_which_a_client_misses_changes_are_named() {
        for safe in ["nfs4,rw,vers=4.2,hard", "nfs4,rw,vers=4.0,noac", "ext4,rw,relatime", "fuse.sshfs,rw"] {
            assert_eq!(fault_of(safe), None, "{safe}");
        }
        for (options, word) in [
            ("nfs,rw,vers=3,hard", "tick"),
            ("nfs,rw,vers=3,lookupcache=none,noac", "tick"),
            ("nfs4,rw,vers=4.2,nocto", "nocto"),
            ("nfs,rw,nocto,vers=3,lookupcache=none", "nocto"),
        ] {
            assert!(fault_of(options).is_some_and(|fault| fault.contains(word)), "{options}");
        }
    }
}
