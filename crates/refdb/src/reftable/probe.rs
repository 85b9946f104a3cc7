//! Answers many probes in one walk over each stack.

use super::{stacks::Place, state::ReftableSnapshot, values::view};
use crate::{Probe, Result, backend::Answers};
use bstr::{BStr, BString, ByteSlice};
use reftable::{Merged, MergedRefCursor};
use std::collections::BTreeMap;

/// Answers probes that are sorted by name.
///
/// `FETCH_HEAD` and `MERGE_HEAD` are looked up in the stack, since a write through a symbolic ref to one of them
/// makes a record. The files of those names are not read, because no transaction writes them.
pub(super) fn probe(
    snapshot: &ReftableSnapshot,
    probes: &mut dyn Iterator<Item = Probe<'_>>,
    answers: &mut dyn Answers,
) -> Result<()> {
    let mut common = Walk::new(snapshot.merged(&Place::Common)?, BStr::new(""));
    // Names ascend only among those that have the same qualifier, such as `main-worktree/`.
    let mut others: BTreeMap<(Place, usize), Walk> = BTreeMap::new();
    for (at, probe) in probes.enumerate() {
        let (place, name) = snapshot.stacks().route(probe.name);
        let (qualifier, _) = probe.name.split_at(probe.name.len() - name.len());
        let walk = match place {
            Place::Common if qualifier.is_empty() => &mut common,
            place => match others.entry((place, qualifier.len())) {
                std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
                std::collections::btree_map::Entry::Vacant(entry) => {
                    let merged = snapshot.merged(&entry.key().0)?;
                    entry.insert(Walk::new(merged, qualifier.as_bstr()))
                }
            },
        };
        walk.answer(at, name, probe.below, answers)?;
    }
    common.finish(answers)?;
    others.into_values().try_for_each(|walk| walk.finish(answers))
}

/// A walk through one stack, which never goes back: a probe that asks for refs below a name waits until the walk
/// reaches them.
struct Walk {
    cursor: MergedRefCursor,
    /// What precedes the names of the stack in the names that are asked for, such as `main-worktree/`.
    qualifier: BString,
    /// The prefixes (`NAME/`) below which probes ask for refs, each with the position of its probe. Each sorts before
    /// the one that was added before it, as `a-b/` sorts before `a/`, so that the walk reaches the last prefix first.
    waiting: Vec<(Vec<u8>, usize)>,
    spare: Vec<Vec<u8>>,
}

impl Walk {
    fn new(merged: Merged, qualifier: &BStr) -> Self {
        Walk { cursor: merged.refs(), qualifier: qualifier.to_owned(), waiting: Vec::new(), spare: Vec::new() }
    }

    fn answer(&mut self, at: usize, name: &BStr, below: bool, answers: &mut dyn Answers) -> Result<()> {
        while let Some((prefix, _)) = self.waiting.last()
            && prefix.as_bstr() <= name
        {
            self.look_below(answers)?;
        }
        let record = self.cursor.lookup(name)?;
        answers.value(at, record.as_ref().and_then(view).map(|view| view.target))?;
        if below && self.cursor.may_have_below(name)? {
            let mut prefix = self.spare.pop().unwrap_or_default();
            prefix.clear();
            prefix.extend_from_slice(name);
            prefix.push(b'/');
            let outer = self.waiting.last().and_then(|(outer, _)| outer.strip_suffix(b"/"));
            debug_assert!(
                outer.is_none_or(|outer| prefix.starts_with(outer)),
                "what waits is nested, the smallest last"
            );
            self.waiting.push((prefix, at));
        }
        Ok(())
    }

    /// Answers the last of the waiting probes. The walk stops at the first record without the prefix, even if it is a
    /// tombstone, so that a single new ref does not walk past a hundred thousand tombstones beside it.
    fn look_below(&mut self, answers: &mut dyn Answers) -> Result<()> {
        let Some((prefix, at)) = self.waiting.pop() else { return Ok(()) };
        self.cursor.seek(&prefix)?;
        while let Some(record) = self.cursor.next_with_tombstones()?
            && record.name.starts_with(&prefix)
        {
            if !record.is_deletion() {
                if self.qualifier.is_empty() {
                    answers.below(at, record.name)?;
                } else {
                    answers.below(at, [self.qualifier.as_bytes(), record.name].concat().as_bstr())?;
                }
                break;
            }
        }
        self.spare.push(prefix);
        Ok(())
    }

    fn finish(mut self, answers: &mut dyn Answers) -> Result<()> {
        while !self.waiting.is_empty() {
            self.look_below(answers)?;
        }
        Ok(())
    }
}
