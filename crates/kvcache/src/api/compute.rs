//! Values that are computed when they are missing.

use super::{
    cache::Cache,
    put::{Put, PutOptions},
};
use crate::error::{Error, Result};

impl Cache {
    /// Returns the value of a key. If the key has none, returns the value that `make` computes, and puts it for the
    /// next caller.
    ///
    /// The put is buffered and may be refused; the caller gets the value all the same. A value whose key is removed,
    /// cleared or put without a ticket while `make` runs is returned but not stored, so that no older value replaces a
    /// newer one. Threads that miss the same key at the same time each compute its value.
    ///
    /// # Errors
    ///
    /// Only those of `make`. If the cache cannot take the value because it is read-only, closed or too small, or
    /// because its disk fails, the value is returned all the same; [`Cache::stats`] counts refused puts.
    pub fn get_or_insert_with<E>(&self, key: &[u8], make: impl FnOnce() -> Result<Vec<u8>, E>) -> Result<Vec<u8>, E> {
        // Taken before the look-up, so that a removal after the look-up makes the value that is then computed stale.
        let ticket = self.ticket(key);
        if let Some(found) = self.get(key) {
            return Ok(found.value);
        }
        let value = make()?;
        let _: Result<Put, Error> = self.put_with(key, &value, PutOptions::new().ticket(ticket));
        Ok(value)
    }
}
