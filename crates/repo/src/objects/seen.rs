use super::ObjectKind;
use hashbrown::HashTable;
use refdb_types::ObjectId;

/// Objects that were looked at before, without their content: refs often hold the same ones.
///
/// When it is full everything is forgotten, which is cheaper than to know which was asked for last.
#[derive(Debug, Default)]
pub(super) struct Seen {
    table: HashTable<Object>,
}

/// An object that exists, and its kind if that was seen as well.
type Object = (ObjectId, Option<ObjectKind>);

/// What fits into 32,768 places, of which a table leaves an eighth empty. With these it takes a bit over a MiB.
const OBJECTS_MAX: usize = (1 << 15) / 8 * 7;

impl Seen {
    #[inline]
    fn get(&self, id: &ObjectId) -> Option<&Object> {
        self.table.find(spread(id), |(known, _)| known == id)
    }

    /// Whether the object is known to exist.
    #[inline]
    pub(super) fn exists(&self, id: &ObjectId) -> bool {
        self.get(id).is_some()
    }

    /// The object's kind, if it is known.
    #[inline]
    pub(super) fn kind(&self, id: &ObjectId) -> Option<ObjectKind> {
        self.get(id)?.1
    }

    /// Remembers that the object exists, and its kind if that was seen as well.
    pub(super) fn put(&mut self, id: &ObjectId, kind: Option<ObjectKind>) {
        let hash = spread(id);
        if let Some((_, known)) = self.table.find_mut(hash, |(known, _)| known == id) {
            *known = kind.or(*known);
            return;
        }
        if self.table.len() == OBJECTS_MAX {
            self.table.clear();
        }
        self.table.insert_unique(hash, (*id, kind), |(id, _)| spread(id));
        debug_assert!(self.table.len() <= OBJECTS_MAX && self.table.capacity() <= OBJECTS_MAX, "it keeps to its bound");
    }
}

/// Ids are spread evenly already. One who chooses ids that collide makes his own refs slow.
#[inline]
fn spread(id: &ObjectId) -> u64 {
    let mut head = [0; 8];
    head.copy_from_slice(&id.as_bytes()[..8]);
    u64::from_le_bytes(head)
}

#[cfg(test)]
mod tests {
    use super::*;
    use refdb_types::HashKind;

    fn id(number: u32) -> ObjectId {
        // Numbers that follow each other are not spread as ids are.
        let bytes = number.wrapping_mul(0x9e37_79b9).to_be_bytes();
        ObjectId::from_bytes(HashKind::Sha1, &bytes.repeat(5)).unwrap()
    }

    #[test]
    fn kinds_are_remembered_and_not_lost_by_a_look_that_sees_none() {
        let mut seen = Seen::default();
        assert!(!seen.exists(&id(1)));
        seen.put(&id(1), None);
        assert!(seen.exists(&id(1)) && seen.kind(&id(1)).is_none());
        seen.put(&id(1), Some(ObjectKind::Tag));
        seen.put(&id(1), None);
        assert_eq!(seen.kind(&id(1)), Some(ObjectKind::Tag));
        assert!(!seen.exists(&id(2)));
    }

    #[test]
    fn it_forgets_everything_rather_than_grow_beyond_its_bound() {
        let mut seen = Seen::default();
        let last = OBJECTS_MAX as u32;
        (0..last).for_each(|number| seen.put(&id(number), Some(ObjectKind::Commit)));
        assert!((0..last).all(|number| seen.kind(&id(number)) == Some(ObjectKind::Commit)));
        seen.put(&id(last), Some(ObjectKind::Blob));
        assert_eq!(seen.kind(&id(last)), Some(ObjectKind::Blob));
        assert!(seen.table.len() == 1 && !seen.exists(&id(0)));
        assert!(seen.table.allocation_size() < 5 << 18, "{} bytes", seen.table.allocation_size());
        (0..1 << 20).for_each(|number| seen.put(&id(number), None));
        assert!(seen.table.allocation_size() < 5 << 18, "{} bytes", seen.table.allocation_size());
    }
}
