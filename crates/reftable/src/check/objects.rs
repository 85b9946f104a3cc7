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
        let mut expected: Vec<u64> = expected.unwrap_or_default().iter().map(|(_, position)| *position).collect();
        expected.sort_unstable();
        expected.dedup();
        let listed = object.positions.is_empty() && !expected.is_empty() || object.positions == expected;
        if !listed {
            report.add(object.block, Fault::ObjectPositions);
        }
    }
    for missing in pointed {
        report.add(section.start, Fault::ObjectMissing(be64(missing[0].0.as_bytes(), 0)));
    }
}
