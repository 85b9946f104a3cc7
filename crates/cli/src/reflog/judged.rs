//! What `delete` and `expire` have in common: options, and the report about each entry.

use super::say_failed;
use crate::{
    failure::{FAILED, Result},
    options::Opt,
    output::Output,
    session::Session,
};
use refdb::{LoggedChange, PruneLogs, RefName, Snapshot};

pub(super) const DRY_RUN: Opt = Opt::flag("dry-run", "change nothing").short(b'n');
pub(super) const REWRITE: Opt =
    Opt::flag("rewrite", "set the old value of each entry to the new value of the entry that now precedes it");
pub(super) const UPDATE_REF: Opt = Opt::flag("updateref", "set the reference to the value of its newest reflog entry");
pub(super) const VERBOSE: Opt = Opt::flag("verbose", "print what happens to each entry");

/// Applies an option that `delete` and `expire` have in common, and returns whether `name` is one of those.
pub(super) fn set(how: &mut PruneLogs, name: &str, is_on: bool) -> bool {
    match name {
        "dry-run" => how.dry_run = is_on,
        "rewrite" => how.rewrite = is_on,
        "updateref" => how.update_ref = is_on,
        "verbose" => how.report = is_on,
        _ => return false,
    }
    true
}

/// Reports each entry on standard output, and reflogs that could not be changed on standard error.
pub(super) struct Teller {
    /// The text in front of the message of an entry that is deleted.
    pub(super) gone: &'static str,
    output: Output,
    failed: Vec<refdb::Error>,
    has_failed: bool,
}

impl Teller {
    pub(super) fn new(dry_run: bool) -> Self {
        let gone = if dry_run { "would prune" } else { "prune" };
        Teller { gone, output: Output::default(), failed: Vec::new(), has_failed: false }
    }

    pub(super) fn tell(&mut self, entry: &LoggedChange<'_>, goes: bool) {
        let buffer = self.output.buffer();
        buffer.extend_from_slice(if goes { self.gone } else { "keep" }.as_bytes());
        buffer.push(b' ');
        buffer.extend_from_slice(entry.message);
        buffer.push(b'\n');
    }

    /// Prints the reports of entries that were collected, and then this line, on standard output.
    pub(super) fn say(&mut self, line: &str) -> Result<()> {
        self.output.buffer().extend_from_slice(line.as_bytes());
        self.output.buffer().push(b'\n');
        self.output.flush()
    }

    pub(super) fn fail(&mut self, error: refdb::Error) {
        self.failed.push(error);
    }

    /// Prints the reports and the errors that were collected.
    pub(super) fn flush(&mut self) -> Result<()> {
        self.output.flush()?;
        self.has_failed |= !self.failed.is_empty();
        std::mem::take(&mut self.failed).into_iter().try_for_each(say_failed)
    }

    /// Prints the reports and the errors that were collected, and returns the exit code.
    pub(super) fn end(mut self) -> Result<u8> {
        self.flush()?;
        Ok(if self.has_failed { FAILED } else { 0 })
    }
}

/// Returns all refs with reflogs, by the names that this worktree uses, including those of other worktrees unless
/// `single` is set.
pub(super) fn all_logs(session: &Session, single: bool) -> Result<Vec<RefName>> {
    Ok(session.store.read(refdb::Error::is_stale, |snapshot| all_logs_in(session, snapshot, single))?)
}

fn all_logs_in(session: &Session, snapshot: &dyn Snapshot, single: bool) -> refdb::Result<Vec<RefName>> {
    if single {
        return snapshot.log_names();
    }
    let repository = session.store.repository();
    let own = repository.worktree_id();
    let mut names = Vec::new();
    let linked = repository.worktrees(session.store.fs()).map_err(refdb::Error::from)?;
    let all = std::iter::once(None).chain(linked.iter().map(|tree| Some(tree.id.as_ref())));
    for id in all {
        names.extend(if id == own { snapshot.log_names()? } else { snapshot.log_names_elsewhere(id)? });
    }
    Ok(names)
}
