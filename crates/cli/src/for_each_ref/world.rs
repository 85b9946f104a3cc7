//! What fields need to know besides the ref itself.

use super::{atom::Direction, questions::Question, remote::Counterpart, trailers::TrailerRules};
use crate::{clock::Clock, failure::Result};
use bstr::{BStr, BString};
use refdb_types::ObjectId;

pub use refdb::objects::ObjectKind;

/// What fields need to know besides the ref itself.
pub trait World {
    /// Returns an object's type, or `None` if it is missing.
    fn kind(&mut self, id: &ObjectId) -> Result<Option<ObjectKind>>;

    /// Returns an object's type and size, or `None` if it is missing.
    fn header(&mut self, id: &ObjectId) -> Result<Option<(ObjectKind, u64)>>;

    /// Replaces `data` by an object's content and returns its type, or `None` if the object is missing.
    fn read(&mut self, id: &ObjectId, data: &mut Vec<u8>) -> Result<Option<ObjectKind>>;

    /// Returns the parents that a commit has instead of those that it names, or `None` if it has the latter.
    fn grafted(&self, _commit: &ObjectId) -> Option<&[ObjectId]> {
        None
    }

    /// Returns how many digits distinguish `id` from all other objects: at least `least`, or, if that is `None`, at
    /// least the number that the configuration sets or git's default.
    fn abbreviate(&mut self, id: &ObjectId, least: Option<usize>) -> Result<usize>;

    /// Returns the shortest part of a refname that is unambiguous.
    fn shorten<'n>(&mut self, name: &'n BStr) -> Result<&'n BStr>;

    /// Returns the branch that is checked out. For a detached HEAD, this is `HEAD` or `None`; for a branch without
    /// commits, it is the branch or `None`.
    fn head(&self) -> Option<&BStr>;

    /// Returns the upstream of a branch, or the ref that it is pushed to.
    fn counterpart(&mut self, side: Direction, name: &BStr) -> Counterpart;

    /// Returns the number of commits by which an object is ahead of and behind another ref, or `None` if the object or
    /// that ref leads to no commit.
    fn ahead_behind(&mut self, id: &ObjectId, other: &BStr) -> Result<Option<(usize, usize)>>;

    /// Returns the number of commits by which an object is ahead of and behind a commit that a field names, or `None`
    /// if the object leads to no commit.
    fn ahead_behind_base(&mut self, id: &ObjectId, base: &BStr) -> Result<Option<(usize, usize)>>;

    /// Returns whether a field names a commit, as `%(ahead-behind:...)` does.
    fn names_commits(&self) -> bool;

    /// Returns whether a field depends on all refs that the filter selects. If so, each of them is passed to
    /// [`World::hear`] before any field is shown, unless the list leaves such fields empty.
    fn depends_on_all(&self) -> bool;

    /// Announces a ref that the filter selects.
    fn hear(&mut self, name: &BStr, id: &ObjectId) -> Result<()>;

    /// Returns whether the ref `name` is the one from which the branch of the commit that a field names started.
    fn is_base(&self, name: &BStr, base: &BStr) -> bool;

    /// Returns the answer of another program of git.
    fn ask(&mut self, question: &Question) -> Result<BString>;

    /// Returns how trailers are distinguished from other lines.
    fn trailer_rules(&mut self) -> &TrailerRules;

    /// Returns the working tree in which a branch is checked out.
    fn worktree(&mut self, name: &BStr) -> Result<Option<&BStr>>;

    /// Returns whether a ref that exists is read from packed-refs.
    fn is_packed(&self, name: &BStr) -> bool;

    /// Returns the present time and the local zone.
    fn clock(&self) -> &Clock<'_>;
}
