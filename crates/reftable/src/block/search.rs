use super::Layout;
use crate::{
    Fault,
    format::{RESTART_LEN, be24},
    record::key,
};

/// The offset of restart point number `index`, which must be less than the number of restart points.
#[inline]
pub(crate) fn restart_offset(block: &[u8], layout: &Layout, index: usize) -> Result<usize, Fault> {
    debug_assert!(index < layout.restart_count, "the block has {} restart points", layout.restart_count);
    let offset = be24(block, layout.restarts_at + RESTART_LEN * index);
    if (layout.records_at..layout.restarts_at).contains(&(offset as usize)) {
        Ok(offset as usize)
    } else {
        Err(Fault::RestartOffset(offset))
    }
}

/// The key of the first record.
pub(crate) fn first_key<'a>(block: &'a [u8], layout: &Layout) -> Result<&'a [u8], Fault> {
    key::get_whole(&block[..layout.restarts_at], &mut layout.records_at.clone())
}

/// The number of the last restart point from `from` on whose key is not greater than `wanted`; `from` if there is none.
///
/// In a sorted batch the next key is often near the previous one, or else far beyond the block. Therefore the search
/// first compares the next restart point and the last one, and only then gallops, doubling its stride and then halving
/// it. Only the restart points that it touches are checked.
pub(crate) fn restart_from(block: &[u8], layout: &Layout, from: usize, wanted: &[u8]) -> Result<usize, Fault> {
    let records = &block[..layout.restarts_at];
    let is_before = |index| {
        let mut offset = restart_offset(block, layout, index)?;
        Ok(key::get_whole(records, &mut offset)? <= wanted)
    };
    let last = layout.restart_count - 1;
    debug_assert!(from <= last, "a walk's restart point is one of its block: {from} of {last}");
    if from >= last || !is_before(from + 1)? {
        return Ok(from);
    }
    if is_before(last)? {
        return Ok(last);
    }
    // `wanted` is not less than the key at `low`, and less than the key at `last`.
    let (mut low, mut high, mut stride) = (from + 1, from + 2, 1);
    while high < last && is_before(high)? {
        low = high;
        stride *= 2;
        high += stride;
    }
    high = high.min(last);
    debug_assert!(from < low && low < high, "the search narrows what lies ahead: {from} {low} {high}");
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if is_before(middle)? {
            low = middle;
        } else {
            high = middle;
        }
    }
    Ok(low)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{block::BlockWriter, format::BlockKind};

    #[test]
    fn the_restart_point_before_a_key_is_found_from_every_place() {
        for count in 1..40u8 {
            let mut writer = BlockWriter::new(1);
            writer.begin(BlockKind::Ref, |_| {});
            for at in 0..count {
                assert!(writer.add(&[b'k', 2 * at + 1], 0, 0, 4096, |out| out.push(0)));
            }
            let block = writer.finish().to_vec();
            let layout = Layout::of(BlockKind::Ref, &block, 0).unwrap();
            assert_eq!(first_key(&block, &layout), Ok(&[b'k', 1][..]));
            for from in 0..usize::from(count) {
                for wanted in 0..2 * count + 2 {
                    let expected = usize::from(wanted.saturating_sub(1) / 2).clamp(from, usize::from(count) - 1);
                    assert_eq!(
                        restart_from(&block, &layout, from, &[b'k', wanted]),
                        Ok(expected),
                        "{count} {from} {wanted}"
                    );
                }
            }
        }
    }
}
