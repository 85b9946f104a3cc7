use super::{Stack, StackError, TableName, name::is_leftover};
use refdb_vfs::{EntryKind, Patience};
use std::{
    collections::HashSet,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// How old a file must be before it counts as left behind. JGit writes the tables of its compactions without a lock and
/// under ordinary names, and lists them later.
pub const LEFTOVER_AGE: Duration = Duration::from_secs(3600);

/// A file that looks like a table's and that no list names.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Leftover {
    /// Its name.
    pub name: TableName,
    /// Its size.
    pub len_bytes: u64,
    /// How long ago it was last written.
    pub age: Duration,
}

impl Stack {
    /// Files in the folder that look like a table's and that the list does not name. A process that died left them
    /// behind, or a working one still uses them.
    pub fn leftovers(&self) -> Result<Vec<Leftover>, StackError> {
        let entries = match self.fs().read_dir(self.dir()) {
            Err(error) if error.is_not_found() => return Ok(Vec::new()),
            entries => entries?,
        };
        // The list is read after the folder. A file that was in use when the folder was read is listed now, or gone.
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

    /// Removes the leftovers that are old enough, and returns those it removed. The lock of a listed table stays, as
    /// does everything that is no table's.
    pub fn clean(&self, patience: Patience) -> Result<Vec<Leftover>, StackError> {
        let lock = self.lock_list(patience)?;
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
