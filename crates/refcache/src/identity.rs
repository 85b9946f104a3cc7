//! Checks whether a folder still holds the repository that was opened there.

use crate::{Error, Result};
use refdb_vfs::{AskingOnce, File, Fs, ServerHandle, Stat, now_nanos};
use std::{
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

/// The result of a check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    Same,
    Changed,
    Gone,
}

/// What identifies an open repository: its folder and the content of its configuration, which names the format of its
/// refs. The folder is held open so that, on a local file system, no other folder gets the same inode.
#[derive(Debug)]
pub(crate) struct Identity {
    folder: PathBuf,
    /// The folder, which is not read but only held open.
    _folder: Option<File>,
    inode: (u64, u64),
    /// The handle by which the server of a network file system distinguishes this folder from every other one, also
    /// from one that got the same inode later. `None` on a local file system, or if the client does not provide the
    /// handle.
    handle: Option<ServerHandle>,
    config: PathBuf,
    content: Option<Vec<u8>>,
    proof: Mutex<Option<Proof>>,
}

/// The attributes that the configuration had when its content was last read, and its open file, which keeps the inode
/// from being used again.
#[derive(Debug)]
struct Proof {
    stat: Stat,
    racy: bool,
    _file: File,
}

impl Identity {
    /// Records the present identity of `folder`, which was opened with the configuration `opened_with`. If somebody has
    /// changed the configuration since, the first [`Identity::check`] says so; if somebody has removed one that was not
    /// empty, this call fails with [`Error::Gone`].
    pub(crate) fn of(fs: &Fs, folder: &Path, opened_with: &[u8]) -> Result<Self> {
        let held = fs.open(folder)?;
        let stat = held.stat()?;
        let handle = held.server_handle().filter(|_| fs.asks_server());
        let config = folder.join("config");
        let (content, proof) = match read(fs, &config)? {
            // Attributes prove nothing about a content that is no longer in the file.
            Some((now, proof)) if now != opened_with => {
                (Some(opened_with.to_owned()), Some(Proof { racy: true, ..proof }))
            }
            Some((now, proof)) => (Some(now), Some(proof)),
            None if opened_with.is_empty() => (None, None),
            None => return Err(Error::Gone(folder.to_owned())),
        };
        Ok(Identity {
            folder: folder.to_owned(),
            _folder: Some(held),
            inode: stat.file_id(),
            handle,
            config,
            content,
            proof: Mutex::new(proof),
        })
    }

    /// The folder's device and inode. On a local file system no other folder gets them while this value exists.
    pub(crate) fn inode(&self) -> (u64, u64) {
        self.inode
    }

    /// Compares the folder and its configuration with what they were. If nothing has changed, the comparison usually
    /// costs two calls of `stat`, or on a network file system one call of `stat`, opening the parent and reading the
    /// configuration. On a local file system the configuration is read too if it was changed just before it was last
    /// read.
    pub(crate) fn check(&self, fs: &Fs) -> Result<Verdict> {
        // Once the server has been asked for the folder's attributes, looking up "config" in the folder need not ask
        // again.
        let _asking = AskingOnce::afresh();
        match fs.find(&self.folder)? {
            None => return Ok(Verdict::Gone),
            Some(stat) if stat.file_id() != self.inode => return Ok(Verdict::Changed),
            Some(_) => {}
        }
        if fs.asks_server() {
            // The server was asked just now, so this call costs no request.
            if fs.identify(&self.folder)?.is_none_or(|(_, handle)| handle != self.handle) {
                return Ok(Verdict::Changed);
            }
            // On a network file system the attributes of the configuration prove nothing.
            return self.compare(fs).map(|(verdict, _)| verdict);
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
        let (verdict, fresh) = self.compare(fs)?;
        if verdict == Verdict::Same {
            *proof = fresh;
        }
        Ok(verdict)
    }

    /// Reads the configuration and compares it with what it was.
    fn compare(&self, fs: &Fs) -> Result<(Verdict, Option<Proof>)> {
        let (content, proof) = read(fs, &self.config)?.unzip();
        let verdict = match (&content, &self.content) {
            (content, known) if content == known => Verdict::Same,
            (None, Some(_)) => Verdict::Gone,
            _ => Verdict::Changed,
        };
        Ok((verdict, proof))
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
    Ok(Some((content, Proof { stat, racy: stat.is_racy(now), _file: file })))
}

#[cfg(test)]
mod tests {
    use super::*;
    use refdb_testkit::nfs_client::{Replaced, SharedFolder};

    #[test]
    fn a_changed_configuration_and_a_replaced_or_missing_folder_are_noticed() {
        let temp = tempfile::tempdir().unwrap();
        let folder = temp.path().join("r");
        let fs = Fs::real();
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("config"), "[core]\n").unwrap();
        let identity = Identity::of(&fs, &folder, b"[core]\n").unwrap();
        assert_eq!(identity.check(&fs).unwrap(), Verdict::Same);
        // Another file with the same content is the same configuration.
        std::fs::write(folder.join("new"), "[core]\n").unwrap();
        std::fs::rename(folder.join("new"), folder.join("config")).unwrap();
        assert_eq!(identity.check(&fs).unwrap(), Verdict::Same);
        // The new content has the same length and is written in place, maybe within the same tick of the clock.
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

    /// A migration may replace the configuration after the format was read from it and before the identity is recorded.
    #[test]
    fn a_configuration_that_was_changed_since_it_was_read_is_noticed() {
        let temp = tempfile::tempdir().unwrap();
        let (folder, fs) = (temp.path(), Fs::real());
        std::fs::write(folder.join("config"), "[core]\n").unwrap();
        // Old enough for its attributes to prove its content.
        let then = std::time::SystemTime::now() - std::time::Duration::from_secs(60);
        std::fs::File::options().write(true).open(folder.join("config")).unwrap().set_modified(then).unwrap();
        let identity = Identity::of(&fs, folder, b"[extensions]\n").unwrap();
        assert_eq!(identity.check(&fs).unwrap(), Verdict::Changed);
        std::fs::remove_file(folder.join("config")).unwrap();
        assert!(matches!(Identity::of(&fs, folder, b"[core]\n"), Err(Error::Gone(_))));
    }

    /// On another machine's disk, nothing keeps the inode of a folder from being used again.
    #[test]
    fn another_folder_with_the_same_inode_is_noticed_on_a_network_file_system() {
        let temp = tempfile::tempdir().unwrap();
        let [one, other] = ["one", "other"].map(|name| temp.path().join(name));
        for folder in [&one, &other] {
            std::fs::create_dir(folder).unwrap();
            std::fs::write(folder.join("config"), "[core]\n").unwrap();
        }
        let client = SharedFolder::new(temp.path(), &temp.path().join("held")).client(Replaced::Stale);
        let fs = Fs::with_hook(client).at(temp.path()).unwrap();
        let mut identity = Identity::of(&fs, &one, b"[core]\n").unwrap();
        assert_eq!(identity.check(&fs).unwrap(), Verdict::Same);
        (identity.folder, identity.config) = (other.clone(), other.join("config"));
        identity.inode = fs.stat(&other).unwrap().file_id();
        assert_eq!(identity.check(&fs).unwrap(), Verdict::Changed);
    }
}
