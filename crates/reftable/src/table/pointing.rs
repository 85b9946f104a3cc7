use super::{Cursor, Seeker, Table};
use crate::{
    RefValue, Result,
    format::BlockKind,
    record::{ObjectRecords, RefRecords},
};
use bstr::BString;
use refdb_types::ObjectId;
use std::sync::Arc;

/// A ref that was found by the object to which it points.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PointingRef {
    /// The full name.
    pub name: BString,
    /// The update index of the transaction that set the value.
    pub update_index: u64,
    /// The object to which the ref points.
    pub target: ObjectId,
    /// The object to which `target` finally leads, if it is an annotated tag.
    pub peeled: Option<ObjectId>,
}

impl Table {
    /// Returns the refs of this table that point to an object, directly or through a tag, in order of name.
    ///
    /// # Errors
    ///
    /// [`Error::Io`](crate::Error::Io) if the table cannot be read, [`Error::Corrupt`](crate::Error::Corrupt) if it is
    /// damaged.
    pub fn refs_pointing_at(self: &Arc<Self>, id: &ObjectId) -> Result<Vec<PointingRef>> {
        Ok(self.few_refs_pointing_at(id, usize::MAX)?.unwrap_or_default())
    }

    /// Returns what [`refs_pointing_at`](Self::refs_pointing_at) does, or `None` if there are more than `most` refs.
    /// The search ends once more have been found.
    ///
    /// # Errors
    ///
    /// Those of [`refs_pointing_at`](Self::refs_pointing_at).
    pub fn few_refs_pointing_at(self: &Arc<Self>, id: &ObjectId, most: usize) -> Result<Option<Vec<PointingRef>>> {
        find(self, id, most)
    }
}

/// Finds the refs through the index of objects, or by reading all refs if there is no such index, or if the index does
/// not list the blocks of the object because they are too many.
fn find(table: &Arc<Table>, id: &ObjectId, most: usize) -> Result<Option<Vec<PointingRef>>> {
    let mut found = Vec::new();
    if id.kind() != table.hash() {
        return Ok(Some(found));
    }
    let mut refs = Cursor::<RefRecords>::new(table.clone());
    match blocks_pointing_at(table, id)? {
        None => {
            while refs.step()? && found.len() <= most {
                push_if_pointing(&refs, id, &mut found);
            }
        }
        Some(positions) => {
            for position in positions {
                if found.len() > most {
                    break;
                }
                let mut more = refs.step_into(position)?;
                while more && found.len() <= most {
                    push_if_pointing(&refs, id, &mut found);
                    more = refs.step_within_block()?;
                }
            }
        }
    }
    Ok((found.len() <= most).then_some(found))
}

fn push_if_pointing(refs: &Cursor<RefRecords>, id: &ObjectId, found: &mut Vec<PointingRef>) {
    if !refs.value().points_at(refs.records(), id.as_bytes()) {
        return;
    }
    let record = refs.record();
    let (target, peeled) = match record.value {
        RefValue::Direct(target) => (target, None),
        RefValue::Peeled { target, peeled } => (target, Some(peeled)),
        RefValue::Deletion | RefValue::Symbolic(_) => return,
    };
    debug_assert!(target == *id || peeled == Some(*id), "the bytes that were compared are the returned ids");
    found.push(PointingRef { name: record.name.to_owned(), update_index: record.update_index, target, peeled });
}

/// The positions of the blocks that may have refs to the object, or `None` if all blocks have to be searched.
fn blocks_pointing_at(table: &Arc<Table>, id: &ObjectId) -> Result<Option<Vec<u64>>> {
    if table.section(BlockKind::Object).is_none() {
        return Ok(None);
    }
    let abbreviated = &id.as_bytes()[..usize::from(table.footer.object_id_len)];
    let mut objects = Seeker::<ObjectRecords>::new(table.clone());
    if !objects.seek(abbreviated)? || objects.key() != abbreviated {
        return Ok(Some(Vec::new()));
    }
    if objects.value().count == 0 {
        return Ok(None);
    }
    let positions: Result<Vec<u64>, _> = objects.value().positions(objects.records()).collect();
    let position = objects.block().map_or(0, |block| block.position);
    positions.map(Some).map_err(|fault| table.corrupt(position, fault))
}
