//! Reads reflogs.
//!
//! A log record whose two ids are null marks that a reflog exists, even without entries. Such a record is not shown.

use super::{stacks::Place, state::ReftableSnapshot};
use crate::Result;
use bstr::{BStr, BString};
use refdb_types::{Ident, LogEntry, RefName, Scope, qualified_name};
use reftable::{LogRecord, LogValue, MergedLogCursor};
use std::{collections::BTreeMap, ops::ControlFlow};

pub(super) fn has(snapshot: &ReftableSnapshot, name: &BStr) -> Result<bool> {
    let mut found = false;
    having(snapshot, &mut std::iter::once(name), &mut |_| {
        found = true;
        Ok(())
    })?;
    Ok(found)
}

/// Passes the positions of the names that have a reflog to `found`. The names must be sorted.
pub(super) fn having(
    snapshot: &ReftableSnapshot,
    names: &mut dyn Iterator<Item = &BStr>,
    found: &mut dyn FnMut(usize) -> Result<()>,
) -> Result<()> {
    // Names ascend only among those that have the same qualifier, such as `main-worktree/`.
    let mut walks: BTreeMap<(Place, usize), Walk> = BTreeMap::new();
    let mut has_logs = false;
    for place in snapshot.stacks().own_places() {
        has_logs |= snapshot.merged(place)?.has_logs();
    }
    for (at, name) in names.enumerate() {
        // Names below `refs/` are in the stacks of this worktree, which have no logs.
        if !has_logs && name.starts_with(b"refs/") {
            continue;
        }
        let (place, inner) = snapshot.stacks().route(name);
        let key = (place, name.len() - inner.len());
        let walk = match walks.get_mut(&key) {
            Some(walk) => walk,
            None => {
                let cursor = snapshot.merged(&key.0)?.logs();
                walks.entry(key).or_insert(Walk { cursor, next: Next::Unknown, name: BString::default() })
            }
        };
        if walk.has(inner)? {
            found(at)?;
        }
    }
    Ok(())
}

/// A walk over the names that have log records. It keeps the name of the current record, so that names before it need
/// no seek.
struct Walk {
    cursor: MergedLogCursor,
    next: Next,
    name: BString,
}

enum Next {
    Unknown,
    /// The first record at or after the name that was asked for last has the name that is kept.
    Known,
    /// There is no record at or after the name that was asked for last.
    End,
}

impl Walk {
    fn has(&mut self, name: &BStr) -> Result<bool> {
        match self.next {
            Next::End => return Ok(false),
            Next::Known if self.name >= name => return Ok(self.name == name),
            Next::Known | Next::Unknown => {}
        }
        self.cursor.seek_log(name, u64::MAX)?;
        self.next = match self.cursor.next()? {
            None => Next::End,
            Some(record) => {
                debug_assert!(record.name >= name, "names before the one asked for are passed over");
                self.name.clear();
                self.name.extend_from_slice(record.name);
                Next::Known
            }
        };
        Ok(matches!(self.next, Next::Known) && self.name == name)
    }
}

pub(super) fn read(
    snapshot: &ReftableSnapshot,
    name: &BStr,
    entry: &mut dyn FnMut(&LogEntry) -> ControlFlow<()>,
) -> Result<bool> {
    let (place, inner) = snapshot.stacks().route(name);
    let mut cursor = snapshot.merged(&place)?.logs();
    cursor.seek_log(inner, u64::MAX)?;
    let mut exists = false;
    while let Some(record) = cursor.next()?
        && record.name == inner
    {
        exists = true;
        if let Some(shown) = shown(&record)
            && entry(&shown).is_break()
        {
            break;
        }
    }
    Ok(exists)
}

/// Converts a record to an entry, unless it only marks that the reflog exists.
pub(crate) fn shown(record: &LogRecord<'_>) -> Option<LogEntry> {
    match record.value {
        LogValue::Update { old, new, name, email, time_seconds, tz_offset, message }
            if !(old.is_null() && new.is_null()) =>
        {
            Some(LogEntry {
                old,
                new,
                committer: Ident {
                    name: name.to_owned(),
                    email: email.to_owned(),
                    time_seconds,
                    offset_decimal: tz_offset,
                },
                message: message.strip_suffix(b"\n").unwrap_or(message).into(),
            })
        }
        LogValue::Update { .. } | LogValue::Deletion => None,
    }
}

pub(super) fn names(snapshot: &ReftableSnapshot) -> Result<Vec<RefName>> {
    let mut names = Vec::new();
    for place in snapshot.stacks().own_places() {
        for_each_name(snapshot, place, &mut |name| {
            if snapshot.is_visible(place, name) {
                names.extend(RefName::new(name.to_vec()).ok());
            }
        })?;
    }
    names.sort_unstable();
    Ok(names)
}

/// Returns the names of another worktree's own refs that have a reflog, in order, in the form in which this worktree
/// addresses them. `None` stands for the main worktree.
pub(super) fn names_elsewhere(snapshot: &ReftableSnapshot, worktree: Option<&BStr>) -> Result<Vec<RefName>> {
    let place = worktree.map_or(Place::Common, |id| Place::Other(id.to_owned()));
    let mut names = Vec::new();
    if snapshot.stacks().is_gone(&place) {
        return Ok(names);
    }
    for_each_name(snapshot, &place, &mut |name| {
        if Scope::of(name) == Scope::Worktree {
            names.extend(RefName::new(qualified_name(worktree, name)).ok());
        }
    })?;
    Ok(names)
}

/// Passes the names for which a stack has log records to `act`, in order.
fn for_each_name(snapshot: &ReftableSnapshot, place: &Place, act: &mut dyn FnMut(&BStr)) -> Result<()> {
    let mut cursor = snapshot.merged(place)?.logs();
    let mut after = Vec::new();
    loop {
        // `after` ends with a byte that is smaller than any in a refname, so the seek skips the rest of that log.
        cursor.seek(&after)?;
        let Some(record) = cursor.next()? else { return Ok(()) };
        debug_assert!(**record.name >= *after, "each look leads to the next name");
        after.clear();
        after.extend_from_slice(record.name);
        after.push(1);
        act(record.name);
    }
}
