use bstr::{BStr, ByteSlice};
use refdb_types::Scope;
use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

/// Where refs and reflogs lie: the worktree's own in its folder, all others in the common one.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub(super) git_dir: PathBuf,
    pub(super) common_dir: PathBuf,
}

impl Layout {
    /// The file of a loose ref; `None` for a name that cannot be a path inside the repository.
    pub(super) fn ref_path(&self, name: &BStr) -> Option<PathBuf> {
        self.path(name, "")
    }

    /// The file of a ref's reflog.
    pub(super) fn log_path(&self, name: &BStr) -> Option<PathBuf> {
        self.path(name, "logs/")
    }

    /// `packed-refs`, which all worktrees share.
    pub(super) fn packed_path(&self) -> PathBuf {
        self.common_dir.join("packed-refs")
    }

    /// The folder whose `refs/` or `logs/` hold the ref, and its name there.
    pub(super) fn base<'a>(&self, name: &'a BStr) -> (&Path, Option<&'a BStr>, &'a BStr) {
        match Scope::of(name) {
            Scope::Shared => (&self.common_dir, None, name),
            Scope::Worktree => (&self.git_dir, None, name),
            Scope::Main(rest) => (&self.common_dir, None, rest),
            Scope::Other { id, name } => (&self.common_dir, Some(id), name),
        }
    }

    /// The folder that the ref's path is relative to.
    pub(super) fn base_path(&self, name: &BStr) -> PathBuf {
        let (base, worktree, _) = self.base(name);
        match worktree {
            None => base.to_owned(),
            Some(id) => base.join("worktrees").join(OsStr::from_bytes(id)),
        }
    }

    fn path(&self, name: &BStr, folder: &str) -> Option<PathBuf> {
        let fits = |part: &[u8]| !matches!(part, b"" | b"." | b"..");
        if name.contains(&0) || !name.split_str("/").all(fits) {
            return None;
        }
        let (base, worktree, rest) = self.base(name);
        let mut path = PathBuf::with_capacity(base.as_os_str().len() + name.len() + folder.len() + 16).into_os_string();
        path.push(base);
        for part in [worktree.map(|_| "/worktrees/".as_bytes()), worktree.map(|id| id.as_bytes()), Some(b"/")] {
            path.push(OsStr::from_bytes(part.unwrap_or_default()));
        }
        path.push(folder);
        path.push(OsStr::from_bytes(rest));
        Some(path.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refs_lie_with_the_worktree_or_the_repository() {
        let layout = Layout { git_dir: "/r/worktrees/w".into(), common_dir: "/r".into() };
        for (name, file, log) in [
            ("refs/heads/a", "/r/refs/heads/a", "/r/logs/refs/heads/a"),
            ("HEAD", "/r/worktrees/w/HEAD", "/r/worktrees/w/logs/HEAD"),
            ("refs/bisect/bad", "/r/worktrees/w/refs/bisect/bad", "/r/worktrees/w/logs/refs/bisect/bad"),
            ("main-worktree/HEAD", "/r/HEAD", "/r/logs/HEAD"),
            ("worktrees/x/refs/bisect/bad", "/r/worktrees/x/refs/bisect/bad", "/r/worktrees/x/logs/refs/bisect/bad"),
        ] {
            assert_eq!(layout.ref_path(name.into()).unwrap(), Path::new(file));
            assert_eq!(layout.log_path(name.into()).unwrap(), Path::new(log));
        }
    }

    #[test]
    fn no_name_leads_out_of_the_repository() {
        let layout = Layout { git_dir: "/r".into(), common_dir: "/r".into() };
        for name in
            ["", "refs/../../x", "../x", "refs//x", "refs/heads/", "/etc/x", "refs/./x", "worktrees/../x", "a\0b"]
        {
            assert_eq!(layout.ref_path(name.into()), None, "{name:?}");
        }
    }
}
