use refdb_types::{HashKind, ObjectId};

/// The header of a pack, which is its first twelve bytes; see gitformat-pack(5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PackHeader {
    /// The version of the format: 2 or 3.
    pub version: u32,
    /// The number of objects that follow, according to the header.
    pub objects: u32,
}

/// Why bytes are not the header of a pack. The messages are git's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PackHeaderError {
    /// The number of bytes is not that of a header, usually because the client disconnected.
    #[error("eof before pack header was fully read")]
    End,
    /// The bytes do not begin with `PACK`.
    #[error("protocol error (pack signature mismatch detected)")]
    Signature,
    /// The version is neither 2 nor 3.
    #[error("protocol error (pack version unsupported)")]
    Version,
}

impl PackHeader {
    /// The length of a header in bytes.
    pub const BYTES: usize = 12;

    /// Returns the checksum with which a pack of version 2 ends if it has no objects.
    pub fn checksum_of_empty(hash: HashKind) -> ObjectId {
        let text = match hash {
            HashKind::Sha1 => "029d08823bd8a8eab510ad6ac75c823cfd3ed31e",
            HashKind::Sha256 => "7ed890d8a45760f3eecf73045b1d1047085af4776dc683d78eac82203df1993f",
        };
        ObjectId::from_hex(hash, text.as_bytes()).unwrap_or_else(|_| unreachable!("these are the digits of an id"))
    }

    /// Parses a header from exactly [`PackHeader::BYTES`] bytes.
    ///
    /// # Errors
    ///
    /// Returns [`PackHeaderError::End`] for any other number of bytes, and the other errors for bytes that are not a
    /// header.
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
