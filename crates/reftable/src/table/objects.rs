use crate::format::OBJECT_ID_LEN_MAX;
use refdb_types::ObjectId;

/// Collects the objects to which the refs of each block point, for the index of objects.
#[derive(Default)]
pub(crate) struct ObjectCollector {
    id_len: usize,
    /// The ids, one after another.
    ids: Vec<u8>,
    entries: Vec<Entry>,
}

/// A ref block with refs to an object.
#[derive(Clone, Copy)]
struct Entry {
    /// The first bytes of the id, which decide nearly every comparison.
    start: u64,
    /// The number of the id in `ids`.
    id: u32,
    /// The number of the ref block.
    block: u32,
}

/// The shortest abbreviation of object ids, in bytes.
const ID_LEN_MIN: usize = 2;

impl ObjectCollector {
    /// Notes that ref block number `block` has a ref to `id`.
    #[inline]
    pub(crate) fn add(&mut self, id: &ObjectId, block: usize) {
        let id = id.as_bytes();
        let block = block as u32;
        // Neighbouring refs often point to the same object. Other repetitions are removed by `finish`.
        let is_in_block = self.entries.last().is_some_and(|last| last.block == block);
        if is_in_block && self.ids[self.ids.len() - self.id_len..] == *id {
            return;
        }
        debug_assert!(self.id_len == 0 || self.id_len == id.len(), "ids of one table are of one kind");
        debug_assert!(self.entries.last().is_none_or(|last| last.block <= block), "blocks are written in order");
        self.id_len = id.len();
        let mut start = [0; 8];
        start.copy_from_slice(&id[..8]);
        self.entries.push(Entry { start: u64::from_be_bytes(start), id: self.entries.len() as u32, block });
        self.ids.extend_from_slice(id);
    }

    /// Passes every abbreviated id and the positions of its blocks to `each`, in order. Returns the length of the
    /// abbreviations, the shortest from [`ID_LEN_MIN`] on that distinguishes all ids. If that length is more than
    /// `id_len_max`, or more than the footer can store, nothing is passed and 0 is returned.
    pub(crate) fn finish<E>(
        mut self,
        block_positions: &[u64],
        id_len_max: usize,
        mut each: impl FnMut(&[u8], &[u64]) -> Result<(), E>,
    ) -> Result<u8, E> {
        let mut entries = std::mem::take(&mut self.entries);
        debug_assert_eq!(self.ids.len(), entries.len() * self.id_len, "each entry has its id");
        debug_assert!(entries.iter().all(|entry| (entry.block as usize) < block_positions.len()), "blocks are written");
        self.sort(&mut entries);
        let longest_shared = entries
            .windows(2)
            .filter(|pair| pair[0].id != pair[1].id)
            .map(|pair| crate::record::key::common_prefix(self.id(&pair[0]), self.id(&pair[1])))
            .max()
            .unwrap_or(0);
        let abbreviated = (longest_shared + 1).max(ID_LEN_MIN);
        if abbreviated > id_len_max.min(usize::from(OBJECT_ID_LEN_MAX)) {
            return Ok(0);
        }
        let mut positions = Vec::new();
        for same in entries.chunk_by(|a, b| a.id == b.id) {
            positions.clear();
            positions.extend(same.iter().map(|entry| block_positions[entry.block as usize]));
            positions.dedup();
            each(&self.id(&same[0])[..abbreviated], &positions)?;
        }
        Ok(abbreviated as u8)
    }

    fn id(&self, entry: &Entry) -> &[u8] {
        let at = entry.id as usize * self.id_len;
        &self.ids[at..at + self.id_len]
    }

    /// Sorts the entries by id and block, and gives entries of equal ids the same number.
    fn sort(&self, entries: &mut [Entry]) {
        // Equal first bytes nearly always mean equal ids, so each id is compared once instead of in every step of
        // sorting.
        entries.sort_unstable_by_key(|entry| u128::from(entry.start) << u32::BITS | u128::from(entry.block));
        for alike in entries.chunk_by_mut(|a, b| a.start == b.start) {
            if !self.number(alike) {
                alike.sort_unstable_by(|a, b| self.id(a).cmp(self.id(b)).then(a.block.cmp(&b.block)));
                self.number(alike);
            }
        }
        debug_assert!(entries.is_sorted_by_key(|entry| (self.id(entry), entry.block)), "by id, and then by block");
    }

    /// Gives neighbouring entries of equal ids the same number. Returns whether all have the same id.
    fn number(&self, entries: &mut [Entry]) -> bool {
        let mut first = entries[0];
        let mut is_one = true;
        for entry in entries {
            if self.id(entry) == self.id(&first) {
                entry.id = first.id;
            } else {
                first = *entry;
                is_one = false;
            }
        }
        is_one
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use refdb_types::HashKind;

    #[test]
    fn ids_that_begin_alike_are_told_apart_and_keep_their_blocks() {
        let id = |last: u8| ObjectId::from_bytes(HashKind::Sha1, &[[7; 19].as_slice(), &[last]].concat()).unwrap();
        let other = ObjectId::from_bytes(HashKind::Sha1, &[3; 20]).unwrap();
        let mut collector = ObjectCollector::default();
        for (id, block) in [(id(2), 0), (id(1), 0), (id(2), 0), (other, 1), (id(1), 1), (id(2), 1), (id(1), 2)] {
            collector.add(&id, block);
        }
        let mut found = Vec::new();
        let len = collector.finish(&[10, 11, 12], 20, |id, positions| {
            found.push((id[0], id[19], positions.to_vec()));
            Ok::<_, ()>(())
        });
        assert_eq!(len, Ok(20));
        assert_eq!(found, [(3, 3, vec![11]), (7, 1, vec![10, 11, 12]), (7, 2, vec![10, 11])]);
    }

    #[test]
    fn ids_longer_than_an_index_has_room_for_are_left_out() {
        let mut collector = ObjectCollector::default();
        for last in [1, 2] {
            let bytes = [[7; 19].as_slice(), &[last]].concat();
            collector.add(&ObjectId::from_bytes(HashKind::Sha1, &bytes).unwrap(), 0);
        }
        let len = collector.finish(&[10], 19, |id, _| panic!("{id:?} is told"));
        assert_eq!(len, Ok::<_, ()>(0));
    }
}
