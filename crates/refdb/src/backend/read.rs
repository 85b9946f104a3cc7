//! Reading: snapshots, and cursors over them.

use crate::{BrokenRef, Result};
use bstr::BStr;
use refdb_types::{LogEntry, ObjectId, RefName, Target};
use std::ops::ControlFlow;

/// A state of the refs that can be read any number of times.
///
/// In memory it is a point in time. In reftables the shared stack and this worktree's own are read when the snapshot is
/// taken; the stacks of other worktrees, and `FETCH_HEAD` and `MERGE_HEAD`, which are files, are read at each request.
/// In files each name is read when it is requested, loose refs before packed-refs, so that two names may be seen at
/// different times.
pub trait Snapshot: Send + Sync {
    /// One ref; symbolic refs are not followed. Returns `Ok(None)` if it does not exist.
    ///
    /// # Errors
    ///
    /// [`Error::BrokenRef`](crate::Error::BrokenRef) if the ref's own file is corrupt, or cannot be read for a reason
    /// such as missing permission, and in reftables [`Error::BadTarget`](crate::Error::BadTarget) if the ref is
    /// symbolic and leads to a name that no ref can have. Fails also if the store itself cannot be read.
    fn get(&self, name: &BStr) -> Result<Option<Target>>;

    /// Answers many look-ups in one walk. `probes` come in ascending order of name, each name at most once.
    fn probe(&self, probes: &mut dyn Iterator<Item = Probe<'_>>, answers: &mut dyn Answers) -> Result<()>;

    /// A cursor before the first ref. It walks all refs below `refs/` and, if `root_refs`, the root refs too (`HEAD`,
    /// `ORIG_HEAD`). The worktree's own refs are listed among the shared ones; other worktrees' refs are left out.
    fn cursor(&self, root_refs: bool) -> Result<Box<dyn Cursor + '_>>;

    /// Calls `found` for each ref, in order of name, that holds `id` or an annotated tag which the store knows to lead
    /// to `id`. The store knows nothing about tags in loose refs. Symbolic refs are left out, and so are root refs in
    /// files; reftables and memory include root refs.
    ///
    /// An index answers where the format has one; otherwise this is a walk over all refs.
    fn pointing_at(&self, id: &ObjectId, found: &mut dyn FnMut(RefView<'_>) -> Result<()>) -> Result<()>;

    /// Returns whether the ref has a reflog, even an empty one. In files a symbolic link does not count.
    fn has_log(&self, name: &BStr) -> Result<bool>;

    /// Calls `found` with the position of each of these refs that has a reflog; in files the reflog may lie behind a
    /// symbolic link. Names come in ascending order, each once.
    fn having_logs(
        &self,
        names: &mut dyn Iterator<Item = &BStr>,
        found: &mut dyn FnMut(usize) -> Result<()>,
    ) -> Result<()> {
        for (at, name) in names.enumerate() {
            if self.has_log(name)? {
                found(at)?;
            }
        }
        Ok(())
    }

    /// Calls `entry` with the reflog's entries, newest first, until it breaks. Returns `Ok(false)` if there is no
    /// reflog.
    fn log(&self, name: &BStr, entry: &mut dyn FnMut(&LogEntry) -> ControlFlow<()>) -> Result<bool>;

    /// The names, in order, of the shared refs and the worktree's own refs that have a reflog. Names that are not
    /// well-formed are left out. In files, as in git, only the last part of a name has to be well-formed.
    fn log_names(&self) -> Result<Vec<RefName>>;

    /// The names, in order, of another worktree's own refs that have a reflog, in the form in which this worktree
    /// addresses them. `None` is the main worktree.
    fn log_names_elsewhere(&self, worktree: Option<&BStr>) -> Result<Vec<RefName>>;
}

/// One look-up of [`Snapshot::probe`].
#[derive(Clone, Copy, Debug)]
pub struct Probe<'a> {
    /// The refname.
    pub name: &'a BStr,
    /// Also look for a ref below it, whose name begins with `NAME/`.
    pub below: bool,
}

/// Receives the answers to [`Snapshot::probe`]. An error that it returns ends the walk.
pub trait Answers {
    /// Called with the value of the ref that the probe at this position asks for: once for each probe, in order,
    /// unless [`Answers::broken`] is called for the probe.
    fn value(&mut self, probe: usize, value: Option<TargetView<'_>>) -> Result<()>;

    /// Called for a ref that exists but cannot be read, with the reason.
    fn broken(&mut self, probe: usize, broken: BrokenRef) -> Result<()>;

    /// Called with the first ref below the probe's name, if the probe asks for one and there is one. The call may
    /// come later than the values of following probes, because `a-b` sorts between `a` and `a/b`.
    fn below(&mut self, probe: usize, child: &BStr) -> Result<()>;
}

/// A [`Target`] borrowed from where it is stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TargetView<'a> {
    /// An object.
    Direct(ObjectId),
    /// Another ref, by a name that has not been checked.
    Symbolic(&'a BStr),
}

impl TargetView<'_> {
    /// An owned copy; `None` for [`Symbolic`](TargetView::Symbolic) with a name that no ref can have.
    pub fn to_target(self) -> Option<Target> {
        match self {
            TargetView::Direct(id) => Some(Target::Direct(id)),
            TargetView::Symbolic(name) => RefName::new_safe(name.to_vec()).map(Target::Symbolic),
        }
    }
}

impl<'a> From<&'a Target> for TargetView<'a> {
    fn from(target: &'a Target) -> Self {
        match target {
            Target::Direct(id) => TargetView::Direct(*id),
            Target::Symbolic(name) => TargetView::Symbolic(name),
        }
    }
}

/// A ref borrowed from where it is stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RefView<'a> {
    /// The name, which has not been checked.
    pub name: &'a BStr,
    /// The value.
    pub target: TargetView<'a>,
    /// What the store knows about the peeled object of an annotated tag.
    pub peeled: Peeled,
}

/// What a store knows about the peeled object of an annotated tag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Peeled {
    /// Nothing: the object must be read.
    Unknown,
    /// The ref holds no tag, or a tag that its writer did not peel, for instance because the tag is corrupt or because
    /// git migrated the refs. JGit trusts this; git reads the object.
    NotTag,
    /// The ref holds a tag that leads to this object.
    To(ObjectId),
}

/// Walks refs in ascending order of name.
///
/// In reftables and memory a cursor sees the state of its snapshot, however long the walk takes; in files it reads the
/// refs as the walk reaches them.
pub trait Cursor {
    /// Makes [`next`](Cursor::next) continue with the first ref whose name is not less than `name`. Seeking forward
    /// costs at most what lies between; seeking backward starts anew.
    fn seek(&mut self, name: &BStr) -> Result<()>;

    /// The next ref; `None` at the end.
    ///
    /// # Errors
    ///
    /// [`Error::BrokenRef`](crate::Error::BrokenRef) for a ref whose file is corrupt or cannot be read, even if
    /// packed-refs has a value for the ref, and for a folder that may not be read, which comes where its refs would:
    /// the folder `a` after the ref `a-b`. The next call continues after that ref, or with the packed refs in that
    /// folder; after another error it may return `None` although there are more refs.
    fn next(&mut self) -> Result<Option<RefView<'_>>>;

    /// Hands the following refs to `visit` until it breaks or there are no more. This does what a loop of
    /// [`next`](Cursor::next) does, at less cost for each ref in files and reftables.
    ///
    /// # Errors
    ///
    /// Those of [`next`](Cursor::next): call this again to continue after a ref that cannot be read.
    fn for_each(&mut self, visit: &mut dyn FnMut(&RefView<'_>) -> ControlFlow<()>) -> Result<ControlFlow<()>> {
        while let Some(view) = self.next()? {
            if visit(&view).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// [`for_each`](Cursor::for_each) for a visitor that can also take whole lines of packed-refs. A backend that
    /// stores no such lines hands over each ref as a view.
    fn for_each_line(&mut self, lines: &mut dyn Lines) -> Result<ControlFlow<()>> {
        self.for_each(&mut |view| lines.view(view))
    }
}

/// Receives refs as lines of packed-refs or one by one, for listings that print such lines.
pub trait Lines {
    /// Offers a line `DIGITS SP NAME LF` with this number of digits. The name is well-formed and sorts after all before
    /// it; the digits have not been checked. Returns whether the line is taken; if not, [`Lines::view`] gets the same
    /// ref.
    fn line(&mut self, line: &[u8], digits: usize) -> bool;

    /// Called with a ref that is not stored as such a line, or whose line was not taken.
    fn view(&mut self, view: &RefView<'_>) -> ControlFlow<()>;
}

impl<C: Cursor + ?Sized> Cursor for Box<C> {
    fn seek(&mut self, name: &BStr) -> Result<()> {
        (**self).seek(name)
    }
    fn next(&mut self) -> Result<Option<RefView<'_>>> {
        (**self).next()
    }
    fn for_each(&mut self, visit: &mut dyn FnMut(&RefView<'_>) -> ControlFlow<()>) -> Result<ControlFlow<()>> {
        (**self).for_each(visit)
    }
    fn for_each_line(&mut self, lines: &mut dyn Lines) -> Result<ControlFlow<()>> {
        (**self).for_each_line(lines)
    }
}
