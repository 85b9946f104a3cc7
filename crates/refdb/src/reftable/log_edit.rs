//! Removes entries of reflogs and rewrites others, by one new table for each stack that changes.
//!
//! Pruning is planned without a lock, unless the judge wants reports of a change that is carried out. If a stack has
//! got other tables by the time it is locked, pruning is planned again. Reflogs are dropped by a plan that is made
//! under the lock.

use super::{
    locked::{ReftableLocked, commit_all, ref_value},
    log_walk::{Entry, Log, LogWalk},
    stacks::{Place, Stacks},
    state::ReftableSnapshot,
};
use crate::{
    Error, Result, Snapshot, Target,
    backend::{Claim, ClaimKind, NewValue},
    log_edit::{Chain, LogJudge, LoggedChange, PruneLogs, tell_failed},
};
use bstr::{BStr, ByteSlice};
use refdb_repo::ObjectCheck;
use refdb_types::{HashKind, ObjectId, RefName};
use refdb_vfs::interrupt;
use reftable::{LogRecord, LogValue, Merged, RefRecord, stack::AdditionWriter};
use std::{cmp::Reverse, collections::BTreeMap, sync::Arc};

/// Implements [`Maintenance::prune_logs`](crate::backend::Maintenance::prune_logs).
pub(super) fn prune(
    stacks: &Arc<Stacks>,
    names: &[RefName],
    how: PruneLogs,
    objects: &dyn ObjectCheck,
    judge: &mut dyn LogJudge,
) -> Result<()> {
    let names = Names { stacks, names };
    if how.dry_run {
        return Plan::of_pruning(&ReftableSnapshot::fresh(stacks)?, &names, how, objects, judge).map(drop);
    }
    // The judge reports each entry of a plan, so with reports there must be only one plan, made under the lock.
    let ahead = if how.report {
        None
    } else {
        let snapshot = ReftableSnapshot::fresh(stacks)?;
        let plan = Plan::of_pruning(&snapshot, &names, how, objects, judge)?;
        if plan.is_empty() {
            return Ok(());
        }
        Some(plan)
    };
    let locked = names.lock()?;
    let plan = match ahead {
        Some(plan) if plan.still_fits(&locked.snapshot)? => plan,
        _ => Plan::of_pruning(&locked.snapshot, &names, how, objects, judge)?,
    };
    plan.carry_out(&names, locked)
}

/// Implements [`Maintenance::drop_logs`](crate::backend::Maintenance::drop_logs).
pub(super) fn drop_logs(stacks: &Arc<Stacks>, names: &[RefName]) -> Result<()> {
    let names = Names { stacks, names };
    let locked = names.lock()?;
    Plan::of_dropping(&locked.snapshot, &names)?.carry_out(&names, locked)
}

/// The refs whose reflogs are changed.
#[derive(Clone, Copy)]
struct Names<'a> {
    stacks: &'a Arc<Stacks>,
    names: &'a [RefName],
}

impl<'a> Names<'a> {
    /// Returns the stack of the ref at this position, and the name of the ref in it.
    fn route(&self, at: usize) -> (Place, &'a BStr) {
        self.stacks.route(self.names[at].as_bstr())
    }

    fn lock(&self) -> Result<ReftableLocked> {
        let claim = |name: &'a RefName| Claim { name: name.as_bstr(), kind: ClaimKind::Hold };
        ReftableLocked::lock(self.stacks, &self.names.iter().map(claim).collect::<Vec<_>>())
    }
}

/// The change of a log record.
#[derive(Clone, Copy)]
enum Fate {
    /// The record is removed.
    Gone,
    /// The record gets this old value.
    Old(ObjectId),
    /// The record is new, and marks that the reflog exists.
    Marker,
}

/// The changes of one stack. Refs are given by their positions in the names.
#[derive(Default)]
struct Part {
    logs: Vec<(u32, u64, Fate)>,
    /// The refs to change, with the new value and, if that is a tag, the object to which it peels.
    refs: Vec<(u32, ObjectId, Option<ObjectId>)>,
}

/// All changes, by stack.
#[derive(Default)]
struct Plan {
    parts: BTreeMap<Place, Part>,
    /// The stacks as they were when their reflogs were read.
    read: BTreeMap<Place, Merged>,
}

impl Plan {
    fn of_pruning(
        snapshot: &ReftableSnapshot,
        names: &Names<'_>,
        how: PruneLogs,
        objects: &dyn ObjectCheck,
        judge: &mut dyn LogJudge,
    ) -> Result<Self> {
        let mut plan = Plan::default();
        plan.for_each_log(snapshot, names, &mut |part, at, log| {
            let name = &names.names[at as usize];
            match prune_one(snapshot, name, log, how, judge) {
                Ok(pruned) => {
                    part.logs.extend(pruned.logs.into_iter().map(|(index, fate)| (at, index, fate)));
                    // Like git, this accepts an object that is missing or damaged.
                    let peeled = |end: &ObjectId| objects.peel_tag(end).unwrap_or_default();
                    part.refs.extend(pruned.end.map(|end| (at, end, peeled(&end))));
                    Ok(())
                }
                Err(error) => tell_failed(judge, name, error),
            }
        })?;
        Ok(plan)
    }

    fn of_dropping(snapshot: &ReftableSnapshot, names: &Names<'_>) -> Result<Self> {
        let mut plan = Plan::default();
        plan.for_each_log(snapshot, names, &mut |part, at, log| {
            let indexes = log.entries().map(|entry| entry.update_index).chain(log.markers().iter().copied());
            part.logs.extend(indexes.map(|index| (at, index, Fate::Gone)));
            Ok(())
        })?;
        Ok(plan)
    }

    fn for_each_log(
        &mut self,
        snapshot: &ReftableSnapshot,
        names: &Names<'_>,
        act: &mut dyn FnMut(&mut Part, u32, &Log) -> Result<()>,
    ) -> Result<()> {
        let mut walks: BTreeMap<Place, LogWalk> = BTreeMap::new();
        let mut log = Log::default();
        for at in 0..names.names.len() {
            interrupt::check().map_err(Error::Interrupted)?;
            let (place, inner) = names.route(at);
            if snapshot.stacks().is_gone(&place) {
                continue;
            }
            if !walks.contains_key(&place) {
                let merged = snapshot.merged(&place)?;
                self.read.insert(place.clone(), merged.clone());
                walks.insert(place.clone(), LogWalk::new(merged));
            }
            let walk = walks.get_mut(&place).expect("it was there or was put there");
            walk.read(inner, &mut log)?;
            act(self.parts.entry(place).or_default(), at as u32, &log)?;
        }
        self.parts.retain(|_, part| !(part.logs.is_empty() && part.refs.is_empty()));
        Ok(())
    }

    fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Returns whether the stacks that this plan changes still have the tables from which it was made.
    fn still_fits(&self, locked: &ReftableSnapshot) -> Result<bool> {
        debug_assert!(!self.is_empty(), "a plan without changes is not carried out");
        let names = |merged: &Merged| merged.tables().iter().map(|table| table.name().to_owned()).collect::<Vec<_>>();
        for place in self.parts.keys() {
            if names(&self.read[place]) != names(&locked.merged(place)?) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn carry_out(self, names: &Names<'_>, locked: ReftableLocked) -> Result<()> {
        let ReftableLocked { stacks, snapshot, mut additions, .. } = locked;
        for (place, mut part) in self.parts {
            let merged = snapshot.merged(&place)?;
            let inner = |at: u32| names.route(at as usize).1;
            part.logs.sort_by_key(|(at, index, _)| (inner(*at), Reverse(*index)));
            part.refs.sort_by_key(|(at, ..)| inner(*at));
            // `HEAD` and `main-worktree/HEAD` may be two names of one ref, whose reflog was planned for twice then.
            part.logs.dedup_by(|a, b| (inner(a.0), a.1) == (inner(b.0), b.1));
            part.refs.dedup_by(|a, b| inner(a.0) == inner(b.0));
            // A worktree that was removed before its stack could be locked has no reflogs any more.
            let Some(addition) = additions.get_mut(&place) else { continue };
            let index = addition.next_update_index();
            debug_assert!(
                part.logs.is_sorted_by(|a, b| (inner(a.0), Reverse(a.1)) < (inner(b.0), Reverse(b.1))),
                "each record has one fate"
            );
            addition.add_table(index..=index, 0, |writer| {
                Table { writer, index, merged: &merged, hash: snapshot.hash() }.add(&part, &inner)
            })?;
        }
        commit_all(&stacks, additions)
    }
}

/// The changes of one reflog, and the new value of the ref, if it changes.
struct Pruned {
    logs: Vec<(u64, Fate)>,
    end: Option<ObjectId>,
}

fn prune_one(
    snapshot: &ReftableSnapshot,
    name: &RefName,
    log: &Log,
    how: PruneLogs,
    judge: &mut dyn LogJudge,
) -> Result<Pruned> {
    let mut pruned = Pruned { logs: Vec::new(), end: None };
    if log.is_missing() {
        return Ok(pruned);
    }
    judge.begin(name.as_bstr(), &mut log.entries().rev().map(|entry| entry.time_seconds))?;
    // In files, git gives the first entry that is kept a null old value; in reftables that entry keeps its own.
    let mut chain = Chain::new(how, None);
    let mut goes = Vec::with_capacity(log.entries().len());
    for entry in log.entries().rev() {
        let gone = judge.goes(&change(log, entry))?;
        goes.push(gone);
        if gone {
            pruned.logs.push((entry.update_index, Fate::Gone));
            continue;
        }
        let old = chain.keep(entry.old, entry.new);
        if old != entry.old {
            pruned.logs.push((entry.update_index, Fate::Old(old)));
        }
    }
    if how.report {
        log.entries().rev().zip(&goes).for_each(|(entry, goes)| judge.told(&change(log, entry), *goes));
    }
    debug_assert_eq!(goes.len(), log.entries().len(), "each entry is judged once");
    let is_emptied = goes.iter().all(|gone| *gone) && !goes.is_empty();
    if is_emptied && log.markers().is_empty() {
        // The marker is the newest record, whatever its update index will be.
        pruned.logs.push((u64::MAX, Fate::Marker));
    }
    if let Some(end) = chain.end().filter(|_| how.update_ref)
        && matches!(snapshot.get(name.as_bstr()), Ok(Some(Target::Direct(now))) if now != end)
    {
        pruned.end = Some(end);
    }
    Ok(pruned)
}

fn change<'a>(log: &'a Log, entry: &Entry) -> LoggedChange<'a> {
    debug_assert!(!(entry.old.is_null() && entry.new.is_null()), "a marker is no entry");
    let message = log.message(entry);
    let message = message.strip_suffix(b"\n").unwrap_or(message).as_bstr();
    LoggedChange { old: entry.old, new: entry.new, time_seconds: entry.time_seconds, message }
}

/// The table that is being written.
struct Table<'w, 'a> {
    writer: &'w mut AdditionWriter<'a>,
    index: u64,
    /// The stack below the new table.
    merged: &'w Merged,
    hash: HashKind,
}

impl Table<'_, '_> {
    fn add<'n>(&mut self, part: &Part, inner: &dyn Fn(u32) -> &'n BStr) -> Result<()> {
        for (at, end, peeled) in &part.refs {
            let (name, value) = (inner(*at), ref_value(NewValue::Direct(*end, *peeled)));
            self.writer.add_ref(&RefRecord { name, update_index: self.index, value })?;
        }
        for (at, index, fate) in &part.logs {
            self.add_log(inner(*at), *index, *fate)?;
        }
        Ok(())
    }

    fn add_log(&mut self, name: &BStr, update_index: u64, fate: Fate) -> Result<()> {
        debug_assert!(update_index < self.index || matches!(fate, Fate::Marker), "what goes was there before");
        let null = ObjectId::null(self.hash);
        let (none, index) = (BStr::new(""), self.index);
        let marker = LogValue::Update {
            old: null,
            new: null,
            name: none,
            email: none,
            time_seconds: 0,
            tz_offset: 0,
            message: none,
        };
        let record = match fate {
            Fate::Gone => LogRecord { name, update_index, value: LogValue::Deletion },
            Fate::Marker => LogRecord { name, update_index: index, value: marker },
            Fate::Old(new_old) => {
                let mut cursor = self.merged.logs();
                cursor.seek_log(name, update_index)?;
                let found = cursor.next()?.filter(|found| found.name == name && found.update_index == update_index);
                let mut record = found.expect("a record that was read is there under the lock");
                if let LogValue::Update { old, .. } = &mut record.value {
                    *old = new_old;
                }
                return Ok(self.writer.add_log(&record)?);
            }
        };
        Ok(self.writer.add_log(&record)?)
    }
}
