//! Names of objects, in all forms of gitrevisions(7) that the engine understands.

use crate::{
    failure::{Failure, Result, say},
    replaced,
};
use bstr::{BStr, ByteSlice};
use refdb::{NameError, Store, resolve_name};
use refdb_types::ObjectId;

/// Finds what a value names. A full-length hexadecimal id is not asked for: it stands for itself.
pub trait Resolve {
    /// The object that `text` names, in any form of gitrevisions(7); `None` if there is none.
    fn resolve(&mut self, text: &BStr) -> Result<Option<ObjectId>>;
}

/// `core.warnAmbiguousRefs`: whether a short name has to be found by one rule only. Git reads it where it meets such a name.
pub fn strict_names(store: &Store) -> Result<bool> {
    store.settings().warn_ambiguous_refs.clone().map_err(|fault| Failure::Fatal(fault.into()))
}

/// Finds the objects that texts name.
#[derive(Clone, Copy)]
pub struct Revisions<'a> {
    /// Where refs and objects are.
    pub store: &'a Store,
}

impl Revisions<'_> {
    /// The object that `text` names; `None` if there is none, or if the form is not understood.
    pub fn resolve(&self, text: &BStr) -> Result<Option<ObjectId>> {
        // Else no object is read.
        if text.find_byteset(b"^~:").is_some() {
            replaced::heed(self.store)?;
        }
        let warn = &mut |warning: String| say("warning: ", warning.as_bytes());
        let first_only = !strict_names(self.store)?;
        match resolve_name(&|| self.store.snapshot(), self.store.objects(), text, first_only, warn) {
            Ok(id) => Ok(Some(id)),
            Err(NameError::NotFound(_)) => Ok(None),
            Err(NameError::Store(error)) => Err(error.into()),
            Err(error @ NameError::Ambiguous { .. }) => {
                say("error: ", error.to_string().as_bytes());
                Ok(None)
            }
            Err(error @ (NameError::LogTooShort { .. } | NameError::NoLog(_))) => {
                Err(Failure::Fatal(error.to_string().into()))
            }
        }
    }
}

impl Resolve for Revisions<'_> {
    fn resolve(&mut self, text: &BStr) -> Result<Option<ObjectId>> {
        Revisions::resolve(self, text)
    }
}
