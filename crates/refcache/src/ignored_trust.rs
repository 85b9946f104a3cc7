//! The warning about a trust setting that says `always` on a network file system, where `always` means `after_open`.

use refdb_vfs::{Fs, Mount};
use std::{
    collections::BTreeSet,
    fmt,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

/// A trust setting that says `always` in a repository on a network file system. refdb asks the file server
/// nevertheless, but JGit's own ref database obeys the setting.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct IgnoredTrust {
    git_dir: PathBuf,
    /// The device number of the mount, which distinguishes mounts.
    pub(crate) device: u64,
    /// The kind and the options of the mount, if they are known.
    mount: Option<Mount>,
}

impl IgnoredTrust {
    /// Examines the mount of a repository in which a setting says `always`. `None` if the repository is on a local file
    /// system.
    pub(crate) fn of(fs: &Fs, git_dir: &Path) -> refdb_vfs::Result<Option<Self>> {
        if !fs.asks_server() {
            return Ok(None);
        }
        let device = fs.find(git_dir)?.map_or(0, |stat| stat.device);
        Ok(Some(IgnoredTrust { git_dir: git_dir.to_owned(), device, mount: Mount::of(git_dir) }))
    }
}

impl fmt::Display for IgnoredTrust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mount = self.mount.as_ref().map_or("unknown", Mount::options);
        write!(
            f,
            "core.trustStat, or a setting for one kind of refs, is `always` in {}, which is on a network file system \
             (mount: {mount}). refdb asks the file server nevertheless, as with `after_open`. JGit's own ref database \
             does not, and can show refs of other machines late by the time for which the client keeps attributes, up \
             to 60 s by default. Remove the setting, or set it to `after_open`; the same holds for all repositories on \
             this mount",
            self.git_dir.display()
        )
    }
}

/// The mounts about which a process was warned.
#[derive(Default)]
pub(crate) struct WarnedMounts(Mutex<BTreeSet<u64>>);

impl WarnedMounts {
    /// Maximum number of warnings of a process, because an automounter can make a mount for each repository.
    const COUNT_MAX: usize = 16;

    /// Returns whether to warn about this mount, which then counts as warned about: no warning was given for it before,
    /// and the process has given few warnings.
    pub(crate) fn is_new(&self, device: u64) -> bool {
        let mut warned = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        warned.len() < Self::COUNT_MAX && warned.insert(device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mount_has_one_warning_and_a_process_a_few() {
        let warned = WarnedMounts::default();
        assert!(warned.is_new(1) && !warned.is_new(1) && warned.is_new(2));
        let more = (10..100).filter(|device| warned.is_new(*device)).count();
        assert_eq!(more, WarnedMounts::COUNT_MAX - 2);
        assert!(!warned.is_new(1) && !warned.is_new(1000));
    }
}
