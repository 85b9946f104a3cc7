use bstr::BString;

/// The result of an operation on tables.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a table could not be read or written. [`StackError`](crate::stack::StackError) is the error of stacks.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file operation failed.
    #[error(transparent)]
    Io(Box<refdb_vfs::Error>),
    /// The table's bytes are invalid, usually because the file was damaged after it was written. Restore the file from
    /// a backup, or the refs from a clone.
    #[error(transparent)]
    Corrupt(Box<Corruption>),
    /// A record was added out of order. Keys must ascend, and refs come before log entries.
    #[error("record '{name}' is out of order: it sorts before or with the one added before it")]
    Order {
        /// The ref's name.
        name: BString,
    },
    /// A record's update index is outside the limits that the writer of the table was given.
    #[error("update index {update_index} of '{name}' is outside the table's limits {min}..={max}")]
    Limits {
        /// The ref's name.
        name: BString,
        /// The record's update index.
        update_index: u64,
        /// The lower limit, inclusive.
        min: u64,
        /// The upper limit, inclusive.
        max: u64,
    },
    /// A record does not fit into a block, C git could not write or read the record, or an index block has no room for
    /// two keys of that length. Shorten the name, or use a larger block size (`reftable.blockSize`).
    #[error(
        "the record of '{name}' does not fit in a block of {block_size} bytes, or its name is too long for the index; \
         shorten the name or raise reftable.blockSize"
    )]
    TooLarge {
        /// The ref's name.
        name: BString,
        /// The block size, in bytes.
        block_size: u32,
    },
    /// A name is empty or contains a NUL byte, or an object id has another hash function than the table.
    #[error("the record of '{name}' cannot be stored in this table: {reason}")]
    Unstorable {
        /// The ref's name.
        name: BString,
        /// Why the record cannot be stored.
        reason: &'static str,
    },
    /// A table has object ids of another hash function than the options of its stack, or another table of the stack.
    #[error("table '{table}' has {found} object ids where {expected} is expected")]
    Hash {
        /// The name of the table that differs.
        table: BString,
        /// The hash function of that table.
        found: &'static str,
        /// The hash function of the stack's options, or of the table before the one that differs.
        expected: &'static str,
    },
    /// The output of [`dump`](crate::dump()) could not be written.
    #[error("cannot write the dump of a table: {0}")]
    Output(std::io::Error),
    /// The block size is 0 or larger than the format allows.
    #[error("a block size of {0} bytes is outside 1..=16777215")]
    BlockSize(u32),
}

impl Error {
    /// Returns whether this is [`Error::TooLarge`].
    pub fn is_too_large(&self) -> bool {
        matches!(self, Error::TooLarge { .. })
    }
}

impl From<refdb_vfs::Error> for Error {
    fn from(error: refdb_vfs::Error) -> Self {
        Error::Io(Box::new(error))
    }
}

/// Damage in a table.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
#[error("reftable '{table}' is corrupt at byte {offset}: {fault}{}", behind_text(.behind))]
pub struct Corruption {
    /// The name under which the table was opened.
    pub table: BString,
    /// The byte in the file, or the first byte of the block with the fault, as always in log blocks, which are
    /// compressed.
    pub offset: u64,
    /// What is wrong there.
    pub fault: Fault,
    /// The last name that a walk read before the fault, or in the index of objects the last abbreviated id; empty if it
    /// had read none, or if no walk found the fault.
    pub behind: BString,
}

fn behind_text(name: &BString) -> String {
    if name.is_empty() { String::new() } else { format!(", behind '{name}'") }
}

fn block_text(found: u8) -> String {
    if found == 0 { "no block stands".into() } else { format!("a block of type '{}' stands", char::from(found)) }
}

/// What can be wrong with the bytes of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The file is too short for a header and a footer.
    #[error("the file is truncated: {0} bytes are too few for a table")]
    TooShort(u64),
    /// The file does not begin with `REFT`.
    #[error("it is not a reftable: the magic bytes are missing")]
    Magic,
    /// The version is neither 1 nor 2.
    #[error("version {0} of the format is unknown")]
    Version(u8),
    /// The hash function is neither SHA-1 nor SHA-256.
    #[error("the hash function {0:#010x} is unknown")]
    HashId(u32),
    /// The footer does not repeat the header, often because the file was truncated or appended to.
    #[error("the footer does not repeat the header")]
    HeaderFooterDiffer,
    /// The checksum of the footer is wrong.
    #[error("the footer's checksum is {found:#010x} where {expected:#010x} is expected")]
    Checksum {
        /// The checksum of the bytes.
        expected: u32,
        /// The checksum in the footer.
        found: u32,
    },
    /// The footer places a section outside the blocks of the file, the index of the logs not behind them, or a section
    /// where no block of it begins; the last of these is reported by [`check`](crate::check()) only.
    #[error("the footer places a section at byte {0}, where none begins")]
    SectionPosition(u64),
    /// The length to which object ids are abbreviated is 0 or longer than an id.
    #[error("object ids cannot be abbreviated to {0} bytes")]
    ObjectIdLen(u8),
    /// A block begins with a byte that is no type of block, or the first block of the file has a type that only later
    /// blocks can have.
    #[error("a block of type {0:#04x} is unknown")]
    BlockType(u8),
    /// A block has another type than the index or the footer says.
    #[error("{} where a block of type '{}' is expected", block_text(*found), char::from(*expected))]
    WrongBlockType {
        /// The expected type.
        expected: u8,
        /// The type of the block; 0 if there is no block.
        found: u8,
    },
    /// The length of a block is too small for its parts, or reaches beyond the file.
    #[error("a block length of {0} bytes is impossible here")]
    BlockLen(u32),
    /// A block has no restart points, or more than it has room for.
    #[error("{0} restart points are impossible in this block")]
    RestartCount(u16),
    /// A restart point does not lead to a record with a whole key, or the restart points do not ascend from the first
    /// record on; the latter is reported by [`check`](crate::check()) only.
    #[error("the restart point to byte {0} of the block is out of order, or no record with a whole key begins there")]
    RestartOffset(u32),
    /// A number does not end within the block, or has more than 64 bits.
    #[error("a number is truncated or too large")]
    Varint,
    /// A record reaches beyond its block.
    #[error("a record is truncated")]
    RecordTruncated,
    /// A key shares more bytes with its predecessor than the predecessor has.
    #[error("a key repeats {0} bytes of a shorter key")]
    KeyPrefix(u64),
    /// A key is empty, or the key of a log entry is not a name, a NUL byte and an update index.
    /// [`check`](crate::check()) also reports a refname with a NUL byte, and an object id whose length is not the one
    /// in the footer.
    #[error("a key is malformed")]
    Key,
    /// A key is not greater than its predecessor.
    #[error("a key is out of order")]
    KeyOrder,
    /// The positions of the blocks that refer to an object do not ascend.
    #[error("an object's blocks do not ascend")]
    PositionOrder,
    /// A record has an unknown type of value.
    #[error("a value of type {0} is unknown")]
    ValueType(u8),
    /// A log block cannot be inflated to the length that it announces.
    #[error("the log block cannot be inflated to its announced length")]
    Inflate,
    /// Index blocks refer to one another in a cycle, or more deeply than any sensible index.
    #[error("the index is too deep")]
    IndexDepth,
    /// An index block promises a key, or a greater one, in a block that has neither.
    #[error("the index promises a key that is not there")]
    IndexPromise,
    /// An update index has more than 64 bits, or is greater than the header allows; the latter is reported by
    /// [`check`](crate::check()) only.
    #[error("an update index is too large")]
    UpdateIndex,
    /// A block other than one of logs is larger than the header's block size, beyond which C git does not read.
    /// Reported by [`check`](crate::check()) only.
    #[error(
        "a block of {len} bytes is larger than the header's block size of {block_size}, so that git cannot read it"
    )]
    BlockTooLarge {
        /// The length of the block, in bytes.
        len: u32,
        /// The header's block size, in bytes.
        block_size: u32,
    },
    /// Padding is not zeros. Reported by [`check`](crate::check()) only.
    #[error("the padding is not zeros")]
    Padding,
    /// An index entry does not lead to a block whose last key is that of the entry. Reported by
    /// [`check`](crate::check()) only.
    #[error("the index leads to byte {0} for a key that is not the last of a block there")]
    IndexEntry(u64),
    /// An index does not list exactly the blocks of its section, in their order. Reported by [`check`](crate::check())
    /// only.
    #[error("the index does not list the blocks of its section")]
    IndexIncomplete,
    /// The footer does not mention a section that has blocks. Reported by [`check`](crate::check()) only.
    #[error("the footer does not mention this section")]
    Unreachable,
    /// An object to which a ref points is missing from the index of objects. Reported by [`check`](crate::check())
    /// only.
    #[error("the object index leaves out the object whose id begins with {0:016x}")]
    ObjectMissing(u64),
    /// The index of objects lists an object with other blocks than those whose refs point to it. Reported by
    /// [`check`](crate::check()) only.
    #[error("the object index lists an object with the wrong blocks")]
    ObjectPositions,
}
