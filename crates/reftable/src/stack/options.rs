use super::plan::DEFAULT_FACTOR;
use crate::{BlockCache, WriteOptions};
use refdb_vfs::{File, writer_terms};
use std::{fmt, sync::Arc};

/// How a stack is read and written.
///
/// The fields can be read and assigned; methods of the same names build a value in one expression.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StackOptions {
    /// How new tables are written. Tables with object ids of another hash function are refused when they are read.
    pub write: WriteOptions,
    /// How tables are read.
    pub access: Access,
    /// Which writes are brought to stable storage.
    pub durability: Durability,
    /// The exact permission bits of new tables and lists, as `core.sharedRepository` gives them, or `None` to leave
    /// them to the umask.
    pub file_mode: Option<u32>,
    /// How many times as large as its next younger neighbour each table should be (`reftable.geometricFactor`); 0
    /// stands for [`DEFAULT_FACTOR`].
    pub geometric_factor: u16,
    /// Whether additions compact the stack by the geometric rule: at once if that is cheap, and otherwise by the
    /// compaction that [`Addition::commit`](super::Addition::commit) returns.
    pub auto_compact: bool,
}

/// How tables of more than 16 KiB are read. Others, and those of less than 256 KiB that this process has just written,
/// are held in memory.
#[derive(Clone)]
pub enum Access {
    /// Through a memory mapping, or on a network file system as a whole: for short-lived programs, and for files that
    /// nobody truncates, since that would kill a process that has mapped them.
    Map,
    /// Block by block through a cache that any number of stacks can share: for long-lived processes.
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

/// The writes that are brought to stable storage before a change counts as made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Durability {
    /// None, as in git unless `core.fsync` names references. A crash of the machine can lose the newest changes, or
    /// leave files whose content never arrived.
    None,
    /// The new table, the new list and their names in the folder. After the list has been replaced, the folder is
    /// synced once more.
    Sync,
}

impl StackOptions {
    /// Git's defaults for a short-lived program: tables are mapped, nothing is synced, additions compact the stack.
    pub const fn new(write: WriteOptions) -> Self {
        StackOptions {
            write,
            access: Access::Map,
            durability: Durability::None,
            file_mode: None,
            geometric_factor: DEFAULT_FACTOR,
            auto_compact: true,
        }
    }

    /// Sets [`access`](#structfield.access).
    #[must_use]
    pub fn access(self, access: Access) -> Self {
        StackOptions { access, ..self }
    }

    /// Sets [`durability`](#structfield.durability).
    #[must_use]
    pub fn durability(self, durability: Durability) -> Self {
        StackOptions { durability, ..self }
    }

    /// Sets [`file_mode`](#structfield.file_mode).
    #[must_use]
    pub fn file_mode(self, file_mode: Option<u32>) -> Self {
        StackOptions { file_mode, ..self }
    }

    /// Sets [`geometric_factor`](#structfield.geometric_factor).
    #[must_use]
    pub fn geometric_factor(self, geometric_factor: u16) -> Self {
        StackOptions { geometric_factor, ..self }
    }

    /// Sets [`auto_compact`](#structfield.auto_compact).
    #[must_use]
    pub fn auto_compact(self, auto_compact: bool) -> Self {
        StackOptions { auto_compact, ..self }
    }

    /// What processes must agree on to write together, because one of them writes for all.
    pub(super) fn terms(&self) -> String {
        let StackOptions { write, access: _, durability, file_mode, geometric_factor, auto_compact } = self;
        let process = writer_terms();
        format!("{write:?} {durability:?} {file_mode:?} {geometric_factor} {auto_compact} {process}")
    }

    /// Gives a new file its permissions.
    pub(super) fn permit(&self, file: &File) -> refdb_vfs::Result<()> {
        self.file_mode.map_or(Ok(()), |mode| file.set_mode(mode))
    }
}

/// The mode that new files are created with, before the umask takes its bits away.
pub(super) const NEW_FILE_MODE: u32 = 0o666;
