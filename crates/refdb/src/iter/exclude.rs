use super::end_of;
use crate::{Cursor, RefView, Result, TargetView};
use bstr::{BStr, BString, ByteSlice};
use std::{fmt, ops::ControlFlow};

/// The refs whose names begin with none of some prefixes.
pub struct Excluding<C> {
    inner: C,
    gaps: Vec<Gap>,
    /// The name of the ref that was returned last. It is a copy, because a view that borrows from the inner cursor
    /// would prevent the cursor from moving on.
    name: BString,
    symbolic: BString,
}

impl<C> fmt::Debug for Excluding<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prefixes: Vec<&BString> = self.gaps.iter().map(|gap| &gap.prefix).collect();
        f.debug_struct("Excluding").field("prefixes", &prefixes).finish_non_exhaustive()
    }
}

/// An excluded prefix. The prefixes are sorted, and none begins with another.
struct Gap {
    prefix: BString,
    /// The first name after those with the prefix; `None` if there is none.
    end: Option<BString>,
}

impl<C: Cursor> Excluding<C> {
    /// Leaves out all names that begin with one of `prefixes`. To leave out a folder, pass its name with the slash:
    /// `refs/changes/`.
    pub fn new(inner: C, prefixes: impl IntoIterator<Item = BString>) -> Self {
        let mut prefixes: Vec<BString> = prefixes.into_iter().collect();
        prefixes.sort_unstable();
        prefixes.dedup_by(|later, earlier| later.starts_with(earlier));
        debug_assert!(
            prefixes.is_sorted_by(|a, b| a < b && !b.starts_with(a)),
            "excluded prefixes are sorted, none within another"
        );
        let gaps = prefixes.into_iter().map(|prefix| Gap { end: end_of(&prefix), prefix }).collect();
        Excluding { inner, gaps, name: BString::default(), symbolic: BString::default() }
    }
}

fn gap_of<'g>(gaps: &'g [Gap], name: &BStr) -> Option<&'g Gap> {
    let after = gaps.partition_point(|gap| gap.prefix.as_bstr() <= name);
    gaps[..after].last().filter(|gap| name.starts_with(&gap.prefix))
}

impl<C: Cursor> Cursor for Excluding<C> {
    fn seek(&mut self, name: &BStr) -> Result<()> {
        self.inner.seek(name)
    }

    fn next(&mut self) -> Result<Option<RefView<'_>>> {
        let (target, peeled) = loop {
            let Some(view) = self.inner.next()? else { return Ok(None) };
            let Some(gap) = gap_of(&self.gaps, view.name) else {
                self.name.clear();
                self.name.extend_from_slice(view.name);
                self.symbolic.clear();
                let id = match view.target {
                    TargetView::Direct(id) => Some(id),
                    TargetView::Symbolic(target) => {
                        self.symbolic.extend_from_slice(target);
                        None
                    }
                };
                break (id, view.peeled);
            };
            match &gap.end {
                None => return Ok(None),
                Some(end) => self.inner.seek(end.as_bstr())?,
            }
        };
        let target = target.map_or(TargetView::Symbolic(self.symbolic.as_bstr()), TargetView::Direct);
        Ok(Some(RefView { name: self.name.as_bstr(), target, peeled }))
    }

    fn for_each(&mut self, visit: &mut dyn FnMut(&RefView<'_>) -> ControlFlow<()>) -> Result<ControlFlow<()>> {
        let Excluding { inner, gaps, .. } = self;
        loop {
            let mut entered = None;
            let flow = inner.for_each(&mut |view| {
                entered = gap_of(gaps, view.name);
                if entered.is_some() { ControlFlow::Break(()) } else { visit(view) }
            })?;
            match entered.map(|gap| &gap.end) {
                None => return Ok(flow),
                Some(None) => return Ok(ControlFlow::Continue(())),
                Some(Some(end)) => inner.seek(end.as_bstr())?,
            }
        }
    }
}
