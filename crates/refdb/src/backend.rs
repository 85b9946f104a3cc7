//! The contract between transactions and readers above, and the files and reftable backends below.

use crate::{BrokenRef, Error, LogJudge, PruneLogs, Result, Why};
use bstr::{BStr, BString};
use refdb_repo::ObjectCheck;
use refdb_types::{Ident, LogEntry, ObjectId, RefName, Target};
use std::{ops::ControlFlow, path::PathBuf};

/// A repository's refs in one on-disk format, as seen from one worktree.
///
/// A backend knows how refs lie on disk and how to lock them. It decides nothing about old values, name conflicts,
/// symbolic refs, reflog policy or hooks. The transaction decides these once for all backends, and gives the backend
/// [`Step`]s. Names are full refnames, as the worktree sees them; the backend routes them by their
/// [`Scope`](refdb_types::Scope).
///
/// A transaction goes through a backend in this order; dropping [`Locked`] at any point undoes and unlocks:
///
/// ```text
/// Backend::lock(claims) -> Locked      every claimed ref is locked, or listed in Locked::refused
/// Locked::snapshot().probe(..)         the state under the lock, in one sorted walk
/// Locked::stage(steps)                 everything that can fail is written beside the real files
/// Locked::commit(steps)                the effects, in the order docs/crash-model.md promises
/// ```
pub trait Backend: Send + Sync {
    /// The present state, for reading.
    fn snapshot(&self) -> Result<Box<dyn Snapshot>>;

    /// Locks every claimed ref, waiting as the settings say.
    ///
    /// Only what concerns the whole store fails the call; a single ref that cannot be locked is refused.
    fn lock(&self, claims: &dyn Claims) -> Result<Box<dyn Locked + '_>>;

    /// The one form of a name. A worktree's own refs have two, `HEAD` and `main-worktree/HEAD` for instance. Claims and
    /// steps have the plain one, so that no ref is claimed twice.
    fn plain_name<'n>(&self, name: &'n BStr) -> &'n BStr;

    /// Whether the reflog of a symbolic ref stays, and tells of it, when the ref is deleted. It does in git's reftable
    /// format.
    fn keeps_symref_logs(&self) -> bool;

    /// The claims, by position, of refs whose names the format has no room for. They are among those that
    /// [`Locked::refused`] returns once the claims are locked.
    fn unstorable(&self, _claims: &dyn Claims) -> Vec<(usize, Why)> {
        Vec::new()
    }

    /// Refuses steps that the format has no room for, so that nobody else's fail with them. [`Locked::stage`] does too.
    fn check(&self, _steps: &dyn Steps) -> Result<()> {
        Ok(())
    }

    /// Brings the refs into the form that is read fastest: pack-refs for files, compaction for reftable.
    fn optimize(&self, options: &OptimizeOptions) -> Result<Optimized>;

    /// Takes entries out of the reflogs of these refs. The judge hears of a log that cannot be changed; an error ends it
    /// all. For files each log is changed by itself, for reftables all of a stack at once. A table has what a tag leads to.
    fn prune_logs(
        &self,
        names: &[RefName],
        how: PruneLogs,
        objects: &dyn ObjectCheck,
        judge: &mut dyn LogJudge,
    ) -> Result<()>;

    /// Removes the reflogs of these refs, and leaves the refs. `failed` hears of a log that stays.
    fn drop_logs(&self, names: &[RefName], failed: &mut dyn FnMut(&RefName, Error)) -> Result<()>;

    /// What [`optimize`](Self::optimize) would do at this moment. Locks and changes nothing.
    fn plan_optimize(&self, options: &OptimizeOptions) -> Result<OptimizePlan>;
}

/// The claims of a transaction: sorted by name, each name once.
///
/// There may be millions, so claims and steps are never lists of owned values. A backend asks for them one by one and
/// borrows from the transaction's compact memory.
pub trait Claims {
    /// How many there are.
    fn count(&self) -> usize;

    /// The claim at this position. Panics past the end.
    fn claim(&self, at: usize) -> Claim<'_>;

    /// Whether readers, also the first one after a crash, shall see all changes or none, even where that costs more.
    /// Symbolic refs and refs that are not shared are left out where refs are files.
    fn whole(&self) -> bool {
        false
    }
}

impl Claims for Vec<Claim<'_>> {
    fn count(&self) -> usize {
        self.len()
    }
    fn claim(&self, at: usize) -> Claim<'_> {
        self[at]
    }
}

/// A ref that a transaction will change or whose value it relies on.
#[derive(Clone, Copy, Debug)]
pub struct Claim<'a> {
    /// The ref itself, symbolic refs already followed. A valid or at least safe name.
    pub name: &'a BStr,
    /// What the transaction will do with it.
    pub intent: Intent,
}

/// What a transaction will do with a claimed ref.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Intent {
    /// Give it an object.
    SetDirect,
    /// Make it a symbolic ref.
    SetSymbolic,
    /// Remove it.
    Delete,
    /// Only read it, or only add to its reflog: it must not change meanwhile.
    Hold,
}

/// A state of the refs that can be read any number of times.
///
/// For reftable it is a point in time. For files it is not one across names. Each name is read when it is asked for,
/// loose refs before packed-refs.
pub trait Snapshot: Send + Sync {
    /// One ref, symbolic refs not followed. `Ok(None)` if it does not exist;
    /// [`Error::BrokenRef`] if its file is no good.
    fn get(&self, name: &BStr) -> Result<Option<Target>>;

    /// Answers many look-ups in one walk. `probes` come in ascending order of name, a name at most once.
    fn probe(&self, probes: &mut dyn Iterator<Item = Probe<'_>>, answers: &mut dyn Answers) -> Result<()>;

    /// A cursor over all refs below `refs/` and, if `root_refs`, the root refs (`HEAD`, `ORIG_HEAD`), before the first
    /// ref. The worktree's own refs stand among the shared ones; other worktrees' refs do not appear.
    fn cursor(&self, root_refs: bool) -> Result<Box<dyn Cursor + '_>>;

    /// The refs, in order of name, that hold `id` or an annotated tag known to the store to lead there. The store knows
    /// no such tags for loose refs. An index answers where the format has one. Symbolic refs are not among them.
    fn pointing_at(&self, id: &ObjectId, found: &mut dyn FnMut(RefView<'_>) -> Result<()>) -> Result<()>;

    /// Whether the ref has a reflog, be it empty.
    fn has_log(&self, name: &BStr) -> Result<bool>;

    /// Which of these refs have a reflog, by position. Names come in ascending order, each once.
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

    /// The reflog's entries, newest first, until `entry` breaks. `Ok(false)` if there is no reflog.
    fn log(&self, name: &BStr, entry: &mut dyn FnMut(&LogEntry) -> ControlFlow<()>) -> Result<bool>;

    /// The names of all refs that have a reflog, in order; those that no ref should have are left out.
    fn log_names(&self) -> Result<Vec<RefName>>;

    /// The names, in order, of another worktree's own refs that have a reflog, as this worktree calls them. `None` is the
    /// main worktree.
    fn log_names_elsewhere(&self, worktree: Option<&BStr>) -> Result<Vec<RefName>>;
}

/// A question to [`Snapshot::probe`].
#[derive(Clone, Copy, Debug)]
pub struct Probe<'a> {
    /// The refname.
    pub name: &'a BStr,
    /// Also look for a ref below it: one whose name begins with `NAME/`.
    pub below: bool,
}

/// Takes the answers to [`Snapshot::probe`]. An error it returns ends the walk.
pub trait Answers {
    /// What the ref of the probe at this position holds. Called once for each probe, in order, unless
    /// [`Answers::broken`] is.
    fn value(&mut self, probe: usize, value: Option<TargetView<'_>>) -> Result<()>;

    /// The ref exists but cannot be read, and why.
    fn broken(&mut self, probe: usize, broken: BrokenRef) -> Result<()>;

    /// The first ref below the probe's name. Called only if that was asked for and there is one. The call may come
    /// later than the values of following probes (`a-b` lies between `a` and `a/b`).
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
    /// The same with memory of its own; `None` if it is a name that no ref can have.
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
    /// What the store knows of the object behind an annotated tag.
    pub peeled: Peeled,
}

/// What a store remembers of the object behind an annotated tag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Peeled {
    /// Nothing: the object must be read.
    Unknown,
    /// The ref holds no tag; or one that its writer did not follow, since it is no good for instance. JGit believes it,
    /// git looks at the object.
    NotTag,
    /// The ref holds a tag that leads to this object.
    To(ObjectId),
}

/// Walks refs in ascending order of name.
///
/// A cursor sees the snapshot it comes from for as long as it lives.
pub trait Cursor {
    /// Makes `next` continue with the first ref whose name is not less than `name`. Going forward costs what lies
    /// between, at most; going back starts anew.
    fn seek(&mut self, name: &BStr) -> Result<()>;

    /// The next ref. A ref whose file is broken is the error [`Error::BrokenRef`]. The error
    /// is no end: the next call goes on behind it. What packed-refs says of such a ref is not shown.
    fn next(&mut self) -> Result<Option<RefView<'_>>>;

    /// Hands the refs that follow to `visit` until it breaks, or there are no more. An error is that of `next`: to go on
    /// behind the ref that cannot be read, call again.
    ///
    /// It does what a loop of `next` does, at half the cost where there are millions.
    fn for_each(&mut self, visit: &mut dyn FnMut(&RefView<'_>) -> ControlFlow<()>) -> Result<ControlFlow<()>> {
        while let Some(view) = self.next()? {
            if visit(&view).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// The same for one who takes lines as well. Where refs lie otherwise than in lines, each is viewed.
    fn for_each_line(&mut self, lines: &mut dyn Lines) -> Result<ControlFlow<()>> {
        self.for_each(&mut |view| lines.view(view))
    }
}

/// Takes refs as lines of packed-refs, or one by one: for lists that show a ref as such a line.
pub trait Lines {
    /// A line `DIGITS SP NAME LF` with this number of digits. The name is one that git accepts, and behind all before it.
    /// Nothing is known of the digits. Whether it is taken: if not, [`Lines::view`] gets the same ref.
    fn line(&mut self, line: &[u8], digits: usize) -> bool;

    /// A ref that has no such line, or whose line was not taken.
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

/// What stands where a ref's file would be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// Refs have no files.
    NoFiles,
    /// Nothing, or the ref's file.
    NoFolder,
    /// A folder with the files of other refs. Git cannot lock the ref then, and says so.
    Folder,
}

/// The claimed refs, locked. Dropping it gives up everything and leaves the refs as they were.
pub trait Locked: Send + Sync {
    /// The state under the lock. Claimed refs do not change while it is held.
    fn snapshot(&self) -> &dyn Snapshot;

    /// The claims, by position, that could not be locked, and why.
    fn refused(&self) -> &[(usize, Why)];

    /// What stands in a ref's place, for the words of a message.
    fn standing(&self, _name: &BStr) -> Standing {
        Standing::NoFiles
    }

    /// The folders of the stacks that are locked with all their refs, none where refs are locked one by one.
    fn stacks(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Writes what `steps` say where no reader sees it yet. Called once.
    fn stage(&mut self, steps: &dyn Steps) -> Result<()>;

    /// The same anew: these steps, some of those before, take the place of what was staged. Only stacks are written for
    /// several transactions, of which some may have to be left out.
    fn restage(&mut self, _steps: &dyn Steps) -> Result<()> {
        unreachable!("a transaction alone is staged once")
    }

    /// Makes the staged steps, the same as before, visible and unlocks.
    fn commit(self: Box<Self>, steps: &dyn Steps) -> Result<()>;
}

/// The steps of a transaction that has passed all checks, sorted by name. Each is for a claimed ref that was not
/// refused, each name once.
pub trait Steps {
    /// How many there are.
    fn count(&self) -> usize;

    /// The step at this position. Panics past the end.
    fn step(&self, at: usize) -> Step<'_>;

    /// The step's name alone.
    fn name(&self, at: usize) -> &BStr {
        self.step(at).name
    }

    /// The ref whose reflog the ref of this step takes over, under its own entry. The same steps delete it.
    fn log_source(&self, _at: usize) -> Option<&BStr> {
        None
    }

    /// How many transactions they come from: more than one if several are made at once.
    fn members(&self) -> u32 {
        1
    }

    /// Which of these the step at this position comes from. Where the format counts transactions, each has its number.
    fn member(&self, _at: usize) -> u32 {
        0
    }
}

impl Steps for Vec<Step<'_>> {
    fn count(&self) -> usize {
        self.len()
    }
    fn step(&self, at: usize) -> Step<'_> {
        self[at]
    }
}

impl<'a> dyn Steps + 'a {
    /// All steps, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Step<'_>> {
        (0..self.count()).map(|at| self.step(at))
    }
}

impl<'a> dyn Claims + 'a {
    /// All claims, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Claim<'_>> {
        (0..self.count()).map(|at| self.claim(at))
    }
}

/// What shall be done to one ref.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step<'a> {
    /// The ref itself. A valid or at least safe name.
    pub name: &'a BStr,
    /// Its value as read under the lock.
    pub old: Option<TargetView<'a>>,
    /// Whether its file is no good: then the old value is not known.
    pub is_broken: bool,
    /// What becomes of it; `None` leaves it (a step for the reflog alone, or a lock that is only held).
    pub new: Option<NewValue<'a>>,
    /// The reflog entry to add; the policy has been applied.
    pub log: Option<LogLine<'a>>,
}

/// A ref's new state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NewValue<'a> {
    /// An object, and what an annotated tag peels to.
    Direct(ObjectId, Option<ObjectId>),
    /// A symbolic ref.
    Symbolic(&'a BStr),
    /// Gone, with its reflog, unless [`Backend::keeps_symref_logs`].
    Deleted,
}

/// A [`LogEntry`] borrowed from the transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogLine<'a> {
    /// The value before; null where the ref did not exist.
    pub old: ObjectId,
    /// The value after; null where the ref is deleted.
    pub new: ObjectId,
    /// Who and when: the same for the whole transaction.
    pub committer: &'a Ident,
    /// One line, normalised, without its newline; may be empty.
    pub message: &'a BStr,
}

/// How to [optimize](Backend::optimize), by git-pack-refs(1)'s words.
#[derive(Clone, Debug)]
pub struct OptimizeOptions {
    /// Pack all refs, not only tags and those already packed (files only).
    pub all: bool,
    /// Remove the loose refs that were packed (files only).
    pub prune: bool,
    /// Do it only where a heuristic says that it is worth while.
    pub auto: bool,
    /// Patterns of refs to pack; empty for the default (files only).
    pub include: Vec<BString>,
    /// Patterns of refs not to pack (files only).
    pub exclude: Vec<BString>,
}

/// What [`Backend::optimize`] would do.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OptimizePlan {
    /// Loose refs that would go to packed-refs, in order.
    pub pack: Vec<BString>,
    /// Whether packed-refs would be written anew, be it only for its order or its header.
    pub rewrites_packed: bool,
    /// Tables that would become one, the oldest first.
    pub compact: Vec<BString>,
    /// Loose refs whose object is missing, in order. They would stay loose.
    pub missing: Vec<BString>,
}

/// What [`Backend::optimize`] came across.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Optimized {
    /// Loose refs whose object is missing, in order. They stay loose.
    pub missing: Vec<BString>,
}
