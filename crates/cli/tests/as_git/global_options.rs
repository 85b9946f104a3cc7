//! What stands before the command, beside git's.

use crate::common::{Folder, same};
use refdb_testkit::{RefFormat, Repo};
use refdb_types::HashKind;

#[test]
fn repositories_are_found_and_refused_as_git_does() {
    let repo = Repo::with_worktree(RefFormat::Files, HashKind::Sha1);
    let commits = repo.commits(1);
    repo.create_refs([("refs/heads/main", commits[0])]);
    std::fs::create_dir(repo.dir().join("below")).unwrap();
    for words in [
        &["-C", "below", "show-ref"][..],
        &["-C", "below", "-C", "..", "show-ref"],
        &["-C", "", "show-ref"],
        &["-C", "none", "show-ref"],
        &["--git-dir", ".git", "show-ref"],
        &["--git-dir=.git", "show-ref"],
        &["--git-dir=none", "show-ref"],
        &["-C", ".git", "--bare", "show-ref"],
        &["-c", "core.warnAmbiguousRefs=false", "for-each-ref", "--format=%(refname:short)"],
        &["-c", "a", "show-ref"],
        &["-c", "=b", "show-ref"],
        &["--config-env=x", "show-ref"],
        &["--config-env=x.y=REFDB_NO_SUCH", "show-ref"],
        &["--no-pager", "-P", "-p", "--no-replace-objects", "--literal-pathspecs", "show-ref"],
        &["--namespace=n", "show-ref"],
        &["--work-tree=below", "show-ref"],
    ] {
        same(repo.dir(), words, b"");
    }
    let outside = Folder::outside();
    for command in ["show-ref", "update-ref", "symbolic-ref", "for-each-ref", "pack-refs"] {
        outside.same(&[command]);
        outside.same(&[command, "--foo"]);
        outside.same(&[command, "-h"]);
    }
}
