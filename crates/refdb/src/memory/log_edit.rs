//! Removes entries from reflogs.

use super::state::{Entry, State};
use crate::{
    Error, LogJudge, LoggedChange, PruneLogs, Result,
    log_edit::{Chain, tell_failed},
};
use bstr::ByteSlice;
use refdb_repo::ObjectCheck;
use refdb_types::{LogEntry, ObjectId, RefName, Target, canonical_name};
use refdb_vfs::interrupt;

/// Implements [`Maintenance::prune_logs`](crate::Maintenance::prune_logs). With `dry_run`, the state stays as it is.
pub(super) fn prune(
    state: &mut State,
    names: &[RefName],
    how: PruneLogs,
    objects: &dyn ObjectCheck,
    judge: &mut dyn LogJudge,
) -> Result<()> {
    for name in names {
        interrupt::check().map_err(Error::Interrupted)?;
        let plain = canonical_name(name.as_bstr(), None);
        let Some(log) = state.logs.get_mut(plain) else { continue };
        let (kept, end) = match prune_one(name, log, how, judge) {
            Ok(pruned) => pruned,
            Err(error) => {
                tell_failed(judge, name, error)?;
                continue;
            }
        };
        if how.dry_run {
            continue;
        }
        *log = kept;
        if let Some(end) = end.filter(|_| how.update_ref)
            && let Some(entry) = state.refs.get_mut(plain)
            && matches!(entry.target, Target::Direct(now) if now != end)
        {
            // As git does, this treats a missing or corrupt object as one that is not a tag.
            *entry = Entry::direct(end, objects.peel_tag(&end).unwrap_or_default());
        }
    }
    Ok(())
}

/// The entries that stay, and the value that the last of them gave the ref.
fn prune_one(
    name: &RefName,
    log: &[LogEntry],
    how: PruneLogs,
    judge: &mut dyn LogJudge,
) -> Result<(Vec<LogEntry>, Option<ObjectId>)> {
    judge.begin(name.as_bstr(), &mut log.iter().map(|entry| entry.committer.time_seconds))?;
    let mut chain = Chain::new(how, None);
    let (mut kept, mut fates) = (Vec::new(), Vec::new());
    for entry in log {
        let goes = judge.goes(&change(entry))?;
        fates.push(goes);
        if !goes {
            kept.push(LogEntry { old: chain.keep(entry.old, entry.new), ..entry.clone() });
        }
    }
    if how.report {
        log.iter().zip(fates).for_each(|(entry, goes)| judge.told(&change(entry), goes));
    }
    Ok((kept, chain.end()))
}

fn change(entry: &LogEntry) -> LoggedChange<'_> {
    LoggedChange {
        old: entry.old,
        new: entry.new,
        time_seconds: entry.committer.time_seconds,
        message: entry.message.as_bstr(),
    }
}
