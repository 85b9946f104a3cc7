use super::bytes;
use crate::failure::{Failure, Result};
use bstr::ByteSlice;
use refdb::{
    Repository,
    files::{FilesBackend, JournalEntries, Packed},
};
use refdb_vfs::{EntryKind, Fs};
use serde::Serialize;
use std::{ffi::OsStr, os::unix::ffi::OsStrExt, path::Path};

/// Statistics of refs that are stored as files.
#[derive(Debug, Default, Serialize)]
pub(super) struct Files {
    loose: u64,
    /// The number of folders, `refs/` and all below it, which a listing of all refs must open.
    folders: u64,
    packed: u64,
    packed_bytes: u64,
    /// What the first line of packed-refs promises.
    packed_header: String,
    /// The number of lines in packed-refs that are hidden by a loose ref of the same name.
    packed_shadowed: u64,
    /// The paths of journal entries of small batches that are in progress or whose processes are gone, and of journal
    /// files that cannot be read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unsettled: Vec<String>,
    /// The paths of journal entries of batches that were recovered only in part, whose refs a person has to examine.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    left: Vec<String>,
}

/// Counts files and lines.
pub(super) fn look(repository: &Repository, backend: &FilesBackend) -> Result<Files> {
    let fs = Fs::real();
    let mut files = Files::default();
    let JournalEntries { open, left } = backend.journal_entries()?;
    [files.unsettled, files.left] =
        [open, left].map(|paths| paths.iter().map(|path| path.display().to_string()).collect());
    let root = repository.refs_dir();
    let path = root.join("packed-refs");
    let packed = match fs.read(&path) {
        Ok(content) => content,
        Err(error) if error.is_not_found() => Vec::new(),
        Err(error) => return Err(Failure::Fatal(error.to_string().into())),
    };
    files.packed_bytes = packed.len() as u64;
    let header = packed.lines().next().and_then(|line| line.strip_prefix(b"# pack-refs with:"));
    files.packed_header = header.unwrap_or_default().trim().to_str_lossy().into_owned();
    let packed = Packed::parse(&path, repository.hash(), packed)?;
    let mut at = packed.start();
    while at < packed.end() {
        files.packed += 1;
        at = packed.record(at)?.next;
    }
    files.walk(&fs, &root.join("refs"), b"refs", &packed)?;
    Ok(files)
}

impl Files {
    fn walk(&mut self, fs: &Fs, folder: &Path, name: &[u8], packed: &Packed) -> Result<()> {
        self.folders += 1;
        // A folder that cannot be read is counted among the broken refs.
        for (entry, kind) in fs.read_dir(folder).unwrap_or_default() {
            let name = [name, b"/", &entry].concat();
            match kind {
                EntryKind::Dir => self.walk(fs, &folder.join(OsStr::from_bytes(&entry)), &name, packed)?,
                EntryKind::File | EntryKind::Symlink if !entry.ends_with(b".lock") => {
                    self.loose += 1;
                    let at = packed.seek(packed.start(), name.as_bstr())?;
                    self.packed_shadowed += u64::from(at < packed.end() && packed.record(at)?.name == name);
                }
                EntryKind::File | EntryKind::Symlink | EntryKind::Other => {}
            }
        }
        Ok(())
    }

    pub(super) fn text(&self) -> String {
        let unsettled = self.unsettled.iter().map(|path| format!("unsettled batch: {path} (`refdb refs settle`)\n"));
        let left = self.left.iter().map(|path| format!("refs to look at: {path}\n"));
        self.counts() + &unsettled.chain(left).collect::<String>()
    }

    fn counts(&self) -> String {
        format!(
            "loose refs: {} in {} folders\npacked-refs: {} refs, {} ({})\n\
             packing would remove up to {} small files and replace {} packed lines\n",
            self.loose,
            self.folders,
            self.packed,
            bytes(self.packed_bytes),
            if self.packed_header.is_empty() { "no header" } else { &self.packed_header },
            self.loose,
            self.packed_shadowed,
        )
    }
}
