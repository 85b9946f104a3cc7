//! Compares `refdb check-ref-format` with git's.

use crate::common::Folder;

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
