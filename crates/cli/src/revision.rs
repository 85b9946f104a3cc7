//! Resolves names of objects, in all forms of gitrevisions(7) that the engine supports.

use crate::{
    failure::{Failure, Result, say},
    replaced,
};
use bstr::{BStr, ByteSlice};
use refdb::{NameError, Store, resolve_name};
use refdb_types::ObjectId;

/// Resolves names to object ids.
pub trait Resolve {
    /// Returns the object that `text` names, or `None` if there is none, the form is not supported or the text is
    /// ambiguous.
    fn resolve(&mut self, text: &BStr) -> Result<Option<ObjectId>>;
}

/// Returns `core.warnAmbiguousRefs`: whether only one rule may find a short name. Fails if the setting is invalid,
/// which git notices only when it needs the setting.
pub fn strict_names(store: &Store) -> Result<bool> {
    store.settings().warn_ambiguous_refs.clone().map_err(|fault| Failure::Fatal(fault.into()))
}

/// Resolves names of objects in a repository.
#[derive(Clone, Copy)]
pub struct Revisions<'a> {
    /// The refs and objects.
    pub store: &'a Store,
}

impl Revisions<'_> {
    /// Returns the object that `text` names. Returns `None` if there is none, if the form is not supported, or if an
    /// abbreviated id is ambiguous, which is reported on standard error. A reflog that lacks the entry is an error.
    pub fn resolve(&self, text: &BStr) -> Result<Option<ObjectId>> {
        // Replacements matter only to names with one of these characters, which lead through objects.
        if text.find_byteset(b"^~:").is_some() {
            replaced::apply(self.store)?;
        }
        let warn = &mut |warning: String| say("warning: ", warning.as_bytes());
        let first_only = match strict_names(self.store) {
            Ok(strict) => !strict,
            // Git needs the setting only for names.
            Err(_) if is_id(self.store, text) => true,
            Err(failure) => return Err(failure),
        };
        match resolve_name(&|| self.store.snapshot(), self.store.objects(), text, first_only, warn) {
            Ok(id) => Ok(Some(id)),
            Err(NameError::NotFound(_)) => Ok(None),
            Err(NameError::Store(error)) => Err(error.into()),
            Err(error @ NameError::Ambiguous { .. }) => {
                say("error: ", error.to_string().as_bytes());
                Ok(None)
            }
            Err(error) => Err(Failure::Fatal(error.to_string().into())),
        }
    }
}

/// Returns whether `text` is a full id, perhaps with a kind of object in braces.
fn is_id(store: &Store, text: &BStr) -> bool {
    let id = text.split_once_str("^{").map_or(text.as_bytes(), |(id, _)| id);
    ObjectId::from_hex(store.hash(), id).is_ok()
}

impl Resolve for Revisions<'_> {
    fn resolve(&mut self, text: &BStr) -> Result<Option<ObjectId>> {
        Revisions::resolve(self, text)
    }
}
