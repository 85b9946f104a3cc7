//! Transactions that the global ref database decides.

use super::{
    VIEW,
    answer::{encode_global_refs, encode_outcome},
    arbiter::JavaArbiter,
    request::batch,
};
use crate::{
    call::{bytes_of, call, new_array},
    wire::{Answer, Request},
};
use jni::{
    EnvUnowned,
    objects::{JByteArray, JClass, JObject},
    sys::jlong,
};

/// Applies a batch of edits if the global ref database agrees, for which an object of `org.refdb.engine.Arbiter`
/// speaks.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_refdb_engine_RefNatives_commitAgreed<'l>(
    env: EnvUnowned<'l>,
    _class: JClass<'l>,
    view: jlong,
    request: JByteArray<'l>,
    arbiter: JObject<'l>,
) -> JByteArray<'l> {
    call(env, |env| {
        let request = bytes_of(env, &request)?;
        let view = VIEW.get(view)?;
        let batch = batch(&mut Request::new(&request))?;
        let outcome = view.commit_agreed(&batch, &mut JavaArbiter::new(env, &arbiter));
        let mut answer = Answer::default();
        encode_outcome(outcome, &mut answer)?;
        new_array(env, answer.as_slice())
    })
}

/// Returns the intents that are not settled: a byte without meaning, and then the id, the mark, the number of refs and
/// the refs of each.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_refdb_engine_RefNatives_globalIntents<'l>(
    env: EnvUnowned<'l>,
    _class: JClass<'l>,
    view: jlong,
) -> JByteArray<'l> {
    call(env, |env| {
        let mut answer = Answer::of_one_ref();
        answer.u8(0);
        for (id, intent) in VIEW.get(view)?.global_intents()? {
            answer.bytes(id.as_bytes())?;
            answer.bytes(&intent.mark)?;
            encode_global_refs(&intent.refs, &mut answer)?;
        }
        new_array(env, answer.as_slice())
    })
}

/// Removes an intent that is settled.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_refdb_engine_RefNatives_removeGlobalIntent<'l>(
    env: EnvUnowned<'l>,
    _class: JClass<'l>,
    view: jlong,
    id: JByteArray<'l>,
) {
    call(env, |env| {
        let id = bytes_of(env, &id)?;
        Ok(VIEW.get(view)?.remove_global_intent(&String::from_utf8_lossy(&id))?)
    })
}
