use super::ObjectKind;
use refdb_types::ObjectId;

/// Some of the objects that were looked at before, without their content: neighbouring refs often hold the same ones.
///
/// Each id has one place, which the next id of that place takes over, so that it never grows.
#[derive(Debug, Default)]
pub(super) struct Seen {
    slots: Vec<Option<(ObjectId, Option<ObjectKind>)>>,
}

const SLOTS: usize = 1 << 12;

impl Seen {
    fn slot(id: &ObjectId) -> usize {
        let bytes = id.as_bytes();
        (usize::from(bytes[0]) << 8 | usize::from(bytes[1])) % SLOTS
    }

    fn get(&self, id: &ObjectId) -> Option<Option<ObjectKind>> {
        let (known, kind) = (*self.slots.get(Self::slot(id))?)?;
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
        self.slots.resize(SLOTS, None);
        self.slots[Self::slot(id)] = Some((*id, kind));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use refdb_types::HashKind;

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
    }
}
