//! The ways in which a command can end early, with git's messages and exit codes.

use bstr::BString;
pub use refdb::messages::{say, system_text};
use refdb_vfs::LockError;
use std::io::Write;

/// The reason why a command ends early, in git's words and with git's exit code.
#[derive(Debug)]
pub enum Failure {
    /// `fatal: MESSAGE`, with exit code 128.
    Fatal(BString),
    /// `fatal: MESSAGE`, with exit code 128, because a file was replaced or removed while it was read, usually by
    /// another machine on a network file system. If nothing has been printed yet, a query can be repeated.
    Lost(BString),
    /// `error: MESSAGE`, with this exit code.
    Error(BString, u8),
    /// Wrong usage: `error: MESSAGE` if there is a message, then this usage on standard error, with exit code 129.
    Usage(Option<BString>, String),
    /// Like `Usage`, but with the usage on standard output, because it was asked for or an option is ambiguous.
    UsageAsked(Option<BString>, String),
    /// These lines as they are on standard error, with exit code 128.
    Lines(String),
    /// Everything has been printed; only the exit code is left.
    Exit(u8),
    /// Standard output is a pipe whose reader has gone away.
    BrokenPipe,
    /// A signal was caught. Locks that were held then have been released.
    Interrupted,
}

/// The result of a part of a command.
pub type Result<T> = std::result::Result<T, Failure>;

/// Git's exit code if a command function returns -1. Git has then printed why something could not be done.
pub const FAILED: u8 = 255;

/// Git's exit code for wrong usage.
pub const WRONG_USE: u8 = 129;

impl Failure {
    /// Prints the reason on standard error (or output), and returns the exit code of the program. After a broken pipe
    /// or a caught signal, this ends the process by the signal instead.
    pub fn report(self) -> u8 {
        match self {
            Failure::Fatal(message) | Failure::Lost(message) => {
                say("fatal: ", &message);
                128
            }
            Failure::Error(message, code) => {
                say("error: ", &message);
                code
            }
            Failure::Usage(message, usage) => {
                if let Some(message) = message {
                    say("error: ", &message);
                }
                // If even standard error cannot be written, nothing can be done.
                let _ = std::io::stderr().write_all(usage.as_bytes());
                WRONG_USE
            }
            Failure::UsageAsked(message, usage) => {
                if let Some(message) = message {
                    say("error: ", &message);
                }
                let _ = std::io::stdout().write_all(usage.as_bytes());
                WRONG_USE
            }
            Failure::Lines(lines) => {
                let _ = std::io::stderr().write_all(lines.as_bytes());
                128
            }
            Failure::Exit(code) => code,
            Failure::BrokenPipe => {
                refdb_vfs::interrupt::end_by_broken_pipe();
                141
            }
            Failure::Interrupted => {
                refdb_vfs::interrupt::end_by_signal();
                130
            }
        }
    }
}

/// Makes a message of parts that are text or bytes: `message!["cannot lock ref '", name, "'"]`.
macro_rules! message {
    ($($part:expr),+ $(,)?) => {{
        let mut message = ::bstr::BString::default();
        $( message.extend_from_slice(AsRef::<[u8]>::as_ref(&$part)); )+
        message
    }};
}

/// Makes an `Err(Failure::Fatal(..))` with a message of parts.
macro_rules! fatal {
    ($($part:expr),+ $(,)?) => { Err($crate::failure::Failure::Fatal($crate::failure::message![$($part),+])) };
}

pub(crate) use {fatal, message};

impl From<refdb::Error> for Failure {
    fn from(error: refdb::Error) -> Self {
        if refdb_vfs::interrupt::received().is_some() {
            return Failure::Interrupted;
        }
        match error {
            refdb::Error::Config(error) => Failure::Lines(error.report()),
            refdb::Error::Repository(error) => Failure::Lines(error.report()),
            // As lines, which no command words anew, because git ends as soon as it reads the setting, whatever the
            // command is.
            refdb::Error::Misuse(fault @ refdb::Misuse::Setting(_)) => Failure::Lines(format!("fatal: {fault}\n")),
            error if error.is_stale() => Failure::Lost(text_of(&error).into()),
            error => Failure::Fatal(text_of(&error).into()),
        }
    }
}

impl Failure {
    /// Returns whether this is [`Failure::Lost`], after which what failed can be begun again.
    pub fn is_lost(&self) -> bool {
        matches!(self, Failure::Lost(_))
    }
}

impl From<refdb_receive::Failure> for Failure {
    fn from(failure: refdb_receive::Failure) -> Self {
        match failure {
            refdb_receive::Failure::Fatal(message) => Failure::Fatal(message),
            refdb_receive::Failure::Store(error) => error.into(),
            refdb_receive::Failure::BrokenPipe => Failure::BrokenPipe,
            refdb_receive::Failure::Interrupted => Failure::Interrupted,
        }
    }
}

impl From<refdb::ObjectError> for Failure {
    fn from(error: refdb::ObjectError) -> Self {
        refdb::Error::from(error).into()
    }
}

/// Returns the failure for a refused change as most commands report it. It is `fatal: MESSAGE` if a hook refused the
/// change or could not be run. For any other error it is what `Failure::from` returns if a signal was caught, the
/// committer is unknown, packed-refs cannot be read, a file was lost while it was read ([`Failure::Lost`]), or the
/// configuration or the repository is invalid, and otherwise `error: MESSAGE` with exit code 1.
pub fn refused(error: refdb::Error) -> Failure {
    match error {
        refdb::Error::Hook(why) => Failure::Fatal(why.to_string().into()),
        // Git determines the committer before it makes a change.
        error @ refdb::Error::Ident(_) => error.into(),
        error if is_of_packed_refs(&error) => error.into(),
        error => match Failure::from(error) {
            Failure::Fatal(text) => Failure::Error(text, 1),
            other => other,
        },
    }
}

/// Returns whether an error means that packed-refs cannot be read. Git then ends with code 128, whatever it was about
/// to do.
pub fn is_of_packed_refs(error: &refdb::Error) -> bool {
    let path = match error {
        refdb::Error::Corrupt { path, .. } => path,
        refdb::Error::Io(error) if ["map", "open", "read", "read the link", "stat"].contains(&error.operation) => {
            &error.path
        }
        _ => return false,
    };
    path.file_name().is_some_and(|name| name == "packed-refs")
}

/// Returns the message for an error of the store, usually in git's words if git has any.
pub fn text_of(error: &refdb::Error) -> String {
    match error {
        refdb::Error::Lock(LockError::Held { path, age_seconds, uid, .. }) => format!(
            "Unable to create '{}': File exists.\n\n\
             Another process (user {uid}) has held this lock for {age_seconds} s. If no such process is running any \
             more,\nremove the file. `refdb refs locks` tells who made it.",
            std::path::absolute(path).unwrap_or_else(|_| path.clone()).display()
        ),
        // Git's message about a broken line of packed-refs already names the file.
        refdb::Error::Corrupt { path, what, .. } if what.contains(&*path.to_string_lossy()) => what.clone(),
        _ if is_too_large(error) => "reftable: transaction failure: entry too large".into(),
        _ => error.to_string(),
    }
}

/// Returns whether an error means that a record, or its name, is too large for the blocks of a reftable.
pub fn is_too_large(error: &refdb::Error) -> bool {
    use refdb::Error::{Stack, Table};
    match error {
        Table(error) => error.is_too_large(),
        Stack(error) => error.is_too_large(),
        _ => false,
    }
}
