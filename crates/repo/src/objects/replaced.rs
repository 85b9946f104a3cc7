use super::ObjectError;
use refdb_types::ObjectId;
use std::{collections::HashMap, sync::OnceLock};

/// The number of replacements that git follows in a row.
const CHAIN_MAX: usize = 4;

/// The objects that `git replace` replaces by others.
#[derive(Debug, Default)]
pub(super) struct Replaced {
    /// The replacement of each replaced object. As long as this is not set, no replacements apply.
    by: OnceLock<HashMap<ObjectId, ObjectId>>,
}

impl Replaced {
    /// Looks for the replacements unless they are known.
    pub(super) fn apply<E>(&self, find: impl FnOnce() -> Result<HashMap<ObjectId, ObjectId>, E>) -> Result<(), E> {
        if self.by.get().is_none() {
            let found = find()?;
            // If two threads look for them at the same time, the result of the first one is kept.
            let _ = self.by.set(found);
        }
        Ok(())
    }

    /// Returns the object that is shown in place of `id`.
    pub(super) fn of(&self, id: &ObjectId) -> Result<ObjectId, ObjectError> {
        let Some(by) = self.by.get().filter(|by| !by.is_empty()) else { return Ok(*id) };
        let mut shown = *id;
        for _ in 0..=CHAIN_MAX {
            match by.get(&shown) {
                Some(next) => shown = *next,
                None => return Ok(shown),
            }
        }
        Err(ObjectError::ReplacedTooOften(*id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: usize) -> ObjectId {
        ObjectId::from_hex(refdb_types::HashKind::Sha1, format!("{number:040x}").as_bytes()).unwrap()
    }

    #[test]
    fn replacements_are_followed_as_far_as_git_does() {
        let replaced = Replaced::default();
        assert_eq!(replaced.of(&id(1)).unwrap(), id(1));
        let chain = (1..=5).map(|at| (id(at), id(at + 1))).collect();
        replaced.apply(|| Ok::<_, ()>(chain)).unwrap();
        // A second call changes nothing.
        replaced.apply(|| Err(())).unwrap();
        assert_eq!(replaced.of(&id(6)).unwrap(), id(6));
        assert_eq!(replaced.of(&id(2)).unwrap(), id(6));
        assert!(matches!(replaced.of(&id(1)), Err(ObjectError::ReplacedTooOften(named)) if named == id(1)));
    }

    #[test]
    fn objects_that_replace_each_other_are_an_error() {
        let replaced = Replaced::default();
        replaced.apply(|| Ok::<_, ()>([(id(1), id(2)), (id(2), id(1))].into())).unwrap();
        assert!(replaced.of(&id(2)).is_err());
    }
}
