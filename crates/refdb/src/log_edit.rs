//! Edits of reflogs: which entries are removed, and how those that stay are linked. A [`LogJudge`] decides, a backend
//! writes.

use crate::{Error, Result};
use bstr::BStr;
use refdb_types::{ObjectId, RefName};

/// The parts of a reflog entry by which it is judged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LoggedChange<'a> {
    /// The value of the ref before the change; null where the ref did not exist.
    pub old: ObjectId,
    /// The value of the ref after the change; null where the ref was deleted.
    pub new: ObjectId,
    /// The time of the change, in seconds since 1970.
    pub time_seconds: u64,
    /// The message of the entry, without the newline.
    pub message: &'a BStr,
}

/// Decides which entries of reflogs are removed.
///
/// A log may be judged twice: first without a lock, and again under it. The judge must decide alike both times.
pub trait LogJudge {
    /// Called before the entries of a ref's log, which follow oldest first. `times` has their times, in seconds since
    /// 1970.
    fn begin(&mut self, name: &BStr, times: &mut dyn ExactSizeIterator<Item = u64>) -> Result<()>;

    /// Returns whether the entry is to be removed. In files, as in git, `entry` has the old value that it gets if it
    /// stays ([`PruneLogs::rewrite`]).
    fn goes(&mut self, entry: &LoggedChange<'_>) -> Result<bool>;

    /// Called with each entry and whether it is removed, in the same order, if [`PruneLogs::report`] is set.
    fn told(&mut self, entry: &LoggedChange<'_>, goes: bool);

    /// Called with each ref whose log could not be judged or changed, and why. Other logs are not affected.
    fn failed(&mut self, name: &RefName, error: Error);
}

/// Tells the judge that a log could not be judged or changed. A signal is passed back instead, because it ends the work
/// on all logs.
pub(crate) fn tell_failed(judge: &mut dyn LogJudge, name: &RefName, error: Error) -> Result<()> {
    match error {
        Error::Interrupted(_) => Err(error),
        error => {
            judge.failed(name, error);
            Ok(())
        }
    }
}

/// How entries of reflogs are removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct PruneLogs {
    /// Make the old value of each entry that stays equal to the new value of the one that stays before it. In files, as
    /// in git, the first entry that stays gets a null old value.
    pub rewrite: bool,
    /// Set each ref that is neither symbolic nor broken to the new value of the last entry that stays, unless that
    /// value is null. In reftables and in memory, only refs that exist are set.
    pub update_ref: bool,
    /// Only judge and report, and change nothing.
    pub dry_run: bool,
    /// Tell the judge what becomes of each entry.
    pub report: bool,
}

impl PruneLogs {
    /// The defaults.
    pub fn new() -> Self {
        PruneLogs::default()
    }

    /// Sets [`PruneLogs::rewrite`](#structfield.rewrite).
    #[must_use]
    pub fn rewrite(mut self, rewrite: bool) -> Self {
        self.rewrite = rewrite;
        self
    }

    /// Sets [`PruneLogs::update_ref`](#structfield.update_ref).
    #[must_use]
    pub fn update_ref(mut self, update_ref: bool) -> Self {
        self.update_ref = update_ref;
        self
    }

    /// Sets [`PruneLogs::dry_run`](#structfield.dry_run).
    #[must_use]
    pub fn dry_run(mut self, dry_run: bool) -> Self {
        self.dry_run = dry_run;
        self
    }

    /// Sets [`PruneLogs::report`](#structfield.report).
    #[must_use]
    pub fn report(mut self, report: bool) -> Self {
        self.report = report;
        self
    }
}

/// The chain of the entries that stay, which determines their old values.
#[derive(Debug)]
pub(crate) struct Chain {
    rewrite: bool,
    last: Option<ObjectId>,
}

impl Chain {
    /// Begins a chain. `first` is the old value that the first entry gets if entries are rewritten; `None` if it
    /// keeps its own.
    pub(crate) fn new(how: PruneLogs, first: Option<ObjectId>) -> Self {
        debug_assert!(first.is_none_or(|first| first.is_null()), "before the first entry there is no value");
        Chain { rewrite: how.rewrite, last: first }
    }

    /// Returns the old value that the next entry gets if it stays.
    pub(crate) fn old(&self, old: ObjectId) -> ObjectId {
        self.last.filter(|_| self.rewrite).unwrap_or(old)
    }

    /// Takes the next entry that stays, and returns the old value that it has from now on.
    pub(crate) fn keep(&mut self, old: ObjectId, new: ObjectId) -> ObjectId {
        let old = self.old(old);
        self.last = Some(new);
        old
    }

    /// Returns the value of a ref that follows its log: the new value of the last entry that stays. Returns `None` if
    /// no entry stays, or if that value is null.
    pub(crate) fn end(&self) -> Option<ObjectId> {
        self.last.filter(|last| !last.is_null())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use refdb_types::HashKind;

    #[test]
    fn a_rewritten_chain_has_no_gap_and_begins_with_nothing() {
        let [null, a, b, c] = [0u8, 1, 2, 3].map(|byte| ObjectId::from_bytes(HashKind::Sha1, &[byte; 20]).unwrap());
        for (rewrite, first, olds) in
            [(false, Some(null), [a, a, c]), (true, Some(null), [null, b, c]), (true, None, [a, b, c])]
        {
            let mut chain = Chain::new(PruneLogs { rewrite, ..PruneLogs::default() }, first);
            assert_eq!(chain.end(), None);
            assert_eq!([chain.keep(a, b), chain.keep(a, c), chain.keep(c, a)], olds);
            assert_eq!(chain.end(), Some(a));
            chain.keep(a, null);
            assert_eq!(chain.end(), None, "a ref is not set to nothing");
        }
    }
}
