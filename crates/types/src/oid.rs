use std::fmt;

/// The hash function that names a repository's objects (`extensions.objectFormat`).
// This is as wide as a machine word, so that an `ObjectId` consists of whole words. With 33 bytes, each copy would read
// across two recent stores and wait for them to reach the cache, which slows down the listing of refs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, PartialOrd, Ord)]
#[repr(u64)]
pub enum HashKind {
    /// SHA-1, with ids of 20 bytes. This is git's default.
    #[default]
    Sha1,
    /// SHA-256, with ids of 32 bytes.
    Sha256,
}

impl HashKind {
    /// The number of bytes in an id.
    pub const fn len_bytes(self) -> usize {
        match self {
            HashKind::Sha1 => 20,
            HashKind::Sha256 => 32,
        }
    }

    /// The number of hexadecimal digits in an id.
    pub const fn len_hex(self) -> usize {
        self.len_bytes() * 2
    }

    /// The name that `extensions.objectFormat` uses.
    pub const fn name(self) -> &'static str {
        match self {
            HashKind::Sha1 => "sha1",
            HashKind::Sha256 => "sha256",
        }
    }

    /// Returns the kind that `extensions.objectFormat` names, or `None` if git knows no such kind.
    pub fn from_name(name: &str) -> Option<Self> {
        [HashKind::Sha1, HashKind::Sha256].into_iter().find(|kind| kind.name() == name)
    }
}

/// The id of an object: small, `Copy`, and ordered by its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectId {
    // Bytes beyond the length of the kind stay zero, so that the derived comparisons are correct.
    bytes: [u8; 32],
    kind: HashKind,
}

const _: () = assert!(size_of::<ObjectId>() == 5 * size_of::<u64>() && align_of::<ObjectId>() == align_of::<u64>());

/// The reason why a text is not an object id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum HexError {
    /// The text is longer or shorter than an id of the kind that was asked for.
    Length,
    /// The text contains a byte that is not a hexadecimal digit.
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
    /// Returns the id that stands for "no object": all its bytes are zero.
    pub const fn null(kind: HashKind) -> Self {
        ObjectId { bytes: [0; 32], kind }
    }

    /// Makes an id from its raw bytes. Returns `None` unless there are exactly as many as `kind` has.
    #[inline]
    pub fn from_bytes(kind: HashKind, raw: &[u8]) -> Option<Self> {
        // Both lengths are constants here, so that each copy compiles to a few instructions instead of a call.
        let mut bytes = [0; 32];
        match kind {
            HashKind::Sha1 => bytes[..20].copy_from_slice(<&[u8; 20]>::try_from(raw).ok()?),
            HashKind::Sha256 => bytes.copy_from_slice(<&[u8; 32]>::try_from(raw).ok()?),
        }
        Some(ObjectId { bytes, kind })
    }

    /// Parses an id of full length from hexadecimal digits of either case.
    ///
    /// # Errors
    ///
    /// [`HexError::Length`] if there are more or fewer digits than `kind` has, [`HexError::Digit`] if a byte is not a
    /// hexadecimal digit.
    #[inline]
    pub fn from_hex(kind: HashKind, hex: &[u8]) -> Result<Self, HexError> {
        // The lengths are constants here, as the loops that decode the digits need them to be vectorised.
        let mut bytes = [0; 32];
        let good = match kind {
            HashKind::Sha1 => decode_sha1(hex.try_into().map_err(|_| HexError::Length)?, &mut bytes),
            HashKind::Sha256 => decode_sha256(hex.try_into().map_err(|_| HexError::Length)?, &mut bytes),
        };
        if good { Ok(ObjectId { bytes, kind }) } else { Err(HexError::Digit) }
    }

    /// Returns the raw bytes, as many as the kind has.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.kind.len_bytes()]
    }

    /// Returns the raw bytes, padded with zeros.
    #[inline]
    pub(crate) fn as_array(&self) -> &[u8; 32] {
        &self.bytes
    }

    /// Returns the hash function that this id belongs to.
    pub const fn kind(&self) -> HashKind {
        self.kind
    }

    /// Returns whether this is the id that stands for "no object".
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

// The compiler vectorises these loops over arrays as long as the functions are not inlined. A lookup table would have
// to be read once for each digit.

/// Decodes the digits of a SHA-1, padded with zeros so that whole vector registers are read and written. If the id were
/// stored in smaller pieces, a copy made right afterwards would have to wait for them to reach the cache.
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

/// Decodes hexadecimal digits, and returns whether all of them are digits.
#[inline(always)]
fn decode<const DIGITS: usize, const BYTES: usize>(digits: &[u8; DIGITS], bytes: &mut [u8; BYTES]) -> bool {
    let if_so = |so: bool| if so { 0xff } else { 0 };
    let mut values = [0u8; DIGITS];
    let mut goods = [0u8; DIGITS];
    for at in 0..DIGITS {
        let number = digits[at].wrapping_sub(b'0');
        let letter = (digits[at] | 0x20).wrapping_sub(b'a');
        let (is_number, is_letter) = (if_so(number <= 9), if_so(letter <= 5));
        // The low four bits of a letter, be it small or capital, are its value minus nine.
        values[at] = (digits[at] & 0x0f) + (is_letter & 9);
        goods[at] = is_number | is_letter;
    }
    for at in 0..BYTES {
        let pair = u16::from_le_bytes([values[2 * at], values[2 * at + 1]]);
        bytes[at] = (pair << 4 | pair >> 8) as u8;
    }
    goods.into_iter().fold(0xff, |all, good| all & good) == 0xff
}

/// Encodes bytes as hexadecimal digits.
#[inline(never)]
fn encode<const BYTES: usize>(bytes: &[u8; BYTES]) -> [[u8; 2]; BYTES] {
    bytes.map(|byte| {
        // The high nibble goes into the low byte, the low nibble into the high byte.
        let values = u16::from(byte).wrapping_mul(0x1001) >> 4 & 0x0f0f;
        // Adding 6 carries into the next nibble for values above 9.
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
