use super::{
    estimate::expected_bytes,
    stacks::{Place, Stacks},
    state::ReftableSnapshot,
};
use crate::{
    Error, Limit, Locked, Misuse, RejectionReason, Result, Snapshot, TargetView,
    backend::{ClaimKind, Claims, LogLine, NewValue, Step, Steps},
    own_locks::refuse_own,
};
use bstr::{BStr, BString, ByteSlice};
use refdb_vfs::{LockError, LockTimeout};
use reftable::{
    LogRecord, LogValue, Merged, RefRecord, RefValue,
    stack::{Addition, AdditionWriter, Compaction, StackError},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::PathBuf,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

/// How long a writer that has locked one stack waits for the lock of the next stack before it releases its locks and
/// starts over, and the longest pause before such a new start.
const NEXT_LOCK: Duration = Duration::from_millis(100);

/// The locked stacks of the claimed refs. A stack has one lock for all its refs.
pub struct ReftableLocked {
    pub(super) stacks: Arc<Stacks>,
    pub(super) snapshot: ReftableSnapshot,
    pub(super) additions: BTreeMap<Place, Addition>,
    /// The claims that are refused, by position.
    refused: Vec<(usize, RejectionReason)>,
}

impl ReftableLocked {
    /// Stages these steps in place of those staged before. A group commit uses this to leave out a transaction at the
    /// last moment.
    pub fn restage(&mut self, steps: &dyn Steps) -> Result<()> {
        self.additions.values_mut().for_each(Addition::clear);
        self.stage(steps)
    }

    pub(super) fn lock(stacks: &Arc<Stacks>, claims: &dyn Claims) -> Result<Self> {
        stacks.check_storage()?;
        let Survey { places, too_long } = Survey::of(stacks, claims);
        // The stack of a removed worktree needs no lock if no ref is to be set there, so that a symbolic ref that leads
        // there can still be deleted.
        let is_needed = |(place, writes): &(Place, bool)| *writes || !stacks.is_gone(place);
        let places: BTreeSet<Place> = places.into_iter().filter(is_needed).map(|(place, _)| place).collect();
        refuse_own(&stacks.options.fs, places.iter().map(|place| stacks.folder(place)))?;
        let since = Instant::now();
        let mut pause = Duration::from_millis(1);
        loop {
            // If the refs have been migrated away, the folders are gone, and the migration is the better error to
            // report.
            let locked = lock_all(stacks, &places, claims.joins());
            stacks.options.check_format()?;
            match locked? {
                Attempt::Locked(additions) => {
                    assert!(additions.keys().eq(&places), "every stack that is written to is locked: {places:?}");
                    let merged = additions.iter().map(|(place, added)| (place.clone(), under(added))).collect();
                    let snapshot = ReftableSnapshot::with(stacks, merged)?;
                    return Ok(ReftableLocked { stacks: Arc::clone(stacks), snapshot, additions, refused: too_long });
                }
                Attempt::Busy(held) if stacks.options.lock_timeout().is_over(since.elapsed()) => {
                    return Err(Error::StackLocked(held));
                }
                Attempt::Busy(_) => {
                    refuse_twins(stacks, &places)?;
                    thread::sleep(pause);
                    pause = (pause * 2).min(NEXT_LOCK);
                }
            }
        }
    }
}

impl fmt::Debug for ReftableLocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReftableLocked").field("stacks", &self.stacks()).finish_non_exhaustive()
    }
}

/// What must be known about the claims before anything is locked.
struct Survey {
    /// The stacks of the claims, and whether a ref is to be set there. A deletion does not count.
    places: BTreeMap<Place, bool>,
    /// The claims, by position, that would set a ref whose name is too long for a record of a table's index. Deletions
    /// are allowed.
    too_long: Vec<(usize, RejectionReason)>,
}

impl Survey {
    fn of(stacks: &Stacks, claims: &dyn Claims) -> Self {
        let name_max = stacks.options.stack.write.name_max();
        let mut survey = Survey { places: BTreeMap::new(), too_long: Vec::new() };
        let mut last: Option<(Place, bool)> = None;
        for (at, claim) in claims.iter().enumerate() {
            let (place, name) = stacks.route(claim.name);
            let writes = matches!(claim.kind, ClaimKind::SetDirect | ClaimKind::SetSymbolic);
            if writes && name.len() > name_max {
                survey.too_long.push((at, RejectionReason::TooLarge));
            }
            if !last.as_ref().is_some_and(|(known, known_writes)| *known == place && *known_writes >= writes) {
                *survey.places.entry(place.clone()).or_default() |= writes;
                last = Some((place, writes));
            }
        }
        survey
    }
}

/// Returns the claims, by position, that would set a ref whose name is too long for a record of a table's index.
pub(super) fn too_long(stacks: &Stacks, claims: &dyn Claims) -> Vec<(usize, RejectionReason)> {
    Survey::of(stacks, claims).too_long
}

/// Refuses stacks of different names that lead to the same folder, because the lock of the second would never be free.
fn refuse_twins(stacks: &Stacks, places: &BTreeSet<Place>) -> Result<()> {
    let mut seen = BTreeMap::new();
    for folder in places.iter().map(|place| stacks.folder(place)) {
        let Ok(stat) = stacks.options.fs.stat(&folder) else { continue };
        if let Some(twin) = seen.insert(stat.file_id(), folder.clone()) {
            return Err(Misuse::OneFolder { one: twin, other: folder }.into());
        }
    }
    Ok(())
}

impl Locked for ReftableLocked {
    fn snapshot(&self) -> &dyn Snapshot {
        &self.snapshot
    }

    /// A stack is locked as a whole or not at all, so the only claims that are refused are names too long to be
    /// written.
    fn refused(&self) -> &[(usize, RejectionReason)] {
        &self.refused
    }

    fn stacks(&self) -> Vec<PathBuf> {
        self.additions.keys().map(|place| self.stacks.folder(place)).collect()
    }

    fn stage(&mut self, steps: &dyn Steps) -> Result<()> {
        let stacks = Arc::clone(&self.stacks);
        let write = stacks.options.stack.write;
        let (id_len, message_max) = (write.hash.len_bytes(), write.log_message_max());
        let mut parts: BTreeMap<Place, Part> = BTreeMap::new();
        // Neighbouring steps are mostly in the same stack.
        let mut current = (Place::Common, Part::default());
        for at in 0..steps.count() {
            let given = steps.name(at);
            let (place, name) = stacks.route(given);
            if place != current.0 {
                let part = parts.remove(&place).unwrap_or_default();
                let (place, part) = std::mem::replace(&mut current, (place, part));
                parts.insert(place, part);
            }
            current.1.is_renamed |= name.len() != given.len();
            current.1.steps.push(at as u32);
        }
        parts.insert(current.0, current.1);
        let staged: usize = parts.values().map(|part| part.steps.len()).sum();
        assert_eq!(staged, steps.count(), "each step goes into one stack");
        parts.retain(|_, part| !part.steps.is_empty());
        for (place, mut part) in parts {
            let Some(addition) = self.additions.get_mut(&place) else {
                // The stack was not locked because its worktree was gone.
                let folder = stacks.folder(&place);
                stacks.options.fs.stat(&folder)?;
                return Err(Limit::Meanwhile(folder).into());
            };
            let is_renamed = part.is_renamed;
            let inner = |given| if is_renamed { stacks.route(given).1 } else { given };
            let name = |at: u32| inner(steps.name(at as usize));
            if is_renamed {
                part.steps.sort_by(|a, b| name(*a).cmp(name(*b)));
            }
            debug_assert!(
                part.steps.is_sorted_by(|a, b| name(*a) < name(*b)),
                "a stack's steps are sorted by the names in it, and no ref has two"
            );
            let existing = under(addition);
            let (mut taken, mut most_numbers) = (Vec::new(), 0);
            for &at in &part.steps {
                let Some(source) = steps.log_source(at as usize) else { continue };
                let (from, source) = stacks.route(source);
                let log = TakenLog { merged: self.snapshot.merged(&from)?, source, is_numbered_anew: from != place };
                if log.is_numbered_anew {
                    most_numbers = most_numbers.max(log.count()?);
                }
                taken.push((at, log));
            }
            let first = addition.next_update_index();
            let index = first.saturating_add(most_numbers);
            let last = index.saturating_add(u64::from(steps.members().saturating_sub(1)));
            let expected_bytes = expected_bytes(part.steps.len(), id_len, |at| {
                let step = steps.step(part.steps[at] as usize);
                (inner(step.name), step.new)
            });
            addition.add_table(first..=last, expected_bytes, |writer| {
                let mut table = Table { writer, index, existing: &existing, message_max };
                let mut logged = Vec::new();
                for &at in &part.steps {
                    let step = steps.step(at as usize);
                    debug_assert!(steps.member(at as usize) < steps.members(), "a step is that of a member");
                    table.index = index.saturating_add(u64::from(steps.member(at as usize))).min(last);
                    table.add_ref(inner(step.name), &step)?;
                    if step.log.is_some() || hides_logs(&step) || taken.iter().any(|(taker, ..)| *taker == at) {
                        logged.push(at);
                    }
                }
                for &at in &logged {
                    table.index = index.saturating_add(u64::from(steps.member(at as usize))).min(last);
                    table.add_logs(name(at), &steps.step(at as usize))?;
                    if let Some((_, log)) = taken.iter().find(|(taker, _)| *taker == at) {
                        table.take_logs(name(at), log)?;
                    }
                }
                Ok::<_, Error>(())
            })?;
        }
        Ok(())
    }

    fn commit(self: Box<Self>, _: &dyn Steps) -> Result<()> {
        commit_all(&self.stacks, self.additions)
    }
}

/// Commits the changes of one stack after the other, and then makes the compactions that are due.
pub(super) fn commit_all(stacks: &Stacks, additions: BTreeMap<Place, Addition>) -> Result<()> {
    let mut due: Vec<Compaction> = Vec::new();
    let mut not_durable = None;
    for addition in additions.into_values() {
        match addition.commit() {
            Ok(committed) => due.extend(committed.compaction),
            // The change is made. Without those of the other stacks the transaction would be made in part.
            Err(error @ StackError::NotDurable(_)) => not_durable = not_durable.or(Some(error)),
            Err(error) => return Err(error.into()),
        }
    }
    // The locks are released before the compactions, so that no writer waits for a compaction. If a compaction fails,
    // the refs or logs have changed nevertheless.
    for compaction in due {
        let _ = compaction.run(stacks.options.lock_timeout());
    }
    not_durable.map_or(Ok(()), |error| Err(error.into()))
}

/// A reflog that a ref takes over from another ref.
struct TakenLog<'s> {
    /// The stack of the other ref.
    merged: Merged,
    /// The name of the other ref in that stack.
    source: &'s BStr,
    /// Whether the entries get new update indexes, because theirs are those of another stack.
    is_numbered_anew: bool,
}

impl TakenLog<'_> {
    fn count(&self) -> Result<u64> {
        let (mut cursor, mut count) = (self.merged.logs(), 0);
        cursor.seek_log(self.source, u64::MAX)?;
        while cursor.next()?.is_some_and(|record| record.name == self.source) {
            count += 1;
        }
        Ok(count)
    }
}

/// The steps of one stack.
#[derive(Default)]
struct Part {
    /// The positions of the steps, sorted by name.
    steps: Vec<u32>,
    /// Whether some refs have other names in the stack, as `main-worktree/HEAD` has, which can sort differently.
    is_renamed: bool,
}

/// The table that is being written.
struct Table<'w, 'a> {
    writer: &'w mut AdditionWriter<'a>,
    index: u64,
    /// The stack below the new table.
    existing: &'w Merged,
    message_max: usize,
}

impl Table<'_, '_> {
    fn add_ref(&mut self, name: &BStr, step: &Step<'_>) -> Result<()> {
        let Some(new) = step.new else { return Ok(()) };
        debug_assert_eq!(step.name[step.name.len() - name.len()..], **name, "a ref's name in its stack ends its name");
        self.writer.add_ref(&RefRecord { name, update_index: self.index, value: ref_value(new) })?;
        Ok(())
    }

    /// Adds the reflog entry of a step, and hides the existing entries if they are deleted with the ref.
    fn add_logs(&mut self, name: &BStr, step: &Step<'_>) -> Result<()> {
        if let Some(line) = step.log {
            self.add_line(name, &line)?;
        }
        if hides_logs(step) {
            let mut cursor = self.existing.logs();
            cursor.seek_log(name, u64::MAX)?;
            while let Some(record) = cursor.next()?
                && record.name == name
            {
                let update_index = record.update_index;
                self.writer.add_log(&LogRecord { name, update_index, value: LogValue::Deletion })?;
            }
        }
        Ok(())
    }

    /// Adds the entries of another ref's reflog, which are older than those of this transaction, and hides the entries
    /// of an earlier ref of this name.
    fn take_logs(&mut self, name: &BStr, log: &TakenLog<'_>) -> Result<()> {
        debug_assert!(log.is_numbered_anew || name != log.source, "a ref takes no log of its own");
        let mut stale = Vec::new();
        let mut cursor = self.existing.logs();
        cursor.seek_log(name, u64::MAX)?;
        while let Some(record) = cursor.next()?
            && record.name == name
        {
            stale.push(record.update_index);
        }
        let mut stale = stale.into_iter().peekable();
        let mut cursor = log.merged.logs();
        cursor.seek_log(log.source, u64::MAX)?;
        let mut number = self.index;
        while let Some(record) = cursor.next()?
            && record.name == log.source
        {
            number = if log.is_numbered_anew { number.saturating_sub(1) } else { record.update_index };
            debug_assert!(number < self.index, "an entry that is taken over is older than the rename");
            while let Some(update_index) = stale.next_if(|index| *index >= number) {
                if update_index > number {
                    self.writer.add_log(&LogRecord { name, update_index, value: LogValue::Deletion })?;
                }
            }
            self.writer.add_log(&LogRecord { name, update_index: number, value: record.value })?;
        }
        for update_index in stale {
            self.writer.add_log(&LogRecord { name, update_index, value: LogValue::Deletion })?;
        }
        Ok(())
    }

    fn add_line(&mut self, name: &BStr, line: &LogLine<'_>) -> Result<()> {
        self.writer.check_name(name)?;
        let message = stored_message(line.message, self.message_max);
        self.writer.add_log(&LogRecord {
            name,
            update_index: self.index,
            value: log_value(line, message.as_bstr()),
        })?;
        Ok(())
    }
}

/// Refuses steps whose records C git could not write into a table.
pub(super) fn check_sizes(stacks: &Stacks, steps: &dyn Steps) -> Result<()> {
    let write = &stacks.options.stack.write;
    let has_refs = steps.iter().any(|step| step.new.is_some());
    for step in steps.iter() {
        let (_, name) = stacks.route(step.name);
        if let Some(new) = step.new {
            write.check_ref(&RefRecord { name, update_index: 0, value: ref_value(new) })?;
        }
        if let Some(line) = &step.log {
            let message = stored_message(line.message, write.log_message_max());
            let value = log_value(line, message.as_bstr());
            write.check_name(name)?;
            write.check_log(&LogRecord { name, update_index: 0, value }, has_refs)?;
        }
    }
    Ok(())
}

/// Returns a message as git stores it: cut to `len_max` bytes, even in the middle of a character, and ending with a
/// newline.
fn stored_message(message: &BStr, len_max: usize) -> BString {
    BString::from([&message.as_bytes()[..message.len().min(len_max)], b"\n"].concat())
}

pub(super) fn ref_value(new: NewValue<'_>) -> RefValue<'_> {
    match new {
        NewValue::Deleted => RefValue::Deletion,
        NewValue::Direct(target, Some(peeled)) => RefValue::Peeled { target, peeled },
        NewValue::Direct(id, None) => RefValue::Direct(id),
        NewValue::Symbolic(target) => RefValue::Symbolic(target),
    }
}

fn log_value<'a>(line: &LogLine<'a>, message: &'a BStr) -> LogValue<'a> {
    LogValue::Update {
        old: line.old,
        new: line.new,
        name: line.committer.name.as_bstr(),
        email: line.committer.email.as_bstr(),
        time_seconds: line.committer.time_seconds,
        tz_offset: line.committer.offset_decimal,
        message,
    }
}

/// Returns whether a step deletes the reflog with the ref. In reftables git keeps the reflog of a symbolic ref, unlike
/// in files.
fn hides_logs(step: &Step<'_>) -> bool {
    step.new == Some(NewValue::Deleted) && !matches!(step.old, Some(TargetView::Symbolic(_)))
}

/// The content of a stack under its lock.
fn under(addition: &Addition) -> Merged {
    addition.snapshot().merged().clone()
}

/// The outcome of one attempt to lock several stacks.
enum Attempt {
    /// All of them are locked.
    Locked(BTreeMap<Place, Addition>),
    /// Another writer holds the lock of a stack other than the first, so that all locks were released.
    Busy(LockError),
}

/// Locks all of these stacks, the common one first, or none. Waits for the first lock as long as the settings say, but
/// only briefly for the others, because a writer that waits while it holds a lock makes others wait in turn.
fn lock_all(stacks: &Stacks, places: &BTreeSet<Place>, joins: bool) -> Result<Attempt> {
    let mut additions = BTreeMap::new();
    for place in places {
        debug_assert!(
            additions.last_key_value().is_none_or(|(last, _)| last < place),
            "locks have one order: {place:?}"
        );
        let lock_timeout =
            if additions.is_empty() { stacks.options.lock_timeout() } else { LockTimeout::For(NEXT_LOCK) };
        let stack = stacks.stack(place)?;
        // A writer that joins another process holds up that process, which has the lock, so a writer that needs a
        // second lock does not join.
        let addition = if joins && places.len() == 1 { stack.join(lock_timeout) } else { stack.lock(lock_timeout) };
        match addition {
            Ok(addition) => {
                additions.insert(place.clone(), addition);
            }
            Err(StackError::Lock(held @ LockError::Held { .. })) if !additions.is_empty() => {
                return Ok(Attempt::Busy(held));
            }
            Err(StackError::Lock(LockError::Io(error))) if error.is_signal() => return Err(error.into()),
            Err(StackError::Lock(held)) => return Err(Error::StackLocked(held)),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Attempt::Locked(additions))
}
