use super::plan::DEFAULT_FACTOR;
use crate::{BlockCache, WriteOptions};
use refdb_vfs::File;
use std::{fmt, sync::Arc};

/// How a stack is read and written.
#[derive(Clone, Debug)]
pub struct StackOptions {
    /// How tables are written. Its hash function is that of the whole stack.
    pub write: WriteOptions,
    /// How tables are read.
    pub access: Access,
    /// Which writes are brought to stable storage.
    pub durability: Durability,
    /// The exact permission bits of new tables and lists, as `core.sharedRepository` has it, whatever the umask says.
    /// `None` leaves it to the umask.
    pub file_mode: Option<u32>,
    /// How many times as big as its next younger neighbour a table shall be (`reftable.geometricFactor`).
    pub geometric_factor: u16,
    /// Whether additions keep the stack compact.
    pub auto_compact: bool,
}

/// How large tables are read. Small ones are held in memory.
#[derive(Clone)]
pub enum Access {
    /// Mapped. For programs that end soon, on files that nobody truncates.
    Map,
    /// Block by block, through a cache that any number of stacks share. For long-lived processes.
    Page(Arc<BlockCache>),
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Access::Map => "Map",
            Access::Page(_) => "Page",
        })
    }
}

/// The writes brought to stable storage before a change counts as made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Durability {
    /// Nothing, as git does unless `core.fsync` names references. A crash of the machine may lose the newest changes,
    /// or leave files whose content never arrived.
    None,
    /// The new table, the new list and their names in the folder. Once the list is in place, the folder again.
    Sync,
}

impl StackOptions {
    /// Git's defaults for a short-lived program, for tables written as `write` says.
    pub fn new(write: WriteOptions) -> Self {
        StackOptions {
            write,
            access: Access::Map,
            durability: Durability::None,
            file_mode: None,
            geometric_factor: DEFAULT_FACTOR,
            auto_compact: true,
        }
    }

    /// Gives a new file its permissions.
    pub(super) fn permit(&self, file: &File) -> refdb_vfs::Result<()> {
        self.file_mode.map_or(Ok(()), |mode| file.set_mode(mode))
    }

    /// Brings a new file to stable storage if that is asked for.
    pub(super) fn make_durable(&self, file: &File) -> refdb_vfs::Result<()> {
        match self.durability {
            Durability::None => Ok(()),
            Durability::Sync => file.sync(),
        }
    }
}

/// The mode new files are created with; the umask takes its part.
pub(super) const NEW_FILE_MODE: u32 = 0o666;
