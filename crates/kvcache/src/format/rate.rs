/// Average number of reads of a record in a round of the log, as known when the record was written. A round of a record
/// lasts from its put, or from the eviction that last kept it, to the eviction of the segment that holds it.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Rate(u16);

/// The representation of one read in a round.
const UNIT: f32 = 4096.0;
const READS: u16 = 0x7fff;
const CARRIED: u16 = 0x8000;

impl Rate {
    /// Decodes the bits in a footer: the low 15 bits are reads in 4096ths, and the highest one says whether an eviction
    /// has chosen to keep the record.
    pub(crate) fn from_bits(bits: u16) -> Self {
        Rate(bits)
    }

    pub(crate) fn bits(self) -> u16 {
        self.0
    }

    /// This number of reads in a round, as the rate of a record that no eviction has chosen to keep. Values of 8 and
    /// more become a little less than 8, and negative ones 0.
    pub(crate) fn of_reads(reads: f32) -> Self {
        // A cast saturates, and NaN becomes 0.
        Rate(((reads * UNIT + 0.5) as u16).min(READS))
    }

    /// Reads in a round; 0 where nothing is known.
    pub(crate) fn reads(self) -> f32 {
        f32::from(self.0 & READS) / UNIT
    }

    /// Returns this rate as that of a record that an eviction has chosen to keep.
    pub(crate) fn carried(self) -> Self {
        Rate(self.0 | CARRIED)
    }

    pub(crate) fn is_carried(self) -> bool {
        self.0 & CARRIED != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_come_back_and_keep_to_their_limits() {
        for reads in [0.0, 0.05, 1.0, 7.5] {
            let rate = Rate::of_reads(reads);
            assert!((rate.reads() - reads).abs() < 0.001 && !rate.is_carried());
            assert!((rate.carried().reads() - reads).abs() < 0.001 && rate.carried().is_carried());
        }
        assert!(Rate::of_reads(1e9).reads() < 8.0 && !Rate::of_reads(1e9).is_carried());
        assert_eq!((Rate::of_reads(-1.0), Rate::of_reads(f32::NAN)), (Rate::default(), Rate::default()));
    }
}
