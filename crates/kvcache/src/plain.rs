//! The cache's files, which must be files. A pipe holds its reader up, a device has no end, and a folder can't be deleted.

use refdb_vfs::{Error, File, Fs, Result};
use std::{io, path::Path};

/// Opens one of the cache's files for reading.
pub(crate) fn open(fs: &Fs, path: &Path) -> Result<File> {
    let file = fs.open(path)?;
    check(&file)?;
    Ok(file)
}

/// The first bytes of one of the small files, `most_bytes` of it.
pub(crate) fn read(fs: &Fs, path: &Path, most_bytes: u64) -> Result<Vec<u8>> {
    debug_assert!(most_bytes <= 1 << 20, "a small file is read at once: {most_bytes}");
    let file = open(fs, path)?;
    file.read_len(most_bytes.min(file.stat()?.len_bytes))
}

/// Fails if there is something that is no file, which a new file would replace.
pub(crate) fn check_place(fs: &Fs, path: &Path) -> Result<()> {
    if fs.find(path)?.is_none_or(|now| now.is_file()) { Ok(()) } else { Err(no_file(path)) }
}

/// Fails if something else is in a file's place. It is left alone, since another program or a person made it.
pub(crate) fn check(file: &File) -> Result<()> {
    if file.stat()?.is_file() { Ok(()) } else { Err(no_file(file.path())) }
}

fn no_file(path: &Path) -> Error {
    let source = io::Error::other("it is no file; remove what somebody has put in the file's place");
    Error { operation: "use", path: path.to_owned(), source }
}
