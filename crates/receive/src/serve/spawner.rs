//! Starts a hook once for each ref, and prepares only once what all starts have in common, above all the environment.

use super::child::Program;
use bstr::ByteSlice;
use nix::{
    spawn::{PosixSpawnAttr, PosixSpawnFileActions, PosixSpawnFlags, posix_spawn},
    sys::signal::{SigSet, Signal},
};
use refdb::hooks::SHELL;
use rustix::process::Pid;
use std::{
    collections::BTreeMap,
    ffi::{CString, OsStr, OsString},
    io,
    os::{
        fd::{AsRawFd, BorrowedFd, OwnedFd},
        unix::ffi::{OsStrExt, OsStringExt},
    },
    path::Path,
};

/// Starts a program repeatedly, in the current directory and with an empty standard input.
#[derive(Debug)]
pub(super) struct Spawner {
    path: CString,
    words: Vec<CString>,
    environment: Vec<CString>,
    attributes: PosixSpawnAttr,
    nothing: OwnedFd,
}

impl Spawner {
    /// Creates a spawner. Returns `None` for a program that runs in another directory or is searched for in `PATH`;
    /// [`std::process`] can start such a program.
    pub(super) fn new(program: &Program) -> io::Result<Option<Self>> {
        if program.directory != Path::new(".") || !program.path.as_bytes().contains(&b'/') {
            return Ok(None);
        }
        let words = [&program.path].into_iter().chain(&program.arguments);
        Ok(Some(Spawner {
            path: text(&program.path)?,
            words: words.map(|word| text(word)).collect::<io::Result<_>>()?,
            environment: environment(&program.variables)?,
            attributes: attributes()?,
            nothing: std::fs::File::open("/dev/null")?.into(),
        }))
    }

    /// Starts the program with additional arguments. All of its output goes to `user`. A script without a `#!` line is
    /// run by the shell, as in execvp(3).
    pub(super) fn start(&self, further: &[OsString], user: BorrowedFd<'_>) -> io::Result<Pid> {
        let further = further.iter().map(|word| text(word)).collect::<io::Result<Vec<_>>>()?;
        let mut words: Vec<&CString> = self.words.iter().chain(&further).collect();
        let mut files = PosixSpawnFileActions::init()?;
        for (ours, theirs) in [(self.nothing.as_raw_fd(), 0), (user.as_raw_fd(), 1), (user.as_raw_fd(), 2)] {
            files.add_dup2(ours, theirs)?;
        }
        let pid = match posix_spawn(&*self.path, &files, &self.attributes, &words, &self.environment) {
            Err(nix::Error::ENOEXEC) => {
                let shell = text(OsStr::new(SHELL))?;
                words.insert(0, &shell);
                posix_spawn(&*shell, &files, &self.attributes, &words, &self.environment)?
            }
            started => started?,
        };
        Pid::from_raw(pid.as_raw()).ok_or_else(|| io::Error::other("the system gave a process an invalid id"))
    }
}

/// Returns our environment with these changes.
fn environment(changes: &[(OsString, Option<OsString>)]) -> io::Result<Vec<CString>> {
    let mut variables: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
    for (name, value) in changes {
        match value {
            Some(value) => variables.insert(name.clone(), value.clone()),
            None => variables.remove(name),
        };
    }
    let line = |(name, value): (OsString, OsString)| text(&[name, value].join(OsStr::new("=")));
    variables.into_iter().map(line).collect()
}

/// Returns attributes with which the program starts with no signal blocked. Ignored signals other than SIGPIPE stay
/// ignored, and all others have their default action. SIGPIPE is reset because Rust ignores it and no program expects
/// that.
///
/// Without the set of signals to reset, the C library would query the action of each signal before it resets it.
fn attributes() -> io::Result<PosixSpawnAttr> {
    let mut attributes = PosixSpawnAttr::init()?;
    let mut default = SigSet::empty();
    if let Some(ignored) = ignored() {
        default = SigSet::all();
        Signal::iterator().filter(|signal| ignored & bit(*signal) != 0).for_each(|signal| default.remove(signal));
    }
    default.add(Signal::SIGPIPE);
    attributes.set_sigdefault(&default)?;
    attributes.set_sigmask(&SigSet::empty())?;
    attributes.set_flags(PosixSpawnFlags::POSIX_SPAWN_SETSIGDEF | PosixSpawnFlags::POSIX_SPAWN_SETSIGMASK)?;
    Ok(attributes)
}

/// Returns the ignored signals as bits, or `None` if they cannot be known or one of them has no name, because a set can
/// hold only named ones.
fn ignored() -> Option<u64> {
    // The signals 32 and 33 are the C library's own: it ignores them in programs that it starts, and no set can hold
    // them.
    const INTERNAL: u64 = 3 << 31;
    let status = std::fs::read("/proc/self/status").ok()?;
    let digits = status.lines().find_map(|line| line.strip_prefix(b"SigIgn:\t"))?;
    let ignored = u64::from_str_radix(digits.to_str().ok()?, 16).ok()?;
    let named = Signal::iterator().fold(0, |named, signal| named | bit(signal));
    (ignored & !(named | INTERNAL) == 0).then_some(ignored)
}

fn bit(signal: Signal) -> u64 {
    1 << (signal as u64 - 1)
}

/// Converts text for the system. Fails on a zero byte, which would end the text early.
fn text(text: &OsStr) -> io::Result<CString> {
    Ok(CString::new(text.to_owned().into_vec())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_is_ours_with_what_is_set_and_without_what_is_unset() {
        let path = std::env::var_os("PATH").unwrap();
        let changes = [("A".into(), Some("1=2".into())), ("PATH".into(), None), ("none".into(), None)];
        let lines = environment(&changes).unwrap();
        assert!(lines.contains(&c"A=1=2".to_owned()) && lines.is_sorted());
        assert!(!lines.iter().any(|line| line.to_bytes().starts_with(b"PATH=")));
        assert!(environment(&[]).unwrap().contains(&text(&[OsStr::new("PATH"), &path].join(OsStr::new("="))).unwrap()));
        assert!(environment(&[("A".into(), Some("1\x002".into()))]).is_err());
    }

    #[test]
    fn rust_ignores_a_broken_pipe_and_programs_do_not() {
        let ignored = ignored().unwrap();
        assert_ne!(ignored & bit(Signal::SIGPIPE), 0);
        assert!(attributes().unwrap().sigdefault().unwrap().contains(Signal::SIGPIPE));
    }
}
