//! Expands a partial name to the full names that it may stand for, in gix-ref's order.

use bstr::{BStr, BString, ByteSlice};
use gix_ref::PartialNameRef;

/// Returns the full names to try, in order of priority: `main` may be `refs/tags/main` or `refs/heads/main`.
pub(crate) fn candidates(partial: &PartialNameRef) -> Vec<BString> {
    let name = partial.as_bstr();
    let full = [&b"refs/"[..], b"main-worktree/", b"worktrees/"].iter().any(|prefix| name.starts_with(prefix));
    if full {
        return vec![name.to_owned()];
    }
    let root = is_root_name(name).then(|| name.to_owned());
    let below =
        ["refs/", "refs/tags/", "refs/heads/", "refs/remotes/"].map(|prefix| [prefix.as_bytes(), name].concat());
    let head = (name != "HEAD").then(|| [b"refs/remotes/", name.as_bytes(), b"/HEAD"].concat());
    root.into_iter().chain(below.into_iter().chain(head).map(BString::from)).collect()
}

fn is_root_name(name: &BStr) -> bool {
    name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partial_name_is_tried_in_the_order_of_git() {
        let tried = |name: &str| -> Vec<String> {
            candidates(name.try_into().unwrap()).iter().map(ToString::to_string).collect()
        };
        assert_eq!(tried("refs/heads/a"), ["refs/heads/a"]);
        assert_eq!(tried("worktrees/w/HEAD"), ["worktrees/w/HEAD"]);
        assert_eq!(tried("a"), ["refs/a", "refs/tags/a", "refs/heads/a", "refs/remotes/a", "refs/remotes/a/HEAD"]);
        assert_eq!(tried("HEAD"), ["HEAD", "refs/HEAD", "refs/tags/HEAD", "refs/heads/HEAD", "refs/remotes/HEAD"]);
        assert_eq!(tried("ORIG_HEAD").first().map(String::as_str), Some("ORIG_HEAD"));
    }
}
