//! Takes entries out of reflogs: the ref is locked, then its log, which is written anew beside itself and renamed.
//!
//! These are git's locks: to add an entry a writer holds the ref's. A log that loses nothing is neither locked nor written.

use super::{locks, reflog_file, reflog_line::Line, store::Store, transaction::FilesLocked};
use crate::{
    Error, Rejection, Result, Step, Target, TargetView,
    backend::{Claim, Intent, Locked, NewValue},
    log_edit::{Chain, LogJudge, LoggedChange, PruneLogs},
};
use bstr::BStr;
use refdb_types::{ObjectId, RefName};
use std::{path::Path, sync::Arc};

/// See [`Backend::prune_logs`](crate::Backend::prune_logs).
pub(super) fn prune(store: &Arc<Store>, names: &[RefName], how: PruneLogs, judge: &mut dyn LogJudge) -> Result<()> {
    for name in names {
        locks::heed_signals()?;
        match prune_one(store, name, how, judge) {
            Err(error @ Error::Interrupted(_)) => return Err(error),
            Err(error) => judge.failed(name, error),
            Ok(()) => {}
        }
    }
    Ok(())
}

fn prune_one(store: &Arc<Store>, name: &RefName, how: PruneLogs, judge: &mut dyn LogJudge) -> Result<()> {
    let Some(path) = store.layout.log_path(name.as_bstr()) else { return Ok(()) };
    let Some(before) = reflog_file::read(store, &path)? else { return Ok(()) };
    let judged = Judged::of(store, name.as_bstr(), &before, how, judge)?;
    if how.dry_run || judged.content == before && !how.update_ref {
        judged.tell(how, judge);
        return Ok(());
    }
    let intent = if how.update_ref { Intent::SetDirect } else { Intent::Hold };
    let locked = FilesLocked::lock(store, &vec![Claim { name: name.as_bstr(), intent }])?;
    if let Some((_, why)) = locked.refused().first() {
        return Err(Rejection::of(name.clone(), why.clone()).into());
    }
    let Some(now) = reflog_file::read(store, &path)? else { return Ok(()) };
    let anew = if now == before { None } else { Some(Judged::of(store, name.as_bstr(), &now, how, judge)?) };
    let judged = anew.as_ref().unwrap_or(&judged);
    judged.tell(how, judge);
    let content = (judged.content != now).then_some(&judged.content[..]);
    replace(store, &path, content, locked, name.as_bstr(), judged.end.filter(|_| how.update_ref))
}

/// Puts the new content of the log in its place, and then the ref's new value.
fn replace(
    store: &Arc<Store>,
    path: &Path,
    content: Option<&[u8]>,
    mut locked: FilesLocked,
    name: &BStr,
    end: Option<ObjectId>,
) -> Result<()> {
    assert!(locked.refused().is_empty(), "a log is replaced under its ref's lock: '{name}'");
    let mut steps = Vec::new();
    let old = locked.snapshot().get(name);
    let is_broken = matches!(old, Err(Error::BrokenRef(_)));
    let old = old.unwrap_or_default();
    if let Some(end) = end
        && !matches!(old, Some(Target::Symbolic(_)))
    {
        let (old, new) = (old.as_ref().map(TargetView::from), Some(NewValue::Direct(end, None)));
        steps.push(Step { name, old, is_broken, new, log: None });
    }
    locked.stage(&steps)?;
    if let Some(content) = content {
        reflog_file::replace(store, path, content)?;
    }
    Box::new(locked).commit(&steps)
}

/// The fate of a log.
struct Judged<'t> {
    lines: Vec<(Line<'t>, bool)>,
    content: Vec<u8>,
    end: Option<ObjectId>,
}

impl<'t> Judged<'t> {
    fn of(store: &Arc<Store>, name: &BStr, text: &'t [u8], how: PruneLogs, judge: &mut dyn LogJudge) -> Result<Self> {
        let hash = store.options.hash;
        let whole = text.split_inclusive(|byte| *byte == b'\n').filter_map(|line| line.strip_suffix(b"\n"));
        let mut lines: Vec<_> = whole.filter_map(|line| Some((Line::read(hash, line)?, false))).collect();
        judge.begin(name, &mut lines.iter().map(|(line, _)| line.time_seconds))?;
        let mut content = Vec::with_capacity(text.len());
        let mut chain = Chain::new(how, Some(ObjectId::null(hash)));
        for (line, goes) in &mut lines {
            // In files git judges an entry by the old value that it would get.
            *goes = judge.goes(&LoggedChange { old: chain.old(line.old), ..change(line) })?;
            if !*goes {
                line.write(chain.keep(line.old, line.new), &mut content);
            }
        }
        debug_assert!(content.len() <= 2 * text.len() + 16 * lines.len(), "a log does not grow but by signs and tabs");
        Ok(Judged { lines, content, end: chain.end() })
    }

    fn tell(&self, how: PruneLogs, judge: &mut dyn LogJudge) {
        debug_assert!(self.end.is_none_or(|end| !end.is_null()), "a ref is not set to nothing");
        if how.report {
            self.lines.iter().for_each(|(line, goes)| judge.told(&change(line), *goes));
        }
    }
}

fn change<'a>(line: &Line<'a>) -> LoggedChange<'a> {
    debug_assert!(line.time_seconds > 0, "a line without a time is none");
    LoggedChange { old: line.old, new: line.new, time_seconds: line.time_seconds, message: line.message }
}
