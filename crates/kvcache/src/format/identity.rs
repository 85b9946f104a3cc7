//! The `format` file: version and identity of a cache, and the secrets of an encrypted one.

use crate::{
    error::{Error, Result},
    format::{
        record::FORMAT_VERSION,
        seal::{self, Key, Sealer, Secret, WRAPPED_BYTES},
    },
    regular_file,
};
use refdb_vfs::Fs;
use std::path::{Path, PathBuf};

const MAGIC: [u8; 8] = *b"refdbkvF";
const BYTES: usize = 128;
const WRAPPED_AT: usize = 32;
const CRC_AT: usize = BYTES - 4;
const _: () = assert!(WRAPPED_AT + WRAPPED_BYTES <= CRC_AT);

/// Content of the `format` file.
struct Identity {
    /// Random number that identifies the cache and, unless the cache is encrypted, seeds the hash of its keys.
    store: u64,
    wrapped: Option<[u8; WRAPPED_BYTES]>,
}

impl Identity {
    fn encode(&self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes[12] = u8::from(self.wrapped.is_some());
        bytes[16..24].copy_from_slice(&self.store.to_le_bytes());
        if let Some(wrapped) = &self.wrapped {
            bytes[WRAPPED_AT..WRAPPED_AT + WRAPPED_BYTES].copy_from_slice(wrapped);
        }
        let crc = crc32c::crc32c(&bytes[..CRC_AT]);
        bytes[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8], path: &Path) -> Result<Self> {
        let corrupt = |offset, what: &str| Error::Corrupt { path: path.to_owned(), offset, what: what.into() };
        if bytes.get(..8) != Some(&MAGIC) {
            return Err(corrupt(0, "not the format file of a cache"));
        }
        let found = bytes.get(8..12).and_then(|field| field.try_into().ok()).map(u32::from_le_bytes);
        match found {
            Some(FORMAT_VERSION) => {}
            Some(found) if found < FORMAT_VERSION => {
                return Err(Error::OldVersion { path: path.to_owned(), found, known: FORMAT_VERSION });
            }
            Some(found) => return Err(Error::Version { path: path.to_owned(), found, known: FORMAT_VERSION }),
            None => return Err(corrupt(8, "the format file is cut short")),
        }
        let Ok(bytes) = <&[u8; BYTES]>::try_from(bytes) else {
            return Err(corrupt(bytes.len() as u64, "the format file has another length than 128 bytes"));
        };
        if bytes[CRC_AT..] != crc32c::crc32c(&bytes[..CRC_AT]).to_le_bytes() {
            return Err(corrupt(CRC_AT as u64, "the checksum of the format file is wrong"));
        }
        let mut store = [0; 8];
        store.copy_from_slice(&bytes[16..24]);
        let mut wrapped = [0; WRAPPED_BYTES];
        wrapped.copy_from_slice(&bytes[WRAPPED_AT..WRAPPED_AT + WRAPPED_BYTES]);
        Ok(Identity { store: u64::from_le_bytes(store), wrapped: (bytes[12] == 1).then_some(wrapped) })
    }
}

/// Identity of a cache, and the means to read its entries.
pub(crate) struct Opened {
    pub(crate) store: u64,
    pub(crate) sealer: Sealer,
    /// Why the `format` file, and with it the cache's entries, could not be used; `None` if there was no such file or
    /// if it is used.
    pub(crate) started_anew: Option<Error>,
}

/// Reads the `format` file, at most one byte beyond its regular length, so that a longer file is noticed.
fn read_file(fs: &Fs, path: &Path) -> refdb_vfs::Result<Vec<u8>> {
    regular_file::read(fs, path, BYTES as u64 + 1)
}

fn path_in(dir: &Path) -> PathBuf {
    dir.join("format")
}

fn io(path: &Path, source: std::io::Error) -> Error {
    Error::File(refdb_vfs::Error { operation: "make a key for", path: path.to_owned(), source })
}

/// Reads the `format` file without changing anything; every mismatch is an error.
pub(crate) fn read(fs: &Fs, dir: &Path, key: Option<&Key>) -> Result<Opened> {
    let path = path_in(dir);
    let identity = Identity::decode(&read_file(fs, &path)?, &path)?;
    let sealer = match (&identity.wrapped, key) {
        (None, None) => Sealer::Plain { seed: identity.store },
        (Some(wrapped), Some(key)) => match seal::unwrap(wrapped, key) {
            Some(secret) => Sealer::encrypted(&secret),
            None => return Err(Error::WrongKey { path }),
        },
        _ => return Err(Error::WrongKey { path }),
    };
    Ok(Opened { store: identity.store, sealer, started_anew: None })
}

/// The identity of the cache, for programs that examine its files without its key.
pub(crate) fn store_of(fs: &Fs, dir: &Path) -> Result<u64> {
    let path = path_in(dir);
    Ok(Identity::decode(&read_file(fs, &path)?, &path)?.store)
}

/// Returns whether the cache in a folder is encrypted.
pub(crate) fn is_encrypted(fs: &Fs, dir: &Path) -> Result<bool> {
    let path = path_in(dir);
    Ok(Identity::decode(&read_file(fs, &path)?, &path)?.wrapped.is_some())
}

/// Reads the `format` file for a writer, or creates it. If `key` is given and does not fit but an old key does, `key`
/// replaces the old one.
///
/// A cache is given a new identity, which makes all its segments foreign, if none of the keys fits, if only one of the
/// cache and the caller has a key, or if the file is damaged or was written by an older program.
pub(crate) fn read_or_create(fs: &Fs, dir: &Path, key: Option<&Key>, old_keys: &[Key]) -> Result<Opened> {
    match read(fs, dir, key) {
        Err(Error::File(error)) if error.is_not_found() => create(fs, dir, key, None),
        Err(error @ Error::WrongKey { .. }) => match (key, unwrap_with_any(fs, dir, old_keys)?) {
            (Some(key), Some((store, secret))) => {
                write(fs, dir, &Identity { store, wrapped: Some(wrap(dir, &secret, key)?) })?;
                Ok(Opened { store, sealer: Sealer::encrypted(&secret), started_anew: None })
            }
            _ => create(fs, dir, key, Some(error)),
        },
        Err(error @ (Error::Corrupt { .. } | Error::OldVersion { .. })) => create(fs, dir, key, Some(error)),
        other => other,
    }
}

fn unwrap_with_any(fs: &Fs, dir: &Path, keys: &[Key]) -> Result<Option<(u64, Secret)>> {
    let path = path_in(dir);
    let Identity { store, wrapped } = Identity::decode(&read_file(fs, &path)?, &path)?;
    let secret = wrapped.and_then(|wrapped| keys.iter().find_map(|key| seal::unwrap(&wrapped, key)));
    Ok(secret.map(|secret| (store, secret)))
}

fn wrap(dir: &Path, secret: &Secret, key: &Key) -> Result<[u8; WRAPPED_BYTES]> {
    seal::wrap(secret, key).map_err(|error| io(dir, error))
}

fn create(fs: &Fs, dir: &Path, key: Option<&Key>, started_anew: Option<Error>) -> Result<Opened> {
    let mut store = [0; 8];
    seal::random(&mut store).map_err(|error| io(dir, error))?;
    let store = u64::from_le_bytes(store);
    let (wrapped, sealer) = match key {
        None => (None, Sealer::Plain { seed: store }),
        Some(key) => {
            let secret = seal::new_secret().map_err(|error| io(dir, error))?;
            (Some(wrap(dir, &secret, key)?), Sealer::encrypted(&secret))
        }
    };
    write(fs, dir, &Identity { store, wrapped })?;
    Ok(Opened { store, sealer, started_anew })
}

fn write(fs: &Fs, dir: &Path, identity: &Identity) -> Result<()> {
    let temp = dir.join("format.tmp");
    match fs.remove_file(&temp) {
        Err(error) if !error.is_not_found() => return Err(error.into()),
        _ => {}
    }
    let mut file = fs.create_new(&temp, 0o600)?;
    file.write_all(&identity.encode())?;
    file.sync()?;
    fs.rename(&temp, &path_in(dir))?;
    fs.sync_dir(dir)?;
    Ok(())
}
