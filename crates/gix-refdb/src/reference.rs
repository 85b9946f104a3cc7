//! Follows and peels references.

use crate::{Error, Result, Store, convert::target_for_gix};
use bstr::BStr;
use gix_hash::ObjectId;
use gix_object::{Find, Kind, TagRefIter};
use gix_ref::{Reference, Target, file::find::NotFound};
use refdb::{Snapshot, TargetView};

/// Symbolic refs that may follow one another: one more than the steps between them. The limit is git's and gix-ref's.
const CHAIN_MAX: usize = 5;

/// What `gix_ref::file::ReferenceExt` does with a file store, with this one.
pub trait ReferenceExt {
    /// The ref that a symbolic ref leads to, one step on; `None` if this ref is not symbolic.
    fn follow(&self, store: &Store) -> Option<Result<Reference>>;

    /// Becomes the ref at the end of the chain of symbolic refs. Returns the object that it holds.
    fn follow_to_object(&mut self, store: &Store) -> Result<ObjectId>;

    /// As [`follow_to_object`](ReferenceExt::follow_to_object); then follows annotated tags, and remembers in
    /// [`Reference::peeled`] the object that they lead to.
    fn peel_to_id(&mut self, store: &Store, objects: &dyn Find) -> Result<ObjectId>;

    /// Whether the ref has a reflog.
    fn log_exists(&self, store: &Store) -> Result<bool>;
}

impl ReferenceExt for Reference {
    fn follow(&self, store: &Store) -> Option<Result<Reference>> {
        self.target.try_name()?;
        Some(store.refdb().snapshot().map_err(Error::from).and_then(|snapshot| step(self, &*snapshot)))
    }

    fn follow_to_object(&mut self, store: &Store) -> Result<ObjectId> {
        if let Target::Object(id) = self.target {
            return Ok(id);
        }
        let begin = self.name.clone();
        let snapshot = store.refdb().snapshot()?;
        for _ in 1..CHAIN_MAX {
            *self = step(self, &*snapshot)?;
            if let Target::Object(id) = self.target {
                return Ok(id);
            }
        }
        Err(Error::Depth { name: begin.into_inner() })
    }

    fn peel_to_id(&mut self, store: &Store, objects: &dyn Find) -> Result<ObjectId> {
        let peeled = match self.peeled {
            Some(peeled) => peeled,
            None => {
                let id = self.follow_to_object(store)?;
                follow_tags(self.name.as_bstr(), id, objects)?
            }
        };
        self.peeled = Some(peeled);
        self.target = Target::Object(peeled);
        Ok(peeled)
    }

    fn log_exists(&self, store: &Store) -> Result<bool> {
        store.reflog_exists(self.name.as_ref())
    }
}

/// The object behind annotated tags. `name` is for messages.
fn follow_tags(name: &BStr, mut id: ObjectId, objects: &dyn Find) -> Result<ObjectId> {
    let mut buffer = Vec::new();
    loop {
        let unread = |source| Error::Object { name: name.to_owned(), id, source: Box::new(source) };
        let object = objects.try_find(&id, &mut buffer).map_err(unread)?;
        let object = object.ok_or_else(|| Error::NoObject { name: name.to_owned(), id })?;
        if object.kind != Kind::Tag {
            return Ok(id);
        }
        id = TagRefIter::from_bytes(object.data, object.object_hash).target_id().map_err(unread)?;
    }
}

/// The ref that the symbolic ref `from` names.
fn step(from: &Reference, snapshot: &dyn Snapshot) -> Result<Reference> {
    let name = from.target.try_name().expect("the caller has a symbolic ref").to_owned();
    match snapshot.get(name.as_bstr())? {
        Some(target) => Ok(Reference { target: target_for_gix(TargetView::from(&target))?, name, peeled: None }),
        None => Err(Error::NotFound(NotFound { name: name.into_inner() })),
    }
}
