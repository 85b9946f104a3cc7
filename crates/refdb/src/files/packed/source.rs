//! The file from which packed-refs is read: held open, or opened when it is needed.

use crate::Result;
use refdb_vfs::{File, Fs, ServerHandle, Stat};
use std::{
    path::PathBuf,
    sync::{Arc, OnceLock},
};

/// What distinguishes one packed-refs file from another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Found {
    pub(crate) stat: Stat,
    /// On a network file system: the handle by which its server knows the file and which no other file ever gets, if
    /// the client reveals the handle.
    pub(crate) handle: Option<ServerHandle>,
}

/// The file from which packed-refs is read.
///
/// On a local file system it is held open, so that its inode is not reused and an equal stat proves that the file is
/// still the same. On a network file system each query has a source of its own, which opens the file only if the query
/// has to read it, because there a file that is held open stays readable under its name, for all programs of this
/// machine, after another machine has replaced it.
#[derive(Debug)]
pub(crate) struct PackedSource {
    file: OnceLock<Arc<File>>,
    /// The path of the file, and what identifies the file, if it is not held open.
    closed: Option<(Fs, PathBuf, Found)>,
}

impl PackedSource {
    /// A file that is held open.
    pub(crate) fn held(file: Arc<File>) -> Self {
        PackedSource { file: file.into(), closed: None }
    }

    /// A file that is opened when it is needed.
    pub(crate) fn closed(fs: &Fs, path: PathBuf, found: Found) -> Self {
        PackedSource { file: OnceLock::new(), closed: Some((fs.clone(), path, found)) }
    }

    /// Returns a copy that is not open yet; `None` if this file is held open.
    pub(crate) fn again(&self) -> Option<Self> {
        let (fs, path, found) = self.closed.as_ref()?;
        Some(PackedSource::closed(fs, path.clone(), found.clone()))
    }

    /// The open file.
    ///
    /// # Errors
    ///
    /// Fails with `ESTALE` if another file, or on a network file system none, has the path by now, and with the errors
    /// of opening or examining the file.
    pub(crate) fn get(&self) -> Result<&Arc<File>> {
        if let (None, Some((fs, path, found))) = (self.file.get(), &self.closed) {
            let file = match fs.open(path) {
                // On a network file system, a file may be missing for a moment while another machine replaces it.
                Err(error) if error.is_not_found() && fs.asks_server() => {
                    return Err(refdb_vfs::Error::stale("read", path).into());
                }
                file => file?,
            };
            let is_same = match &found.handle {
                Some(handle) => file.server_handle().as_ref() == Some(handle),
                None => file.stat()? == found.stat,
            };
            if !is_same {
                return Err(refdb_vfs::Error::stale("read", path).into());
            }
            let _another_thread_may_have = self.file.set(Arc::new(file));
        }
        Ok(self.file.get().expect("it is held open, or was opened just now"))
    }
}
