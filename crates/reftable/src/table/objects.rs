use crate::format::OBJECT_ID_LEN_MAX;
use refdb_types::ObjectId;
use std::cmp::Ordering;

/// Collects which objects the refs of which blocks point at, for the object blocks.
#[derive(Default)]
pub(crate) struct ObjectCollector {
    id_len: usize,
    /// The ids, one behind the other.
    ids: Vec<u8>,
    entries: Vec<Entry>,
}

/// One ref block that points at one object.
#[derive(Clone, Copy)]
struct Entry {
    /// The first bytes of the id, which nearly always decide a comparison.
    start: u64,
    /// Which of the ids.
    id: u32,
    /// Which of the ref blocks.
    block: u32,
}

/// The fewest bytes that object ids are abbreviated to.
const ID_LEN_MIN: usize = 2;

impl ObjectCollector {
    /// Notes that ref block number `block` has a ref that points at `id`.
    #[inline]
    pub(crate) fn add(&mut self, id: &ObjectId, block: usize) {
        let id = id.as_bytes();
        let block = block as u32;
        // Neighbours often point at the same object; other repetitions fall away in `finish`.
        if let Some(last) = self.entries.last()
            && last.block == block
            && self.ids[self.ids.len() - self.id_len..] == *id
        {
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

    /// Calls `each` with every abbreviated id and the positions of its blocks, in order. Returns the abbreviation's
    /// length, the shortest that tells all ids apart. If it is longer than the format can tell, returns 0 without any
    /// call.
    pub(crate) fn finish<E>(
        mut self,
        block_positions: &[u64],
        mut each: impl FnMut(&[u8], &[u64]) -> Result<(), E>,
    ) -> Result<u8, E> {
        let mut entries = std::mem::take(&mut self.entries);
        debug_assert_eq!(self.ids.len(), entries.len() * self.id_len, "each entry has its id");
        debug_assert!(entries.iter().all(|entry| (entry.block as usize) < block_positions.len()), "blocks are written");
        entries.sort_unstable_by(|a, b| self.compare(a, b).then(a.block.cmp(&b.block)));
        let longest_shared = entries
            .windows(2)
            .filter(|pair| self.compare(&pair[0], &pair[1]) != Ordering::Equal)
            .map(|pair| crate::record::key::common_prefix(self.id(&pair[0]), self.id(&pair[1])))
            .max()
            .unwrap_or(0);
        let abbreviated = (longest_shared + 1).max(ID_LEN_MIN);
        if abbreviated > usize::from(OBJECT_ID_LEN_MAX) {
            return Ok(0);
        }
        let mut positions = Vec::new();
        for same in entries.chunk_by(|a, b| self.compare(a, b) == Ordering::Equal) {
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

    #[inline]
    fn compare(&self, a: &Entry, b: &Entry) -> Ordering {
        a.start.cmp(&b.start).then_with(|| self.id(a).cmp(self.id(b)))
    }
}
