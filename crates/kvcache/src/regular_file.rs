//! Opens the cache's files only if they are regular files, because a pipe would block its reader, a device has no end,
//! and a folder cannot be unlinked.

use refdb_vfs::{Error, File, Fs, Result};
use std::{io, path::Path};

/// Opens one of the cache's files for reading.
pub(crate) fn open(fs: &Fs, path: &Path) -> Result<File> {
    let file = fs.open(path)?;
    check(&file)?;
    Ok(file)
}

/// Reads one of the small files, but at most its first `most_bytes`.
pub(crate) fn read(fs: &Fs, path: &Path, most_bytes: u64) -> Result<Vec<u8>> {
    debug_assert!(most_bytes <= 1 << 20, "only small files are read at once: {most_bytes}");
    let file = open(fs, path)?;
    file.read_len(most_bytes.min(file.stat()?.len_bytes))
}

/// Fails if something other than a regular file is at `path`, where a new file is to replace it.
pub(crate) fn check_place(fs: &Fs, path: &Path) -> Result<()> {
    if fs.find(path)?.is_none_or(|now| now.is_file()) { Ok(()) } else { Err(no_file(path)) }
}

/// Fails if `file` is not a regular file. Such a file is left alone, because another program or a person put it there.
pub(crate) fn check(file: &File) -> Result<()> {
    if file.stat()?.is_file() { Ok(()) } else { Err(no_file(file.path())) }
}

fn no_file(path: &Path) -> Error {
    let source = io::Error::other("it is not a regular file; remove what was put in its place");
    Error { operation: "use", path: path.to_owned(), source }
}
