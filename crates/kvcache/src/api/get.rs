//! Look-ups, which take the log's lock only to drop a damaged record.

use crate::{
    api::cache::Cache,
    format::{
        place::Place,
        record::{RECORD_HEADER_BYTES, check_record},
    },
    log::{
        index::known,
        scratch::{Scratch, with_scratch},
        segment::Segment,
        store::Store,
    },
    sync::yield_now,
};
use std::sync::Arc;

/// Maximum number of attempts to read a record that keeps being moved or replaced, or whose file cannot be read. After
/// that, the get is a miss.
const ATTEMPTS: usize = 8;

/// A value that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The value.
    pub value: Vec<u8>,
    /// When it was created, in milliseconds since 1970.
    pub created_ms: u64,
}

/// Result of [`Cache::get_up_to`].
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Get<T> {
    /// What the caller made of the value.
    Found(T),
    /// The value has this length in bytes, which is more than the caller's buffer holds.
    Larger(usize),
    /// [`Cache::get_with`] would return `None`.
    None,
}
impl Cache {
    /// Returns a copy of the value of a key, or `None` as [`Cache::get_with`] does.
    pub fn get(&self, key: &[u8]) -> Option<Found> {
        self.get_with(key, |value, created_ms| Found { value: value.to_vec(), created_ms })
    }

    /// Calls `take` with the value of a key, without copying it, and with the time of its creation in milliseconds
    /// since 1970. Returns what `take` returns, or `None` if the key has no value, if the value has not been loaded yet
    /// (see [`Cache::open`]) or has expired, if its record is damaged or cannot be read, or if the record was moved or
    /// replaced during each of 8 attempts to read it.
    ///
    /// A get waits for another thread only to drop a damaged record or, if the files are not mapped, to look for a file
    /// among the open ones, and never while that thread uses the disk. It may wait for the disk until the pages of the
    /// record are in memory. The files of a cache on a local file system are mapped if possible, unless it was opened
    /// read-only, and the kernel ends a process (`SIGBUS`) for which the disk cannot read a page of a mapped file.
    pub fn get_with<T>(&self, key: &[u8], take: impl FnOnce(&[u8], u64) -> T) -> Option<T> {
        match self.get_up_to(key, usize::MAX, take) {
            Get::Found(taken) => Some(taken),
            Get::None | Get::Larger(_) => None,
        }
    }

    /// Calls `take` like [`Cache::get_with`], but only if the value has at most `most_bytes`, the size of the caller's
    /// buffer. For a longer value, returns only its length, which is not verified, and does not count the call as a
    /// get; the caller can then try again with a larger buffer.
    #[doc(hidden)]
    pub fn get_up_to<T>(&self, key: &[u8], most_bytes: usize, take: impl FnOnce(&[u8], u64) -> T) -> Get<T> {
        let (counters, simulations) = (&self.store.view.counters, &self.reclaim.simulations);
        let hash = self.sealer.hash(key);
        let (got, counter) = match with_scratch(|scratch| self.look_up(hash, key, most_bytes, true, scratch, take)) {
            Lookup::Larger(len) => return Get::Larger(len),
            Lookup::Found(taken) => (Get::Found(taken), &counters.hits),
            Lookup::Expired => {
                counters.expired.add(1);
                (Get::None, &counters.misses)
            }
            Lookup::None => (Get::None, &counters.misses),
        };
        counter.add(1);
        if simulations.samples(hash) {
            simulations.on_get(hash, counters);
        }
        got
    }

    fn look_up<T>(
        &self,
        hash: u64,
        key: &[u8],
        most_bytes: usize,
        is_use: bool,
        scratch: &mut Scratch,
        take: impl FnOnce(&[u8], u64) -> T,
    ) -> Lookup<T> {
        let Store { view, ages, .. } = &*self.store;
        let mut failed: Option<(Place, u64)> = None;
        for _ in 0..ATTEMPTS {
            let Some(hit) = view.index.find(hash) else { return Lookup::None };
            let place = hit.place;
            let slot = view.slots[usize::from(place.slot())].load();
            if place.len() > most_bytes
                && let Some(len) = slot.as_ref().and_then(|segment| value_len(segment, place, scratch))
                && len > most_bytes
            {
                return Lookup::Larger(len);
            }
            let Some(segment) = slot.as_ref() else {
                yield_now();
                continue;
            };
            match self.read(segment, place, hash, key, scratch) {
                Read::Value(_, created_ms) if ages.is_expired(created_ms) => return Lookup::Expired,
                // The header could not be read before.
                Read::Value(value, _) if value.len() > most_bytes => return Lookup::Larger(value.len()),
                Read::Value(value, created_ms) => {
                    if is_use {
                        hit.touch();
                    }
                    return Lookup::Found(take(value, created_ms));
                }
                Read::OtherKey => return Lookup::None,
                // The segment may have been deleted since the index was read, and another one, in which the record is
                // not written yet, may have its slot. So the record counts as damaged only if it fails again when the
                // index, which is asked after that segment was found, names its place.
                Read::Damaged if failed.is_some_and(|(at, seq)| at.is_same(place) && seq == segment.seq) => {
                    self.discard(hash, place, segment.seq);
                    return Lookup::None;
                }
                Read::Damaged => failed = Some((place, segment.seq)),
                Read::Gone => yield_now(),
            }
        }
        Lookup::None
    }

    fn read<'a>(
        &self,
        segment: &'a Segment,
        place: Place,
        hash: u64,
        key: &[u8],
        scratch: &'a mut Scratch,
    ) -> Read<'a> {
        let sealer = &self.sealer;
        let Some(bytes) = segment.record(place, &mut scratch.record) else { return Read::Gone };
        let Some(header) = check_record(bytes, segment.seq, place.offset() as u64) else { return Read::Damaged };
        if known(header.hash) != known(hash) {
            // Since the index was read, the slot was given to another segment, which has a record at the same offset.
            return Read::Gone;
        }
        let (key_len, value_len) = (header.key_len as usize, header.value_len as usize);
        if key_len != key.len() {
            return Read::OtherKey;
        }
        let (bytes, key_at, value_at) = if sealer.is_encrypted() {
            scratch.opened.clear();
            scratch.opened.extend_from_slice(bytes);
            let Some((key_at, value_at)) = sealer.open(&header, &mut scratch.opened) else { return Read::Damaged };
            (scratch.opened.as_slice(), key_at, value_at)
        } else if header.encrypted {
            return Read::Damaged;
        } else {
            (bytes, RECORD_HEADER_BYTES, RECORD_HEADER_BYTES + key_len)
        };
        if bytes[key_at..value_at] != *key {
            return Read::OtherKey;
        }
        Read::Value(&bytes[value_at..value_at + value_len], header.created_ms)
    }

    /// Drops a record that failed its checks twice in the segment with number `seq` and to which the index still leads,
    /// and writes a tombstone so that no older value takes the record's place. A record that has the same place in a
    /// later segment stays. In a cache that is read-only or closed, the record is only counted as damaged.
    fn discard(&self, hash: u64, place: Place, seq: u64) {
        let view = &self.store.view;
        view.counters.corrupt.add(1);
        let mut log = self.store.log();
        let is_there = view.slots[usize::from(place.slot())].load().as_ref().is_some_and(|segment| segment.seq == seq);
        if is_there && self.check_writable().is_ok() {
            log.drop_entry(view, hash, place, true);
        }
    }

    /// Returns whether a key has a value that has not expired, without reading the value. A record may count as present
    /// also if it is damaged, cannot be read, is being moved, or belongs to another key with the same hash.
    pub fn contains(&self, key: &[u8]) -> bool {
        let Store { view, ages, .. } = &*self.store;
        let hash = self.sealer.hash(key);
        let Some(place) = view.index.get(hash) else { return false };
        ages.max_ms().is_none() || {
            let slot = view.slots[usize::from(place.slot())].load();
            let head =
                |segment: &Arc<Segment>| with_scratch(|scratch| segment.record_header(place, &mut scratch.record));
            // If the segment is gone, or another one has its slot, the record may have been moved since the index was
            // read, so it counts as present, as does one that cannot be read.
            slot.as_ref()
                .and_then(head)
                .is_none_or(|header| known(header.hash) != known(hash) || !ages.is_expired(header.created_ms))
        }
    }

    /// Returns when the value of a key was created, in milliseconds since 1970. Neither the statistics nor the use
    /// count of the entry count this as a get.
    pub(crate) fn created_ms(&self, key: &[u8]) -> Option<u64> {
        let hash = self.sealer.hash(key);
        match with_scratch(|scratch| self.look_up(hash, key, usize::MAX, false, scratch, |_, created_ms| created_ms)) {
            Lookup::Found(created_ms) => Some(created_ms),
            Lookup::Larger(_) | Lookup::Expired | Lookup::None => None,
        }
    }
}

/// The length of a value according to the header of its record, unverified.
fn value_len(segment: &Segment, place: Place, scratch: &mut Scratch) -> Option<usize> {
    segment.record_header(place, &mut scratch.record).map(|header| header.value_len as usize)
}

enum Lookup<T> {
    Found(T),
    Larger(usize),
    Expired,
    None,
}

enum Read<'a> {
    /// The value, and when it was created.
    Value(&'a [u8], u64),
    OtherKey,
    Damaged,
    /// The record was moved, replaced or dropped since the index was read, or its file cannot be read.
    Gone,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, Put};

    /// Previously, such a record was dropped if the damaged one had the same hash.
    #[test]
    fn a_record_in_a_later_segment_at_the_place_of_a_damaged_one_stays() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::open(dir.path(), Options::new(1 << 20)).unwrap();
        assert_eq!(cache.put(b"key", b"value").unwrap(), Put::Stored);
        let (view, hash) = (&cache.store.view, cache.sealer.hash(b"key"));
        let place = view.index.get(hash).unwrap();
        let seq = view.slots[usize::from(place.slot())].load().as_ref().unwrap().seq;
        cache.discard(hash, place, seq - 1);
        assert_eq!(cache.get(b"key").unwrap().value, b"value");
        cache.discard(hash, place, seq);
        assert_eq!(cache.get(b"key"), None);
    }
}
