//! Drops entries of reflogs: the ref is locked, then its reflog, which is written again beside the old one and renamed.
//!
//! git takes the same locks, because a writer appends an entry under the ref's lock. A first pass judges reflogs
//! without a lock. A second pass locks the refs of those that change, or whose refs may have to be set, and judges them
//! again if they may have changed or are to be reported. A reflog without a change is neither written nor locked.

use crate::files::{
    lock::set,
    reflog::{
        file::{self, Proof},
        line::Line,
    },
    store::Store,
    transaction::FilesLocked,
};
use crate::{
    Error, Rejection, Result, Snapshot, Step, Target, TargetView,
    backend::{Claim, ClaimKind, Locked, NewValue},
    log_edit::{Chain, LogJudge, LoggedChange, PruneLogs, tell_failed},
};
use bstr::BStr;
use refdb_types::{ObjectId, RefName};
use refdb_vfs::descriptors_max;
use std::{path::PathBuf, sync::Arc};

/// The most refs that are locked at once. Locking many at once is cheaper than one by one, because their locks are
/// links to one file.
const BATCH: usize = 64;

/// If the new contents kept from the first pass to the second exceed this many bytes, the second pass begins.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// Implements [`Maintenance::prune_logs`](crate::backend::Maintenance::prune_logs).
pub(crate) fn prune(store: &Arc<Store>, names: &[RefName], how: PruneLogs, judge: &mut dyn LogJudge) -> Result<()> {
    let batch = if how.report || how.update_ref { 1 } else { batch_max(descriptors_max()) };
    let (mut due, mut kept_bytes): (Vec<Due<'_>>, usize) = (Vec::new(), 0);
    for name in names {
        set::heed_signals()?;
        match look(store, name, how, judge) {
            Ok(None) => {}
            Ok(Some(found)) => {
                // `HEAD` is also `main-worktree/HEAD`, and one ref cannot be locked twice.
                if due.iter().any(|due| due.path == found.path) {
                    kept_bytes = 0;
                    prune_locked(store, std::mem::take(&mut due), how, judge)?;
                }
                kept_bytes += found.kept_bytes();
                due.push(found);
            }
            Err(error) => tell_failed(judge, name, error)?,
        }
        if due.len() == batch || kept_bytes > KEPT_BYTES_MAX {
            kept_bytes = 0;
            prune_locked(store, std::mem::take(&mut due), how, judge)?;
        }
    }
    if due.is_empty() { Ok(()) } else { prune_locked(store, due, how, judge) }
}

/// The most reflogs that stay open from the first pass to the second: a quarter of the descriptors that the process may
/// have, and at most [`BATCH`].
fn batch_max(descriptors: Option<u64>) -> usize {
    const PART: u64 = 4;
    descriptors.map_or(BATCH, |most| usize::try_from(most / PART).unwrap_or(BATCH).clamp(1, BATCH))
}

/// A reflog that will probably change, or whose ref may have to be set, as judged without a lock.
struct Due<'n> {
    name: &'n RefName,
    path: PathBuf,
    proof: Proof,
    /// The new content, if it changes.
    content: Option<Vec<u8>>,
    end: Option<ObjectId>,
}

impl Due<'_> {
    fn kept_bytes(&self) -> usize {
        self.content.as_ref().map_or(0, Vec::len)
    }
}

/// Judges a reflog without a lock. Returns the reflog if it has to change or if its ref may have to be set, except in a
/// dry run. Otherwise reports what becomes of its entries, if that is wanted.
fn look<'n>(
    store: &Arc<Store>,
    name: &'n RefName,
    how: PruneLogs,
    judge: &mut dyn LogJudge,
) -> Result<Option<Due<'n>>> {
    let Some(path) = store.layout.log_path(name.as_bstr()) else { return Ok(None) };
    let Some((before, proof)) = file::read_with_proof(store, &path)? else { return Ok(None) };
    let judged = Judged::of(store, name.as_bstr(), &before, how, judge)?;
    let changes = judged.content != before;
    if how.dry_run || !changes && !how.update_ref {
        judged.tell(how, judge);
        return Ok(None);
    }
    let (content, end) = (changes.then_some(judged.content), judged.end);
    Ok(Some(Due { name, path, proof, content, end }))
}

/// Locks the refs of these reflogs, none of which may occur twice, and replaces the reflogs.
fn prune_locked(store: &Arc<Store>, mut due: Vec<Due<'_>>, how: PruneLogs, judge: &mut dyn LogJudge) -> Result<()> {
    due.sort_unstable_by_key(|due| due.name);
    let kind = if how.update_ref { ClaimKind::SetDirect } else { ClaimKind::Hold };
    let claims: Vec<Claim<'_>> = due.iter().map(|due| Claim { name: due.name.as_bstr(), kind }).collect();
    let mut locked = FilesLocked::lock(store, &claims)?;
    let refused = locked.refused().to_vec();
    for (at, why) in &refused {
        judge.failed(due[*at].name, Rejection::of(due[*at].name.clone(), why.clone()).into());
    }
    let mut steps = Vec::new();
    let held = (0..due.len()).filter(|at| !refused.iter().any(|(refused, _)| refused == at));
    for due in held.map(|at| &due[at]) {
        let end = prune_one(store, due, how, judge);
        match end.and_then(|end| end.map_or(Ok(None), |end| step(locked.snapshot(), due.name.as_bstr(), end))) {
            Ok(step) => steps.extend(step),
            Err(error) => tell_failed(judge, due.name, error)?,
        }
    }
    assert!(steps.len() <= 1, "refs are set one by one");
    match locked.stage(&steps).and_then(|()| Box::new(locked).commit(&steps)) {
        Err(error @ Error::Rejected(_)) if !steps.is_empty() => {
            judge.failed(due[0].name, error);
            Ok(())
        }
        done => done,
    }
}

/// Replaces the reflog of a locked ref. If the reflog may have changed since the first pass, or if its entries are to
/// be reported, it is judged again first. Returns the value to which the ref must be set, if any.
fn prune_one(store: &Arc<Store>, due: &Due<'_>, how: PruneLogs, judge: &mut dyn LogJudge) -> Result<Option<ObjectId>> {
    if !how.report && due.proof.holds(store)? {
        if let Some(content) = &due.content {
            file::replace_file(store, &due.path, content)?;
        }
        return Ok(due.end.filter(|_| how.update_ref));
    }
    let Some(now) = file::read(store, &due.path)? else { return Ok(None) };
    let judged = Judged::of(store, due.name.as_bstr(), &now, how, judge)?;
    judged.tell(how, judge);
    if judged.content != now {
        file::replace(store, &due.path, &judged.content)?;
    }
    Ok(judged.end.filter(|_| how.update_ref))
}

/// The step that sets a ref to the last value of its reflog. As in git, symbolic and broken refs are not changed.
fn step<'n>(snapshot: &dyn Snapshot, name: &'n BStr, end: ObjectId) -> Result<Option<Step<'n>>> {
    let old = match snapshot.get(name) {
        Ok(Some(Target::Symbolic(_))) => return Ok(None),
        Ok(old) => old.and_then(|old| old.id()).map(TargetView::Direct),
        Err(error) if error.is_broken_ref() => return Ok(None),
        Err(error) => return Err(error),
    };
    Ok(Some(Step { name, old, is_broken: false, new: Some(NewValue::Direct(end, None)), log: None }))
}

/// The verdict on a reflog.
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
            // In files git judges an entry by the old value that it would have afterwards.
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
