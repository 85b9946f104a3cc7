//! `refdb reflog write`: see git-reflog(1).

use crate::{
    Invocation,
    failure::{Failure, Result, fatal, message},
    options::Command,
    session::{Session, before_locks},
};
use bstr::BStr;
use refdb::RefName;
use refdb_types::{FormatOptions, ObjectId, check_format, is_root_ref};

pub(super) static COMMAND: Command = Command {
    program: "git",
    name: "reflog write",
    about: "Add an entry to the reflog of a reference, without changing the reference",
    synopsis: &["<ref> <old-oid> <new-oid> <message>"],
    options: &[],
};

pub(super) fn run(invocation: &Invocation<'_>) -> Result<u8> {
    let session = Session::begin(invocation, &COMMAND)?;
    let arguments = COMMAND.arguments(invocation.words)?;
    let [name, old, new, text] = arguments[..] else { return Err(COMMAND.wrong_use(None)) };
    let any_level = FormatOptions { allow_onelevel: true, refspec_pattern: false };
    let is_name = check_format(name, any_level).is_ok() && (name.contains(&b'/') || is_root_ref(name));
    let Some(full) = RefName::new(name.to_vec()).ok().filter(|_| is_name) else {
        return fatal!["invalid reference name: ", name];
    };
    let old = object(&session, old, "old")?;
    let new = object(&session, new, "new")?;
    before_locks()?;
    session.warn_of_hooks();
    session.store.append_log(&full, old, new, text).map_err(|error| match error {
        // Git determines the committer and calls the hook before it changes anything.
        error @ (refdb::Error::Ident(_) | refdb::Error::Hook(_)) => error.into(),
        error => match Failure::from(error) {
            Failure::Fatal(text) => Failure::Fatal(message!["cannot commit reflog update: ", text]),
            other => other,
        },
    })?;
    Ok(0)
}

/// Returns the object with this full id, which must exist unless the id is null. As in git, anything after the id is
/// ignored.
fn object(session: &Session, text: &BStr, which: &str) -> Result<ObjectId> {
    let hash = session.store.hash();
    let id = text.get(..hash.len_hex()).and_then(|hex| ObjectId::from_hex(hash, hex).ok());
    let Some(id) = id else { return fatal!["invalid ", which, " object ID: '", text, "'"] };
    if !id.is_null() && !session.store.objects().exists(&id)? {
        return fatal![which, " object '", text, "' does not exist"];
    }
    Ok(id)
}
