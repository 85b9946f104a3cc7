use crate::{
    WriteOptions,
    format::{BLOCK_HEADER_LEN, BlockKind, RESTART_COUNT_LEN, RESTART_LEN, to_be24},
    record::key::{self, Key},
};

/// A record that was added: its key, the type of its value, and the value.
pub(crate) type Added = (Vec<u8>, u8, Vec<u8>);

/// Builds blocks, one after another, in a buffer that is reused.
pub(crate) struct BlockWriter {
    kind: BlockKind,
    /// The block so far; in the first block of a file the file's header comes before the block's own.
    buffer: Vec<u8>,
    /// The offset of the block's own header.
    header_at: usize,
    restarts: Vec<u32>,
    /// The offset of each record, in log blocks only.
    starts: Vec<u32>,
    restart_interval: u32,
    /// The number of records until the next regular restart point. Records in between whose keys share nothing with the
    /// key before are restart points, too, as long as there are fewer than [`RESTARTS_MAX`].
    until_restart: u32,
}

const _: () = assert!(
    WriteOptions::BLOCK_SIZE_MAX as usize == (1 << (8 * RESTART_LEN)) - 1,
    "a restart point reaches all of the largest block"
);

/// The largest number of restart points, which the format stores in 16 bits.
const RESTARTS_MAX: usize = u16::MAX as usize;

impl BlockWriter {
    pub(crate) fn new(restart_interval: u16) -> Self {
        assert!(restart_interval > 0, "some records are restart points");
        BlockWriter {
            kind: BlockKind::Ref,
            buffer: Vec::new(),
            header_at: 0,
            restarts: Vec::new(),
            starts: Vec::new(),
            restart_interval: u32::from(restart_interval),
            until_restart: 0,
        }
    }

    /// Begins a block after the bytes that `header` appends.
    pub(crate) fn begin(&mut self, kind: BlockKind, header: impl FnOnce(&mut Vec<u8>)) {
        self.kind = kind;
        self.buffer.clear();
        header(&mut self.buffer);
        self.header_at = self.buffer.len();
        self.buffer.extend_from_slice(&[kind as u8, 0, 0, 0]);
        if !refdb_vfs::planted("reftable-block") {
            self.restarts.clear();
        }
        self.starts.clear();
        self.until_restart = 0;
    }

    pub(crate) fn kind(&self) -> BlockKind {
        self.kind
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.restarts.is_empty()
    }

    /// Adds a record whose key shares its first `shared` bytes with the previous key. Returns `false` and adds nothing
    /// if the block would become longer than `limit` bytes.
    #[inline]
    pub(crate) fn add(
        &mut self,
        key: &[u8],
        shared: usize,
        value_type: u8,
        limit: usize,
        value: impl FnOnce(&mut Vec<u8>),
    ) -> bool {
        let start = self.buffer.len();
        // A key that shares nothing can serve as a restart point, and git makes it one.
        let is_restart =
            (self.until_restart == 0 || shared == 0) && (self.restarts.len() < RESTARTS_MAX || self.is_empty());
        let shared = if self.until_restart == 0 { 0 } else { shared };
        debug_assert!(shared == 0 || !self.is_empty(), "the first key of a block is whole");
        debug_assert!(shared == 0 || !is_restart, "the key at a restart point is whole");
        key::put(&mut self.buffer, key, shared, value_type);
        value(&mut self.buffer);
        let restarts = self.restarts.len() + usize::from(is_restart);
        if self.buffer.len() + RESTART_LEN * restarts + RESTART_COUNT_LEN > limit {
            self.buffer.truncate(start);
            return false;
        }
        if is_restart {
            self.restarts.push(start as u32);
        }
        if self.kind == BlockKind::Log {
            self.starts.push(start as u32);
        }
        self.until_restart = match self.until_restart {
            0 => self.restart_interval - 1,
            more => more - 1,
        };
        true
    }

    /// The records of a complete log block, so that they can be written as several blocks.
    #[cold]
    pub(crate) fn added(&self) -> Vec<Added> {
        assert_eq!(self.kind, BlockKind::Log, "the records' starts are noted in log blocks");
        let records = &self.buffer[..self.buffer.len() - RESTART_COUNT_LEN - RESTART_LEN * self.restarts.len()];
        let ends = self.starts.iter().skip(1).map(|start| *start as usize).chain([records.len()]);
        let mut key = Key::default();
        let mut added = |(start, end): (usize, usize)| {
            let mut at = start;
            let (_, value_type) = key.read(records, &mut at).expect("the key was written by this writer");
            (key.as_slice().to_vec(), value_type, records[at..end].to_vec())
        };
        self.starts.iter().map(|start| *start as usize).zip(ends).map(&mut added).collect()
    }

    /// Completes the block and returns it, including the bytes before its own header.
    pub(crate) fn finish(&mut self) -> &[u8] {
        let first = self.restarts.first().map(|first| *first as usize);
        debug_assert!(first.is_none_or(|at| at == self.header_at + BLOCK_HEADER_LEN), "the first record is a restart");
        debug_assert!(self.restarts.is_sorted_by(|a, b| a < b), "restart points ascend");
        for restart in &self.restarts {
            self.buffer.extend_from_slice(&to_be24(*restart as usize));
        }
        self.buffer.extend_from_slice(&(self.restarts.len() as u16).to_be_bytes());
        assert!(self.buffer.len() <= WriteOptions::BLOCK_SIZE_MAX as usize, "a block's length has 24 bits");
        let len = to_be24(self.buffer.len());
        self.buffer[self.header_at + 1..self.header_at + BLOCK_HEADER_LEN].copy_from_slice(&len);
        &self.buffer
    }

    /// The block, after [`finish`](Self::finish).
    pub(crate) fn finished(&self) -> &[u8] {
        &self.buffer
    }
}
