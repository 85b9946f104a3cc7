use bstr::BString;

/// What this crate's functions return.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a table could not be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused.
    #[error(transparent)]
    Io(Box<refdb_vfs::Error>),
    /// A table's bytes make no sense. It was damaged after it was written; restore the file from a backup or a clone.
    #[error(transparent)]
    Corrupt(Box<Corruption>),
    /// Records must be added in order, refs before logs.
    #[error("record '{name}' is out of order: it sorts before or with the one added before it")]
    Order {
        /// The ref's name.
        name: BString,
    },
    /// A record's update index is outside the limits that the table was begun with.
    #[error("update index {update_index} of '{name}' is outside the table's limits {min}..={max}")]
    Limits {
        /// The ref's name.
        name: BString,
        /// The record's update index.
        update_index: u64,
        /// The table's lower limit.
        min: u64,
        /// The table's upper limit.
        max: u64,
    },
    /// A record does not fit in a block, or two of its keys do not fit in a block of an index. Use a larger block size
    /// (`reftable.blockSize`), or a shorter name.
    #[error(
        "the record of '{name}' does not fit in a block of {block_size} bytes, or its name is too long for the index; \
         shorten the name or raise reftable.blockSize"
    )]
    TooLarge {
        /// The ref's name.
        name: BString,
        /// The block size in use.
        block_size: u32,
    },
    /// A name is empty or contains a NUL byte, or an object id is of another kind than the table's.
    #[error("the record of '{name}' cannot be stored in this table: {reason}")]
    Unstorable {
        /// The ref's name.
        name: BString,
        /// Why not.
        reason: &'static str,
    },
    /// Tables of a stack must agree on the kind of object ids.
    #[error("table '{table}' has {found} object ids where {expected} is expected")]
    Hash {
        /// The table that differs.
        table: BString,
        /// What it has.
        found: &'static str,
        /// What the others have.
        expected: &'static str,
    },
    /// What [`dump`](crate::dump()) writes could not be written.
    #[error("cannot write the picture of a table: {0}")]
    Output(std::io::Error),
    /// The block size is 0 or above the format's limit.
    #[error("a block size of {0} bytes is outside 1..=16777215")]
    BlockSize(u32),
}

impl Error {
    /// Whether a record, or its name, is too large for the blocks of a table.
    pub fn is_too_large(&self) -> bool {
        matches!(self, Error::TooLarge { .. })
    }
}

impl From<refdb_vfs::Error> for Error {
    fn from(error: refdb_vfs::Error) -> Self {
        Error::Io(Box::new(error))
    }
}

/// Damage in a table: in which table, where, and what.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
#[error("reftable '{table}' is corrupt at byte {offset}: {fault}{}", behind_text(.behind))]
pub struct Corruption {
    /// The name the table was opened under.
    pub table: BString,
    /// Where in the file; for a fault inside a log block, where the block starts.
    pub offset: u64,
    /// The fault.
    pub fault: Fault,
    /// The name that was read last before it, where names are read one by one; else empty.
    pub behind: BString,
}

fn behind_text(name: &BString) -> String {
    if name.is_empty() { String::new() } else { format!(", behind '{name}'") }
}

/// What can be wrong with a table's bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// Too short to hold a header and a footer.
    #[error("the file is truncated: {0} bytes are too few for a table")]
    TooShort(u64),
    /// It does not begin with `REFT`.
    #[error("it is not a reftable: the magic bytes are missing")]
    Magic,
    /// Neither version 1 nor 2.
    #[error("version {0} of the format is unknown")]
    Version(u8),
    /// Neither SHA-1 nor SHA-256.
    #[error("the hash function {0:#010x} is unknown")]
    HashId(u32),
    /// The footer does not repeat the header: often a file that was cut off or appended to.
    #[error("the footer does not repeat the header")]
    HeaderFooterDiffer,
    /// The footer's checksum is wrong.
    #[error("the footer's checksum is {found:#010x} where {expected:#010x} is expected")]
    Checksum {
        /// What the bytes add up to.
        expected: u32,
        /// What the footer says.
        found: u32,
    },
    /// The footer gives a section a place that it cannot have.
    #[error("the footer places a section at byte {0}, which is outside the file's blocks")]
    SectionPosition(u64),
    /// The footer's length of abbreviated object ids makes no sense.
    #[error("object ids cannot be abbreviated to {0} bytes")]
    ObjectIdLen(u8),
    /// The byte where a block should begin is no type of block.
    #[error("a block of type {0:#04x} is unknown")]
    BlockType(u8),
    /// There is a block, but of another type than what led here promises.
    #[error("a block of type '{}' stands where one of type '{}' is expected", char::from(*found), char::from(*expected))]
    WrongBlockType {
        /// The type wanted.
        expected: u8,
        /// The type found.
        found: u8,
    },
    /// A block's length is too small for its own parts or leads out of the file.
    #[error("a block length of {0} bytes is impossible here")]
    BlockLen(u32),
    /// A block's number of restart points is zero or needs more room than the block has.
    #[error("{0} restart points are impossible in this block")]
    RestartCount(u16),
    /// A restart point leads out of the block's records or not to a whole key.
    #[error("a restart point leads to byte {0} of the block, where no record with a whole key begins")]
    RestartOffset(u32),
    /// A number has no end or is larger than 64 bits.
    #[error("a number is truncated or too large")]
    Varint,
    /// A record's name or value leads out of the block.
    #[error("a record is truncated")]
    RecordTruncated,
    /// A key shares more bytes with the one before it than that one has.
    #[error("a key repeats {0} bytes of a shorter key")]
    KeyPrefix(u64),
    /// A key is empty, or a log's key is not a name, a NUL byte and an update index.
    #[error("a key is malformed")]
    Key,
    /// A key sorts before the one before it, or is the same.
    #[error("a key is out of order")]
    KeyOrder,
    /// An object's blocks are listed twice.
    #[error("an object's blocks do not ascend")]
    PositionOrder,
    /// The type of a record's value is unknown.
    #[error("a value of type {0} is unknown")]
    ValueType(u8),
    /// A log block cannot be inflated, or not to the length it announces.
    #[error("the log block cannot be inflated to its announced length")]
    Inflate,
    /// Index blocks lead to one another without end.
    #[error("the index is too deep")]
    IndexDepth,
    /// An index block says that another block holds a key or a later one, and that block does not.
    #[error("the index promises a key that is not there")]
    IndexPromise,
    /// An update index is larger than 64 bits, or than the header allows.
    #[error("an update index is too large")]
    UpdateIndex,
    /// A block is larger than the header's block size. C git reads no more than that of a block. Only `check` looks.
    #[error(
        "a block of {len} bytes is larger than the header's block size of {block_size}, so that git cannot read it"
    )]
    BlockTooLarge {
        /// How many bytes the block has.
        len: u32,
        /// What the header says.
        block_size: u32,
    },
    /// Padding is zeros. Only `check` looks.
    #[error("there is something in the padding")]
    Padding,
    /// An index entry that leads to no block with its key at the end. Only `check` looks.
    #[error("the index leads to byte {0} for a key that is not the last of a block there")]
    IndexEntry(u64),
    /// An index that leaves out a block of its section, or lists one of another. Only `check` looks.
    #[error("the index does not list the blocks of its section")]
    IndexIncomplete,
    /// Blocks of a section that the footer says nothing of. Only `check` looks.
    #[error("the footer does not tell of this section")]
    Unreachable,
    /// An object that a ref points at is not in the object index. Only `check` looks.
    #[error("the object index leaves out the object whose id begins with {0:016x}")]
    ObjectMissing(u64),
    /// An object in the object index with other blocks than those that point at it. Only `check` looks.
    #[error("the object index lists an object with the wrong blocks")]
    ObjectPositions,
}
