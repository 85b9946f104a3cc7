use super::ObjectKind;
use refdb_types::ObjectId;

/// Some of the objects that were looked at before, without their content: neighbouring refs often hold the same ones.
///
/// Each id has one place, which the next id of that place takes over, so that it never grows.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// None before a second id comes: most commands ask for one object, and the memory is 35 pages.
    slots: Vec<Option<Object>>,
    /// The one id, as long as there are no slots.
    only: Option<Object>,
}

type Object = (ObjectId, Option<ObjectKind>);

const SLOTS: usize = 1 << 12;

impl Seen {
    fn slot(id: &ObjectId) -> usize {
        let bytes = id.as_bytes();
        (usize::from(bytes[0]) << 8 | usize::from(bytes[1])) % SLOTS
    }

    fn get(&self, id: &ObjectId) -> Option<Option<ObjectKind>> {
        let (known, kind) = self.slots.get(Self::slot(id)).copied().unwrap_or(self.only)?;
        (known == *id).then_some(kind)
    }

    /// Whether the object is known to exist.
    pub(super) fn exists(&self, id: &ObjectId) -> bool {
        self.get(id).is_some()
    }

    /// The object's kind, if it is known.
    pub(super) fn kind(&self, id: &ObjectId) -> Option<ObjectKind> {
        self.get(id).flatten()
    }

    /// Remembers that the object exists, and its kind if that was seen as well.
    pub(super) fn put(&mut self, id: &ObjectId, kind: Option<ObjectKind>) {
        if self.slots.is_empty() {
            match self.only.replace((*id, kind)) {
                Some(first) if first.0 != *id => {
                    self.slots.resize(SLOTS, None);
                    self.slots[Self::slot(&first.0)] = Some(first);
                }
                _ => return,
            }
        }
        debug_assert_eq!(self.slots.len(), SLOTS, "each id has a place");
        self.slots[Self::slot(id)] = Some((*id, kind));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use refdb_types::HashKind;

    #[test]
    fn the_first_id_is_remembered_when_others_come_at_other_places() {
        let id = |first: u8| ObjectId::from_bytes(HashKind::Sha1, &[first; 20]).unwrap();
        let mut seen = Seen::default();
        for first in 1..10 {
            seen.put(&id(first), Some(ObjectKind::Commit));
            assert!((1..=first).all(|known| seen.kind(&id(known)) == Some(ObjectKind::Commit)));
            assert!(!seen.exists(&id(first + 1)));
        }
    }

    #[test]
    fn an_id_is_forgotten_when_another_takes_its_place() {
        let id = |last: u8| ObjectId::from_bytes(HashKind::Sha1, &[[7; 19].as_slice(), &[last]].concat()).unwrap();
        let mut seen = Seen::default();
        assert!(!seen.exists(&id(1)));
        seen.put(&id(1), None);
        assert!(seen.exists(&id(1)) && seen.kind(&id(1)).is_none());
        seen.put(&id(1), Some(ObjectKind::Tag));
        assert_eq!(seen.kind(&id(1)), Some(ObjectKind::Tag));
        seen.put(&id(2), Some(ObjectKind::Blob));
        assert!(!seen.exists(&id(1)));
        assert_eq!(seen.kind(&id(2)), Some(ObjectKind::Blob));
    }
}
