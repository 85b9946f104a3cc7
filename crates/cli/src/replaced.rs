//! Shows objects as git-replace(1) has replaced them.

use crate::failure::say;
use bstr::{BStr, BString, ByteSlice};
use refdb::{Error, Result, Snapshot, Store, TargetView};
use refdb_types::ObjectId;
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
        let TargetView::Direct(by) = view.target else { continue };
        match ObjectId::from_hex(store.objects().hash(), name) {
            Ok(replaced) => drop(found.insert(replaced, by)),
            Err(_) => say("warning: ", &[b"bad replace ref name: ", name].concat()),
        }
    }
}
