//! Operations for administrators on a cache that is in use: walking, verification and compaction.

use super::{CACHES, numbers};
use crate::{
    call::{call, new_array},
    failure::Failure,
};
use jni::{
    Env, EnvUnowned, jni_sig, jni_str,
    objects::{JByteArray, JClass, JObject, JValue},
    sys::{jboolean, jlong},
};
use refdb_kvcache::{EntryInfo, Verified};

/// The number of local references that showing one entry takes.
const REFERENCES: usize = 4;

/// Why a walk ended early.
enum End {
    Asked,
    Failed(Failure),
}

/// Shows the entries to a visitor until the visitor returns false, without values unless `values` is set. Returns the
/// numbers of intact and of corrupt records, or the number of entries shown and 0 if the visitor returned false.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_refdb_engine_CacheNatives_forEach<'l>(
    env: EnvUnowned<'l>,
    _class: JClass<'l>,
    handle: jlong,
    values: jboolean,
    visitor: JObject<'l>,
) -> JByteArray<'l> {
    call(env, |env| {
        let cache = CACHES.get(handle)?;
        let mut seen = Verified::default();
        let walked = cache.for_each(|key, value, info| {
            seen.good += 1;
            match show(env, &visitor, key, values.then_some(value), info) {
                Ok(true) => Ok(()),
                Ok(false) => Err(End::Asked),
                Err(failure) => Err(End::Failed(failure)),
            }
        });
        match walked {
            Ok(verified) => counts(env, verified),
            Err(End::Asked) => counts(env, seen),
            Err(End::Failed(failure)) => Err(failure),
        }
    })
}

fn show(
    env: &mut Env<'_>,
    visitor: &JObject<'_>,
    key: &[u8],
    value: Option<&[u8]>,
    info: &EntryInfo,
) -> Result<bool, Failure> {
    env.with_local_frame(REFERENCES, |env| {
        let key = new_array(env, key)?;
        let value: JObject<'_> = match value {
            Some(value) => new_array(env, value)?.into(),
            None => JObject::null(),
        };
        let arguments = [
            JValue::from(&key),
            JValue::from(&value),
            JValue::Long(info.created_ms as i64),
            JValue::Int(info.uses.into()),
            JValue::Long(info.disk_bytes as i64),
        ];
        Ok(env.call_method(visitor, jni_str!("visit"), jni_sig!("([B[BJIJ)Z"), &arguments)?.z()?)
    })
}

/// Reads and checks the record of every entry. Returns the numbers of intact and of corrupt records.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_refdb_engine_CacheNatives_verify<'l>(
    env: EnvUnowned<'l>,
    _class: JClass<'l>,
    handle: jlong,
) -> JByteArray<'l> {
    call(env, |env| {
        let verified = CACHES.get(handle)?.verify();
        counts(env, verified)
    })
}

/// Reclaims dead space. Returns the number of bytes that were freed.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_refdb_engine_CacheNatives_compact<'l>(
    env: EnvUnowned<'l>,
    _class: JClass<'l>,
    handle: jlong,
) -> JByteArray<'l> {
    call(env, |env| {
        let freed = CACHES.get(handle)?.compact()?;
        numbers(env, &[freed])
    })
}

fn counts<'l>(env: &mut Env<'l>, verified: Verified) -> Result<JByteArray<'l>, Failure> {
    numbers(env, &[verified.good, verified.bad])
}
