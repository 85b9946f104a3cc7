use super::{Header, Version, be64};
use crate::Fault;

/// The footer of a file: the header again, the positions of the sections, and a checksum of the footer.
///
/// ```text
/// +0   position of the ref index
/// +8   position of the object section << 5, plus the length of its abbreviated ids
/// +16  position of the object index
/// +24  position of the log section
/// +32  position of the log index
/// +40  CRC-32
/// ```
///
/// Offsets count from the end of the header. A position of 0 means that there is no such section, except that C git
/// also leaves the log position 0 if the first block of the file is a log block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Footer {
    pub(crate) header: Header,
    pub(crate) ref_index: u64,
    pub(crate) objects: u64,
    /// The length to which object ids are abbreviated, in bytes.
    pub(crate) object_id_len: u8,
    pub(crate) object_index: u64,
    pub(crate) logs: u64,
    pub(crate) log_index: u64,
}

const POSITIONS_LEN: usize = 5 * 8;
const CHECKSUM_LEN: usize = 4;
const ID_LEN_BITS: u32 = 5;

/// The longest abbreviation that the footer can store, in bytes.
pub(crate) const OBJECT_ID_LEN_MAX: u8 = (1 << ID_LEN_BITS) - 1;

impl Version {
    pub(crate) const fn footer_len(self) -> usize {
        self.header_len() + POSITIONS_LEN + CHECKSUM_LEN
    }
}

impl Footer {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        self.header.encode(out);
        assert!(self.object_id_len <= OBJECT_ID_LEN_MAX, "an id's length leaves the position its bits");
        assert!(self.objects <= u64::MAX >> ID_LEN_BITS, "the objects' position leaves the id's length its bits");
        let objects = self.objects << ID_LEN_BITS | u64::from(self.object_id_len);
        for position in [self.ref_index, objects, self.object_index, self.logs, self.log_index] {
            out.extend_from_slice(&position.to_be_bytes());
        }
        let checksum = crc32fast::hash(&out[start..]);
        out.extend_from_slice(&checksum.to_be_bytes());
        debug_assert_eq!(Self::decode(&out[start..], &self.header), Ok(*self), "a footer is read as it was written");
    }

    /// Decodes a footer; fails unless `bytes`, which must have the length of a footer of the header's version, repeat
    /// the header and end with the right checksum.
    pub(crate) fn decode(bytes: &[u8], header: &Header) -> Result<Self, Fault> {
        assert_eq!(bytes.len(), header.version.footer_len(), "the length depends on the version alone");
        if Header::decode(bytes).as_ref() != Ok(header) {
            return Err(Fault::HeaderFooterDiffer);
        }
        let (expected, found) = (
            crc32fast::hash(&bytes[..bytes.len() - CHECKSUM_LEN]),
            (be64(bytes, bytes.len() - 8) & 0xffff_ffff) as u32,
        );
        if expected != found {
            return Err(Fault::Checksum { expected, found });
        }
        let position = |index: usize| be64(bytes, header.len() + 8 * index);
        Ok(Footer {
            header: *header,
            ref_index: position(0),
            objects: position(1) >> ID_LEN_BITS,
            object_id_len: (position(1) & u64::from(OBJECT_ID_LEN_MAX)) as u8,
            object_index: position(2),
            logs: position(3),
            log_index: position(4),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use refdb_types::HashKind;

    #[test]
    fn a_footer_round_trips_and_every_bit_of_it_is_guarded() {
        for (hash, len) in [(HashKind::Sha1, 68), (HashKind::Sha256, 72)] {
            let header = Header::new(hash, 4096, 1, 9);
            let footer = Footer {
                header,
                ref_index: 4096,
                objects: 3 * 4096,
                object_id_len: 31,
                object_index: 0,
                logs: 5 * 4096,
                log_index: 6 * 4096,
            };
            let mut bytes = Vec::new();
            footer.encode(&mut bytes);
            assert_eq!(bytes.len(), len);
            assert_eq!(Footer::decode(&bytes, &header), Ok(footer));
            for bit in 0..len * 8 {
                let mut bad = bytes.clone();
                bad[bit / 8] ^= 1 << (bit % 8);
                assert!(Footer::decode(&bad, &header).is_err(), "bit {bit}");
            }
        }
    }
}
