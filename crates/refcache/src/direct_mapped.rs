//! A direct-mapped cache of refs that are looked up repeatedly, which saves the search in packed-refs or tables.

use crate::Found;
use bstr::{BStr, BString};
use refdb::files::{Charge, PageBudget};
use std::sync::{
    Arc, Mutex, OnceLock, PoisonError, TryLockError,
    atomic::{AtomicU32, Ordering::Relaxed},
};

/// A table in which the hash of a name chooses its only slot, which any other name of that slot may take over.
///
/// Each entry is valid for one state of one reader (a generation of packed-refs, a snapshot of tables). A look-up finds
/// an entry only if it asks for that state, so the reader has to ask for its present one.
pub(crate) struct DirectMappedCache {
    places: OnceLock<(Box<[Place]>, Charge)>,
    count: usize,
    budget: Arc<PageBudget>,
}

#[derive(Default)]
struct Place {
    /// The tag of the name that was last offered without being cached. A name replaces the entry only when it is
    /// offered twice in a row, so that names which are looked up once do not evict others.
    missed: AtomicU32,
    /// The tag of the name in `entry`, by which most misses are recognized without the lock.
    kept: AtomicU32,
    entry: Mutex<Entry>,
}

#[derive(Default)]
struct Entry {
    /// The number of the reader; 0 while the slot is empty.
    owner: u64,
    /// The number of the reader's state.
    state: u64,
    name: Name,
    found: Option<Found>,
}

/// The length in bytes up to which names are cached. Names are stored inline, so that a look-up need not follow a
/// pointer.
const NAME_LEN_MAX: usize = 71;
const _: () = assert!(NAME_LEN_MAX <= u8::MAX as usize, "a name's length has eight bits");

#[derive(Clone, Copy)]
struct Name {
    len: u8,
    bytes: [u8; NAME_LEN_MAX],
}

impl Default for Name {
    fn default() -> Self {
        Name { len: 0, bytes: [0; NAME_LEN_MAX] }
    }
}

impl Name {
    fn as_slice(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

const PLACES_MAX: usize = 2048;
const _: () = assert!(PLACES_MAX.is_power_of_two(), "a place is the low bits of a hash");

impl DirectMappedCache {
    /// Creates a cache that takes at most a hundredth of `memory_bytes`, or one slot if that is more. The memory is
    /// taken, and counted in `budget`, when a result is first offered whose name is short enough.
    pub(crate) fn new(memory_bytes: usize, budget: &Arc<PageBudget>) -> Self {
        let count = (memory_bytes / 100 / size_of::<Place>()).clamp(1, PLACES_MAX);
        // The largest power of two that is not larger.
        let count = 1 << count.ilog2();
        DirectMappedCache { places: OnceLock::new(), count, budget: Arc::clone(budget) }
    }

    /// The cached result of a look-up in a state of a reader; the outer `None` if there is none, or if another thread
    /// uses the slot.
    #[inline]
    pub(crate) fn get(&self, owner: u64, state: u64, name: &BStr) -> Option<Option<Found>> {
        let (places, _) = self.places.get()?;
        let (at, tag) = self.place(owner, name);
        let place = places.get(at).filter(|place| place.kept.load(Relaxed) == tag)?;
        // Another thread uses the slot: searching costs less than waiting.
        let entry = place.entry.try_lock().ok()?;
        let is_it = entry.owner == owner && entry.state == state && entry.name.as_slice() == name;
        is_it.then(|| entry.found.clone())
    }

    /// Offers the result of a look-up. The result is cached if [`Place::missed`] has the tag of the name, unless the
    /// name is too long or another thread uses the slot.
    pub(crate) fn put(&self, owner: u64, state: u64, name: &BStr, found: &Option<Found>) {
        debug_assert!(owner > 0, "0 owns the places that are empty");
        if name.len() > NAME_LEN_MAX {
            return;
        }
        let (places, _) = self.places.get_or_init(|| {
            let places: Box<[Place]> = std::iter::repeat_with(Place::default).take(self.count).collect();
            let charge = self.budget.charge(size_of_val(&*places));
            (places, charge)
        });
        let (at, tag) = self.place(owner, name);
        debug_assert!(at < places.len(), "each name has a place: {at}");
        let Some(place) = places.get(at) else { return };
        if place.missed.load(Relaxed) != tag {
            place.missed.store(tag, Relaxed);
            return;
        }
        let mut entry = match place.entry.try_lock() {
            Ok(entry) => entry,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        let Entry { name: kept, .. } = &mut *entry;
        kept.len = name.len() as u8;
        kept.bytes[..name.len()].copy_from_slice(name);
        (entry.owner, entry.state, entry.found) = (owner, state, found.clone());
        place.kept.store(tag, Relaxed);
    }

    /// The names that are cached for a reader, in any of its states.
    pub(crate) fn of(&self, owner: u64) -> Vec<BString> {
        let places = self.places.get().map_or(&[][..], |(places, _)| places);
        let entries = places.iter().map(|place| place.entry.lock().unwrap_or_else(PoisonError::into_inner));
        entries.filter(|entry| entry.owner == owner).map(|entry| entry.name.as_slice().into()).collect()
    }

    /// Returns the slot of a name, and a tag that most other names of that slot do not have. A client that chooses
    /// names with equal hashes can only make the reader search for names of that slot.
    #[inline]
    fn place(&self, owner: u64, name: &BStr) -> (usize, u32) {
        const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
        debug_assert!(self.count.is_power_of_two(), "a place is the low bits of the hash: {}", self.count);
        let mut hash = owner.wrapping_mul(ODD) ^ name.len() as u64;
        let (words, rest) = name.as_chunks::<8>();
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        for word in words.iter().chain([&last]) {
            hash = (hash ^ u64::from_le_bytes(*word)).wrapping_mul(ODD);
            hash ^= hash >> 32;
        }
        (hash as usize & (self.count - 1), (hash >> 32) as u32 | 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use refdb::Target;
    use refdb_types::{HashKind, ObjectId};

    fn found(byte: u8) -> Option<Found> {
        Some(Found::loose(Target::Direct(ObjectId::from_bytes(HashKind::Sha1, &[byte; 20]).unwrap())))
    }

    #[test]
    fn a_name_is_known_from_the_second_time_on_for_one_reader_and_one_state() {
        let budget = Arc::default();
        let hot = DirectMappedCache::new(56 << 20, &budget);
        let name = BStr::new("refs/changes/34/1234/meta");
        hot.put(1, 7, name, &found(1));
        assert_eq!(hot.get(1, 7, name), None);
        hot.put(1, 7, name, &found(1));
        assert_eq!(hot.get(1, 7, name), Some(found(1)));
        for (owner, state, name) in [(2, 7, name), (1, 8, name), (1, 7, BStr::new("refs/changes/34/1234/met"))] {
            assert_eq!(hot.get(owner, state, name), None);
        }
        // An entry for another state replaces the old one.
        hot.put(1, 8, name, &None);
        assert_eq!((hot.get(1, 8, name), hot.get(1, 7, name)), (Some(None), None));
        assert_eq!((hot.of(1), hot.of(2)), (vec![name.to_owned()], vec![]));
        assert!((1..=56 << 20).contains(&(budget.used_bytes() * 100)), "{}", budget.used_bytes());
        drop(hot);
        assert_eq!(budget.used_bytes(), 0);
    }

    #[test]
    fn names_that_meet_in_one_place_and_names_that_are_too_long_are_never_mixed_up() {
        let hot = DirectMappedCache::new(1, &Arc::default());
        let name = |at: usize| format!("refs/{}", "x".repeat(at));
        for at in 0..200 {
            let name = name(at);
            (0..2).for_each(|_| hot.put(1, 1, name.as_str().into(), &found(at as u8)));
            let fits = name.len() <= NAME_LEN_MAX;
            assert_eq!(hot.get(1, 1, name.as_str().into()), fits.then(|| found(at as u8)), "{at}");
        }
        assert_eq!(hot.get(1, 1, name(3).as_str().into()), None);
    }
}
