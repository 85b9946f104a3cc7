//! Finds out whether the files from which a value was read have changed since.

use refdb_vfs::{Fs, Stat, now_nanos};
use std::{
    io,
    path::{Path, PathBuf},
};

/// The files from which a value was read, with their attributes just before that.
#[derive(Debug)]
pub(super) struct Seen {
    files: Vec<(PathBuf, Option<Stat>)>,
    /// Whether equal attributes prove that nothing has changed. They do not if a file was changed so recently that
    /// another change could leave its attributes as they are, if a file is not on a local file system, or if the value
    /// depends on more than these files.
    is_proof: bool,
}

impl Seen {
    /// Reads the attributes of these files.
    pub(super) fn of(fs: &Fs, files: impl IntoIterator<Item = PathBuf>) -> io::Result<Self> {
        let now = now_nanos();
        let mut seen = Seen { files: Vec::new(), is_proof: true };
        for file in files {
            let stat = look(fs, &file)?;
            seen.is_proof &= stat.is_none_or(|stat| !stat.is_racy(now)) && is_local(fs, &file);
            seen.files.push((file, stat));
        }
        Ok(seen)
    }

    /// Returns whether it is certain that no file has changed. Returns `false` if a file, or the repository, is on a
    /// network file system, whose client may report old attributes.
    pub(super) fn is_current(&self, fs: &Fs) -> io::Result<bool> {
        if !self.is_proof || fs.asks_server() {
            return Ok(false);
        }
        self.is_unchanged(fs)
    }

    /// Returns whether the attributes of all files are unchanged.
    pub(super) fn is_unchanged(&self, fs: &Fs) -> io::Result<bool> {
        for (file, stat) in &self.files {
            if look(fs, file)? != *stat {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns the paths of the files.
    pub(super) fn files(&self) -> Vec<PathBuf> {
        self.files.iter().map(|(file, _)| file.clone()).collect()
    }

    /// Makes [`is_current`](Self::is_current) always return `false`, for a value that depends on more than these files.
    pub(super) fn without_proof(self) -> Self {
        Seen { is_proof: false, ..self }
    }

    /// Returns whether these are the paths of the files.
    pub(super) fn is_of(&self, files: &[PathBuf]) -> bool {
        self.files.iter().map(|(file, _)| file).eq(files)
    }
}

/// Returns whether a file, or the nearest existing folder above it, is on a local file system.
fn is_local(fs: &Fs, file: &Path) -> bool {
    file.ancestors().find_map(|path| fs.is_local(path).ok()).unwrap_or(false)
}

/// Returns the attributes of a file, or `None` if it is missing. A file that permissions make unreachable counts as
/// missing: git ignores such a file if it is one of the user's own, and for any other file reading the configuration
/// reports the error.
fn look(fs: &Fs, file: &Path) -> io::Result<Option<Stat>> {
    match fs.stat(file) {
        Ok(stat) => Ok(Some(stat)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) if error.source.kind() == io::ErrorKind::PermissionDenied => Ok(None),
        Err(error) => Err(io::Error::other(error)),
    }
}
