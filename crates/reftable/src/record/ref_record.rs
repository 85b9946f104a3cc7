use super::{Context, Records, id_at, string_at};
use crate::{
    Fault,
    format::{BlockKind, varint},
};
use bstr::{BStr, ByteSlice};
use refdb_types::{HashKind, ObjectId};

/// The value of a ref.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RefValue<'a> {
    /// A tombstone: the ref does not exist, whatever older tables say.
    Deletion,
    /// The ref points to this object, which is not an annotated tag as far as the writer could tell.
    Direct(ObjectId),
    /// The ref points to an annotated tag.
    Peeled {
        /// The tag.
        target: ObjectId,
        /// The object to which the tag, or a chain of tags, finally leads.
        peeled: ObjectId,
    },
    /// The ref names another ref.
    Symbolic(&'a BStr),
}

/// A ref as a table stores it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RefRecord<'a> {
    /// The full name.
    pub name: &'a BStr,
    /// The update index of the transaction that set the value.
    pub update_index: u64,
    /// The value.
    pub value: RefValue<'a>,
}

impl RefRecord<'_> {
    /// Returns whether this is a tombstone.
    pub fn is_deletion(&self) -> bool {
        self.value == RefValue::Deletion
    }
}

const DELETION: u8 = 0;
const DIRECT: u8 = 1;
const PEELED: u8 = 2;
const SYMBOLIC: u8 = 3;

impl RefValue<'_> {
    /// The type of the value, three bits that are stored beside the length of the key.
    pub(crate) fn type_bits(&self) -> u8 {
        match self {
            RefValue::Deletion => DELETION,
            RefValue::Direct(_) => DIRECT,
            RefValue::Peeled { .. } => PEELED,
            RefValue::Symbolic(_) => SYMBOLIC,
        }
    }

    /// Appends `varint(update index - the table's lowest) value`.
    #[inline]
    pub(crate) fn encode(&self, update_index_delta: u64, out: &mut Vec<u8>) {
        varint::put(out, update_index_delta);
        match self {
            RefValue::Deletion => {}
            RefValue::Direct(id) => out.extend_from_slice(id.as_bytes()),
            RefValue::Peeled { target, peeled } => {
                out.extend_from_slice(target.as_bytes());
                out.extend_from_slice(peeled.as_bytes());
            }
            RefValue::Symbolic(target) => {
                varint::put(out, target.len() as u64);
                out.extend_from_slice(target);
            }
        }
    }
}

/// The records of ref blocks.
pub(crate) struct RefRecords;

/// The location of a ref's value in its block.
#[derive(Clone, Copy, Default)]
pub(crate) struct RefPlace {
    pub(crate) update_index: u64,
    value_type: u8,
    at: u32,
    len: u32,
}

impl Records for RefRecords {
    const BLOCK: BlockKind = BlockKind::Ref;
    type Value = RefPlace;

    #[inline(always)]
    fn parse(
        records: &[u8],
        mut at: usize,
        value_type: u8,
        context: &Context,
        _: &[u8],
    ) -> Result<(RefPlace, usize), Fault> {
        let delta = varint::get(records, &mut at)?;
        let update_index = context.min_update_index.checked_add(delta).ok_or(Fault::UpdateIndex)?;
        let hash = context.hash;
        let (start, len) = match value_type {
            DELETION => (at, 0),
            DIRECT => (at, hash.len_bytes()),
            PEELED => (at, 2 * hash.len_bytes()),
            SYMBOLIC => {
                let (start, len) = string_at(records, &mut at)?;
                (start as usize, len as usize)
            }
            unknown => return Err(Fault::ValueType(unknown)),
        };
        let end = start + len;
        if end > records.len() {
            return Err(Fault::RecordTruncated);
        }
        Ok((RefPlace { update_index, value_type, at: start as u32, len: len as u32 }, end))
    }

    #[inline]
    fn is_deletion(value: &RefPlace) -> bool {
        value.value_type == DELETION
    }
}

impl RefPlace {
    /// The record with this key.
    #[inline(always)]
    pub(crate) fn record<'a>(&self, key: &'a [u8], context: &Context, records: &'a [u8]) -> RefRecord<'a> {
        RefRecord { name: key.as_bstr(), update_index: self.update_index, value: self.value(records, context.hash) }
    }

    /// The object of a ref that is stored with one id, [`RefValue::Direct`].
    #[inline(always)]
    pub(crate) fn direct(&self, block: &[u8], hash: HashKind) -> Option<ObjectId> {
        (self.value_type == DIRECT).then(|| id_at(block, self.at as usize, hash))
    }

    /// The value; `block` is the block from which the location was parsed.
    #[inline(always)]
    pub(crate) fn value<'a>(&self, block: &'a [u8], hash: HashKind) -> RefValue<'a> {
        let at = self.at as usize;
        debug_assert!(at + self.len as usize <= block.len(), "`parse` has seen where the value ends");
        match self.value_type {
            DIRECT => RefValue::Direct(id_at(block, at, hash)),
            PEELED => {
                RefValue::Peeled { target: id_at(block, at, hash), peeled: id_at(block, at + hash.len_bytes(), hash) }
            }
            SYMBOLIC => RefValue::Symbolic(block[at..at + self.len as usize].as_bstr()),
            _ => RefValue::Deletion,
        }
    }

    /// The objects to which the ref points: none, one, or a tag and the object to which it leads.
    pub(crate) fn objects<'a>(&self, block: &'a [u8], hash: HashKind) -> impl Iterator<Item = ObjectId> + use<'a> {
        let (at, len) = match self.value_type {
            DIRECT | PEELED => (self.at as usize, self.len as usize),
            _ => (0, 0),
        };
        debug_assert!(len % hash.len_bytes() == 0, "there are only ids in the value: {len} bytes");
        (at..at + len).step_by(hash.len_bytes()).map(move |at| id_at(block, at, hash))
    }

    /// Returns whether the ref points to the object, directly or through a tag.
    pub(crate) fn points_at(&self, block: &[u8], id: &[u8]) -> bool {
        debug_assert!(
            !matches!(self.value_type, DIRECT | PEELED) || self.len as usize % id.len() == 0,
            "the id is of the table's kind"
        );
        matches!(self.value_type, DIRECT | PEELED)
            && block[self.at as usize..(self.at + self.len) as usize].chunks_exact(id.len()).any(|found| found == id)
    }
}
