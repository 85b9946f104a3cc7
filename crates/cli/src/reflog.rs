//! `refdb reflog`. See git-reflog(1).

mod delete;
mod drop;
mod exists;
mod expire;
mod judged;
mod list;
mod show;
mod write;

use crate::{
    failure::{Failure, Result, say},
    group::Group,
    options::Command,
    revision::strict_names,
    session::Session,
};
use bstr::{BStr, ByteSlice};
use refdb::{RefName, Snapshot, find_logged_ref};

/// The subcommands of `reflog`.
pub static GROUP: Group = Group {
    command: Command { program: "git", name: "reflog", about: "Manage reflogs", synopsis: &[], options: &[] },
    members: &[
        (&show::COMMAND, show::run),
        (&list::COMMAND, list::run),
        (&exists::COMMAND, exists::run),
        (&write::COMMAND, write::run),
        (&delete::COMMAND, delete::run),
        (&drop::COMMAND, drop::run),
        (&expire::COMMAND, expire::run),
    ],
    otherwise: Some((&show::COMMAND, show::run)),
};

/// Finds the ref with a reflog that a user means by a name, short or full.
fn logged_ref(session: &Session, name: &BStr) -> Result<Option<RefName>> {
    let first_only = !strict_names(&session.store)?;
    let name = if name == "@" { "HEAD".into() } else { name };
    let find = |snapshot: &dyn Snapshot| find_logged_ref(snapshot, session.store.objects(), name, first_only);
    Ok(session.store.read(refdb::Error::is_stale, find)?)
}

/// Reports that there is no reflog of this name.
fn say_not_found(name: &BStr) {
    say("error: ", &crate::failure::message!["reflog could not be found: '", name, "'"]);
}

/// Reports a reflog that could not be changed. Fails instead if a signal was caught, or if a file was lost while it was
/// read ([`Failure::Lost`]).
fn say_failed(error: refdb::Error) -> Result<()> {
    match Failure::from(error) {
        Failure::Fatal(text) => say("error: ", &text),
        Failure::Lines(text) => say("error: ", text.trim_end().as_bytes().as_bstr()),
        other => return Err(other),
    }
    Ok(())
}
