use crate::Scope;
use bstr::{BStr, ByteSlice};

/// Files that git and its programs keep in the folder of a repository or of a linked worktree and that are not refs.
const FILES: [&str; 31] = [
    "ADD_EDIT.patch",
    "BISECT_ANCESTORS_OK",
    "BISECT_FIRST_PARENT",
    "BISECT_LOG",
    "BISECT_NAMES",
    "BISECT_RUN",
    "BISECT_START",
    "BISECT_TERMS",
    "COMMIT_EDITMSG",
    "EDIT_DESCRIPTION",
    "MERGE_MODE",
    "MERGE_MSG",
    "MERGE_RR",
    "NOTES_EDITMSG",
    "SQUASH_MSG",
    "TAG_EDITMSG",
    "addp-hunk-edit.diff",
    "cloneurl",
    "commondir",
    "config",
    "config.worktree",
    "description",
    "gc.log",
    "gc.pid",
    "git-daemon-export-ok",
    "gitdir",
    "gitweb.owner",
    "index",
    "locked",
    "packed-refs",
    "shallow",
];

/// Prefixes of the names of further files and folders of git and refdb: `next-index-PID.lock`, `packed-refs.new`,
/// `ref_migration.XXXXXX`.
const STARTS: [&str; 5] = ["fsmonitor--daemon", "next-index-", "packed-refs.", "ref_migration.", "sharedindex."];

/// Folders beside `refs/` in which git, its extensions and refdb keep files that are not refs.
const FOLDERS: [&str; 18] = [
    "NOTES_MERGE_WORKTREE",
    "branches",
    "hooks",
    "info",
    "lfs",
    "logs",
    "modules",
    "objects",
    "rebase-apply",
    "rebase-merge",
    "refdb-batches",
    "refdb-global",
    "reftable",
    "remotes",
    "rr-cache",
    "sequencer",
    "subtree-cache",
    "svn",
];

/// Returns whether a ref of this name would be stored as a file that git, one of its extensions or refdb uses for
/// something else: `packed-refs`, `hooks/update`, `worktrees/ID/index`.
///
/// Git's rules for names allow nearly all of these.
pub fn is_file_of_git(name: &BStr) -> bool {
    // Nearly all names take this branch.
    if name.starts_with(b"refs/") {
        return false;
    }
    match Scope::of(name) {
        Scope::Main(plain) | Scope::Other { name: plain, .. } => is_in_folder(plain),
        Scope::Worktree => is_in_folder(name),
        Scope::Shared => match name.strip_prefix(b"worktrees/").and_then(|rest| rest.split_once_str("/")) {
            Some((_, plain)) => is_in_folder(plain.as_bstr()),
            None => is_in_folder(name),
        },
    }
}

/// Returns whether a name, which is relative to the folder of the repository or of a linked worktree, is that of a file
/// in [`FILES`], [`STARTS`] or [`FOLDERS`].
fn is_in_folder(name: &BStr) -> bool {
    // The name of the folder itself is not refused, as in git: a loose ref does not replace a folder that contains
    // files, and a ref in a table does no harm.
    let top = name.split_once_str("/").map_or(&b""[..], |(top, _)| top);
    let is_file = || FILES.iter().any(|file| name == *file) || STARTS.iter().any(|start| name.starts_with_str(start));
    FOLDERS.iter().any(|folder| top == folder.as_bytes()) || is_file()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_git_are_told_from_refs_at_the_root() {
        for file in [
            "config",
            "packed-refs",
            "shallow",
            "info/grafts",
            "hooks/pre-receive",
            "objects/info/alternates",
            "logs/HEAD",
            "reftable/tables.list",
            "rebase-merge/onto",
            "refdb-batches/1",
            "MERGE_MSG",
            "main-worktree/MERGE_MSG",
            "worktrees/w/MERGE_MSG",
            "worktrees/w/index",
            "worktrees/w/logs/HEAD",
            "sharedindex.1",
            "packed-refs.new",
            "packed-refs.refdb",
        ] {
            assert!(is_file_of_git(file.into()), "{file}");
        }
        for name in [
            "HEAD",
            "ORIG_HEAD",
            "MERGE_AUTOSTASH",
            "NOTES_MERGE_REF",
            "FOO",
            "foo",
            "configs",
            "refs/heads/config",
            "refs/config",
            "main-worktree/HEAD",
            "worktrees/w/HEAD",
            "worktrees/w/refs/bisect/bad",
            "a/config",
        ] {
            assert!(!is_file_of_git(name.into()), "{name}");
        }
    }
}
