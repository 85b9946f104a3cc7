//! Checks the refs of a repository, including those of every worktree, and reports their faults.
//!
//! Most checks are those of git-fsck(1), with git's names and words. Objects, and all blocks of a table, are checked
//! only with `deep`. Nothing is changed, and the checks go on after a fault.

mod check;
mod content;
mod loose;
mod packed;
mod tables;

pub use check::{Check, Level};

use crate::{RefFormat, Result, Store};
use bstr::{BStr, BString, ByteSlice};
use refdb_repo::objects::ObjectKind;
use refdb_types::ObjectId;
use std::path::PathBuf;

/// A report of [`Store::verify`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verified {
    /// The check of the next worktree begins.
    Worktree,
    /// The check of a ref, a file or a table begins.
    Looking(Looking),
    /// A fault was found.
    Fault(Fault),
    /// A stack of reftables, or an object to which one of its refs points, cannot be read: the id of the linked
    /// worktree that has the stack (`None` for the main one), and the reason.
    Unreadable(Option<BString>, String),
}

/// The part of a repository that is being checked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Looking {
    /// A loose ref, by its full name.
    Ref(BString),
    /// packed-refs, by its path.
    Packed(PathBuf),
    /// A reftable, by the name of its file.
    Table(BString),
}

/// Something that is wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// The ref, the folder, the table, the stray file, or packed-refs (with the number of the line if one is wrong, or
    /// `packed-refs.header`).
    pub place: BString,
    /// Which check found the fault.
    pub check: Check,
    /// What the check found.
    pub what: BString,
}

impl Store {
    /// Checks the refs of all worktrees. With `deep`, also reads every block of every reftable, and checks that the
    /// objects exist and that branches hold commits. Refs in memory have no faults to find.
    ///
    /// # Errors
    ///
    /// The list of worktrees, packed-refs, a symbolic link, a table's file, the object database, or a folder in which
    /// refs of the other format would be cannot be read. Whatever else cannot be read is reported; with reftables, so
    /// is an error of the object database, as [`Verified::Unreadable`].
    pub fn verify(&self, deep: bool, report: &mut dyn FnMut(Verified)) -> Result<()> {
        if !self.backend().is_on_disk() {
            return Ok(());
        }
        let worktrees = self.repository().worktrees(self.fs())?;
        let folders = [(None, self.repository().refs_dir().to_owned())]
            .into_iter()
            .chain(worktrees.into_iter().map(|tree| (Some(tree.id), tree.git_dir)));
        let mut verifier = Verifier { store: self, deep, report };
        for (id, folder) in folders {
            (verifier.report)(Verified::Worktree);
            let worktree = Worktree { prefix: id.as_ref().map_or_else(BString::default, prefix_of), id, folder };
            debug_assert_eq!(
                worktree.id.is_none(),
                worktree.prefix.is_empty(),
                "only a linked worktree's refs have a prefix"
            );
            match self.repository().ref_format() {
                RefFormat::Files => {
                    loose::verify(&mut verifier, &worktree)?;
                    if worktree.id.is_none() {
                        packed::verify(&mut verifier, &worktree.folder)?;
                    }
                }
                RefFormat::Reftable => tables::verify(&mut verifier, &worktree)?,
            }
        }
        for path in self.strays()? {
            let what =
                format!("nobody reads it, since refs have the '{}' format", self.repository().ref_format().name());
            verifier.fault(path.as_bstr(), Check::StrayRef, what);
        }
        Ok(())
    }
}

/// The worktree whose refs are checked.
struct Worktree {
    /// `None` in the main worktree, which has the shared refs too.
    id: Option<BString>,
    /// The prefix of the worktree's refnames in reports; empty for the main worktree.
    prefix: BString,
    folder: PathBuf,
}

fn prefix_of(id: &BString) -> BString {
    [b"worktrees/", id.as_slice(), b"/"].concat().into()
}

struct Verifier<'a> {
    store: &'a Store,
    deep: bool,
    report: &'a mut dyn FnMut(Verified),
}

impl Verifier<'_> {
    fn looking(&mut self, at: Looking) {
        (self.report)(Verified::Looking(at));
    }

    fn fault(&mut self, place: &BStr, check: Check, what: impl Into<BString>) {
        (self.report)(Verified::Fault(Fault { place: place.to_owned(), check, what: what.into() }));
    }

    /// With `deep`, checks that the object of a ref exists, that it is a commit if the ref is a branch or HEAD, and
    /// that a tag leads to an object that exists; a null id is passed over. A fault is reported for `place`; `name` is
    /// the ref's name in its worktree.
    fn object(&mut self, place: &BStr, name: &BStr, id: &ObjectId) -> Result<()> {
        if !self.deep || id.is_null() {
            return Ok(());
        }
        let wants_commit = name.starts_with(b"refs/heads/") || name == "HEAD";
        match self.store.objects().kind(id)? {
            None => self.fault(place, Check::MissingRefObject, format!("points to {id}, which is not there")),
            Some(kind) if wants_commit && kind != ObjectKind::Commit => {
                self.fault(place, Check::BadRefObjectType, format!("points to {id}, a {} and no commit", kind.name()));
            }
            Some(ObjectKind::Tag) if self.store.objects().peel(id)?.is_none() => {
                self.fault(
                    place,
                    Check::MissingRefObject,
                    format!("holds the tag {id}, which leads to no object that is there"),
                );
            }
            Some(_) => {}
        }
        Ok(())
    }
}
