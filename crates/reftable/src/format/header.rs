use super::be64;
use crate::Fault;
use refdb_types::HashKind;

/// The version of the format, which decides the lengths of header and footer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Version {
    /// Object ids are of SHA-1; there is no field for the hash function.
    One,
    /// The header names the hash function.
    Two,
}

/// The header of a file, which its footer repeats.
///
/// ```text
/// 0     4     5            8                  16                 24          28
/// | REFT | ver | block size | min update index | max update index | (hash id) |
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Header {
    pub(crate) version: Version,
    pub(crate) hash: HashKind,
    /// The block size, in bytes. refdb writes 0 into a file that is not aligned.
    pub(crate) block_size: u32,
    pub(crate) min_update_index: u64,
    pub(crate) max_update_index: u64,
}

const MAGIC: &[u8; 4] = b"REFT";
const VERSION_AT: usize = MAGIC.len();
const BLOCK_SIZE_AT: usize = VERSION_AT + 1;
const MIN_AT: usize = BLOCK_SIZE_AT + 3;
const MAX_AT: usize = MIN_AT + 8;
const HASH_AT: usize = MAX_AT + 8;
const END: usize = HASH_AT + 4;
const _: () = assert!(HASH_AT == 24 && END == 28, "the header's lengths in versions 1 and 2");

const HASH_SHA1: u32 = u32::from_be_bytes(*b"sha1");
const HASH_SHA256: u32 = u32::from_be_bytes(*b"s256");

impl Version {
    pub(crate) const fn header_len(self) -> usize {
        match self {
            Version::One => HASH_AT,
            Version::Two => END,
        }
    }
}

impl Header {
    /// The length of the longest header, in bytes.
    pub(crate) const MAX_LEN: usize = END;

    /// The header of a new file: of version 1 for SHA-1, since older readers know no other version.
    pub(crate) fn new(hash: HashKind, block_size: u32, min_update_index: u64, max_update_index: u64) -> Self {
        let version = match hash {
            HashKind::Sha1 => Version::One,
            HashKind::Sha256 => Version::Two,
        };
        Header { version, hash, block_size, min_update_index, max_update_index }
    }

    pub(crate) fn len(&self) -> usize {
        self.version.header_len()
    }

    /// The number of bytes that C git reads of a log block which has `inflated` bytes when it is inflated: that number
    /// or the block size, whichever is larger.
    pub(crate) fn log_block_max(&self, inflated: usize) -> usize {
        // Git assumes its default where the header has no block size.
        const GUESS: u32 = crate::WriteOptions::DEFAULT_BLOCK_SIZE;
        let block_size = if self.block_size == 0 { GUESS } else { self.block_size };
        inflated.max(block_size as usize)
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(MAGIC);
        let version: u8 = match self.version {
            Version::One => 1,
            Version::Two => 2,
        };
        assert!(self.block_size >> 24 == 0, "a block size leaves the version its byte: {}", self.block_size);
        out.extend_from_slice(&(u32::from(version) << 24 | self.block_size).to_be_bytes());
        out.extend_from_slice(&self.min_update_index.to_be_bytes());
        out.extend_from_slice(&self.max_update_index.to_be_bytes());
        if self.version == Version::Two {
            let id = match self.hash {
                HashKind::Sha1 => HASH_SHA1,
                HashKind::Sha256 => HASH_SHA256,
            };
            out.extend_from_slice(&id.to_be_bytes());
        }
    }

    /// Decodes the header at the start of `bytes`.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Fault> {
        let too_short = Fault::TooShort(bytes.len() as u64);
        if bytes.get(..VERSION_AT).ok_or(too_short)? != MAGIC {
            return Err(Fault::Magic);
        }
        let version = match *bytes.get(VERSION_AT).ok_or(too_short)? {
            1 => Version::One,
            2 => Version::Two,
            unknown => return Err(Fault::Version(unknown)),
        };
        if bytes.len() < version.header_len() {
            return Err(too_short);
        }
        let hash = match version {
            Version::One => HashKind::Sha1,
            Version::Two => match (be64(bytes, END - 8) & 0xffff_ffff) as u32 {
                HASH_SHA1 => HashKind::Sha1,
                HASH_SHA256 => HashKind::Sha256,
                unknown => return Err(Fault::HashId(unknown)),
            },
        };
        Ok(Header {
            version,
            hash,
            block_size: super::be24(bytes, BLOCK_SIZE_AT),
            min_update_index: be64(bytes, MIN_AT),
            max_update_index: be64(bytes, MAX_AT),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_round_trips_and_has_the_documented_length() {
        for (hash, len) in [(HashKind::Sha1, 24), (HashKind::Sha256, 28)] {
            let header = Header::new(hash, 4096, 7, 1 << 40);
            let mut bytes = Vec::new();
            header.encode(&mut bytes);
            assert_eq!(bytes.len(), len);
            assert_eq!(Header::decode(&bytes), Ok(header));
            for short in 0..len {
                assert!(Header::decode(&bytes[..short]).is_err());
            }
        }
    }

    #[test]
    fn version_two_may_hold_sha1() {
        let mut bytes = Vec::new();
        Header { version: Version::Two, ..Header::new(HashKind::Sha1, 0, 1, 1) }.encode(&mut bytes);
        assert_eq!(Header::decode(&bytes).map(|header| header.hash), Ok(HashKind::Sha1));
        bytes[27] = b'9';
        assert!(matches!(Header::decode(&bytes), Err(Fault::HashId(_))));
    }
}
