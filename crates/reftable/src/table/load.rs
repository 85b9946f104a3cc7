use super::{Source, Table, cache::CachedBlock, source::PagedFile};
use crate::{
    Error, Fault, Result,
    block::{Inflater, Layout, peek},
    format::{BLOCK_HEADER_LEN, BlockKind},
};
use refdb_vfs::Mapping;
use std::{ops::Range, sync::Arc};

/// A block that was read.
pub(crate) struct Block {
    pub(crate) layout: Layout,
    /// The position of the block in the file.
    pub(crate) position: u64,
    /// The position of the next block.
    pub(crate) next: u64,
    data: Data,
}

enum Data {
    /// In a mapped file.
    Mapped(Arc<Mapping>, Range<usize>),
    Memory(Arc<[u8]>, Range<usize>),
    /// In the cache.
    Cached(Arc<CachedBlock>),
    /// Inflated, for this reader alone.
    Own(Vec<u8>),
}

/// Reads blocks, and reuses memory and the state of zlib from one to the next.
#[derive(Default)]
pub(crate) struct BlockLoader {
    inflater: Inflater,
    spare: Vec<u8>,
    /// Whether any block had to be read because it was not in the cache.
    has_read: bool,
}

/// The length that is assumed of a block, in bytes, before its header has been read, if the file has no block size.
const BLOCK_LEN_GUESS: usize = 4096;

impl Block {
    /// The bytes of the block, to which the offsets in its layout refer.
    #[inline(always)]
    pub(crate) fn bytes(&self) -> &[u8] {
        match &self.data {
            Data::Mapped(mapping, range) => &mapping[range.clone()],
            Data::Memory(bytes, range) => &bytes[range.clone()],
            Data::Cached(cached) => &cached.bytes,
            Data::Own(bytes) => bytes,
        }
    }

    /// The bytes of the block up to the end of its records.
    #[inline(always)]
    pub(crate) fn records(&self) -> &[u8] {
        &self.bytes()[..self.layout.restarts_at]
    }

    /// The position in the file of the byte at `offset`, or the position of the block if the block is deflated.
    pub(crate) fn place_of(&self, offset: usize) -> u64 {
        debug_assert!(offset <= self.bytes().len(), "a place in this block: {offset}");
        if self.layout.kind == BlockKind::Log { self.position } else { self.position + offset as u64 }
    }
}

/// What lies at a position where a block of some kind was requested.
pub(crate) enum Loaded<B> {
    /// A block of that kind.
    Block(B),
    /// A block of this other kind, which is not returned.
    Other(BlockKind),
}

impl<B> Loaded<B> {
    /// The block, if it is of the requested kind.
    pub(crate) fn block(self) -> Option<B> {
        match self {
            Loaded::Block(block) => Some(block),
            Loaded::Other(_) => None,
        }
    }
}

impl BlockLoader {
    /// Takes back the memory of a block that is no longer needed.
    pub(crate) fn recycle(&mut self, block: Option<Block>) {
        if let Some(Block { data: Data::Own(bytes), .. }) = block {
            self.spare = bytes;
        }
    }

    /// Reads the block at `position` if it is of this kind. Returns `None` if the blocks end there.
    pub(crate) fn load_if(&mut self, table: &Table, position: u64, kind: BlockKind) -> Result<Option<Loaded<Block>>> {
        if position >= table.blocks_end {
            return Ok(None);
        }
        let loaded = match &table.source {
            Source::Paged(paged) => self.load_paged(table, paged, position, kind),
            Source::Mapped(_) | Source::Memory(_) => self.load_mapped(table, position, kind),
        };
        debug_assert!(
            !matches!(&loaded, Ok(Loaded::Block(block)) if block.layout.kind != kind || block.next <= position),
            "a block is of the kind asked for, and the next one lies behind it"
        );
        loaded.map(Some)
    }

    /// Reads the block at `position`, whatever its kind. Returns `None` if the blocks end there.
    pub(super) fn load_any(&mut self, table: &Table, position: u64) -> Result<Option<Block>> {
        if position >= table.blocks_end {
            return Ok(None);
        }
        if let Source::Paged(paged) = &table.source {
            // If an index block is requested, a block of any kind is read, kept and returned.
            let cached = self.cached(table, paged, position, BlockKind::Index)?.block();
            debug_assert!(cached.is_some(), "no kind is left alone");
            return Ok(cached.map(|cached| {
                let (layout, next) = (cached.layout, cached.next);
                Block { layout, position, next, data: Data::Cached(cached) }
            }));
        }
        match self.load_mapped(table, position, BlockKind::Ref)? {
            Loaded::Block(block) => Ok(Some(block)),
            Loaded::Other(kind) => self.load_mapped(table, position, kind).map(Loaded::block),
        }
    }

    /// Returns whether any block had to be read so far because it was not in the cache.
    pub(crate) fn has_read(&self) -> bool {
        self.has_read
    }

    fn load_mapped(&mut self, table: &Table, position: u64, kind: BlockKind) -> Result<Loaded<Block>> {
        let bytes = table.source.whole().unwrap_or_default();
        let bytes = &bytes[position as usize..table.blocks_end as usize];
        let fail = |fault| table.corrupt(position, fault);
        let at = table.header_at(position);
        let (found, len) = peek(bytes, at).map_err(fail)?;
        if found != kind {
            return Ok(Loaded::Other(found));
        }
        if kind == BlockKind::Log {
            let mut out = std::mem::take(&mut self.spare);
            let inflated = inflate(table, position, len, bytes, &mut self.inflater, &mut out).map_err(fail)?;
            let (layout, next) = inflated.ok_or_else(|| fail(Fault::Inflate))?;
            return Ok(Loaded::Block(Block { layout, position, next, data: Data::Own(out) }));
        }
        let (layout, next) = plain(table, position, kind, len, bytes).map_err(fail)?;
        let range = position as usize..position as usize + len;
        let data = match &table.source {
            Source::Mapped(mapping) => Data::Mapped(mapping.clone(), range),
            Source::Memory(bytes) => Data::Memory(bytes.clone(), range),
            Source::Paged(_) => return Err(fail(Fault::BlockLen(len as u32))),
        };
        Ok(Loaded::Block(Block { layout, position, next, data }))
    }

    fn load_paged(
        &mut self,
        table: &Table,
        paged: &PagedFile,
        position: u64,
        kind: BlockKind,
    ) -> Result<Loaded<Block>> {
        let cached = match self.cached(table, paged, position, kind)? {
            Loaded::Block(cached) if cached.layout.kind != kind => return Ok(Loaded::Other(cached.layout.kind)),
            Loaded::Block(cached) => cached,
            Loaded::Other(found) => return Ok(Loaded::Other(found)),
        };
        Ok(Loaded::Block(Block { layout: cached.layout, position, next: cached.next, data: Data::Cached(cached) }))
    }

    /// Returns the block at `position` from the cache, or reads it and adds it to the cache. A block that has to be
    /// read and is not of `kind` may be left alone; then its kind is returned.
    fn cached(
        &mut self,
        table: &Table,
        paged: &PagedFile,
        position: u64,
        kind: BlockKind,
    ) -> Result<Loaded<Arc<CachedBlock>>> {
        if let Some(cached) = paged.cache.get(paged.number, position) {
            return Ok(Loaded::Block(cached));
        }
        self.has_read = true;
        let read = match self.read_paged(table, paged, position, kind)? {
            Loaded::Block(read) => Arc::new(read),
            Loaded::Other(found) => return Ok(Loaded::Other(found)),
        };
        debug_assert!(read.layout.restarts_at <= read.bytes.len() && position < read.next, "a kept block was checked");
        paged.cache.insert(paged.number, position, Arc::clone(&read));
        Ok(Loaded::Block(read))
    }

    fn read_paged(
        &mut self,
        table: &Table,
        paged: &PagedFile,
        position: u64,
        kind: BlockKind,
    ) -> Result<Loaded<CachedBlock>> {
        let fail = |fault| table.corrupt(position, fault);
        let left = (table.blocks_end - position) as usize;
        let read = |want: usize| -> Result<Vec<u8>> {
            let mut bytes = vec![0; want.min(left)];
            paged.file.read_exact_at(&mut bytes, position).map_err(Error::from)?;
            Ok(bytes)
        };
        let guess = match table.footer.header.block_size {
            0 => BLOCK_LEN_GUESS,
            block_size => block_size as usize,
        };
        // The byte after the block shows whether padding follows.
        let mut bytes = read(guess + 1)?;
        let (found, len) = peek(&bytes, table.header_at(position)).map_err(fail)?;
        // A request for an index block keeps a block of any kind, because the block is usually requested next.
        if found != kind && kind != BlockKind::Index {
            return Ok(Loaded::Other(found));
        }
        if found != BlockKind::Log {
            if len > left {
                return Err(fail(Fault::BlockLen(len as u32)));
            }
            if len >= bytes.len() {
                bytes = read(len + 1)?;
            }
            let (layout, next) = plain(table, position, found, len, &bytes).map_err(fail)?;
            bytes.truncate(len);
            return Ok(Loaded::Block(CachedBlock { layout, next, bytes: bytes.into() }));
        }
        loop {
            let mut out = std::mem::take(&mut self.spare);
            let inflated = inflate(table, position, len, &bytes, &mut self.inflater, &mut out).map_err(fail)?;
            match inflated {
                Some((layout, next)) => return Ok(Loaded::Block(CachedBlock { layout, next, bytes: out.into() })),
                None if bytes.len() == left => return Err(fail(Fault::Inflate)),
                None => {
                    self.spare = out;
                    bytes = read(bytes.len() * 2)?;
                }
            }
        }
    }
}

impl Table {
    /// The offset of a block's own header in the block at `position`: the file's header is part of the first block.
    fn header_at(&self, position: u64) -> usize {
        if position == 0 { self.footer.header.len() } else { 0 }
    }
}

/// Determines the parts of a block that is not deflated, and the position of the next block. `bytes` have at least one
/// byte more than the `len` bytes of the block, unless the blocks end there.
fn plain(table: &Table, position: u64, kind: BlockKind, len: usize, bytes: &[u8]) -> Result<(Layout, u64), Fault> {
    let block = bytes.get(..len).ok_or(Fault::BlockLen(len as u32))?;
    let layout = Layout::of(kind, block, table.header_at(position))?;
    // Padding consists of zeros, and no block begins with one. The header does not show whether blocks are aligned,
    // because C git can write files with a block size whose blocks are not aligned.
    let next = match (table.footer.header.block_size as usize, bytes.get(len)) {
        (block_size @ 1.., Some(0)) => position + (len.div_ceil(block_size) * block_size) as u64,
        _ => position + len as u64,
    };
    Ok((layout, next))
}

/// Inflates the log block at the start of `packed` into `out`. Returns `None` if the block continues beyond `packed`.
fn inflate(
    table: &Table,
    position: u64,
    len: usize,
    packed: &[u8],
    inflater: &mut Inflater,
    out: &mut Vec<u8>,
) -> Result<Option<(Layout, u64)>, Fault> {
    let at = table.header_at(position);
    let records_at = at + BLOCK_HEADER_LEN;
    out.clear();
    out.extend_from_slice(&packed[..records_at]);
    let Some(used) = inflater.inflate(&packed[records_at..], len, out)? else { return Ok(None) };
    debug_assert!(out.len() == len && used <= packed.len() - records_at, "all of the block was inflated, and no more");
    Ok(Some((Layout::of(BlockKind::Log, out, at)?, position + (records_at + used) as u64)))
}
