//! Finds and lists the refs of a repository.

use crate::{
    Error, Platform, Result,
    convert::{line_for_gix, name_for_gix, target_for_gix},
    names::candidates,
};
use gix_hash::Kind;
use gix_ref::{FullNameRef, PartialNameRef, Reference, file::find::NotFound};
use refdb::{HashKind, Snapshot, TargetView};
use std::{ops::ControlFlow, path::Path};

/// A repository's refs, in whichever format they are. It caches none: every call looks at the disk again.
#[derive(Debug)]
pub struct Store {
    inner: refdb::Store,
}

impl From<refdb::Store> for Store {
    fn from(inner: refdb::Store) -> Self {
        Store { inner }
    }
}

impl Store {
    /// Opens the refs of the repository in this very folder: gix's `Repository::git_dir()`.
    ///
    /// As in git, the folder must belong to this user or be named in `safe.directory`. For other ways to open it, see
    /// [`refdb::StoreBuilder`] and `Store::from`.
    pub fn at(git_dir: impl AsRef<Path>) -> Result<Self> {
        Ok(refdb::Store::open(git_dir)?.into())
    }

    /// The store below.
    pub fn refdb(&self) -> &refdb::Store {
        &self.inner
    }

    /// The kind of all object ids.
    pub fn object_hash(&self) -> Kind {
        match self.inner.hash() {
            HashKind::Sha1 => Kind::Sha1,
            HashKind::Sha256 => Kind::Sha256,
        }
    }

    /// The ref that a full or partial name stands for; `None` if there is none. Symbolic refs are not followed.
    pub fn try_find<'a, Name, E>(&self, partial: Name) -> Result<Option<Reference>>
    where
        Name: TryInto<&'a PartialNameRef, Error = E>,
        gix_ref::name::Error: From<E>,
    {
        let partial = partial.try_into().map_err(|error| Error::Name(error.into()))?;
        find_in(&*self.inner.snapshot()?, partial)
    }

    /// As [`try_find`](Store::try_find), but a ref that is not there is an error.
    pub fn find<'a, Name, E>(&self, partial: Name) -> Result<Reference>
    where
        Name: TryInto<&'a PartialNameRef, Error = E>,
        gix_ref::name::Error: From<E>,
    {
        let partial = partial.try_into().map_err(|error| Error::Name(error.into()))?;
        let missing = || Error::NotFound(NotFound { name: partial.as_bstr().to_owned() });
        find_in(&*self.inner.snapshot()?, partial)?.ok_or_else(missing)
    }

    /// The present state, for lists.
    pub fn iter(&self) -> Result<Platform> {
        Ok(Platform { snapshot: self.inner.snapshot()? })
    }

    /// Whether the ref has a reflog, be it empty.
    pub fn reflog_exists(&self, name: &FullNameRef) -> Result<bool> {
        Ok(self.inner.snapshot()?.has_log(name.as_bstr())?)
    }

    /// The entries of a ref's reflog, newest first; `None` if it has none.
    pub fn reflog_rev(&self, name: &FullNameRef) -> Result<Option<Vec<gix_ref::log::Line>>> {
        let mut lines = Vec::new();
        let exists = self.inner.snapshot()?.log(name.as_bstr(), &mut |entry| {
            lines.push(line_for_gix(entry));
            ControlFlow::Continue(())
        })?;
        Ok(exists.then_some(lines))
    }
}

fn find_in(snapshot: &dyn Snapshot, partial: &PartialNameRef) -> Result<Option<Reference>> {
    for name in candidates(partial) {
        if let Some(target) = snapshot.get(name.as_ref())? {
            let target = target_for_gix(TargetView::from(&target))?;
            return Ok(Some(Reference { name: name_for_gix(name.as_ref())?, target, peeled: None }));
        }
    }
    Ok(None)
}
