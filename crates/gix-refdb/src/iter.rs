//! Iterates over refs.

use crate::{Result, convert::reference_for_gix};
use bstr::{BString, ByteSlice};
use gix_path::RelativePath;
use gix_ref::Reference;
use refdb::{Cursor, Snapshot};
use std::{
    fmt,
    sync::{
        OnceLock,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
};

/// A state of the refs from which iterators are created. With reftables it does not change after it was read; with
/// files, a loose ref is read when the iterator reaches it, so that two refs may be seen at different times.
///
/// If the server of a network file system loses a file that is being read, all iterators begin again with a new state,
/// at most eight times and provided that none of them has returned anything yet. Otherwise the one that was reading
/// ends with an error.
pub struct Platform<'s> {
    store: &'s refdb::Store,
    /// The state of the refs when the platform was made, and the states that replaced lost ones since.
    states: [OnceLock<Box<dyn Snapshot>>; STATES_MAX],
    /// The index of the state that iterators use, with the bit [`SHOWN`] once one of them has returned anything from
    /// it, be it only that it is at its end. A state that replaces another is read when the first iterator needs it.
    current: AtomicUsize,
}

/// The bit of [`Platform::current`] that keeps the state from being replaced.
const SHOWN: usize = 1 << 8;

/// Maximum number of states of a platform.
const STATES_MAX: usize = 9;

/// An iterator over references in order of name. A ref that is broken or that gix-ref cannot represent, and a folder of
/// refs that may not be read, yield an error after which the iteration continues. Any other error ends it.
#[must_use]
pub struct Iter<'p> {
    platform: &'p Platform<'p>,
    /// The index of the state that the cursor reads.
    state: usize,
    cursor: Box<dyn Cursor + 'p>,
    kept: Kept,
    ended: bool,
}

#[derive(Clone, Debug)]
enum Kept {
    Prefix(BString),
    Root,
}

impl fmt::Debug for Platform<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Platform").finish_non_exhaustive()
    }
}

impl fmt::Debug for Iter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Iter").field("kept", &self.kept).field("ended", &self.ended).finish_non_exhaustive()
    }
}

impl<'s> Platform<'s> {
    pub(crate) fn new(store: &'s refdb::Store) -> Result<Self> {
        let states = [const { OnceLock::new() }; STATES_MAX];
        let platform = Platform { store, states, current: AtomicUsize::new(0) };
        platform.state(0)?;
        Ok(platform)
    }

    /// Returns the state with the index `at`, which is read now if it does not exist yet.
    fn state(&self, at: usize) -> Result<&dyn Snapshot> {
        if let Some(state) = self.states[at].get() {
            return Ok(&**state);
        }
        let state = self.store.snapshot()?;
        Ok(&**self.states[at].get_or_init(|| state))
    }

    /// The index of the state that iterators use.
    fn current(&self) -> usize {
        self.current.load(SeqCst) & !SHOWN
    }

    /// Makes all iterators use the state after `lost`, of which a file was lost. Does nothing and returns `false` if an
    /// iterator has returned anything of the lost state, or if there have been too many states.
    fn replace(&self, lost: usize) -> bool {
        if lost + 1 >= STATES_MAX {
            return false;
        }
        match self.current.compare_exchange(lost, lost + 1, SeqCst, SeqCst) {
            Ok(_) => true,
            Err(now) => now & !SHOWN > lost,
        }
    }

    /// Keeps this state from being replaced, for an iterator that is about to return something of it. Returns `false`
    /// if it has been replaced already.
    fn show(&self, state: usize) -> bool {
        match self.current.compare_exchange(state, state | SHOWN, SeqCst, SeqCst) {
            Ok(_) => true,
            Err(now) => now == state | SHOWN,
        }
    }

    /// Iterates over all refs below `refs/`.
    ///
    /// # Errors
    ///
    /// If the refs cannot be read.
    pub fn all(&self) -> Result<Iter<'_>> {
        self.below(b"refs/")
    }

    /// Iterates over the refs below `refs/` whose names begin with `prefix`, such as `refs/heads/` or
    /// `refs/heads/feature-`.
    ///
    /// # Errors
    ///
    /// If the refs cannot be read.
    pub fn prefixed(&self, prefix: &RelativePath) -> Result<Iter<'_>> {
        self.below(prefix.as_ref())
    }

    /// Iterates over the tags.
    ///
    /// # Errors
    ///
    /// If the refs cannot be read.
    pub fn tags(&self) -> Result<Iter<'_>> {
        self.below(b"refs/tags/")
    }

    /// Iterates over the local branches.
    ///
    /// # Errors
    ///
    /// If the refs cannot be read.
    pub fn local_branches(&self) -> Result<Iter<'_>> {
        self.below(b"refs/heads/")
    }

    /// Iterates over the remote-tracking branches.
    ///
    /// # Errors
    ///
    /// If the refs cannot be read.
    pub fn remote_branches(&self) -> Result<Iter<'_>> {
        self.below(b"refs/remotes/")
    }

    /// Iterates over the root refs, such as `HEAD` and `ORIG_HEAD`, which `git for-each-ref --include-root-refs` lists
    /// besides those below `refs/`.
    ///
    /// # Errors
    ///
    /// If the refs cannot be read.
    pub fn pseudo(&self) -> Result<Iter<'_>> {
        self.begin(Kept::Root)
    }

    fn below(&self, prefix: &[u8]) -> Result<Iter<'_>> {
        self.begin(Kept::Prefix(prefix.into()))
    }

    fn begin(&self, kept: Kept) -> Result<Iter<'_>> {
        loop {
            let state = self.current();
            match self.state(state).and_then(|snapshot| kept.cursor(snapshot)) {
                Ok(cursor) => return Ok(Iter { platform: self, state, cursor, kept, ended: false }),
                Err(error) if error.is_stale() && self.replace(state) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl Kept {
    /// Returns a cursor that begins where the list does.
    fn cursor<'p>(&self, snapshot: &'p dyn Snapshot) -> Result<Box<dyn Cursor + 'p>> {
        let mut cursor = snapshot.cursor(matches!(self, Kept::Root))?;
        if let Kept::Prefix(prefix) = self {
            cursor.seek(prefix.as_bstr())?;
        }
        Ok(cursor)
    }

    /// Returns whether a name belongs to the list. Root refs sort before all others, and refs with a common prefix are
    /// adjacent, so the first name that does not belong to the list ends it.
    fn has(&self, name: &[u8]) -> bool {
        match self {
            Kept::Prefix(prefix) => name.starts_with(prefix),
            Kept::Root => !name.starts_with(b"refs/"),
        }
    }

    /// Returns whether `broken`, the name of a broken ref or of a folder that cannot be read, is of the list or is a
    /// folder that may contain refs of the list.
    fn may_lie_in(&self, broken: &[u8]) -> bool {
        let is_above = |prefix: &BString| prefix.strip_prefix(broken).is_some_and(|rest| rest.starts_with(b"/"));
        self.has(broken) || matches!(self, Kept::Prefix(prefix) if is_above(prefix))
    }
}

impl Iterator for Iter<'_> {
    type Item = Result<Reference>;

    fn next(&mut self) -> Option<Result<Reference>> {
        if self.ended {
            return None;
        }
        loop {
            // Once any iterator has returned something, the state is not replaced any more, so beginning again repeats
            // nothing.
            if self.state != self.platform.current() {
                match self.platform.begin(self.kept.clone()) {
                    Ok(again) => *self = again,
                    Err(error) => {
                        self.ended = true;
                        return Some(Err(error));
                    }
                }
            }
            let (row, ended) = match self.cursor.next() {
                Ok(Some(view)) if self.kept.has(view.name) => (Some(reference_for_gix(&view)), false),
                Err(refdb::Error::BrokenRef(broken)) if self.kept.may_lie_in(&broken.name) => {
                    (Some(Err(refdb::Error::BrokenRef(broken).into())), false)
                }
                Ok(_) | Err(refdb::Error::BrokenRef(_)) => (None, true),
                Err(error) if error.is_stale() && self.platform.replace(self.state) => continue,
                Err(error) => (Some(Err(error.into())), true),
            };
            if self.platform.show(self.state) {
                self.ended = ended;
                return row;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Previously, an iterator could return a row of a state that another thread replaced at this moment, and then
    /// begin again and return the row once more.
    #[test]
    fn a_state_is_either_shown_or_replaced() {
        let repo = refdb_testkit::Repo::bare(refdb_testkit::RefFormat::Files, refdb::HashKind::Sha1);
        let store = refdb::Store::open(repo.git_dir()).unwrap();
        let platform = Platform::new(&store).unwrap();
        assert!(platform.replace(0) && platform.current() == 1);
        assert!(!platform.show(0), "whoever has read a row of it begins again");
        assert!(platform.replace(0), "and whoever lost a file of it, too");
        assert_eq!(platform.current(), 1);
        assert!(platform.show(1) && platform.show(1));
        assert!(!platform.replace(1), "what was shown stays");
        assert!(platform.replace(0), "but whoever is late begins again with it");
        assert_eq!(platform.current(), 1);
    }
}
