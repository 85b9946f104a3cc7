//! Compares a view with the disk, without stopping readers or writers.

use crate::{Result, stats::count, view::View};
use bstr::{BString, ByteSlice};
use refdb::{BrokenRef, Store, Target, files::FilesBackend};
use std::{cmp::Ordering, collections::BTreeSet};

/// A ref for which a view was wrong even when it was compared again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Difference {
    /// The full name of the ref.
    pub name: BString,
    /// The value in the view; `None` if the view has no such ref or reports the ref as broken.
    pub view: Option<Target>,
    /// The value on disk; `None` if there is no such ref or the ref is broken.
    pub disk: Option<Target>,
}

/// The result of a verification.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// The number of refs that were compared.
    pub refs: u64,
    /// The refs for which the view was wrong.
    pub differences: Vec<Difference>,
    /// Loose refs that are broken on disk, and folders of refs that cannot be read. The view is right about such a ref
    /// if it reports the ref as broken.
    pub broken: Vec<BrokenRef>,
}

/// Maximum number of comparisons of a ref that others keep changing. After that, the view counts as wrong about the
/// ref, unless writes of this process interfered with every comparison.
const LOOKS_MAX: usize = 5;

/// The number of bytes of packed-refs in memory above which the store for the disk's side releases that memory during
/// the walk.
const DISK_BYTES: usize = 1 << 20;

impl View {
    /// Compares the view with the disk, without stopping readers or writers. The method reads all refs from the disk,
    /// and holds about 1 MiB of packed-refs in memory at a time, or all of it if the file is not sorted.
    ///
    /// # Errors
    ///
    /// Fails if the refs cannot be read. Broken refs are no error, but part of the report.
    pub fn verify(&self) -> Result<Report> {
        let report = verify(self)?;
        count(&self.counters().verifications, 1);
        count(&self.counters().stale, report.differences.len() as u64);
        Ok(report)
    }
}

/// Compares first the names for which the cached values may be wrong, and then walks the listing of the view and that
/// of the disk side by side. Names on which they differ are compared again, since another process may have changed
/// them in the meantime.
fn verify(view: &View) -> Result<Report> {
    let disk = view.disk()?;
    let mut report = Report::default();
    // These come first, because a listing reads from disk and updates the cache.
    for name in view.questionable(&disk)? {
        report.differences.extend(look_again(view, &disk, name)?);
    }
    let found: BTreeSet<BString> = report.differences.iter().map(|difference| difference.name.clone()).collect();
    for name in walk(view, &disk, &mut report)?.difference(&found) {
        report.differences.extend(look_again(view, &disk, name.clone())?);
    }
    Ok(report)
}

/// Returns the names on which the listing of the view and that of the disk differ. Counts the names that were
/// compared, and adds the refs that are broken on disk to `report`.
fn walk(view: &View, disk: &Store, report: &mut Report) -> Result<BTreeSet<BString>> {
    let mut doubtful = BTreeSet::new();
    let snapshot = disk.snapshot()?;
    let mut listing = view.list(&crate::ListOptions { root_refs: true, ..Default::default() })?;
    let mut ours = listing.next()?;
    // All names before this one have been compared.
    let mut from = BString::default();
    'from: loop {
        let mut cursor = snapshot.cursor(true)?;
        cursor.seek(from.as_bstr())?;
        let mut theirs = None;
        let mut wants_theirs = true;
        loop {
            while std::mem::take(&mut wants_theirs) {
                theirs = match cursor.next() {
                    Err(refdb::Error::BrokenRef(found)) => {
                        report.broken.push(*found);
                        wants_theirs = true;
                        None
                    }
                    next => next?,
                };
            }
            let order = match (&ours, &theirs) {
                (None, None) => return Ok(doubtful),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(ours), Some(theirs)) => ours.name.cmp(theirs.name),
            };
            report.refs += 1;
            let differing = match (order, &ours, &theirs) {
                (Ordering::Equal, Some(ours), Some(theirs)) if ours.target == theirs.target => None,
                (Ordering::Greater, _, theirs) => theirs.as_ref().map(|theirs| theirs.name),
                (_, ours, _) => ours.as_ref().map(|ours| ours.name),
            };
            doubtful.extend(differing.map(ToOwned::to_owned));
            if order.is_le() {
                ours = listing.next()?;
            }
            if order.is_ge() {
                if let (Some(files), Some(last)) = (disk.backend_as::<FilesBackend>(), &theirs)
                    && files.loaded_bytes() > DISK_BYTES
                {
                    from = [last.name.as_bytes(), b"\0"].concat().into();
                    drop(cursor);
                    files.shed();
                    continue 'from;
                }
                wants_theirs = true;
            }
        }
    }
}

/// Compares one ref again. The view is wrong if its value was on disk neither before nor after the view was queried.
fn look_again(view: &View, disk: &Store, name: BString) -> Result<Option<Difference>> {
    let on_disk = || match disk.get(name.as_ref()) {
        Err(error) if error.is_broken_ref() => Ok(None),
        found => found.map(Some),
    };
    let mut last = None;
    for _ in 0..LOOKS_MAX {
        let steps = view.batch_steps(name.as_ref());
        // The value on disk; `None` if the ref is broken.
        let before = on_disk()?;
        let ours = match view.get(name.as_ref()) {
            Err(error) if error.is_broken_ref() => None,
            found => Some(found?.map(|found| found.target)),
        };
        let after = on_disk()?;
        if ours == before || ours == after {
            return Ok(None);
        }
        // The disk may show a part of a batch that was in progress, and the view nothing of it.
        if steps.is_none() || view.batch_steps(name.as_ref()) != steps {
            continue;
        }
        let is_quiet = before == after;
        last = Some(Difference { name: name.clone(), view: ours.flatten(), disk: after.flatten() });
        if is_quiet {
            break;
        }
    }
    Ok(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ViewSettings, Views, ViewsSettings};
    use refdb_testkit::{RefFormat, Repo};
    use refdb_types::HashKind;
    use std::fmt::Write;

    #[test]
    fn a_verification_reads_packed_refs_by_parts_and_finds_each_difference() {
        const REFS: usize = 60_000;
        let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
        let ids = repo.commits(2);
        let mut text = String::from("# pack-refs with: peeled fully-peeled sorted \n");
        for at in 0..REFS {
            writeln!(text, "{} refs/changes/{at:06}/meta", ids[0]).unwrap();
        }
        std::fs::write(repo.git_dir().join("packed-refs"), &text).unwrap();
        let view = Views::new(&ViewsSettings::default()).open(repo.git_dir(), &ViewSettings::default()).unwrap();
        let disk = view.disk().unwrap();
        let mut report = Report::default();
        assert_eq!(walk(&view, &disk, &mut report).unwrap(), BTreeSet::new());
        // The listing includes HEAD, although its branch is unborn.
        assert_eq!(report.refs, REFS as u64 + 1);
        let held = disk.backend_as::<FilesBackend>().unwrap().loaded_bytes();
        assert!(held < 2 * DISK_BYTES && text.len() > 3 * DISK_BYTES, "{held} of {} bytes", text.len());
        // All names are looked up, so that their pages are in memory, before the file on disk changes.
        for at in 0..REFS {
            assert!(view.get(format!("refs/changes/{at:06}/meta").as_str().into()).unwrap().is_some());
        }
        let line = |at: usize| format!("{} refs/changes/055555/meta\n", ids[at]);
        std::fs::write(repo.git_dir().join("packed-refs"), text.replacen(&line(0), &line(1), 1)).unwrap();
        let mut questionable = view.questionable(&view.disk().unwrap()).unwrap();
        questionable.retain(|name| name != "HEAD");
        assert!(questionable == ["refs/changes/055555/meta"], "{} names", questionable.len());
        assert_eq!(view.verify().unwrap().differences, [], "a view that looks finds out by itself");
    }
}
