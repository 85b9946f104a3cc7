use super::{StackError, StackOptions, TableName, plan};
use crate::{HashKind, Merged, Table};
use refdb_vfs::{File, Fs, Stat};
use std::{
    fmt,
    ops::Range,
    path::Path,
    sync::{Arc, OnceLock},
};

/// A stack at one moment: immutable, and cheap to clone. What compaction takes away meanwhile stays readable.
#[derive(Clone)]
pub struct Snapshot(Arc<State>);

struct State {
    sequence: u64,
    list: ListFile,
    tables: Arc<[Listed]>,
    merged: Merged,
}

/// A table and the name the list has for it.
#[derive(Clone)]
pub struct Listed {
    /// The name of its file.
    pub name: TableName,
    /// The open table.
    pub table: Arc<Table>,
}

impl Snapshot {
    pub(super) fn new(sequence: u64, list: ListFile, tables: Vec<Listed>, merged: Merged) -> Self {
        debug_assert!(
            tables.iter().map(|listed| Arc::as_ptr(&listed.table)).eq(merged.tables().iter().map(Arc::as_ptr)),
            "the merged tables are the listed ones, in their order: {tables:?}"
        );
        Snapshot(Arc::new(State { sequence, list, tables: tables.into(), merged }))
    }

    /// The same tables, seen through a list file that was replaced by one of the same content.
    pub(super) fn with_list(&self, list: ListFile) -> Self {
        assert!(list.content == self.0.list.content, "a list of the same content has the same tables");
        let State { sequence, tables, merged, .. } = &*self.0;
        let (tables, merged) = (Arc::clone(tables), merged.clone());
        Snapshot(Arc::new(State { sequence: *sequence, list, tables, merged }))
    }

    /// All tables as one.
    pub fn merged(&self) -> &Merged {
        &self.0.merged
    }

    /// The tables, the oldest first.
    pub fn tables(&self) -> &[Listed] {
        &self.0.tables
    }

    /// Grows each time this open stack sees other tables than before. It means nothing to another process, and unlike
    /// the update index it never goes back.
    pub fn sequence(&self) -> u64 {
        self.0.sequence
    }

    /// The update index of the next addition. A stack that was compacted to nothing starts at 1 again, as in git.
    pub fn next_update_index(&self) -> u64 {
        self.merged().max_update_index().saturating_add(1)
    }

    /// Which of the tables automatic compaction would make one.
    pub fn plan(&self, options: &StackOptions) -> Option<Range<usize>> {
        let sizes: Vec<u64> = self.tables().iter().map(Listed::weight).collect();
        plan(&sizes, options.geometric_factor)
    }

    pub(super) fn list(&self) -> &ListFile {
        &self.0.list
    }
}

impl Listed {
    /// Its size as git's rule for compaction counts it, without header and footer. So tables of few records do not all
    /// seem to be of one size.
    pub(super) fn weight(&self) -> u64 {
        let header_and_footer_bytes = match self.table.hash() {
            HashKind::Sha1 => 24 + 68,
            HashKind::Sha256 => 28 + 72,
        };
        (self.table.len_bytes() + 1).saturating_sub(header_and_footer_bytes)
    }
}

impl fmt::Debug for Listed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.name.fmt(f)
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.tables()).finish()
    }
}

/// `tables.list` as it was read or written. Its file stays open, so that its inode is not given to another file. The
/// identity of the file behind the name then proves that the list is still this one. The list is only ever replaced by
/// a rename, never changed in place.
#[derive(Debug)]
pub(super) struct ListFile {
    pub(super) content: Vec<u8>,
    file: Option<File>,
    identity: OnceLock<(u64, u64)>,
}

impl ListFile {
    /// The list of a stack that has none yet.
    pub(super) fn absent() -> Self {
        ListFile { content: Vec::new(), file: None, identity: OnceLock::new() }
    }

    /// A list whose file is open.
    pub(super) fn new(content: Vec<u8>, file: Option<File>) -> Self {
        ListFile { content, file, identity: OnceLock::new() }
    }

    /// Reads the list, which is probably not much longer than this one.
    pub(super) fn read_again(&self, fs: &Fs, path: &Path) -> Result<Self, refdb_vfs::Error> {
        let mut attempts_left = 3;
        loop {
            attempts_left -= 1;
            let file = match fs.open(path) {
                Err(error) if error.is_not_found() => return Ok(Self::absent()),
                file => file?,
            };
            match read_whole(&file, self.content.len() + 512) {
                // Replaced on a network file system since it was opened.
                Err(error) if error.is_stale() && attempts_left > 0 => {}
                content => return Ok(Self::new(content?, Some(file))),
            }
        }
    }

    /// Whether the file behind `path` is still this one, by one stat.
    pub(super) fn is_current(&self, fs: &Fs, path: &Path) -> Result<bool, refdb_vfs::Error> {
        let found = fs.find(path)?.as_ref().map(Stat::file_id);
        let Some(file) = &self.file else { return Ok(found.is_none()) };
        let own = match self.identity.get() {
            Some(own) => *own,
            None => *self.identity.get_or_init({
                let own = file.stat()?.file_id();
                move || own
            }),
        };
        Ok(found == Some(own))
    }
}

/// A file's content; cheap if it is shorter than `room`.
fn read_whole(file: &File, room: usize) -> Result<Vec<u8>, refdb_vfs::Error> {
    let mut content = vec![0; room];
    let mut len = 0;
    loop {
        match file.read_at(&mut content[len..], len as u64)? {
            0 => break,
            got => len += got,
        }
        if len == content.len() {
            content.resize(len * 2, 0);
        }
    }
    content.truncate(len);
    Ok(content)
}

/// Tables as one.
pub(super) fn merge(tables: &[Listed]) -> Result<Merged, StackError> {
    Ok(Merged::new(tables.iter().map(|listed| Arc::clone(&listed.table)).collect::<Arc<[_]>>())?)
}
