//! Takes over what was written to the old files between their copy and the moment when they were moved away. The
//! changes are added to the new tables, under the lock that excludes the tables' writers.

use super::{
    Migrated, Result,
    late_logs::{LateLog, late_logs},
    late_refs::{LateRef, late_refs, target_of},
    place::{Place, Root, Site},
    to_reftable::{Base, value_of},
};
use crate::{Backend, MigrateError, RefView, TargetView, backend::Peeled, files::FilesBackend};
use bstr::{BStr, BString, ByteSlice};
use refdb_types::Target;
use reftable::{Merged, RefRecord, RefValue, stack::Addition};
use std::collections::BTreeSet;

/// A ref whose change in the old files, made after they were copied, was not taken over: the ref was changed in the new
/// tables too, its name conflicts with that of a ref there, or it cannot be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Conflict {
    /// The name, as seen from the main worktree.
    pub name: BString,
    /// The value in the old files; `None` if the ref was deleted there, or cannot be read.
    pub old_place: Option<Target>,
}

/// Compares the old files of one worktree with their copy, and adds what has changed to its stack.
pub(super) fn take_over(
    site: &Site<'_>,
    root: &Root,
    place: &Place,
    base: &Base<'_>,
    mut addition: Addition,
    migrated: &mut Migrated,
) -> Result<()> {
    let old = FilesBackend::new(site.files(&root.old(), place));
    let mut refs = late_refs(&old, base)?;
    let current = addition.snapshot().merged().clone();
    let mut logs = if base.reflogs { late_logs(&old, base, &current)? } else { Vec::new() };
    let conflicts = sort_out(&mut refs, &current)?;
    logs.retain(|log| !conflicts.contains(&log.name));
    let shown = |name: &BString| match &place.id {
        None => name.clone(),
        Some(id) => BString::from([b"worktrees/", id.as_slice(), b"/", name.as_slice()].concat()),
    };
    for name in &conflicts {
        let old_place = old_target(&old, name.as_bstr());
        migrated.conflicts.push(Conflict { name: shown(name), old_place });
    }
    if refs.is_empty() && logs.is_empty() {
        return Ok(());
    }
    write(&old, &mut addition, &refs, &logs, &current)?;
    if let Some(due) = addition.commit()?.compaction {
        // If the compaction fails, the changes are in the stack nevertheless.
        let _ = due.run(site.stack_lock_timeout());
    }
    migrated.taken_over.extend(refs.iter().map(|late| shown(&late.name)));
    Ok(())
}

fn old_target(old: &FilesBackend, name: &BStr) -> Option<Target> {
    old.snapshot().ok()?.get(name).ok()?
}

/// Keeps those changes in `refs` that can be taken over and that the tables do not have yet. Returns the names of the
/// refs that were changed in the tables as well, that conflict with refs there, or that cannot be read.
fn sort_out(refs: &mut Vec<LateRef>, current: &Merged) -> Result<BTreeSet<BString>> {
    let mut conflicts = BTreeSet::new();
    let mut kept = Vec::new();
    let value = |name: &BString| Ok::<_, MigrateError>(current.get(name, |record| target_of(&record))?.flatten());
    let mut gone = BTreeSet::new();
    for late in refs.iter().filter(|late| late.now.is_none() && !late.is_broken) {
        if value(&late.name)? == late.was {
            gone.insert(late.name.clone());
        }
    }
    for late in refs.drain(..) {
        let now = value(&late.name)?;
        if now == late.now && !late.is_broken {
            // An earlier run, or another program, has already made this change.
            continue;
        }
        let is_blocked = || stands_in_the_way(current, &gone, late.name.as_bstr());
        if late.is_broken || now != late.was || late.was.is_none() && is_blocked()? {
            conflicts.insert(late.name);
        } else {
            kept.push(late);
        }
    }
    debug_assert!(kept.iter().all(|late: &LateRef| !late.is_broken), "a ref that cannot be read is not taken over");
    *refs = kept;
    Ok(conflicts)
}

/// Returns whether a ref such as `a` or `a/b/c` exists and is not `gone`, beside which `a/b` cannot exist.
fn stands_in_the_way(current: &Merged, gone: &BTreeSet<BString>, name: &BStr) -> Result<bool> {
    for end in name.find_iter("/") {
        if !gone.contains(&name[..end]) && current.get(&name[..end], |_| ())?.is_some() {
            return Ok(true);
        }
    }
    debug_assert!(!name.ends_with(b"/"), "a ref is no folder: {name}");
    let below = [name.as_bytes(), b"/"].concat();
    let mut cursor = current.refs();
    cursor.seek(&below)?;
    while let Some(record) = cursor.next()?
        && record.name.starts_with(&below)
    {
        if !gone.contains(record.name) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Writes a table with the changes.
fn write(
    old: &FilesBackend,
    addition: &mut Addition,
    refs: &[LateRef],
    logs: &[LateLog],
    current: &Merged,
) -> Result<()> {
    debug_assert!(logs.is_sorted_by(|a, b| a.name < b.name), "reflogs are added in order");
    let first = addition.next_update_index();
    assert!(first > current.max_update_index(), "late changes are newer than the copy");
    let most = logs.iter().map(LateLog::len).max().unwrap_or(0).max(1);
    addition.add_table(first..=first.saturating_add(most - 1), 0, |writer| {
        for late in refs {
            let value = match &late.now {
                None => RefValue::Deletion,
                Some(target) => {
                    let (name, target) = (late.name.as_bstr(), TargetView::from(target));
                    value_of(old, &RefView { name, target, peeled: Peeled::Unknown })?
                }
            };
            writer.add_ref(&RefRecord { name: late.name.as_bstr(), update_index: first, value })?;
        }
        for log in logs {
            log.write(writer, first, old.null_id())?;
        }
        Ok::<_, MigrateError>(())
    })?;
    Ok(())
}
