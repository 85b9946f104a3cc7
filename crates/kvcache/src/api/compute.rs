//! Values that are computed where they are missing.

use super::{
    cache::Cache,
    put::{Put, PutOptions},
};
use crate::error::{Error, Result};

impl Cache {
    /// The value of a key; where it has none, what `make` computes, which is put for the next caller.
    ///
    /// The put is buffered and may be refused; the caller gets the value all the same. A value whose key is removed,
    /// put or cleared while `make` runs is returned but not stored. So no older value follows a newer one. Threads that
    /// miss the same key at the same time each compute it.
    ///
    /// Errors are those of `make`. A cache that cannot take the value is no error here: see [`Cache::stats`]. It may be
    /// read-only, closed or too small, or its disk fails.
    pub fn get_or_insert_with<E>(&self, key: &[u8], make: impl FnOnce() -> Result<Vec<u8>, E>) -> Result<Vec<u8>, E> {
        // Before the look-up: a removal after it may be of the value that is computed next.
        let ticket = self.ticket(key);
        if let Some(found) = self.get(key) {
            return Ok(found.value);
        }
        let value = make()?;
        let put: Result<Put, Error> =
            self.put_with(key, &value, PutOptions { ticket: Some(ticket), ..PutOptions::default() });
        drop(put);
        Ok(value)
    }
}
