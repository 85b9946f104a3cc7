//! What is kept of a segment that is evicted: a decision without effects.

use crate::format::place::MAX_USES;

/// Which records of an evicted segment are copied, by how often they were read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Keep {
    /// Records read more often than this are kept.
    above: u8,
    /// Bytes left for records read exactly this often.
    at_bytes: u64,
}

impl Keep {
    /// Keeps the most used records up to `budget` bytes. `bytes_by_uses` says how many bytes there are of each use count;
    /// what was never read is not kept.
    pub(crate) fn most_used(bytes_by_uses: &[u64; MAX_USES as usize + 1], budget: u64) -> Self {
        let mut left = budget;
        for uses in (1..=MAX_USES).rev() {
            let bytes = bytes_by_uses[usize::from(uses)];
            if bytes > left {
                return Keep { above: uses, at_bytes: left };
            }
            left -= bytes;
            debug_assert!(left <= budget, "no more is kept than the budget allows");
        }
        Keep { above: 0, at_bytes: 0 }
    }

    /// How many bytes it keeps at most.
    pub(crate) fn bytes(&self, bytes_by_uses: &[u64; MAX_USES as usize + 1]) -> u64 {
        self.at_bytes + bytes_by_uses[usize::from(self.above) + 1..].iter().sum::<u64>()
    }

    /// Decides over one record.
    pub(crate) fn take(&mut self, uses: u8, len: u64) -> bool {
        if uses > self.above {
            return true;
        }
        let fits = uses == self.above && uses > 0 && len <= self.at_bytes;
        if fits {
            self.at_bytes -= len;
        }
        fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_used_records_are_kept_within_the_budget() {
        let mut keep = Keep::most_used(&[500, 100, 50, 25], 100);
        assert_eq!(keep.bytes(&[500, 100, 50, 25]), 100);
        assert!(keep.take(3, 25) && keep.take(2, 50));
        assert!(keep.take(1, 20) && !keep.take(1, 20) && keep.take(1, 5), "25 bytes are left for those read once");
        assert!(!keep.take(0, 1));
        let mut keep = Keep::most_used(&[500, 10, 10, 10], 100);
        assert!(keep.take(1, 10) && !keep.take(0, 1), "what was never read goes, whatever the budget");
    }
}
