//! Entries as a stream of bytes: a backup, a way to another machine or format.
//!
//! ```text
//! "refdbkvX" u32 version | { u64 created_ms, u32 key_len, u32 value_len, key, value } ... | { u64::MAX, u32 0, u32 0 }
//! u64 entries | u32 CRC32C of all before
//! ```

use crate::{
    cache::{Cache, Put, PutOptions},
    error::{Error, Result},
    options::Durability,
};
use std::io::{self, Read, Write};

const MAGIC: [u8; 8] = *b"refdbkvX";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 16;

/// What an import did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// Entries stored.
    pub stored: u64,
    /// Entries larger than the cache takes.
    pub too_large: u64,
}

impl Cache {
    /// Writes every entry, decrypted, with its age. Returns how many.
    pub fn export(&self, to: &mut dyn Write) -> io::Result<u64> {
        let mut to = Summed { inner: to, crc: 0 };
        to.write_all(&MAGIC)?;
        to.write_all(&VERSION.to_le_bytes())?;
        let mut entries = 0u64;
        self.for_each(|key, value, info| {
            entries += 1;
            to.write_all(&header(info.created_ms, key.len() as u32, value.len() as u32))?;
            to.write_all(key)?;
            to.write_all(value)
        })?;
        to.write_all(&header(u64::MAX, 0, 0))?;
        to.write_all(&entries.to_le_bytes())?;
        let crc = to.crc;
        to.inner.write_all(&crc.to_le_bytes())?;
        to.inner.flush()?;
        Ok(entries)
    }

    /// Puts every entry of an export, with its age. What was put stays if the stream turns out to be cut or harmed.
    pub fn import(&self, from: &mut dyn Read) -> Result<Imported> {
        let mut from = Counted { inner: from, crc: 0, offset: 0 };
        if from.array::<8>()? != MAGIC || u32::from_le_bytes(from.array()?) != VERSION {
            return Err(from.corrupt("not an export of this version"));
        }
        let (mut imported, mut seen) = (Imported::default(), 0u64);
        let (mut key, mut value) = (Vec::new(), Vec::new());
        loop {
            let created_ms = u64::from_le_bytes(from.array()?);
            let (key_len, value_len) = (u32::from_le_bytes(from.array()?), u32::from_le_bytes(from.array()?));
            if created_ms == u64::MAX {
                break;
            }
            seen += 1;
            from.bytes(key_len, &mut key)?;
            from.bytes(value_len, &mut value)?;
            let options = PutOptions { created_ms: Some(created_ms), durability: Durability::Written, ticket: None };
            match self.put_in_bulk(&key, &value, options) {
                Ok(Put::Stored) => imported.stored += 1,
                Ok(Put::Refused | Put::Stale) => {}
                Err(Error::TooLarge { .. }) => imported.too_large += 1,
                Err(error) => return Err(error),
            }
        }
        let entries = u64::from_le_bytes(from.array()?);
        let crc = from.crc;
        if entries != seen || u32::from_le_bytes(from.array()?) != crc {
            return Err(from.corrupt("the export is harmed: its count or checksum is wrong"));
        }
        self.flush(Durability::Written)?;
        Ok(imported)
    }
}

fn header(created_ms: u64, key_len: u32, value_len: u32) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    bytes[..8].copy_from_slice(&created_ms.to_le_bytes());
    bytes[8..12].copy_from_slice(&key_len.to_le_bytes());
    bytes[12..].copy_from_slice(&value_len.to_le_bytes());
    bytes
}

struct Summed<'a> {
    inner: &'a mut dyn Write,
    crc: u32,
}

impl Summed<'_> {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.crc = crc32c::crc32c_append(self.crc, bytes);
        self.inner.write_all(bytes)
    }
}

struct Counted<'a> {
    inner: &'a mut dyn Read,
    crc: u32,
    offset: u64,
}

impl Counted<'_> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        self.inner.read_exact(&mut bytes).map_err(|error| self.corrupt(&error.to_string()))?;
        self.count(&bytes);
        Ok(bytes)
    }

    /// Reads `len` bytes; memory grows with what comes, not with what the number promises.
    fn bytes(&mut self, len: u32, into: &mut Vec<u8>) -> Result<()> {
        into.clear();
        let read = self.inner.take(u64::from(len)).read_to_end(into);
        match read {
            Ok(read) if read == len as usize => {
                self.count(into);
                Ok(())
            }
            Ok(_) => Err(self.corrupt("the export is cut short")),
            Err(error) => Err(self.corrupt(&error.to_string())),
        }
    }

    fn count(&mut self, bytes: &[u8]) {
        self.crc = crc32c::crc32c_append(self.crc, bytes);
        self.offset += bytes.len() as u64;
    }

    fn corrupt(&self, what: &str) -> Error {
        Error::Corrupt { path: "the export".into(), offset: self.offset, what: what.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;

    #[test]
    fn an_export_comes_back_with_ages_and_a_harmed_one_is_refused() {
        let temp = tempfile::tempdir().unwrap();
        let open = |name: &str| Cache::open(&temp.path().join(name), Options::new(4 << 20)).unwrap();
        let from = open("from");
        for i in 0..3_000u32 {
            let options = PutOptions { created_ms: Some(u64::from(i)), ..Default::default() };
            from.put_with(&i.to_le_bytes(), &vec![7; i as usize % 300], options).unwrap();
        }
        let mut bytes = Vec::new();
        assert_eq!(from.export(&mut bytes).unwrap(), 3_000);
        let to = open("to");
        assert_eq!(to.import(&mut &bytes[..]).unwrap(), Imported { stored: 3_000, too_large: 0 });
        let found = to.get(&2_999u32.to_le_bytes()).unwrap();
        assert_eq!((found.created_ms, found.value.len()), (2_999, 299));
        for cut in [0, 5, 12, 20, bytes.len() / 2, bytes.len() - 1] {
            assert!(to.import(&mut &bytes[..cut]).is_err(), "cut to {cut}");
        }
        let at = bytes.len() / 2;
        bytes[at] ^= 1;
        assert!(to.import(&mut &bytes[..]).is_err());
        bytes[8] = 2;
        assert!(matches!(to.import(&mut &bytes[..]), Err(Error::Corrupt { .. })));
    }
}
