use bstr::BStr;
use refdb_types::{Scope, is_plain_path, is_worktree_itself};
use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
};

/// The paths of refs and reflogs: this worktree's own lie in its folder, all others below the common folder.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub(super) git_dir: PathBuf,
    pub(super) common_dir: PathBuf,
}

impl Layout {
    /// The path of a loose ref; `None` for a name that cannot be a path inside the repository.
    pub(super) fn ref_path(&self, name: &BStr) -> Option<PathBuf> {
        self.path(name, "")
    }

    /// The path of a ref's reflog; `None` for a name that cannot be a path inside the repository.
    pub(super) fn log_path(&self, name: &BStr) -> Option<PathBuf> {
        self.path(name, "logs/")
    }

    /// The path of `packed-refs`, which all worktrees share.
    pub(super) fn packed_path(&self) -> PathBuf {
        self.common_dir.join("packed-refs")
    }

    /// Splits a name into the folder that its path starts from, the worktree's id if the name is `worktrees/ID/NAME`
    /// for a worktree's own ref, and the name of the ref within its worktree.
    pub(super) fn base<'a>(&self, name: &'a BStr) -> (&Path, Option<&'a BStr>, &'a BStr) {
        match Scope::of(name) {
            Scope::Shared => (&self.common_dir, None, name),
            Scope::Worktree => (&self.git_dir, None, name),
            Scope::Main(rest) => (&self.common_dir, None, rest),
            Scope::Other { id, name } => (&self.common_dir, Some(id), name),
        }
    }

    /// The folder to which the ref's path is relative.
    pub(super) fn base_path(&self, name: &BStr) -> PathBuf {
        let (base, worktree, _) = self.base(name);
        match worktree {
            None => base.to_owned(),
            Some(id) => base.join("worktrees").join(OsStr::from_bytes(id)),
        }
    }

    fn path(&self, name: &BStr, folder: &str) -> Option<PathBuf> {
        let mut path = Vec::new();
        self.append(name, folder, &mut path).then(|| OsString::from_vec(path).into())
    }

    /// Replaces the content of `path` by the path of a loose ref. Returns `false` for a name that cannot be a path
    /// inside the repository.
    pub(super) fn ref_path_into(&self, name: &BStr, path: &mut Vec<u8>) -> bool {
        path.clear();
        self.append(name, "", path)
    }

    /// Replaces the content of `path` by the path of a loose ref's lock file. Returns `false` for a name that cannot be
    /// a path inside the repository.
    pub(super) fn lock_path_into(&self, name: &BStr, path: &mut Vec<u8>) -> bool {
        path.clear();
        let fits = self.append(name, "", path);
        path.extend_from_slice(b".lock");
        fits
    }

    fn append(&self, name: &BStr, folder: &str, path: &mut Vec<u8>) -> bool {
        if !stays_inside(name) {
            return false;
        }
        let (base, worktree, rest) = self.base(name);
        let base = base.as_os_str().as_bytes();
        path.reserve(base.len() + name.len() + folder.len() + 16);
        path.extend_from_slice(base);
        if let Some(id) = worktree {
            path.extend_from_slice(b"/worktrees/");
            path.extend_from_slice(id);
        }
        path.push(b'/');
        path.extend_from_slice(folder.as_bytes());
        path.extend_from_slice(rest);
        true
    }
}

/// Returns whether a name is a path that stays in its folder: it has no empty part, no part `.` or `..` and no NUL, and
/// it is not the folder of a worktree.
fn stays_inside(name: &BStr) -> bool {
    if is_worktree_itself(name) {
        return false;
    }
    if is_plain_path(name) {
        return true;
    }
    // The last three bytes, with a slash before the beginning and after the end.
    let mut last = [b'/'; 3];
    for &byte in name.iter().chain(b"/") {
        let part_ends_badly = byte == b'/' && (last[2] == b'/' || last[2] == b'.' && is_dots([last[0], last[1]]));
        if part_ends_badly || byte == 0 {
            return false;
        }
        last = [last[1], last[2], byte];
    }
    true
}

/// Returns whether a dot after these two bytes completes a part `.` or `..`.
fn is_dots(before: [u8; 2]) -> bool {
    before[1] == b'/' || before == *b"/."
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
            ("main-worktree/refs/heads/a", "/r/main-worktree/refs/heads/a", "/r/logs/main-worktree/refs/heads/a"),
            ("worktrees/x/foo", "/r/worktrees/x/foo", "/r/logs/worktrees/x/foo"),
            ("worktrees/x/refs/bisect/bad", "/r/worktrees/x/refs/bisect/bad", "/r/worktrees/x/logs/refs/bisect/bad"),
        ] {
            assert_eq!(layout.ref_path(name.into()).unwrap(), Path::new(file));
            assert_eq!(layout.log_path(name.into()).unwrap(), Path::new(log));
        }
    }

    #[test]
    fn no_name_leads_out_of_the_repository() {
        let layout = Layout { git_dir: "/r".into(), common_dir: "/r".into() };
        for name in [
            "",
            "refs/../../x",
            "../x",
            "refs//x",
            "refs/heads/",
            "/etc/x",
            "refs/./x",
            "worktrees/../x",
            "worktrees/w",
            "a\0b",
            "..",
            ".",
            "a/..",
        ] {
            assert_eq!(layout.ref_path(name.into()), None, "{name:?}");
        }
        for name in ["a", "a/...", "a/.b", "a/b.", "a/..b", "a/b.."] {
            assert!(layout.ref_path(name.into()).is_some(), "{name:?}");
        }
    }
}
