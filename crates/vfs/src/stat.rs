use crate::{Error, Result};
use std::{
    io::ErrorKind,
    os::unix::fs::MetadataExt,
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

/// What identifies the content behind a name, as far as a stat can tell.
///
/// Equal stats prove equal content only while a descriptor of the file is held open, since inodes are reused. The time
/// stamp must also not be too recent for the file system's clock.
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
    /// Owner.
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

    /// What a stat says, if there is something.
    pub(crate) fn found(stat: std::io::Result<Stat>, path: &Path) -> Result<Option<Self>> {
        match stat {
            Ok(stat) => Ok(Some(stat)),
            // A plain file where a folder was expected means the same: see [`Error::is_not_found`].
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

    /// Device and inode: which file it is, while a descriptor or a name of it is held.
    pub fn file_id(&self) -> (u64, u64) {
        (self.device, self.inode)
    }

    /// Whether a file that looked like this at `now_nanos` may have changed since without looking different. File
    /// systems take their time from a clock that ticks every few milliseconds, and some keep whole seconds only.
    pub fn is_racy(&self, now_nanos: i128) -> bool {
        const TICKS_NANOS: i128 = 50_000_000;
        const SECONDS_NANOS: i128 = 2_500_000_000;
        const SECOND_NANOS: i128 = 1_000_000_000;
        let newest = self.modified_nanos.max(self.changed_nanos);
        let is_coarse = self.modified_nanos % SECOND_NANOS == 0 && self.changed_nanos % SECOND_NANOS == 0;
        now_nanos - newest < if is_coarse { SECONDS_NANOS } else { TICKS_NANOS }
    }

    /// Whether it is a folder.
    pub fn is_dir(&self) -> bool {
        self.mode & 0o170_000 == 0o040_000
    }

    /// Whether it is a regular file.
    pub fn is_file(&self) -> bool {
        self.mode & 0o170_000 == 0o100_000
    }

    /// Whether it is a symbolic link (only [`Fs::stat_link`](crate::Fs::stat_link) tells).
    pub fn is_symlink(&self) -> bool {
        self.mode & 0o170_000 == 0o120_000
    }
}

/// The present time, as file systems stamp it.
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
