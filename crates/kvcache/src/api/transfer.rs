//! Export and import: all entries as a stream of bytes, for a backup or for another machine, key or format version.
//!
//! ```text
//! "refdbkvX" u32 version | u32 label_len, label
//! { u64 created_ms, u32 key_len, u32 value_len, key, value, u32 CRC } ... | { u64::MAX, u32 0, u32 0 }
//! u64 entries | u32 CRC
//! ```
//!
//! Each CRC is the CRC32C of all bytes before it that are not a CRC themselves. Version 2, which is still imported, has
//! only the last one.

use crate::{
    api::{
        cache::Cache,
        entries::Verified,
        options::Durability,
        put::{Put, PutOptions},
        versions::label,
    },
    error::{Error, Result},
};
use std::io::{self, Read, Write};

const MAGIC: [u8; 8] = *b"refdbkvX";
const VERSION: u32 = 3;
const VERSION_WITH_ONE_CRC: u32 = 2;
const HEADER_BYTES: usize = 16;
/// More bytes than the label of any cache has: the name of a folder, and a version.
const LABEL_MAX_BYTES: u32 = 1024;

/// Result of an import.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// Number of entries that were stored.
    pub stored: u64,
    /// Number of entries that were left out because their key has a value which is as new or newer, or because the key,
    /// or one that shares its counter (see [`Ticket`](crate::Ticket)), changed meanwhile.
    pub kept: u64,
    /// Number of entries that are larger than the cache takes. An older value of such a key was removed, because it
    /// must not be served in place of the one that is left out.
    pub too_large: u64,
}

impl Cache {
    /// Writes every entry, decrypted and with the time of its creation, except for those whose record is damaged or
    /// cannot be read, and returns the numbers of both. Other threads may use the cache meanwhile; an entry
    /// that changes is exported with its old or its new value, or not at all if it is removed or evicted; in rare
    /// cases, one that is removed and put again is exported with both. Entries that another process moves are found as
    /// by [`Cache::for_each`].
    ///
    /// # Errors
    ///
    /// The errors of `to`.
    pub fn export(&self, to: &mut dyn Write) -> io::Result<Verified> {
        let mut to = Summed { inner: to, crc: 0 };
        to.write_all(&MAGIC)?;
        to.write_all(&VERSION.to_le_bytes())?;
        let label = label(&self.store.files.dir);
        to.write_all(&(label.len() as u32).to_le_bytes())?;
        to.write_all(label.as_bytes())?;
        let walked = self.for_each(|key, value, info| {
            // The largest number marks the end.
            to.write_all(&header(info.created_ms.min(u64::MAX - 1), key.len() as u32, value.len() as u32))?;
            to.write_all(key)?;
            to.write_all(value)?;
            to.write_crc()
        })?;
        to.write_all(&header(u64::MAX, 0, 0))?;
        to.write_all(&walked.good.to_le_bytes())?;
        to.write_crc()?;
        to.inner.flush()?;
        Ok(walked)
    }

    /// Puts the entries of an export with the times of their creation, except for those that [`Imported`] counts as
    /// kept or too large. Other threads may use the cache meanwhile. The call returns when everything has been written,
    /// but not synced.
    ///
    /// # Errors
    ///
    /// [`Error::OtherCache`] if the folders say that the export is of a cache with another name or version;
    /// [`Error::Corrupt`] if the stream cannot be read, is cut short or damaged, or is no export of this format
    /// version or of version 2; and those of [`Cache::put_with`]. What was stored before the error stays. No damaged
    /// entry is stored, unless the export has version 2, whose only checksum is at its end.
    pub fn import(&self, from: &mut dyn Read) -> Result<Imported> {
        let mut from = Counted { inner: from, crc: 0, offset: 0 };
        let (magic, version) = (from.array::<8>()?, u32::from_le_bytes(from.array()?));
        if magic != MAGIC || !matches!(version, VERSION | VERSION_WITH_ONE_CRC) {
            return Err(from.corrupt("not an export of this version"));
        }
        let check = |from: &mut Counted<'_>| if version == VERSION { from.check_crc() } else { Ok(()) };
        self.check_label(&mut from)?;
        // Otherwise an older value of the export could replace a newer one that has not been loaded into the index yet.
        self.reclaim.finish_loading();
        let (mut imported, mut seen) = (Imported::default(), 0u64);
        let (mut key, mut value) = (Vec::new(), Vec::new());
        loop {
            let created_ms = u64::from_le_bytes(from.array()?);
            let (key_len, value_len) = (u32::from_le_bytes(from.array()?), u32::from_le_bytes(from.array()?));
            if created_ms == u64::MAX {
                break;
            }
            seen += 1;
            let len = u64::from(key_len) + u64::from(value_len);
            let max = self.store.space.largest_entry() as u64;
            if u64::from(key_len) > max {
                // The cache has no such key.
                from.skip(len, &mut value)?;
                check(&mut from)?;
                imported.too_large += 1;
                continue;
            }
            from.bytes(key_len, &mut key)?;
            if len > max {
                from.skip(value_len.into(), &mut value)?;
                check(&mut from)?;
                imported.too_large += 1;
                self.remove_older(&key, created_ms)?;
                continue;
            }
            from.bytes(value_len, &mut value)?;
            check(&mut from)?;
            self.import_entry(&key, &value, created_ms, &mut imported)?;
        }
        let entries = u64::from_le_bytes(from.array()?);
        from.check_crc()?;
        if entries != seen {
            return Err(from.corrupt("the export is damaged: it has another number of entries than it says"));
        }
        self.flush(Durability::Written)?;
        Ok(imported)
    }

    fn check_label(&self, from: &mut Counted<'_>) -> Result<()> {
        let len = u32::from_le_bytes(from.array()?);
        if len > LABEL_MAX_BYTES {
            return Err(from.corrupt("the label of the cache is longer than any is"));
        }
        let (mut theirs, ours) = (Vec::new(), label(&self.store.files.dir));
        from.bytes(len, &mut theirs)?;
        if theirs == ours.as_bytes() || theirs.is_empty() || ours.is_empty() {
            return Ok(());
        }
        Err(Error::OtherCache { theirs: String::from_utf8_lossy(&theirs).into_owned(), ours })
    }

    /// Removes the value of a key if it was created before this time.
    fn remove_older(&self, key: &[u8], created_ms: u64) -> Result<()> {
        let ticket = self.ticket(key);
        if self.created_ms(key).is_some_and(|present| present < created_ms) {
            self.remove_if_valid(key, Some(ticket), Durability::Buffered)?;
        }
        Ok(())
    }

    fn import_entry(&self, key: &[u8], value: &[u8], created_ms: u64, imported: &mut Imported) -> Result<()> {
        // From here on, a removal of the key or a put without a ticket makes this ticket void.
        let ticket = Some(self.ticket(key));
        if self.created_ms(key).is_some_and(|present| present >= created_ms) {
            imported.kept += 1;
            return Ok(());
        }
        let options = PutOptions::new().created_ms(created_ms).durability(Durability::Written).ticket(ticket);
        match self.put_in_bulk(key, value, options) {
            Ok(Put::Stored) => imported.stored += 1,
            Ok(Put::Refused | Put::Stale) => imported.kept += 1,
            Err(error) => return Err(error),
        }
        Ok(())
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

    /// Writes the checksum of all bytes before, which does not count itself.
    fn write_crc(&mut self) -> io::Result<()> {
        self.inner.write_all(&self.crc.to_le_bytes())
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

    /// Reads and checks the checksum of all bytes before.
    fn check_crc(&mut self) -> Result<()> {
        let crc = self.crc;
        let read = self.array()?;
        self.crc = crc;
        if u32::from_le_bytes(read) == crc { Ok(()) } else { Err(self.corrupt("the checksum is wrong")) }
    }

    /// Reads `len` bytes; memory grows with the bytes that arrive, not with what `len` promises.
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

    /// Skips `len` bytes by reading them piece by piece into `part`.
    fn skip(&mut self, len: u64, part: &mut Vec<u8>) -> Result<()> {
        const PART_BYTES: u32 = 64 << 10;
        let mut left = len;
        while left > 0 {
            let next = u32::try_from(left).map_or(PART_BYTES, |left| left.min(PART_BYTES));
            self.bytes(next, part)?;
            left -= u64::from(next);
        }
        Ok(())
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
    fn an_export_comes_back_with_ages_and_a_damaged_one_is_refused() {
        let temp = tempfile::tempdir().unwrap();
        let open = |name: &str| Cache::open(temp.path().join(name), Options::new(4 << 20)).unwrap();
        let from = open("from");
        for i in 0..3_000u32 {
            let options = PutOptions::new().created_ms(u64::from(i));
            from.put_with(&i.to_le_bytes(), &vec![7; i as usize % 300], options).unwrap();
        }
        let mut bytes = Vec::new();
        assert_eq!(from.export(&mut bytes).unwrap().good, 3_000);
        let to = open("to");
        assert_eq!(to.import(&mut &bytes[..]).unwrap(), Imported { stored: 3_000, ..Imported::default() });
        let found = to.get(&2_999u32.to_le_bytes()).unwrap();
        assert_eq!((found.created_ms, found.value.len()), (2_999, 299));
        for cut in [0, 5, 12, 20, bytes.len() / 2, bytes.len() - 1] {
            assert!(to.import(&mut &bytes[..cut]).is_err(), "cut to {cut}");
        }
        // Regression: what was damaged was stored before the checksum at the end was read.
        let at = bytes.len() / 2;
        for bit in (0..400 * 8).step_by(97) {
            bytes[at + bit / 8] ^= 1 << (bit % 8);
            to.clear().unwrap();
            assert!(to.import(&mut &bytes[..]).is_err());
            bytes[at + bit / 8] ^= 1 << (bit % 8);
            to.for_each(|key, value, info| {
                let i = u32::from_le_bytes(key.try_into().unwrap());
                let is_right = info.created_ms == u64::from(i) && value == vec![7; i as usize % 300];
                if is_right { Ok(()) } else { Err(i) }
            })
            .unwrap();
        }
        bytes[8] = 9;
        assert!(matches!(to.import(&mut &bytes[..]), Err(Error::Corrupt { .. })));
    }

    #[test]
    fn an_export_of_the_version_before_is_imported() {
        let temp = tempfile::tempdir().unwrap();
        let mut bytes = [&MAGIC[..], &VERSION_WITH_ONE_CRC.to_le_bytes(), &0u32.to_le_bytes()].concat();
        for i in 0..3u32 {
            bytes.extend([&header(7, 4, 5)[..], &i.to_le_bytes(), b"value"].concat());
        }
        bytes.extend([&header(u64::MAX, 0, 0)[..], &3u64.to_le_bytes()].concat());
        bytes.extend(crc32c::crc32c(&bytes).to_le_bytes());
        let to = Cache::open(temp.path().join("to"), Options::new(1 << 20)).unwrap();
        assert_eq!(to.import(&mut &bytes[..]).unwrap(), Imported { stored: 3, ..Imported::default() });
        assert_eq!(to.get(&2u32.to_le_bytes()).unwrap().value, b"value"[..]);
        *bytes.last_mut().unwrap() ^= 1;
        assert!(matches!(to.import(&mut &bytes[..]), Err(Error::Corrupt { .. })));
    }

    /// A reader of these bytes and then of zeros without end, with the most bytes that were requested at once.
    struct Zeros<'a>(&'a [u8], usize);

    impl Read for Zeros<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            self.1 = self.1.max(into.len());
            if self.0.is_empty() {
                into.fill(0);
                return Ok(into.len());
            }
            self.0.read(into)
        }
    }

    /// Regression: the whole entry was collected in memory, so that an entry of 4 GiB ended a server.
    #[test]
    fn an_entry_that_is_too_large_is_read_past_in_small_parts() {
        let temp = tempfile::tempdir().unwrap();
        let cache = Cache::open(temp.path().join("to"), Options::new(1 << 20)).unwrap();
        let mut bytes = Vec::new();
        cache.export(&mut bytes).unwrap();
        bytes.truncate(bytes.len() - HEADER_BYTES - 12);
        bytes.extend_from_slice(&header(1, 3, 100 << 20));
        let mut from = Zeros(&bytes, 0);
        // The entry is followed by a wrong checksum.
        let mut short = (&mut from).take(bytes.len() as u64 + (101 << 20));
        assert!(matches!(cache.import(&mut short), Err(Error::Corrupt { .. })));
        assert!(from.1 <= 1 << 20, "{} bytes were asked for at once", from.1);
        assert_eq!(cache.stats().live_bytes, 0, "nothing is stored");
    }

    #[test]
    fn a_label_that_is_longer_than_any_is_not_read() {
        let temp = tempfile::tempdir().unwrap();
        let cache = Cache::open(temp.path().join("to"), Options::new(1 << 20)).unwrap();
        let bytes = [&MAGIC[..], &VERSION.to_le_bytes(), &(64u32 << 20).to_le_bytes()].concat();
        let mut from = Zeros(&bytes, 0);
        assert!(matches!(cache.import(&mut (&mut from).take(65 << 20)), Err(Error::Corrupt { .. })));
        assert!(from.1 <= 1 << 20, "{} bytes were asked for at once", from.1);
    }

    #[test]
    fn an_older_value_goes_where_the_imported_one_is_too_large() {
        let temp = tempfile::tempdir().unwrap();
        let open = |name: &str, limit| Cache::open(temp.path().join(name), Options::new(limit)).unwrap();
        let (from, to) = (open("from", 64 << 20), open("to", 1 << 20));
        let put = |cache: &Cache, key: &[u8], len: usize, created| {
            cache.put_with(key, &vec![1; len], PutOptions::new().created_ms(created)).unwrap();
        };
        for key in [b"older", b"equal", b"newer"] {
            put(&from, key, 1 << 20, 50);
        }
        put(&to, b"older", 1, 49);
        put(&to, b"equal", 1, 50);
        put(&to, b"newer", 1, 51);
        let mut bytes = Vec::new();
        from.export(&mut bytes).unwrap();
        assert_eq!(to.import(&mut &bytes[..]).unwrap(), Imported { too_large: 3, ..Imported::default() });
        let has = |key: &[u8]| to.get(key).is_some();
        assert_eq!([has(b"older"), has(b"equal"), has(b"newer")], [false, true, true]);
    }

    #[test]
    fn an_import_keeps_what_is_newer_and_does_not_count_as_use() {
        let temp = tempfile::tempdir().unwrap();
        let open = |name: &str| Cache::open(temp.path().join(name), Options::new(4 << 20)).unwrap();
        let (from, to) = (open("from"), open("to"));
        let put = |cache: &Cache, key: &[u8], value: &[u8], created| {
            cache.put_with(key, value, PutOptions::new().created_ms(created)).unwrap();
        };
        for key in [b"newer", b"older", b"equal", b"there"] {
            put(&from, key, b"imported", 50);
        }
        put(&to, b"newer", b"present", 51);
        put(&to, b"older", b"present", 49);
        put(&to, b"equal", b"present", 50);
        let mut bytes = Vec::new();
        from.export(&mut bytes).unwrap();
        assert_eq!(to.import(&mut &bytes[..]).unwrap(), Imported { stored: 2, kept: 2, too_large: 0 });
        assert_eq!((to.stats().hits, to.stats().misses), (0, 0));
        to.for_each(|_, _, info| if info.uses == 0 { Ok(()) } else { Err(info.uses) }).unwrap();
        let value = |key: &[u8]| to.get(key).unwrap().value;
        assert_eq!([value(b"newer"), value(b"equal")], [b"present", b"present"]);
        assert_eq!([value(b"older"), value(b"there")], [b"imported", b"imported"]);
    }

    #[test]
    fn an_export_of_another_cache_or_version_is_refused() {
        let temp = tempfile::tempdir().unwrap();
        let open =
            |name, version| Cache::open(crate::version_dir(temp.path(), name, version), Options::new(4 << 20)).unwrap();
        let from = open("accounts", 2);
        from.put(b"k", b"v").unwrap();
        let mut bytes = Vec::new();
        from.export(&mut bytes).unwrap();
        for (name, version) in [("accounts", 3), ("projects", 2)] {
            let error = open(name, version).import(&mut &bytes[..]).unwrap_err();
            assert!(error.to_string().contains("an export of 'accounts/v2'"), "{error}");
        }
        let elsewhere = Cache::open(temp.path().join("scratch"), Options::new(4 << 20)).unwrap();
        assert_eq!(elsewhere.import(&mut &bytes[..]).unwrap().stored, 1);
    }
}
