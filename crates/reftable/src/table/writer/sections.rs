//! The end of a section: its index, and after the refs the index of objects.

use super::{super::objects::ObjectCollector, Sink, TableWriter};
use crate::{
    Error, Result,
    format::BlockKind,
    record::{IndexValue, ObjectValue, key::common_prefix},
};
use bstr::ByteSlice;

/// The blocks of a section, or of a level of its index: their last keys and positions.
#[derive(Default)]
pub(super) struct BlockList {
    keys: Vec<u8>,
    key_ends: Vec<usize>,
    positions: Vec<u64>,
}

impl BlockList {
    pub(super) fn push(&mut self, key: &[u8], position: u64) {
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

    pub(super) fn len(&self) -> usize {
        self.positions.len()
    }

    /// The longest of the last keys; empty if there are no blocks.
    fn longest_key(&self) -> &[u8] {
        self.iter().map(|(key, _)| key).max_by_key(|key| key.len()).unwrap_or_default()
    }
}

/// The greatest number of blocks that an aligned section has without an index, as in git. A section of refs whose names
/// are too long for an index has none, however many blocks it has.
const UNINDEXED_BLOCKS_MAX: usize = 3;

impl<S: Sink> TableWriter<S> {
    pub(super) fn finish_refs(&mut self) -> Result<()> {
        debug_assert!(self.block.kind() == BlockKind::Ref && self.footer.logs == 0, "refs come before logs");
        let unindexed_max = self.unindexed_max();
        if !self.block.is_empty() {
            self.flush_block(true, true)?;
        }
        let positions = self.index.positions.clone();
        // Refs whose names are too long for an index are written without one. Every reader still finds them, so they
        // can be deleted.
        let is_indexable = self.index.longest_key().len() <= self.index_key_max;
        let unindexed_max = if is_indexable { unindexed_max } else { usize::MAX };
        self.footer.ref_index = self.finish_section(unindexed_max, true)?;
        // Reading a few blocks takes no longer than reading an index of their objects.
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
        // Objects get no section if their abbreviated ids are too long for an index of the object blocks.
        let id_len = objects.finish(positions, self.index_key_max, |id, positions| {
            let shared = common_prefix(&self.last_key, id);
            if !self.block.add(id, shared, ObjectValue::type_bits(positions), block_size, |out| {
                ObjectValue::encode(positions, out);
            }) {
                if !self.block.is_empty() {
                    self.flush_block(true, false)?;
                    self.block.begin(BlockKind::Object, |_| {});
                }
                self.add_object_alone(id, positions);
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

    /// Adds the first record of an object block. If the positions do not fit into a block, they are left out, so that
    /// readers have to search all refs.
    fn add_object_alone(&mut self, id: &[u8], positions: &[u64]) {
        let block_size = self.options.block_size as usize;
        let fits = [positions, &[]].into_iter().any(|positions| {
            self.block.add(id, 0, ObjectValue::type_bits(positions), block_size, |out| {
                ObjectValue::encode(positions, out);
            })
        });
        assert!(
            fits,
            "a block has room for two index records with ids of this length, and so for one without positions"
        );
    }

    pub(super) fn begin_logs(&mut self) -> Result<()> {
        self.output.skip_padding();
        if self.summary.refs == 0 {
            self.output.put(|out| self.header.encode(out))?;
        }
        debug_assert_eq!(self.index.len(), 0, "the blocks before the logs are in their own indexes");
        self.footer.logs = self.output.position();
        self.block.begin(BlockKind::Log, |_| {});
        Ok(())
    }

    /// Writes an index of the section's blocks if there are more than `unindexed_max`. Returns the position of its root
    /// block, or 0 if there is no index.
    ///
    /// Each level lists the blocks of the level below, and levels are added until one block suffices, because JGit
    /// reads only the first block of the highest level. No index block is larger than the block size, because C git
    /// would miss the rest of the block. If names are too long for that, the section is refused.
    pub(super) fn finish_section(&mut self, unindexed_max: usize, padded: bool) -> Result<u64> {
        let mut level = std::mem::take(&mut self.index);
        self.last_key.clear();
        if level.len() <= unindexed_max {
            if refdb_vfs::planted("reftable-sections") {
                self.index = level;
            }
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

    /// The error about a key for which an index has no room.
    fn too_large(&self, key: &[u8]) -> Error {
        // In the key of a log entry a NUL byte and an update index follow the name.
        let name = key.split_once_str("\0").map_or(key, |(name, _)| name);
        Error::TooLarge { name: name.into(), block_size: self.options.block_size }
    }
}
