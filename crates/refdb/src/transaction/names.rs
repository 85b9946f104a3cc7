//! Which names may be written, whether an edit gives them or a symbolic ref leads to them.

use super::TransactionOptions;
use crate::{Change, Edit, Misuse, Result, Target};
use bstr::BStr;
use refdb_types::{RefName, Scope, is_file_of_git, is_pseudo, is_safe, is_worktree_itself};

/// Refuses an edit that mentions a name that must not be written. A ref with an ill-formed name may still be deleted or
/// verified.
pub(super) fn check(edit: &Edit, options: TransactionOptions) -> Result<()> {
    let Edit { name, change, log, .. } = edit;
    let is_set = matches!(change, Change::Set(_));
    if matches!(change, Change::Verify) {
        refuse_special(name)?
    } else {
        refuse_other_files(name)?
    }
    if is_set && !name.is_valid() {
        return Err(Misuse::BadName(name.clone().into()).into());
    }
    let target = if let Change::Set(Target::Symbolic(target)) = change { Some(target) } else { None };
    let mut mentioned = [Some(name), target, log.take_over.as_ref()].into_iter().flatten();
    match mentioned.find(|name| options.safe_names && !is_safe(name)) {
        Some(name) => Err(Misuse::BadName(name.clone().into()).into()),
        None => Ok(()),
    }
}

/// Refuses names that stand for something other than a ref, and names whose files git uses for something else.
pub(super) fn refuse_other_files(name: &RefName) -> Result<()> {
    if is_below_refs(name) {
        return Ok(());
    }
    refuse_special(name)?;
    if is_file_of_git(name.as_bstr()) { Err(Misuse::FileOfGit(name.clone()).into()) } else { Ok(()) }
}

/// Returns whether a name begins with `refs/`, as nearly all do; such a name stands for nothing but a ref.
#[inline]
fn is_below_refs(name: &RefName) -> bool {
    name.starts_with(b"refs/")
}

/// Refuses names that stand for something other than a ref.
fn refuse_special(name: &RefName) -> Result<()> {
    if is_below_refs(name) {
        return Ok(());
    }
    if is_worktree_itself(name) {
        return Err(Misuse::Worktree(name.clone()).into());
    }
    if is_pseudo(name) {
        return Err(Misuse::Pseudoref(name.clone()).into());
    }
    Ok(())
}

/// Returns whether a write may follow a symbolic ref to this name. The name comes from the disk, so it can be anything,
/// even empty.
pub(super) fn may_be_followed_to(target: &BStr, options: TransactionOptions) -> bool {
    let is_other = target.is_empty() || is_worktree_itself(target) || is_file_of_git(target);
    !is_other && (!options.safe_names || is_safe(target))
}

/// Returns whether a file of this name, unless it is one of git's own files, can only be that of a ref, so that other
/// content means that the ref is broken. In any other place the file may belong to another program.
pub(super) fn is_sure_to_be_ref(name: &BStr) -> bool {
    match Scope::of(name) {
        Scope::Shared | Scope::Worktree => is_safe(name),
        Scope::Main(plain) | Scope::Other { name: plain, .. } => is_safe(plain),
    }
}
