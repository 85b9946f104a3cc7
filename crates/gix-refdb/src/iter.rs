//! Iterates over refs.

use crate::{Result, convert::reference_for_gix};
use bstr::{BString, ByteSlice};
use gix_path::RelativePath;
use gix_ref::Reference;
use refdb::{Cursor, Snapshot};
use std::fmt;

/// A state of the refs from which iterators are created. With reftables it is a snapshot of one point in time; with
/// files, each ref is read when the iterator reaches it, so that two refs may be seen at different times.
pub struct Platform {
    pub(crate) snapshot: Box<dyn Snapshot>,
}

/// An iterator over references in order of name. A ref that is broken, or that gix-ref cannot represent, yields an
/// error after which the iteration continues. Any other error ends it.
#[must_use]
pub struct Iter<'p> {
    cursor: Box<dyn Cursor + 'p>,
    kept: Kept,
    ended: bool,
}

#[derive(Debug)]
enum Kept {
    Prefix(BString),
    Root,
}

impl fmt::Debug for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Platform").finish_non_exhaustive()
    }
}

impl fmt::Debug for Iter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Iter").field("kept", &self.kept).field("ended", &self.ended).finish_non_exhaustive()
    }
}

impl Platform {
    /// Iterates over all refs below `refs/`.
    ///
    /// # Errors
    ///
    /// If the refs cannot be read.
    pub fn all(&self) -> Result<Iter<'_>> {
        self.below(b"refs/")
    }

    /// Iterates over the refs whose names begin with `prefix`, such as `refs/heads/` or `refs/heads/feature-`.
    ///
    /// # Errors
    ///
    /// If the refs cannot be read.
    pub fn prefixed(&self, prefix: &RelativePath) -> Result<Iter<'_>> {
        self.below(prefix.as_ref())
    }

    /// Iterates over the tags.
    ///
    /// # Errors
    ///
    /// If the refs cannot be read.
    pub fn tags(&self) -> Result<Iter<'_>> {
        self.below(b"refs/tags/")
    }

    /// Iterates over the local branches.
    ///
    /// # Errors
    ///
    /// If the refs cannot be read.
    pub fn local_branches(&self) -> Result<Iter<'_>> {
        self.below(b"refs/heads/")
    }

    /// Iterates over the remote-tracking branches.
    ///
    /// # Errors
    ///
    /// If the refs cannot be read.
    pub fn remote_branches(&self) -> Result<Iter<'_>> {
        self.below(b"refs/remotes/")
    }

    /// Iterates over the root refs, such as `HEAD` and `ORIG_HEAD`, which `git for-each-ref --include-root-refs` lists
    /// besides those below `refs/`.
    ///
    /// # Errors
    ///
    /// If the refs cannot be read.
    pub fn pseudo(&self) -> Result<Iter<'_>> {
        Ok(Iter { cursor: self.snapshot.cursor(true)?, kept: Kept::Root, ended: false })
    }

    fn below(&self, prefix: &[u8]) -> Result<Iter<'_>> {
        let mut cursor = self.snapshot.cursor(false)?;
        cursor.seek(prefix.as_bstr())?;
        Ok(Iter { cursor, kept: Kept::Prefix(prefix.into()), ended: false })
    }
}

impl Kept {
    /// Returns whether a name belongs to the list. Root refs sort before all others, and refs with a common prefix are
    /// adjacent, so the first name that does not belong to the list ends it.
    fn has(&self, name: &[u8]) -> bool {
        match self {
            Kept::Prefix(prefix) => name.starts_with(prefix),
            Kept::Root => !name.starts_with(b"refs/"),
        }
    }
}

impl Iterator for Iter<'_> {
    type Item = Result<Reference>;

    fn next(&mut self) -> Option<Result<Reference>> {
        if self.ended {
            return None;
        }
        let row = match self.cursor.next() {
            Ok(Some(view)) if self.kept.has(view.name) => return Some(reference_for_gix(&view)),
            Err(refdb::Error::BrokenRef(broken)) if self.kept.has(&broken.name) => {
                return Some(Err(refdb::Error::BrokenRef(broken).into()));
            }
            Ok(_) | Err(refdb::Error::BrokenRef(_)) => None,
            Err(error) => Some(Err(error.into())),
        };
        self.ended = true;
        row
    }
}
