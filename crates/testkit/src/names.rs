//! Generates refnames that tend to reveal faults.

use crate::Rng;
use bstr::BString;

/// Returns valid names that careless code mishandles: names with bytes that sort around the slash, names that look
/// like options or revisions, names that are not UTF-8, and long and deep names. They can all exist at the same time.
pub fn nasty() -> Vec<BString> {
    let mut names: Vec<BString> = [
        // '-', '.' and '!' sort before '/', and '0' sorts after it, so a listing folder by folder has another order
        // than one by names.
        "refs/heads/a/b",
        "refs/heads/a-b",
        "refs/heads/a.b",
        "refs/heads/a!b",
        "refs/heads/a0",
        "refs/heads/-x",
        "refs/heads/--stdin",
        "refs/heads/HEAD",
        "refs/heads/@",
        "refs/heads/{x}",
        "refs/heads/x@y",
        "refs/heads/refs/heads/x",
        "refs/heads/lock",
        "refs/heads/x.lock.y",
        "refs/heads/a'b\"c$d`e;f&g|h<i>j(k)l%m#n",
        "refs/heads/0000000000000000000000000000000000000000",
        "refs/heads/ünï/cödé/漢字",
        "refs/changes/01/1/1",
        "refs/changes/01/1/meta",
        "refs/tags/v1.0",
        "refs/notes/commits",
        "refs/stash",
        "refs/x/1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/17/18/19/20/21/22/23/24/25",
    ]
    .map(BString::from)
    .into();
    names.push(b"refs/heads/\x80\xfe\xff".into());
    // The longest component for which the file name with ".lock" is not too long.
    names.push(format!("refs/heads/{}", "n".repeat(250)).into());
    names.push(format!("refs/heads/{}end", "deep/".repeat(60)).into());
    names.sort();
    names
}

/// Returns names that `git check-ref-format` rejects.
pub fn invalid() -> Vec<BString> {
    let mut names: Vec<BString> = [
        "",
        "@",
        "/",
        "refs/heads/",
        "/refs/heads/x",
        "refs//x",
        "refs/heads/.x",
        "refs/heads/x.",
        "refs/heads/x.lock",
        "refs/heads/x.lock/y",
        "refs/heads/a..b",
        "refs/heads/a b",
        "refs/heads/a~b",
        "refs/heads/a^b",
        "refs/heads/a:b",
        "refs/heads/a?b",
        "refs/heads/a*b",
        "refs/heads/a[b",
        "refs/heads/a\\b",
        "refs/heads/a@{b",
        "refs/heads/a\nb",
        "refs/heads/a\tb",
        "refs/heads/a\x7f",
        "refs/../x",
        "refs/./x",
    ]
    .map(BString::from)
    .into();
    names.push(b"refs/heads/a\0b".into());
    names
}

/// Returns a name from a small family in which many pairs conflict, because one is a folder of the other.
pub fn quarrelsome(rng: &mut Rng) -> BString {
    let mut name = BString::from("refs/heads");
    for _ in 0..=rng.below(3) {
        name.extend_from_slice(rng.pick(&["/a", "/b", "/c", "/a-", "/a0", "/lock"]).as_bytes());
    }
    name
}
