//! Which names a listing contains: a [`Plan`] of ranges.

use bstr::{BStr, BString, ByteSlice};
use refdb_types::{FormatOptions, check_format, common_prefix, is_root_ref};

/// Which refs to list.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct ListOptions {
    /// List only names that begin with one of these; empty for all names. A folder's prefix ends with a slash:
    /// `refs/heads/`.
    pub prefixes: Vec<BString>,
    /// Leave out names that begin with one of these.
    pub exclude: Vec<BString>,
    /// Whether root refs (`HEAD`, `ORIG_HEAD`) are listed too, as far as the prefixes and exclusions allow.
    pub root_refs: bool,
}

impl ListOptions {
    /// The defaults.
    pub fn new() -> Self {
        ListOptions::default()
    }

    /// Sets [`ListOptions::prefixes`](#structfield.prefixes).
    #[must_use]
    pub fn prefixes(mut self, prefixes: Vec<BString>) -> Self {
        self.prefixes = prefixes;
        self
    }

    /// Sets [`ListOptions::exclude`](#structfield.exclude).
    #[must_use]
    pub fn exclude(mut self, exclude: Vec<BString>) -> Self {
        self.exclude = exclude;
        self
    }

    /// Sets [`ListOptions::root_refs`](#structfield.root_refs).
    #[must_use]
    pub fn root_refs(mut self, root_refs: bool) -> Self {
        self.root_refs = root_refs;
        self
    }
}

/// The names from `start` on, up to but without `end`; without an end, all names from `start` on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Range {
    pub(crate) start: BString,
    pub(crate) end: Option<BString>,
}

impl Range {
    fn is_empty(&self) -> bool {
        self.end.as_ref().is_some_and(|end| *end <= self.start)
    }

    pub(crate) fn everything() -> Self {
        Range { start: BString::default(), end: None }
    }

    /// A folder below `refs/` that contains all names of the range, with its slash; `None` if none is found, or if no
    /// ref can lie in that folder.
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

/// The names that a listing has, as sorted ranges that do not overlap.
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
            if !refdb_vfs::planted("refcache-plan") {
                prefixes.dedup_by(|later, earlier| later.starts_with(earlier));
            }
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
        let is_apart = |a: &Range, b: &Range| a.end.as_ref().is_some_and(|end| *end <= b.start);
        debug_assert!(ranges.is_sorted_by(is_apart), "ranges stand in order, none within another: {ranges:?}");
        debug_assert!(ranges.iter().all(|range| !range.is_empty()), "a range has room for a name: {ranges:?}");
        Plan { ranges, root_refs: options.root_refs }
    }

    /// Returns whether a name lies in one of the ranges.
    pub(crate) fn has(&self, name: &BStr) -> bool {
        let after = self.ranges.partition_point(|range| range.start.as_bstr() <= name);
        let range = after.checked_sub(1).and_then(|at| self.ranges.get(at));
        range.is_some_and(|range| range.end.as_ref().is_none_or(|end| name < end.as_bstr()))
    }

    /// Returns whether any name below a folder, given with its slash, may lie in one of the ranges.
    pub(crate) fn reaches_into(&self, folder: &BStr) -> bool {
        let ends_after = |range: &Range| range.end.as_ref().is_none_or(|end| end.as_bstr() > folder);
        let begins_before = |range: &Range| range.start.as_bstr() <= folder || range.start.starts_with(folder);
        self.ranges.iter().any(|range| ends_after(range) && begins_before(range))
    }

    /// Returns whether a name in one of the ranges belongs in a listing: some files of a repository are not refs.
    #[inline]
    pub(crate) fn takes(&self, name: &BStr) -> bool {
        name.starts_with(REFS) || self.root_refs && is_root_ref(name)
    }
}

/// Returns the least name that sorts after all names with this prefix; `None` if there is none.
fn end_of(prefix: &[u8]) -> Option<BString> {
    let last = prefix.iter().rposition(|byte| *byte != 0xff)?;
    let mut end = BString::from(&prefix[..=last]);
    end[last] += 1;
    Some(end)
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

    /// The prefixes are those that C git sends for `git fetch --no-tags origin main`. Otherwise it adds `refs/tags/`.
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
