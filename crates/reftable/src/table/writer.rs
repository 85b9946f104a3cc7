mod sections;

use super::{Sink, objects::ObjectCollector, output::Output};
use crate::{
    Error, LogRecord, LogValue, RefRecord, RefValue, Result, WriteOptions,
    block::{Added, BlockWriter, Deflater, Layout, store},
    format::{BLOCK_HEADER_LEN, BlockKind, Footer, Header, stored_extra},
    record::{key::common_prefix, log_key},
};
use bstr::{BStr, ByteSlice};
use refdb_types::{ObjectId, has_nul};
use sections::BlockList;
use std::fmt;

/// The number of records and bytes that a [`TableWriter`] has written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Summary {
    /// The number of ref records, including tombstones.
    pub refs: u64,
    /// The number of log records, including tombstones.
    pub logs: u64,
    /// The length of the file, in bytes.
    pub bytes: u64,
}

/// Writes one table: refs in order, then log entries in order, then [`finish`](Self::finish).
///
/// C git can read the table, unless it has a log entry that [`check_log`](Self::check_log) refuses. So that JGit can
/// read it, too, each index has exactly one root block, and tables with SHA-1 have version 1 of the format. What JGit
/// cannot read nevertheless is listed in `docs/formats/reftable.md`.
///
/// After an error the table is incomplete and has to be given up, unless the method says otherwise.
#[must_use = "a table is not complete before `finish`"]
pub struct TableWriter<S: Sink> {
    options: WriteOptions,
    header: Header,
    output: Output<S>,
    block: BlockWriter,
    /// The length of the longest key for which an index has room, in bytes.
    index_key_max: usize,
    /// The previous key in this section, or in this level of its index.
    last_key: Vec<u8>,
    /// The blocks of this section, or of this level of its index.
    index: BlockList,
    objects: Option<ObjectCollector>,
    deflater: Deflater,
    /// A deflated log block.
    packed: Vec<u8>,
    log_key: Vec<u8>,
    footer: Footer,
    summary: Summary,
}

impl<S: Sink> fmt::Debug for TableWriter<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TableWriter { options, summary, .. } = self;
        f.debug_struct("TableWriter").field("options", options).field("summary", summary).finish_non_exhaustive()
    }
}

/// The factor by which log blocks may be larger than the block size, as long as they do not exceed [`LOG_BLOCK_MAX`].
///
/// Resetting the deflate state for each block costs as much as deflating thousands of bytes, so log blocks are larger
/// than others, unless inflating one for a single entry would take too long. The format's document suggests a factor of
/// 2.
const LOG_BLOCK_FACTOR: u32 = 4;

/// The size up to which log blocks are made larger than the block size, in bytes.
const LOG_BLOCK_MAX: u32 = 16 * 1024;
const _: () = assert!(LOG_BLOCK_MAX <= WriteOptions::BLOCK_SIZE_MAX, "the format knows no larger block");

impl<S: Sink> TableWriter<S> {
    /// Begins a table whose refs have update indexes within these limits, inclusive. Log entries may be
    /// [older](Self::add_log).
    ///
    /// # Errors
    ///
    /// [`Error::BlockSize`] if the block size is 0 or larger than the format allows.
    pub fn new(options: WriteOptions, min_update_index: u64, max_update_index: u64, sink: S) -> Result<Self> {
        let options = options.checked()?;
        let alignment = if options.aligned { options.block_size } else { 0 };
        let header = Header::new(options.hash, alignment, min_update_index, max_update_index);
        let mut block = BlockWriter::new(options.restart_interval);
        block.begin(BlockKind::Ref, |out| header.encode(out));
        let index_key_max = options.index_key_max();
        Ok(TableWriter {
            options,
            header,
            output: Output::new(sink),
            block,
            index_key_max,
            last_key: Vec::new(),
            index: BlockList::default(),
            objects: options.index_objects.then(ObjectCollector::default),
            deflater: Deflater::default(),
            packed: Vec::new(),
            log_key: Vec::new(),
            footer: Footer {
                header,
                ref_index: 0,
                objects: 0,
                object_id_len: 0,
                object_index: 0,
                logs: 0,
                log_index: 0,
            },
            summary: Summary::default(),
        })
    }

    /// Adds a ref. Names must ascend, and no log entry may have been added.
    ///
    /// # Errors
    ///
    /// [`Error::Limits`], [`Error::Order`] and [`Error::Unstorable`] if the record is invalid in this table, and
    /// [`Error::TooLarge`] if it does not fit into a block; the record can be left out then. [`Error::Io`] if the sink
    /// fails.
    pub fn add_ref(&mut self, record: &RefRecord<'_>) -> Result<()> {
        let Header { min_update_index, max_update_index, .. } = self.header;
        if !(min_update_index..=max_update_index).contains(&record.update_index) {
            return Err(self.out_of_limits(record.name, record.update_index));
        }
        match &record.value {
            RefValue::Deletion | RefValue::Symbolic(_) => {}
            RefValue::Direct(id) => self.check_id(record.name, id)?,
            RefValue::Peeled { target, peeled } => {
                self.check_id(record.name, target)?;
                self.check_id(record.name, peeled)?;
            }
        }
        check_name(record.name)?;
        if self.block.kind() != BlockKind::Ref {
            return Err(Error::Order { name: record.name.to_owned() });
        }
        let delta = record.update_index - min_update_index;
        self.add(record.name, record.value.type_bits(), record.name, |out| record.value.encode(delta, out))?;
        self.summary.refs += 1;
        if let Some(objects) = &mut self.objects {
            let block = self.index.len();
            match &record.value {
                RefValue::Deletion | RefValue::Symbolic(_) => {}
                RefValue::Direct(id) => objects.add(id, block),
                RefValue::Peeled { target, peeled } => {
                    objects.add(target, block);
                    objects.add(peeled, block);
                }
            }
        }
        Ok(())
    }

    /// Adds a log entry. Names must ascend, and update indexes must descend within a name.
    ///
    /// An entry can be older than the table's lower limit, because rewriting a reflog keeps the update indexes of its
    /// entries. A tombstone can have any update index. An entry can be longer than the block size. C git cannot write
    /// such an entry, and reads it only if deflate shrinks it; [`check_log`](Self::check_log) refuses it.
    ///
    /// # Errors
    ///
    /// As for [`add_ref`](Self::add_ref).
    pub fn add_log(&mut self, record: &LogRecord<'_>) -> Result<()> {
        if let LogValue::Update { old, new, .. } = &record.value {
            if record.update_index > self.header.max_update_index {
                return Err(self.out_of_limits(record.name, record.update_index));
            }
            self.check_id(record.name, old)?;
            self.check_id(record.name, new)?;
        }
        check_name(record.name)?;
        if self.block.kind() == BlockKind::Ref {
            self.finish_refs()?;
            self.begin_logs()?;
        }
        let mut key = std::mem::take(&mut self.log_key);
        log_key(&mut key, record.name, record.update_index);
        let added = self.add(&key, record.value.type_bits(), record.name, |out| record.value.encode(out));
        self.log_key = key;
        self.summary.logs += u64::from(added.is_ok());
        added
    }

    /// Adds a log entry of an older table. An entry that is too large for C git to write is cut, because git could not
    /// compact a table that contains it: first the message is cut, then the name and the email of the committer, but
    /// neither below 128 bytes. An entry that no cut makes small enough is added as it is.
    ///
    /// # Errors
    ///
    /// As for [`add_log`](Self::add_log).
    pub fn copy_log(&mut self, record: &LogRecord<'_>) -> Result<()> {
        let options = self.options;
        options.with_log_cut(record, |record| self.add_log(record))
    }

    /// The options with which the table is written.
    pub(crate) fn options(&self) -> WriteOptions {
        self.options
    }

    /// Checks that C git could write a log entry into this table and read it again.
    ///
    /// # Errors
    ///
    /// [`Error::TooLarge`] if it could not.
    pub fn check_log(&self, record: &LogRecord<'_>) -> Result<()> {
        self.options.check_log(record, self.summary.refs > 0)
    }

    /// Writes the rest of the table to the sink, which is not synced.
    ///
    /// # Errors
    ///
    /// [`Error::TooLarge`] if the index of the logs has no room for the names, [`Error::Io`] if the sink fails.
    pub fn finish(mut self) -> Result<Summary> {
        if self.block.kind() == BlockKind::Ref {
            self.finish_refs()?;
            if self.summary.refs == 0 {
                // A table without records still has a header.
                self.output.put(|out| self.header.encode(out))?;
            }
        } else {
            if !self.block.is_empty() {
                self.flush_block(false, true)?;
            }
            self.footer.log_index = self.finish_section(1, false)?;
        }
        self.output.skip_padding();
        let Footer { ref_index, objects, object_index, logs, log_index, .. } = self.footer;
        let sections = [ref_index, objects, object_index, logs, log_index];
        assert!(sections.iter().filter(|at| **at > 0).is_sorted_by(|a, b| a < b), "sections ascend: {sections:?}");
        assert!(sections.iter().all(|at| *at < self.output.position()), "sections lie before the footer: {sections:?}");
        self.output.put(|out| self.footer.encode(out))?;
        self.output.flush()?;
        self.summary.bytes = self.output.position();
        Ok(self.summary)
    }

    fn out_of_limits(&self, name: &BStr, update_index: u64) -> Error {
        let Header { min_update_index: min, max_update_index: max, .. } = self.header;
        Error::Limits { name: name.to_owned(), update_index, min, max }
    }

    #[inline]
    fn check_id(&self, name: &BStr, id: &ObjectId) -> Result<()> {
        if id.kind() == self.options.hash {
            return Ok(());
        }
        Err(Error::Unstorable { name: name.to_owned(), reason: "its object id is of another hash function" })
    }

    /// Adds a record to the block, or to the next one if the block is full.
    #[inline]
    fn add(&mut self, key: &[u8], value_type: u8, name: &BStr, value: impl Fn(&mut Vec<u8>)) -> Result<()> {
        let shared = common_prefix(&self.last_key, key);
        let ascends = match (self.last_key.get(shared), key.get(shared)) {
            (Some(last), Some(now)) => last < now,
            (None, Some(_)) => true,
            (_, None) => false,
        };
        if !ascends {
            return Err(Error::Order { name: name.to_owned() });
        }
        let limit = match self.block.kind() {
            // The index has no room for the last key, so the block continues until its last key is short enough.
            BlockKind::Log if self.last_key.len() > self.index_key_max => WriteOptions::BLOCK_SIZE_MAX,
            BlockKind::Log => self.log_block_size(),
            _ => self.options.block_size,
        };
        if !self.block.add(key, shared, value_type, limit as usize, &value) {
            self.add_to_next(key, value_type, name, &value)?;
        }
        self.last_key.truncate(shared);
        self.last_key.extend_from_slice(&key[shared..]);
        debug_assert_eq!(self.last_key, key, "the next key is compared with this one");
        Ok(())
    }

    fn log_block_size(&self) -> u32 {
        let block_size = self.options.block_size;
        block_size.max(LOG_BLOCK_MAX.min(block_size.saturating_mul(LOG_BLOCK_FACTOR)))
    }

    #[cold]
    fn add_to_next(&mut self, key: &[u8], value_type: u8, name: &BStr, value: &dyn Fn(&mut Vec<u8>)) -> Result<()> {
        let kind = self.block.kind();
        if !self.block.is_empty() {
            self.flush_block(kind != BlockKind::Log, false)?;
            self.block.begin(kind, |_| {});
        }
        // Log blocks are never aligned, so a long message can make a long block.
        let limit = match kind {
            BlockKind::Log => WriteOptions::BLOCK_SIZE_MAX,
            _ => self.options.block_size,
        };
        if self.block.add(key, 0, value_type, limit as usize, value) {
            return Ok(());
        }
        Err(Error::TooLarge { name: name.to_owned(), block_size: self.options.block_size })
    }

    /// Writes the block and adds it to the list for the index. If blocks are aligned, `padded` says whether this one is
    /// padded when another block follows; `last` says whether it is the last block of the section.
    fn flush_block(&mut self, padded: bool, last: bool) -> Result<()> {
        let kind = self.block.kind();
        assert!(!self.block.is_empty(), "a block has records, and the index its last key");
        let bytes = self.block.finish();
        if kind == BlockKind::Log {
            self.output.skip_padding();
        } else {
            self.output.pad();
        }
        let position = self.output.position();
        let header_at = if position == 0 { self.header.len() } else { 0 };
        debug_assert!(Layout::of(kind, bytes, header_at).is_ok(), "a block is read as it was written");
        debug_assert!(
            !(padded && self.options.aligned) || position % u64::from(self.options.block_size) == 0,
            "blocks of aligned sections begin at multiples of the block size: {position}"
        );
        if kind == BlockKind::Log {
            self.packed.clear();
            self.packed.extend_from_slice(&bytes[..BLOCK_HEADER_LEN]);
            let max = self.header.log_block_max(bytes.len());
            let may_store = last && bytes.len() + stored_extra(bytes.len()) <= max;
            self.deflater.deflate(&bytes[BLOCK_HEADER_LEN..], may_store, &mut self.packed);
            if self.packed.len() > max {
                let added = self.block.added();
                if added.len() > 1 {
                    return self.flush_halves(&added, last);
                }
                // Deflate can make a record much longer, while storing it adds only a few bytes.
                self.packed.truncate(BLOCK_HEADER_LEN);
                store(&self.block.finished()[BLOCK_HEADER_LEN..], &mut self.packed);
            }
            self.output.put(|out| out.extend_from_slice(&self.packed))?;
        } else {
            self.output.put(|out| out.extend_from_slice(bytes))?;
            let over = bytes.len() % self.options.block_size as usize;
            if padded && self.options.aligned && over > 0 {
                self.output.ask_padding(self.options.block_size as usize - over);
            }
        }
        self.index.push(&self.last_key, position);
        Ok(())
    }

    /// Writes the records of a log block as two blocks, because deflate has made the block longer than C git can
    /// read.
    #[cold]
    fn flush_halves(&mut self, added: &[Added], last: bool) -> Result<()> {
        let (first, second) = added.split_at(added.len() / 2);
        for (half, is_last) in [(first, false), (second, last)] {
            self.block.begin(BlockKind::Log, |_| {});
            self.last_key.clear();
            for (key, value_type, value) in half {
                let shared = common_prefix(&self.last_key, key);
                let limit = WriteOptions::BLOCK_SIZE_MAX as usize;
                let fits = self.block.add(key, shared, *value_type, limit, |out| out.extend_from_slice(value));
                assert!(fits, "a part of a block is no larger than the block");
                self.last_key.clone_from(key);
            }
            self.flush_block(false, is_last)?;
        }
        Ok(())
    }
}

/// Checks that a name is not empty and has no NUL byte, which ends a name in git and in the keys of log entries.
#[inline]
fn check_name(name: &BStr) -> Result<()> {
    let reason = match name {
        name if name.is_empty() => "its name is empty",
        name if has_nul(name) => "its name contains a NUL byte",
        _ => return Ok(()),
    };
    Err(Error::Unstorable { name: name.as_bstr().to_owned(), reason })
}
