use crate::failure::{Failure, Throw};
use jni::{Env, EnvUnowned, objects::JByteArray};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Runs the body of an entry point, and turns a failure or a panic into a Java exception.
///
/// In that case it returns the type's default, which Java discards because an exception is pending.
pub(crate) fn call<'l, T: Default>(
    mut env: EnvUnowned<'l>,
    body: impl FnOnce(&mut Env<'l>) -> Result<T, Failure>,
) -> T {
    env.with_env(body).resolve::<Throw>()
}

/// Runs the body of an entry point that is called so often that using the JNI environment would cost more than its
/// work. Only if the body fails or panics is the environment used, to throw a Java exception as [`call`] does.
pub(crate) fn quick_call<'l, T: Default>(env: EnvUnowned<'l>, body: impl FnOnce() -> Result<T, Failure>) -> T {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(answer)) => answer,
        Ok(Err(failure)) => call(env, |_| Err(failure)),
        Err(panic) => call(env, |_| resume_unwind(panic)),
    }
}

/// Copies the content of a Java array.
pub(crate) fn bytes_of(env: &Env<'_>, array: &JByteArray<'_>) -> Result<Vec<u8>, Failure> {
    Ok(env.convert_byte_array(array)?)
}

/// Fills `into` with the first bytes of a Java array. Fails if the array is shorter.
pub(crate) fn copy_bytes(env: &Env<'_>, array: &JByteArray<'_>, into: &mut [u8]) -> Result<(), Failure> {
    // SAFETY: both types are single bytes for which every value is valid; the length is the slice's own.
    let signed = unsafe { std::slice::from_raw_parts_mut(into.as_mut_ptr().cast::<i8>(), into.len()) };
    Ok(array.get_region(env, 0, signed)?)
}

/// Copies bytes to the beginning of a Java array.
pub(crate) fn put_bytes(env: &Env<'_>, array: &JByteArray<'_>, bytes: &[u8]) -> Result<(), Failure> {
    // SAFETY: as in `copy_bytes`.
    let signed = unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast::<i8>(), bytes.len()) };
    Ok(array.set_region(env, 0, signed)?)
}

/// Makes a Java array with this content.
pub(crate) fn new_array<'l>(env: &mut Env<'l>, content: &[u8]) -> Result<JByteArray<'l>, Failure> {
    if i32::try_from(content.len()).is_err() {
        return Err(Failure::TooLarge(content.len()));
    }
    Ok(env.byte_array_from_slice(content)?)
}
