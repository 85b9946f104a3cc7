//! Iterates over refs.

use crate::{Result, convert::reference_for_gix};
use bstr::{BString, ByteSlice};
use gix_path::RelativePath;
use gix_ref::Reference;
use refdb::{Cursor, Snapshot};
use std::fmt;

/// A state of the refs, from which iterators are made. In reftables it is a point in time.
pub struct Platform {
    pub(crate) snapshot: Box<dyn Snapshot>,
}

/// References in order of name. A ref that cannot be read is an error among them; the others follow.
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
    /// All refs below `refs/`.
    pub fn all(&self) -> Result<Iter<'_>> {
        self.below(b"refs/")
    }

    /// The refs whose names begin with `prefix`: `refs/heads/`, or `refs/heads/feature-`.
    pub fn prefixed(&self, prefix: &RelativePath) -> Result<Iter<'_>> {
        self.below(prefix.as_ref())
    }

    /// The tags.
    pub fn tags(&self) -> Result<Iter<'_>> {
        self.below(b"refs/tags/")
    }

    /// The branches.
    pub fn local_branches(&self) -> Result<Iter<'_>> {
        self.below(b"refs/heads/")
    }

    /// The remote-tracking branches.
    pub fn remote_branches(&self) -> Result<Iter<'_>> {
        self.below(b"refs/remotes/")
    }

    /// The root refs, `HEAD` and `ORIG_HEAD` for instance, as `git for-each-ref --include-root-refs` has them.
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
    /// Root refs come before all others, and those with one prefix stand together. So the first one that is not kept
    /// ends the list.
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
