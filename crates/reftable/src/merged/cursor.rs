use super::Merged;
use crate::{
    Result,
    record::{Records, key::common_prefix},
    table::{Cursor, Seeker, Visit},
};
use std::ops::ControlFlow;

/// Steps and seeks through the records of one kind in a stack of tables.
pub(crate) struct MergedCursor<R: Records> {
    tables: Merged,
    /// A cursor for each table, oldest first; they are created when they are first needed.
    cursors: Vec<Seeker<R>>,
    /// The cursors that are on a record, sorted by key. Where keys are equal, the newest table comes first. The first
    /// cursor is on the current record. The others are on greater keys, because older records with the current key
    /// are skipped at once.
    order: Vec<usize>,
    /// The number of bytes that the keys of the first two cursors share.
    matched: usize,
    state: State,
    /// If set, there is no visible record from this key, inclusive, up to the current record or the end. Seeking to a
    /// key in that gap costs nothing, so a sorted batch of prefixes walks over any run of tombstones only once.
    floor: Vec<u8>,
    floor_is_set: bool,
    /// Whether tombstones were skipped in the gap that begins at `floor`.
    passed: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Before the first record.
    Start,
    /// On a record that has yet to be returned, if a seek has found one.
    Before,
    /// On a record that has been returned, or at the end.
    On,
}

impl<R: Records> MergedCursor<R> {
    pub(crate) fn new(tables: Merged) -> Self {
        MergedCursor {
            tables,
            cursors: Vec::new(),
            order: Vec::new(),
            matched: 0,
            state: State::Start,
            floor: Vec::new(),
            floor_is_set: false,
            passed: false,
        }
    }

    /// The stack that the cursor reads.
    pub(crate) fn tables(&self) -> &Merged {
        &self.tables
    }

    /// The cursor that is on the current record.
    #[inline]
    pub(crate) fn current(&self) -> Option<&Cursor<R>> {
        self.order.first().map(|first| &*self.cursors[*first])
    }

    /// Checks in each table that the cursor's key is less than the next key that is stored whole, for a walk that ends
    /// at the current record because of the record's key.
    pub(crate) fn check_ahead(&mut self) -> Result<()> {
        let checked = self.cursors.iter_mut().try_for_each(|cursor| cursor.check_ahead());
        if checked.is_err() {
            self.lose();
        }
        checked
    }

    /// Moves to the next record that is not a tombstone. Returns whether there is one.
    #[inline]
    pub(crate) fn next_visible(&mut self) -> Result<bool> {
        if self.state == State::On {
            // The record that is left behind is visible, so the gap does not reach across it.
            self.forget_floor();
        }
        loop {
            let found = self.step();
            if found.is_err() {
                self.lose();
            }
            if !found? || self.current().is_some_and(|cursor| !R::is_deletion(cursor.value())) {
                return Ok(!self.order.is_empty());
            }
            self.passed = true;
        }
    }

    /// Passes the following records to `visit`, without tombstones, until it breaks or there are no more.
    #[inline]
    pub(crate) fn for_each_visible(&mut self, mut visit: impl Visit<R>) -> Result<ControlFlow<()>> {
        while self.next_visible()? {
            // Once a single table is left, no other one can override its records.
            let (first, is_last) = (self.order[0], self.order.len() == 1);
            if is_last {
                self.forget_floor();
            }
            match self.cursors[first].for_each_visible(is_last, &mut visit) {
                Ok(ControlFlow::Continue(())) if is_last => self.order.clear(),
                Ok(ControlFlow::Continue(())) => {}
                Ok(ControlFlow::Break(())) => return Ok(ControlFlow::Break(())),
                Err(error) => {
                    self.lose();
                    return Err(error);
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Moves to the next record, which may be a tombstone. Returns whether there is one.
    pub(crate) fn next_any(&mut self) -> Result<bool> {
        if self.state == State::On {
            self.forget_floor();
        } else if self.passed {
            let wanted = std::mem::take(&mut self.floor);
            let sought = self.seek_all(&wanted);
            self.floor = wanted;
            if sought.is_err() {
                self.lose();
            }
            sought?;
        }
        let found = self.step();
        if found.is_err() {
            self.lose();
        }
        found
    }

    /// Moves to the end after an error, and forgets the gap, because a table that was dropped from the order must not
    /// seem to be empty.
    #[cold]
    fn lose(&mut self) {
        self.forget_floor();
        self.order.clear();
        self.state = State::On;
    }

    #[inline]
    fn step(&mut self) -> Result<bool> {
        match self.state {
            State::On => self.advance()?,
            State::Before => {}
            State::Start => {
                self.make_cursors();
                for cursor in &mut self.cursors {
                    cursor.step()?;
                }
                self.arrange()?;
            }
        }
        self.state = State::On;
        Ok(!self.order.is_empty())
    }

    /// Moves before the first record whose key is not less than `wanted`.
    pub(crate) fn seek(&mut self, wanted: &[u8]) -> Result<()> {
        let ahead = self.current().is_none_or(|cursor| cursor.key() >= wanted);
        // If the gap reaches back to `wanted`, the current record is already the wanted one.
        if self.state == State::Start || !ahead || !self.floor_is_set || self.floor.as_slice() > wanted {
            let sought = if ahead { self.seek_all(wanted) } else { self.seek_forward(wanted) };
            if sought.is_err() {
                self.lose();
            }
            sought?;
        }
        debug_assert!(self.current().is_none_or(|cursor| cursor.key() >= wanted), "a seek ends at the wanted key");
        self.state = State::Before;
        self.floor.clear();
        self.floor.extend_from_slice(wanted);
        self.floor_is_set = true;
        Ok(())
    }

    fn seek_all(&mut self, wanted: &[u8]) -> Result<()> {
        self.passed = false;
        self.make_cursors();
        for cursor in &mut self.cursors {
            cursor.seek(wanted)?;
        }
        self.arrange()?;
        self.state = State::Before;
        Ok(())
    }

    /// Moves only the cursors that are before `wanted`. The others are already on their first record from `wanted` on,
    /// because each has passed only keys up to that of the current record.
    fn seek_forward(&mut self, wanted: &[u8]) -> Result<()> {
        self.passed = false;
        while let Some(&first) = self.order.first().filter(|first| self.cursors[**first].key() < wanted) {
            let there = self.cursors[first].seek(wanted);
            self.reposition(0, there)?;
        }
        self.settle()
    }

    fn make_cursors(&mut self) {
        if self.cursors.is_empty() {
            self.cursors = self.tables.tables().iter().map(|table| Seeker::new(table.clone())).collect();
            self.order.reserve(self.cursors.len());
        }
    }

    /// Sorts all cursors.
    fn arrange(&mut self) -> Result<()> {
        self.order.clear();
        self.order.extend((0..self.cursors.len()).filter(|at| self.cursors[*at].is_on_record()));
        let cursors = &self.cursors;
        self.order.sort_unstable_by(|a, b| cursors[*a].key().cmp(cursors[*b].key()).then(b.cmp(a)));
        self.settle()
    }

    /// Moves the first cursor forward and restores the order.
    #[inline]
    fn advance(&mut self) -> Result<()> {
        let Some(&first) = self.order.first() else { return Ok(()) };
        let cursor = &mut self.cursors[first];
        let stepped = cursor.step();
        let Some(&second) = self.order.get(1) else {
            if !matches!(stepped, Ok(true)) {
                self.order.clear();
            }
            return stepped.map(drop);
        };
        if matches!(stepped, Ok(true)) {
            // The previous key was less than that of the second cursor, with which it shared `matched` bytes. A key
            // that shares more bytes with the previous key is less at the same byte, so that no comparison is needed.
            let cursor = &self.cursors[first];
            let shared = cursor.shared();
            if shared > self.matched {
                debug_assert!(cursor.key() < self.cursors[second].key(), "it is less at the byte that decided before");
                return Ok(());
            }
            let (key, other) = (&cursor.key()[shared..], &self.cursors[second].key()[shared..]);
            let more = common_prefix(key, other);
            if key[more..] < other[more..] {
                self.matched = shared + more;
                return Ok(());
            }
            if more == key.len() && more == other.len() && first > second {
                // Both tables have the same keys here, as when deleted refs have been created again.
                let stepped = self.cursors[second].step();
                self.reposition(1, stepped)?;
                return self.settle();
            }
        }
        self.reposition(0, stepped)?;
        self.settle()
    }

    /// Moves the cursor at place `at` of the order, which has moved forward, to its new place.
    fn reposition(&mut self, at: usize, moved: Result<bool>) -> Result<()> {
        if !matches!(moved, Ok(true)) {
            self.order.remove(at);
            return moved.map(drop);
        }
        if at + 1 == self.order.len() {
            return Ok(());
        }
        let this = self.order[at];
        let key = self.cursors[this].key();
        let before = |other: &usize| match self.cursors[*other].key().cmp(key) {
            std::cmp::Ordering::Equal => *other > this,
            order => order.is_lt(),
        };
        let places = self.order[at + 1..].partition_point(before);
        self.order[at..=at + places].rotate_left(1);
        Ok(())
    }

    /// Skips older records with the key of the first cursor, and notes the number of bytes that this key shares with
    /// the next key.
    fn settle(&mut self) -> Result<()> {
        while let [first, second, ..] = self.order[..] {
            let (key, other) = (self.cursors[first].key(), self.cursors[second].key());
            self.matched = common_prefix(key, other);
            let is_same = self.matched == key.len() && self.matched == other.len();
            if !is_same || refdb_vfs::planted("reftable-merged") {
                break;
            }
            let stepped = self.cursors[second].step();
            self.reposition(1, stepped)?;
        }
        debug_assert!(self.is_in_order(), "the first cursor has the least key, and the newest record of it");
        Ok(())
    }

    /// Returns whether the first key is less than all others, and whether these are sorted, with the newer table
    /// first where keys are equal.
    fn is_in_order(&self) -> bool {
        let key = |at: &usize| self.cursors[*at].key();
        let newer_first = |a: &usize, b: &usize| key(a) < key(b) || key(a) == key(b) && a > b;
        let is_least = |first: &usize, rest: &[usize]| rest.first().is_none_or(|second| key(first) < key(second));
        self.order.split_first().is_none_or(|(first, rest)| is_least(first, rest) && rest.is_sorted_by(newer_first))
    }

    #[inline]
    fn forget_floor(&mut self) {
        self.passed = false;
        self.floor_is_set = false;
    }
}
