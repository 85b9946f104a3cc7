use crate::failure::Failure;
use arc_swap::{ArcSwapOption, Guard};
use jni::sys::jlong;
use std::{
    ops::Deref,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

/// The open objects of one kind, to which Java refers by handles.
///
/// A handle consists of an index into a table and a generation that grows each time the index is reused, so that a
/// closed handle is never mistaken for a new object. A call keeps its object alive; if the handle is closed at the same
/// time, the object is dropped when the call ends. Looking up an object takes no lock, and usually writes to no memory
/// that another thread writes to.
pub(crate) struct Handles<T> {
    what: &'static str,
    /// Chunks of entries, each twice as long as the one before, so that entries never move.
    chunks: [OnceLock<Box<[Slot<T>]>>; CHUNKS],
    places: Mutex<Places>,
}

type Slot<T> = ArcSwapOption<Entry<T>>;

struct Entry<T> {
    /// At least 1, so that no handle is 0.
    generation: u32,
    value: T,
}

/// The free entries: `free` has the index and the next generation of those that were given back, and from the index
/// `unused` on none was ever used.
struct Places {
    free: Vec<(u32, u32)>,
    unused: u32,
}

const FIRST_CHUNK_LOG: u32 = 5;
const CHUNKS: usize = (u32::BITS - FIRST_CHUNK_LOG) as usize;

/// A reference that keeps an object alive while a call works on it.
pub(crate) struct Held<T>(Guard<Option<Arc<Entry<T>>>>);

impl<T> Deref for Held<T> {
    type Target = T;
    fn deref(&self) -> &T {
        match &*self.0 {
            Some(entry) => &entry.value,
            None => unreachable!("made of a slot that has an object"),
        }
    }
}

impl<T> Handles<T> {
    /// Creates an empty table. `what` names one of its objects in error messages.
    pub(crate) const fn new(what: &'static str) -> Self {
        let places = Mutex::new(Places { free: Vec::new(), unused: 0 });
        Handles { what, chunks: [const { OnceLock::new() }; CHUNKS], places }
    }

    /// Adds an object and returns its handle.
    pub(crate) fn insert(&self, value: T) -> Result<jlong, Failure> {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, generation) = match places.free.pop() {
            Some(place) => place,
            None => {
                let at = places.unused;
                if chunk_of(at).0 == CHUNKS {
                    return Err(Failure::Malformed("too many open handles"));
                }
                places.unused = at + 1;
                (at, 1)
            }
        };
        let (chunk, offset) = chunk_of(at);
        let slots = self.chunks[chunk]
            .get_or_init(|| (0..1usize << (FIRST_CHUNK_LOG as usize + chunk)).map(|_| Slot::empty()).collect());
        slots[offset].store(Some(Arc::new(Entry { generation, value })));
        Ok((u64::from(generation) << 32 | u64::from(at)) as jlong)
    }

    fn slot(&self, at: u32) -> Option<&Slot<T>> {
        let (chunk, offset) = chunk_of(at);
        self.chunks.get(chunk)?.get()?.get(offset)
    }

    /// The object to which a handle refers. Fails if the handle was closed or never existed.
    pub(crate) fn get(&self, handle: jlong) -> Result<Held<T>, Failure> {
        let (generation, at) = parts(handle);
        let held = self.slot(at).map(Slot::load).filter(|held| is_of(held, generation));
        held.map(Held).ok_or(Failure::Closed(self.what))
    }

    /// Closes a handle and returns its object. Does nothing and returns `None` if the handle was closed already or
    /// never existed.
    pub(crate) fn remove(&self, handle: jlong) -> Option<Held<T>> {
        let (generation, at) = parts(handle);
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = self.slot(at).filter(|slot| is_of(&slot.load(), generation))?;
        let value = slot.swap(None)?;
        // An entry whose generations are used up is never reused.
        places.free.extend(generation.checked_add(1).map(|next| (at, next)));
        Some(Held(Guard::from_inner(Some(value))))
    }
}

fn is_of<T>(entry: &Guard<Option<Arc<Entry<T>>>>, generation: u32) -> bool {
    entry.as_ref().is_some_and(|entry| entry.generation == generation)
}

/// The chunk that contains an index, and the position in it.
fn chunk_of(at: u32) -> (usize, usize) {
    let at = u64::from(at) + (1 << FIRST_CHUNK_LOG);
    let log = at.ilog2();
    ((log - FIRST_CHUNK_LOG) as usize, (at - (1 << log)) as usize)
}

fn parts(handle: jlong) -> (u32, u32) {
    let handle = handle as u64;
    ((handle >> 32) as u32, handle as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicI64, Ordering};

    #[test]
    fn an_old_handle_is_never_a_new_object() {
        let handles = Handles::new("thing");
        let old = handles.insert("old").unwrap();
        assert_eq!(*handles.remove(old).unwrap(), "old");
        let new = handles.insert("new").unwrap();
        assert_eq!(new as u32, old as u32, "the place is used again");
        assert!(matches!(handles.get(old), Err(Failure::Closed("thing"))));
        assert!(handles.remove(old).is_none(), "closing twice closes nothing else");
        assert_eq!(*handles.get(new).unwrap(), "new");
    }

    #[test]
    fn what_never_was_a_handle_is_refused() {
        let handles = Handles::<()>::new("thing");
        for handle in [0, 1, -1, jlong::MIN, 1 << 32] {
            assert!(handles.get(handle).is_err(), "{handle}");
        }
    }

    #[test]
    fn a_call_keeps_what_it_works_on() {
        let handles = Handles::new("thing");
        let handle = handles.insert(String::from("held")).unwrap();
        let held = handles.get(handle).unwrap();
        drop(handles.remove(handle));
        assert_eq!(*held, "held");
    }

    #[test]
    fn a_place_with_used_up_numbers_is_retired() {
        let handles = Handles::new("thing");
        let first = handles.insert(0).unwrap();
        handles.remove(first).unwrap();
        handles.places.lock().unwrap().free[0].1 = u32::MAX;
        let last = handles.insert(1).unwrap();
        assert_eq!(last, (u64::from(u32::MAX) << 32) as jlong);
        assert!(handles.remove(last).is_some());
        assert_eq!(handles.insert(2).unwrap() as u32, 1);
    }

    #[test]
    fn handles_stay_good_while_the_table_grows() {
        let handles = Handles::new("thing");
        let all: Vec<_> = (0..1000).map(|i| handles.insert(i).unwrap()).collect();
        for (i, handle) in all.iter().enumerate() {
            assert_eq!(*handles.get(*handle).unwrap(), i);
        }
        assert_eq!(chunk_of(u32::MAX - (1 << FIRST_CHUNK_LOG)), (CHUNKS - 1, (1 << 31) - 1));
        assert!(handles.get(jlong::from(u32::MAX) | 1 << 32).is_err());
    }

    #[test]
    fn a_handle_that_is_closed_while_others_use_it_gives_the_object_or_an_error() {
        let handles = Handles::new("thing");
        let current = AtomicI64::new(handles.insert(0).unwrap());
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut last = 0;
                    while last < 2000 {
                        let handle = current.load(Ordering::SeqCst);
                        if let Ok(held) = handles.get(handle) {
                            assert_eq!(*held as u64, (handle as u64 >> 32) - 1, "the object of that handle");
                            last = *held;
                        }
                    }
                });
            }
            for i in 1..=2000 {
                assert!(handles.remove(current.load(Ordering::SeqCst)).is_some());
                current.store(handles.insert(i).unwrap(), Ordering::SeqCst);
            }
        });
    }
}
