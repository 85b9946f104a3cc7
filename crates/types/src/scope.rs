use bstr::{BStr, ByteSlice};

/// The owner of a ref, as far as its name tells: the repository or one of its worktrees. See gitglossary(7),
/// "per-worktree ref", and git-worktree(1), "REFS".
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope<'a> {
    /// A ref that all worktrees share. This includes a name such as `main-worktree/refs/heads/x`, in which what follows
    /// the prefix is not per-worktree: it is a ref of that literal name, not the branch `x`.
    Shared,
    /// A ref that each worktree has for itself: `HEAD` and every other name spelt like a root ref (see
    /// [`is_root_syntax`]), and what lies below `refs/bisect/`, `refs/worktree/` and `refs/rewritten/`.
    Worktree,
    /// The main worktree's ref, whichever worktree asks: `main-worktree/NAME`.
    Main(&'a BStr),
    /// The ref of the named linked worktree: `worktrees/ID/NAME`.
    Other {
        /// The name of the worktree's folder below `worktrees/`.
        id: &'a BStr,
        /// The name of the ref within that worktree.
        name: &'a BStr,
    },
}

impl<'a> Scope<'a> {
    /// Classifies a refname by its spelling alone; the ref need not exist.
    #[inline]
    pub fn of(name: &'a BStr) -> Self {
        // Nearly all names take this branch.
        if name.starts_with(b"refs/") {
            return if is_in_own_folder(name) { Scope::Worktree } else { Scope::Shared };
        }
        Self::of_other(name)
    }

    fn of_other(name: &'a BStr) -> Self {
        if is_per_worktree(name) {
            return Scope::Worktree;
        }
        if let Some(rest) = name.strip_prefix(b"main-worktree/").filter(|rest| is_per_worktree(rest.as_bstr())) {
            return Scope::Main(rest.as_bstr());
        }
        match name.strip_prefix(b"worktrees/").and_then(|rest| rest.split_once_str("/")) {
            Some((id, rest)) if !id.is_empty() && is_per_worktree(rest.as_bstr()) => {
                Scope::Other { id: id.as_bstr(), name: rest.as_bstr() }
            }
            _ => Scope::Shared,
        }
    }
}

/// Returns the name by which a worktree itself calls a ref, for any spelling of it. In the linked worktree ID, `HEAD`
/// and `worktrees/ID/HEAD` are the same ref; in the main worktree, `HEAD` and `main-worktree/HEAD` are. `worktree` is
/// the linked worktree's id, or `None` for the main worktree.
#[inline]
pub fn canonical_name<'n>(name: &'n BStr, worktree: Option<&BStr>) -> &'n BStr {
    // Nearly all names take this branch.
    if name.starts_with(b"refs/") {
        return name;
    }
    match (Scope::of(name), worktree) {
        (Scope::Main(plain), None) => plain,
        (Scope::Other { id, name: plain }, Some(own)) if id == own => plain,
        _ => name,
    }
}

/// Returns the name by which other worktrees call a worktree's own ref: `worktrees/ID/HEAD`, or `main-worktree/HEAD` if
/// `worktree` is `None`.
pub fn qualified_name(worktree: Option<&BStr>, name: &BStr) -> Vec<u8> {
    match worktree {
        None => [b"main-worktree/", name.as_bytes()].concat(),
        Some(id) => [b"worktrees/", id.as_bytes(), b"/", name.as_bytes()].concat(),
    }
}

/// Returns whether `name` is `worktrees/ID` without a ref name. Git takes that for the worktree called ID, not for a
/// ref.
pub fn is_worktree_itself(name: &BStr) -> bool {
    name.strip_prefix(b"worktrees/").is_some_and(|id| !id.contains(&b'/'))
}

/// Returns whether each worktree has a ref of this name for itself.
fn is_per_worktree(name: &BStr) -> bool {
    if name.starts_with(b"refs/") { is_in_own_folder(name) } else { is_root_syntax(name) }
}

/// Returns whether `name` lies in one of the folders below `refs/` that each worktree has for itself.
#[inline]
fn is_in_own_folder(name: &BStr) -> bool {
    name.starts_with(b"refs/worktree/") || name.starts_with(b"refs/bisect/") || name.starts_with(b"refs/rewritten/")
}

/// Returns whether `name` is spelt like a ref at the root: upper-case letters, `-` and `_` only. Git accepts such
/// names, except for [pseudo refs](is_pseudo), as refs of a worktree, but lists only [root refs](is_root_ref).
pub fn is_root_syntax(name: &BStr) -> bool {
    !name.is_empty() && name.iter().all(|byte| byte.is_ascii_uppercase() || matches!(byte, b'-' | b'_'))
}

/// Returns whether `name` is one of git's pseudo refs (`FETCH_HEAD`, `MERGE_HEAD`), which look like refs but can hold
/// more than one id. They are files in every format. As in git, refs of these names are not written, except through a
/// symbolic ref that leads to one of them.
pub fn is_pseudo(name: &BStr) -> bool {
    name == "FETCH_HEAD" || name == "MERGE_HEAD"
}

/// Returns whether `name` is a root ref: `HEAD`, a name [spelt like one](is_root_syntax) that ends in `_HEAD` and is
/// not a [pseudo ref](is_pseudo), or one of the few irregular names that git lists.
pub fn is_root_ref(name: &BStr) -> bool {
    const IRREGULAR: [&str; 6] =
        ["HEAD", "AUTO_MERGE", "BISECT_EXPECTED_REV", "MERGE_AUTOSTASH", "NOTES_MERGE_PARTIAL", "NOTES_MERGE_REF"];
    is_root_syntax(name)
        && !is_pseudo(name)
        && (name.ends_with(b"_HEAD") || IRREGULAR.iter().any(|irregular| name == *irregular))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_follow_the_spelling() {
        for shared in [
            "refs/heads/main",
            "refs/bisect",
            "refs/worktrees/x",
            "worktrees/",
            "worktrees/a",
            "main-worktree/",
            // What follows the prefix is no per-worktree ref.
            "main-worktree/refs/heads/main",
            "main-worktree/refs/bisect",
            "main-worktree/foo",
            "main-worktree/main-worktree/HEAD",
            "main-worktree/worktrees/w1/HEAD",
            "worktrees/w1/refs/heads/main",
            "worktrees/w1/foo",
            "worktrees/w1/main-worktree/HEAD",
            "worktrees//HEAD",
        ] {
            assert_eq!(Scope::of(shared.into()), Scope::Shared, "{shared}");
        }
        for own in ["HEAD", "ORIG_HEAD", "refs/bisect/bad", "refs/worktree/x", "refs/rewritten/x"] {
            assert_eq!(Scope::of(own.into()), Scope::Worktree, "{own}");
        }
        for name in ["HEAD", "FOO-BAR", "refs/bisect/bad", "refs/worktree/a/b"] {
            assert_eq!(Scope::of(format!("main-worktree/{name}").as_str().into()), Scope::Main(name.into()));
        }
        assert_eq!(
            Scope::of("worktrees/w1/refs/bisect/bad".into()),
            Scope::Other { id: "w1".into(), name: "refs/bisect/bad".into() }
        );
    }

    #[test]
    fn a_worktree_has_one_name_for_each_of_its_refs() {
        let linked = Some(BStr::new("w1"));
        for (given, in_main, in_linked) in [
            ("HEAD", "HEAD", "HEAD"),
            ("refs/heads/a", "refs/heads/a", "refs/heads/a"),
            ("main-worktree/HEAD", "HEAD", "main-worktree/HEAD"),
            ("main-worktree/refs/bisect/bad", "refs/bisect/bad", "main-worktree/refs/bisect/bad"),
            ("main-worktree/refs/heads/a", "main-worktree/refs/heads/a", "main-worktree/refs/heads/a"),
            ("worktrees/w1/HEAD", "worktrees/w1/HEAD", "HEAD"),
            ("worktrees/w2/HEAD", "worktrees/w2/HEAD", "worktrees/w2/HEAD"),
        ] {
            assert_eq!(canonical_name(given.into(), None), in_main);
            assert_eq!(canonical_name(given.into(), linked), in_linked);
        }
        for worktree in [None, linked] {
            assert_eq!(canonical_name(qualified_name(worktree, "HEAD".into()).as_bstr(), worktree), "HEAD");
        }
        assert!(is_worktree_itself("worktrees/w".into()) && !is_worktree_itself("worktrees/w/HEAD".into()));
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
