use bstr::BString;
use jni::{
    Env,
    errors::{Error as JniError, ErrorPolicy, JniError as JniCode},
    jni_sig, jni_str,
    objects::{JObject, JString, JThrowable},
};
use refdb::{StackError, TableError, Undecided, vfs::LockError};
use std::{any::Any, path::PathBuf};

/// Why an entry point failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// A JNI function failed, for example because Java threw an exception or has no memory.
    Jni(JniError),
    /// The handle was closed, or never existed.
    Closed(&'static str),
    /// What Java passed breaks the rules of the library, for example because the jar and the library are of different
    /// versions, or too many handles are open.
    Malformed(&'static str),
    /// The answer, or a part of it, of this many bytes or elements, is larger than a Java array can be.
    TooLarge(usize),
    /// The engine failed.
    Engine(Box<Report>),
}

/// An error of the engine, as `org.refdb.engine.EngineException` shows it.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) kind: Kind,
    pub(crate) message: String,
    pub(crate) ref_name: Option<BString>,
    pub(crate) path: Option<PathBuf>,
}

/// The kinds of errors, which differ in what a caller can do about them. The names are those of `EngineException.Kind`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Io,
    Locked,
    BrokenRef,
    Corrupt,
    Rejected,
    Refused,
    Undecided,
    Replaced,
    Bug,
}

impl Kind {
    fn java_name(self) -> &'static str {
        match self {
            Kind::Io => "IO",
            Kind::Locked => "LOCKED",
            Kind::BrokenRef => "BROKEN_REF",
            Kind::Corrupt => "CORRUPT",
            Kind::Rejected => "REJECTED",
            Kind::Refused => "REFUSED",
            Kind::Undecided => "UNDECIDED",
            Kind::Replaced => "REPLACED",
            Kind::Bug => "BUG",
        }
    }
}

impl Failure {
    pub(crate) fn engine(kind: Kind, message: impl Into<String>) -> Self {
        Failure::Engine(Box::new(Report { kind, message: message.into(), ref_name: None, path: None }))
    }
}

impl From<JniError> for Failure {
    fn from(error: JniError) -> Self {
        Failure::Jni(error)
    }
}

fn of_stack(error: &StackError) -> Kind {
    match error {
        StackError::Lock(LockError::Io(_)) => Kind::Io,
        StackError::Lock(_) => Kind::Locked,
        StackError::Table(error) => of_table(error),
        StackError::List { .. } | StackError::MissingTable { .. } => Kind::Corrupt,
        StackError::RefsTooLarge { .. } | StackError::UpdateIndex { .. } => Kind::Refused,
        // The others are failures of the disk, of another process or by a signal.
        _ => Kind::Io,
    }
}

fn of_table(error: &TableError) -> Kind {
    match error {
        TableError::Io(_) => Kind::Io,
        TableError::Corrupt(_) | TableError::Hash { .. } => Kind::Corrupt,
        // The others say that a record or the block size in the options cannot be accepted. `Output` comes only from
        // `dump`, which is not called here.
        _ => Kind::Refused,
    }
}

impl From<&refdb::Error> for Failure {
    fn from(error: &refdb::Error) -> Self {
        use refdb::Error;
        let (mut ref_name, mut path) = (None, None);
        let kind = match error {
            error if error.io().is_some() => Kind::Io,
            // The lock file could not be created, for example because the disk is full or a permission is missing.
            Error::Lock(LockError::Io(_)) | Error::StackLocked(LockError::Io(_)) => Kind::Io,
            Error::Lock(_) | Error::StackLocked(_) => Kind::Locked,
            Error::Stack(error) => of_stack(error),
            Error::Table(error) => of_table(error),
            Error::BrokenRef(broken) => {
                (ref_name, path) = (Some(broken.name.clone()), Some(broken.path.clone()));
                Kind::BrokenRef
            }
            Error::Unrecovered { record, .. } => {
                path = Some(record.clone());
                Kind::Io
            }
            Error::HalfDone { refs, .. } => {
                ref_name = refs.first().cloned();
                Kind::Io
            }
            Error::Corrupt { path: file, .. } => {
                path = Some(file.clone());
                Kind::Corrupt
            }
            Error::Rejected(rejection) => {
                ref_name = Some(rejection.resolved.clone().into());
                Kind::Rejected
            }
            Error::Undecided(why) => {
                if let Undecided::Open { name, path: file, .. } = why {
                    (ref_name, path) = (Some(name.clone().into()), Some(file.clone()));
                }
                Kind::Undecided
            }
            Error::BadTarget { name, .. } => {
                ref_name = Some(name.clone());
                Kind::Corrupt
            }
            Error::Repository(refdb::RepositoryError::Io(_)) | Error::Objects(_) => Kind::Io,
            // Everything else counts as a refusal, for example a limit or a bad argument.
            _ => Kind::Refused,
        };
        Failure::Engine(Box::new(Report { kind, message: error.to_string(), ref_name, path }))
    }
}

impl From<refdb::Error> for Failure {
    fn from(error: refdb::Error) -> Self {
        (&error).into()
    }
}

impl Failure {
    /// Makes the failure for a list that could not be read.
    pub(crate) fn of_list(error: refdb_refcache::Error) -> Self {
        if error.is_stale() { Failure::engine(Kind::Replaced, error.to_string()) } else { error.into() }
    }
}

impl From<refdb_refcache::Error> for Failure {
    fn from(error: refdb_refcache::Error) -> Self {
        use refdb_refcache::Error;
        match error {
            Error::Store(error) => error.into(),
            Error::Shared(error) => (&*error).into(),
            Error::Repository(refdb::RepositoryError::Io(error)) => refdb::Error::from(error).into(),
            Error::Repository(error) => Failure::engine(Kind::Refused, error.to_string()),
            Error::Gone(_) | Error::Restless(_) => Failure::engine(Kind::Io, error.to_string()),
            _ => Failure::engine(Kind::Bug, error.to_string()),
        }
    }
}

/// Turns failures and panics into Java exceptions.
pub(crate) struct Throw;

impl<T: Default> ErrorPolicy<T, Failure> for Throw {
    type Captures<'unowned_env_local: 'native_method, 'native_method> = ();

    fn on_error<'unowned_env_local: 'native_method, 'native_method>(
        env: &mut Env<'unowned_env_local>,
        _captures: &mut (),
        failure: Failure,
    ) -> jni::errors::Result<T> {
        raise(env, failure);
        Ok(T::default())
    }

    fn on_panic<'unowned_env_local: 'native_method, 'native_method>(
        env: &mut Env<'unowned_env_local>,
        _captures: &mut (),
        payload: Box<dyn Any + Send + 'static>,
    ) -> jni::errors::Result<T> {
        let what = match (payload.downcast_ref::<&str>(), payload.downcast_ref::<String>()) {
            (Some(text), _) => text,
            (_, Some(text)) => text.as_str(),
            _ => "no reason given",
        };
        let message = format!("a bug in refdb's engine: {what}; please report it with the log around this");
        // Dropping the payload of a panic may panic again, so the payload is leaked.
        std::mem::forget(payload);
        // The panic is reported in place of an exception that was pending before.
        env.exception_clear();
        raise(env, Failure::engine(Kind::Bug, message));
        Ok(T::default())
    }
}

fn raise(env: &mut Env<'_>, failure: Failure) {
    if env.exception_check() {
        return;
    }
    let thrown = match failure {
        Failure::Jni(JniError::CaughtJavaException { exception, .. }) => env.throw(&*exception),
        Failure::Jni(JniError::JniCall(JniCode::NoMemory)) => {
            env.throw_new(jni_str!("java/lang/OutOfMemoryError"), jni_str!("Java heap space (asked by refdb)"))
        }
        Failure::Jni(error) => raise_report(env, &Report::bug(format!("a call into Java failed: {error}"))),
        Failure::Closed(what) => raise_closed(env, what),
        Failure::Malformed(what) => {
            raise_report(env, &Report::bug(format!("the engine does not understand a request: {what}")))
        }
        Failure::TooLarge(len) => raise_report(
            env,
            &Report::bug(format!("an answer of length {len} is longer than a Java array can be; ask for less at once")),
        ),
        Failure::Engine(report) => raise_report(env, &report),
    };
    // The crate `jni` reports an exception that was thrown as `JavaException`. Any other error means that the exception
    // could not be thrown.
    if !matches!(thrown, Err(JniError::JavaException)) && !env.exception_check() {
        let _ = env.throw_new(jni_str!("java/lang/IllegalStateException"), jni_str!("refdb cannot report an error"));
    }
}

impl Report {
    fn bug(message: String) -> Self {
        Report { kind: Kind::Bug, message, ref_name: None, path: None }
    }
}

fn raise_report(env: &mut Env<'_>, report: &Report) -> jni::errors::Result<()> {
    let kind = JString::from_str(env, report.kind.java_name())?;
    let message = JString::from_str(env, &report.message)?;
    let name = optional(env, report.ref_name.as_ref().map(ToString::to_string))?;
    let path = optional(env, report.path.as_ref().map(|path| path.display().to_string()))?;
    let exception = env.new_object(
        jni_str!("org/refdb/engine/EngineException"),
        jni_sig!("(Ljava/lang/String;Ljava/lang/String;Ljava/lang/String;Ljava/lang/String;)V"),
        &[(&kind).into(), (&message).into(), (&name).into(), (&path).into()],
    )?;
    throw(env, exception)
}

fn raise_closed(env: &mut Env<'_>, what: &str) -> jni::errors::Result<()> {
    let what = JString::from_str(env, what)?;
    let exception = env.new_object(
        jni_str!("org/refdb/engine/ClosedHandleException"),
        jni_sig!("(Ljava/lang/String;)V"),
        &[(&what).into()],
    )?;
    throw(env, exception)
}

fn throw<'l>(env: &mut Env<'l>, exception: JObject<'l>) -> jni::errors::Result<()> {
    let exception = env.cast_local::<JThrowable>(exception)?;
    env.throw(exception)
}

fn optional<'l>(env: &mut Env<'l>, text: Option<String>) -> jni::errors::Result<JString<'l>> {
    match text {
        Some(text) => JString::from_str(env, text),
        None => Ok(JString::null()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use refdb::vfs::Fs;

    /// Gerrit tries again after LOCKED, which does not help here and hides the reason.
    #[test]
    fn a_lock_file_that_cannot_be_created_is_a_failed_file_operation() {
        let error = Fs::real().stat("/no/such/folder".as_ref()).unwrap_err();
        let failure = Failure::from(refdb::Error::Lock(LockError::Io(error)));
        let Failure::Engine(report) = failure else { panic!("{failure:?}") };
        assert!(matches!(report.kind, Kind::Io), "{report:?}");
        assert!(report.message.contains("/no/such/folder"), "{report:?}");
    }

    #[test]
    fn only_damage_of_a_stack_is_corrupt() {
        let kind = |error: StackError| match Failure::from(&refdb::Error::from(error)) {
            Failure::Engine(report) => report.kind,
            failure => panic!("{failure:?}"),
        };
        let io = || Fs::real().stat("/no/such/folder".as_ref()).unwrap_err();
        let held = LockError::Held { path: "lock".into(), age_seconds: 0, uid: 0, by_us: false };
        assert!(matches!(kind(StackError::Lock(held)), Kind::Locked));
        for error in [StackError::Lock(LockError::Io(io())), StackError::NotDurable(io()), StackError::Io(io())] {
            assert!(matches!(kind(error), Kind::Io));
        }
        assert!(matches!(kind(StackError::GroupGivenUp), Kind::Io));
        let too_large = TableError::TooLarge { name: "refs/heads/a".into(), block_size: 256 };
        assert!(matches!(kind(StackError::Table(too_large)), Kind::Refused));
    }
}
