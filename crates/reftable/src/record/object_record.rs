use super::{Context, Records};
use crate::{
    Fault,
    format::{BlockKind, varint},
};

/// The records of object blocks. Their keys are abbreviated object ids.
pub(crate) struct ObjectRecords;

/// The ref blocks that have refs to the object.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct ObjectValue {
    /// The number of blocks; 0 if there were too many to list, so that any ref may point to the object.
    pub(crate) count: u64,
    /// The offset of the positions in the block.
    at: u32,
}

/// The greatest number of positions that is stored in the three bits beside the length of the key.
const COUNT_IN_TYPE_MAX: usize = 7;

impl ObjectValue {
    /// The three bits that are stored beside the length of the key: the number of positions, or 0 if that number
    /// follows.
    pub(crate) fn type_bits(positions: &[u64]) -> u8 {
        if positions.len() <= COUNT_IN_TYPE_MAX { positions.len() as u8 } else { 0 }
    }

    /// Appends the positions, which ascend: `varint(count)? varint(first) varint(distance)*`.
    pub(crate) fn encode(positions: &[u64], out: &mut Vec<u8>) {
        debug_assert!(positions.is_sorted_by(|a, b| a < b), "an object's blocks ascend: {positions:?}");
        if Self::type_bits(positions) == 0 {
            varint::put(out, positions.len() as u64);
        }
        let mut last = 0;
        for &position in positions {
            varint::put(out, position - last);
            last = position;
        }
    }

    /// The positions; `records` are those from which the value was parsed.
    pub(crate) fn positions<'a>(&self, records: &'a [u8]) -> impl Iterator<Item = Result<u64, Fault>> + use<'a> {
        let mut at = self.at as usize;
        debug_assert!(at as u64 + self.count <= records.len() as u64, "`parse` has seen them in this block");
        let mut last = 0u64;
        (0..self.count).map(move |number| {
            let distance = varint::get(records, &mut at)?;
            if distance == 0 && number > 0 {
                return Err(Fault::PositionOrder);
            }
            last = last.checked_add(distance).ok_or(Fault::Varint)?;
            Ok(last)
        })
    }
}

impl Records for ObjectRecords {
    const BLOCK: BlockKind = BlockKind::Object;
    type Value = ObjectValue;

    fn parse(
        records: &[u8],
        mut at: usize,
        value_type: u8,
        _: &Context,
        _: &[u8],
    ) -> Result<(ObjectValue, usize), Fault> {
        let count = match value_type {
            0 => varint::get(records, &mut at)?,
            few => u64::from(few),
        };
        // A position takes at least one byte, so this bounds the loop below by the length of the block.
        if count > (records.len() - at) as u64 {
            return Err(Fault::RecordTruncated);
        }
        let value = ObjectValue { count, at: at as u32 };
        for _ in 0..count {
            varint::get(records, &mut at)?;
        }
        Ok((value, at))
    }

    fn is_deletion(_: &ObjectValue) -> bool {
        false
    }
}
