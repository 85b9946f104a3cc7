//! Reading refs without explicit snapshots and cursors.

use super::{Resolved, Store};
use crate::{
    Error, RefFormat, RefView, Result, Snapshot, TargetView,
    backend::{Claim, ClaimKind},
    error::LOSSES_MAX,
};
use bstr::{BStr, BString, ByteSlice};
use refdb_types::{ObjectId, RefName, Target, is_below};
use refdb_vfs::again_if_lost;
use std::{borrow::Cow, cell::Cell, fmt, iter::FusedIterator, ops::ControlFlow};

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
    /// The full name of the ref.
    pub name: RefName,
    /// The value of the ref. A symbolic ref is not followed.
    pub target: Target,
}

impl Ref {
    /// The object, if the ref is not symbolic.
    pub fn id(&self) -> Option<ObjectId> {
        self.target.id()
    }

    fn of(view: &RefView<'_>) -> Result<Self> {
        let bad = |target: &BStr| Error::BadTarget { name: view.name.to_owned(), target: target.to_owned() };
        let name = RefName::new_safe(view.name.to_vec()).ok_or_else(|| bad(view.name))?;
        let target = match view.target {
            TargetView::Direct(id) => Target::Direct(id),
            TargetView::Symbolic(to) => Target::Symbolic(RefName::new_safe(to.to_vec()).ok_or_else(|| bad(to))?),
        };
        Ok(Ref { name, target })
    }
}

/// The refs that [`Store::refs`] found, in order of name. A ref whose own file is corrupt, or that has or leads to a
/// name that no ref can have, is returned as an error, and so is a folder of refs that may not be read; the refs after
/// it follow.
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
#[must_use = "refs are read when they are asked for"]
pub struct Refs {
    snapshot: Box<dyn Snapshot>,
    prefix: BString,
    /// What was read and has not been returned yet.
    ahead: std::vec::IntoIter<Result<Ref>>,
    /// The name at or after which the next portion begins; `None` at the end.
    next: Option<BString>,
    /// How many refs are read next.
    portion: usize,
    /// The error that comes after the refs that were read.
    failed: Option<Error>,
}

/// The number of refs in the first portion. A cursor cannot be stored beside its snapshot, so each portion begins with
/// a new cursor; each portion is twice as large as the one before, up to [`PORTION_MAX`].
const PORTION_MIN: usize = 16;

/// The most refs that are read at once: about 10 MB.
const PORTION_MAX: usize = 1 << 16;

impl Refs {
    fn new(snapshot: Box<dyn Snapshot>, prefix: &BStr) -> Self {
        let next = Some(prefix.to_owned());
        Refs {
            snapshot,
            prefix: prefix.to_owned(),
            ahead: Vec::new().into_iter(),
            next,
            portion: PORTION_MIN,
            failed: None,
        }
    }

    /// Reads the next portion, once the one before has been returned.
    fn read_ahead(&mut self) {
        debug_assert!(self.ahead.len() == 0, "what was read has been returned");
        let Some(from) = self.next.take() else { return };
        let mut rows = Vec::with_capacity(self.portion);
        let mut next = None;
        let walked = each(&*self.snapshot, self.prefix.as_bstr(), from.as_bstr(), &mut |row| {
            let place = match &row {
                Ok(view) => Cow::Borrowed(view.name),
                Err(Error::BrokenRef(broken)) => broken.place(),
                Err(_) => unreachable!("an error that is not about one ref ends the walk"),
            };
            let is_full = rows.len() + 1 == self.portion;
            if is_full {
                next = Some([place.as_bytes(), b"\0"].concat().into());
            }
            rows.push(row.and_then(|view| Ref::of(&view)));
            if is_full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        self.ahead = rows.into_iter();
        match walked {
            Ok(()) => self.next = next,
            Err(error) => self.failed = Some(error),
        }
        self.portion = (2 * self.portion).min(PORTION_MAX);
    }
}

impl Iterator for Refs {
    type Item = Result<Ref>;

    fn next(&mut self) -> Option<Result<Ref>> {
        if self.ahead.len() == 0 {
            self.read_ahead();
        }
        self.ahead.next().or_else(|| self.failed.take().map(Err))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let known = self.ahead.len() + usize::from(self.failed.is_some());
        (known, self.next.is_none().then_some(known))
    }
}

impl FusedIterator for Refs {}

impl fmt::Debug for Refs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refs").field("prefix", &self.prefix).field("next", &self.next).finish_non_exhaustive()
    }
}

/// Hands the refs that begin with `prefix` to `row`, from the first that is not less than `from`, until `row` breaks.
/// A ref whose own file is corrupt, or a folder that may not be read, is passed as an error; any other error ends the
/// walk.
fn each(
    snapshot: &dyn Snapshot,
    prefix: &BStr,
    from: &BStr,
    row: &mut dyn FnMut(Result<RefView<'_>>) -> ControlFlow<()>,
) -> Result<()> {
    let mut cursor = snapshot.cursor(false)?;
    cursor.seek(from)?;
    loop {
        let flow = match cursor.next() {
            Ok(Some(view)) if view.name.starts_with(prefix) => row(Ok(view)),
            Ok(_) => return Ok(()),
            // A folder that may not be read is named before the refs in it, and again by each new cursor.
            Err(Error::BrokenRef(broken)) if *broken.place() < *from => {
                let is_news = from == prefix && is_below(prefix, &broken.name);
                if is_news { row(Err(Error::BrokenRef(broken))) } else { ControlFlow::Continue(()) }
            }
            Err(Error::BrokenRef(broken)) if !broken.place().starts_with(prefix) => return Ok(()),
            Err(error @ Error::BrokenRef(_)) => row(Err(error)),
            Err(error) => return Err(error),
        };
        if flow.is_break() {
            return Ok(());
        }
    }
}

impl Store {
    /// Returns whether the format has no room for this name, or for the one that it leads to as a symbolic ref. If so,
    /// the caller must not let even git create or update the ref, whereas deleting the ref is allowed.
    #[doc(hidden)]
    pub fn is_too_long(&self, name: &BStr) -> Result<bool> {
        let has_no_room = |name| {
            let claims = vec![Claim { name, kind: ClaimKind::SetDirect }];
            !self.backend().unstorable(&claims).is_empty()
        };
        if has_no_room(name) {
            return Ok(true);
        }
        if self.repository().ref_format() == RefFormat::Files {
            return Ok(false);
        }
        let Ok(name) = RefName::new(name.as_bytes()) else { return Ok(false) };
        match self.resolve(&name) {
            Ok(Resolved::Object { name: end, .. } | Resolved::Missing(end)) => Ok(has_no_room(end.as_bstr())),
            Err(error) if error.is_broken_ref() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// One ref; `None` if it does not exist. Symbolic refs are not followed: [`Store::id_of`] does that.
    ///
    /// # Errors
    ///
    /// Those of [`Store::get`].
    pub fn find(&self, name: impl AsRef<[u8]>) -> Result<Option<Ref>> {
        let Some(name) = RefName::new_safe(name.as_ref()) else { return Ok(None) };
        Ok(self.get(name.as_bstr())?.map(|target| Ref { name, target }))
    }

    /// The object that a ref leads to after symbolic refs are followed; `None` if there is none. The object may be an
    /// annotated tag, which [`Objects::peel`](crate::Objects::peel) follows.
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

    /// All refs below `refs/` whose names begin with `prefix`, in order of name; not `HEAD` and other root refs. The
    /// refs are read as the iterator advances, 16 at first and later up to 65,536 ahead, about 150 bytes each.
    /// [`Store::visit`] is quicker.
    ///
    /// Refs in reftables and in memory are listed as of the moment of this call. Where refs are files, a ref that
    /// changes before the iterator has read it may be returned with its later value.
    ///
    /// # Errors
    ///
    /// Errors of reading the storage as a whole, and [`Error::Repository`] if there is no such ref and the repository
    /// has gone or been migrated; if an error occurs after the first refs, it is the iterator's last item. A ref whose
    /// own file is corrupt, or that has or leads to a name that no ref can have, is an error among the items, and so is
    /// a folder of refs that may not be read; the refs after it follow.
    pub fn refs(&self, prefix: impl AsRef<[u8]>) -> Result<Refs> {
        let refs = again_if_lost(LOSSES_MAX + 1, Error::is_stale, || {
            let mut refs = Refs::new(self.snapshot()?, prefix.as_ref().as_bstr());
            refs.read_ahead();
            match refs.failed.take_if(|_| refs.ahead.len() == 0) {
                Some(error) => Err(error),
                None => Ok(refs),
            }
        })?;
        if refs.ahead.len() == 0 {
            self.check_is_there()?;
        }
        Ok(refs)
    }

    /// Hands all refs below `refs/` whose names begin with `prefix` to `visit`, in order of name, until `visit` breaks.
    /// `HEAD` and other root refs are left out. Refs are not collected in memory; only folders of loose refs are listed
    /// in it.
    ///
    /// # Errors
    ///
    /// An error that `visit` returns, one of reading the storage as a whole, or [`Error::Repository`] if there is no
    /// such ref and the repository has gone or been migrated. A ref whose own file is corrupt, or a folder of refs that
    /// may not be read, is handed to `visit` as an error, and the refs after it follow.
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
        let prefix = prefix.as_ref().as_bstr();
        let mut failed = None;
        let is_empty = Cell::new(true);
        let may_repeat = |error: &Error| is_empty.get() && error.is_stale();
        self.read(may_repeat, |snapshot| {
            each(snapshot, prefix, prefix, &mut |row| {
                is_empty.set(false);
                visit(row).unwrap_or_else(|error| {
                    failed = Some(error);
                    ControlFlow::Break(())
                })
            })
        })?;
        match failed {
            Some(error) => Err(error),
            None if is_empty.get() => self.check_is_there(),
            None => Ok(()),
        }
    }
}
