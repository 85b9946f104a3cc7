//! `refdb stat --storage`: what the mount means for refs, in the words of `refdb check-storage`, which tests the
//! storage.

use crate::failure::Result;
use refdb::Repository;
use serde::Serialize;

/// The storage of a repository's refs.
#[derive(Debug, Serialize)]
pub(super) struct Storage {
    folder: String,
    /// Whether only this machine has the file system.
    local: bool,
    /// The kind of file system and its options; missing if the mount cannot be found.
    #[serde(skip_serializing_if = "Option::is_none")]
    mount: Option<String>,
    /// How far `flock` reaches; missing on a local file system, where it reaches every process, and if the mount cannot
    /// be found.
    #[serde(skip_serializing_if = "Option::is_none")]
    flock: Option<&'static str>,
    /// What the storage means for refs; a conclusion about an unsafe format comes first.
    conclusions: Vec<String>,
    #[serde(skip)]
    lines: String,
}

/// Examines the storage of a repository. Reads no ref.
pub(super) fn look(repository: &Repository) -> Result<Storage> {
    let folder = repository.common_dir();
    let storage = refdb_vfs::Storage::of(folder).map_err(refdb::Error::from)?;
    Ok(Storage {
        folder: folder.display().to_string(),
        local: storage.is_local,
        mount: storage.mount.as_ref().map(|mount| mount.options().to_owned()),
        flock: storage.mount.as_ref().filter(|_| !storage.is_local).map(|mount| mount.flock()),
        conclusions: storage.conclusions(),
        lines: storage.to_string(),
    })
}

impl Storage {
    pub(super) fn text(&self) -> String {
        let lines: Vec<String> = self.lines.lines().map(|line| format!("  {line}\n")).collect();
        format!("{}:\n{}", self.folder, lines.concat())
    }
}
