//! Listings: which names (a [`Plan`] of ranges), from where (a [`Source`]), one [`Row`] after the other.

use crate::{Result, Storage};
use bstr::{BStr, BString, ByteSlice};
use refdb::{TargetView, backend::Peeled};
use refdb_types::is_root_ref;
use reftable::{MergedRefCursor, RefRecord, RefValue};

/// What to list.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ListOptions {
    /// Names that begin with one of these; none for all names. For a folder give its slash: `refs/heads/`.
    pub prefixes: Vec<BString>,
    /// But not with one of these.
    pub exclude: Vec<BString>,
    /// Whether root refs (`HEAD`, `ORIG_HEAD`) are listed too.
    pub root_refs: bool,
}

/// A ref in a listing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Row<'a> {
    /// Its full name.
    pub name: &'a BStr,
    /// What it holds.
    pub target: TargetView<'a>,
    /// What the store knows of the object behind an annotated tag.
    pub peeled: Peeled,
    /// Where it is kept.
    pub storage: Storage,
    /// The update index of the transaction that wrote it; 0 where the format has none.
    pub update_index: u64,
}

/// Names from `start` on, up to but without `end`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Range {
    pub(crate) start: BString,
    pub(crate) end: Option<BString>,
}

/// Which names a listing has: sorted ranges, none of which overlap.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Plan {
    pub(crate) ranges: Vec<Range>,
    pub(crate) root_refs: bool,
}

const REFS: &[u8] = b"refs/";

impl Plan {
    pub(crate) fn of(options: &ListOptions) -> Self {
        let mut prefixes: Vec<&BStr> = options.prefixes.iter().map(|prefix| prefix.as_bstr()).collect();
        if prefixes.is_empty() {
            prefixes.push(BStr::new(""));
        }
        let outermost = |mut prefixes: Vec<&BStr>| -> Vec<BString> {
            prefixes.sort_unstable();
            prefixes.dedup_by(|later, earlier| later.starts_with(earlier));
            prefixes.into_iter().map(ToOwned::to_owned).collect()
        };
        let gaps = outermost(options.exclude.iter().map(|prefix| prefix.as_bstr()).collect());
        let mut ranges = Vec::new();
        for prefix in outermost(prefixes) {
            let mut start = Some(prefix.clone());
            for gap in &gaps {
                if prefix.starts_with(gap) {
                    start = None;
                    break;
                }
                if gap.starts_with(&prefix)
                    && let Some(from) = start.take()
                {
                    if from < *gap {
                        ranges.push(Range { start: from, end: Some(gap.clone()) });
                    }
                    start = end_of(gap);
                    if start.is_none() {
                        break;
                    }
                }
            }
            if let Some(start) = start {
                let end = end_of(&prefix);
                if end.as_ref().is_none_or(|end| start < *end) {
                    ranges.push(Range { start, end });
                }
            }
        }
        Plan { ranges, root_refs: options.root_refs }
    }

    /// Whether a name in one of the ranges belongs to a listing: not everything in a repository is a ref.
    #[inline]
    pub(crate) fn takes(&self, name: &BStr) -> bool {
        name.starts_with(REFS) || self.root_refs && is_root_ref(name)
    }
}

/// The first name that does not begin with `prefix` and sorts after those that do; `None` if there is none.
fn end_of(prefix: &[u8]) -> Option<BString> {
    let last = prefix.iter().rposition(|byte| *byte != 0xff)?;
    let mut end = BString::from(&prefix[..=last]);
    end[last] += 1;
    Some(end)
}

/// Where rows come from.
pub(crate) enum Source {
    Tables(Box<MergedRefCursor>),
    Rows(OwnRows),
}

/// Rows that were collected.
#[derive(Default)]
pub(crate) struct OwnRows {
    rows: Vec<OwnRow>,
    /// How many of them are done.
    done: usize,
}

/// A row with memory of its own.
pub(crate) struct OwnRow {
    pub(crate) name: BString,
    pub(crate) target: refdb::Target,
    pub(crate) peeled: Peeled,
    pub(crate) storage: Storage,
}

impl OwnRows {
    pub(crate) fn new(rows: Vec<OwnRow>) -> Self {
        OwnRows { rows, done: 0 }
    }
}

impl Source {
    fn seek(&mut self, name: &BStr) -> Result<()> {
        match self {
            Source::Tables(cursor) => cursor.seek(name)?,
            Source::Rows(rows) => rows.done = rows.rows.partition_point(|row| row.name.as_bstr() < name),
        }
        Ok(())
    }

    /// Moves to the next row and gives its name.
    fn advance(&mut self) -> Result<Option<&BStr>> {
        match self {
            Source::Tables(cursor) => Ok(cursor.next()?.map(|record| record.name)),
            Source::Rows(rows) => {
                rows.done += 1;
                Ok(rows.rows.get(rows.done - 1).map(|row| row.name.as_bstr()))
            }
        }
    }

    /// The row that `advance` moved to.
    fn current(&self) -> Result<Option<Row<'_>>> {
        match self {
            Source::Tables(cursor) => Ok(cursor.current()?.and_then(row)),
            Source::Rows(rows) => Ok(rows.rows.get(rows.done.wrapping_sub(1)).map(OwnRow::row)),
        }
    }
}

impl OwnRow {
    fn row(&self) -> Row<'_> {
        Row {
            name: self.name.as_bstr(),
            target: TargetView::from(&self.target),
            peeled: self.peeled,
            storage: self.storage,
            update_index: 0,
        }
    }
}

fn row(record: RefRecord<'_>) -> Option<Row<'_>> {
    let (target, peeled) = match record.value {
        RefValue::Direct(id) => (TargetView::Direct(id), Peeled::NotTag),
        RefValue::Peeled { target, peeled } => (TargetView::Direct(target), Peeled::To(peeled)),
        RefValue::Symbolic(target) => (TargetView::Symbolic(target), Peeled::NotTag),
        RefValue::Deletion => return None,
    };
    let (name, update_index) = (record.name, record.update_index);
    Some(Row { name, target, peeled, storage: Storage::Table, update_index })
}

/// The refs of a view that were asked for, in order of name, as they were when the listing was made. With files that is
/// not one point in time across names.
pub struct Listing {
    plan: Plan,
    /// The range we are in, and whether the source stands in it already.
    at: usize,
    entered: bool,
    source: Source,
    is_doubtful: bool,
}

impl Listing {
    pub(crate) fn new(plan: Plan, source: Source, is_doubtful: bool) -> Self {
        Listing { plan, at: 0, entered: false, source, is_doubtful }
    }

    /// Whether it is right only if the repository is still the same.
    pub(crate) fn is_doubtful(&self) -> bool {
        self.is_doubtful
    }

    /// The next ref; `None` at the end. A ref whose content cannot be read is an error the first time and is passed over
    /// by the next call.
    #[expect(clippy::should_implement_trait, reason = "the row borrows from the listing")]
    pub fn next(&mut self) -> Result<Option<Row<'_>>> {
        if self.advance()? { self.source.current() } else { Ok(None) }
    }

    fn advance(&mut self) -> Result<bool> {
        while let Some(range) = self.plan.ranges.get(self.at) {
            if !std::mem::replace(&mut self.entered, true) {
                self.source.seek(range.start.as_bstr())?;
            }
            let Some(name) = self.source.advance()? else {
                self.at = self.plan.ranges.len();
                return Ok(false);
            };
            if range.end.as_ref().is_some_and(|end| name >= end.as_bstr()) {
                self.at += 1;
                self.entered = false;
            } else if self.plan.takes(name) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(prefixes: &[&str], exclude: &[&str]) -> Vec<String> {
        let list = |names: &[&str]| names.iter().map(|name| BString::from(*name)).collect();
        let plan = Plan::of(&ListOptions { prefixes: list(prefixes), exclude: list(exclude), root_refs: false });
        let shown = |end: Option<BString>| end.map_or("end".into(), |end| end.to_string());
        plan.ranges.into_iter().map(|range| format!("{}..{}", range.start, shown(range.end))).collect()
    }

    #[test]
    fn prefixes_become_ranges_that_do_not_overlap() {
        assert_eq!(ranges(&[], &[]), ["..end"]);
        assert_eq!(
            ranges(&["refs/tags/", "refs/heads/", "refs/heads/a"], &[]),
            ["refs/heads/..refs/heads0", "refs/tags/..refs/tags0"]
        );
    }

    /// What C git sends for `git fetch origin main` (fault A.7.9).
    #[test]
    fn the_six_prefixes_of_a_fetch_all_count() {
        let six =
            ["main", "refs/main", "refs/tags/main", "refs/heads/main", "refs/remotes/main", "refs/remotes/main/HEAD"];
        let found = ranges(&six, &[]);
        assert!(found.contains(&"refs/heads/main..refs/heads/maio".into()), "{found:?}");
        assert_eq!(found.len(), 5);
    }

    #[test]
    fn exclusions_are_gaps() {
        assert_eq!(ranges(&["refs/"], &["refs/changes/"]), ["refs/..refs/changes/", "refs/changes0..refs0"]);
        assert_eq!(ranges(&["refs/changes/1"], &["refs/changes/"]), Vec::<String>::new());
        assert_eq!(ranges(&[], &["refs/a", "refs/c/", "refs/c/d"]), ["..refs/a", "refs/b..refs/c/", "refs/c0..end"]);
        assert_eq!(ranges(&["refs/heads/"], &["refs/heads/"]), Vec::<String>::new());
        assert_eq!(ranges(&["b"], &["a", "c"]), ["b..c"]);
    }
}
