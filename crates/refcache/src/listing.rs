//! Listings: the refs of a plan, which a [`Source`] provides one [`Row`] after the other.

use crate::{
    Result, Row,
    plan::{Plan, Range},
    row::OwnRow,
};
use bstr::{BStr, ByteSlice};
use std::{fmt, ops::ControlFlow};

/// Provides the rows of a listing, one range after the other.
pub(crate) trait Source: Send {
    /// Moves to just before the first row of a range.
    fn enter(&mut self, range: &Range) -> Result<()>;

    /// Moves to the next row of the range; `false` at its end.
    fn advance(&mut self) -> Result<bool>;

    /// The row moved to; `None` if it is not shown. Called only after `advance` has returned `true`.
    fn current(&self) -> Result<Option<Row<'_>>>;

    /// Shows the remaining rows of the range until `show` breaks. Returns whether it broke.
    fn each(&mut self, show: &mut dyn FnMut(&Row<'_>) -> ControlFlow<()>) -> Result<bool>;

    /// Identifies the state that the rows are of: a number that the reader gives to no other state, and the rows that
    /// this number does not cover.
    fn state(&self) -> (u64, &[OwnRow]);
}

/// The requested refs of a view, in order of name, as they were when the listing was made.
///
/// Reftables are listed as of one point in time. Files are read one after the other, so that refs that change meanwhile
/// may be listed with values of different times. However, a small batch of this process is listed whole or not at all,
/// and so is a transaction of any process that goes to packed-refs, unless packed-refs is replaced again and again
/// while the listing is made.
///
/// On a network file system a file can be lost while it is read, because another machine has replaced it. A listing
/// does not go on in the file that took its place, since the rows would then be of two states. Until the first row is
/// known, a view begins the listing again by itself, a few times at most; afterwards the listing fails with an error
/// that [`Error::is_stale`] recognizes, and the caller can list again.
///
/// [`Error::is_stale`]: crate::Error::is_stale
pub struct Listing {
    plan: Plan,
    /// The index of the current range, and whether the source has entered that range.
    at: usize,
    entered: bool,
    /// Whether the source has already moved to a row that was not shown yet.
    is_ahead: bool,
    source: Box<dyn Source>,
    /// The number of the reader that made the listing.
    owner: u64,
}

impl fmt::Debug for Listing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listing").field("plan", &self.plan).field("at", &self.at).finish_non_exhaustive()
    }
}

/// A proof names this many loose refs at most.
const PROVED_LOOSE_MAX: usize = 4096;

impl Listing {
    pub(crate) fn new(plan: Plan, source: Box<dyn Source>, owner: u64) -> Self {
        debug_assert!(owner > 0, "a proof names its view, and 0 is none");
        Listing { plan, at: 0, entered: false, is_ahead: false, source, owner }
    }

    /// Moves to the first row, which [`next`](Self::next) and [`each`](Self::each) then show without having to read it.
    pub(crate) fn look_ahead(&mut self) -> Result<()> {
        debug_assert!(!self.entered && !self.is_ahead, "only a new listing looks ahead");
        self.is_ahead = self.advance()?;
        Ok(())
    }

    /// Moves back to before the first ref. The refs shown again are those of the same state, whatever has changed
    /// since.
    pub fn rewind(&mut self) {
        (self.at, self.entered, self.is_ahead) = (0, false, false);
    }

    /// A value that identifies the rows of this listing: two listings with equal options by the same
    /// [`Views`](crate::Views) have the same rows if they have the same proof. `None` if there are so many loose refs
    /// that the proof would be long.
    pub fn proof(&self) -> Option<Vec<u8>> {
        let (state, loose) = self.source.state();
        if loose.len() > PROVED_LOOSE_MAX {
            return None;
        }
        let mut proof = Vec::with_capacity(16 + loose.len() * 64);
        proof.extend_from_slice(&self.owner.to_le_bytes());
        proof.extend_from_slice(&state.to_le_bytes());
        for row in loose {
            // No valid name has a line feed, a tab or a carriage return.
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

    /// The names, in order, of the requested refs that this listing leaves out because their files are corrupt or
    /// cannot be read. A symbolic ref to a name that no ref can have is not among them, although it is broken: like one
    /// to a missing ref, it has no value. Reads nothing.
    pub fn left_out(&self) -> impl Iterator<Item = &BStr> {
        self.corrupt().filter(|name| !name.ends_with(b"/") && self.plan.takes(name))
    }

    /// The folders, in order and with slashes at their ends, that may hold requested refs and cannot be read, so that
    /// this listing lacks their loose refs. Reads nothing.
    pub fn unread_folders(&self) -> impl Iterator<Item = &BStr> {
        self.corrupt().filter(|name| name.ends_with(b"/"))
    }

    fn corrupt(&self) -> impl Iterator<Item = &BStr> {
        let (_, loose) = self.source.state();
        loose.iter().filter(|row| row.is_corrupt).map(|row| row.name.as_bstr())
    }

    /// Moves to the next ref and returns it; `None` at the end. See [`left_out`](Self::left_out) for refs that are not
    /// shown.
    ///
    /// # Errors
    ///
    /// Fails if a table or packed-refs cannot be read, was lost or is corrupt.
    #[expect(clippy::should_implement_trait, reason = "the row borrows from the listing")]
    pub fn next(&mut self) -> Result<Option<Row<'_>>> {
        let is_there = std::mem::take(&mut self.is_ahead) || self.advance()?;
        if is_there { self.source.current() } else { Ok(None) }
    }

    /// Shows the remaining refs until `show` breaks; a later call continues after the ref at which it broke. This is
    /// faster than [`next`](Self::next) where there are many refs.
    ///
    /// # Errors
    ///
    /// Fails as [`next`](Self::next) does.
    pub fn each(&mut self, show: &mut dyn FnMut(&Row<'_>) -> ControlFlow<()>) -> Result<()> {
        debug_assert!(!self.entered || self.at < self.plan.ranges.len(), "behind the last range none is entered");
        let Listing { plan, at, entered, is_ahead, source, .. } = self;
        if std::mem::take(is_ahead)
            && let Some(row) = source.current()?
            && show(&row).is_break()
        {
            return Ok(());
        }
        while let Some(range) = plan.ranges.get(*at) {
            if !*entered {
                source.enter(range)?;
                *entered = true;
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
        debug_assert!(!self.entered || self.at < self.plan.ranges.len(), "behind the last range none is entered");
        while let Some(range) = self.plan.ranges.get(self.at) {
            if !self.entered {
                self.source.enter(range)?;
                self.entered = true;
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
    use crate::ListOptions;
    use refdb::{TargetView, backend::Peeled};
    use refdb_types::{HashKind, ObjectId};

    /// One ref, which is shown only after the range was entered. The first attempt to enter it fails.
    #[derive(Default)]
    struct Flaky {
        attempts: usize,
        left: usize,
    }

    impl Source for Flaky {
        fn enter(&mut self, _: &Range) -> Result<()> {
            self.attempts += 1;
            if self.attempts == 1 {
                return Err(crate::Error::Gone("repo.git".into()));
            }
            self.left = 1;
            Ok(())
        }

        fn advance(&mut self) -> Result<bool> {
            Ok(std::mem::take(&mut self.left) > 0)
        }

        fn current(&self) -> Result<Option<Row<'_>>> {
            let target = TargetView::Direct(ObjectId::null(HashKind::Sha1));
            let (peeled, storage) = (Peeled::Unknown, crate::Storage::Loose);
            Ok(Some(Row { name: BStr::new("refs/heads/x"), target, peeled, storage, update_index: 0 }))
        }

        fn each(&mut self, show: &mut dyn FnMut(&Row<'_>) -> ControlFlow<()>) -> Result<bool> {
            Ok(self.advance()? && self.current()?.is_some_and(|row| show(&row).is_break()))
        }

        fn state(&self) -> (u64, &[OwnRow]) {
            (1, &[])
        }
    }

    /// Previously, the second attempt took the range for entered.
    #[test]
    fn a_listing_that_failed_at_its_beginning_begins_there_again() {
        let listing = || Listing::new(Plan::of(&ListOptions::default()), Box::new(Flaky::default()), 1);
        let mut by_next = listing();
        assert!(by_next.next().is_err());
        assert!(by_next.next().unwrap().is_some());
        let (mut by_each, mut rows) = (listing(), 0);
        let mut show = |_: &Row<'_>| {
            rows += 1;
            ControlFlow::Continue(())
        };
        assert!(by_each.each(&mut show).is_err());
        by_each.each(&mut show).unwrap();
        assert_eq!(rows, 1);
    }
}
