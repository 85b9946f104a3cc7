//! What a store in memory assumes where there is neither an object database nor a configuration.

use crate::Result;
use refdb_repo::{ObjectCheck, ObjectClass, ObjectError};
use refdb_types::{Ident, ObjectId};
use std::time::{SystemTime, UNIX_EPOCH};

/// Takes every id for that of a commit that exists.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AnyObject;

impl ObjectCheck for AnyObject {
    fn classify(&self, _: &ObjectId) -> std::result::Result<ObjectClass, ObjectError> {
        Ok(ObjectClass::Commit)
    }
}

/// A fixed committer, at the present time in UTC.
pub(crate) fn committer() -> Result<Ident> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Ok(Ident { name: "refdb".into(), email: "refdb@localhost".into(), time_seconds: now.as_secs(), offset_decimal: 0 })
}
