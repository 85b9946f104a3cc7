//! What a view has to warn of, for the log of the server.

use super::{VIEW, answer::encode_broken};
use crate::{
    call::{call, new_array},
    failure::Failure,
    wire::Answer,
};
use jni::{
    Env, EnvUnowned,
    objects::{JByteArray, JClass},
    sys::{jboolean, jlong},
};

/// Returns at most a thousand broken refs, after a byte without meaning, and checks all loose refs to find them. If
/// `unreported`, returns those of [`View::take_unreported`](refdb_refcache::View::take_unreported) instead.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_refdb_engine_RefNatives_broken<'l>(
    env: EnvUnowned<'l>,
    _class: JClass<'l>,
    view: jlong,
    unreported: jboolean,
) -> JByteArray<'l> {
    call(env, |env| {
        let view = VIEW.get(view)?;
        let broken = if unreported { view.take_unreported() } else { view.broken()? };
        let mut answer = Answer::default();
        answer.u8(1);
        encode_broken(&broken, &mut answer)?;
        new_array(env, answer.as_slice())
    })
}

/// Returns the warning that packed-refs is unsorted although its header says `sorted`. Empty if there is nothing to
/// report.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_refdb_engine_RefNatives_takeDisorder<'l>(
    env: EnvUnowned<'l>,
    _class: JClass<'l>,
    view: jlong,
) -> JByteArray<'l> {
    call(env, |env| text_for_log(env, VIEW.get(view)?.take_disorder()))
}

/// Returns the warning that small batches go to packed-refs because git may pack refs. Empty if there is nothing to
/// report.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_refdb_engine_RefNatives_takeGitPacks<'l>(
    env: EnvUnowned<'l>,
    _class: JClass<'l>,
    view: jlong,
) -> JByteArray<'l> {
    call(env, |env| text_for_log(env, VIEW.get(view)?.take_git_packs()))
}

/// Returns the warning that loose refs cannot be packed in the background. Empty if there is nothing to report.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_refdb_engine_RefNatives_takeFailingFold<'l>(
    env: EnvUnowned<'l>,
    _class: JClass<'l>,
    view: jlong,
) -> JByteArray<'l> {
    call(env, |env| text_for_log(env, VIEW.get(view)?.take_failing_pack()))
}

/// Returns lines about the mount of the repository. Empty if its file system is local.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_refdb_engine_RefNatives_sharedStorage<'l>(
    env: EnvUnowned<'l>,
    _class: JClass<'l>,
    view: jlong,
) -> JByteArray<'l> {
    call(env, |env| text_for_log(env, VIEW.get(view)?.shared_storage()?))
}

/// Returns the reason why the repository's mount keeps refs from being written. Empty if they are written.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_refdb_engine_RefNatives_storageFault<'l>(
    env: EnvUnowned<'l>,
    _class: JClass<'l>,
    view: jlong,
) -> JByteArray<'l> {
    call(env, |env| text_for_log(env, VIEW.get(view)?.storage_fault()?))
}

/// Returns the warning that a trust setting says `always` on a network file system. Empty if there is nothing to
/// report.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_refdb_engine_RefNatives_takeIgnoredTrust<'l>(
    env: EnvUnowned<'l>,
    _class: JClass<'l>,
    view: jlong,
) -> JByteArray<'l> {
    call(env, |env| text_for_log(env, VIEW.get(view)?.take_ignored_trust()))
}

/// Encodes a finding as text, which is empty if there is none.
fn text_for_log<'l>(env: &mut Env<'l>, found: Option<impl ToString>) -> Result<JByteArray<'l>, Failure> {
    new_array(env, found.map_or_else(String::new, |found| found.to_string()).as_bytes())
}
