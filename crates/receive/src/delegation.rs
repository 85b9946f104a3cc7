//! Which pushes are left to the real git, decided before a client is told anything.

use crate::{Settings, settings::Deny};
use refdb::{Environment, Objects, Repository};
use refdb_vfs::{EntryKind, Fs};
use std::fmt;

/// Why a push is left to git. docs/operating/receive-pack.md has the list for people.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DelegationReason {
    /// Signed pushes are asked for.
    SignedPushes,
    /// A push to the branch that is checked out changes the working tree too.
    UpdateInstead,
    /// The checks of objects are configured one by one.
    FsckMessages,
    /// The repository's history is cut off.
    Shallow,
    /// Objects of other repositories are used in an unusual way: see [`Objects::alternates`].
    Alternates,
    /// Objects may be missing, since a remote has promised them.
    PartialClone,
    /// Only a part of the refs is shown, under other names.
    Namespace,
    /// Linked worktrees have branches checked out.
    Worktrees,
    /// A rebase or bisection is under way, and uses branches.
    InProgress,
    /// Another push is under way, and calls this one from a hook.
    Quarantine,
    /// The environment says where objects are.
    ObjectVariables,
    /// The environment says where the working tree is.
    WorkTree,
    /// The environment says where refs are.
    RefVariables,
}

impl DelegationReason {
    /// All of them.
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
                "objects/info/alternates names a folder that has alternates itself, or is not there"
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

/// What the decision is about, besides the settings.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Facts {
    /// There is a file `shallow`.
    pub shallow: bool,
    /// There is a file `objects/info/alternates` that only git understands.
    pub alternates: bool,
    /// See [`Repository::is_partial_clone`], or a remote is a promisor.
    pub partial_clone: bool,
    /// `GIT_NAMESPACE` is set.
    pub namespace: bool,
    /// There is a linked worktree.
    pub worktrees: bool,
    /// There is a file of a rebase or a bisection.
    pub in_progress: bool,
    /// `GIT_QUARANTINE_PATH` is set.
    pub quarantine: bool,
    /// A variable says where objects are.
    pub object_variables: bool,
    /// `GIT_WORK_TREE` is set.
    pub work_tree: bool,
    /// `GIT_REFERENCE_BACKEND` is set.
    pub ref_variables: bool,
}

impl Facts {
    /// Looks at a repository.
    pub fn of(fs: &Fs, repository: &Repository, environment: &Environment) -> refdb::Result<Self> {
        let (git_dir, common_dir) = (repository.git_dir(), repository.common_dir());
        let is_set = |name: &str| environment.get(name).is_some_and(|value| !value.is_empty());
        let has = |path: &str| Ok::<_, refdb_vfs::Error>(fs.find(&common_dir.join(path))?.is_some());
        let busy = ["rebase-merge", "rebase-apply", "BISECT_LOG"];
        let mut in_progress = false;
        for path in busy {
            in_progress |= fs.find(&git_dir.join(path))?.is_some();
        }
        let worktrees = match fs.read_dir(&common_dir.join("worktrees")) {
            Ok(entries) => entries.iter().any(|(_, kind)| *kind == EntryKind::Dir),
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
            quarantine: is_set("GIT_QUARANTINE_PATH"),
            object_variables: is_set("GIT_OBJECT_DIRECTORY") || is_set("GIT_ALTERNATE_OBJECT_DIRECTORIES"),
            work_tree: is_set("GIT_WORK_TREE"),
            ref_variables: is_set("GIT_REFERENCE_BACKEND"),
        })
    }
}

/// Why pushes to this repository are left to git; `None` if they are not.
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
    fn the_page_for_people_names_every_reason() {
        let page = include_str!("../../../docs/operating/receive-pack.md");
        for reason in DelegationReason::ALL {
            assert!(page.contains(&format!("- {reason}")), "the page does not name: {reason}");
        }
    }
}
