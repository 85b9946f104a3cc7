//! `refdb refs rename`: renames a ref and its reflog in one transaction. Git has this command from 2.56 on.

use super::change::misuse;
use crate::{
    Invocation,
    failure::{Failure, Result, fatal, message, refused},
    listing::follow,
    options::{Command, Opt, Parser, Value, Word},
    session::{Session, before_locks},
};
use bstr::{BStr, BString, ByteSlice};
use refdb::{RefName, Snapshot, Target, TransactionOptions};
use refdb_types::{FormatOptions, ObjectId, check_format};

pub(super) static COMMAND: Command = Command {
    program: "git",
    name: "refs rename",
    about: "Rename a reference and its reflog",
    synopsis: &["[--message=<reason>] <old-ref> <new-ref>"],
    options: &[Opt::flag("message", "message to record in the reflog").takes(Value::Required("reason"))],
};

pub(super) fn run(invocation: &Invocation<'_>) -> Result<u8> {
    let session = Session::begin(invocation, &COMMAND)?;
    let (mut names, mut reason) = (Vec::new(), None);
    let mut parser = Parser::new(&COMMAND, invocation.words);
    while let Some(word) = parser.next_word()? {
        match word {
            Word::Argument(name) => names.push(name),
            Word::Option(opt, setting) => match opt.name {
                "message" => reason = setting.value().map(ToOwned::to_owned),
                _ => opt.unread(),
            },
        }
    }
    let [old, new] = names[..] else { return Err(misuse("rename requires old and new reference name")) };
    if reason.as_ref().is_some_and(|reason: &BString| reason.is_empty()) {
        return fatal!["refusing to perform update with empty message"];
    }
    rename(&session, &name(old)?, &name(new)?, reason.unwrap_or_default())
}

fn name(text: &BStr) -> Result<RefName> {
    let is_whole = check_format(text, FormatOptions::default()).is_ok();
    match RefName::new(text.to_vec()) {
        Ok(name) if is_whole => Ok(name),
        _ => fatal!["invalid ref format: '", text, "'"],
    }
}

fn rename(session: &Session, old: &RefName, new: &RefName, reason: BString) -> Result<u8> {
    let id = session.store.read(Failure::is_lost, |snapshot| id_to_rename(snapshot, old, new))?;
    before_locks()?;
    let mut transaction = session.store.transaction();
    // One name may be a folder of the other, so the old ref is deleted in the same step in which the new ref is
    // created.
    let options = TransactionOptions::new().atomic_visibility(true).allow_replacing_parents(true);
    transaction.options(options);
    transaction.message(reason).rename(old, new, id);
    session.warn_of_hooks();
    transaction.commit().map_err(|error| without_lock(new, refused(error)))?;
    Ok(0)
}

/// Returns the object of the old ref. Fails if the old ref cannot be renamed to `new`.
fn id_to_rename(snapshot: &dyn Snapshot, old: &RefName, new: &RefName) -> Result<ObjectId> {
    let id = match snapshot.get(old)? {
        None => return fatal!["reference does not exist: '", old, "'"],
        Some(Target::Symbolic(_)) if follow(snapshot, old.as_bstr())?.is_none() => {
            return fatal!["reference does not exist: '", old, "'"];
        }
        Some(Target::Symbolic(_)) => None,
        Some(Target::Direct(id)) => Some(id),
    };
    if snapshot.get(new)?.is_some() {
        return fatal!["reference already exists: '", new, "'"];
    }
    id.ok_or_else(|| Failure::Error(message!["refname ", old, " is a symbolic ref, renaming it is not supported"], 1))
}

/// Removes the mention of a lock from a message about a conflicting name, as git does here.
fn without_lock(new: &RefName, failure: Failure) -> Failure {
    let Failure::Error(text, code) = failure else { return failure };
    let lock = message!["cannot lock ref '", new, "': "];
    match text.strip_prefix(&lock[..]).filter(|rest| rest.contains_str(" exists; cannot create ")) {
        Some(rest) => Failure::Error(rest.into(), code),
        None => Failure::Error(text, code),
    }
}
