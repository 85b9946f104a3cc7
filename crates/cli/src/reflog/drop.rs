//! `refdb reflog drop`: see git-reflog(1).

use super::{judged::all_logs, logged_ref, say_failed, say_not_found};
use crate::{
    Invocation,
    failure::{FAILED, Failure, Result, WRONG_USE, say},
    options::{Command, Opt, Parser, Word},
    session::{Session, before_locks},
};
use refdb::RefName;

pub(super) static COMMAND: Command = Command {
    program: "git",
    name: "reflog drop",
    about: "Delete reflogs, and keep the references",
    synopsis: &["[--all [--single-worktree] | <refs>...]"],
    options: &[
        Opt::flag("all", "drop the reflogs of all references"),
        Opt::flag("single-worktree", "with --all, keep the reflogs of other worktrees' own references"),
    ],
};

pub(super) fn run(invocation: &Invocation<'_>) -> Result<u8> {
    let session = Session::begin(invocation, &COMMAND)?;
    let (mut all, mut single, mut names) = (false, false, Vec::new());
    let mut parser = Parser::new(&COMMAND, invocation.words);
    while let Some(word) = parser.next_word()? {
        match word {
            Word::Argument(name) => names.push(name),
            Word::Option(opt, setting) => match opt.name {
                "all" => all = setting.is_on(),
                "single-worktree" => single = setting.is_on(),
                _ => opt.unread(),
            },
        }
    }
    if all && !names.is_empty() {
        say("usage: ", b"references specified along with --all");
        return Err(Failure::Exit(WRONG_USE));
    }
    before_locks()?;
    let mut is_whole = true;
    if all {
        is_whole &= drop_logs(&session, &all_logs(&session, single)?)?;
    }
    for name in names {
        match logged_ref(&session, name)? {
            Some(full) => is_whole &= drop_logs(&session, &[full])?,
            None => {
                say_not_found(name);
                is_whole = false;
            }
        }
    }
    Ok(if is_whole { 0 } else { FAILED })
}

/// Deletes these reflogs, and returns whether that succeeded for all of them.
fn drop_logs(session: &Session, names: &[RefName]) -> Result<bool> {
    let mut failed = Vec::new();
    if let Err(error) = session.store.drop_logs(names, &mut |_, error| failed.push(error)) {
        failed.push(error);
    }
    let is_whole = failed.is_empty();
    failed.into_iter().try_for_each(say_failed)?;
    Ok(is_whole)
}
