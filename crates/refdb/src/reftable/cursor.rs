use super::{stacks::Place, state::ReftableSnapshot, values::view};
use crate::{Cursor, RefView, Result, TargetView, backend::Peeled};
use bstr::{BStr, BString, ByteSlice};
use refdb_types::{ObjectId, is_root_ref};
use reftable::MergedRefCursor;
use std::ops::ControlFlow;

/// A cursor over the root refs, if they are asked for, and then everything below `refs/`. It reads each part from the
/// stack that holds the part.
pub(super) struct ReftableCursor {
    common: MergedRefCursor,
    own: Option<MergedRefCursor>,
    /// The root refs, of which there are few, with their values as they are stored.
    roots: Vec<(BString, Root)>,
    roots_done: usize,
    parts: &'static [Part],
    part: usize,
    /// Whether the cursor of the current part is inside that part.
    entered: bool,
}

/// The value of a root ref. A symbolic one may lead to a name that no ref can have.
enum Root {
    Direct(ObjectId),
    Symbolic(BString),
}

/// A range of names that are all in one stack.
struct Part {
    is_own: bool,
    start: &'static [u8],
    /// The first name after the range.
    end: &'static [u8],
}

/// The parts in the main worktree, where all refs are in one stack. The end is `refs0` because `0` follows `/` in
/// ASCII.
const PLAIN: &[Part] = &[Part { is_own: false, start: PLAIN_START, end: b"refs0" }];
const PLAIN_START: &[u8] = b"refs/";

/// The parts in a linked worktree, which has some folders of its own (git-worktree(1), "REFS").
const LINKED: &[Part] = &[
    Part { is_own: false, start: b"refs/", end: b"refs/bisect/" },
    Part { is_own: true, start: b"refs/bisect/", end: b"refs/bisect0" },
    Part { is_own: false, start: b"refs/bisect0", end: b"refs/rewritten/" },
    Part { is_own: true, start: b"refs/rewritten/", end: b"refs/rewritten0" },
    Part { is_own: false, start: b"refs/rewritten0", end: b"refs/worktree/" },
    Part { is_own: true, start: b"refs/worktree/", end: b"refs/worktree0" },
    Part { is_own: false, start: b"refs/worktree0", end: b"refs0" },
];

impl ReftableCursor {
    pub(super) fn new(snapshot: &ReftableSnapshot, root_refs: bool) -> Result<Self> {
        let is_linked = snapshot.stacks().is_linked();
        let common = snapshot.merged(&Place::Common)?.refs();
        let own = if is_linked { Some(snapshot.merged(&Place::Own)?.refs()) } else { None };
        let parts = if is_linked { LINKED } else { PLAIN };
        debug_assert!(parts.windows(2).all(|pair| pair[0].end == pair[1].start), "no name falls between two parts");
        debug_assert!(is_linked || parts.len() == 1, "without a stack of its own there is one part");
        let mut cursor =
            ReftableCursor { common, own, roots: Vec::new(), roots_done: 0, parts, part: 0, entered: false };
        if root_refs {
            cursor.read_roots()?;
        }
        Ok(cursor)
    }

    fn read_roots(&mut self) -> Result<()> {
        let cursor = self.own.as_mut().unwrap_or(&mut self.common);
        while let Some(record) = cursor.next()?
            && record.name < b"refs/".as_bstr()
        {
            if is_root_ref(record.name) {
                let Some(view) = view(&record) else { continue };
                let value = match view.target {
                    TargetView::Direct(id) => Root::Direct(id),
                    TargetView::Symbolic(target) => Root::Symbolic(target.to_owned()),
                };
                self.roots.push((record.name.to_owned(), value));
            }
        }
        debug_assert!(self.roots.is_sorted_by(|a, b| a.0 < b.0), "root refs are sought by halves");
        Ok(())
    }

    fn cursor(&mut self) -> &mut MergedRefCursor {
        debug_assert!(self.own.is_some() || !self.parts[self.part].is_own, "a part of its own has a stack of its own");
        match &mut self.own {
            Some(own) if self.parts[self.part].is_own => own,
            _ => &mut self.common,
        }
    }

    /// Returns whether the rest of the walk is in a single part, and the cursor is inside it. Always `false` in a
    /// linked worktree, which has several parts.
    #[inline]
    fn has_one_part_left(&self) -> bool {
        self.own.is_none() && self.entered && self.roots_done == self.roots.len()
    }

    /// Moves to the next record, in the current part or a later one. Returns whether there is one.
    fn advance(&mut self) -> Result<bool> {
        while let Some(part) = self.parts.get(self.part) {
            let must_enter = !std::mem::replace(&mut self.entered, true);
            let cursor = self.cursor();
            if must_enter {
                cursor.seek(part.start)?;
            }
            if let Some(record) = cursor.next()?
                && record.name < part.end.as_bstr()
            {
                debug_assert!(
                    record.name >= part.start.as_bstr(),
                    "the cursor was sought to its part: {}",
                    record.name
                );
                return Ok(true);
            }
            self.part += 1;
            self.entered = false;
        }
        Ok(false)
    }
}

impl Cursor for ReftableCursor {
    fn seek(&mut self, name: &BStr) -> Result<()> {
        self.roots_done = self.roots.partition_point(|(root, _)| root.as_bstr() < name);
        self.part = self.parts.partition_point(|part| part.end.as_bstr() <= name);
        self.entered = false;
        debug_assert!(self.roots[..self.roots_done].iter().all(|(root, _)| root.as_bstr() < name), "none is left out");
        if let Some(part) = self.parts.get(self.part)
            && part.start.as_bstr() <= name
        {
            self.entered = true;
            self.cursor().seek(name)?;
        }
        Ok(())
    }

    #[inline]
    fn next(&mut self) -> Result<Option<RefView<'_>>> {
        if self.roots_done < self.roots.len() {
            let (name, value) = &self.roots[self.roots_done];
            self.roots_done += 1;
            let target = match value {
                Root::Direct(id) => TargetView::Direct(*id),
                Root::Symbolic(target) => TargetView::Symbolic(target.as_bstr()),
            };
            return Ok(Some(RefView { name: name.as_bstr(), target, peeled: Peeled::Unknown }));
        }
        if self.has_one_part_left() {
            let record = self.common.next()?;
            return Ok(record.filter(|record| record.name.starts_with(PLAIN_START)).as_ref().and_then(view));
        }
        if !self.advance()? {
            return Ok(None);
        }
        Ok(self.cursor().current().as_ref().and_then(view))
    }

    fn for_each(&mut self, visit: &mut dyn FnMut(&RefView<'_>) -> ControlFlow<()>) -> Result<ControlFlow<()>> {
        while !self.has_one_part_left() {
            match self.next()? {
                None => return Ok(ControlFlow::Continue(())),
                Some(view) if visit(&view).is_break() => {
                    self.cursor().check_ahead()?;
                    return Ok(ControlFlow::Break(()));
                }
                Some(_) => {}
            }
        }
        let mut is_past_end = false;
        let flow = self.common.for_each(|entry| {
            let name = entry.name();
            if !name.starts_with(PLAIN_START) {
                is_past_end = true;
                return ControlFlow::Break(());
            }
            match entry.direct() {
                // This is what `view` would return, without decoding the whole record.
                Some(id) => visit(&RefView { name, target: TargetView::Direct(id), peeled: Peeled::NotTag }),
                None => view(&entry.record()).as_ref().map_or(ControlFlow::Continue(()), &mut *visit),
            }
        })?;
        if flow.is_break() {
            self.common.check_ahead()?;
        }
        Ok(if is_past_end { ControlFlow::Continue(()) } else { flow })
    }
}
