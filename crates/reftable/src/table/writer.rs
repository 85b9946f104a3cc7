use super::{Sink, objects::ObjectCollector, output::Output};
use crate::{
    Error, LogRecord, LogValue, RefRecord, RefValue, Result, WriteOptions,
    block::{Added, BlockWriter, Deflater, Layout, store},
    format::{BLOCK_HEADER_LEN, BlockKind, Footer, Header, stored_extra},
    record::{IndexValue, ObjectValue, key::common_prefix, log_key},
};
use bstr::{BStr, ByteSlice};
use refdb_types::ObjectId;
use std::fmt;

/// What a [`TableWriter`] wrote.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Summary {
    /// Ref records, tombstones among them.
    pub refs: u64,
    /// Log records, deletions among them.
    pub logs: u64,
    /// The file's length in bytes.
    pub bytes: u64,
}

/// Writes one table: refs in order, then log entries in order, then [`TableWriter::finish`].
///
/// Both C git and JGit read its output. Each index has exactly one root block, and version 1 of the format is used
/// wherever it can be.
#[must_use = "a table is not complete before `finish`"]
pub struct TableWriter<S: Sink> {
    options: WriteOptions,
    header: Header,
    output: Output<S>,
    block: BlockWriter,
    /// The longest key that an index has room for.
    index_key_max: usize,
    /// The key added last in this section, or in this level of its index.
    last_key: Vec<u8>,
    /// The last keys and the positions of the section's blocks.
    index: BlockList,
    objects: Option<ObjectCollector>,
    deflater: Deflater,
    /// A log block as it is written.
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

/// Blocks, by their last key and position.
#[derive(Default)]
struct BlockList {
    keys: Vec<u8>,
    key_ends: Vec<usize>,
    positions: Vec<u64>,
}

impl BlockList {
    fn push(&mut self, key: &[u8], position: u64) {
        debug_assert!(self.positions.last().is_none_or(|last| *last < position), "blocks ascend: {position}");
        debug_assert!(self.last_key() < Some(key), "the last keys of blocks ascend");
        self.keys.extend_from_slice(key);
        self.key_ends.push(self.keys.len());
        self.positions.push(position);
    }

    fn last_key(&self) -> Option<&[u8]> {
        let (end, before) = self.key_ends.split_last()?;
        Some(&self.keys[before.last().copied().unwrap_or(0)..*end])
    }

    fn iter(&self) -> impl Iterator<Item = (&[u8], u64)> {
        debug_assert_eq!(self.key_ends.len(), self.positions.len(), "each block has a key and a position");
        let starts = std::iter::once(0).chain(self.key_ends.iter().copied());
        let keys = starts.zip(&self.key_ends).map(|(start, end)| &self.keys[start..*end]);
        keys.zip(self.positions.iter().copied())
    }

    fn len(&self) -> usize {
        self.positions.len()
    }

    /// Empty if there is none.
    fn longest_key(&self) -> &[u8] {
        self.iter().map(|(key, _)| key).max_by_key(|key| key.len()).unwrap_or_default()
    }
}

/// Each block resets the deflate state at the price of thousands of bytes of log. So log blocks hold several blocks'
/// worth, where that is not much to inflate for one entry. The format suggests twice the block size.
const LOG_BLOCK_FACTOR: u32 = 4;
const LOG_BLOCK_MAX: u32 = 16 * 1024;
const _: () = assert!(LOG_BLOCK_MAX <= WriteOptions::BLOCK_SIZE_MAX, "the format knows no larger block");

/// Aligned sections of up to this number of blocks are searched without an index, as git does.
const UNINDEXED_BLOCKS_MAX: usize = 3;

impl<S: Sink> TableWriter<S> {
    /// Begins a table whose records' update indexes lie within these limits.
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

    /// Adds a log entry. Names must ascend, and update indexes descend within a name. An entry may be older than the
    /// table's lower limit, since rewriting a reflog keeps the entries' update indexes. A deletion may have any index.
    /// An entry longer than a block gets a block of its own, which C git can read but not write.
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

    /// Adds a log entry of an older table. It is cut if C git could not write it into a block of this size. Otherwise
    /// git could not compact the new table.
    pub fn copy_log(&mut self, record: &LogRecord<'_>) -> Result<()> {
        let options = self.options;
        options.with_log_cut(record, |record| self.add_log(record))
    }

    /// How the table is written, which decides how long a log entry may be.
    pub(crate) fn options(&self) -> WriteOptions {
        self.options
    }

    /// Refuses a log entry that C git could not write into a block of this size.
    pub fn check_log(&self, record: &LogRecord<'_>) -> Result<()> {
        self.options.check_log(record, self.summary.refs > 0)
    }

    /// Writes what remains. The sink is not synced.
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

    /// Adds a record to the block, or to the next one if it is full.
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
            // An index has no room for the block's last key, so the block goes on until a shorter one.
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
        // Log blocks are never aligned, so that one long message may make one long block.
        let limit = match kind {
            BlockKind::Log => WriteOptions::BLOCK_SIZE_MAX,
            _ => self.options.block_size,
        };
        if self.block.add(key, 0, value_type, limit as usize, value) {
            return Ok(());
        }
        Err(Error::TooLarge { name: name.to_owned(), block_size: self.options.block_size })
    }

    /// Writes the block out and notes it for the index.
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
            !(padded && self.options.aligned) || position.is_multiple_of(u64::from(self.options.block_size)),
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
                // Deflate may make of a record far more than it is.
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

    /// Writes a log block as two, since C git could not read it as one. Content that deflate cannot shrink grows by
    /// some bytes.
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

    fn finish_refs(&mut self) -> Result<()> {
        debug_assert!(self.block.kind() == BlockKind::Ref && self.footer.logs == 0, "refs come before logs");
        let unindexed_max = self.unindexed_max();
        if !self.block.is_empty() {
            self.flush_block(true, true)?;
        }
        let positions = self.index.positions.clone();
        // Without an index refs are found all the same, by every reader, and can then be deleted.
        let is_indexable = self.index.longest_key().len() <= self.index_key_max;
        let unindexed_max = if is_indexable { unindexed_max } else { usize::MAX };
        self.footer.ref_index = self.finish_section(unindexed_max, true)?;
        // Few blocks are as quickly read as an index of the objects in them.
        if let Some(objects) = self.objects.take().filter(|_| self.footer.ref_index > 0) {
            self.write_objects(objects, &positions)?;
        }
        Ok(())
    }

    fn unindexed_max(&self) -> usize {
        if self.options.aligned { UNINDEXED_BLOCKS_MAX } else { 1 }
    }

    fn write_objects(&mut self, objects: ObjectCollector, positions: &[u64]) -> Result<()> {
        debug_assert_eq!(self.index.len(), 0, "the blocks of refs are in their own index");
        self.block.begin(BlockKind::Object, |_| {});
        let block_size = self.options.block_size as usize;
        // Ids too long for an index of their blocks are not indexed at all.
        let id_len = objects.finish(positions, self.index_key_max, |id, positions| {
            let shared = common_prefix(&self.last_key, id);
            if !self.block.add(id, shared, ObjectValue::type_bits(positions), block_size, |out| {
                ObjectValue::encode(positions, out);
            }) {
                if !self.block.is_empty() {
                    self.flush_block(true, false)?;
                    self.block.begin(BlockKind::Object, |_| {});
                }
                self.add_object_alone(id, positions)?;
            }
            self.last_key.clear();
            self.last_key.extend_from_slice(id);
            Ok::<(), Error>(())
        })?;
        if id_len == 0 || self.block.is_empty() {
            return Ok(());
        }
        self.flush_block(true, true)?;
        self.footer.objects = self.index.positions[0];
        self.footer.object_id_len = id_len;
        self.footer.object_index = self.finish_section(self.unindexed_max(), true)?;
        Ok(())
    }

    /// Adds the first record of an object block. If the positions alone fill a block they are left out, which tells a
    /// reader to look through all refs.
    fn add_object_alone(&mut self, id: &[u8], positions: &[u64]) -> Result<()> {
        let block_size = self.options.block_size as usize;
        let fits = [positions, &[]].into_iter().any(|positions| {
            self.block.add(id, 0, ObjectValue::type_bits(positions), block_size, |out| {
                ObjectValue::encode(positions, out);
            })
        });
        if fits {
            return Ok(());
        }
        Err(Error::TooLarge { name: "an object".into(), block_size: self.options.block_size })
    }

    fn begin_logs(&mut self) -> Result<()> {
        self.output.skip_padding();
        if self.summary.refs == 0 {
            self.output.put(|out| self.header.encode(out))?;
        }
        debug_assert_eq!(self.index.len(), 0, "the blocks before the logs are in their own indexes");
        self.footer.logs = self.output.position();
        self.block.begin(BlockKind::Log, |_| {});
        Ok(())
    }

    /// Writes an index of the section's blocks if there are more than `unindexed_max`. Returns the position of the
    /// index's root, or 0 if there is none.
    ///
    /// Each level lists the blocks of the level below, and levels are added until one block is enough. JGit reads only
    /// the first block of the highest level. No block is larger than the block size, because C git would read past it.
    /// A section whose names are too long for that is refused.
    fn finish_section(&mut self, unindexed_max: usize, padded: bool) -> Result<u64> {
        let mut level = std::mem::take(&mut self.index);
        self.last_key.clear();
        if level.len() <= unindexed_max {
            return Ok(0);
        }
        loop {
            self.write_index_level(&level, padded)?;
            let above = std::mem::take(&mut self.index);
            self.last_key.clear();
            if let [root] = above.positions[..] {
                return Ok(root);
            }
            if above.len() >= level.len() {
                return Err(self.too_large(level.longest_key()));
            }
            level = above;
        }
    }

    fn write_index_level(&mut self, blocks: &BlockList, padded: bool) -> Result<()> {
        self.block.begin(BlockKind::Index, |_| {});
        let limit = self.options.block_size as usize;
        for (key, position) in blocks.iter() {
            let shared = common_prefix(&self.last_key, key);
            let value = IndexValue { position };
            if !self.block.add(key, shared, IndexValue::TYPE_BITS, limit, |out| value.encode(out)) {
                if !self.block.is_empty() {
                    self.flush_block(padded, false)?;
                    self.block.begin(BlockKind::Index, |_| {});
                }
                if !self.block.add(key, 0, IndexValue::TYPE_BITS, limit, |out| value.encode(out)) {
                    return Err(self.too_large(key));
                }
            }
            self.last_key.clear();
            self.last_key.extend_from_slice(key);
        }
        self.flush_block(padded, true)
    }

    /// The error about a key that an index has no room for. A log's key ends with a NUL byte and an update index.
    fn too_large(&self, key: &[u8]) -> Error {
        let name = key.split_once_str("\0").map_or(key, |(name, _)| name);
        Error::TooLarge { name: name.into(), block_size: self.options.block_size }
    }
}

/// A name is a C string to git, and ends a log's key.
#[inline]
fn check_name(name: &BStr) -> Result<()> {
    let reason = match name {
        name if name.is_empty() => "its name is empty",
        name if name.find_byte(0).is_some() => "its name contains a NUL byte",
        _ => return Ok(()),
    };
    Err(Error::Unstorable { name: name.as_bstr().to_owned(), reason })
}
