//! The version of the library, and a panic for tests.

use crate::call::{call, new_array};
use jni::{
    EnvUnowned,
    objects::{JByteArray, JClass},
};

/// Returns the library's version in ASCII. The jar refuses a library of another version.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_refdb_engine_NativeLibrary_nativeVersion<'l>(
    env: EnvUnowned<'l>,
    _class: JClass<'l>,
) -> JByteArray<'l> {
    call(env, |env| new_array(env, env!("CARGO_PKG_VERSION").as_bytes()))
}

/// Panics, so that tests can check that Java gets an exception.
#[cfg(feature = "test-hooks")]
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_refdb_engine_TestHooks_panic<'l>(
    env: EnvUnowned<'l>,
    _class: JClass<'l>,
    message: JByteArray<'l>,
) {
    call(env, |env| {
        let message = crate::call::bytes_of(env, &message)?;
        panic!("{}", String::from_utf8_lossy(&message))
    })
}
