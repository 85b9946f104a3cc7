use std::fmt;

/// The hash function that names a repository's objects (`extensions.objectFormat`).
// As wide as a word, so that an id is words only. A copy of 33 bytes reads across what was just stored, and waits until that
// is in the cache. Lists took twice as long.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, PartialOrd, Ord)]
#[repr(u64)]
pub enum HashKind {
    /// 20-byte ids, Git's default.
    #[default]
    Sha1,
    /// 32-byte ids.
    Sha256,
}

impl HashKind {
    /// Bytes in an id.
    pub const fn len_bytes(self) -> usize {
        match self {
            HashKind::Sha1 => 20,
            HashKind::Sha256 => 32,
        }
    }

    /// Hexadecimal digits in an id.
    pub const fn len_hex(self) -> usize {
        self.len_bytes() * 2
    }

    /// The name `extensions.objectFormat` uses.
    pub const fn name(self) -> &'static str {
        match self {
            HashKind::Sha1 => "sha1",
            HashKind::Sha256 => "sha256",
        }
    }

    /// The kind that `extensions.objectFormat` names, if git knows it.
    pub fn from_name(name: &str) -> Option<Self> {
        [HashKind::Sha1, HashKind::Sha256].into_iter().find(|kind| kind.name() == name)
    }
}

/// The name of an object. Small, `Copy`, ordered by its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectId {
    // Bytes past the kind's length stay zero, so that the derived comparisons are right.
    bytes: [u8; 32],
    kind: HashKind,
}

const _: () = assert!(size_of::<ObjectId>() == 5 * size_of::<u64>() && align_of::<ObjectId>() == align_of::<u64>());

/// Why a text is not an object id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HexError {
    /// Neither 40 nor 64 digits, or not the length the repository uses.
    Length,
    /// A byte that is no hexadecimal digit.
    Digit,
}

impl fmt::Display for HexError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            HexError::Length => "an object id has 40 hexadecimal digits with SHA-1, and 64 with SHA-256",
            HexError::Digit => "an object id has hexadecimal digits only",
        })
    }
}

impl std::error::Error for HexError {}

impl ObjectId {
    /// The id that stands for "no object".
    pub const fn null(kind: HashKind) -> Self {
        ObjectId { bytes: [0; 32], kind }
    }

    /// The id with these raw bytes; `None` if there are not exactly as many as `kind` has.
    #[inline]
    pub fn from_bytes(kind: HashKind, raw: &[u8]) -> Option<Self> {
        // Both lengths are known when this is compiled, which makes the copies a few instructions and no call.
        let mut bytes = [0; 32];
        match kind {
            HashKind::Sha1 => bytes[..20].copy_from_slice(<&[u8; 20]>::try_from(raw).ok()?),
            HashKind::Sha256 => bytes.copy_from_slice(<&[u8; 32]>::try_from(raw).ok()?),
        }
        Some(ObjectId { bytes, kind })
    }

    /// Reads a full-length id from hexadecimal digits of either case.
    #[inline]
    pub fn from_hex(kind: HashKind, hex: &[u8]) -> Result<Self, HexError> {
        // Lengths that are known when this is compiled.
        let mut bytes = [0; 32];
        let good = match kind {
            HashKind::Sha1 => decode_sha1(hex.try_into().map_err(|_| HexError::Length)?, &mut bytes),
            HashKind::Sha256 => decode_sha256(hex.try_into().map_err(|_| HexError::Length)?, &mut bytes),
        };
        if good { Ok(ObjectId { bytes, kind }) } else { Err(HexError::Digit) }
    }

    /// The raw bytes, as many as the kind has.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.kind.len_bytes()]
    }

    /// The raw bytes, filled up with zeros.
    #[inline]
    pub(crate) fn as_array(&self) -> &[u8; 32] {
        &self.bytes
    }

    /// The hash function this id comes from.
    pub const fn kind(&self) -> HashKind {
        self.kind
    }

    /// Whether this is the id that stands for "no object".
    pub fn is_null(&self) -> bool {
        self.bytes == [0; 32]
    }

    /// Appends the id as lower-case hexadecimal digits.
    #[inline]
    pub fn write_hex(&self, out: &mut Vec<u8>) {
        match self.kind {
            HashKind::Sha1 => {
                let mut bytes = [0; 24];
                bytes.copy_from_slice(&self.bytes[..24]);
                out.extend_from_slice(&encode(&bytes).as_flattened()[..40]);
            }
            HashKind::Sha256 => out.extend_from_slice(encode(&self.bytes).as_flattened()),
        }
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_bytes().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

// The compiler makes vector instructions of these loops over arrays, as long as the functions stay by themselves. A table
// would be asked digit by digit.

/// Reads the digits of a SHA-1, filled up with zeros to whole vector registers, and writes whole ones. A copy of an id
/// that was just stored in other pieces waits until it is in the cache.
#[inline(never)]
fn decode_sha1(digits: &[u8; 40], bytes: &mut [u8; 32]) -> bool {
    let Some((head, rest)) = digits.split_first_chunk::<32>() else { return false };
    let mut tail = [b'0'; 32];
    for (digit, rest) in tail.iter_mut().zip(rest) {
        *digit = *rest;
    }
    let (first, last) = bytes.split_at_mut(16);
    match (first.first_chunk_mut(), last.first_chunk_mut()) {
        (Some(first), Some(last)) => decode::<32, 16>(head, first) & decode::<32, 16>(&tail, last),
        _ => false,
    }
}

#[inline(never)]
fn decode_sha256(digits: &[u8; 64], bytes: &mut [u8; 32]) -> bool {
    decode::<64, 32>(digits, bytes)
}

/// Reads hexadecimal digits. Returns whether all of them were digits.
#[inline(always)]
fn decode<const DIGITS: usize, const BYTES: usize>(digits: &[u8; DIGITS], bytes: &mut [u8; BYTES]) -> bool {
    let if_so = |so: bool| if so { 0xff } else { 0 };
    let mut values = [0u8; DIGITS];
    let mut goods = [0u8; DIGITS];
    for at in 0..DIGITS {
        let number = digits[at].wrapping_sub(b'0');
        let letter = (digits[at] | 0x20).wrapping_sub(b'a');
        let (is_number, is_letter) = (if_so(number <= 9), if_so(letter <= 5));
        // A letter's last four bits are its value less nine, in either case.
        values[at] = (digits[at] & 0x0f) + (is_letter & 9);
        goods[at] = is_number | is_letter;
    }
    for at in 0..BYTES {
        let pair = u16::from_le_bytes([values[2 * at], values[2 * at + 1]]);
        bytes[at] = (pair << 4 | pair >> 8) as u8;
    }
    goods.into_iter().fold(0xff, |all, good| all & good) == 0xff
}

/// Writes hexadecimal digits.
#[inline(never)]
fn encode<const BYTES: usize>(bytes: &[u8; BYTES]) -> [[u8; 2]; BYTES] {
    bytes.map(|byte| {
        // The high half in the low byte, the low half in the high one.
        let values = u16::from(byte).wrapping_mul(0x1001) >> 4 & 0x0f0f;
        // Adding 6 carries for those above 9.
        let letters = (values + 0x0606) >> 4 & 0x0101;
        (values + u16::from(b'0') * 0x0101 + letters * u16::from(b'a' - b'0' - 10)).to_le_bytes()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_round_trips_in_both_kinds() {
        for kind in [HashKind::Sha1, HashKind::Sha256] {
            let raw: Vec<u8> = (0..kind.len_bytes() as u8).map(|i| i.wrapping_mul(37)).collect();
            let id = ObjectId::from_bytes(kind, &raw).unwrap();
            let mut hex = Vec::new();
            id.write_hex(&mut hex);
            assert_eq!(hex, id.to_string().into_bytes());
            assert_eq!(ObjectId::from_hex(kind, &hex), Ok(id));
            assert_eq!(ObjectId::from_hex(kind, &hex.to_ascii_uppercase()), Ok(id));
        }
    }

    #[test]
    fn what_is_not_hex_is_refused_wherever_it_stands() {
        let good = [b'a'; 40];
        for at in 0..40 {
            for bad in (0..=255u8).filter(|byte| !byte.is_ascii_hexdigit()) {
                let mut hex = good;
                hex[at] = bad;
                assert_eq!(ObjectId::from_hex(HashKind::Sha1, &hex), Err(HexError::Digit));
            }
        }
        assert_eq!(ObjectId::from_hex(HashKind::Sha1, &good[..39]), Err(HexError::Length));
        assert_eq!(ObjectId::from_hex(HashKind::Sha256, &good), Err(HexError::Length));
    }
}
