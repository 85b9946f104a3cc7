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

/// The refs of a repository, in either storage format. Every call that finds, lists or edits refs looks at the disk for
/// the current ones, and blocks while it does.
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
    /// Opens the refs of the repository in exactly this folder, which is `Repository::git_dir()` in gix.
    ///
    /// As in git, the folder must belong to the current user or be named in `safe.directory`. For other ways to open a
    /// repository, see [`refdb::StoreBuilder`] and `Store::from`.
    ///
    /// # Errors
    ///
    /// [`Error::Refdb`] if the folder is not a repository, is not trusted, has an unsupported format, or cannot be
    /// read.
    pub fn at(git_dir: impl AsRef<Path>) -> Result<Self> {
        Ok(refdb::Store::open(git_dir)?.into())
    }

    /// Returns the wrapped store.
    pub fn refdb(&self) -> &refdb::Store {
        &self.inner
    }

    /// Returns the hash function of the object ids.
    pub fn object_hash(&self) -> Kind {
        match self.inner.hash() {
            HashKind::Sha1 => Kind::Sha1,
            HashKind::Sha256 => Kind::Sha256,
        }
    }

    /// Returns the ref for which a full or partial name stands; `None` if there is none. Symbolic refs are not
    /// followed.
    ///
    /// # Errors
    ///
    /// [`Error::Name`] if the name is not valid, [`Error::StoredName`] if gix-ref does not allow the name that is
    /// found or the target of the ref, and [`Error::Refdb`] if the refs cannot be read.
    pub fn try_find<'a, Name, E>(&self, partial: Name) -> Result<Option<Reference>>
    where
        Name: TryInto<&'a PartialNameRef, Error = E>,
        gix_ref::name::Error: From<E>,
    {
        let partial = partial.try_into().map_err(|error| Error::Name(error.into()))?;
        self.read(|snapshot| find_in(snapshot, partial))
    }

    /// Returns the ref for which a full or partial name stands. Symbolic refs are not followed.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`] if there is no such ref, and the errors of [`try_find`](Store::try_find).
    pub fn find<'a, Name, E>(&self, partial: Name) -> Result<Reference>
    where
        Name: TryInto<&'a PartialNameRef, Error = E>,
        gix_ref::name::Error: From<E>,
    {
        let partial = partial.try_into().map_err(|error| Error::Name(error.into()))?;
        let missing = || Error::NotFound(NotFound { name: partial.as_bstr().to_owned() });
        self.read(|snapshot| find_in(snapshot, partial))?.ok_or_else(missing)
    }

    /// Returns the current state of the refs, which can be iterated.
    ///
    /// # Errors
    ///
    /// [`Error::Refdb`] if the refs cannot be read.
    pub fn iter(&self) -> Result<Platform<'_>> {
        Platform::new(&self.inner)
    }

    /// Returns whether the ref has a reflog, which may be empty.
    ///
    /// # Errors
    ///
    /// [`Error::Refdb`] if the refs cannot be read.
    pub fn reflog_exists(&self, name: &FullNameRef) -> Result<bool> {
        self.read(|snapshot| Ok(snapshot.has_log(name.as_bstr())?))
    }

    /// Returns the entries of a ref's reflog, newest first; `None` if the ref has no reflog. All entries are held in
    /// memory.
    ///
    /// # Errors
    ///
    /// [`Error::Refdb`] if the reflog cannot be read.
    pub fn reflog_rev(&self, name: &FullNameRef) -> Result<Option<Vec<gix_ref::log::Line>>> {
        self.read(|snapshot| {
            let mut lines = Vec::new();
            let exists = snapshot.log(name.as_bstr(), &mut |entry| {
                lines.push(line_for_gix(entry));
                ControlFlow::Continue(())
            })?;
            Ok(exists.then_some(lines))
        })
    }

    /// Reads a state of the refs, and again if the server of a network file system loses a file meanwhile.
    pub(crate) fn read<T>(&self, read: impl FnMut(&dyn Snapshot) -> Result<T>) -> Result<T> {
        self.inner.read(Error::is_stale, read)
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
