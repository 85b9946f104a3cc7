use super::ObjectKind;
use refdb_types::{Memo, ObjectId};

/// A cache of objects that were found to exist, without their content. It helps because refs often hold the same
/// objects.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Objects that exist, with their kind if that was read too.
    objects: Memo<ObjectId, Option<ObjectKind>, OBJECTS_MAX>,
}

/// Maximum number of slots in the cache, which then takes 1.5 MiB.
const OBJECTS_MAX: usize = 1 << 15;

impl Seen {
    /// Returns whether the object is known to exist.
    #[inline]
    pub(super) fn exists(&self, id: &ObjectId) -> bool {
        self.objects.get(id).is_some()
    }

    /// Returns the object's kind, if it is known.
    #[inline]
    pub(super) fn kind(&self, id: &ObjectId) -> Option<ObjectKind> {
        *self.objects.get(id)?
    }

    /// Remembers that the object exists, and its kind if that was read too.
    pub(super) fn put(&mut self, id: &ObjectId, kind: Option<ObjectKind>) {
        self.objects.put(*id, kind.or(self.kind(id)));
        debug_assert!(self.exists(id), "what was just seen is found");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use refdb_types::HashKind;

    fn id(number: u32) -> ObjectId {
        // Consecutive numbers are not uniformly distributed, unlike ids.
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
}
