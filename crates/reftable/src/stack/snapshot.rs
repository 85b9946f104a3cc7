use super::{StackError, StackOptions, TableName, plan};
use crate::{HashKind, Merged, Table};
use refdb_vfs::{File, Fs, Stat};
use std::{
    fmt,
    ops::Range,
    path::Path,
    sync::{Arc, OnceLock},
};

/// The state of a stack at one moment. It never changes and is cheap to clone. It stays readable after a compaction has
/// removed the files of its tables, except on a network file system whose server loses them.
#[derive(Clone)]
pub struct Snapshot(Arc<State>);

struct State {
    sequence: u64,
    list: ListFile,
    tables: Arc<[Listed]>,
    merged: Merged,
}

/// A table and its name in the list.
#[derive(Clone)]
pub struct Listed {
    /// The name of the table's file.
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

    /// Returns a snapshot of the same tables for a list file that has replaced one with the same content.
    pub(super) fn with_list(&self, list: ListFile) -> Self {
        assert!(list.content == self.0.list.content, "a list of the same content has the same tables");
        let State { sequence, tables, merged, .. } = &*self.0;
        let (tables, merged) = (Arc::clone(tables), merged.clone());
        Snapshot(Arc::new(State { sequence: *sequence, list, tables, merged }))
    }

    /// The tables, read as one.
    pub fn merged(&self) -> &Merged {
        &self.0.merged
    }

    /// The tables, the oldest first.
    pub fn tables(&self) -> &[Listed] {
        &self.0.tables
    }

    /// A number that grows each time this open stack changes the list of tables or finds it changed. Unlike the update
    /// index it never decreases; it means nothing to other processes or other open stacks.
    pub fn sequence(&self) -> u64 {
        self.0.sequence
    }

    /// The least update index of the next addition. As in git, a stack that was compacted to no tables starts at 1
    /// again.
    pub fn next_update_index(&self) -> u64 {
        self.merged().max_update_index().saturating_add(1)
    }

    /// The tables that the geometric rule wants merged, as positions in [`tables`](Self::tables); `None` if it wants
    /// none merged.
    pub fn plan(&self, options: &StackOptions) -> Option<Range<usize>> {
        let sizes: Vec<u64> = self.tables().iter().map(Listed::weight).collect();
        plan(&sizes, options.geometric_factor)
    }

    pub(super) fn list(&self) -> &ListFile {
        &self.0.list
    }
}

impl Listed {
    /// The size that git's rule for compaction uses: without header and footer, so that tables of few records do not
    /// all seem equally large.
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

/// A `tables.list` that was read or written.
///
/// The list is always replaced by a rename and never changed in place. Because the list's file is kept open, its inode
/// number cannot be given to another file, so a file of the same identity under the name `tables.list` proves that the
/// list has not been replaced. On a network file system the file is not kept open, since it would stay readable under
/// its name after another machine has replaced it, and the content is compared instead.
#[derive(Debug)]
pub(super) struct ListFile {
    pub(super) content: Vec<u8>,
    file: Option<File>,
    identity: OnceLock<(u64, u64)>,
}

impl ListFile {
    /// The list of a stack that does not have one yet.
    pub(super) fn absent() -> Self {
        ListFile { content: Vec::new(), file: None, identity: OnceLock::new() }
    }

    /// A list with this content, and its open file if that is kept.
    pub(super) fn new(content: Vec<u8>, file: Option<File>) -> Self {
        ListFile { content, file, identity: OnceLock::new() }
    }

    /// Reads the list at `path`. Reading is cheapest if the list is about as long as this one.
    pub(super) fn read_again(&self, fs: &Fs, path: &Path) -> Result<Self, refdb_vfs::Error> {
        let read = match fs.asks_server() {
            true => fs.read(path).map(|content| Self::new(content, None)),
            false => {
                fs.open(path).and_then(|file| Ok(Self::new(read_whole(&file, self.content.len() + 512)?, Some(file))))
            }
        };
        match read {
            Err(error) if error.is_not_found() => Ok(Self::absent()),
            read => read,
        }
    }

    /// Returns whether the list at `path` is still this one. On a local file system this takes one stat call, and the
    /// first time another one.
    pub(super) fn is_current(&self, fs: &Fs, path: &Path) -> Result<bool, refdb_vfs::Error> {
        if fs.asks_server() {
            return Ok(self.read_again(fs, path)?.content == self.content);
        }
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

/// Reads a whole file. This takes the fewest calls if the file is shorter than `room` bytes.
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

/// Returns the tables as one.
pub(super) fn merge(tables: &[Listed]) -> Result<Merged, StackError> {
    Ok(Merged::new(tables.iter().map(|listed| Arc::clone(&listed.table)).collect::<Arc<[_]>>())?)
}
