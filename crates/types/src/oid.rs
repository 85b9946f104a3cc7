use std::fmt;

/// The hash function that names a repository's objects (`extensions.objectFormat`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, PartialOrd, Ord)]
#[repr(u8)]
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

/// Why a text is not an object id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HexError {
    /// Neither 40 nor 64 digits, or not the length the repository uses.
    Length,
    /// A byte that is no hexadecimal digit.
    Digit,
}

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
        // Filled up with zeros to whole vector registers; the lengths are known when this is compiled.
        let mut digits = [b'0'; 64];
        match kind {
            HashKind::Sha1 => {
                digits[..40].copy_from_slice(<&[u8; 40]>::try_from(hex).map_err(|_| HexError::Length)?);
            }
            HashKind::Sha256 => digits.copy_from_slice(<&[u8; 64]>::try_from(hex).map_err(|_| HexError::Length)?),
        }
        let (bytes, good) = decode(&digits);
        if good { Ok(ObjectId { bytes, kind }) } else { Err(HexError::Digit) }
    }

    /// The raw bytes, as many as the kind has.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.kind.len_bytes()]
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
        // All 32 bytes, whatever the kind, and no table: the compiler makes vector instructions of this.
        let mut hex = [0; 64];
        for (pair, byte) in hex.chunks_exact_mut(2).zip(self.bytes) {
            pair[0] = digit(byte >> 4);
            pair[1] = digit(byte & 0xf);
        }
        out.extend_from_slice(&hex[..self.kind.len_hex()]);
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

/// Reads hexadecimal digits, all at once: the compiler makes vector instructions of these loops over arrays, where a
/// table would be read digit by digit. Also returns whether all of them were digits.
#[inline]
fn decode(digits: &[u8; 64]) -> ([u8; 32], bool) {
    let mut values = [0u8; 64];
    let mut faults = [0u8; 64];
    for at in 0..64 {
        let digit = digits[at];
        // 0x40 tells letters (0x41 or 0x61 for a) from numbers (0x30 for 0).
        let letter = digit >> 6 & 1;
        let value = (digit & 0xf).wrapping_add(letter.wrapping_mul(9));
        let high = digit & 0xf0 & !(letter << 5);
        // A number is below 10 and a letter's value from 10 to 15: adding 6 carries for letters only.
        let carry = (value.wrapping_add(6) ^ letter << 4 | value) & 0x10;
        faults[at] = high ^ 0x30u8.wrapping_add(letter << 4) | carry;
        values[at] = value;
    }
    let mut bytes = [0u8; 32];
    for at in 0..32 {
        bytes[at] = values[2 * at] << 4 | values[2 * at + 1];
    }
    let mut all = 0;
    for fault in faults {
        all |= fault;
    }
    (bytes, all == 0)
}

fn digit(value: u8) -> u8 {
    value + b'0' + if value > 9 { b'a' - b'0' - 10 } else { 0 }
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
