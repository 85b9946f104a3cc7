use super::{Cursor, Seeker, Table};
use crate::{
    RefValue, Result,
    format::BlockKind,
    record::{ObjectRecords, RefRecords},
};
use bstr::BString;
use refdb_types::ObjectId;
use std::sync::Arc;

/// A ref found by the object it points at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PointingRef {
    /// The ref's full name.
    pub name: BString,
    /// The transaction that gave it its value.
    pub update_index: u64,
    /// The object it points at.
    pub target: ObjectId,
    /// For an annotated tag, the object that leads to.
    pub peeled: Option<ObjectId>,
}

impl Table {
    /// The refs that point at an object directly or through a tag, in order of name.
    pub fn refs_pointing_at(self: &Arc<Self>, id: &ObjectId) -> Result<Vec<PointingRef>> {
        find(self, id)
    }
}

/// The refs of one table that point at an object, in order of name. They come through the object index where there is
/// one, else through all refs.
fn find(table: &Arc<Table>, id: &ObjectId) -> Result<Vec<PointingRef>> {
    let mut found = Vec::new();
    if id.kind() != table.hash() {
        return Ok(found);
    }
    let mut refs = Cursor::<RefRecords>::new(table.clone());
    match blocks_pointing_at(table, id)? {
        None => {
            while refs.step()? {
                push_if_pointing(&refs, id, &mut found);
            }
        }
        Some(positions) => {
            for position in positions {
                let mut more = refs.step_into(position)?;
                while more {
                    push_if_pointing(&refs, id, &mut found);
                    more = refs.step_within_block()?;
                }
            }
        }
    }
    Ok(found)
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
    debug_assert!(target == *id || peeled == Some(*id), "the bytes that were compared are the ids that are told");
    found.push(PointingRef { name: record.name.to_owned(), update_index: record.update_index, target, peeled });
}

/// The ref blocks that have such refs; `None` if only looking through all of them can tell.
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
