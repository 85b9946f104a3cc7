//! Look-ups. They take no lock.

use crate::{
    api::cache::Cache,
    format::{
        place::Place,
        record::{RECORD_HEADER_BYTES, check_record},
    },
    log::scratch::{Scratch, with_scratch},
    log::{segment::Segment, store::Store},
    sync::yield_now,
};
use std::sync::Arc;

/// A get that meets a record that is being moved looks again at most this often.
const ATTEMPTS: usize = 8;

/// A value that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The value.
    pub value: Vec<u8>,
    /// When it was created, in milliseconds since 1970.
    pub created_ms: u64,
}

/// What came of a get that has room for so much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Get<T> {
    /// What was made of the value.
    Found(T),
    /// The value is of this length, in bytes, which is more.
    Larger(usize),
    /// The key has no value.
    None,
}
impl Cache {
    /// The value of a key.
    pub fn get(&self, key: &[u8]) -> Option<Found> {
        let mut value = Vec::new();
        let created_ms = self.get_into(key, &mut value)?;
        Some(Found { value, created_ms })
    }

    /// The value of a key, put into `value`, which is cleared first; returns when it was created, in milliseconds since
    /// 1970. Never waits for a writer, nor for the disk beyond reading the record's pages.
    pub fn get_into(&self, key: &[u8], value: &mut Vec<u8>) -> Option<u64> {
        value.clear();
        self.get_with(key, |found, created_ms| {
            value.extend_from_slice(found);
            created_ms
        })
    }

    /// Shows the value of a key where it lies, and its creation in milliseconds since 1970. Returns the result of
    /// `take`, which must not use this cache. Waits for nothing that [`Cache::get_into`] does not wait for.
    pub fn get_with<T>(&self, key: &[u8], take: impl FnOnce(&[u8], u64) -> T) -> Option<T> {
        match self.get_up_to(key, usize::MAX, take) {
            Get::Found(taken) => Some(taken),
            Get::None | Get::Larger(_) => None,
        }
    }

    /// The same for values of up to `most_bytes`. Of a larger one only the length is given, which is neither checked
    /// nor counted as a get. Its caller must provide room for the value, and asks again.
    pub fn get_up_to<T>(&self, key: &[u8], most_bytes: usize, take: impl FnOnce(&[u8], u64) -> T) -> Get<T> {
        let (counters, ghosts) = (&self.store.view.counters, &self.reclaim.ghosts);
        let hash = self.sealer.hash(key);
        let (got, counter) = match with_scratch(|scratch| self.look_up(hash, key, most_bytes, scratch, take)) {
            Lookup::Larger(len) => return Get::Larger(len),
            Lookup::Found(taken) => (Get::Found(taken), &counters.hits),
            Lookup::Expired => {
                counters.expired.add(1);
                (Get::None, &counters.misses)
            }
            Lookup::None => (Get::None, &counters.misses),
        };
        counter.add(1);
        if ghosts.wants(hash) {
            ghosts.on_get(hash, counters);
        }
        got
    }

    fn look_up<T>(
        &self,
        hash: u64,
        key: &[u8],
        most_bytes: usize,
        scratch: &mut Scratch,
        take: impl FnOnce(&[u8], u64) -> T,
    ) -> Lookup<T> {
        let Store { view, ages, .. } = &*self.store;
        let mut failed = None;
        for _ in 0..ATTEMPTS {
            let Some(hit) = view.index.find(hash) else { return Lookup::None };
            let place = hit.place;
            if failed.is_some_and(|failed: Place| failed.is_same(place)) {
                self.discard(hash, place);
                return Lookup::None;
            }
            let slot = view.slots[usize::from(place.slot())].load();
            if place.len() > most_bytes
                && let Some(len) = slot.as_ref().and_then(|segment| value_len(segment, place, scratch))
                && len > most_bytes
            {
                return Lookup::Larger(len);
            }
            match slot.as_ref().map_or(Read::Gone, |segment| self.read(segment, place, key, scratch)) {
                Read::Value(_, created_ms) if ages.is_expired(created_ms) => return Lookup::Expired,
                Read::Value(value, created_ms) => {
                    hit.touch();
                    return Lookup::Found(take(value, created_ms));
                }
                Read::OtherKey => return Lookup::None,
                // Its segment may be gone since the index was asked.
                Read::Harmed => failed = Some(place),
                Read::Gone => yield_now(),
            }
        }
        Lookup::None
    }

    fn read<'a>(&self, segment: &'a Segment, place: Place, key: &[u8], scratch: &'a mut Scratch) -> Read<'a> {
        let sealer = &self.sealer;
        let Some(bytes) = segment.record(place, &mut scratch.record) else { return Read::Gone };
        let Some(header) = check_record(bytes, segment.seq, place.offset() as u64) else { return Read::Harmed };
        let (key_len, value_len) = (header.key_len as usize, header.value_len as usize);
        if key_len != key.len() {
            return Read::OtherKey;
        }
        let (bytes, key_at, value_at) = if sealer.is_encrypted() {
            scratch.opened.clear();
            scratch.opened.extend_from_slice(bytes);
            let Some((key_at, value_at)) = sealer.open(&header, &mut scratch.opened) else { return Read::Harmed };
            (scratch.opened.as_slice(), key_at, value_at)
        } else if header.encrypted {
            return Read::Harmed;
        } else {
            (bytes, RECORD_HEADER_BYTES, RECORD_HEADER_BYTES + key_len)
        };
        if bytes[key_at..value_at] != *key {
            return Read::OtherKey;
        }
        Read::Value(&bytes[value_at..value_at + value_len], header.created_ms)
    }

    /// Forgets a record that failed its checks twice, and says so in the log. An older value must not take its place.
    fn discard(&self, hash: u64, place: Place) {
        self.store.view.counters.corrupt.add(1);
        let mut log = self.store.log();
        if self.check_writable().is_ok() {
            log.drop_entry(&self.store.view, hash, place, true);
        }
    }

    /// Whether a get would find a value, without reading it; a record that is harmed counts as there.
    pub fn contains(&self, key: &[u8]) -> bool {
        let Store { view, ages, .. } = &*self.store;
        let Some(place) = view.index.get(self.sealer.hash(key)) else { return false };
        ages.max_ms().is_none() || {
            let slot = view.slots[usize::from(place.slot())].load();
            let head =
                |segment: &Arc<Segment>| with_scratch(|scratch| segment.record_header(place, &mut scratch.record));
            // Where it was moved meanwhile it was young enough for that.
            slot.as_ref().and_then(head).is_none_or(|header| !ages.is_expired(header.created_ms))
        }
    }

    /// When the value of a key was created, in milliseconds since 1970. Not counted as a get.
    pub(crate) fn created_ms(&self, key: &[u8]) -> Option<u64> {
        let hash = self.sealer.hash(key);
        match with_scratch(|scratch| self.look_up(hash, key, usize::MAX, scratch, |_, created_ms| created_ms)) {
            Lookup::Found(created_ms) => Some(created_ms),
            Lookup::Larger(_) | Lookup::Expired | Lookup::None => None,
        }
    }
}

/// What the header of a record says of its value's length, unchecked.
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
    Harmed,
    Gone,
}
