//! A compact map from objects to their classes. There may be a million of them.

use super::ObjectClass;
use hashbrown::HashTable;
use refdb_types::{HashKind, ObjectId};
use std::collections::BTreeMap;

/// A map from ids to classes. It only grows, so it keeps objects that are removed later.
#[derive(Debug)]
pub(super) struct Known {
    hash: HashKind,
    /// The raw bytes of each id, followed by one byte for its class.
    rows: Vec<u8>,
    /// A hash table from ids to row numbers.
    table: HashTable<u32>,
    /// The targets of tags by row. There are few tags. (A `HashMap` would ask the system for random numbers in every
    /// command.)
    peeled: BTreeMap<u32, ObjectId>,
}

const COMMIT: u8 = 0;
const OTHER: u8 = 1;
const TAG: u8 = 2;

impl Known {
    pub(super) fn new(hash: HashKind) -> Self {
        Known { hash, rows: Vec::new(), table: HashTable::new(), peeled: BTreeMap::new() }
    }

    fn row(&self, number: u32) -> &[u8] {
        let len = self.hash.len_bytes() + 1;
        &self.rows[number as usize * len..][..len]
    }

    pub(super) fn get(&self, id: &ObjectId) -> Option<ObjectClass> {
        let bytes = id.as_bytes();
        let number = *self.table.find(spread(bytes), |number| self.row(*number).starts_with(bytes))?;
        Some(match self.row(number)[bytes.len()] {
            COMMIT => ObjectClass::Commit,
            OTHER => ObjectClass::Other,
            TAG => ObjectClass::Tag(self.peeled.get(&number).copied()),
            class => unreachable!("a row ends with a class, which is none: {class}"),
        })
    }

    /// Remembers the class of an id, which must not be known yet.
    pub(super) fn insert(&mut self, id: &ObjectId, class: ObjectClass) {
        let bytes = id.as_bytes();
        debug_assert!(bytes.len() == self.hash.len_bytes() && self.get(id).is_none());
        let len = bytes.len() + 1;
        debug_assert!(self.rows.len().is_multiple_of(len), "rows are whole");
        // Beyond four billion objects nothing more is remembered.
        let Ok(number) = u32::try_from(self.rows.len() / len) else { return };
        let class = match class {
            ObjectClass::Missing => return,
            ObjectClass::Commit => COMMIT,
            ObjectClass::Other => OTHER,
            ObjectClass::Tag(peeled) => {
                if let Some(peeled) = peeled {
                    self.peeled.insert(number, peeled);
                }
                TAG
            }
        };
        self.rows.extend_from_slice(bytes);
        self.rows.push(class);
        debug_assert_eq!(self.rows.len(), (number as usize + 1) * len, "the table leads to the row by its number");
        let rows = &self.rows;
        self.table.insert_unique(spread(bytes), number, |number| spread(&rows[*number as usize * len..]));
    }
}

/// Returns the hash of an id for the table: its first bytes. Ids are uniformly distributed, and an attacker who wants
/// them to collide would have to find objects with such ids.
fn spread(id: &[u8]) -> u64 {
    let mut head = [0; 8];
    head.copy_from_slice(&id[..8]);
    u64::from_le_bytes(head)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_remembered() {
        for kind in [HashKind::Sha1, HashKind::Sha256] {
            let id = |number: u32| {
                let bytes: Vec<u8> = number.to_be_bytes().into_iter().cycle().take(kind.len_bytes()).collect();
                ObjectId::from_bytes(kind, &bytes).unwrap()
            };
            let class = |number: u32| match number % 4 {
                0 => ObjectClass::Commit,
                1 => ObjectClass::Other,
                2 => ObjectClass::Tag(None),
                _ => ObjectClass::Tag(Some(id(number + 1))),
            };
            let mut known = Known::new(kind);
            for number in 0..1000 {
                assert_eq!(known.get(&id(number)), None);
                known.insert(&id(number), class(number));
            }
            known.insert(&id(1000), ObjectClass::Missing);
            assert_eq!(known.get(&id(1000)), None);
            for number in 0..1000 {
                assert_eq!(known.get(&id(number)), Some(class(number)));
            }
        }
    }
}
