use super::{Options, check_name};
use crate::{
    failure::{Failure, Result, fatal, message, refused},
    session::Session,
};
use bstr::{BStr, BString, ByteSlice};
use refdb::{Change, Edit, Precondition, Target};
use refdb_types::ObjectId;

/// Runs `update-ref REF NEW [OLD]`.
pub(super) fn update(session: &Session, options: &Options) -> Result<u8> {
    let name = &options.arguments[0];
    let new = resolve(session, options.arguments[1].as_bstr(), "not a valid SHA1")?;
    let expected = match options.arguments.get(2) {
        None => Precondition::Any,
        // An old value that is empty or zero means that the ref must not exist.
        Some(old) => match old_id(session, old)? {
            Some(id) => Precondition::MustMatch(Target::Direct(id)),
            None => Precondition::MustNotExist,
        },
    };
    match apply(session, options, name, change_to(new), expected) {
        Ok(()) => Ok(0),
        Err(error @ (refdb::Error::Hook(_) | refdb::Error::Ident(_))) => Err(error.into()),
        Err(error) => {
            let failure = Failure::from(error);
            match failure {
                Failure::Fatal(text) => fatal!["update_ref failed for ref '", name, "': ", text],
                other => Err(other),
            }
        }
    }
}

/// Runs `update-ref -d REF [OLD]`.
pub(super) fn delete(session: &Session, options: &Options) -> Result<u8> {
    let name = &options.arguments[0];
    let expected = match options.arguments.get(1) {
        None => Precondition::Any,
        // Unlike in an update, an empty or zero old value demands nothing of the ref.
        Some(old) => match old_id(session, old)? {
            Some(id) => Precondition::MustMatch(Target::Direct(id)),
            None => Precondition::Any,
        },
    };
    apply(session, options, name, Change::Delete, expected).map_err(refused)?;
    Ok(0)
}

/// Returns the change that makes a ref hold this id. The zero id deletes the ref.
pub(crate) fn change_to(new: ObjectId) -> Change {
    if new.is_null() { Change::Delete } else { Change::Set(Target::Direct(new)) }
}

pub(crate) fn apply(
    session: &Session,
    options: &Options,
    name: &BString,
    change: Change,
    expected: Precondition,
) -> refdb::Result<()> {
    let name = check_name(name, &change)?;
    let edit = Edit { name, change, expected, deref: !options.no_deref, log: options.log() };
    let mut transaction = session.store.transaction();
    transaction.add(edit)?;
    session.warn_of_hooks();
    transaction.commit()?;
    Ok(())
}

fn old_id(session: &Session, text: &BString) -> Result<Option<ObjectId>> {
    if text.is_empty() {
        return Ok(None);
    }
    Ok(Some(resolve(session, text.as_bstr(), "not a valid old SHA1")?).filter(|id| !id.is_null()))
}

fn resolve(session: &Session, text: &BStr, otherwise: &str) -> Result<ObjectId> {
    match session.revisions().resolve(text)? {
        Some(id) => Ok(id),
        None => Err(Failure::Fatal(message![text, ": ", otherwise])),
    }
}
