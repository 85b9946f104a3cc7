//! Listings: which names (a [`Plan`] of ranges), from where (a [`Source`]), one [`Row`] after the other.

use crate::{Result, Storage, files::FilesSource, tables::TablesSource};
use bstr::{BStr, BString, ByteSlice};
use refdb::{TargetView, backend::Peeled};
use refdb_types::{FormatOptions, check_format, common_prefix, is_root_ref};
use std::ops::ControlFlow;

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

impl Range {
    pub(crate) fn everything() -> Self {
        Range { start: BString::default(), end: None }
    }

    /// The innermost folder below `refs/` that all names of the range are in, with its slash, if there can be such a folder.
    pub(crate) fn folder(&self) -> Option<&BStr> {
        let end = self.end.as_ref()?;
        let common = match end_of(&self.start) {
            Some(end_of_start) if end_of_start == *end => self.start.len(),
            _ => common_prefix(&self.start, end),
        };
        let slash = self.start[..common].rfind_byte(b'/')?;
        let folder = &self.start[..slash];
        let is_folder = folder.starts_with(REFS) && check_format(folder, FormatOptions::default()).is_ok();
        is_folder.then(|| self.start[..=slash].as_bstr())
    }
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

    /// Whether a name lies in one of the ranges.
    pub(crate) fn has(&self, name: &BStr) -> bool {
        let after = self.ranges.partition_point(|range| range.start.as_bstr() <= name);
        let range = after.checked_sub(1).and_then(|at| self.ranges.get(at));
        range.is_some_and(|range| range.end.as_ref().is_none_or(|end| name < end.as_bstr()))
    }

    /// Whether any name below a folder, given with its slash, may lie in one of the ranges.
    pub(crate) fn reaches_into(&self, folder: &BStr) -> bool {
        let ends_after = |range: &Range| range.end.as_ref().is_none_or(|end| end.as_bstr() > folder);
        let begins_before = |range: &Range| range.start.as_bstr() <= folder || range.start.starts_with(folder);
        self.ranges.iter().any(|range| ends_after(range) && begins_before(range))
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

/// Where rows come from: one range after the other.
pub(crate) enum Source {
    Tables(Box<TablesSource>),
    Files(Box<FilesSource>),
}

/// A row with memory of its own.
#[derive(Clone)]
pub(crate) struct OwnRow {
    pub(crate) name: BString,
    /// `None` if its file is no good. Such a row is not shown, and hides what packed-refs says of the ref.
    pub(crate) target: Option<refdb::Target>,
    pub(crate) peeled: Peeled,
    pub(crate) storage: Storage,
}

impl Source {
    fn enter(&mut self, range: &Range) -> Result<()> {
        match self {
            Source::Tables(source) => source.enter(range),
            Source::Files(source) => source.enter(range),
        }
    }

    fn advance(&mut self) -> Result<bool> {
        match self {
            Source::Tables(source) => source.advance(),
            Source::Files(source) => source.advance(),
        }
    }

    fn current(&self) -> Result<Option<Row<'_>>> {
        match self {
            Source::Tables(source) => source.current(),
            Source::Files(source) => source.current(),
        }
    }

    fn each(&mut self, show: &mut dyn FnMut(&Row<'_>) -> ControlFlow<()>) -> Result<bool> {
        match self {
            Source::Tables(source) => source.each(show),
            Source::Files(source) => source.each(show),
        }
    }

    /// Which state its rows are of: a number that no other state of what `owner` reads has, and the rows besides it.
    fn state(&self) -> (u64, &[OwnRow]) {
        match self {
            Source::Tables(source) => (source.state(), &[]),
            Source::Files(source) => source.state(),
        }
    }
}

impl OwnRow {
    pub(crate) fn is_broken(&self) -> bool {
        self.target.is_none()
    }

    /// How it is shown; `None` if it is not.
    pub(crate) fn row(&self) -> Option<Row<'_>> {
        let target = TargetView::from(self.target.as_ref()?);
        Some(Row { name: self.name.as_bstr(), target, peeled: self.peeled, storage: self.storage, update_index: 0 })
    }
}

/// The refs of a view that were asked for, in order of name, as they were when the listing was made. With files that is
/// not one point in time across names.
pub struct Listing {
    plan: Plan,
    /// The range we are in, and whether the source stands in it already.
    at: usize,
    entered: bool,
    source: Source,
    /// The number of the reader that made it.
    owner: u64,
    is_doubtful: bool,
}

/// A proof names this many loose refs at most.
const PROVED_LOOSE_MAX: usize = 4096;

impl Listing {
    pub(crate) fn new(plan: Plan, source: Source, owner: u64, is_doubtful: bool) -> Self {
        Listing { plan, at: 0, entered: false, source, owner, is_doubtful }
    }

    /// What proves that another listing of the same names by the same [`Views`](crate::Views) has the same rows: that it
    /// has the same proof. `None` if that would be long to say.
    pub fn proof(&self) -> Option<Vec<u8>> {
        let (state, loose) = self.source.state();
        if loose.len() > PROVED_LOOSE_MAX {
            return None;
        }
        let mut proof = Vec::with_capacity(16 + loose.len() * 64);
        proof.extend_from_slice(&self.owner.to_le_bytes());
        proof.extend_from_slice(&state.to_le_bytes());
        for row in loose {
            // No name has a line feed, a tab or a carriage return.
            proof.extend_from_slice(&row.name);
            match &row.target {
                None => proof.push(b'\r'),
                Some(refdb::Target::Direct(id)) => {
                    proof.push(b'\n');
                    proof.extend_from_slice(id.as_bytes());
                }
                Some(refdb::Target::Symbolic(name)) => {
                    proof.push(b'\t');
                    proof.extend_from_slice(name.as_bstr());
                    proof.push(b'\n');
                }
            }
        }
        Some(proof)
    }

    /// Whether it is right only if the repository is still the same.
    pub(crate) fn is_doubtful(&self) -> bool {
        self.is_doubtful
    }

    /// The next ref; `None` at the end. A ref whose file is no good is not listed; [`View::broken`](crate::View::broken) has it.
    #[expect(clippy::should_implement_trait, reason = "the row borrows from the listing")]
    pub fn next(&mut self) -> Result<Option<Row<'_>>> {
        if self.advance()? { self.source.current() } else { Ok(None) }
    }

    /// Shows the refs that are left until `show` breaks; the one it broke at is done. Quicker than [`next`](Self::next)
    /// where there are many.
    pub fn each(&mut self, show: &mut dyn FnMut(&Row<'_>) -> ControlFlow<()>) -> Result<()> {
        let Listing { plan, at, entered, source, .. } = self;
        while let Some(range) = plan.ranges.get(*at) {
            if !std::mem::replace(entered, true) {
                source.enter(range)?;
            }
            let take = &mut |row: &Row<'_>| if plan.takes(row.name) { show(row) } else { ControlFlow::Continue(()) };
            if source.each(take)? {
                return Ok(());
            }
            *at += 1;
            *entered = false;
        }
        Ok(())
    }

    fn advance(&mut self) -> Result<bool> {
        while let Some(range) = self.plan.ranges.get(self.at) {
            if !std::mem::replace(&mut self.entered, true) {
                self.source.enter(range)?;
            }
            while self.source.advance()? {
                if self.source.current()?.is_some_and(|row| self.plan.takes(row.name)) {
                    return Ok(true);
                }
            }
            self.at += 1;
            self.entered = false;
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
    fn a_plan_knows_which_names_and_folders_it_has() {
        let own = |names: &[&str]| names.iter().map(|name| BString::from(*name)).collect();
        let options = |prefixes: &[&str], exclude: &[&str]| {
            Plan::of(&ListOptions { prefixes: own(prefixes), exclude: own(exclude), root_refs: false })
        };
        let plan = options(&["refs/heads/a", "refs/tags/"], &["refs/tags/x/"]);
        assert!(plan.has("refs/heads/ab".into()) && plan.has("refs/tags/x".into()) && plan.has("refs/tags/y".into()));
        assert!(!plan.has("refs/heads/b".into()) && !plan.has("refs/tags/x/y".into()) && !plan.has("a".into()));
        for (folder, reached) in [
            ("refs/", true),
            ("refs/heads/", true),
            ("refs/heads/a/", true),
            ("refs/heads/b/", false),
            ("refs/tags/x/", false),
            ("refs/tags/z/", true),
            ("refs/changes/", false),
        ] {
            assert_eq!(plan.reaches_into(folder.into()), reached, "{folder}");
        }
    }

    #[test]
    fn the_innermost_folder_of_a_range_has_all_of_its_names_and_is_inside_of_refs() {
        let folder = |prefix: &str, exclude: &str| {
            let own = |name: &str| if name.is_empty() { Vec::new() } else { vec![BString::from(name)] };
            let plan = Plan::of(&ListOptions { prefixes: own(prefix), exclude: own(exclude), root_refs: false });
            plan.ranges[0].folder().map(ToString::to_string)
        };
        for (prefix, expected) in [
            ("refs/changes/34/1234/", Some("refs/changes/34/1234/")),
            ("refs/changes/34/1234/meta", Some("refs/changes/34/1234/")),
            ("refs/changes/34", Some("refs/changes/")),
            ("refs/heads\u{ff}", None),
            ("refs/", None),
            ("refs/../../x/", None),
            ("refs/a/./b/", None),
            ("refs//", None),
            ("refs/a.lock/b/", None),
            ("refs/.a/b", None),
            ("refs/a\0/", None),
            ("HEAD", None),
            ("", None),
        ] {
            assert_eq!(folder(prefix, ""), expected.map(Into::into), "{prefix:?}");
        }
        // From refs/heads/ up to refs/heads/x, and from refs/h up to refs/heads/a.
        assert_eq!(folder("refs/heads/", "refs/heads/x"), Some("refs/heads/".into()));
        assert_eq!(folder("refs/h", "refs/heads/a"), None);
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
