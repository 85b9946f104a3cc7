//! `refdb refs create`, `delete` and `update`: a single change in a transaction. Git has these commands from 2.56 on.

use crate::{
    Invocation,
    failure::{Failure, Result, fatal, message, refused},
    options::{Command, Opt, Parser, Value, Word},
    session::{Session, before_locks},
    update_ref::{Options, apply, change_to},
};
use bstr::{BStr, BString, ByteSlice};
use refdb::{Change, Precondition, Target};
use refdb_types::ObjectId;

const MESSAGE: Opt = Opt::flag("message", "message to record in the reflog").takes(Value::Required("reason"));
const NO_DEREF: Opt = Opt::flag("no-deref", "change a symbolic reference itself instead of its target");
const CREATE_REFLOG: Opt = Opt::flag("create-reflog", "create a reflog even if the configuration does not ask for one");

/// The command line of `refs create`.
pub(super) static CREATE: Command = Command {
    program: "git",
    name: "refs create",
    about: "Create a reference that does not exist",
    synopsis: &["[--message=<reason>] [--no-deref] [--create-reflog] <ref> <new-value>"],
    options: &[MESSAGE, NO_DEREF, CREATE_REFLOG],
};

/// The command line of `refs delete`.
pub(super) static DELETE: Command = Command {
    program: "git",
    name: "refs delete",
    about: "Delete a reference",
    synopsis: &["[--message=<reason>] [--no-deref] <ref> [<old-value>]"],
    options: &[MESSAGE, NO_DEREF],
};

/// The command line of `refs update`.
pub(super) static UPDATE: Command = Command {
    program: "git",
    name: "refs update",
    about: "Point a reference at another object",
    synopsis: &["[--message=<reason>] [--no-deref] [--create-reflog] <ref> <new-value> [<old-value>]"],
    options: &[MESSAGE, NO_DEREF, CREATE_REFLOG],
};

/// Runs `refs create`.
pub(super) fn create(invocation: &Invocation<'_>) -> Result<u8> {
    let session = Session::begin(invocation, &CREATE)?;
    let options = parse(&CREATE, invocation)?;
    let [name, new] = &options.arguments[..] else {
        return Err(misuse("create requires reference name and an object ID"));
    };
    options.check_reason()?;
    let new = object(&session, new, "object ID")?;
    if new.is_null() {
        return fatal!["cannot create reference with null new object ID"];
    }
    before_locks()?;
    let done = apply(&session, &options, name, Change::Set(Target::Direct(new)), Precondition::MustNotExist);
    done.map_err(|error| not_updated(name.as_bstr(), error))?;
    Ok(0)
}

/// Runs `refs delete`.
pub(super) fn delete(invocation: &Invocation<'_>) -> Result<u8> {
    let session = Session::begin(invocation, &DELETE)?;
    let options = parse(&DELETE, invocation)?;
    let (name, old) = match &options.arguments[..] {
        [name] => (name, None),
        [name, old] => (name, Some(old)),
        _ => return Err(misuse("delete requires reference name and an optional old object ID")),
    };
    options.check_reason()?;
    let old = old.map(|old| object(&session, old, "old object ID")).transpose()?;
    if old.is_some_and(|old| old.is_null()) {
        return fatal!["cannot delete reference with null old object ID"];
    }
    before_locks()?;
    let expected = old.map_or(Precondition::Any, |old| Precondition::MustMatch(Target::Direct(old)));
    apply(&session, &options, name, Change::Delete, expected).map_err(refused)?;
    Ok(0)
}

/// Runs `refs update`.
pub(super) fn update(invocation: &Invocation<'_>) -> Result<u8> {
    let session = Session::begin(invocation, &UPDATE)?;
    let options = parse(&UPDATE, invocation)?;
    let (name, new, old) = match &options.arguments[..] {
        [name, new] => (name, new, None),
        [name, new, old] => (name, new, Some(old)),
        _ => return Err(misuse("update requires reference name, new value and an optional old value")),
    };
    options.check_reason()?;
    let new = object(&session, new, "new object ID")?;
    let expected = match old.map(|old| object(&session, old, "old object ID")).transpose()? {
        None => Precondition::Any,
        Some(old) if old.is_null() => Precondition::MustNotExist,
        Some(old) => Precondition::MustMatch(Target::Direct(old)),
    };
    before_locks()?;
    let done = apply(&session, &options, name, change_to(new), expected);
    done.map_err(|error| not_updated(name.as_bstr(), error))?;
    Ok(0)
}

/// Returns the failure for a wrong number of arguments, in git's words.
pub(super) fn misuse(text: &str) -> Failure {
    Failure::Usage(None, format!("usage: {text}\n"))
}

/// Returns the failure for a refused change. The name of the ref precedes the reason of an error with exit code 1.
fn not_updated(name: &BStr, error: refdb::Error) -> Failure {
    match refused(error) {
        Failure::Error(text, code) => Failure::Error(message!["update_ref failed for ref '", name, "': ", text], code),
        other => other,
    }
}

fn parse(command: &'static Command, invocation: &Invocation<'_>) -> Result<Options> {
    let mut options = Options::default();
    let mut parser = Parser::new(command, invocation.words);
    while let Some(word) = parser.next_word()? {
        match word {
            Word::Argument(argument) => options.arguments.push(argument.to_owned()),
            Word::Option(opt, setting) => match opt.name {
                "message" => options.reason = setting.value().map(ToOwned::to_owned),
                "no-deref" => options.no_deref = setting.is_on(),
                "create-reflog" => options.create_reflog = setting.is_on(),
                _ => opt.unread(),
            },
        }
    }
    Ok(options)
}

impl Options {
    fn check_reason(&self) -> Result<()> {
        match &self.reason {
            Some(reason) if reason.is_empty() => fatal!["refusing to perform update with empty message"],
            _ => Ok(()),
        }
    }
}

fn object(session: &Session, text: &BString, what: &str) -> Result<ObjectId> {
    match session.revisions().resolve(text.as_bstr())? {
        Some(id) => Ok(id),
        None => fatal!["invalid ", what, ": '", text, "'"],
    }
}
