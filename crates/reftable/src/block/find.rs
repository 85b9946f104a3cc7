use super::{Layout, restart_offset};
use crate::{
    Fault,
    record::{
        Context, Records,
        key::{self, Start, common_prefix},
    },
};
use std::cmp::Ordering;

/// Finds the first record of a block whose key is not less than `wanted`. Returns whether the record's key equals
/// `wanted`, and the record's value; returns `None` if all keys are less.
///
/// Keys are not assembled. Each key is compared only from the first byte on that the comparison with the previous key
/// has left undecided.
pub(crate) fn lower_bound<R: Records>(
    block: &[u8],
    layout: &Layout,
    wanted: &[u8],
    context: &Context,
) -> Result<Option<(bool, R::Value)>, Fault> {
    let records = &block[..layout.restarts_at];
    let mut at = restart_before(block, layout, wanted)?;
    // The length of the previous key, which is less than `wanted`, and the number of bytes at the start that both
    // share.
    let (mut len, mut matched) = (0, 0);
    while at < records.len() {
        debug_assert!(matched <= len && matched <= wanted.len(), "what was compared is in both keys");
        let Start { shared, suffix, value_type } = key::start(records, &mut at)?;
        if shared > len {
            return Err(Fault::KeyPrefix(shared as u64));
        }
        len = shared + suffix;
        if len == 0 {
            return Err(Fault::Key);
        }
        let own = &records[at..at + suffix];
        at += suffix;
        let order = if shared > matched {
            // This key shares the byte that made the previous key less than `wanted`.
            Ordering::Less
        } else {
            let more = common_prefix(own, &wanted[shared..]);
            matched = shared + more;
            own[more..].first().cmp(&wanted[matched..].first())
        };
        let (value, after) = R::parse(records, at, value_type, context, &[])?;
        if order != Ordering::Less {
            return Ok(Some((order == Ordering::Equal, value)));
        }
        at = after;
    }
    Ok(None)
}

/// The offset at which a search begins: the last restart point whose key is not greater than `wanted`, or the first
/// record.
pub(crate) fn restart_before(block: &[u8], layout: &Layout, wanted: &[u8]) -> Result<usize, Fault> {
    let records = &block[..layout.restarts_at];
    let mut start = layout.records_at;
    // The restart points before `low` are not greater than `wanted`, and those from `high` on are.
    let (mut low, mut high) = (0, layout.restart_count);
    while low < high {
        let middle = low + (high - low) / 2;
        let offset = restart_offset(block, layout, middle)?;
        if key::get_whole(records, &mut offset.clone())? <= wanted {
            (low, start) = (middle + 1, offset);
        } else {
            high = middle;
        }
    }
    debug_assert!((layout.records_at..=layout.restarts_at).contains(&start), "a search begins within the records");
    Ok(start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        block::BlockWriter,
        format::BlockKind,
        record::{IndexRecords, IndexValue},
    };
    use refdb_types::HashKind;

    #[test]
    fn every_key_and_every_gap_is_found_whatever_prefixes_are_shared() {
        const CONTEXT: Context = Context { hash: HashKind::Sha1, min_update_index: 0 };
        let mut keys: Vec<Vec<u8>> = Vec::new();
        for a in 0..40u8 {
            for len in 1..4 {
                keys.push([&b"refs/"[..], &vec![b'b' + a / 7; len], &[b'a' + a % 7 * 2]].concat());
            }
        }
        keys.sort();
        keys.dedup();
        // A writer need not share the whole prefix that two keys have in common.
        for (interval, thrift) in [(1, 0), (3, 0), (16, 0), (16, 2), (200, 3)] {
            let mut writer = BlockWriter::new(interval);
            writer.begin(BlockKind::Index, |_| {});
            for (at, key) in keys.iter().enumerate() {
                let shared = at.checked_sub(1).map_or(0, |before| common_prefix(&keys[before], key));
                let value = IndexValue { position: at as u64 };
                let shared = shared.saturating_sub(thrift * (at % 2));
                assert!(writer.add(key, shared, 0, 1 << 20, |out| value.encode(out)));
            }
            let block = writer.finish().to_vec();
            let layout = Layout::of(BlockKind::Index, &block, 0).unwrap();
            let find = |wanted: &[u8]| lower_bound::<IndexRecords>(&block, &layout, wanted, &CONTEXT).unwrap();
            let mut wanted = keys.clone();
            wanted.extend(keys.iter().map(|key| [key.as_slice(), b"\0"].concat()));
            wanted.extend(keys.iter().map(|key| key[..key.len() - 1].to_vec()));
            wanted.extend([b"".to_vec(), b"a".to_vec(), b"zzz".to_vec()]);
            for wanted in wanted {
                let expected = keys.partition_point(|key| *key < wanted);
                let found = find(&wanted).map(|(is_equal, value)| (is_equal, value.position as usize));
                assert_eq!(found, keys.get(expected).map(|key| (*key == wanted, expected)), "{interval} {wanted:?}");
            }
        }
    }
}
