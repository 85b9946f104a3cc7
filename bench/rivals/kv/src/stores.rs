//! One adapter a library, each opened as its documentation advises for a cache of this size.

use anyhow::{Context, Result};
use foyer::{BlockEngineConfig, DeviceBuilder, FsDeviceBuilder, HybridCache, HybridCacheBuilder, HybridCachePolicy};
use moka::sync::Cache as Moka;
use redb::{Database, ReadableDatabase, TableDefinition};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// What a library may use.
#[derive(Clone, Copy)]
pub struct Bounds {
    /// Bytes of files, for a library that knows such a limit.
    pub disk: u64,
    /// Bytes of values and blocks that a library keeps in memory itself, beside the system's page cache.
    pub memory: u64,
}

/// A library under test. Values are never changed in place: a key's value is always the same.
pub trait Store: Sync {
    /// Copies the value of a key into `value`; whether there was one.
    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool>;
    /// Puts a value without waiting until it is durable.
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()>;
    /// Puts many values in one go, where the library has a way to, and else one after the other.
    fn load(&self, entries: &mut dyn Iterator<Item = (Vec<u8>, Vec<u8>)>) -> Result<()> {
        for (key, value) in entries {
            self.put(&key, &value)?;
        }
        Ok(())
    }
    /// Closes the library. The next opener finds what the library has kept, except with `moka + files`, whose index is
    /// in memory only.
    fn close(self: Box<Self>) -> Result<()>;
}

/// The names, in the order of the tables.
pub const NAMES: [&str; 5] = ["refdb-kvcache", "foyer", "moka + files", "fjall", "redb"];

/// Opens a library in a folder.
pub fn open(name: &str, dir: &Path, bounds: Bounds) -> Result<Box<dyn Store>> {
    fs::create_dir_all(dir)?;
    Ok(match name {
        "refdb-kvcache" => {
            let options = refdb_kvcache::Options::new(bounds.disk);
            Box::new(Refdb(refdb_kvcache::Cache::open(dir, options)?))
        }
        "foyer" => Box::new(Foyer::open(dir, bounds)?),
        "moka + files" => Box::new(MokaFiles::open(dir, bounds)?),
        "fjall" => Box::new(Fjall::open(dir, bounds)?),
        "redb" => Box::new(Redb::open(dir, bounds)?),
        _ => anyhow::bail!("no library is called {name}: one of {}", NAMES.join(", ")),
    })
}

struct Refdb(refdb_kvcache::Cache);

impl Store for Refdb {
    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        value.clear();
        Ok(self.0.get_with(key, |found, _| value.extend_from_slice(found)).is_some())
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.0.put(key, value)?;
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.0.close()?)
    }
}

const MOST_TO_CLOSE: Duration = Duration::from_secs(60);

/// A memory tier before a disk tier. foyer's own calls are asynchronous: `get` and `close` wait for their futures.
struct Foyer {
    cache: HybridCache<Vec<u8>, Vec<u8>>,
    runtime: tokio::runtime::Runtime,
}

impl Foyer {
    fn open(dir: &Path, bounds: Bounds) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let cache = runtime.block_on(async {
            let device = FsDeviceBuilder::new(dir).with_capacity(usize::try_from(bounds.disk)?).build()?;
            let builder = HybridCacheBuilder::new()
                .with_policy(HybridCachePolicy::WriteOnInsertion)
                .memory(usize::try_from(bounds.memory)?)
                .with_weighter(|key: &Vec<u8>, value: &Vec<u8>| key.len() + value.len())
                .storage()
                .with_engine_config(BlockEngineConfig::new(device));
            anyhow::Ok(builder.build().await?)
        })?;
        Ok(Foyer { cache, runtime })
    }
}

impl Store for Foyer {
    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let Some(entry) = self.runtime.block_on(self.cache.get(key))? else { return Ok(false) };
        value.clear();
        value.extend_from_slice(entry.value());
        Ok(true)
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.cache.insert(key.to_vec(), value.to_vec());
        Ok(())
    }

    /// Gives up after [`MOST_TO_CLOSE`], because the close of a cache that was reopened and only read was seen not to
    /// end.
    fn close(self: Box<Self>) -> Result<()> {
        let Foyer { cache, runtime } = *self;
        let closed = runtime.block_on(async { tokio::time::timeout(MOST_TO_CLOSE, cache.close()).await });
        runtime.shutdown_background();
        Ok(closed.with_context(|| format!("its close took more than {MOST_TO_CLOSE:?}"))??)
    }
}

/// A memory cache in front of one file for each entry, as many programs have it. A file is removed when moka evicts its
/// entry.
struct MokaFiles {
    memory: Moka<Vec<u8>, Arc<[u8]>>,
    files: Moka<Vec<u8>, u64>,
    dir: PathBuf,
}

impl MokaFiles {
    fn open(dir: &Path, bounds: Bounds) -> Result<Self> {
        let memory = Moka::builder()
            .max_capacity(bounds.memory)
            .weigher(|key: &Vec<u8>, value: &Arc<[u8]>| u32::try_from(key.len() + value.len()).unwrap_or(u32::MAX))
            .build();
        let folder = dir.to_path_buf();
        let files = Moka::builder()
            .max_capacity(bounds.disk)
            .weigher(|_: &Vec<u8>, bytes: &u64| u32::try_from(*bytes).unwrap_or(u32::MAX))
            .eviction_listener(move |key, _, cause| {
                if cause.was_evicted() {
                    let _ = fs::remove_file(path(&folder, &key));
                }
            })
            .build();
        for shard in 0..=255 {
            fs::create_dir_all(dir.join(format!("{shard:02x}")))?;
        }
        Ok(MokaFiles { memory, files, dir: dir.to_path_buf() })
    }
}

fn path(dir: &Path, key: &[u8]) -> PathBuf {
    let name: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    dir.join(&name[..2]).join(name)
}

impl Store for MokaFiles {
    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        value.clear();
        if let Some(found) = self.memory.get(key) {
            value.extend_from_slice(&found);
            return Ok(true);
        }
        if self.files.get(key).is_none() {
            return Ok(false);
        }
        let Ok(bytes) = fs::read(path(&self.dir, key)) else { return Ok(false) };
        value.extend_from_slice(&bytes);
        self.memory.insert(key.to_vec(), bytes.into());
        Ok(true)
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.memory.insert(key.to_vec(), value.into());
        fs::write(path(&self.dir, key), value)?;
        self.files.insert(key.to_vec(), (value.len() as u64).next_multiple_of(4096));
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

/// A database: it knows no limit.
struct Fjall {
    database: fjall::Database,
    entries: fjall::Keyspace,
}

impl Fjall {
    fn open(dir: &Path, bounds: Bounds) -> Result<Self> {
        let database = fjall::Database::builder(dir).cache_size(bounds.memory).open()?;
        let entries = database.keyspace("entries", fjall::KeyspaceCreateOptions::default)?;
        Ok(Fjall { database, entries })
    }
}

impl Store for Fjall {
    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let Some(found) = self.entries.get(key)? else { return Ok(false) };
        value.clear();
        value.extend_from_slice(&found);
        Ok(true)
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(self.entries.insert(key, value)?)
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.database.persist(fjall::PersistMode::Buffer)?)
    }
}

const TABLE: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("entries");

/// A database: it knows no limit, and one transaction writes at a time.
struct Redb(Database);

impl Redb {
    fn open(dir: &Path, bounds: Bounds) -> Result<Self> {
        let database =
            Database::builder().set_cache_size(usize::try_from(bounds.memory)?).create(dir.join("entries.redb"))?;
        let write = database.begin_write()?;
        write.open_table(TABLE)?;
        write.commit()?;
        Ok(Redb(database))
    }

    fn write(&self, entries: &mut dyn Iterator<Item = (Vec<u8>, Vec<u8>)>) -> Result<()> {
        let mut write = self.0.begin_write()?;
        // As durable as a buffered put of the others.
        write.set_durability(redb::Durability::None)?;
        {
            let mut table = write.open_table(TABLE)?;
            for (key, value) in entries {
                table.insert(key.as_slice(), value.as_slice())?;
            }
        }
        Ok(write.commit()?)
    }
}

impl Store for Redb {
    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let read = self.0.begin_read()?;
        let table = read.open_table(TABLE)?;
        let Some(found) = table.get(key)? else { return Ok(false) };
        value.clear();
        value.extend_from_slice(found.value());
        Ok(true)
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.write(&mut std::iter::once((key.to_vec(), value.to_vec())))
    }

    fn load(&self, entries: &mut dyn Iterator<Item = (Vec<u8>, Vec<u8>)>) -> Result<()> {
        self.write(entries)
    }

    fn close(self: Box<Self>) -> Result<()> {
        let mut write = self.0.begin_write()?;
        write.set_durability(redb::Durability::Immediate)?;
        Ok(write.commit()?)
    }
}
