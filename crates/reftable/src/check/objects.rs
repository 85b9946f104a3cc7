//! Compares the index of objects with the refs.

use super::{Found, Report};
use crate::{
    Fault, Table,
    format::{BlockKind, be64},
};

pub(super) fn compare(table: &Table, mut found: Found, report: &mut Report) {
    let Some(section) = table.section(BlockKind::Object) else { return };
    let len = usize::from(table.footer.object_id_len);
    debug_assert!((1..=table.hash().len_bytes()).contains(&len), "`open` refuses other lengths of ids: {len}");
    found.pointed.sort_unstable();
    found.pointed.dedup();
    let mut pointed = found.pointed.chunk_by(|a, b| a.0.as_bytes()[..len] == b.0.as_bytes()[..len]).peekable();
    for object in &found.objects {
        // Ids before that of this record are missing from the index.
        while let Some(missing) = pointed.next_if(|ids| ids[0].0.as_bytes()[..len] < object.id[..]) {
            report.add(section.start, Fault::ObjectMissing(be64(missing[0].0.as_bytes(), 0)));
        }
        let expected = pointed.next_if(|ids| ids[0].0.as_bytes()[..len] == object.id[..]);
        let is_right = expected.is_some_and(|ids| {
            let mut blocks: Vec<u64> = ids.iter().map(|(_, position)| *position).collect();
            blocks.sort_unstable();
            blocks.dedup();
            // A record without positions stands for more blocks than it could list.
            object.positions.is_empty() || object.positions == blocks
        });
        if !is_right {
            report.add(object.block, Fault::ObjectPositions);
        }
    }
    for missing in pointed {
        report.add(section.start, Fault::ObjectMissing(be64(missing[0].0.as_bytes(), 0)));
    }
}
