use crate::{Error, Result};
use std::{
    io::ErrorKind,
    os::unix::fs::MetadataExt,
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

/// What identifies the content of a file, as far as a stat can show it.
///
/// Equal stats prove equal content only while a descriptor of the file is held open, because inodes are reused, and
/// only if the time stamps are not racy ([`Stat::is_racy`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stat {
    /// Device number.
    pub device: u64,
    /// Inode number.
    pub inode: u64,
    /// Length in bytes.
    pub len_bytes: u64,
    /// Last change of content, in nanoseconds since 1970.
    pub modified_nanos: i128,
    /// Last change of the inode, in nanoseconds since 1970.
    pub changed_nanos: i128,
    /// The user id of the owner.
    pub uid: u32,
    /// File type and permission bits.
    pub mode: u32,
}

impl Stat {
    pub(crate) fn of(metadata: &std::fs::Metadata) -> Self {
        let nanos = |seconds: i64, nanos: i64| i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
        Stat {
            device: metadata.dev(),
            inode: metadata.ino(),
            len_bytes: metadata.len(),
            modified_nanos: nanos(metadata.mtime(), metadata.mtime_nsec()),
            changed_nanos: nanos(metadata.ctime(), metadata.ctime_nsec()),
            uid: metadata.uid(),
            mode: metadata.mode(),
        }
    }

    /// Returns the result of a stat, or `None` if nothing exists at the path.
    pub(crate) fn found(stat: std::io::Result<Stat>, path: &Path) -> Result<Option<Self>> {
        match stat {
            Ok(stat) => Ok(Some(stat)),
            // A plain file in the place of a folder means that nothing exists at the path: see [`Error::is_not_found`].
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
            Err(source) => Err(Error::new("stat", path, source)),
        }
    }

    pub(crate) fn of_statx(raw: &rustix::fs::Statx) -> Self {
        let nanos =
            |time: rustix::fs::StatxTimestamp| i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec);
        Stat {
            device: rustix::fs::makedev(raw.stx_dev_major, raw.stx_dev_minor),
            inode: raw.stx_ino,
            len_bytes: raw.stx_size,
            modified_nanos: nanos(raw.stx_mtime),
            changed_nanos: nanos(raw.stx_ctime),
            uid: raw.stx_uid,
            mode: raw.stx_mode.into(),
        }
    }

    pub(crate) fn of_raw(raw: &rustix::fs::Stat) -> Self {
        const SECOND_NANOS: i128 = 1_000_000_000;
        Stat {
            device: raw.st_dev,
            inode: raw.st_ino,
            len_bytes: raw.st_size as u64,
            modified_nanos: i128::from(raw.st_mtime) * SECOND_NANOS + i128::from(raw.st_mtime_nsec),
            changed_nanos: i128::from(raw.st_ctime) * SECOND_NANOS + i128::from(raw.st_ctime_nsec),
            uid: raw.st_uid,
            mode: raw.st_mode,
        }
    }

    /// Returns the device and the inode, which identify the file as long as a name of it exists, or, on a local file
    /// system, as long as a descriptor of it is open.
    pub fn file_id(&self) -> (u64, u64) {
        (self.device, self.inode)
    }

    /// Returns whether a file with these attributes at `now_nanos` may have changed since then without a change of its
    /// attributes. File systems take time stamps from a clock that ticks every few milliseconds, and some keep whole
    /// seconds only.
    pub fn is_racy(&self, now_nanos: i128) -> bool {
        const TICKS_NANOS: i128 = 50_000_000;
        const SECONDS_NANOS: i128 = 2_500_000_000;
        const SECOND_NANOS: i128 = 1_000_000_000;
        let newest = self.modified_nanos.max(self.changed_nanos);
        let is_coarse = self.modified_nanos % SECOND_NANOS == 0 && self.changed_nanos % SECOND_NANOS == 0;
        now_nanos - newest < if is_coarse { SECONDS_NANOS } else { TICKS_NANOS }
    }

    /// Returns whether this is a folder.
    pub fn is_dir(&self) -> bool {
        self.mode & 0o170_000 == 0o040_000
    }

    /// Returns whether this is a regular file.
    pub fn is_file(&self) -> bool {
        self.mode & 0o170_000 == 0o100_000
    }

    /// Returns whether this is a symbolic link, which only a stat that does not follow links can show, such as
    /// [`Fs::stat_link`](crate::Fs::stat_link).
    pub fn is_symlink(&self) -> bool {
        self.mode & 0o170_000 == 0o120_000
    }
}

/// Returns the present time in nanoseconds since 1970, to compare with time stamps of files.
pub fn now_nanos() -> i128 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_nanos() as i128)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recent_and_coarse_time_stamps_prove_nothing() {
        let stat = |nanos| Stat {
            device: 1,
            inode: 1,
            len_bytes: 1,
            modified_nanos: nanos,
            changed_nanos: nanos,
            uid: 0,
            mode: 0,
        };
        let second = 1_000_000_000;
        assert!(stat(7 * second + 5).is_racy(7 * second + 9));
        assert!(!stat(7 * second + 5).is_racy(7 * second + 60_000_000));
        assert!(stat(7 * second).is_racy(9 * second));
        assert!(!stat(7 * second).is_racy(10 * second));
        // The clock was set back.
        assert!(stat(7 * second + 5).is_racy(3 * second));
    }
}
