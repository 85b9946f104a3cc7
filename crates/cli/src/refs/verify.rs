//! `refdb refs verify`: see git-refs(1).

use super::fsck::{Levels, Severity};
use crate::{
    Invocation,
    failure::{Failure, Result, WRONG_USE, message, say},
    options::{Command, Opt, Parser, Word},
    session::Session,
};
use bstr::{BString, ByteSlice};
use refdb::verify::{Fault, Looking, Verified};
use std::os::unix::ffi::OsStrExt;

pub(super) static COMMAND: Command = Command {
    program: "git",
    name: "refs verify",
    about: "Check references and the files that store them",
    synopsis: &["[--strict] [--verbose]"],
    options: &[
        Opt::flag("verbose", "print the name of each part that is checked"),
        Opt::flag("strict", "treat warnings as errors"),
        Opt::flag("deep", "also check that objects exist, that branches hold commits, and every block of each table"),
    ],
};

pub(super) fn run(invocation: &Invocation<'_>) -> Result<u8> {
    let session = Session::begin(invocation, &COMMAND)?;
    let (mut verbose, mut strict, mut deep) = (false, false, false);
    let mut parser = Parser::new(&COMMAND, invocation.words);
    let mut arguments = 0;
    while let Some(word) = parser.next_word()? {
        match word {
            Word::Argument(_) => arguments += 1,
            Word::Option(opt, setting) => match opt.name {
                "verbose" => verbose = setting.is_on(),
                "strict" => strict = setting.is_on(),
                "deep" => deep = setting.is_on(),
                _ => opt.unread(),
            },
        }
    }
    if arguments > 0 {
        say("usage: ", b"'git refs verify' takes no arguments");
        return Err(Failure::Exit(WRONG_USE));
    }
    let levels = Levels::of(&session.store, strict)?;
    let mut teller = Teller { levels, verbose, errors: 0 };
    session.store.verify(deep, &mut |verified| teller.tell(verified))?;
    Ok(if teller.errors > 0 { 255 } else { 0 })
}

struct Teller {
    levels: Levels,
    verbose: bool,
    errors: u64,
}

impl Teller {
    fn tell(&mut self, verified: Verified) {
        match verified {
            Verified::Worktree => self.say_progress(b"Checking references consistency"),
            Verified::Looking(Looking::Ref(name)) => self.say_progress(&[b"Checking ", &name[..]].concat()),
            Verified::Looking(Looking::Table(name)) => self.say_progress(&[b"Checking table: ", &name[..]].concat()),
            Verified::Looking(Looking::Packed(path)) => {
                self.say_progress(&[b"Checking packed-refs file ", path.as_os_str().as_bytes()].concat());
            }
            Verified::Fault(fault) => self.tell_fault(&fault),
            Verified::Unreadable(worktree, why) => self.tell_unreadable(worktree, &why),
        }
    }

    fn say_progress(&self, line: &[u8]) {
        if self.verbose {
            say("", line);
        }
    }

    fn tell_fault(&mut self, fault: &Fault) {
        let prefix = match self.levels.severity(fault.check) {
            Severity::Ignore => return,
            Severity::Warn => "warning: ",
            Severity::Error => {
                self.errors += 1;
                "error: "
            }
        };
        say(prefix, &message![fault.place, ": ", fault.check.name(), ": ", fault.what]);
    }

    /// Reports a stack that cannot be read. Git names only the worktree, and crashes if the common stack is broken.
    fn tell_unreadable(&mut self, worktree: Option<BString>, why: &str) {
        self.errors += 1;
        match worktree {
            Some(id) => {
                say("error: ", &message!["reftable stack for worktree '", id.as_bstr(), "' is broken"]);
                self.say_progress(why.as_bytes());
            }
            None => say("error: ", &message!["reftable stack is broken: ", why]),
        }
    }
}
