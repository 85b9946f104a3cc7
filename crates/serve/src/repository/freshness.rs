//! Whether the files on which a value depends are still the ones that it was read from.

use refdb_vfs::{Fs, Stat, now_nanos};
use std::{
    io,
    path::{Path, PathBuf},
};

/// The files on which a value depends, and what they were just before it was read.
#[derive(Debug)]
pub(super) struct Seen {
    files: Vec<(PathBuf, Option<Stat>)>,
    /// Whether a later look can prove that nothing has changed. It cannot if a file was changed so recently that
    /// another change would leave the same attributes, or if the attributes are those that a client of a network file
    /// system remembers.
    is_proof: bool,
}

impl Seen {
    /// Looks at these files.
    pub(super) fn of(fs: &Fs, files: impl IntoIterator<Item = PathBuf>) -> io::Result<Self> {
        let now = now_nanos();
        let mut seen = Seen { files: Vec::new(), is_proof: true };
        for file in files {
            let stat = look(fs, &file)?;
            seen.is_proof &= stat.is_none_or(|stat| !stat.is_racy(now));
            seen.files.push((file, stat));
        }
        Ok(seen)
    }

    /// Returns whether all files are what they were, and a change would have been noticed.
    pub(super) fn is_current(&self, fs: &Fs) -> io::Result<bool> {
        if !self.is_proof || fs.asks_server() {
            return Ok(false);
        }
        self.is_unchanged(fs)
    }

    /// Returns whether all files are what they were, as far as their attributes tell.
    pub(super) fn is_unchanged(&self, fs: &Fs) -> io::Result<bool> {
        for (file, stat) in &self.files {
            if look(fs, file)? != *stat {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns the files that were looked at.
    pub(super) fn files(&self) -> Vec<PathBuf> {
        self.files.iter().map(|(file, _)| file.clone()).collect()
    }

    /// Returns a value that proves nothing, because what was read depends on more than these files.
    pub(super) fn without_proof(self) -> Self {
        Seen { is_proof: false, ..self }
    }

    /// Returns whether these are the files that were looked at.
    pub(super) fn is_of(&self, files: &[PathBuf]) -> bool {
        self.files.iter().map(|(file, _)| file).eq(files)
    }
}

/// A file that cannot be reached counts as missing, as git treats the user's own files. Reading the configuration
/// again reports the error where it is one.
fn look(fs: &Fs, file: &Path) -> io::Result<Option<Stat>> {
    match fs.stat(file) {
        Ok(stat) => Ok(Some(stat)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) if error.source.kind() == io::ErrorKind::PermissionDenied => Ok(None),
        Err(error) => Err(io::Error::other(error)),
    }
}
