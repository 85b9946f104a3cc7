use super::{FilesOptions, Packed, PackedAccess, packed_read::Bytes};
use crate::Result;
use refdb_vfs::{File, Mapping, Stat};
use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

/// The last packed-refs that was read, shared by all readers of a store and validated whenever it is asked for.
#[derive(Debug)]
pub(super) struct PackedCache {
    path: PathBuf,
    latest: Mutex<Option<Arc<PackedFile>>>,
}

/// One packed-refs file as it was when it was opened.
#[derive(Debug)]
pub(super) struct PackedFile {
    /// Its records.
    pub(super) packed: Packed,
    /// The open file: while it is, its inode is not reused, so an equal stat proves that it is still the one. `None`
    /// where there is no such file.
    pub(super) file: Option<(File, Stat)>,
}

impl PackedCache {
    pub(super) fn new(path: PathBuf) -> Self {
        PackedCache { path, latest: Mutex::new(None) }
    }

    /// The present packed-refs. For readers: call it after the loose refs were looked at.
    pub(super) fn get(&self, options: &FilesOptions) -> Result<Arc<PackedFile>> {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = &*latest
            && self.is_current(options, known)?
        {
            return Ok(Arc::clone(known));
        }
        let fresh = Arc::new(self.open(options)?);
        *latest = Some(Arc::clone(&fresh));
        Ok(fresh)
    }

    fn is_current(&self, options: &FilesOptions, known: &PackedFile) -> Result<bool> {
        match (options.fs.stat(&self.path), &known.file) {
            (Ok(now), Some((_, then))) => Ok(now == *then),
            (Ok(_), None) => Ok(false),
            (Err(error), known) if error.is_not_found() => Ok(known.is_none()),
            (Err(error), _) => Err(error.into()),
        }
    }

    fn open(&self, options: &FilesOptions) -> Result<PackedFile> {
        match self.read(options) {
            // A network file system lost the file under us: what is there now is another one.
            Err(error) if error.is_stale() => self.read(options),
            read => read,
        }
        .map_err(Into::into)
        .and_then(|read| match read {
            None => Ok(PackedFile { packed: Packed::empty(&self.path, options.hash), file: None }),
            Some((file, stat, bytes)) => {
                Ok(PackedFile { packed: Packed::open(&self.path, options.hash, bytes)?, file: Some((file, stat)) })
            }
        })
    }

    fn read(&self, options: &FilesOptions) -> refdb_vfs::Result<Option<(File, Stat, Bytes)>> {
        let file = match options.fs.open(&self.path) {
            Ok(file) => file,
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error),
        };
        let stat = file.stat()?;
        let bytes = match options.access {
            PackedAccess::Mapped if stat.len_bytes > 0 => Bytes::Mapped(Mapping::new(&file)?),
            PackedAccess::Mapped | PackedAccess::InMemory => Bytes::Owned(file.read_to_end()?),
        };
        Ok(Some((file, stat, bytes)))
    }
}
