//! Compares what a view says with what the disk says, while everything goes on.

use crate::{Result, view::View};
use bstr::BString;
use refdb::Target;
use std::collections::BTreeSet;

/// A ref about which view and disk differ, looked at twice.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Difference {
    /// Its name.
    pub name: BString,
    /// What the view says.
    pub view: Option<Target>,
    /// What the disk says.
    pub disk: Option<Target>,
}

/// What a verification found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// How many refs were compared.
    pub refs: u64,
    /// Where the view is wrong.
    pub differences: Vec<Difference>,
}

/// How often a ref that others keep changing is looked at before the view counts as wrong about it.
const LOOKS_MAX: usize = 5;

/// Looks at each name of which the view knows something by itself, then walks the view's listing and the disk's side by
/// side, and looks again at the names on which they differ: somebody may have changed them meanwhile.
pub(crate) fn verify(view: &View) -> Result<Report> {
    let disk = view.disk()?;
    let mut report = Report::default();
    // First, since a listing looks at the disk and learns.
    for name in view.known_names() {
        report.differences.extend(look_again(view, &disk, name)?);
    }
    let snapshot = disk.snapshot()?;
    let mut cursor = snapshot.cursor(true)?;
    let mut listing = view.list(&crate::ListOptions { root_refs: true, ..Default::default() })?;
    let mut doubtful: BTreeSet<BString> = BTreeSet::new();
    let mut ours = listing.next()?;
    let mut theirs = cursor.next()?;
    loop {
        let order = match (&ours, &theirs) {
            (None, None) => break,
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (Some(ours), Some(theirs)) => ours.name.cmp(theirs.name),
        };
        report.refs += 1;
        if order.is_eq() {
            if let (Some(ours), Some(theirs)) = (&ours, &theirs)
                && ours.target != theirs.target
            {
                doubtful.insert(ours.name.to_owned());
            }
        } else {
            let name = if order.is_lt() { ours.map(|row| row.name) } else { theirs.map(|view| view.name) };
            doubtful.extend(name.map(ToOwned::to_owned));
        }
        if order.is_le() {
            ours = listing.next()?;
        }
        if order.is_ge() {
            theirs = cursor.next()?;
        }
    }
    let found: BTreeSet<BString> = report.differences.iter().map(|difference| difference.name.clone()).collect();
    for name in doubtful.difference(&found).cloned().collect::<Vec<_>>() {
        report.differences.extend(look_again(view, &disk, name)?);
    }
    Ok(report)
}

/// A view is wrong about a ref if it says what the disk has said neither before nor after.
fn look_again(view: &View, disk: &refdb::Store, name: BString) -> Result<Option<Difference>> {
    let mut last = None;
    for _ in 0..LOOKS_MAX {
        let before = disk.get(name.as_ref())?;
        let ours = view.get(name.as_ref())?.map(|found| found.target);
        let after = disk.get(name.as_ref())?;
        if ours == before || ours == after {
            return Ok(None);
        }
        let is_quiet = before == after;
        last = Some(Difference { name: name.clone(), view: ours, disk: after });
        if is_quiet {
            break;
        }
    }
    Ok(last)
}
