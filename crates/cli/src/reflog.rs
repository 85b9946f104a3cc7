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
    session::Session,
};
use bstr::{BStr, ByteSlice};
use refdb::{Environment, RefName, find_logged_ref};
use std::time::{SystemTime, UNIX_EPOCH};

/// The commands below `reflog`.
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

/// How these commands end when something could not be done: git returns -1.
const FAILED: u8 = 255;

/// The ref with a reflog that a user means by a name, short or full.
fn logged_ref(session: &Session, name: &BStr) -> Result<Option<RefName>> {
    let first_only = !session.store.settings().warn_ambiguous_refs;
    let name = if name == "@" { "HEAD".into() } else { name };
    Ok(find_logged_ref(session.store.snapshot()?, session.store.objects(), name, first_only)?)
}

/// The present time in seconds since 1970. Git's tests set another one.
fn now(environment: &Environment) -> u64 {
    let set = environment.get("GIT_TEST_DATE_NOW").and_then(|text| text.to_str()?.parse().ok());
    set.unwrap_or_else(|| SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()))
}

/// Says that there is no reflog of this name.
fn say_not_found(name: &BStr) {
    say("error: ", &crate::failure::message!["reflog could not be found: '", name, "'"]);
}

/// Says that one reflog could not be changed. The others go on, but if a signal came.
fn say_failed(error: refdb::Error) -> Result<()> {
    match Failure::from(error) {
        Failure::Fatal(text) => say("error: ", &text),
        Failure::Lines(text) => say("error: ", text.trim_end().as_bytes().as_bstr()),
        other => return Err(other),
    }
    Ok(())
}
