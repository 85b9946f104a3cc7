//! Follows and peels references.

use crate::{Error, Result, Store, convert::target_for_gix};
use bstr::BStr;
use gix_hash::ObjectId;
use gix_object::{Find, Kind, TagRefIter};
use gix_ref::{Reference, Target, file::find::NotFound};
use refdb::{Snapshot, TargetView};

/// Maximum number of refs in a chain of symbolic refs, which is one more than the number of steps between them. Git
/// and gix-ref have the same limit.
const CHAIN_MAX: usize = 5;

/// Follows and peels references with a [`Store`], like `gix_ref::file::ReferenceExt` with a file store.
pub trait ReferenceExt {
    /// Returns the ref to which this symbolic ref points, one step further; `None` if this ref is not symbolic.
    ///
    /// # Errors
    ///
    /// The inner result is [`Error::NotFound`] if the next ref does not exist, [`Error::StoredName`] if the next ref is
    /// symbolic and names a target that gix-ref does not allow, and [`Error::Refdb`] if the next ref cannot be read.
    fn follow(&self, store: &Store) -> Option<Result<Reference>>;

    /// Replaces this reference by the one at the end of its chain of symbolic refs. Returns the object to which that
    /// one points. After an error, this reference may be another one of the chain.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`] if the chain leads to a ref that does not exist, [`Error::Depth`] if it is longer than four
    /// steps or circular, [`Error::StoredName`] if it leads to a name that gix-ref does not allow, and
    /// [`Error::Refdb`] if a ref cannot be read.
    fn follow_to_object(&mut self, store: &Store) -> Result<ObjectId>;

    /// Follows symbolic refs and then annotated tags, and returns the object to which they lead. Symbolic refs are
    /// followed as by [`follow_to_object`](ReferenceExt::follow_to_object). The peeled object is stored in
    /// [`Reference::peeled`] and becomes the [`Reference::target`]. If it is stored already, nothing is followed.
    ///
    /// # Errors
    ///
    /// The errors of `follow_to_object`, [`Error::NoObject`] if an object does not exist, and [`Error::Object`] if one
    /// cannot be read.
    fn peel_to_id(&mut self, store: &Store, objects: &dyn Find) -> Result<ObjectId>;

    /// Returns whether the ref has a reflog, which may be empty.
    ///
    /// # Errors
    ///
    /// If the store cannot be read.
    fn log_exists(&self, store: &Store) -> Result<bool>;
}

impl ReferenceExt for Reference {
    fn follow(&self, store: &Store) -> Option<Result<Reference>> {
        self.target.try_name()?;
        Some(store.read(|snapshot| step(self, snapshot)))
    }

    fn follow_to_object(&mut self, store: &Store) -> Result<ObjectId> {
        if let Target::Object(id) = self.target {
            return Ok(id);
        }
        let begin = self.clone();
        store.read(|snapshot| {
            *self = begin.clone();
            for _ in 1..CHAIN_MAX {
                *self = step(self, snapshot)?;
                if let Target::Object(id) = self.target {
                    return Ok(id);
                }
            }
            Err(Error::Depth { name: begin.name.clone().into_inner() })
        })
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

/// Follows annotated tags from `id` to the object that they finally tag. `name` is for error messages.
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

/// Returns the ref that the symbolic ref `from` names.
fn step(from: &Reference, snapshot: &dyn Snapshot) -> Result<Reference> {
    let name = from.target.try_name().expect("the caller has a symbolic ref").to_owned();
    match snapshot.get(name.as_bstr())? {
        Some(target) => Ok(Reference { target: target_for_gix(TargetView::from(&target))?, name, peeled: None }),
        None => Err(Error::NotFound(NotFound { name: name.into_inner() })),
    }
}
