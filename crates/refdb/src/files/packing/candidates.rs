//! The loose refs that can be packed.

use crate::Result;
use crate::files::{
    cursor,
    loose::{self, At, LooseRef, listing::Rivals},
    store::Store,
};
use bstr::{BStr, BString};
use refdb_repo::ObjectClass;
use refdb_types::{FormatOptions, ObjectId, Scope, check_format};
use std::sync::Arc;

/// A loose ref that is being packed.
pub(crate) struct Loose {
    pub(crate) name: BString,
    pub(crate) id: ObjectId,
    pub(crate) peeled: Option<ObjectId>,
}

/// Counts the loose refs that [`for_each_loose`] visits and, if there are at least `from`, returns those whose objects
/// exist.
pub(crate) fn all_loose(store: &Arc<Store>, from: usize) -> Result<(usize, Vec<Loose>)> {
    let mut found = Vec::new();
    for_each_loose(store, &mut |name, id| {
        found.push((name.to_owned(), id));
        Ok(())
    })?;
    let (count, mut refs) = (found.len(), Vec::new());
    if count >= from {
        for (name, id) in found {
            refs.extend(packable(store, name, id)?);
        }
    }
    Ok((count, refs))
}

/// Peels a loose ref for packing; `None` if its object is missing.
pub(crate) fn packable(store: &Store, name: BString, id: ObjectId) -> Result<Option<Loose>> {
    let peeled = match store.options.objects.classify(&id)? {
        ObjectClass::Missing => return Ok(None),
        ObjectClass::Tag(to) => to,
        ObjectClass::Commit | ObjectClass::Other => None,
    };
    Ok(Some(Loose { name, id, peeled }))
}

/// Visits the loose refs that can be packed if their objects exist: well-named shared refs that are neither symbolic
/// nor broken and do not hold the null id.
pub(crate) fn for_each_loose(store: &Arc<Store>, act: &mut dyn FnMut(&BStr, ObjectId) -> Result<()>) -> Result<()> {
    let mut buffer = Vec::new();
    let options = &store.options;
    cursor::loose_names(store, &mut |name| {
        if Scope::of(name) != Scope::Shared || check_format(name, FormatOptions::default()).is_err() {
            return Ok(());
        }
        let Some(path) = store.layout.ref_path(name) else { return Ok(()) };
        match loose::read(&options.fs, options.hash, &path, Rivals::Possible, &mut buffer)? {
            At::Ref(LooseRef::Direct(id)) if !id.is_null() => act(name, id),
            At::Ref(_) | At::Broken(_) | At::Missing | At::Folder => Ok(()),
        }
    })
}
