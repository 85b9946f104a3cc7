use crate::failure::Failure;
use jni::sys::jlong;
use std::sync::{Arc, PoisonError, RwLock};

/// The open objects of one kind, which Java knows by number.
///
/// A number is the place in a table and how often that place had been given out before, so that an old number is never
/// mistaken for a new object. A call holds what it works on: closing it at the same time only means that it goes away
/// when the call ends.
pub(crate) struct Handles<T> {
    what: &'static str,
    slots: RwLock<Slots<T>>,
}

struct Slots<T> {
    list: Vec<Slot<T>>,
    free: Vec<u32>,
}

struct Slot<T> {
    /// At least 1, so that no handle is 0.
    generation: u32,
    value: Option<Arc<T>>,
}

impl<T> Handles<T> {
    /// An empty table. `what` names one of its objects for people.
    pub(crate) const fn new(what: &'static str) -> Self {
        Handles { what, slots: RwLock::new(Slots { list: Vec::new(), free: Vec::new() }) }
    }

    /// Takes an object in and gives its handle.
    pub(crate) fn insert(&self, value: T) -> Result<jlong, Failure> {
        let mut slots = self.slots.write().unwrap_or_else(PoisonError::into_inner);
        let at = match slots.free.pop() {
            Some(at) => at,
            None => {
                let at = u32::try_from(slots.list.len()).map_err(|_| Failure::Malformed("too many open handles"))?;
                slots.list.push(Slot { generation: 1, value: None });
                at
            }
        };
        let slot = &mut slots.list[at as usize];
        slot.value = Some(Arc::new(value));
        Ok((u64::from(slot.generation) << 32 | u64::from(at)) as jlong)
    }

    /// The object behind a handle.
    pub(crate) fn get(&self, handle: jlong) -> Result<Arc<T>, Failure> {
        let (generation, at) = parts(handle);
        let slots = self.slots.read().unwrap_or_else(PoisonError::into_inner);
        let slot = slots.list.get(at as usize).filter(|slot| slot.generation == generation);
        slot.and_then(|slot| slot.value.clone()).ok_or(Failure::Closed(self.what))
    }

    /// Ends a handle. Nothing happens if it has been ended before.
    pub(crate) fn remove(&self, handle: jlong) -> Option<Arc<T>> {
        let (generation, at) = parts(handle);
        let mut slots = self.slots.write().unwrap_or_else(PoisonError::into_inner);
        let slot = slots.list.get_mut(at as usize).filter(|slot| slot.generation == generation)?;
        let value = slot.value.take()?;
        // A place whose numbers are used up is never given out again.
        if let Some(next) = slot.generation.checked_add(1) {
            slot.generation = next;
            slots.free.push(at);
        }
        Some(value)
    }
}

fn parts(handle: jlong) -> (u32, u32) {
    let handle = handle as u64;
    ((handle >> 32) as u32, handle as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

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
        handles.insert(0).unwrap();
        handles.slots.write().unwrap().list[0].generation = u32::MAX;
        let last = (u64::from(u32::MAX) << 32) as jlong;
        assert!(handles.remove(last).is_some());
        assert_eq!(handles.insert(1).unwrap() as u32, 1);
    }
}
