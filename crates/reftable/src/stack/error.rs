use super::{ListFault, TableName};
use bstr::BString;
use refdb_vfs::LockError;
use std::path::PathBuf;

/// Why an operation on a stack failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StackError {
    /// A file operation failed.
    #[error(transparent)]
    Io(#[from] refdb_vfs::Error),
    /// A lock could not be acquired.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// A table cannot be read, or records cannot be written as a table.
    #[error(transparent)]
    Table(#[from] crate::Error),
    /// `tables.list` is invalid.
    #[error("'{}' is invalid: {fault}; restore it, or remove the line", list.display())]
    List {
        /// The path of `tables.list`.
        list: PathBuf,
        /// What is wrong with the list.
        #[source]
        fault: ListFault,
    },
    /// `tables.list` names a table that does not exist. The list was read again, but had not changed, or went on
    /// changing for a minute.
    #[error("'{}' names the table '{table}', but there is no such file; restore it from a backup", list.display())]
    MissingTable {
        /// The path of `tables.list`.
        list: PathBuf,
        /// The name of the missing table.
        table: TableName,
    },
    /// The update indexes of a new table have been used in the stack already, or the least of them is greater than the
    /// greatest.
    #[error("update indexes {min} to {max} cannot be added to a stack whose next one is {next}")]
    UpdateIndex {
        /// The least update index of the new table.
        min: u64,
        /// The greatest update index of the new table.
        max: u64,
        /// The least update index that a new table may have.
        next: u64,
    },
    /// Refs that are there already do not fit into the blocks of a table that a compaction would write.
    #[error(
        "the tables cannot be compacted: no block of {block_size} bytes has room for {}; delete or rename these refs, \
             or raise reftable.blockSize",
        list_of(refs)
    )]
    RefsTooLarge {
        /// The names of the refs.
        refs: Vec<BString>,
        /// The block size in use, in bytes.
        block_size: u32,
    },
    /// A signal asked the process to end during a compaction or its planning, or while an addition copied records of
    /// older tables.
    #[error("compaction was interrupted: {0}")]
    Interrupted(#[source] std::io::Error),
    /// Another process was to write this addition together with its own, but has not: it gave up, ended or could not be
    /// reached, or the addition does not fit into the one table that they would share. Nothing was changed; the
    /// addition can begin anew.
    #[error("the process that was to write this change together with its own gave up; try again")]
    GroupGivenUp,
    /// The process that writes this addition together with its own, which may have been stopped, has not answered: not
    /// within a second after a signal asked this process to end, or not within a minute, or sixty times the lock
    /// timeout if that is more. Or the answer cannot be decoded, or that process has ended and what it left cannot be
    /// read.
    #[error(
        "a process that was writing this change together with its own has not answered; whether the change was made is \
         not known: read the refs once that process goes on or is killed"
    )]
    OutcomeUnknown,
    /// The change has been made and is visible to all processes, but may not survive a crash of the machine.
    #[error("the change was made, but may not survive a crash of the machine: {0}")]
    NotDurable(#[source] refdb_vfs::Error),
}

impl StackError {
    /// Returns whether a record, or its name, is too large for the blocks of a table.
    pub fn is_too_large(&self) -> bool {
        match self {
            StackError::Table(error) => error.is_too_large(),
            StackError::RefsTooLarge { .. } => true,
            _ => false,
        }
    }
}

/// Names in quotes.
fn list_of(refs: &[BString]) -> String {
    refs.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ")
}
