//! What fields need to know beyond the ref itself.

use super::{atom::Direction, questions::Question, remote::Counterpart, trailers::TrailerRules};
use crate::{clock::Clock, failure::Result};
use bstr::{BStr, BString};
use refdb_types::ObjectId;

pub use refdb::objects::ObjectKind;

/// What fields need to know beyond the ref itself.
pub trait World {
    /// An object's type; `None` if it is missing.
    fn kind(&mut self, id: &ObjectId) -> Result<Option<ObjectKind>>;

    /// An object's type and size; `None` if it is missing.
    fn header(&mut self, id: &ObjectId) -> Result<Option<(ObjectKind, u64)>>;

    /// Replaces `data` by an object's content; `None` if it is missing.
    fn read(&mut self, id: &ObjectId, data: &mut Vec<u8>) -> Result<Option<ObjectKind>>;

    /// How many digits of `id` tell it from all other objects: at least `least`, or git's default.
    fn abbreviate(&mut self, id: &ObjectId, least: Option<usize>) -> Result<usize>;

    /// The shortest part of a refname that is unambiguous.
    fn shorten<'n>(&mut self, name: &'n BStr) -> Result<&'n BStr>;

    /// The branch that is checked out.
    fn head(&self) -> Option<&BStr>;

    /// Where a branch comes from, or where it is pushed to.
    fn counterpart(&mut self, side: Direction, name: &BStr) -> Counterpart;

    /// How many commits an object is ahead of another ref, and behind it; `None` if that leads to no commit.
    fn ahead_behind(&mut self, id: &ObjectId, other: &BStr) -> Result<Option<(usize, usize)>>;

    /// The same with a commit that a field names; `None` if the object leads to no commit.
    fn ahead_behind_base(&mut self, id: &ObjectId, base: &BStr) -> Result<Option<(usize, usize)>>;

    /// Whether a field depends on all refs that are shown. Then it hears of each before it is asked.
    fn depends_on_all(&self) -> bool;

    /// Hears of a ref that will be shown.
    fn hear(&mut self, name: &BStr, id: &ObjectId) -> Result<()>;

    /// Whether the commit that a field names has its branch's beginning at this ref.
    fn is_base(&self, name: &BStr, base: &BStr) -> bool;

    /// What another program of git's says.
    fn ask(&mut self, question: &Question) -> Result<BString>;

    /// How trailers are told from other lines.
    fn trailer_rules(&mut self) -> &TrailerRules;

    /// The working tree in which a branch is checked out.
    fn worktree(&mut self, name: &BStr) -> Result<Option<&BStr>>;

    /// Whether a ref that exists is read from packed-refs.
    fn is_packed(&self, name: &BStr) -> bool;

    /// Where and when this is.
    fn clock(&self) -> &Clock<'_>;
}
