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

/// Where to begin to look for the first record whose key is not less than `wanted`: at the last restart point whose
/// key is not greater, or else at the first record. Only the restart points that the search touches are checked.
pub(crate) fn restart_before(block: &[u8], layout: &Layout, wanted: &[u8]) -> Result<usize, Fault> {
    let records = &block[..layout.restarts_at];
    let (mut low, mut high) = (0, layout.restart_count);
    let mut found = layout.records_at;
    while low < high {
        let middle = low + (high - low) / 2;
        let offset = restart_offset(block, layout, middle)?;
        if key::get_whole(records, &mut offset.clone())? <= wanted {
            found = offset;
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    Ok(found)
}
