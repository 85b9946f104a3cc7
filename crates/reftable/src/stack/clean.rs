use super::{Stack, StackError, TableName, name::is_leftover};
use refdb_vfs::{EntryKind, LockTimeout};
use std::{
    collections::HashSet,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// The age beyond which [`Stack::clean`] removes a [`Leftover`]. A younger one can be in use, because JGit writes the
/// tables of its compactions without the list's lock, and under ordinary names, before it lists them.
pub const LEFTOVER_AGE: Duration = Duration::from_secs(3600);

/// A file in a stack's folder that has the name of a table, a table's lock or an unfinished table, but is neither in
/// the list nor the lock of a listed table.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Leftover {
    /// The name of the file.
    pub name: TableName,
    /// The size of the file, in bytes.
    pub len_bytes: u64,
    /// The time since the file was last written.
    pub age: Duration,
}

impl Stack {
    /// Returns the files in the folder that [`Leftover`] describes, sorted by name. A process has left them behind,
    /// usually because it died, or still uses them.
    ///
    /// # Errors
    ///
    /// If the folder, the list or a file cannot be examined.
    pub fn leftovers(&self) -> Result<Vec<Leftover>, StackError> {
        let entries = match self.fs().read_dir(self.dir()) {
            Err(error) if error.is_not_found() => return Ok(Vec::new()),
            entries => entries?,
        };
        // The list is read after the folder, so that a table which was finished in between counts as listed.
        let snapshot = self.reload()?;
        let listed: HashSet<&TableName> = snapshot.tables().iter().map(|listed| &listed.name).collect();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_nanos() as i128);
        let mut leftovers = Vec::new();
        for (name, kind) in entries {
            let Some(name) = TableName::new(&name).filter(|name| is_leftover(name.as_bstr())) else { continue };
            if kind != EntryKind::File
                || listed.contains(&name)
                || name.table_of_lock().is_some_and(|table| listed.contains(&table))
            {
                continue;
            }
            match self.fs().stat_link(&self.path_of(&name)) {
                Ok(stat) => {
                    let age = u64::try_from(now - stat.modified_nanos).unwrap_or(0);
                    leftovers.push(Leftover { name, len_bytes: stat.len_bytes, age: Duration::from_nanos(age) });
                }
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(error.into()),
            }
        }
        leftovers.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(leftovers)
    }

    /// Removes the [leftovers](Self::leftovers) that are older than [`LEFTOVER_AGE`], and returns them. The lock files
    /// of listed tables stay.
    ///
    /// This locks the list, for which it waits as long as `lock_timeout` says.
    ///
    /// # Errors
    ///
    /// If the list cannot be locked or read, the folder or a file cannot be examined, or a file cannot be removed.
    pub fn clean(&self, lock_timeout: LockTimeout) -> Result<Vec<Leftover>, StackError> {
        let lock = self.lock_list(lock_timeout)?;
        let mut removed = Vec::new();
        for leftover in self.leftovers()? {
            if leftover.age > LEFTOVER_AGE {
                debug_assert!(is_leftover(leftover.name.as_bstr()), "what goes is a table's: {}", leftover.name);
                match self.fs().remove_file(&self.path_of(&leftover.name)) {
                    Ok(()) => removed.push(leftover),
                    Err(error) if error.is_not_found() => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        lock.release()?;
        Ok(removed)
    }
}
