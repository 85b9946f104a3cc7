//! Walks over all entries.

use crate::{
    api::cache::Cache,
    error::Result,
    format::{place::Place, record::check_record, seal::Sealer},
    log::{
        index::{SHARDS, known},
        recover::READ_AGAIN,
        scratch::RecordBuffer,
        view::View,
    },
};
use std::convert::Infallible;

/// Facts about an entry, without its key and value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryInfo {
    /// When the entry was created, in milliseconds since 1970.
    pub created_ms: u64,
    /// How often the key was read since it got a value, the cache was opened or an eviction last kept its entry,
    /// whichever came last, up to 3. A new value inherits the count of the value that it replaces.
    pub uses: u8,
    /// Bytes that the entry takes on disk.
    pub disk_bytes: u64,
}

/// Result of a walk over all records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Number of records with a correct checksum; [`Cache::for_each`] counts only those that it could also decrypt.
    pub good: u64,
    /// Number of records that are damaged or cannot be read or, in [`Cache::for_each`], decrypted; they are misses.
    /// Entries that another process has moved or removed are among them if the files cannot be opened again.
    pub bad: u64,
}

impl Cache {
    /// Calls `entry` with the key, the value and the facts of every intact entry, expired ones included: with a few of
    /// them first, then with the others file by file. An entry that changes during the walk is shown with its old or
    /// its new value, or not at all if it is removed or evicted; in rare cases, one that is removed and put again is
    /// shown with both. For entries that another process has moved since a cache was opened read-only, the files are
    /// opened again, up to four times; each time takes as long as the first one and as much memory. What is moved again
    /// each time before it can be read is left out.
    ///
    /// # Errors
    ///
    /// The first error that `entry` returns ends the walk. Damaged records are only counted.
    pub fn for_each<E>(&self, mut entry: impl FnMut(&[u8], &[u8], &EntryInfo) -> Result<(), E>) -> Result<Verified, E> {
        let mut scratch = RecordBuffer::default();
        self.walk(
            |view, place, hash| self.open_record(view, place, hash, &mut scratch),
            |(record, key_at, value_at, value_end, info)| {
                entry(&record[key_at..value_at], &record[value_at..value_end], &info)
            },
        )
    }

    /// Reads all entries by `read`, and passes them to `entry`. The files of a cache that was opened read-only are
    /// opened again, fewer than [`READ_AGAIN`] times, as long as entries were moved out of them.
    fn walk<T, E>(
        &self,
        mut read: impl FnMut(&View, Place, u64) -> Option<T>,
        mut entry: impl FnMut(T) -> Result<(), E>,
    ) -> Result<Verified, E> {
        self.reclaim.finish_loading();
        let (mut verified, mut gone) = (Verified::default(), Vec::new());
        // One shard comes first, because a walk that ends at its first entry shall not list all.
        for shards in [0..1, 1..SHARDS] {
            let mut places = Vec::new();
            for shard in shards {
                self.store.view.index.for_each_in(shard, |hash, place| places.push((place, hash)));
            }
            gone.extend(self.pass(places, &mut verified, &mut read, &mut entry)?);
        }
        for _ in 1..READ_AGAIN {
            if gone.is_empty() || !self.read_only {
                break;
            }
            let (fs, seed) = (self.store.files.fs.clone(), self.store.log().identity());
            let Ok(now) = Cache::read_only(fs, &self.store.files.dir, seed, Sealer::Plain { seed }) else {
                verified.bad += gone.len() as u64;
                break;
            };
            let places = gone.into_iter().filter_map(|hash| Some((now.store.view.index.get(hash)?, hash))).collect();
            gone = now.pass(places, &mut verified, &mut read, &mut entry)?;
        }
        Ok(verified)
    }

    /// Reads the entries at these places, file by file, so that each file is read once from start to end. Returns the
    /// hashes of those that are neither there nor damaged.
    fn pass<T, E>(
        &self,
        mut places: Vec<(Place, u64)>,
        verified: &mut Verified,
        read: &mut impl FnMut(&View, Place, u64) -> Option<T>,
        entry: &mut impl FnMut(T) -> Result<(), E>,
    ) -> Result<Vec<u64>, E> {
        places.sort_unstable_by_key(|(place, _)| (place.slot(), place.offset()));
        let mut gone = Vec::new();
        for (place, hash) in places {
            match self.follow(place, hash, |place| read(&self.store.view, place, hash)) {
                Ok(found) => {
                    verified.good += 1;
                    entry(found)?;
                }
                Err(last) if self.is_damaged(last, hash) => verified.bad += 1,
                Err(_) => gone.push(hash),
            }
        }
        Ok(gone)
    }

    fn open_record(
        &self,
        view: &View,
        place: Place,
        hash: u64,
        scratch: &mut RecordBuffer,
    ) -> Option<(Vec<u8>, usize, usize, usize, EntryInfo)> {
        let segment = view.at(place.slot())?;
        let bytes = segment.record(place, scratch)?;
        let header = check_record(bytes, segment.seq, place.offset() as u64);
        let header = header.filter(|header| known(header.hash) == hash)?;
        let mut record = bytes.to_vec();
        let (key_at, value_at) = self.sealer.open(&header, &mut record)?;
        let value_end = value_at + header.value_len as usize;
        let disk_bytes = crate::log::space::record_cost(place.len());
        let info = EntryInfo { created_ms: header.created_ms, uses: place.uses(), disk_bytes };
        Some((record, key_at, value_at, value_end, info))
    }

    /// Reads the record of each entry and verifies its checksum, without decrypting the record.
    pub fn verify(&self) -> Verified {
        let mut scratch = RecordBuffer::default();
        let read = |view: &View, place, hash| is_whole(view, place, hash, &mut scratch).then_some(());
        let Ok(verified) = self.walk::<_, Infallible>(read, |()| Ok(()));
        verified
    }

    /// Reads an entry at `place` or, if it was moved or replaced since the walk began, at its present place. If nothing
    /// can be read there either, returns the last place that was tried.
    fn follow<T>(
        &self,
        mut place: Place,
        hash: u64,
        mut read: impl FnMut(Place) -> Option<T>,
    ) -> std::result::Result<T, Place> {
        loop {
            if let Some(found) = read(place) {
                return Ok(found);
            }
            match self.store.view.index.get(hash) {
                Some(now) if !now.is_same(place) => place = now,
                _ => return Err(place),
            }
        }
    }

    /// Returns whether a record that cannot be read is damaged, and was not merely moved or removed since the walk
    /// began, by this process or by the one that writes.
    fn is_damaged(&self, place: Place, hash: u64) -> bool {
        let is_there = self.store.view.index.get(hash).is_some_and(|now| now.is_same(place));
        let segment = self.store.view.at(place.slot());
        is_there && !(self.read_only && segment.is_none_or(|segment| segment.is_gone(&self.store.files.fs)))
    }

    /// Frees the dead space of segments that have no live entry, or of which at least a tenth and 512 bytes are dead,
    /// as far as there is room for copies of their live entries, and returns by how many bytes the files became
    /// smaller. The call blocks while live entries are copied and synced.
    ///
    /// # Errors
    ///
    /// [`Error::ReadOnly`](crate::Error::ReadOnly) and [`Error::Closed`](crate::Error::Closed);
    /// [`Error::File`](crate::Error::File) if the disk fails.
    pub fn compact(&self) -> Result<u64> {
        self.check_writable()?;
        let before = self.store.log().disk_bytes();
        self.reclaim.compact_all()?;
        Ok(before.saturating_sub(self.store.log().disk_bytes()))
    }
}

/// Returns whether the record at a place has a correct checksum.
fn is_whole(view: &View, place: Place, hash: u64, scratch: &mut RecordBuffer) -> bool {
    let segment = view.at(place.slot());
    let record = segment.as_ref().and_then(|segment| Some((segment.seq, segment.record(place, scratch)?)));
    let header = record.and_then(|(seq, bytes)| check_record(bytes, seq, place.offset() as u64));
    header.is_some_and(|header| known(header.hash) == hash)
}
