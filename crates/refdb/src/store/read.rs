//! Reading refs without a thought for snapshots and cursors.

use super::{Resolved, Store};
use crate::{Error, RefView, Result};
use bstr::{BStr, ByteSlice};
use refdb_types::{ObjectId, RefName, Target};
use std::ops::ControlFlow;

/// An owned ref: its name and value.
///
/// ```
/// # use refdb_testkit::{Repo, RefFormat};
/// # let repo = Repo::bare(RefFormat::Files, refdb::HashKind::Sha1);
/// # let store = refdb::Store::open(repo.git_dir())?;
/// let head = store.find("HEAD")?.expect("each repository has it");
/// assert!(head.target.symbolic().is_some() && head.id().is_none());
/// # Ok::<_, refdb::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ref {
    /// The name.
    pub name: RefName,
    /// The value. A symbolic ref is not followed.
    pub target: Target,
}

impl Ref {
    /// The object, if the ref is no symbolic one.
    pub fn id(&self) -> Option<ObjectId> {
        self.target.id()
    }

    fn of(view: &RefView<'_>) -> Result<Self> {
        let bad = |target: &BStr| Error::BadTarget { name: view.name.to_owned(), target: target.to_owned() };
        let name = RefName::new_safe(view.name.to_vec()).ok_or_else(|| bad(view.name))?;
        let target = view.target.to_target().ok_or_else(|| bad(view.name))?;
        Ok(Ref { name, target })
    }
}

/// The refs that [`Store::refs`] found, in order of name. A ref whose own file is corrupt is an error among them, and the
/// refs after it follow.
///
/// ```
/// # use refdb_testkit::{Repo, RefFormat};
/// # let repo = Repo::bare(RefFormat::Reftable, refdb::HashKind::Sha1);
/// # let id = repo.commit();
/// # repo.create_refs([("refs/heads/a", id), ("refs/heads/b", id), ("refs/tags/t", id)]);
/// # let store = refdb::Store::open(repo.git_dir())?;
/// let mut names = Vec::new();
/// for found in store.refs("refs/heads/")? {
///     names.push(found?.name.to_string());
/// }
/// assert_eq!(names, ["refs/heads/a", "refs/heads/b"]);
/// # Ok::<_, refdb::Error>(())
/// ```
#[derive(Debug)]
pub struct Refs {
    rows: std::vec::IntoIter<Result<Ref>>,
}

impl Iterator for Refs {
    type Item = Result<Ref>;

    fn next(&mut self) -> Option<Result<Ref>> {
        self.rows.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.rows.size_hint()
    }
}

impl ExactSizeIterator for Refs {}

impl Store {
    /// One ref; `None` if it does not exist. Symbolic refs are not followed: [`Store::id_of`] does that.
    ///
    /// # Errors
    ///
    /// Those of [`Store::get`].
    pub fn find(&self, name: impl AsRef<[u8]>) -> Result<Option<Ref>> {
        let Some(name) = RefName::new_safe(name.as_ref()) else { return Ok(None) };
        Ok(self.get(name.as_bstr())?.map(|target| Ref { name, target }))
    }

    /// The object that a ref leads to after symbolic refs are followed; `None` if it leads to none. An annotated tag counts
    /// as an object: [`Objects::peel`](crate::Objects::peel) follows it.
    ///
    /// # Errors
    ///
    /// Those of [`Store::get`], for each ref that is followed.
    pub fn id_of(&self, name: impl AsRef<[u8]>) -> Result<Option<ObjectId>> {
        let Some(name) = RefName::new_safe(name.as_ref()) else { return Ok(None) };
        Ok(match self.resolve(&name)? {
            Resolved::Object { id, .. } => Some(id),
            Resolved::Missing(_) => None,
        })
    }

    /// All refs whose names begin with `prefix`, in order of name. They are read into memory, about 150 bytes each, before
    /// this returns; [`Store::visit`] is for millions of them.
    ///
    /// # Errors
    ///
    /// Those of reading the storage as a whole. A ref whose own file is corrupt is an error among the rows.
    pub fn refs(&self, prefix: impl AsRef<[u8]>) -> Result<Refs> {
        let mut rows = Vec::new();
        self.each(prefix.as_ref().as_bstr(), &mut |row| {
            rows.push(row.and_then(|view| Ref::of(&view)));
            ControlFlow::Continue(())
        })?;
        Ok(Refs { rows: rows.into_iter() })
    }

    /// Hands all refs whose names begin with `prefix` to `visit`, in order of name, until it breaks. It needs no memory for
    /// each ref.
    ///
    /// # Errors
    ///
    /// An error that `visit` returns, or one of reading the storage as a whole. A ref whose own file is corrupt is handed to
    /// `visit` as an error, and the refs after it follow.
    ///
    /// ```
    /// # use refdb_testkit::{Repo, RefFormat};
    /// # let repo = Repo::bare(RefFormat::Reftable, refdb::HashKind::Sha1);
    /// # let id = repo.commit();
    /// # repo.create_refs([("refs/heads/a", id), ("refs/heads/b", id)]);
    /// # let store = refdb::Store::open(repo.git_dir())?;
    /// let mut bytes = 0;
    /// store.visit("refs/", |found| {
    ///     bytes += found?.name.len();
    ///     Ok(std::ops::ControlFlow::Continue(()))
    /// })?;
    /// assert_eq!(bytes, 24);
    /// # Ok::<_, refdb::Error>(())
    /// ```
    pub fn visit(
        &self,
        prefix: impl AsRef<[u8]>,
        mut visit: impl FnMut(Result<RefView<'_>>) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        let mut failed = None;
        self.each(prefix.as_ref().as_bstr(), &mut |row| match visit(row) {
            Ok(flow) => flow,
            Err(error) => {
                failed = Some(error);
                ControlFlow::Break(())
            }
        })?;
        failed.map_or(Ok(()), Err)
    }

    fn each(&self, prefix: &BStr, row: &mut dyn FnMut(Result<RefView<'_>>) -> ControlFlow<()>) -> Result<()> {
        let snapshot = self.snapshot()?;
        let mut cursor = snapshot.cursor(false)?;
        cursor.seek(prefix)?;
        let mut is_empty = true;
        loop {
            let flow = match cursor.next() {
                Ok(Some(view)) if view.name.starts_with(prefix) => row(Ok(view)),
                Ok(_) => break,
                Err(Error::BrokenRef(broken)) if !broken.name.starts_with(prefix) => break,
                Err(error @ Error::BrokenRef(_)) => row(Err(error)),
                Err(error) => return Err(error),
            };
            is_empty = false;
            if flow.is_break() {
                break;
            }
        }
        if is_empty { self.check_is_there() } else { Ok(()) }
    }
}
