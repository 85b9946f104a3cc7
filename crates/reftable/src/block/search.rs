use super::Layout;
use crate::{
    Fault,
    format::{RESTART_LEN, be24},
    record::key,
};

/// The restart point number `index`, which the block has.
#[inline]
pub(crate) fn restart_offset(block: &[u8], layout: &Layout, index: usize) -> Result<usize, Fault> {
    let offset = be24(block, layout.restarts_at + RESTART_LEN * index);
    if (layout.records_at..layout.restarts_at).contains(&(offset as usize)) {
        Ok(offset as usize)
    } else {
        Err(Fault::RestartOffset(offset))
    }
}

/// The key of the block's first record.
pub(crate) fn first_key<'a>(block: &'a [u8], layout: &Layout) -> Result<&'a [u8], Fault> {
    key::get_whole(&block[..layout.restarts_at], &mut layout.records_at.clone())
}

/// The last restart point whose key is not greater than `wanted`, at or behind number `from`; `from` itself if there is
/// none. It steps forward with doubled strides, since the next thing sought is often near the last, and then halves.
/// Only the restart points that it touches are checked.
pub(crate) fn restart_from(block: &[u8], layout: &Layout, from: usize, wanted: &[u8]) -> Result<usize, Fault> {
    let records = &block[..layout.restarts_at];
    let is_before = |index| {
        let mut offset = restart_offset(block, layout, index)?;
        Ok(key::get_whole(records, &mut offset)? <= wanted)
    };
    // What is sought lies behind `low` and before `high`.
    let (mut low, mut high, mut stride) = (from, from + 1, 1);
    while high < layout.restart_count && is_before(high)? {
        low = high;
        stride *= 2;
        high += stride;
    }
    high = high.min(layout.restart_count);
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
