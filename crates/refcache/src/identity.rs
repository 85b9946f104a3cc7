//! Whether the folder still holds the repository that was opened.

use crate::Result;
use refdb_vfs::{File, Fs, Stat};
use std::{
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::{SystemTime, UNIX_EPOCH},
};

/// Another change may follow one that is no older than this, and leave the same time stamp on the file. File systems
/// take their time from a clock that ticks every few milliseconds.
const RACY_NANOS: i128 = 50_000_000;

/// The same for a file system whose time stamps seem to be whole seconds.
const RACY_COARSE_NANOS: i128 = 2_500_000_000;

/// Whether a file that looked like this at `now_nanos` may have changed since without looking different.
pub(crate) fn is_racy(stat: &Stat, now_nanos: i128) -> bool {
    let newest = stat.modified_nanos.max(stat.changed_nanos);
    let is_coarse = stat.modified_nanos % 1_000_000_000 == 0 && stat.changed_nanos % 1_000_000_000 == 0;
    now_nanos - newest < if is_coarse { RACY_COARSE_NANOS } else { RACY_NANOS }
}

/// The time as file systems stamp it.
pub(crate) fn now_nanos() -> i128 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_nanos() as i128)
}

/// What a check found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    Same,
    Changed,
    Gone,
}

/// The repository's folder, held open so that no other folder gets its inode. Its configuration says which format its
/// refs have.
#[derive(Debug)]
pub(crate) struct Identity {
    folder: PathBuf,
    /// Held, not read.
    _folder: Option<File>,
    inode: (u64, u64),
    config: PathBuf,
    content: Option<Vec<u8>>,
    proof: Mutex<Option<Proof>>,
}

/// The configuration as it was when its content was last read.
#[derive(Debug)]
struct Proof {
    stat: Stat,
    racy: bool,
    _file: File,
}

impl Identity {
    /// Takes down the identity of `folder` now.
    pub(crate) fn of(fs: &Fs, folder: &Path) -> Result<Self> {
        let held = fs.open(folder)?;
        let stat = held.stat()?;
        let config = folder.join("config");
        let read = read(fs, &config)?;
        let (content, proof) = read.map_or((None, None), |(content, proof)| (Some(content), Some(proof)));
        Ok(Identity {
            folder: folder.to_owned(),
            _folder: Some(held),
            inode: stat.file_id(),
            config,
            content,
            proof: Mutex::new(proof),
        })
    }

    /// The folder's device and inode, which no other folder has while this is held.
    pub(crate) fn inode(&self) -> (u64, u64) {
        self.inode
    }

    /// Looks at the folder and the configuration: two stats, where nothing has changed.
    pub(crate) fn check(&self, fs: &Fs) -> Result<Verdict> {
        match fs.stat(&self.folder) {
            Err(error) if error.is_not_found() => return Ok(Verdict::Gone),
            Err(error) => return Err(error.into()),
            Ok(stat) if stat.file_id() != self.inode => return Ok(Verdict::Changed),
            Ok(_) => {}
        }
        let mut proof = self.proof.lock().unwrap_or_else(PoisonError::into_inner);
        debug_assert_eq!(proof.is_some(), self.content.is_some(), "a configuration that was read has a proof");
        let stat = match fs.stat(&self.config) {
            Err(error) if error.is_not_found() => None,
            stat => Some(stat?),
        };
        match (&*proof, stat) {
            (Some(proof), Some(stat)) if proof.stat == stat && !proof.racy => return Ok(Verdict::Same),
            (None, None) => return Ok(Verdict::Same),
            (Some(_), None) => return Ok(Verdict::Gone),
            _ => {}
        }
        let (content, fresh) = match read(fs, &self.config)? {
            Some((content, fresh)) => (Some(content), Some(fresh)),
            None => (None, None),
        };
        if content != self.content {
            return Ok(Verdict::Changed);
        }
        *proof = fresh;
        Ok(Verdict::Same)
    }
}

fn read(fs: &Fs, config: &Path) -> Result<Option<(Vec<u8>, Proof)>> {
    let file = match fs.open(config) {
        Err(error) if error.is_not_found() => return Ok(None),
        file => file?,
    };
    let now = now_nanos();
    let stat = file.stat()?;
    let content = file.read_to_end()?;
    Ok(Some((content, Proof { stat, racy: is_racy(&stat, now), _file: file })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_configuration_and_a_replaced_or_missing_folder_are_noticed() {
        let temp = tempfile::tempdir().unwrap();
        let folder = temp.path().join("r");
        let fs = Fs::real();
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("config"), "[core]\n").unwrap();
        let identity = Identity::of(&fs, &folder).unwrap();
        assert_eq!(identity.check(&fs).unwrap(), Verdict::Same);
        // Another file with the same content is the same configuration.
        std::fs::write(folder.join("new"), "[core]\n").unwrap();
        std::fs::rename(folder.join("new"), folder.join("config")).unwrap();
        assert_eq!(identity.check(&fs).unwrap(), Verdict::Same);
        // Of the same length, in place, and maybe within one tick of the clock.
        std::fs::write(folder.join("config"), "[eroc]\n").unwrap();
        assert_eq!(identity.check(&fs).unwrap(), Verdict::Changed);
        std::fs::write(folder.join("config"), "[core]\n").unwrap();
        assert_eq!(identity.check(&fs).unwrap(), Verdict::Same);
        std::fs::rename(&folder, temp.path().join("away")).unwrap();
        assert_eq!(identity.check(&fs).unwrap(), Verdict::Gone);
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("config"), "[core]\n").unwrap();
        assert_eq!(identity.check(&fs).unwrap(), Verdict::Changed);
    }

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
        assert!(is_racy(&stat(7 * second + 5), 7 * second + 9));
        assert!(!is_racy(&stat(7 * second + 5), 7 * second + 60_000_000));
        assert!(is_racy(&stat(7 * second), 9 * second));
        assert!(!is_racy(&stat(7 * second), 10 * second));
        // A clock that was set back.
        assert!(is_racy(&stat(7 * second + 5), 3 * second));
    }
}
