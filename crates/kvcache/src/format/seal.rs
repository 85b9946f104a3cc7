//! Encryption of keys and values, and the hash of a key.

use crate::format::record::{EXTRA_BYTES, NONCE_BYTES, RECORD_HEADER_BYTES, RecordHeader, TAG_BYTES};
use chacha20poly1305::{AeadInOut, KeyInit, Tag, XChaCha20Poly1305, XNonce};
use siphasher::sip::SipHasher24;
use std::hash::Hasher as _;
use zeroize::Zeroizing;

/// Length of the secrets of a cache: 32 bytes for the cipher, 16 for the hash.
pub(crate) const SECRET_BYTES: usize = 48;
/// Length of the encrypted secrets in the `format` file.
pub(crate) const WRAPPED_BYTES: usize = SECRET_BYTES + EXTRA_BYTES;

/// A key for an encrypted cache. It encrypts the cache's own secrets, so that the key can be changed without
/// rewriting entries. The key is erased from memory when dropped, and `Debug` does not show it.
#[derive(Clone)]
pub struct Key(Zeroizing<[u8; 32]>);

impl Key {
    /// A key of 32 bytes, which must come from a cryptographic source of randomness.
    pub fn new(bytes: [u8; 32]) -> Self {
        Key(Zeroizing::new(bytes))
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(secret)")
    }
}

/// The secrets of a cache.
pub(crate) type Secret = Zeroizing<[u8; SECRET_BYTES]>;

pub(crate) fn random(bytes: &mut [u8]) -> std::io::Result<()> {
    getrandom::fill(bytes).map_err(|error| std::io::Error::other(error.to_string()))
}

pub(crate) fn new_secret() -> std::io::Result<Secret> {
    let mut secret = Zeroizing::new([0; SECRET_BYTES]);
    random(secret.as_mut_slice())?;
    Ok(secret)
}

fn cipher(key: &[u8; 32]) -> XChaCha20Poly1305 {
    XChaCha20Poly1305::new(key.into())
}

/// Encrypts the secrets with the user's key.
pub(crate) fn wrap(secret: &Secret, key: &Key) -> std::io::Result<[u8; WRAPPED_BYTES]> {
    let mut bytes = [0; WRAPPED_BYTES];
    bytes[NONCE_BYTES..NONCE_BYTES + SECRET_BYTES].copy_from_slice(secret.as_slice());
    encrypt_in_place(&cipher(&key.0), b"secret", &mut bytes)?;
    Ok(bytes)
}

/// Decrypts the secrets, if this is the key with which they were encrypted.
pub(crate) fn unwrap(wrapped: &[u8; WRAPPED_BYTES], key: &Key) -> Option<Secret> {
    let mut bytes = Zeroizing::new(*wrapped);
    decrypt_in_place(&cipher(&key.0), b"secret", bytes.as_mut_slice())?;
    let mut secret = Zeroizing::new([0; SECRET_BYTES]);
    secret.copy_from_slice(&bytes[NONCE_BYTES..NONCE_BYTES + SECRET_BYTES]);
    Some(secret)
}

/// Encrypts the bytes between the room for the nonce and the room for the tag, and fills in both.
fn encrypt_in_place(cipher: &XChaCha20Poly1305, context: &[u8], bytes: &mut [u8]) -> std::io::Result<()> {
    let (nonce, rest) = bytes.split_first_chunk_mut::<NONCE_BYTES>().expect("there is room for the nonce");
    random(nonce)?;
    let (text, room) = rest.split_last_chunk_mut::<TAG_BYTES>().expect("there is room for the tag");
    let tag = cipher
        .encrypt_inout_detached(&XNonce::from(*nonce), context, text.into())
        .map_err(|_| std::io::Error::other("the entry is too large to encrypt"))?;
    room.copy_from_slice(&tag);
    Ok(())
}

fn decrypt_in_place(cipher: &XChaCha20Poly1305, context: &[u8], bytes: &mut [u8]) -> Option<()> {
    let (nonce, rest) = bytes.split_first_chunk_mut::<NONCE_BYTES>()?;
    let (text, tag) = rest.split_last_chunk_mut::<TAG_BYTES>()?;
    cipher.decrypt_inout_detached(&XNonce::from(*nonce), context, text.into(), &Tag::from(*tag)).ok()
}

/// Hashes keys, and encrypts records if the cache is encrypted.
pub(crate) enum Sealer {
    /// Hashes with the cache's random seed.
    Plain { seed: u64 },
    /// Hashes with a secret key, so that the hashes in footers do not tell whether a guessed key is stored.
    Encrypted { cipher: Box<XChaCha20Poly1305>, hash_key: Zeroizing<[u8; 16]> },
}

impl Sealer {
    pub(crate) fn encrypted(secret: &Secret) -> Self {
        let (mut key, mut hash_key) = (Zeroizing::new([0; 32]), Zeroizing::new([0; 16]));
        key.copy_from_slice(&secret[..32]);
        hash_key.copy_from_slice(&secret[32..]);
        Sealer::Encrypted { cipher: Box::new(cipher(&key)), hash_key }
    }

    pub(crate) fn is_encrypted(&self) -> bool {
        matches!(self, Sealer::Encrypted { .. })
    }

    /// The hash of a key in the index, which is never 0.
    pub(crate) fn hash(&self, key: &[u8]) -> u64 {
        let hash = match self {
            Sealer::Plain { seed } => twox_hash::XxHash3_64::oneshot_with_seed(*seed, key),
            Sealer::Encrypted { hash_key, .. } => {
                let mut hasher = SipHasher24::new_with_key(hash_key);
                hasher.write(key);
                hasher.finish()
            }
        };
        hash.max(1)
    }

    /// Appends the payload of a record (key and value, encrypted if the cache is) to the header in `record`.
    pub(crate) fn seal(&self, record: &mut Vec<u8>, key: &[u8], value: &[u8]) -> std::io::Result<()> {
        debug_assert_eq!(record.len(), RECORD_HEADER_BYTES, "the header precedes the payload");
        match self {
            Sealer::Plain { .. } => {
                record.extend_from_slice(key);
                record.extend_from_slice(value);
                Ok(())
            }
            Sealer::Encrypted { cipher, .. } => {
                let start = record.len();
                record.resize(start + NONCE_BYTES, 0);
                record.extend_from_slice(key);
                record.extend_from_slice(value);
                record.resize(record.len() + TAG_BYTES, 0);
                let (header, payload) = record.split_at_mut(start);
                encrypt_in_place(cipher, context(header), payload)
            }
        }
    }

    /// Decrypts a checked record in place, if the cache is encrypted, and returns the offsets of key and value. `None`
    /// if the record was encrypted with another secret or changed since, or if only one of record and cache is
    /// encrypted.
    pub(crate) fn open(&self, header: &RecordHeader, record: &mut [u8]) -> Option<(usize, usize)> {
        let start = crate::format::record::RECORD_HEADER_BYTES;
        match self {
            Sealer::Plain { .. } => (!header.encrypted).then_some((start, start + header.key_len as usize)),
            Sealer::Encrypted { cipher, .. } => {
                let end = start + header.payload_len();
                let (head, payload) = record.get_mut(..end)?.split_at_mut(start);
                if !header.encrypted {
                    return None;
                }
                decrypt_in_place(cipher, context(head), payload)?;
                let start = start + NONCE_BYTES;
                Some((start, start + header.key_len as usize))
            }
        }
    }
}

/// The part of the header that the tag covers: the hash, the time of creation and the lengths. What precedes them is
/// left out, because it contains the checksum, which depends on the place of the record.
fn context(header: &[u8]) -> &[u8] {
    header.get(8..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_comes_back_with_its_key_only() {
        let secret = new_secret().unwrap();
        let wrapped = wrap(&secret, &Key::new([1; 32])).unwrap();
        assert_eq!(unwrap(&wrapped, &Key::new([1; 32])), Some(secret));
        assert_eq!(unwrap(&wrapped, &Key::new([2; 32])), None);
        assert_eq!(format!("{:?}", Key::new([7; 32])), "Key(secret)");
    }
}
