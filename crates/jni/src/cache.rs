//! The persistent key-value cache: the entry points of `org.refdb.engine.CacheNatives`.

mod tools;
mod transfer;

use crate::{
    buffer::Lent,
    call::{bytes_of, call, new_array, quick_call},
    failure::{Failure, Kind},
    handle::Handles,
    wire::{Answer, Request},
};
use jni::{
    Env, EnvUnowned,
    objects::{JByteArray, JByteBuffer, JClass},
    sys::{jboolean, jint, jlong},
};
use refdb_kvcache::{Cache, Durability, Error, Get, Key, Options, Put, PutOptions, clean_versions, version_dir};
use std::{path::PathBuf, time::Duration};

static CACHES: Handles<Cache> = Handles::new("the cache");

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let kind = match &error {
            Error::File(_) | Error::WriteFailed { .. } | Error::Encryption(_) => Kind::Io,
            Error::Locked { .. } => Kind::Locked,
            Error::Corrupt { .. } => Kind::Corrupt,
            Error::Closed => return Failure::Closed("the cache"),
            _ => Kind::Refused,
        };
        Failure::engine(kind, error.to_string())
    }
}

/// Opens a cache. The request has the cache's root, name, version, limit in bytes, maximum age in milliseconds or -1,
/// key and older keys, and whether the cache is opened read-only.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_refdb_engine_CacheNatives_open<'l>(
    env: EnvUnowned<'l>,
    _class: JClass<'l>,
    request: JByteArray<'l>,
) -> jlong {
    call(env, |env| {
        let bytes = bytes_of(env, &request)?;
        let mut request = Request::new(&bytes);
        let dir = folder(&mut request)?;
        let mut options = Options::new(request.u64()?);
        options.max_age = u64::try_from(request.u64()? as i64).ok().map(Duration::from_millis);
        options.key = key(request.bytes()?)?;
        for _ in 0..request.u32()? {
            options.old_keys.extend(key(request.bytes()?)?);
        }
        let cache = match request.u8()? {
            0 => Cache::open(&dir, options)?,
            _ => Cache::open_read_only(&dir, options.key.as_ref())?,
        };
        CACHES.insert(cache)
    })
}

fn folder(request: &mut Request<'_>) -> Result<PathBuf, Failure> {
    let root = request.path()?;
    let name = text(request.bytes()?)?;
    Ok(version_dir(&root, name, request.u32()?))
}

fn text(bytes: &[u8]) -> Result<&str, Failure> {
    std::str::from_utf8(bytes).map_err(|_| Failure::Malformed("a name is not UTF-8"))
}

fn key(bytes: &[u8]) -> Result<Option<Key>, Failure> {
    match <[u8; 32]>::try_from(bytes) {
        Ok(key) => Ok(Some(Key::new(key))),
        Err(_) if bytes.is_empty() => Ok(None),
        Err(_) => Err(Failure::Malformed("a key has not 32 bytes")),
    }
}

/// Closes a cache as [`Cache::close`] does. Does nothing if it is closed already.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_refdb_engine_CacheNatives_close<'l>(
    env: EnvUnowned<'l>,
    _class: JClass<'l>,
    handle: jlong,
) {
    call(env, |_| Ok(CACHES.remove(handle).map_or(Ok(()), |cache| cache.close())?))
}

/// Returns the address of a direct buffer that Java allocated as an [`Exchange`].
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_refdb_engine_CacheNatives_addressOf<'l>(
    env: EnvUnowned<'l>,
    _class: JClass<'l>,
    buffer: JByteBuffer<'l>,
) -> jlong {
    call(env, |env| Exchange::address_of(env, &buffer))
}

/// Looks up the key at the start of an exchange buffer. Puts the value's time of creation behind the key, in 8
/// little-endian bytes, and the value behind that. Puts neither if the value does not fit into the buffer or is longer
/// than `SHORT_VALUE_BYTES`. Returns the length of the value, or -1 if there is none.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_refdb_engine_CacheNatives_get<'l>(
    env: EnvUnowned<'l>,
    _class: JClass<'l>,
    handle: jlong,
    mut exchange: Exchange,
    key_len: jint,
) -> jint {
    quick_call(env, || {
        let cache = CACHES.get(handle)?;
        let (key, room) = split(exchange.bytes()?, key_len)?;
        let (created, room) = split(room, CREATED_BYTES as jint)?;
        match cache.get_up_to(key, room.len().min(SHORT_VALUE_BYTES), |value, created_ms| {
            created.copy_from_slice(&created_ms.to_le_bytes());
            room[..value.len()].copy_from_slice(value);
            value.len() as jint
        }) {
            Get::Found(len) => Ok(len),
            Get::Larger(len) => jint::try_from(len).map_err(|_| Failure::TooLarge(len)),
            Get::None => Ok(NOT_FOUND),
        }
    })
}

/// Looks up a value of any length, which is copied straight into a new array. Returns null if there is none.
///
/// The time of creation is put behind the key in the exchange buffer, or at the start of the buffer if the key is so
/// long that it is passed in `long_key`.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_refdb_engine_CacheNatives_getArray<'l>(
    env: EnvUnowned<'l>,
    _class: JClass<'l>,
    handle: jlong,
    mut exchange: Exchange,
    key_len: jint,
    long_key: JByteArray<'l>,
) -> JByteArray<'l> {
    call(env, |env| {
        let cache = CACHES.get(handle)?;
        let long_key = if long_key.is_null() { None } else { Some(bytes_of(env, &long_key)?) };
        let key_len = if long_key.is_some() { 0 } else { key_len };
        let (key, room) = split(exchange.bytes()?, key_len)?;
        let (created, _) = split(room, CREATED_BYTES as jint)?;
        let found = cache.get_with(long_key.as_deref().unwrap_or(key), |value, created_ms| {
            created.copy_from_slice(&created_ms.to_le_bytes());
            new_array(env, value)
        });
        found.unwrap_or_else(|| Ok(JByteArray::null()))
    })
}

const NOT_FOUND: jint = -1;
/// Longer values are returned in an array of their own, which costs less than copying them twice. `Cache.java` has the
/// same number.
const SHORT_VALUE_BYTES: usize = 16 << 10;
/// Number of bytes that a time of creation takes.
const CREATED_BYTES: usize = 8;
/// The buffer for keys and values. `Exchange.java` has the same length.
type Exchange = Lent<{ 64 << 10 }>;

/// Splits a buffer after `len` bytes.
fn split(bytes: &mut [u8], len: jint) -> Result<(&mut [u8], &mut [u8]), Failure> {
    let at = usize::try_from(len).ok().and_then(|len| bytes.split_at_mut_checked(len));
    at.ok_or(Failure::Malformed("a length beyond the buffer"))
}

/// The results of a put, as the numbers that `Cache.put` expects.
const STORED: jint = 0;
const REFUSED: jint = 1;
const NO_ROOM: jint = 2;
/// A flag beside the durability: the put waits neither for room nor for the disk, and stores nothing if there is no
/// room.
const AT_ONCE: jint = 4;

/// Puts a value. The exchange buffer has the key, and the value behind it. If the value is too large for the cache, it
/// is refused and the key's older value is removed.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_refdb_engine_CacheNatives_put<'l>(
    env: EnvUnowned<'l>,
    _class: JClass<'l>,
    handle: jlong,
    mut exchange: Exchange,
    key_len: jint,
    value_len: jint,
    created: jlong,
    durability: jint,
) -> jint {
    quick_call(env, || {
        let cache = CACHES.get(handle)?;
        let (key, rest) = split(exchange.bytes()?, key_len)?;
        let (value, _) = split(rest, value_len)?;
        put(&cache, key, value, created, durability)
    })
}

/// Puts a value that does not fit into an exchange buffer together with its key.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_refdb_engine_CacheNatives_putLarge<'l>(
    env: EnvUnowned<'l>,
    _class: JClass<'l>,
    handle: jlong,
    key: JByteArray<'l>,
    value: JByteArray<'l>,
    created: jlong,
    durability: jint,
) -> jint {
    call(env, |env| {
        let cache = CACHES.get(handle)?;
        put(&cache, &bytes_of(env, &key)?, &bytes_of(env, &value)?, created, durability)
    })
}

fn put(cache: &Cache, key: &[u8], value: &[u8], created: jlong, durability: jint) -> Result<jint, Failure> {
    let at_once = durability & AT_ONCE != 0;
    let durability = durability_of(durability & !AT_ONCE)?;
    let created_ms = u64::try_from(created).ok();
    let options = PutOptions::new().created_ms(created_ms).durability(durability).at_once(at_once);
    match cache.put_with(key, value, options) {
        Ok(Put::Stored) => Ok(STORED),
        Ok(Put::Refused) if at_once => Ok(NO_ROOM),
        Ok(Put::Refused | Put::Stale) => Ok(REFUSED),
        Err(Error::TooLarge { .. }) => Ok(REFUSED),
        Err(error) => Err(error.into()),
    }
}

/// Removes a key. Returns whether the key was found to have a value; see `Cache.remove` in Java.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_refdb_engine_CacheNatives_remove<'l>(
    env: EnvUnowned<'l>,
    _class: JClass<'l>,
    handle: jlong,
    key: JByteArray<'l>,
    durability: jint,
) -> jboolean {
    call(env, |env| {
        let cache = CACHES.get(handle)?;
        Ok(cache.remove_with(&bytes_of(env, &key)?, durability_of(durability)?)?)
    })
}

/// Removes all entries.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_refdb_engine_CacheNatives_clear<'l>(
    env: EnvUnowned<'l>,
    _class: JClass<'l>,
    handle: jlong,
    durability: jint,
) {
    call(env, |_| Ok(CACHES.get(handle)?.clear_with(durability_of(durability)?)?))
}

/// Waits until everything that was put or removed before this call is as durable as `durability` says.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_refdb_engine_CacheNatives_flush<'l>(
    env: EnvUnowned<'l>,
    _class: JClass<'l>,
    handle: jlong,
    durability: jint,
) {
    call(env, |_| Ok(CACHES.get(handle)?.flush(durability_of(durability)?)?))
}

/// Returns the statistics: their number, and then each name with its value.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_refdb_engine_CacheNatives_stats<'l>(
    env: EnvUnowned<'l>,
    _class: JClass<'l>,
    handle: jlong,
) -> JByteArray<'l> {
    call(env, |env| {
        let named = CACHES.get(handle)?.stats().named();
        let mut answer = Answer::default();
        answer.u32(named.len() as u32);
        for (name, number) in named {
            answer.bytes(name.as_bytes())?;
            answer.u64(number);
        }
        new_array(env, answer.as_slice())
    })
}

/// Returns what was wrong with the files when the cache was opened: the number of texts, and then each text.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_refdb_engine_CacheNatives_notices<'l>(
    env: EnvUnowned<'l>,
    _class: JClass<'l>,
    handle: jlong,
) -> JByteArray<'l> {
    call(env, |env| {
        let cache = CACHES.get(handle)?;
        let mut answer = Answer::default();
        answer.u32(cache.notices().len() as u32);
        for notice in cache.notices() {
            answer.bytes(notice.to_string().as_bytes())?;
        }
        new_array(env, answer.as_slice())
    })
}

/// Deletes a cache's other versions that no process has open for writing. A folder with other files stays. Returns the
/// number of deleted folders. The request has the root, the name and the version to keep.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_refdb_engine_CacheNatives_cleanVersions<'l>(
    env: EnvUnowned<'l>,
    _class: JClass<'l>,
    request: JByteArray<'l>,
) -> jint {
    call(env, |env| {
        let bytes = bytes_of(env, &request)?;
        let mut request = Request::new(&bytes);
        let root = request.path()?;
        let name = text(request.bytes()?)?;
        Ok(clean_versions(&root, name, request.u32()?)?.len() as jint)
    })
}

/// Encodes an answer that consists of numbers.
fn numbers<'l>(env: &mut Env<'l>, numbers: &[u64]) -> Result<JByteArray<'l>, Failure> {
    let mut answer = Answer::default();
    for number in numbers {
        answer.u64(*number);
    }
    new_array(env, answer.as_slice())
}

fn durability_of(number: jint) -> Result<Durability, Failure> {
    match number {
        0 => Ok(Durability::Buffered),
        1 => Ok(Durability::Written),
        2 => Ok(Durability::Synced),
        _ => Err(Failure::Malformed("an unknown durability")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_outside_of_the_buffer_is_refused() {
        let mut bytes = [0; 8];
        for len in [-1, 9, jint::MIN, jint::MAX] {
            assert!(matches!(split(&mut bytes, len), Err(Failure::Malformed(_))), "{len}");
        }
        assert_eq!(split(&mut bytes, 8).unwrap().1.len(), 0);
    }
}
