//! Java's word on a transaction that the global ref database decides: `org.refdb.engine.Arbiter`.

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

/// References that a question makes, and some to spare.
const REFERENCES: usize = 8;

/// An object of Java's that is asked. It throws nothing: what went wrong it keeps for its owner.
pub(super) struct JavaArbiter<'a, 'l> {
    env: &'a mut Env<'l>,
    arbiter: &'a JObject<'l>,
}

impl<'a, 'l> JavaArbiter<'a, 'l> {
    pub(super) fn new(env: &'a mut Env<'l>, arbiter: &'a JObject<'l>) -> Self {
        JavaArbiter { env, arbiter }
    }

    /// The answer to `begin`, whose argument are the refs, or to `ask`, which has none.
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

    /// Java threw something after all, which would meet the next call into it.
    fn forget_exception(&mut self) {
        self.env.exception_clear();
    }
}

/// ```text
/// 0 agreed, or not its affair; 1 refused; 2 unknown; 3 to be asked (again)   1
/// with 3: id and text of the mark                                           byte strings
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
