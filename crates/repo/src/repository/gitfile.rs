//! Reads a `.git` file: gitrepository-layout(5), `gitdir: <path>`.

use super::RepositoryError;
use crate::environment::os;
use bstr::ByteSlice;
use refdb_vfs::Fs;
use std::path::{Path, PathBuf};

/// The size limit of a `.git` file in bytes, which is git's.
const SIZE_MAX: usize = 1 << 20;

/// Returns the path that the file names. A relative path in the file is joined to the path of the file's folder.
pub(super) fn read(fs: &Fs, path: &Path, shown: &Path) -> Result<PathBuf, RepositoryError> {
    let mut text = Vec::new();
    fs.read_small(path, true, SIZE_MAX, &mut text)?;
    if text.len() > SIZE_MAX {
        return Err(RepositoryError::GitFileTooLarge(shown.to_owned()));
    }
    let target = text.strip_prefix(b"gitdir: ").ok_or_else(|| RepositoryError::GitFileFormat(shown.to_owned()))?;
    let target = target.trim_end_with(|c| c == '\n' || c == '\r');
    if target.is_empty() {
        return Err(RepositoryError::GitFileEmpty(shown.to_owned()));
    }
    Ok(path.parent().unwrap_or(Path::new("")).join(os(target)))
}
