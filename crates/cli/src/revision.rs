//! Names of objects, in all forms of gitrevisions(7) that the engine understands.

use crate::failure::{Failure, Result, say};
use bstr::BStr;
use refdb::{NameError, Objects, Store, resolve_name};
use refdb_types::ObjectId;

/// Finds the objects that texts name.
#[derive(Clone, Copy)]
pub struct Revisions<'a> {
    /// Where refs are.
    pub store: &'a Store,
    /// Where objects are.
    pub objects: &'a Objects,
}

impl Revisions<'_> {
    /// The object that `text` names; `None` if there is none, or if the form is not understood.
    pub fn resolve(&self, text: &BStr) -> Result<Option<ObjectId>> {
        let warn = &mut |warning: String| say("warning: ", warning.as_bytes());
        let first_only = !self.store.settings().warn_ambiguous_refs;
        match resolve_name(&|| self.store.snapshot(), self.objects, text, first_only, warn) {
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

impl crate::update_ref::request::Resolve for Revisions<'_> {
    fn resolve(&mut self, text: &BStr) -> Result<Option<ObjectId>> {
        Revisions::resolve(self, text)
    }
}
