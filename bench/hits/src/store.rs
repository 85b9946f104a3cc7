//! The real store, its files and reserves included.

use crate::traces::Key;
use anyhow::{Context, ensure};
use refdb_kvcache::{Cache, Error, Options, Put};
use refdb_vfs::Fs;
use std::{os::unix::fs::MetadataExt, path::Path};

/// Bytes of a record of the traces whose entries have one size.
pub const ENTRY_BYTES: u32 = 1056;
/// What a record has beside its value: the header and the key.
const OVERHEAD_BYTES: u32 = 32 + 8;
/// The worker has a turn whenever one part in this many of the limit has been requested. With 16 MiB and the usual
/// entries these are some 100 requests, which take some 2 ms. If the worker came later, a cache would need more room
/// for the puts between turns.
const TURNS_A_LIMIT: u64 = 158;
/// How often a put is tried for which there is no room.
const MOST_TRIES: u32 = 4;

/// A cache in a folder.
pub struct Store {
    cache: Cache,
    value: Vec<u8>,
    bytes_a_turn: u64,
    bytes_since_turn: u64,
}

impl Store {
    /// Opens a cache that does nothing in the background, so that two runs have equal results.
    pub fn open(dir: &Path, limit: u64) -> anyhow::Result<Self> {
        let cache = Cache::open_idle(Fs::real(), dir, Options::new(limit)).context("open the cache")?;
        Ok(Store { cache, value: Vec::new(), bytes_a_turn: limit / TURNS_A_LIMIT, bytes_since_turn: 0 })
    }

    /// Whether the key is there; if not, a record of `bytes` is put, or of 48 if that is more. An entry that is too
    /// large for this cache is not put.
    pub fn get_or_put(&mut self, key: Key, bytes: u32) -> anyhow::Result<bool> {
        let found = self.cache.get(&key.to_le_bytes()).is_some();
        if !found {
            self.value.clear();
            self.value.resize(bytes.saturating_sub(OVERHEAD_BYTES) as usize, key as u8);
            self.put(key)?;
        }
        self.bytes_since_turn += u64::from(bytes);
        if self.bytes_since_turn >= self.bytes_a_turn {
            self.bytes_since_turn = 0;
            self.cache.work()?;
        }
        Ok(found)
    }

    fn put(&self, key: Key) -> anyhow::Result<()> {
        for _ in 0..MOST_TRIES {
            match self.cache.put(&key.to_le_bytes(), &self.value) {
                // Elsewhere the worker makes room while the put waits.
                Ok(Put::Refused) => {
                    self.cache.work()?;
                }
                Ok(_) | Err(Error::TooLarge { .. }) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Returns the average number of copies of records made for each put. Fails if a put was refused.
    pub fn copies_a_put(&self) -> anyhow::Result<f64> {
        let stats = self.cache.stats();
        ensure!(stats.refused == 0, "{} puts were refused", stats.refused);
        Ok((stats.kept + stats.compacted) as f64 / stats.puts.max(1) as f64)
    }
}

/// Bytes of the blocks that the folder and the files in it take.
pub fn du(dir: &Path) -> anyhow::Result<u64> {
    let mut sum = std::fs::metadata(dir)?.blocks() * 512;
    for file in std::fs::read_dir(dir)? {
        sum += file?.metadata()?.blocks() * 512;
    }
    Ok(sum)
}
