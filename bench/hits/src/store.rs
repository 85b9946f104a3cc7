//! The real store, its files and reserves included.

use crate::traces::Key;
use anyhow::{Context, ensure};
use refdb_kvcache::{Cache, Options};
use refdb_vfs::Fs;
use std::{os::unix::fs::MetadataExt, path::Path};

/// Bytes of a value: with key, header and padding a record has 1,056 bytes.
const VALUE_BYTES: usize = 1016;
/// Bytes of a record.
pub const ENTRY_BYTES: u64 = 1056;
/// Bytes of the limit for each request between two turns of the cache's worker: with 16 MiB, a turn comes after every
/// 100 requests, which take some 2 ms. A smaller cache has less room for the puts between two turns, so its turns come
/// after fewer requests.
const BYTES_A_REQUEST: u64 = 167_772;

/// A cache in a folder.
pub struct Store {
    cache: Cache,
    requests: u64,
    requests_a_turn: u64,
}

impl Store {
    /// Opens a cache that does nothing in the background, so that two runs have equal results.
    pub fn open(dir: &Path, limit: u64) -> anyhow::Result<Self> {
        let cache = Cache::open_idle(Fs::real(), dir, Options::new(limit)).context("open the cache")?;
        Ok(Store { cache, requests: 0, requests_a_turn: (limit / BYTES_A_REQUEST).max(1) })
    }

    /// Whether the key is there; if not, it is put.
    pub fn get_or_put(&mut self, key: Key) -> anyhow::Result<bool> {
        let bytes = key.to_le_bytes();
        let found = self.cache.get(&bytes).is_some();
        if !found {
            self.cache.put(&bytes, &[key as u8; VALUE_BYTES])?;
        }
        self.requests += 1;
        if self.requests.is_multiple_of(self.requests_a_turn) {
            self.cache.work()?;
        }
        Ok(found)
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
