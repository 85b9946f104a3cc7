use crate::backend::NewValue;
use bstr::BStr;

/// The most steps that are measured to estimate the size of all.
const SAMPLES: usize = 64;

/// The bytes of a record besides its name and value: lengths, type and update index.
const OVERHEAD_BYTES: usize = 3;

/// Estimates the number of bytes that the refs of `count` steps take in a table, erring on the low side.
///
/// `step` returns the name and the new value of the step at a position. Steps must be sorted by name, because a table
/// stores a name without the prefix that it shares with the previous one.
pub(super) fn expected_bytes<'s>(
    count: usize,
    id_len: usize,
    step: impl Fn(usize) -> (&'s BStr, Option<NewValue<'s>>),
) -> u64 {
    let every = count.div_ceil(SAMPLES).max(1);
    let (mut bytes, mut samples) = (0, 0);
    for at in (0..count).step_by(every) {
        samples += 1;
        let (name, new) = step(at);
        let value = match new {
            None => continue,
            Some(NewValue::Deleted) => 0,
            Some(NewValue::Direct(_, None)) => id_len,
            Some(NewValue::Direct(_, Some(_))) => 2 * id_len,
            Some(NewValue::Symbolic(target)) => target.len(),
        };
        // The first name has no predecessor, so it is compared with the next one to be representative of the others.
        let beside = if at > 0 { Some(at - 1) } else { (count > 1).then_some(1) };
        let shared = beside.map_or(0, |beside| {
            let pairs = name.iter().zip(step(beside).0.iter());
            pairs.take_while(|(a, b)| a == b).count()
        });
        debug_assert!(shared <= name.len(), "a name shares no more than it has");
        bytes += OVERHEAD_BYTES + name.len() - shared + value;
    }
    (bytes as u64 * count as u64).checked_div(samples).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use refdb_types::{HashKind, ObjectId};
    use reftable::{RefRecord, RefValue, TableWriter, WriteOptions};

    #[test]
    fn the_estimate_is_near_the_size_and_hardly_above_it() {
        let id = ObjectId::from_bytes(HashKind::Sha1, &[7; 20]).unwrap();
        for (count, step) in [(1, 1), (3, 7), (100, 1), (5_000, 1), (5_000, 13), (40_000, 3)] {
            let names: Vec<String> = (0..count).map(|at| format!("refs/changes/{:08}/meta", at * step)).collect();
            for deleted in [false, true] {
                let mut bytes = Vec::new();
                let mut writer = TableWriter::new(WriteOptions::default(), 1, 1, &mut bytes).unwrap();
                for name in &names {
                    let value = if deleted { RefValue::Deletion } else { RefValue::Direct(id) };
                    writer.add_ref(&RefRecord { name: name.as_str().into(), update_index: 1, value }).unwrap();
                }
                let size = writer.finish().unwrap().bytes;
                let new = if deleted { NewValue::Deleted } else { NewValue::Direct(id, None) };
                let estimate = expected_bytes(count, 20, |at| (names[at].as_str().into(), Some(new)));
                assert!(estimate <= size, "{estimate} for {size}");
                assert!(count < 100 || estimate >= size * 7 / 10, "{estimate} for {size}");
            }
        }
        assert_eq!(expected_bytes(0, 20, |_| unreachable!()), 0);
    }
}
