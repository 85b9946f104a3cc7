//! Compares `refdb check-ref-format` with git's.

use crate::common::{Folder, same};
use refdb_testkit::{RefFormat, Repo};
use refdb_types::HashKind;

#[test]
fn names_are_judged_as_git_judges_them() {
    let repo = Folder::outside();
    let names = [
        "",
        "/",
        "a",
        "a/b",
        "foo/bar/baz",
        "refs///heads/foo",
        "heads/foo/",
        "/heads/foo",
        "///heads/foo",
        "./foo",
        "foo/./bar",
        "foo/bar/.",
        ".refs/foo",
        "refs/heads/foo.",
        "heads/foo..bar",
        "heads/foo?bar",
        "foo./bar",
        "heads/foo.lock",
        "heads///foo.lock",
        "foo.lock/bar",
        "heads/foo@bar",
        "heads/v@{ation",
        "heads/foo\\bar",
        "heads/foo\t",
        "heads/foo\u{7f}",
        "heads/fu\u{df}",
        "heads/*foo/bar",
        "heads/f*o*/bar",
        "*",
        "*/foo",
        "foo/*/*",
        "@",
        "a/@",
        "-x",
        "--",
        "HEAD",
        "refs/heads/-x",
        "a b",
    ];
    let options: [&[&str]; 12] = [
        &[],
        &["--allow-onelevel"],
        &["--no-allow-onelevel"],
        &["--refspec-pattern"],
        &["--normalize"],
        &["--print"],
        &["--refspec-pattern", "--allow-onelevel", "--normalize"],
        &["--allow-onelevel", "--no-allow-onelevel", "--print"],
        &["--branch"],
        &["--branch", "--normalize"],
        &["--nonsense"],
        &["--norm"],
    ];
    for name in names {
        for options in options {
            let words = [&["check-ref-format"], options, &[name]].concat();
            repo.same(&words);
        }
    }
}

#[test]
fn wrong_use_ends_as_in_git() {
    let repo = Folder::outside();
    for words in [
        &["-h"][..],
        &[],
        &["a/b", "c/d"],
        &["--branch"],
        &["a/b", "--normalize"],
        &["-h", "a/b"],
        &["--branch", "a", "b"],
    ] {
        repo.same(&[&["check-ref-format"], words].concat());
    }
}

/// Regression: text after `@{-N}`, blanks and a sign before N, and entries that name no branch were not understood.
#[test]
fn a_branch_name_may_begin_with_what_was_checked_out_before() {
    let repo = Repo::with_worktree(RefFormat::Files, HashKind::Sha1);
    repo.create_refs([("refs/heads/main", repo.commit()), ("refs/heads/bar", repo.commit())]);
    repo.git(["checkout", "-q", "bar"]);
    repo.git(["checkout", "-q", "main"]);
    let log = repo.git_dir().join("logs/HEAD");
    let entries = std::fs::read_to_string(&log).unwrap();
    let (who, _) = entries.lines().last().unwrap().split_once('\t').unwrap();
    for more in ["", "moving from nowhere", "moving from a to b to c", "moving from  to c", "moving from q to "] {
        let more = if more.is_empty() { String::new() } else { format!("{who}\tcheckout: {more}\n") };
        std::fs::write(&log, format!("{entries}{more}")).unwrap();
        for name in [
            "@{-1}",
            "@{-1}x",
            "@{-2}x",
            "@{-9}x",
            "x@{-1}",
            "@{-1}/y",
            "@{-1}~1",
            "@{-1}@{-1}",
            "@{-0}",
            "@{-01}",
            "@{-+1}",
            "@{- 1}",
            "@{-1 }",
            "@{-}",
            "@{--1}",
            "@{-1x}",
            "@{-1",
            "@{-1}.lock",
        ] {
            same(repo.dir(), &["check-ref-format", "--branch", name], b"");
        }
    }
}
