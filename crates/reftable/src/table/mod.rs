//! One file: a writer, a reader, and cursors over its refs and logs.

use crate::{HashKind, LogRecord, ObjectId, RefRecord, Result, WriteOptions};
use bstr::{BStr, BString};
use refdb_vfs::{File, Mapping};
use std::sync::Arc;

/// Where a [`TableWriter`] puts its bytes.
pub trait Sink {
    /// Appends all of `bytes`.
    fn write(&mut self, bytes: &[u8]) -> refdb_vfs::Result<()>;
}

impl Sink for Vec<u8> {
    fn write(&mut self, bytes: &[u8]) -> refdb_vfs::Result<()> {
        self.extend_from_slice(bytes);
        Ok(())
    }
}

impl Sink for File {
    fn write(&mut self, bytes: &[u8]) -> refdb_vfs::Result<()> {
        self.write_all(bytes)
    }
}

impl<S: Sink + ?Sized> Sink for &mut S {
    fn write(&mut self, bytes: &[u8]) -> refdb_vfs::Result<()> {
        (**self).write(bytes)
    }
}

/// What a [`TableWriter`] wrote.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Summary {
    /// Ref records, tombstones among them.
    pub refs: u64,
    /// Log records, deletions among them.
    pub logs: u64,
    /// The file's length in bytes.
    pub bytes: u64,
}

/// Writes one table.
pub struct TableWriter<S: Sink>(S);

impl<S: Sink> TableWriter<S> {
    /// Begins a table whose records' update indexes lie within these limits.
    pub fn new(options: WriteOptions, min_update_index: u64, max_update_index: u64, sink: S) -> Result<Self> {
        let _ = (options, min_update_index, max_update_index);
        Ok(TableWriter(sink))
    }
    /// Adds a ref. Names must ascend.
    pub fn add_ref(&mut self, record: &RefRecord<'_>) -> Result<()> {
        let _ = record;
        unimplemented!()
    }
    /// Adds a log entry, after all refs. Names must ascend, and update indexes descend within a name.
    pub fn add_log(&mut self, record: &LogRecord<'_>) -> Result<()> {
        let _ = record;
        unimplemented!()
    }
    /// Writes what remains. The sink is not synced.
    pub fn finish(self) -> Result<Summary> {
        unimplemented!()
    }
}

/// A bounded cache of blocks, shared by any number of tables.
pub struct BlockCache(());

impl BlockCache {
    /// An empty cache that keeps about so many bytes.
    pub fn new(capacity_bytes: usize) -> Arc<Self> {
        let _ = capacity_bytes;
        Arc::new(BlockCache(()))
    }
}

/// An open file whose blocks are read when they are needed, and kept in a [`BlockCache`].
pub struct PagedFile(File);

impl PagedFile {
    /// Wraps an open file.
    pub fn new(file: File, cache: Arc<BlockCache>) -> Result<Self> {
        let _ = cache;
        Ok(PagedFile(file))
    }
}

/// Where a table's bytes are.
pub enum Source {
    /// A mapped file. For short-lived processes: see [`Mapping`].
    Mapped(Arc<Mapping>),
    /// In memory.
    Memory(Arc<[u8]>),
    /// In a file, read block by block.
    Paged(PagedFile),
}

/// An open table. Immutable, and usable from several threads.
pub struct Table {
    name: BString,
}

impl Table {
    /// Opens a table. Only header and footer are read and checked.
    pub fn open(source: Source, name: impl Into<BString>) -> Result<Arc<Self>> {
        let _ = source;
        Ok(Arc::new(Table { name: name.into() }))
    }
    /// The name it was opened under.
    pub fn name(&self) -> &BStr {
        self.name.as_ref()
    }
    /// The lowest update index that its refs may have.
    pub fn min_update_index(&self) -> u64 {
        unimplemented!()
    }
    /// The highest update index that its records may have.
    pub fn max_update_index(&self) -> u64 {
        unimplemented!()
    }
    /// The kind of its object ids.
    pub fn hash(&self) -> HashKind {
        unimplemented!()
    }
    /// The file's length.
    pub fn len_bytes(&self) -> u64 {
        unimplemented!()
    }
    /// A cursor before the first ref.
    pub fn refs(self: &Arc<Self>) -> RefCursor {
        unimplemented!()
    }
    /// A cursor before the first log entry.
    pub fn logs(self: &Arc<Self>) -> LogCursor {
        unimplemented!()
    }
    /// The refs that point at an object directly or through a tag, in order of name.
    pub fn refs_pointing_at(self: &Arc<Self>, id: &ObjectId) -> Result<Vec<PointingRef>> {
        let _ = id;
        unimplemented!()
    }
}

/// A ref found by the object it points at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PointingRef {
    /// The ref's full name.
    pub name: BString,
    /// The transaction that gave it its value.
    pub update_index: u64,
    /// The object it points at.
    pub target: ObjectId,
    /// For an annotated tag, the object that leads to.
    pub peeled: Option<ObjectId>,
}

/// Steps through the refs of one table, tombstones among them.
pub struct RefCursor(());

impl RefCursor {
    /// Moves before the first ref whose name is not less than `name`.
    pub fn seek(&mut self, name: &[u8]) -> Result<()> {
        let _ = name;
        unimplemented!()
    }
    /// The next ref.
    #[expect(clippy::should_implement_trait, reason = "the record borrows from the cursor")]
    pub fn next(&mut self) -> Result<Option<RefRecord<'_>>> {
        unimplemented!()
    }
}

/// Steps through the log entries of one table, by name, newest first, deletions among them.
pub struct LogCursor(());

impl LogCursor {
    /// Moves before the newest entry of the first ref whose name is not less than `name`.
    pub fn seek(&mut self, name: &[u8]) -> Result<()> {
        let _ = name;
        unimplemented!()
    }
    /// Moves before the newest entry of `name` that is not newer than `update_index`.
    pub fn seek_log(&mut self, name: &[u8], update_index: u64) -> Result<()> {
        let _ = (name, update_index);
        unimplemented!()
    }
    /// The next entry.
    #[expect(clippy::should_implement_trait, reason = "the record borrows from the cursor")]
    pub fn next(&mut self) -> Result<Option<LogRecord<'_>>> {
        unimplemented!()
    }
}
