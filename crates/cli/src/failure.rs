//! Every way in which a command can end early, with git's texts and exit codes.

use bstr::BString;
use refdb_vfs::LockError;
use std::io::Write;

/// Why a command stops early, in the words and with the exit code that git would use.
#[derive(Debug)]
pub enum Failure {
    /// `fatal: MESSAGE`, exit code 128.
    Fatal(BString),
    /// `error: MESSAGE` and this exit code.
    Error(BString, u8),
    /// Wrong use: `error: MESSAGE` if there is one, then this usage on standard error; exit code 129.
    Usage(Option<BString>, String),
    /// The same, but the usage goes to standard output, as when it was asked for.
    UsageAsked(Option<BString>, String),
    /// These lines as they are, exit code 128.
    Lines(String),
    /// All has been said; only the exit code is left.
    Exit(u8),
    /// Standard output is a pipe that nobody reads any more.
    BrokenPipe,
    /// A signal was caught while locks were held; they are given up by now.
    Interrupted,
}

/// What the parts of a command return.
pub type Result<T> = std::result::Result<T, Failure>;

/// Git's exit code where a command returns -1: it has said why something could not be done.
pub const FAILED: u8 = 255;

/// Git's exit code for wrong use.
pub const WRONG_USE: u8 = 129;

impl Failure {
    /// Says on standard error (or output) why the program ends, and returns its exit code.
    pub fn report(self) -> u8 {
        match self {
            Failure::Fatal(message) => {
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
                // Nothing is left to do if even standard error cannot be written.
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

/// Writes one message to standard error in a single call. Control characters become `?`, as git shows them, so that
/// a refname cannot drive somebody's terminal.
pub fn say(prefix: &str, message: &[u8]) {
    let mut line = Vec::with_capacity(prefix.len() + message.len() + 1);
    line.extend_from_slice(prefix.as_bytes());
    let shown =
        message.iter().map(|&byte| if byte.is_ascii_control() && !b"\t\n".contains(&byte) { b'?' } else { byte });
    line.extend(shown);
    line.push(b'\n');
    // If standard error is closed, nobody can be told.
    let _ = std::io::stderr().write_all(&line);
}

/// What the system says of an error, without the number that Rust adds.
pub fn system_text(error: &std::io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error") {
        Some((text, _)) => text.to_owned(),
        None => text,
    }
}

/// A message made of parts that may be text or bytes: `message!["cannot lock ref '", name, "'"]`.
macro_rules! message {
    ($($part:expr),+ $(,)?) => {{
        let mut message = ::bstr::BString::default();
        $( message.extend_from_slice(AsRef::<[u8]>::as_ref(&$part)); )+
        message
    }};
}

/// `Err(Failure::Fatal(..))` of a message made of parts.
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
            // Git ends where it reads the setting, whatever it was about to do.
            refdb::Error::Misuse(fault @ refdb::Misuse::Setting(_)) => Failure::Lines(format!("fatal: {fault}\n")),
            error => Failure::Fatal(text_of(&error).into()),
        }
    }
}

impl From<refdb::ObjectError> for Failure {
    fn from(error: refdb::ObjectError) -> Self {
        refdb::Error::from(error).into()
    }
}

/// How most commands report that a change was refused: `error: MESSAGE` and exit code 1. A hook's refusal is fatal,
/// though.
pub fn refused(error: refdb::Error) -> Failure {
    match error {
        refdb::Error::Hook(text) => Failure::Fatal(text.into()),
        // Git finds out who makes a change before it makes it.
        error @ refdb::Error::Ident(_) => error.into(),
        error if is_of_packed_refs(&error) => error.into(),
        error => match Failure::from(error) {
            Failure::Fatal(text) => Failure::Error(text, 1),
            other => other,
        },
    }
}

/// Whether packed-refs cannot be read. Git ends there with code 128, whatever it was about to do.
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

/// An error of the store in git's words, where git has words for it.
pub fn text_of(error: &refdb::Error) -> String {
    match error {
        refdb::Error::Lock(LockError::Held { path, age_seconds, uid, .. }) => format!(
            "Unable to create '{}': File exists.\n\n\
             Another process (user {uid}) has held this lock for {age_seconds} s. If no such process is running any \
             more,\nremove the file.",
            std::path::absolute(path).unwrap_or_else(|_| path.clone()).display()
        ),
        // Git's text of a broken line in packed-refs names the file itself.
        refdb::Error::Corrupt { path, what, .. } if what.contains(&*path.to_string_lossy()) => what.clone(),
        _ if is_too_large(error) => "reftable: transaction failure: entry too large".into(),
        _ => error.to_string(),
    }
}

/// Whether a record fits in no block of a reftable.
pub fn is_too_large(error: &refdb::Error) -> bool {
    use refdb::Error::{Stack, Table};
    match error {
        Table(error) => error.is_too_large(),
        Stack(error) => error.is_too_large(),
        _ => false,
    }
}
