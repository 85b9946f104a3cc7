use refdb_types::{HashKind, ObjectId};

/// The first twelve bytes of a pack, gitformat-pack(5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PackHeader {
    /// 2 or 3.
    pub version: u32,
    /// How many objects it says it holds.
    pub objects: u32,
}

/// Why bytes are no pack's header. The texts are git's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PackHeaderError {
    /// The client left.
    #[error("eof before pack header was fully read")]
    End,
    /// It does not begin with `PACK`.
    #[error("protocol error (pack signature mismatch detected)")]
    Signature,
    /// It is of a version that nobody knows.
    #[error("protocol error (pack version unsupported)")]
    Version,
}

impl PackHeader {
    /// Bytes in a header.
    pub const BYTES: usize = 12;

    /// The checksum that ends a pack of version 2 without objects.
    pub fn checksum_of_empty(hash: HashKind) -> ObjectId {
        let text = match hash {
            HashKind::Sha1 => "029d08823bd8a8eab510ad6ac75c823cfd3ed31e",
            HashKind::Sha256 => "7ed890d8a45760f3eecf73045b1d1047085af4776dc683d78eac82203df1993f",
        };
        ObjectId::from_hex(hash, text.as_bytes()).unwrap_or_else(|_| unreachable!("these are the digits of an id"))
    }

    /// Reads it; fewer than [`PackHeader::BYTES`] bytes are all there were.
    pub fn parse(bytes: &[u8]) -> Result<Self, PackHeaderError> {
        let bytes: &[u8; Self::BYTES] = bytes.try_into().map_err(|_| PackHeaderError::End)?;
        let number = |at: usize| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        if !bytes.starts_with(b"PACK") {
            return Err(PackHeaderError::Signature);
        }
        match number(4) {
            version @ 2..=3 => Ok(PackHeader { version, objects: number(8) }),
            _ => Err(PackHeaderError::Version),
        }
    }
}
