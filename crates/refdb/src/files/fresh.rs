//! Writes refs and reflogs as files into new folders that nobody reads yet, for a migration.

use super::{
    FilesBackend, FilesOptions,
    loose::{self, folders},
    packing::write,
    reflog,
    strategy::is_packed_name,
};
use crate::{Result, TargetView, backend::LogLine};
use bstr::{BStr, ByteSlice};
use refdb_types::{LineStart, Memo, ObjectId, Scope};
use refdb_vfs::File;
use std::{
    collections::BTreeSet,
    io::ErrorKind,
    path::{Path, PathBuf},
};

/// About how many bytes of packed-refs are written at a time.
const BUFFER_LEN: usize = 256 << 10;

/// The most small files that are synced one by one. For more, the caller should sync the whole file system once.
const SYNCED_ONE_BY_ONE_MAX: usize = 128;

/// Writes the refs of one worktree to files. All files are synced, unless [`FreshFiles::finish`] returns `false`
/// because there are too many.
pub(crate) struct FreshFiles {
    backend: FilesBackend,
    packed: Option<File>,
    buffer: Vec<u8>,
    /// Recent objects in the form of their lines.
    objects: Memo<ObjectId, Known, OBJECTS_MAX>,
    /// Folders that are known to exist and have new entries.
    folders: BTreeSet<PathBuf>,
    small_files: usize,
}

/// An object in the form of a line of packed-refs.
#[derive(Clone, Copy)]
struct Known {
    start: LineStart,
    /// The object to which it peels, if it is an annotated tag.
    peeled: Option<ObjectId>,
}

/// The maximum number of recent objects that are kept; together they take about 2.5 MiB.
const OBJECTS_MAX: usize = 1 << 14;

/// The lines of a reflog, collected from the newest to the oldest.
#[derive(Default)]
pub(crate) struct Lines {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Lines {
    /// Adds an entry that is older than those added before.
    pub(crate) fn push(&mut self, line: &LogLine<'_>) {
        reflog::line::encode(line, &mut self.bytes);
        self.ends.push(self.bytes.len());
    }

    /// Removes all lines, for the next reflog.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// The content of the file, with the oldest entry first.
    fn content(&self) -> Vec<u8> {
        let mut content = Vec::with_capacity(self.bytes.len());
        for at in (0..self.ends.len()).rev() {
            let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
            content.extend_from_slice(&self.bytes[start..self.ends[at]]);
        }
        debug_assert_eq!(content.len(), self.bytes.len(), "each line is there once");
        content
    }
}

impl FreshFiles {
    /// Begins to write. The folders in `options` must exist and contain none of these refs.
    pub(crate) fn new(options: FilesOptions) -> Self {
        FreshFiles {
            backend: FilesBackend::new(options),
            packed: None,
            buffer: Vec::with_capacity(BUFFER_LEN + 4096),
            objects: Memo::default(),
            folders: BTreeSet::new(),
            small_files: 0,
        }
    }

    /// Adds a ref, in ascending order of name. A shared ref below `refs/` that points to an object goes to packed-refs;
    /// the object is peeled unless `peeled` is given. Any other ref becomes a loose file.
    pub(crate) fn put(&mut self, name: &BStr, target: TargetView<'_>, peeled: Option<ObjectId>) -> Result<()> {
        match (target, peeled) {
            (TargetView::Direct(id), peeled) if is_packed_name(name) => {
                let Some(peeled) = peeled else { return self.put_packed(name, &id) };
                self.begin_packed()?;
                write::encode(name, id, Some(peeled), &mut self.buffer);
                self.relieve()
            }
            (target, _) => {
                let Some(path) = self.backend.store.layout.ref_path(name) else { return Ok(()) };
                let mut content = Vec::new();
                loose::encode(target, &mut content);
                self.put_file(&path, &content)
            }
        }
    }

    /// Adds a shared ref, in ascending order of name, to packed-refs. Its object is peeled here, because the tables
    /// that git's own migration writes do not say where tags lead.
    #[inline]
    pub(crate) fn put_packed(&mut self, name: &BStr, id: &ObjectId) -> Result<()> {
        debug_assert!(Scope::of(name) == Scope::Shared, "other worktrees see packed-refs too: {name}");
        let Known { start, peeled } = match self.objects.get(id) {
            Some(known) => known,
            None => &self.look_up(id)?,
        };
        start.write(&mut self.buffer);
        write::encode_rest(name, *peeled, &mut self.buffer);
        self.relieve()
    }

    /// Peels an object that is not among the recent ones.
    #[inline(never)]
    fn look_up(&mut self, id: &ObjectId) -> Result<Known> {
        self.begin_packed()?;
        let known = Known { start: LineStart::new(id), peeled: write::peel(&self.backend.store, id)? };
        self.objects.put(*id, known);
        Ok(known)
    }

    /// Creates packed-refs before the first ref goes to it.
    fn begin_packed(&mut self) -> Result<()> {
        if self.packed.is_none() {
            let path = self.backend.store.layout.packed_path();
            let fs = &self.backend.store.options.fs;
            self.packed = Some(fs.create_new(&path, 0o666)?);
            folders::share(fs, &path, self.backend.store.options.sharing, false)?;
            self.buffer.extend_from_slice(write::WHOLE_HEADER);
        }
        Ok(())
    }

    /// Writes the buffer once it is full.
    #[inline]
    fn relieve(&mut self) -> Result<()> {
        if self.buffer.len() >= BUFFER_LEN { self.flush() } else { Ok(()) }
    }

    /// Adds a reflog, which may be empty.
    pub(crate) fn put_log(&mut self, name: &BStr, lines: &Lines) -> Result<()> {
        let Some(path) = self.backend.store.layout.log_path(name) else { return Ok(()) };
        self.put_file(&path, &lines.content())
    }

    fn put_file(&mut self, path: &Path, content: &[u8]) -> Result<()> {
        let options = &self.backend.store.options;
        debug_assert!(path.starts_with(&options.common_dir), "it stays in its folder: {}", path.display());
        let create = || options.fs.create_new(path, 0o666);
        let known = path.parent().is_some_and(|folder| self.folders.contains(folder));
        let mut file = if known {
            create()?
        } else {
            let is_missing = |error: &refdb_vfs::Error| error.source.kind() == ErrorKind::NotFound;
            let mut made = Vec::new();
            let file = folders::with_parents(&options.fs, path, options.sharing, &mut made, is_missing, create)?;
            let new = made.iter().map(PathBuf::as_path).chain([path]);
            self.folders.extend(new.filter_map(Path::parent).map(Path::to_owned));
            file
        };
        if !content.is_empty() {
            file.write_all(content)?;
        }
        self.small_files += 1;
        if self.small_files <= SYNCED_ONE_BY_ONE_MAX {
            file.sync()?;
        }
        drop(file);
        Ok(folders::share(&options.fs, path, options.sharing, false)?)
    }

    fn flush(&mut self) -> Result<()> {
        if let Some(file) = &mut self.packed {
            file.write_all(&self.buffer)?;
            self.buffer.clear();
        }
        Ok(())
    }

    /// Writes the rest. Returns `false` if there are so many small files that the caller has to sync the file system.
    pub(crate) fn finish(mut self) -> Result<bool> {
        self.flush()?;
        debug_assert!(self.buffer.as_bytes().is_empty(), "all of packed-refs is in its file");
        if let Some(file) = &self.packed {
            file.sync()?;
        }
        if self.small_files > SYNCED_ONE_BY_ONE_MAX {
            return Ok(false);
        }
        let fs = &self.backend.store.options.fs;
        self.folders.iter().try_for_each(|folder| fs.sync_dir(folder))?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::AnyObject;
    use refdb_types::HashKind;
    use refdb_vfs::{Fs, IoHook, Op, Verdict};
    use std::sync::{Arc, Mutex};

    /// Notes the folders that are synced.
    #[derive(Default)]
    struct Synced(Mutex<BTreeSet<PathBuf>>);

    impl IoHook for Synced {
        fn before(&self, op: Op<'_>) -> Verdict {
            if let Op::SyncDir(folder) = op {
                self.0.lock().unwrap().insert(folder.to_owned());
            }
            Verdict::Proceed
        }
    }

    #[test]
    fn the_folder_that_gets_a_new_folder_is_synced() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("refs/heads")).unwrap();
        let hook = Arc::new(Synced::default());
        let fs = Fs::with_hook(hook.clone());
        let options = FilesOptions::new(fs, dir.path().to_owned(), HashKind::Sha1, Arc::new(AnyObject));
        let mut fresh = FreshFiles::new(options);
        fresh.put("refs/heads/x/y/z".into(), TargetView::Symbolic("refs/heads/main".into()), None).unwrap();
        assert!(fresh.finish().unwrap());
        let expected = ["refs/heads", "refs/heads/x", "refs/heads/x/y"].map(|name| dir.path().join(name));
        assert_eq!(*hook.0.lock().unwrap(), BTreeSet::from(expected));
    }
}
