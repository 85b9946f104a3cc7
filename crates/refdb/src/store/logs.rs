//! Changes of reflogs apart from transactions. They leave the refs alone, unless [`PruneLogs::update_ref`] is set.

use super::{Store, decided_elsewhere};
use crate::{Error, LogJudge, PruneLogs, Result, transaction};
use bstr::BStr;
use refdb_types::{ObjectId, RefName};

impl Store {
    /// Adds an entry to a ref's reflog, which is created if there is none. The ref keeps its value and need not exist.
    /// The committer and the time are determined as for a transaction; runs of white space in the message become one
    /// space. Waits for locks and runs the hook as a transaction does, but as in git the hook gets no input.
    ///
    /// The objects are not read. An entry whose ids are both null only creates the log in reftables and in memory,
    /// which cannot show such an entry.
    ///
    /// # Errors
    ///
    /// Those of [`Transaction::add`](crate::Transaction::add), [`Transaction::prepare`](crate::Transaction::prepare)
    /// and [`Prepared::commit`](crate::Prepared::commit).
    pub fn append_log(&self, name: &RefName, old: ObjectId, new: ObjectId, message: &BStr) -> Result<()> {
        transaction::append_log(self.context(), name, old, new, message)
    }

    /// Removes the entries that `judge` chooses from the reflogs of these refs. Two names may lead to one reflog. The
    /// logs remain, even if they become empty.
    ///
    /// # Errors
    ///
    /// `judge` is notified of a log that cannot be changed or that it fails to judge, and the others are still
    /// processed. An error that concerns the whole store, or a signal to the process to end, ends the call. The former
    /// can be [`Misuse::Setting`](crate::Misuse::Setting), if a setting that writers need has a value that cannot be
    /// used, or [`Misuse::Global`](crate::Misuse::Global) if refs are to be set and a global ref database decides about
    /// them.
    ///
    /// # Atomicity
    ///
    /// Where refs are files, one log after the other is replaced, each under its ref's lock, and a log that stays the
    /// same is not touched. In reftables all changes of a stack become visible at once.
    pub fn prune_logs(&self, names: &[RefName], how: PruneLogs, judge: &mut dyn LogJudge) -> Result<()> {
        self.check_settings()?;
        if let Some(why) = decided_elsewhere(&self.config, &self.repository).filter(|_| how.update_ref && !how.dry_run)
        {
            return Err(why.into());
        }
        self.backend().prune_logs(names, how, self.context().objects, judge)
    }

    /// Removes the reflogs of these refs, each named once, and leaves the refs. As in git, log files are removed
    /// without a lock; reftables are locked.
    ///
    /// # Errors
    ///
    /// Where refs are files, `failed` is called for a log that could not be removed, and the others are still
    /// processed. An error that concerns the whole store, or a signal to the process to end, ends the call. As in git,
    /// a setting that only writers of refs need may have a value that cannot be used.
    pub fn drop_logs(&self, names: &[RefName], failed: &mut dyn FnMut(&RefName, Error)) -> Result<()> {
        self.backend().drop_logs(names, failed)
    }
}
