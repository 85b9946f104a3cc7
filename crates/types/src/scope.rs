use bstr::{BStr, ByteSlice};

/// Whose ref a name denotes. See gitglossary(7), "per-worktree ref", and git-worktree(1), "REFS".
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope<'a> {
    /// One for the whole repository.
    Shared,
    /// Each worktree has its own: `HEAD` and other root refs, `refs/bisect/`, `refs/worktree/`, `refs/rewritten/`.
    Worktree,
    /// The main worktree's, whichever worktree asks: `main-worktree/NAME`.
    Main(&'a BStr),
    /// A named worktree's: `worktrees/ID/NAME`.
    Other {
        /// The folder below `worktrees/`.
        id: &'a BStr,
        /// The name in that worktree.
        name: &'a BStr,
    },
}

impl<'a> Scope<'a> {
    /// Classifies a refname. It is a matter of spelling alone: the ref need not exist.
    pub fn of(name: &'a BStr) -> Self {
        if let Some(rest) = name.strip_prefix(b"main-worktree/")
            && !rest.is_empty()
        {
            return Scope::Main(rest.as_bstr());
        }
        if let Some(rest) = name.strip_prefix(b"worktrees/")
            && let Some(slash) = rest.find_byte(b'/')
            && slash > 0
            && slash + 1 < rest.len()
        {
            return Scope::Other { id: rest[..slash].as_bstr(), name: rest[slash + 1..].as_bstr() };
        }
        const PER_WORKTREE: [&[u8]; 3] = [b"refs/worktree/", b"refs/bisect/", b"refs/rewritten/"];
        if is_root_syntax(name) || PER_WORKTREE.iter().any(|prefix| name.starts_with(prefix)) {
            Scope::Worktree
        } else {
            Scope::Shared
        }
    }
}

/// Whether `name` is spelt as a ref that lives at the root: upper-case letters, `-` and `_` only.
fn is_root_syntax(name: &BStr) -> bool {
    !name.is_empty() && name.iter().all(|byte| byte.is_ascii_uppercase() || matches!(byte, b'-' | b'_'))
}

/// Whether `name` is one of git's pseudo refs, which look like refs but hold more than one (`FETCH_HEAD`,
/// `MERGE_HEAD`): they are read as files in every format and never written as refs.
pub fn is_pseudo(name: &BStr) -> bool {
    name == "FETCH_HEAD" || name == "MERGE_HEAD"
}

/// Whether `name` is a root ref: `HEAD`, a name ending in `_HEAD`, or one of the few irregular names git lists.
pub fn is_root_ref(name: &BStr) -> bool {
    const IRREGULAR: [&str; 5] =
        ["HEAD", "AUTO_MERGE", "BISECT_EXPECTED_REV", "NOTES_MERGE_PARTIAL", "NOTES_MERGE_REF"];
    is_root_syntax(name)
        && !is_pseudo(name)
        && (name.ends_with(b"_HEAD") || IRREGULAR.iter().any(|irregular| name == *irregular))
        || name == "MERGE_AUTOSTASH"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_follow_the_spelling() {
        for shared in
            ["refs/heads/main", "refs/bisect", "refs/worktrees/x", "worktrees/", "worktrees/a", "main-worktree/"]
        {
            assert_eq!(Scope::of(shared.into()), Scope::Shared, "{shared}");
        }
        for own in ["HEAD", "ORIG_HEAD", "refs/bisect/bad", "refs/worktree/x", "refs/rewritten/x"] {
            assert_eq!(Scope::of(own.into()), Scope::Worktree, "{own}");
        }
        assert_eq!(Scope::of("main-worktree/HEAD".into()), Scope::Main("HEAD".into()));
        assert_eq!(
            Scope::of("worktrees/w1/refs/bisect/bad".into()),
            Scope::Other { id: "w1".into(), name: "refs/bisect/bad".into() }
        );
    }

    #[test]
    fn root_refs_are_told_from_pseudo_refs_and_other_files() {
        for root in ["HEAD", "ORIG_HEAD", "AUTO_MERGE", "CHERRY_PICK_HEAD", "MERGE_AUTOSTASH"] {
            assert!(is_root_ref(root.into()), "{root}");
        }
        for other in ["FETCH_HEAD", "MERGE_HEAD", "COMMIT_EDITMSG", "config", "refs/heads/HEAD", "FOO"] {
            assert!(!is_root_ref(other.into()), "{other}");
        }
    }
}
