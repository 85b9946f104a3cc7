use super::answer::{DIRECT, NOT_TAG, SYMBOLIC, TAG, storage_flag};
use crate::failure::Failure;
use refdb::{TargetView, backend::Peeled};
use refdb_refcache::{Row, Storage};
use refdb_types::ObjectId;

/// Encoded rows of a list, each of which can be read without those before it.
///
/// ```text
/// rows
/// where each of them starts, and where the last one ends   4 each
/// which of them are symbolic, by number                    4 each
/// how many of them are symbolic                            4
/// how many rows there are                                  4
/// ```
///
/// The flags of a row say, as in other answers, where the ref is stored and whether its peeled object is known. The
/// name takes the rest of the row. Targets of symbolic refs are left out, because whoever needs one follows the ref.
///
/// ```text
/// flags                           1
/// update index, in a table only   8
/// id, if it is not symbolic       raw
/// what a tag leads to             raw
/// name                            to the end of the row
/// ```
#[derive(Default)]
pub(super) struct Chunk {
    bytes: Vec<u8>,
    starts: Vec<u32>,
    symbolic: Vec<u32>,
}

impl Chunk {
    /// Clears the chunk and reserves space for rows of `len` bytes and for the numbers that follow them.
    pub(super) fn clear(&mut self, len: usize) {
        const STARTS_SHARE: usize = 8;
        const ROW_LEN: usize = 64;
        self.bytes.clear();
        self.bytes.reserve(len + len / STARTS_SHARE);
        self.starts.clear();
        self.starts.reserve(len / ROW_LEN + 1);
        self.symbolic.clear();
    }

    /// The length of all rows in bytes.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn add(&mut self, row: &Row<'_>) {
        // A chunk ends with the row that reaches its length, far below the limit of this type.
        self.starts.push(self.bytes.len() as u32);
        let kind = match (&row.target, &row.peeled) {
            (TargetView::Symbolic(_), _) => {
                self.symbolic.push(self.starts.len() as u32 - 1);
                SYMBOLIC
            }
            (TargetView::Direct(_), Peeled::Unknown) => DIRECT,
            (TargetView::Direct(_), Peeled::NotTag) => DIRECT | NOT_TAG,
            (TargetView::Direct(_), Peeled::To(_)) => DIRECT | TAG,
        };
        self.bytes.push(kind | storage_flag(row.storage));
        if row.storage == Storage::Table {
            self.bytes.extend_from_slice(&row.update_index.to_le_bytes());
        }
        if let TargetView::Direct(id) = &row.target {
            self.id(id);
            if let Peeled::To(leads_to) = &row.peeled {
                self.id(leads_to);
            }
        }
        self.bytes.extend_from_slice(row.name);
    }

    fn id(&mut self, id: &ObjectId) {
        const SHA1_LEN: usize = 20;
        match id.as_bytes().first_chunk::<SHA1_LEN>() {
            // With a constant length the compiler copies with two instructions in place of a call.
            Some(sha1) if id.as_bytes().len() == SHA1_LEN => self.bytes.extend_from_slice(sha1),
            _ => self.bytes.extend_from_slice(id.as_bytes()),
        }
    }

    /// The encoded chunk, which is empty if there are no rows.
    pub(super) fn finish(&mut self) -> Result<&[u8], Failure> {
        let count = u32::try_from(self.starts.len()).map_err(|_| Failure::TooLarge(self.starts.len()))?;
        if count > 0 {
            let end = u32::try_from(self.bytes.len()).map_err(|_| Failure::TooLarge(self.bytes.len()))?;
            self.starts.push(end);
            let counts = [self.symbolic.len() as u32, count];
            for number in self.starts.iter().chain(&self.symbolic).chain(&counts) {
                self.bytes.extend_from_slice(&number.to_le_bytes());
            }
        }
        Ok(&self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bstr::BStr;
    use refdb_types::HashKind;

    #[test]
    fn a_chunk_says_where_its_rows_are() {
        let id = |byte| ObjectId::from_bytes(HashKind::Sha1, &[byte; 20]).unwrap();
        let row =
            |name, target, peeled, storage| Row { name: BStr::new(name), target, peeled, storage, update_index: 7 };
        let mut chunk = Chunk::default();
        for _ in 0..2 {
            chunk.clear(64);
            chunk.add(&row("refs/a", TargetView::Direct(id(1)), Peeled::NotTag, Storage::Packed));
            chunk.add(&row("refs/b", TargetView::Symbolic("refs/a".into()), Peeled::NotTag, Storage::Loose));
            chunk.add(&row("refs/c", TargetView::Direct(id(2)), Peeled::To(id(3)), Storage::Table));
            let mut expected =
                [&[0x15][..], &[1; 20], b"refs/a", &[0x02], b"refs/b", &[0x29], &[7, 0, 0, 0, 0, 0, 0, 0]].concat();
            expected.extend([&[2; 20][..], &[3; 20], b"refs/c"].concat());
            for number in [0, 27, 34, 89, 1, 1, 3u32] {
                expected.extend(number.to_le_bytes());
            }
            assert_eq!(chunk.finish().unwrap(), expected);
        }
        chunk.clear(64);
        assert!(chunk.finish().unwrap().is_empty());
    }
}
