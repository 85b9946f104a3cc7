use super::{Durability, Listed, Stack, StackError, TableName, name::TEMP_SUFFIX, options::NEW_FILE_MODE};
use crate::{Sink, Source};
use refdb_vfs::File;
use std::{io::ErrorKind, path::PathBuf};

/// A table that is smaller than this is collected in memory and written with a single write.
const BUFFER_BYTES: usize = 256 << 10;

/// The initial capacity, which suffices for the tables of most transactions.
const BUFFER_START_BYTES: usize = 1 << 10;

/// A table that is being written, or that no list names yet. Dropping it removes its file, if there is one.
///
/// A small table gets its file only when it is complete, so that it takes a single write and a table that turns out to
/// be empty leaves no trace.
#[derive(Debug)]
pub struct NewTable {
    stack: Stack,
    name: TableName,
    limits: (u64, u64),
    path: PathBuf,
    /// The bytes that are not in the file yet; all bytes of a small table.
    buffer: Vec<u8>,
    small: bool,
    file: Option<File>,
    /// Whether there is a file that no list names.
    unlisted: bool,
    /// Whether a write or a sync failed because there was no room.
    lacks_room: bool,
    /// Whether a write or a sync of the file failed, so that the file may lack bytes.
    is_lost: bool,
}

impl NewTable {
    /// Creates a table for a writer that holds the list's lock. Its file needs no temporary name, because nobody reads
    /// a table that no list names, and a clean-up locks the list first.
    pub(super) fn under_lock(stack: &Stack, min_update_index: u64, max_update_index: u64) -> Self {
        let name = TableName::by(stack.writers(), min_update_index, max_update_index);
        let path = stack.path_of(&name);
        NewTable {
            stack: stack.clone(),
            name,
            limits: (min_update_index, max_update_index),
            path,
            buffer: Vec::with_capacity(BUFFER_START_BYTES),
            small: true,
            file: None,
            unlisted: false,
            lacks_room: false,
            is_lost: false,
        }
    }

    /// Creates a complete small table of these bytes, which have been checked, for a writer that holds the list's lock.
    pub(super) fn of_bytes(stack: &Stack, min_update_index: u64, max_update_index: u64, bytes: &[u8]) -> Self {
        let mut table = Self::under_lock(stack, min_update_index, max_update_index);
        table.buffer.extend_from_slice(bytes);
        table
    }

    /// The least and the greatest update index that the table's refs may have.
    pub(super) fn limits(&self) -> (u64, u64) {
        self.limits
    }

    /// The bytes of a small table.
    pub(super) fn bytes(&self) -> &[u8] {
        debug_assert!(self.small, "the buffer of a larger table has only its end");
        &self.buffer
    }

    /// Creates a table for a writer that does not hold the list's lock. Until [`put_in_place`](Self::put_in_place) its
    /// file has a temporary name, because C git removes tables that are not listed.
    pub(super) fn without_lock(stack: &Stack, min_update_index: u64, max_update_index: u64) -> Self {
        let mut table = Self::under_lock(stack, min_update_index, max_update_index);
        table.path.as_mut_os_string().push(TEMP_SUFFIX);
        table
    }

    /// Returns whether the whole table has been written to its file.
    pub(super) fn is_complete(&self) -> bool {
        self.unlisted && self.file.is_none() && !self.is_lost
    }

    /// Returns whether a write or a sync failed because there was no room. A file system that finds room for the bytes
    /// only when it sends them to the disk or to the server, as NFS does, tells the sync that there is none.
    pub(super) fn lacks_room(&self) -> bool {
        self.lacks_room
    }

    fn flush(&mut self) -> refdb_vfs::Result<()> {
        let written = self.write_buffer();
        self.note_want_of_room(&written);
        written
    }

    fn note_want_of_room<T>(&mut self, done: &refdb_vfs::Result<T>) {
        self.lacks_room |= done.as_ref().is_err_and(refdb_vfs::Error::is_want_of_room);
    }

    fn write_buffer(&mut self) -> refdb_vfs::Result<()> {
        assert!(!self.is_complete(), "a table does not change once it is written");
        if self.is_lost {
            let source = std::io::Error::other("an earlier attempt failed");
            return Err(refdb_vfs::Error { operation: "write", path: self.path.clone(), source });
        }
        if self.file.is_none() {
            let file = self.stack.fs().create_new(&self.path, NEW_FILE_MODE)?;
            if let Err(error) = self.stack.options().permit(&file) {
                let _ = self.stack.fs().remove_file(&self.path);
                return Err(error);
            }
            self.unlisted = true;
            self.file = Some(file);
        }
        let written = self.file.as_mut().map_or(Ok(()), |file| file.write_all(&self.buffer));
        self.is_lost = written.is_err();
        written
    }

    /// Writes the remaining bytes, syncs the file if the durability requires it, and closes it. Calling it again has no
    /// effect, or fails if a write or the sync of the file has failed.
    pub(super) fn write_out(&mut self) -> Result<(), StackError> {
        let Some(file) = self.write_unsynced()? else { return Ok(()) };
        let synced = file.sync();
        self.note_want_of_room(&synced);
        self.is_lost = synced.is_err();
        Ok(synced?)
    }

    /// Writes the remaining bytes as [`write_out`](Self::write_out) does, but returns the file if it still has to be
    /// synced.
    pub(super) fn write_unsynced(&mut self) -> Result<Option<File>, StackError> {
        if !self.is_complete() {
            self.flush()?;
        }
        let Some(file) = self.file.take() else { return Ok(None) };
        if self.stack.options().durability == Durability::Sync {
            return Ok(Some(file));
        }
        let delivered = self.stack.fs().deliver(&file);
        self.note_want_of_room(&delivered);
        self.is_lost = delivered.is_err();
        delivered?;
        Ok(None)
    }

    /// Renames the written file to the name that the list will have for it. `tables` are those of the present list,
    /// which is locked. If one of them has that name, as the original of a rewritten table has once in 2^24 times, a
    /// new name is chosen.
    pub(super) fn put_in_place(&mut self, tables: &[Listed]) -> Result<(), StackError> {
        while tables.iter().any(|listed| listed.name == self.name) {
            self.name = TableName::by(self.stack.writers(), self.limits.0, self.limits.1);
        }
        let path = self.stack.path_of(&self.name);
        assert!(self.is_complete(), "what gets a table's name is whole");
        self.stack.fs().rename(&self.path, &path)?;
        self.path = path;
        Ok(())
    }

    /// Returns whether the whole table is in memory.
    pub(super) fn is_small(&self) -> bool {
        self.small
    }

    /// Opens the complete table. Unless it is small, it must have been written out, and its file must have the name
    /// that the list will have for it.
    pub(super) fn open(&self) -> Result<Listed, StackError> {
        debug_assert!(self.small || self.is_complete(), "a large table is read from its file");
        let source = match self.small {
            true => Source::Memory(self.buffer.as_slice().into()),
            false => self.stack.open_source(&self.name)?,
        };
        Ok(Listed { name: self.name.clone(), table: self.stack.table(source, &self.name)? })
    }

    /// Keeps the file if a list that names it may still be put in place after this failure to do so: the server of a
    /// network file system can carry out a request later that its client has given up. If no list names the file in the
    /// end, a clean-up removes it.
    pub(super) fn keep_in_doubt(self, failure: &StackError) {
        // A server refuses for good what nobody may do, or what it has no room for.
        let is_refused = |error: &refdb_vfs::Error| {
            error.is_want_of_room()
                || matches!(error.source.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem)
        };
        let is_open = matches!(failure, StackError::Io(error) if !is_refused(error));
        if self.stack.fs().asks_server() && is_open {
            self.keep();
        }
    }

    /// Keeps the file, because a list names it now, or may do so later.
    pub(super) fn keep(mut self) {
        debug_assert_eq!(self.path, self.stack.path_of(&self.name), "its file has the name that is listed");
        self.unlisted = false;
    }
}

impl Sink for NewTable {
    fn write(&mut self, bytes: &[u8]) -> refdb_vfs::Result<()> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= BUFFER_BYTES {
            self.small = false;
            self.flush()?;
            self.buffer.clear();
        }
        Ok(())
    }
}

impl Drop for NewTable {
    fn drop(&mut self) {
        if self.unlisted {
            // A file that stays does no harm: no list names it, and a later clean-up removes it.
            let _ = self.stack.fs().remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{TableWriter, WriteOptions, stack::StackOptions};
    use refdb_types::HashKind;
    use refdb_vfs::{Fs, IoHook, LockTimeout, Op, Verdict};
    use std::sync::Arc;

    /// Previously, the empty file counted as the complete table.
    #[test]
    fn a_table_whose_file_could_not_get_its_permissions_is_not_complete() {
        struct Forbids;
        impl IoHook for Forbids {
            fn before(&self, op: Op<'_>) -> Verdict {
                match op {
                    Op::SetMode(..) => Verdict::Fail(ErrorKind::PermissionDenied.into()),
                    _ => Verdict::Proceed,
                }
            }
        }
        let dir = tempfile::tempdir().unwrap();
        let options = StackOptions::new(WriteOptions::new(HashKind::Sha1)).file_mode(Some(0o640));
        let stack = Stack::open(Fs::with_hook(Arc::new(Forbids)), dir.path(), options).unwrap();
        let mut table = NewTable::of_bytes(&stack, 1, 1, b"bytes");
        for _ in 0..2 {
            table.write_out().unwrap_err();
            assert!(!table.is_complete() && !table.path.exists());
        }
    }

    /// Previously, the second attempt succeeded without a sync, because the file counted as the complete table.
    #[test]
    fn a_table_whose_file_could_not_be_written_or_synced_stays_incomplete() {
        struct Full {
            at_sync: bool,
        }
        impl IoHook for Full {
            fn before(&self, op: Op<'_>) -> Verdict {
                match op {
                    Op::Write(..) if !self.at_sync => Verdict::Tear(1, ErrorKind::StorageFull.into()),
                    Op::Sync(_) if self.at_sync => Verdict::Fail(ErrorKind::QuotaExceeded.into()),
                    _ => Verdict::Proceed,
                }
            }
        }
        for at_sync in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let options = StackOptions::new(WriteOptions::new(HashKind::Sha1)).durability(Durability::Sync);
            let stack = Stack::open(Fs::with_hook(Arc::new(Full { at_sync })), dir.path(), options).unwrap();
            let mut table = NewTable::of_bytes(&stack, 1, 1, b"bytes");
            for _ in 0..2 {
                table.write_out().unwrap_err();
                assert!(!table.is_complete() && table.lacks_room());
            }
            let path = table.path.clone();
            drop(table);
            assert!(!path.exists());
        }
    }

    /// Previously, the rewritten table replaced its original, which a panic then kept from being removed.
    #[test]
    fn a_rewritten_table_never_gets_the_name_of_a_listed_one() {
        let dir = tempfile::tempdir().unwrap();
        let write = WriteOptions::new(HashKind::Sha1);
        let stack = Stack::open(Fs::real(), dir.path(), StackOptions::new(write)).unwrap();
        let name = "refs/heads/a".into();
        let record = crate::RefRecord { name, update_index: 1, value: crate::RefValue::Symbolic("HEAD".into()) };
        let mut addition = stack.lock(LockTimeout::None).unwrap();
        addition.add_table(1..=1, 0, |writer| writer.add_ref(&record)).unwrap();
        drop(addition.commit().unwrap());

        let snapshot = stack.snapshot();
        let original = &snapshot.tables()[0].name;
        let mut table = NewTable::without_lock(&stack, 1, 1);
        table.name = original.clone();
        let mut writer = TableWriter::new(write, 1, 1, &mut table).unwrap();
        writer.add_ref(&record).unwrap();
        writer.finish().unwrap();
        table.write_out().unwrap();
        let before = stack.fs().stat_link(&stack.path_of(original)).unwrap().file_id();
        table.put_in_place(snapshot.tables()).unwrap();
        assert_ne!(&table.name, original);
        assert_eq!(stack.fs().stat_link(&stack.path_of(original)).unwrap().file_id(), before);
        assert!(stack.path_of(&table.name).exists());
    }
}
