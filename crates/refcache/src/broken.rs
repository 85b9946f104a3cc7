//! Broken refs, whose files are corrupt or cannot be read: which there are, and which of them a log has reported.

use crate::{Error, plan::Plan};
use bstr::{BStr, BString, ByteSlice};
use refdb::BrokenRef;
use std::{
    collections::BTreeMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

/// The limit on broken refs that are remembered. Further ones are left out of lists without being counted or reported,
/// until one of the remembered refs is found repaired or removed.
const NAMED_MAX: usize = 1000;

/// The broken refs of a repository, each as it was last seen.
#[derive(Debug, Default)]
pub(crate) struct BrokenRefs {
    /// The number of remembered broken refs, kept here so that reading it needs no lock.
    count: AtomicU64,
    /// The number of remembered broken refs that are unreported, also read without the lock.
    unreported: AtomicU64,
    /// Counts walks, so that a walk does not remove a ref that was found broken after a later walk had begun.
    walks: AtomicU64,
    /// By name; the name of a folder ends with a slash.
    known: Mutex<BTreeMap<BString, Noted>>,
}

#[derive(Debug)]
struct Noted {
    broken: BrokenRef,
    is_reported: bool,
    /// The latest walk that had begun when the ref was found broken.
    walk: u64,
}

impl BrokenRefs {
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Relaxed)
    }

    /// How many broken refs [`take_unreported`](Self::take_unreported) would return.
    pub(crate) fn unreported(&self) -> u64 {
        self.unreported.load(Relaxed)
    }

    pub(crate) fn found(&self, broken: &BrokenRef) {
        self.found_as(broken.name.as_bstr(), broken);
    }

    /// Remembers that a folder, given with its slash, cannot be read.
    pub(crate) fn found_folder(&self, folder: &BStr, broken: &BrokenRef) {
        debug_assert!(folder.ends_with(b"/"), "a folder's name ends with a slash: {folder}");
        self.found_as(folder, broken);
    }

    fn found_as(&self, name: &BStr, broken: &BrokenRef) {
        let mut known = self.known();
        let walk = self.walks.load(Relaxed);
        if let Some(noted) = known.get_mut(name) {
            // A file that is being written may be found empty first and corrupt later; both findings make one report.
            (noted.broken, noted.walk) = (broken.clone(), walk);
        } else if known.len() < NAMED_MAX {
            known.insert(name.to_owned(), Noted { broken: broken.clone(), is_reported: false, walk });
            self.recount(&known);
        }
    }

    /// Begins a walk through the loose refs of a plan. The returned number is passed to [`walked`](Self::walked).
    pub(crate) fn walk(&self) -> u64 {
        self.walks.fetch_add(1, Relaxed) + 1
    }

    /// Forgets the ref or the folder, whose name ends with a slash, because it was looked up and was not found broken.
    pub(crate) fn is_whole(&self, name: &BStr) {
        if self.count() > 0 {
            let mut known = self.known();
            if known.remove(name).is_some() {
                self.recount(&known);
            }
        }
    }

    /// Ends a walk through the loose refs of a plan, and forgets the refs of the plan that the walk did not find
    /// broken, except those that were found broken after a later walk had begun. `broken`, which is sorted, has all
    /// refs that the walk found broken.
    pub(crate) fn walked(&self, walk: u64, plan: &Plan, broken: &[BString]) {
        if self.count() > 0 {
            debug_assert!(broken.is_sorted(), "broken refs are found by binary search");
            let mut known = self.known();
            known.retain(|name, noted| {
                noted.walk > walk || !plan.has(name.as_bstr()) || broken.binary_search(name).is_ok()
            });
            self.recount(&known);
        }
    }

    /// Forgets all refs, because the repository has no files of refs any more.
    pub(crate) fn clear(&self) {
        let mut known = self.known();
        known.clear();
        self.recount(&known);
    }

    /// Returns the unreported broken refs, which count as reported from now on.
    pub(crate) fn take_unreported(&self) -> Vec<BrokenRef> {
        if self.unreported() == 0 {
            return Vec::new();
        }
        let mut known = self.known();
        let mut taken = Vec::new();
        for noted in known.values_mut().filter(|noted| !noted.is_reported) {
            noted.is_reported = true;
            taken.push(noted.broken.clone());
        }
        self.recount(&known);
        taken
    }

    /// The broken refs whose names begin with `prefix`.
    pub(crate) fn below(&self, prefix: &[u8]) -> Vec<BrokenRef> {
        let known = self.known();
        known.values().filter(|noted| noted.broken.name.starts_with(prefix)).map(|noted| noted.broken.clone()).collect()
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<BString, Noted>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn recount(&self, known: &BTreeMap<BString, Noted>) {
        debug_assert!(known.len() <= NAMED_MAX, "more broken refs than are remembered: {}", known.len());
        self.count.store(known.len() as u64, Relaxed);
        self.unreported.store(known.values().filter(|noted| !noted.is_reported).count() as u64, Relaxed);
    }
}

/// Returns the broken ref that a failed result is about; `None` for any other result.
pub(crate) fn broken_ref<T>(found: &Result<T, Error>) -> Option<&BrokenRef> {
    match found {
        Err(error) => error.broken_ref(),
        Ok(_) => None,
    }
}

/// Returns whether the query found a ref whose value cannot be used, in whatever format; see
/// [`refdb::Error::is_broken_ref`].
pub(crate) fn is_broken<T>(found: &Result<T, Error>) -> bool {
    found.as_ref().is_err_and(Error::is_broken_ref)
}

/// Treats a broken ref as missing, and keeps the first error of that kind in `broken`.
pub(crate) fn unless_broken<T>(
    found: Result<Option<T>, Error>,
    broken: &mut Option<Error>,
) -> Result<Option<T>, Error> {
    match found {
        Err(error) if error.is_broken_ref() => {
            broken.get_or_insert(error);
            Ok(None)
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ListOptions;
    use refdb::LooseError;

    fn broken(name: &str) -> BrokenRef {
        BrokenRef { name: name.into(), path: name.into(), why: LooseError::Empty }
    }

    #[test]
    fn each_broken_ref_is_told_of_once_until_it_was_whole_again() {
        let refs = BrokenRefs::default();
        let told = || refs.take_unreported().into_iter().map(|broken| broken.name.to_string()).collect::<Vec<_>>();
        refs.found(&broken("refs/heads/a"));
        refs.found(&broken("refs/tags/b"));
        assert_eq!((refs.count(), refs.unreported()), (2, 2));
        assert_eq!(told(), ["refs/heads/a", "refs/tags/b"]);
        refs.found(&broken("refs/heads/a"));
        assert_eq!(told(), Vec::<String>::new());
        refs.is_whole("refs/heads/a".into());
        assert_eq!(refs.count(), 1);
        refs.found(&broken("refs/heads/a"));
        assert_eq!(told(), ["refs/heads/a"]);
        let heads = ListOptions { prefixes: vec!["refs/heads/".into()], ..ListOptions::default() };
        refs.walked(refs.walk(), &Plan::of(&heads), &[]);
        assert_eq!(refs.below(b"refs/").len(), 1, "a list of the branches says nothing of tags");
    }

    #[test]
    fn a_slow_list_does_not_forget_what_a_quicker_one_has_found() {
        let refs = BrokenRefs::default();
        let slow = refs.walk();
        let quick = refs.walk();
        refs.found(&broken("refs/heads/a"));
        let everything = Plan::of(&ListOptions::default());
        refs.walked(quick, &everything, &["refs/heads/a".into()]);
        assert_eq!(refs.take_unreported().len(), 1);
        refs.walked(slow, &everything, &[]);
        refs.found(&BrokenRef { why: LooseError::Content(40), ..broken("refs/heads/a") });
        assert_eq!((refs.count(), refs.unreported()), (1, 0), "it is not told of a second time");
        refs.walked(refs.walk(), &everything, &[]);
        assert_eq!(refs.count(), 0);
    }

    #[test]
    fn ten_times_more_broken_refs_than_are_named_take_no_more_room() {
        let refs = BrokenRefs::default();
        for at in 0..10 * NAMED_MAX {
            refs.found(&broken(&format!("refs/heads/{at}")));
        }
        assert_eq!(refs.count(), NAMED_MAX as u64);
        refs.is_whole("refs/heads/7".into());
        refs.found(&broken("refs/heads/9999"));
        assert_eq!(refs.below(b"refs/heads/9999").len(), 1);
    }
}
