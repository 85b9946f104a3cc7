use super::Source;
use crate::{
    Corruption, Error, Fault, HashKind, Result,
    format::{BlockKind, Footer, Header},
};
use bstr::{BStr, BString, ByteSlice};
use std::{fmt, sync::Arc};

/// An open table. It never changes, any number of threads can use it, and cursors keep it open.
pub struct Table {
    name: BString,
    pub(crate) source: Source,
    pub(crate) footer: Footer,
    /// The position at which the blocks end and the footer begins.
    pub(crate) blocks_end: u64,
    first_kind: Option<BlockKind>,
}

/// Where the blocks of a kind are.
#[derive(Clone, Copy)]
pub(crate) struct Section {
    pub(crate) start: u64,
    /// The position of the first root block of the section's index; 0 if it has none.
    pub(crate) index: u64,
}

impl Table {
    /// The memory that the table takes, in bytes, without blocks in a cache and without a [`Mapping`](Source::Mapped).
    pub fn held_bytes(&self) -> usize {
        let content = if let Source::Memory(bytes) = &self.source { bytes.len() } else { 0 };
        size_of::<Self>() + self.name.len() + content
    }

    /// Opens a table. `name` appears in errors.
    ///
    /// Only the header, the footer and the type of the first block are read and checked, however large the file is.
    /// Other damage is found when it is read, or by [`check`](crate::check()).
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if the file cannot be read, [`Error::Corrupt`] if the header, the footer or that type is invalid.
    pub fn open(source: Source, name: impl Into<BString>) -> Result<Arc<Self>> {
        let name = name.into();
        Self::read_ends(source, &name).map(|mut table| {
            table.name = name;
            Arc::new(table)
        })
    }

    fn read_ends(source: Source, name: &BString) -> Result<Self> {
        let corrupt = |offset, fault| Error::corrupt(name.as_bstr(), offset, fault);
        let len = source.len();
        let start = source.read(0, len.min(Header::MAX_LEN as u64 + 1) as usize)?;
        let header = Header::decode(&start).map_err(|fault| corrupt(0, fault))?;
        let footer_len = header.version.footer_len();
        let blocks_end = len
            .checked_sub(footer_len as u64)
            .filter(|end| *end >= header.len() as u64)
            .ok_or_else(|| corrupt(0, Fault::TooShort(len)))?;
        let footer = Footer::decode(&source.read(blocks_end, footer_len)?, &header)
            .map_err(|fault| corrupt(blocks_end, fault))?;
        check_positions(&footer, blocks_end).map_err(|fault| corrupt(blocks_end, fault))?;
        let first_kind = match start.get(header.len()) {
            Some(byte) if blocks_end > header.len() as u64 => match BlockKind::from_byte(*byte) {
                Some(kind @ (BlockKind::Ref | BlockKind::Log)) => Some(kind),
                _ => return Err(corrupt(header.len() as u64, Fault::BlockType(*byte))),
            },
            _ => None,
        };
        debug_assert_eq!(blocks_end + footer_len as u64, len, "blocks and footer are the whole file");
        Ok(Table { name: BString::default(), source, footer, blocks_end, first_kind })
    }

    /// The name under which the table was opened.
    pub fn name(&self) -> &BStr {
        self.name.as_bstr()
    }

    /// The least update index that the refs may have. Log entries may be older.
    pub fn min_update_index(&self) -> u64 {
        self.footer.header.min_update_index
    }

    /// The greatest update index that the records may have, except for tombstones of log entries.
    pub fn max_update_index(&self) -> u64 {
        self.footer.header.max_update_index
    }

    /// The hash function of the object ids.
    pub fn hash(&self) -> HashKind {
        self.footer.header.hash
    }

    /// The length of the file, in bytes.
    pub fn len_bytes(&self) -> u64 {
        self.source.len()
    }

    /// Returns whether there are ref records; they may all be tombstones.
    pub fn has_refs(&self) -> bool {
        self.section(BlockKind::Ref).is_some()
    }

    /// The section of this kind of blocks, if the table has one.
    pub(crate) fn section(&self, kind: BlockKind) -> Option<Section> {
        let Footer { ref_index, objects, object_index, logs, log_index, .. } = self.footer;
        debug_assert!(
            [ref_index, objects, object_index, logs, log_index].iter().all(|at| *at == 0 || *at < self.blocks_end),
            "`open` refuses a section outside the file's blocks"
        );
        match kind {
            BlockKind::Ref if self.first_kind == Some(BlockKind::Ref) => Some(Section { start: 0, index: ref_index }),
            BlockKind::Object if objects > 0 => Some(Section { start: objects, index: object_index }),
            BlockKind::Log if logs > 0 => Some(Section { start: logs, index: log_index }),
            // C git leaves the position 0 if the first block of the file is a log block.
            BlockKind::Log if self.first_kind == Some(BlockKind::Log) => Some(Section { start: 0, index: log_index }),
            _ => None,
        }
    }

    pub(crate) fn corrupt(&self, offset: u64, fault: Fault) -> Error {
        Error::corrupt(self.name(), offset, fault)
    }
}

impl Error {
    #[cold]
    pub(crate) fn corrupt(table: &BStr, offset: u64, fault: Fault) -> Self {
        Error::Corrupt(Box::new(Corruption { table: table.to_owned(), offset, fault, behind: BString::default() }))
    }

    /// Adds the name that was read last before the fault.
    #[cold]
    pub(crate) fn behind(mut self, name: &[u8]) -> Self {
        if let Error::Corrupt(corruption) = &mut self {
            corruption.behind = name.into();
        }
        self
    }
}

fn check_positions(footer: &Footer, blocks_end: u64) -> Result<(), Fault> {
    let Footer { ref_index, objects, object_index, logs, log_index, .. } = *footer;
    let inside = footer.header.len() as u64..blocks_end;
    for position in [ref_index, objects, object_index, logs, log_index] {
        if position != 0 && !inside.contains(&position) {
            return Err(Fault::SectionPosition(position));
        }
    }
    // Walks over the blocks go on at the index behind the log, and would never end if it lay before the log.
    if logs > 0 && log_index > 0 && log_index <= logs {
        return Err(Fault::SectionPosition(log_index));
    }
    let len = footer.object_id_len;
    if objects > 0 && (len == 0 || usize::from(len) > footer.header.hash.len_bytes()) {
        return Err(Fault::ObjectIdLen(len));
    }
    Ok(())
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Table({:?})", self.name)
    }
}
