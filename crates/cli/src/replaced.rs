//! Shows objects as git-replace(1) has replaced them.

use crate::failure::say;
use bstr::{BStr, BString, ByteSlice};
use refdb::{Error, Resolved, Result, Snapshot, Store, TargetView, objects::ObjectError};
use refdb_types::{ObjectId, RefName};
use std::{collections::HashMap, os::unix::ffi::OsStrExt};

/// The environment variable that disables replacements, whatever its value is.
pub const NOT_HEEDED: &str = "GIT_NO_REPLACE_OBJECTS";

/// Makes the store show the replacements of objects that `git replace` has replaced. Replace refs are read only once,
/// at the first call that succeeds for a store.
pub fn apply(store: &Store) -> Result<()> {
    store.objects().apply_replacements(|| find(store))
}

/// Returns the replacement of each replaced object.
fn find(store: &Store) -> Result<HashMap<ObjectId, ObjectId>> {
    // A bad value is ignored, because refs do not depend on it.
    let is_off = store.config().last("core.usereplacerefs").is_some_and(|value| value.boolean().is_ok_and(|on| !on));
    if is_off || store.environment().get(NOT_HEEDED).is_some() {
        return Ok(HashMap::new());
    }
    let base = store.environment().get("GIT_REPLACE_REF_BASE");
    let base: BString = base.map_or("refs/replace/".into(), |base| base.as_bytes().into());
    store.read(Error::is_stale, |snapshot| find_below(base.as_bstr(), snapshot, store))
}

fn find_below(base: &BStr, snapshot: &dyn Snapshot, store: &Store) -> Result<HashMap<ObjectId, ObjectId>> {
    let mut found = HashMap::new();
    let mut cursor = snapshot.cursor(false)?;
    cursor.seek(base)?;
    loop {
        let view = match cursor.next() {
            Ok(Some(view)) => view,
            Ok(None) => return Ok(found),
            // A broken ref replaces nothing.
            Err(Error::BrokenRef(_)) => continue,
            Err(error) => return Err(error),
        };
        let Some(name) = view.name.strip_prefix(base.as_bytes()) else { return Ok(found) };
        let by = match view.target {
            TargetView::Direct(by) => by,
            TargetView::Symbolic(target) => match RefName::new(target.to_vec()).map(|to| refdb::resolve(snapshot, &to))
            {
                Ok(Ok(Resolved::Object { id, .. })) => id,
                Ok(Err(error)) if !error.is_broken_ref() => return Err(error),
                // As for git, the object is missing then.
                _ => ObjectId::null(store.objects().hash()),
            },
        };
        let hex = name.rsplit(|byte| *byte == b'/').next().unwrap_or(name);
        match ObjectId::from_hex(store.objects().hash(), hex) {
            Ok(replaced) if found.contains_key(&replaced) => {
                return Err(Error::Objects(ObjectError::ReplacedTwice(name.as_bstr().to_string())));
            }
            Ok(replaced) => drop(found.insert(replaced, by)),
            Err(_) => say("warning: ", &[b"bad replace ref name: ", name].concat()),
        }
    }
}
