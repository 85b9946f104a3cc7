use super::{Access, Listed, NewTable, Snapshot, Stack, StackError, TableName, list, snapshot::merge};
use crate::{Error, PagedFile, Source, Table};
use refdb_vfs::{AskingOnce, File, Fs, Mapping};
use std::{
    os::unix::ffi::OsStringExt,
    sync::Arc,
    time::{Duration, Instant},
};

/// Tables of at most this size are read into memory, which is cheaper than a mapping and its page faults.
const SMALL_TABLE_BYTES: u64 = 16 << 10;

/// The number of bytes of the first read of a table's file. If the file ends within them, its length need not be
/// determined.
const SMALLEST_TABLE_BYTES: usize = 2 << 10;

/// How long a list that names missing tables is read again, as long as its content differs each time.
const CHANGING_MAX: Duration = Duration::from_secs(60);

/// Why a listed table could not be opened.
enum OpenError {
    /// The file does not exist: a compaction has removed it since the list was read, or it was lost.
    Vanished,
    Failed(StackError),
}

/// Reads the file from its start until it ends or `bytes` is full. Returns the number of bytes read.
///
/// A local file system gives fewer bytes than it was asked for only at the end of a file, so it is asked only once. If
/// a file were cut short nevertheless, it would have no valid footer.
fn read_start(fs: &Fs, file: &File, bytes: &mut [u8]) -> Result<usize, Error> {
    let mut len = 0;
    while len < bytes.len() {
        match file.read_at(&mut bytes[len..], len as u64)? {
            0 => break,
            got => len += got,
        }
        if !fs.asks_server() {
            break;
        }
    }
    Ok(len)
}

/// The result of opening the tables of a list.
enum Opened {
    /// All tables are open.
    All(Vec<Listed>),
    /// The file of this table does not exist.
    Missing(TableName),
}

impl Stack {
    /// Reads the list and opens those of its tables that `known` does not have.
    ///
    /// A reader without the list's lock can find that a listed table has been removed. Usually another list has taken
    /// the place of the one that was read, so the list is read again.
    pub(super) fn load(&self, known: &Snapshot, sequence: u64) -> Result<Snapshot, StackError> {
        let mut opened: Vec<Listed> = Vec::new();
        let mut before: Option<Vec<u8>> = None;
        let mut since: Option<Instant> = None;
        loop {
            // The server of a network file system is asked once, because the list and its tables are in one folder.
            let _asking = AskingOnce::afresh();
            let file = known.list().read_again(self.fs(), self.list_path())?;
            if file.content == known.list().content {
                return Ok(known.with_list(file));
            }
            if opened.is_empty() {
                opened = known.tables().to_vec();
            }
            let names = list::table_names(&file.content)
                .map_err(|fault| StackError::List { list: self.list_path().to_owned(), fault })?;
            match self.open_all(names, &mut opened)? {
                Opened::All(tables) => {
                    let merged = merge(&tables)?;
                    return Ok(Snapshot::new(sequence, file, tables, merged));
                }
                Opened::Missing(table)
                    if before.as_ref() == Some(&file.content)
                        || since.get_or_insert_with(Instant::now).elapsed() >= CHANGING_MAX =>
                {
                    return Err(StackError::MissingTable { list: self.list_path().to_owned(), table });
                }
                Opened::Missing(_) => before = Some(file.content),
            }
            // The list changes faster than its tables can be opened. The pause lets the running compaction finish.
            std::thread::sleep(Duration::from_micros(50));
        }
    }

    /// Returns the named tables, from `opened` where they are there; tables that have to be opened are added to
    /// `opened`.
    fn open_all(&self, names: Vec<TableName>, opened: &mut Vec<Listed>) -> Result<Opened, StackError> {
        let mut tables = Vec::with_capacity(names.len());
        for (at, name) in names.into_iter().enumerate() {
            // Most tables keep their position in the list.
            let known = match opened.get(at) {
                Some(listed) if listed.name == name => Some(listed),
                _ => opened.iter().find(|listed| listed.name == name),
            };
            let listed = match known {
                Some(listed) => listed.clone(),
                None => match self.open_table(&name) {
                    Ok(table) => {
                        opened.push(Listed { name: name.clone(), table: Arc::clone(&table) });
                        Listed { name, table }
                    }
                    Err(OpenError::Vanished) => return Ok(Opened::Missing(name)),
                    Err(OpenError::Failed(error)) => return Err(error),
                },
            };
            debug_assert!(listed.table.name().ends_with(listed.name.as_bstr()), "a table is the file of its name");
            tables.push(listed);
        }
        Ok(Opened::All(tables))
    }

    fn open_table(&self, name: &TableName) -> Result<Arc<Table>, OpenError> {
        let source = match self.open_source(name) {
            Err(Error::Io(error)) if error.is_not_found() || error.is_stale() => return Err(OpenError::Vanished),
            source => source.map_err(StackError::Table).map_err(OpenError::Failed)?,
        };
        // On a network file system an open file can be lost as soon as another machine removes its name.
        self.table(source, name).map_err(|error| match error {
            StackError::Table(Error::Io(error)) if error.is_stale() => OpenError::Vanished,
            error => OpenError::Failed(error),
        })
    }

    pub(super) fn open_source(&self, name: &TableName) -> Result<Source, Error> {
        let file = self.fs().open(&self.path_of(name))?;
        let mut start = [0; SMALLEST_TABLE_BYTES];
        let len = read_start(self.fs(), &file, &mut start)?;
        if len < start.len() {
            return Ok(Source::Memory(start[..len].into()));
        }
        let len_bytes = file.stat()?.len_bytes;
        if len_bytes <= SMALL_TABLE_BYTES {
            let mut whole = vec![0; len_bytes as usize];
            let len = read_start(self.fs(), &file, &mut whole)?;
            return Ok(Source::Memory(whole[..len].into()));
        }
        Ok(match &self.options().access {
            Access::Map => Source::Mapped(Arc::new(Mapping::new(&file)?)),
            Access::Page(cache) => Source::Paged(PagedFile::new(file, Arc::clone(cache))?),
        })
    }

    /// A new table of these bytes, which another writer has sent.
    pub(super) fn small_table(&self, bytes: &[u8]) -> Result<NewTable, StackError> {
        let table = self.table(Source::Memory(bytes.into()), &TableName::fresh(0, 0))?;
        Ok(NewTable::of_bytes(self, table.min_update_index(), table.max_update_index(), bytes))
    }

    /// Opens a table from its bytes, and checks its hash function.
    pub(super) fn table(&self, source: Source, name: &TableName) -> Result<Arc<Table>, StackError> {
        let path = self.path_of(name).into_os_string().into_vec();
        let table = Table::open(source, path)?;
        let expected = self.options().write.hash;
        if table.hash() == expected {
            return Ok(table);
        }
        let (found, expected) = (table.hash().name(), expected.name());
        Err(Error::Hash { table: table.name().to_owned(), found, expected }.into())
    }
}
