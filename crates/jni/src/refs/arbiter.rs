//! Asks a Java object, `org.refdb.engine.Arbiter`, which speaks for the global ref database, about a transaction.

use super::answer::encode_global_refs;
use crate::{
    call::{bytes_of, new_array},
    failure::Failure,
    wire::{Answer, Request},
};
use jni::{
    Env, jni_sig, jni_str,
    objects::{JByteArray, JObject, JValue},
};
use refdb::Undecided;
use refdb::global::{Arbiter, GlobalRef, Mark, Verdict};

/// The number of local references that a question may make.
const REFERENCES: usize = 8;

/// The Java object that is asked. Its methods should throw nothing, and keep their failures for the object's owner.
pub(super) struct JavaArbiter<'a, 'l> {
    env: &'a mut Env<'l>,
    arbiter: &'a JObject<'l>,
}

impl<'a, 'l> JavaArbiter<'a, 'l> {
    pub(super) fn new(env: &'a mut Env<'l>, arbiter: &'a JObject<'l>) -> Self {
        JavaArbiter { env, arbiter }
    }

    /// Calls `begin` with the encoded refs, or `askPacked`, which has no argument, and returns the answer.
    fn question(&mut self, refs: Option<&[GlobalRef]>) -> Result<Vec<u8>, Failure> {
        let arbiter = self.arbiter;
        self.env.with_local_frame(REFERENCES, |env| {
            let answer = match refs {
                None => env.call_method(arbiter, jni_str!("askPacked"), jni_sig!("()[B"), &[])?.l()?,
                Some(refs) => {
                    let mut told = Answer::default();
                    encode_global_refs(refs, &mut told)?;
                    let told = new_array(env, told.as_slice())?;
                    env.call_method(arbiter, jni_str!("begin"), jni_sig!("([B)[B"), &[JValue::from(&told)])?.l()?
                }
            };
            let answer = env.cast_local::<JByteArray<'_>>(answer)?;
            bytes_of(env, &answer)
        })
    }

    /// Clears an exception that the Java object threw all the same, because a pending exception makes the next call
    /// into Java fail.
    fn forget_exception(&mut self) {
        self.env.exception_clear();
    }
}

/// Decodes what the arbiter has answered.
///
/// ```text
/// the verdict                                   1 byte
///   0: agreed; after `begin`: does not decide about these refs
///   1: refused
///   2: unknown
///   3: to be asked once the intent is written; after `ask`: once more
/// with 3: id and text of the intent's mark      byte strings
/// ```
fn verdict(answer: &[u8]) -> Result<Verdict, Failure> {
    let mut answer = Request::new(answer);
    Ok(match answer.u8()? {
        0 => Verdict::Agreed,
        1 => Verdict::Refused,
        2 => Verdict::Unknown,
        3 => Verdict::Again(Mark {
            id: String::from_utf8_lossy(answer.bytes()?).into_owned(),
            text: answer.bytes()?.into(),
        }),
        _ => return Err(Failure::Malformed("a verdict")),
    })
}

impl Arbiter for JavaArbiter<'_, '_> {
    fn begin(&mut self, refs: &[GlobalRef]) -> refdb::Result<Option<Mark>> {
        match self.question(Some(refs)).and_then(|answer| verdict(&answer)) {
            Ok(Verdict::Agreed) => Ok(None),
            Ok(Verdict::Again(mark)) => Ok(Some(mark)),
            Ok(Verdict::Refused | Verdict::Unknown) => Err(Undecided::NotAgreed.into()),
            Err(_) => {
                self.forget_exception();
                Err(Undecided::NotAgreed.into())
            }
        }
    }

    fn ask(&mut self) -> Verdict {
        self.question(None).and_then(|answer| verdict(&answer)).unwrap_or_else(|_| {
            self.forget_exception();
            Verdict::Unknown
        })
    }
}
