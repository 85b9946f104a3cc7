use std::ops::Range;

/// Git's default for `reftable.geometricFactor`.
pub const DEFAULT_FACTOR: u16 = 2;

/// Returns the tables of a stack that the geometric rule wants merged into one, or `None` if it wants none merged.
/// `sizes` are those of the tables, the oldest first, in bytes. A `factor` of 0 means [`DEFAULT_FACTOR`].
///
/// This is git's rule, so that git and refdb agree when a stack that they write in turn is compact. Each table should
/// be at least `factor` times as large as its next younger neighbour, which keeps the number of tables logarithmic. The
/// range ends with the younger neighbour of the youngest table that breaks the rule, since from that neighbour on the
/// tables form a geometric sequence already. The range begins with the oldest table that is smaller than `factor` times
/// the sum of the tables after it in the range.
pub fn plan(sizes: &[u64], factor: u16) -> Option<Range<usize>> {
    let factor = u64::from(if factor == 0 { DEFAULT_FACTOR } else { factor });
    let breaks = |older: u64, younger: u64| older < younger.saturating_mul(factor);
    let last = (1..sizes.len()).rev().find(|&at| breaks(sizes[at - 1], sizes[at]))?;
    let (mut sum, mut start) = (sizes[last], last);
    for at in (0..last).rev() {
        if breaks(sizes[at], sum) {
            start = at;
        }
        sum = sum.saturating_add(sizes[at]);
    }
    debug_assert!(start < last && last < sizes.len(), "at least two neighbours become one: {start} to {last}");
    Some(start..last + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_geometric_sequence_is_left_alone() {
        assert_eq!(plan(&[], 2), None);
        assert_eq!(plan(&[5], 2), None);
        assert_eq!(plan(&[64, 32, 16, 8, 4, 2, 1], 2), None);
        assert_eq!(plan(&[64, 32, 16, 8, 4, 2, 1], 0), None);
        assert_eq!(plan(&[u64::MAX, u64::MAX / 2], 2), None);
    }

    #[test]
    fn the_range_ends_where_the_sequence_breaks_and_takes_all_it_outgrows() {
        assert_eq!(plan(&[64, 32, 16, 8, 4, 3, 1], 2), Some(0..6));
        assert_eq!(plan(&[512, 64, 17, 16, 9, 9, 9, 16, 2, 16], 2), Some(1..10));
        assert_eq!(plan(&[128, 32, 16, 8, 4, 3, 1], 2), Some(1..6));
        assert_eq!(plan(&[100, 1], 2), None);
        assert_eq!(plan(&[100, 1, 1], 2), Some(1..3));
        assert_eq!(plan(&[64, 32, 16, 8, 4, 2, 1], 3), Some(0..7));
        // A table that is large enough by itself is merged too if an older one is too small.
        assert_eq!(plan(&[10, 30, 9, 6], 2), Some(0..4));
    }

    proptest! {
        #[test]
        fn compacting_the_range_once_restores_the_sequence(
            mut sizes in prop::collection::vec(1u64..1_000_000, 0..40),
            factor in 2u16..9,
        ) {
            if let Some(range) = plan(&sizes, factor) {
                prop_assert!(range.len() >= 2 && range.end <= sizes.len());
                let sum = sizes[range.clone()].iter().sum();
                sizes.splice(range, [sum]);
            }
            prop_assert!(sizes.windows(2).all(|pair| pair[0] >= pair[1] * u64::from(factor)));
        }
    }
}
