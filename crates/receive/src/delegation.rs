//! Decides which pushes are delegated to `git receive-pack`, before anything is sent to the client.

use crate::{Settings, settings::Deny};
use refdb::{Environment, Objects, Repository};
use refdb_vfs::{EntryKind, Fs};
use std::fmt;

/// Why a push is delegated to `git receive-pack`. docs/operating/receive-pack.md lists the reasons for administrators.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DelegationReason {
    /// Clients may sign their pushes, because `receive.certNonceSeed` is set.
    SignedPushes,
    /// A push to the checked-out branch also updates the working tree: `receive.denyCurrentBranch` is `updateInstead`.
    UpdateInstead,
    /// `receive.fsck.*` changes how objects are checked, for example the severity of single checks.
    FsckMessages,
    /// The repository is a shallow clone.
    Shallow,
    /// Refdb cannot use `objects/info/alternates`, for example because an alternate has alternates itself or does not
    /// exist; see [`Objects::alternates`].
    Alternates,
    /// The repository is a partial clone, so objects that a promisor remote has may be missing.
    PartialClone,
    /// A namespace is set, so clients see only some of the refs, and under shorter names.
    Namespace,
    /// The repository has linked worktrees or is one, so that more than one branch may be checked out.
    Worktrees,
    /// A rebase, `git am` or a bisection is in progress in the working tree and may refer to branches.
    InProgress,
    /// `GIT_QUARANTINE_PATH` is set, as in a hook of another push, whose objects are still in quarantine.
    Quarantine,
    /// An environment variable replaces or extends the object directory.
    ObjectVariables,
    /// `GIT_WORK_TREE` names the working tree.
    WorkTree,
    /// `GIT_REFERENCE_BACKEND` names the place of the refs.
    RefVariables,
}

impl DelegationReason {
    /// Every reason, in the order in which [`delegation_reason`] considers them.
    pub const ALL: [DelegationReason; 13] = [
        DelegationReason::SignedPushes,
        DelegationReason::UpdateInstead,
        DelegationReason::FsckMessages,
        DelegationReason::Shallow,
        DelegationReason::Alternates,
        DelegationReason::PartialClone,
        DelegationReason::Namespace,
        DelegationReason::Worktrees,
        DelegationReason::InProgress,
        DelegationReason::Quarantine,
        DelegationReason::ObjectVariables,
        DelegationReason::WorkTree,
        DelegationReason::RefVariables,
    ];
}

impl fmt::Display for DelegationReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DelegationReason::SignedPushes => "receive.certNonceSeed is set",
            DelegationReason::UpdateInstead => "receive.denyCurrentBranch is updateInstead",
            DelegationReason::FsckMessages => "receive.fsck.* is set",
            DelegationReason::Shallow => "the repository is shallow",
            DelegationReason::Alternates => {
                "objects/info/alternates names a folder that has alternates itself or does not exist"
            }
            DelegationReason::PartialClone => "the repository is a partial clone",
            DelegationReason::Namespace => "GIT_NAMESPACE is set",
            DelegationReason::Worktrees => "the repository has linked worktrees",
            DelegationReason::InProgress => "a rebase or bisection is under way",
            DelegationReason::Quarantine => "GIT_QUARANTINE_PATH is set",
            DelegationReason::ObjectVariables => "GIT_OBJECT_DIRECTORY or GIT_ALTERNATE_OBJECT_DIRECTORIES is set",
            DelegationReason::WorkTree => "GIT_WORK_TREE is set",
            DelegationReason::RefVariables => "GIT_REFERENCE_BACKEND is set",
        })
    }
}

/// The properties of a repository and its environment, besides [`Settings`], that decide whether a push is delegated.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Facts {
    /// The file `shallow` exists.
    pub shallow: bool,
    /// The file `objects/info/alternates` exists, and refdb does not support the alternates that it names.
    pub alternates: bool,
    /// The repository is a partial clone or has a promisor remote; see [`Repository::is_partial_clone`].
    pub partial_clone: bool,
    /// `GIT_NAMESPACE` is set.
    pub namespace: bool,
    /// The repository has a linked worktree or is one.
    pub worktrees: bool,
    /// The Git directory has the state files of a rebase, of `git am` or of a bisection.
    pub in_progress: bool,
    /// `GIT_QUARANTINE_PATH` is set.
    pub quarantine: bool,
    /// `GIT_OBJECT_DIRECTORY` or `GIT_ALTERNATE_OBJECT_DIRECTORIES` is set.
    pub object_variables: bool,
    /// `GIT_WORK_TREE` is set.
    pub work_tree: bool,
    /// `GIT_REFERENCE_BACKEND` is set.
    pub ref_variables: bool,
}

impl Facts {
    /// Examines a repository by looking up a few of its files. As in git, `GIT_QUARANTINE_PATH` and the variables for
    /// object folders count even if they are empty; an empty one of the others does not.
    ///
    /// # Errors
    ///
    /// Fails if it cannot be found out whether one of the files or a linked worktree exists, for example because a
    /// directory may not be searched.
    pub fn of(fs: &Fs, repository: &Repository, environment: &Environment) -> refdb::Result<Self> {
        let (git_dir, common_dir) = (repository.git_dir(), repository.common_dir());
        let is_there = |name: &str| environment.get(name).is_some();
        let is_set = |name: &str| environment.get(name).is_some_and(|value| !value.is_empty());
        let has = |path: &str| Ok::<_, refdb_vfs::Error>(fs.find(&common_dir.join(path))?.is_some());
        let busy = ["rebase-merge", "rebase-apply", "BISECT_LOG"];
        let mut in_progress = false;
        for path in busy {
            in_progress |= fs.find(&git_dir.join(path))?.is_some();
        }
        let worktrees = match fs.read_dir(&common_dir.join("worktrees")) {
            Ok(entries) => entries.iter().any(|(_, kind)| matches!(kind, EntryKind::Dir | EntryKind::Symlink)),
            Err(error) if error.is_not_found() => false,
            Err(error) => return Err(error.into()),
        };
        Ok(Facts {
            shallow: has("shallow")?,
            alternates: has("objects/info/alternates")? && Objects::of(repository, environment).alternates().is_none(),
            partial_clone: repository.is_partial_clone(),
            namespace: is_set("GIT_NAMESPACE"),
            worktrees: worktrees || git_dir != common_dir,
            in_progress,
            quarantine: is_there("GIT_QUARANTINE_PATH"),
            object_variables: is_there("GIT_OBJECT_DIRECTORY") || is_there("GIT_ALTERNATE_OBJECT_DIRECTORIES"),
            work_tree: is_set("GIT_WORK_TREE"),
            ref_variables: is_set("GIT_REFERENCE_BACKEND"),
        })
    }
}

/// Returns why pushes to a repository must be delegated to `git receive-pack`, or `None` if [`serve`](crate::serve())
/// can serve them.
///
/// If several reasons hold, the first of [`DelegationReason::ALL`] is returned. Some requests turn out to need git only
/// when the client has sent them; `serve` returns [`ServeError::Delegated`](crate::ServeError::Delegated) for these.
///
/// If [`Screen::of`](crate::Screen::of) returns a screen, it must read the request of a delegated push before git does.
pub fn delegation_reason(settings: &Settings, facts: &Facts) -> Option<DelegationReason> {
    let reasons = [
        (settings.signed_pushes, DelegationReason::SignedPushes),
        (settings.deny_current == Deny::UpdateInstead, DelegationReason::UpdateInstead),
        (settings.fsck_messages, DelegationReason::FsckMessages),
        (facts.shallow, DelegationReason::Shallow),
        (facts.alternates, DelegationReason::Alternates),
        (facts.partial_clone, DelegationReason::PartialClone),
        (facts.namespace, DelegationReason::Namespace),
        (facts.worktrees, DelegationReason::Worktrees),
        (facts.in_progress, DelegationReason::InProgress),
        (facts.quarantine, DelegationReason::Quarantine),
        (facts.object_variables, DelegationReason::ObjectVariables),
        (facts.work_tree, DelegationReason::WorkTree),
        (facts.ref_variables, DelegationReason::RefVariables),
    ];
    debug_assert_eq!(reasons.map(|(_, reason)| reason), DelegationReason::ALL);
    reasons.into_iter().find(|(holds, _)| *holds).map(|(_, reason)| reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guide_names_every_reason() {
        let page = include_str!("../../../docs/operating/receive-pack.md");
        for reason in DelegationReason::ALL {
            assert!(page.contains(&format!("- {reason}")), "the guide does not name: {reason}");
        }
    }
}
