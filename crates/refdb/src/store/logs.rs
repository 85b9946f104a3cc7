//! Reflogs by themselves: entries that are added or go, and logs that go, while refs stay.

use super::Store;
use crate::{Error, LogJudge, Misuse, PruneLogs, Result, transaction};
use bstr::BStr;
use refdb_types::{ObjectId, RefName};

impl Store {
    /// Adds an entry to a ref's reflog, which is made if there is none. The ref need not exist, and keeps its value. The
    /// committer and the time are those of a transaction; runs of white space in the message become one space.
    ///
    /// Objects are not looked at. An entry from nothing to nothing is one that reftables cannot show: it only makes the log.
    pub fn append_log(&self, name: &RefName, old: ObjectId, new: ObjectId, message: &BStr) -> Result<()> {
        transaction::append_log(self.context(), name, old, new, message)
    }

    /// Takes entries out of the reflogs of these refs; `judge` says which. The logs stay, even if they are empty.
    ///
    /// Where refs are files, each log is replaced by itself under its ref's lock. A log that loses nothing is not touched.
    /// In reftables all changes of a stack come in one table: all or none.
    ///
    /// A log that cannot be changed is told to the judge, and the others go on. An error ends it all.
    pub fn prune_logs(&self, names: &[RefName], how: PruneLogs, judge: &mut dyn LogJudge) -> Result<()> {
        // In a quarantine too, as git has it, but not under a setting that cannot be used.
        match &self.settings().bad_for_writers {
            Some(what) => Err(Misuse::Setting(what.clone()).into()),
            None => self.backend().prune_logs(names, how, self.context().objects, judge),
        }
    }

    /// Removes the reflogs of these refs, each named once, and leaves the refs. As in git, files are removed without a
    /// lock. `failed` hears of a log that stays; an error ends it all.
    pub fn drop_logs(&self, names: &[RefName], failed: &mut dyn FnMut(&RefName, Error)) -> Result<()> {
        self.backend().drop_logs(names, failed)
    }
}
