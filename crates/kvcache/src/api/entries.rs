//! Walking over all entries: export, verify.

use crate::{
    api::cache::Cache,
    error::Result,
    format::{place::Place, record::check_record},
    log::scratch::Lent,
};

/// An entry without its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryInfo {
    /// When it was created, in milliseconds since 1970.
    pub created_ms: u64,
    /// How often it was read since it was last copied, 0 to 3.
    pub uses: u8,
    /// Bytes it takes on disk.
    pub disk_bytes: u64,
}

/// What a walk over all records found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Records whose checksum is right and that can be decrypted.
    pub good: u64,
    /// Records that are harmed; they would be misses.
    pub bad: u64,
}

impl Cache {
    /// Shows every entry: its key, its value and its other fields. Entries that change meanwhile are shown old or new
    /// or not at all. Stops at the first error that `entry` returns.
    pub fn for_each<E>(&self, mut entry: impl FnMut(&[u8], &[u8], &EntryInfo) -> Result<(), E>) -> Result<Verified, E> {
        let (mut scratch, mut verified) = (Lent::default(), Verified::default());
        for (place, hash) in self.places() {
            match self.open_record(place, &mut scratch) {
                Some((mut record, key_at, value_at, value_end, info)) => {
                    verified.good += 1;
                    entry(&record[key_at..value_at], &record[value_at..value_end], &info)?;
                    record.clear();
                }
                None => verified.bad += u64::from(self.is_harmed(place, hash)),
            }
        }
        Ok(verified)
    }

    fn open_record(&self, place: Place, scratch: &mut Lent) -> Option<(Vec<u8>, usize, usize, usize, EntryInfo)> {
        let segment = self.store.view.at(place.slot())?;
        let bytes = segment.record(place, scratch)?;
        let header = check_record(bytes, segment.seq, place.offset() as u64)?;
        let mut record = bytes.to_vec();
        let (key_at, value_at) = self.sealer.open(&header, &mut record)?;
        let value_end = value_at + header.value_len as usize;
        let disk_bytes = crate::log::space::record_cost(place.len());
        let info = EntryInfo { created_ms: header.created_ms, uses: place.uses(), disk_bytes };
        Some((record, key_at, value_at, value_end, info))
    }

    /// Reads every record and checks that it is whole and unharmed; an encrypted one is not opened.
    pub fn verify(&self) -> Verified {
        let (mut scratch, mut verified) = (Lent::default(), Verified::default());
        for (place, hash) in self.places() {
            if self.is_whole(place, &mut scratch) {
                verified.good += 1;
            } else if self.is_harmed(place, hash) {
                verified.bad += 1;
            }
        }
        verified
    }

    fn is_whole(&self, place: Place, scratch: &mut Lent) -> bool {
        let segment = self.store.view.at(place.slot());
        let record = segment.as_ref().and_then(|segment| Some((segment.seq, segment.record(place, scratch)?)));
        record.is_some_and(|(seq, bytes)| check_record(bytes, seq, place.offset() as u64).is_some())
    }

    /// Whether a record that cannot be read is harmed, and not just moved or removed since the walk began. The process
    /// that writes may have moved it.
    fn is_harmed(&self, place: Place, hash: u64) -> bool {
        let is_there = self.store.view.index.get(hash).is_some_and(|now| now.is_same(place));
        let segment = self.store.view.at(place.slot());
        is_there && !(self.read_only && segment.is_none_or(|segment| segment.is_gone(&self.store.files.fs)))
    }

    /// Where all entries are, in the order of the files, so that these are read once from start to end.
    fn places(&self) -> Vec<(Place, u64)> {
        let mut places = Vec::new();
        self.store.view.index.for_each(|hash, place| places.push((place, hash)));
        places.sort_by_key(|(place, _)| (place.slot(), place.offset()));
        places
    }

    /// Frees the dead space in all segments, waiting for the disk. Returns how many bytes the files lost.
    pub fn compact(&self) -> Result<u64> {
        self.check_writable()?;
        let before = self.store.log().disk_bytes();
        self.reclaim.compact_all()?;
        Ok(before.saturating_sub(self.store.log().disk_bytes()))
    }
}
