//! The persistent key-value cache: `org.refdb.engine.Cache`.

use crate::{
    call::{bytes_of, call, copy_bytes, new_array, put_bytes},
    failure::{Failure, Kind},
    handle::Handles,
    wire::{Answer, Request},
};
use jni::{
    Env, EnvUnowned,
    objects::{JByteArray, JClass},
    sys::{jboolean, jint, jlong},
};
use refdb_kvcache::{Cache, Durability, Error, Key, Options, Put, PutOptions, clean_versions, version_dir};
use std::{cell::RefCell, path::PathBuf, time::Duration};

static CACHES: Handles<Cache> = Handles::new("the cache");

/// What a thread keeps from call to call, so that a get or put allocates nothing but the answer.
#[derive(Default)]
struct Buffers {
    key: Vec<u8>,
    value: Vec<u8>,
}

/// A buffer that grew beyond this for one large value is given back.
const KEPT_BUFFER_BYTES: usize = 256 << 10;

thread_local! {
    static BUFFERS: RefCell<Buffers> = RefCell::default();
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let kind = match &error {
            Error::File(_) | Error::Disk(_) => Kind::Io,
            Error::Locked { .. } => Kind::Locked,
            Error::Corrupt { .. } => Kind::Corrupt,
            Error::Closed => return Failure::Closed("the cache"),
            _ => Kind::Refused,
        };
        Failure::engine(kind, error.to_string())
    }
}

/// Opens a cache: root, name, version, limit, age or -1, key, older keys, whether for reading only.
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

/// Closes a cache and writes what is in memory. Closing twice does nothing.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_refdb_engine_CacheNatives_close<'l>(
    env: EnvUnowned<'l>,
    _class: JClass<'l>,
    handle: jlong,
) {
    call(env, |_| Ok(CACHES.remove(handle).map_or(Ok(()), |cache| cache.close())?))
}

/// Puts the value of a key into `answer`, after its time of creation in 8 little-endian bytes. Returns the value's
/// length, -1 if there is none. Where the answer is too short for it, nothing is put there.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_refdb_engine_CacheNatives_get<'l>(
    env: EnvUnowned<'l>,
    _class: JClass<'l>,
    handle: jlong,
    key: JByteArray<'l>,
    answer: JByteArray<'l>,
) -> jint {
    call(env, |env| {
        let cache = CACHES.get(handle)?;
        with_buffers(|buffers| {
            fill(env, &key, &mut buffers.key)?;
            let Some(created_ms) = cache.get_into(&buffers.key, &mut buffers.value) else {
                return Ok(NOT_FOUND);
            };
            let value = &buffers.value;
            let len = jint::try_from(value.len()).map_err(|_| Failure::TooLarge(value.len()))?;
            if answer.len(env)? >= CREATED_BYTES + value.len() {
                put_bytes(env, &answer, 0, &created_ms.to_le_bytes())?;
                put_bytes(env, &answer, CREATED_BYTES as jint, value)?;
            }
            Ok(len)
        })
    })
}

const NOT_FOUND: jint = -1;
/// What stands before a value in an answer; Java gives no shorter array.
const CREATED_BYTES: usize = 8;

/// What became of a put; the numbers are `Cache.put`'s.
const STORED: jint = 0;
const REFUSED: jint = 1;

/// Puts a value. A value that is too large for the cache is refused, and the key's older value removed.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_refdb_engine_CacheNatives_put<'l>(
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
        let durability = durability_of(durability)?;
        with_buffers(|buffers| {
            fill(env, &key, &mut buffers.key)?;
            fill(env, &value, &mut buffers.value)?;
            let options = PutOptions { created_ms: u64::try_from(created).ok(), durability, ..PutOptions::default() };
            match cache.put_with(&buffers.key, &buffers.value, options) {
                Ok(Put::Stored) => Ok(STORED),
                Ok(Put::Refused | Put::Stale) => Ok(REFUSED),
                Err(Error::TooLarge { .. }) => {
                    cache.remove_with(&buffers.key, durability)?;
                    Ok(REFUSED)
                }
                Err(error) => Err(error.into()),
            }
        })
    })
}

/// Removes a key; whether it was there.
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
        let durability = durability_of(durability)?;
        with_buffers(|buffers| {
            fill(env, &key, &mut buffers.key)?;
            Ok(cache.remove_with(&buffers.key, durability)?)
        })
    })
}

/// Removes all.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_refdb_engine_CacheNatives_clear<'l>(
    env: EnvUnowned<'l>,
    _class: JClass<'l>,
    handle: jlong,
    durability: jint,
) {
    call(env, |_| Ok(CACHES.get(handle)?.clear_with(durability_of(durability)?)?))
}

/// Returns when all before is as durable as asked.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_refdb_engine_CacheNatives_flush<'l>(
    env: EnvUnowned<'l>,
    _class: JClass<'l>,
    handle: jlong,
    durability: jint,
) {
    call(env, |_| Ok(CACHES.get(handle)?.flush(durability_of(durability)?)?))
}

/// The figures: how many, then each name with its number.
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

/// What was wrong with the files when it was opened: how many texts, then each.
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

/// Deletes other versions' folders: root, name, the version to keep.
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

fn durability_of(number: jint) -> Result<Durability, Failure> {
    match number {
        0 => Ok(Durability::Buffered),
        1 => Ok(Durability::Written),
        2 => Ok(Durability::Synced),
        _ => Err(Failure::Malformed("an unknown durability")),
    }
}

fn with_buffers<T>(body: impl FnOnce(&mut Buffers) -> Result<T, Failure>) -> Result<T, Failure> {
    BUFFERS.with_borrow_mut(|buffers| {
        let result = body(buffers);
        if buffers.value.capacity() > KEPT_BUFFER_BYTES {
            buffers.value = Vec::new();
        }
        result
    })
}

/// Copies an array into a buffer.
fn fill(env: &Env<'_>, array: &JByteArray<'_>, buffer: &mut Vec<u8>) -> Result<(), Failure> {
    buffer.resize(array.len(env)?, 0);
    copy_bytes(env, array, buffer)
}
