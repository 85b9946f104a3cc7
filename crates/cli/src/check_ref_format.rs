//! `refdb check-ref-format`. See git-check-ref-format(1).

use crate::{
    Invocation,
    failure::{Failure, Result, fatal, message},
    options::{Command, Opt},
    output::Output,
    session::Session,
};
use bstr::{BString, ByteSlice};
use refdb_types::{FormatOptions, check_format, normalize};
use std::{ops::ControlFlow, os::unix::ffi::OsStrExt};

pub static COMMAND: Command = Command {
    program: "git",
    name: "check-ref-format",
    about: "Ensure that a reference name is well formed",
    synopsis: &["[--normalize] [<options>] <refname>", "--branch <branchname-shorthand>"],
    options: &[
        Opt::flag("normalize", "collapse slashes and print the name").fixed(),
        Opt::flag("print", "synonym of --normalize").fixed(),
        Opt::flag("allow-onelevel", "accept a name without a slash"),
        Opt::flag("refspec-pattern", "accept one '*' in the name").fixed(),
        Opt::flag("branch", "check the short name of a branch and print it").fixed(),
    ],
};

pub fn run(invocation: &Invocation<'_>) -> Result<u8> {
    let words: Vec<&[u8]> = invocation.words.iter().map(|word| word.as_bytes()).collect();
    // This command is older than git's option parser, so its options can be neither abbreviated nor placed after the
    // name, and its usage has no list of options.
    match &words[..] {
        [help] if matches!(*help, b"-h" | b"--help-all") => {
            print(short_usage().as_bytes())?;
            Err(Failure::Exit(crate::failure::WRONG_USE))
        }
        [option, name] if *option == b"--branch" => branch(invocation, name),
        [options @ .., name] if !name.starts_with(b"-") => check(options, name),
        _ => wrong_use(),
    }
}

fn check(options: &[&[u8]], name: &[u8]) -> Result<u8> {
    let mut format = FormatOptions::default();
    let mut normalized = false;
    for option in options {
        match *option {
            b"--normalize" | b"--print" => normalized = true,
            b"--allow-onelevel" => format.allow_onelevel = true,
            b"--no-allow-onelevel" => format.allow_onelevel = false,
            b"--refspec-pattern" => format.refspec_pattern = true,
            _ => return wrong_use(),
        }
    }
    let name = if normalized { normalize(name) } else { name.to_vec() };
    if check_format(&name, format).is_err() {
        return Ok(1);
    }
    if normalized {
        print(&[&name[..], b"\n"].concat())?;
    }
    Ok(0)
}

fn branch(invocation: &Invocation<'_>, shorthand: &[u8]) -> Result<u8> {
    let name = match previous_checkout(shorthand) {
        Some((nth, rest)) => checked_out_before(invocation, nth)?.map(|name| message![name, rest]),
        None => Some(BString::from(shorthand)),
    };
    match name {
        Some(name) if is_branch_name(&name) => {
            print(&[&name[..], b"\n"].concat())?;
            Ok(0)
        }
        _ => fatal!["'", shorthand, "' is not a valid branch name"],
    }
}

/// Returns the branch or commit that was checked out before the last `nth` checkouts, according to HEAD's reflog.
/// Returns `None` if there were fewer or no repository can be opened.
fn checked_out_before(invocation: &Invocation<'_>, nth: u64) -> Result<Option<BString>> {
    let Ok(session) = Session::open(invocation.globals) else { return Ok(None) };
    Ok(session.store.read(refdb::Error::is_stale, |snapshot| {
        let (mut left, mut found) = (nth, None);
        snapshot.log("HEAD".into(), &mut |entry| {
            let Some((from, _)) = entry.checkout() else {
                return ControlFlow::Continue(());
            };
            left -= 1;
            if left > 0 {
                return ControlFlow::Continue(());
            }
            found = Some(from.to_owned());
            ControlFlow::Break(())
        })?;
        Ok::<_, refdb::Error>(found)
    })?)
}

/// Returns the N of `@{-N}` and the text that follows it, or `None` if the text begins otherwise or N is 0. Git, which
/// uses C's `strtol`, also accepts blanks and a plus sign before the digits.
fn previous_checkout(text: &[u8]) -> Option<(u64, &[u8])> {
    let (nth, rest) = text.strip_prefix(b"@{-")?.split_once_str("}")?;
    let nth = nth.trim_ascii_start().to_str().ok()?.parse().ok().filter(|nth| *nth > 0)?;
    Some((nth, rest))
}

/// Returns whether a branch may have this name, which is stricter than the format of `refs/heads/NAME`: it must neither
/// look like an option nor be `HEAD`.
fn is_branch_name(name: &[u8]) -> bool {
    !name.starts_with(b"-")
        && name != b"HEAD"
        && check_format(&[b"refs/heads/", name].concat(), FormatOptions::default()).is_ok()
}

fn print(text: &[u8]) -> Result<()> {
    let mut output = Output::default();
    output.buffer().extend_from_slice(text);
    output.flush()
}

fn short_usage() -> String {
    let usage = COMMAND.usage(crate::options::Asked::Short);
    usage.lines().take(COMMAND.synopsis.len()).map(|line| format!("{line}\n")).collect()
}

fn wrong_use<T>() -> Result<T> {
    eprint!("{}", short_usage());
    Err(Failure::Exit(crate::failure::WRONG_USE))
}
