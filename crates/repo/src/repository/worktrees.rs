use bstr::BString;
use refdb_vfs::{EntryKind, Fs};
use std::{
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

/// A linked worktree: git-worktree(1).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Worktree {
    /// The name of the worktree's folder below `worktrees/`.
    pub id: BString,
    /// The path of the worktree's folder below `worktrees/`.
    pub git_dir: PathBuf,
}

pub(super) fn list(fs: &Fs, common_dir: &Path) -> Result<Vec<Worktree>, refdb_vfs::Error> {
    let folder = common_dir.join("worktrees");
    let entries = match fs.read_dir(&folder) {
        Err(error) if error.is_not_found() => return Ok(Vec::new()),
        entries => entries?,
    };
    // Like git, this takes an entry that is a symbolic link for the folder to which it leads.
    let mut worktrees: Vec<_> = entries
        .into_iter()
        .filter(|(_, kind)| matches!(kind, EntryKind::Dir | EntryKind::Symlink))
        .map(|(id, _)| Worktree { git_dir: folder.join(std::ffi::OsStr::from_bytes(&id)), id: id.into() })
        // Git takes a folder for a worktree if it has the file `gitdir`, which names the working tree.
        .filter(|worktree| fs.stat(&worktree.git_dir.join("gitdir")).is_ok())
        .collect();
    worktrees.sort_unstable_by(|a, b| a.id.cmp(&b.id));
    debug_assert!(worktrees.is_sorted_by(|a, b| a.id < b.id), "each worktree is listed once");
    Ok(worktrees)
}
