//! Compares `refdb refs` with git's.

use crate::common::{Folder, Twins, refdb, same};
use refdb_testkit::{RefFormat, Repo, files_below};
use refdb_types::HashKind;
use std::fs;

fn set_up(repo: &Repo) {
    let commits = repo.commits(3);
    let tag = repo.tag_object(commits[0], "v1");
    repo.create_refs([
        ("refs/heads/main", commits[2]),
        ("refs/heads/a/main", commits[1]),
        ("refs/tags/v1", tag),
        ("refs/tags/light", commits[1]),
    ]);
    repo.git(["symbolic-ref", "refs/heads/link", "refs/heads/a/main"]);
    repo.git(["symbolic-ref", "refs/heads/dangling", "refs/heads/none"]);
}

fn repo(format: RefFormat, hash: HashKind) -> Repo {
    let repo = Repo::with_worktree(format, hash);
    set_up(&repo);
    repo
}

const LINES: &[&[&str]] = &[
    &["exists"],
    &["exists", "refs/heads/main"],
    &["exists", "refs/heads/dangling"],
    &["exists", "HEAD"],
    &["exists", "main"],
    &["exists", "refs/heads"],
    &["exists", "refs/heads/main", "refs/heads/link"],
    &["exists", "refs/heads/none"],
    &["exists", "bad..name"],
    &["exists", "--", "refs/heads/main"],
    &["exists", "--foo"],
    &["exists", "-x"],
    &["exists", "-h"],
    &["exists", "-h", "x"],
    &["exists", "--help-all"],
    &["exists", "--git-completion-helper"],
    &["list"],
    &["list", "-h"],
    &["list", "--foo"],
    &["list", "--count=1", "refs/tags/"],
    &["list", "--count=-1"],
    &["list", "--shell", "--perl"],
    &["list", "--format=%(objectname:short) %(refname)", "--sort=-refname", "--include-root-refs"],
    &["list", "--format=%(refname"],
    &["list", "--git-completion-helper"],
    &["optimize", "-h"],
    &["optimize", "--foo"],
    &["optimize", "x"],
];

#[test]
fn exists_list_and_wrong_use_are_answered_as_git_does() {
    for format in RefFormat::ALL {
        for hash in [HashKind::Sha1, HashKind::Sha256] {
            let repo = repo(format, hash);
            for line in LINES {
                same(repo.dir(), &[&["refs"], *line].concat(), b"");
            }
        }
    }
}

#[test]
fn outside_a_repository_only_a_lone_h_is_answered() {
    let folder = Folder::outside();
    for line in [&["list"][..], &["list", "-h"], &["exists", "-h"], &["foo"], &["--foo"], &[]] {
        folder.same(&[&["refs"], line].concat());
    }
    let shown = refdb(repo(RefFormat::Files, HashKind::Sha1).dir(), &["refs", "-h"], b"");
    assert_eq!(shown.status.code(), Some(129));
}

/// Only the exit code and the first line of stderr are compared, because the usage lists refdb's own subcommands.
#[test]
fn a_word_that_is_no_subcommand_is_told_as_git_tells_it() {
    let repo = repo(RefFormat::Files, HashKind::Sha1);
    for (words, message) in [
        (&[][..], "error: need a subcommand"),
        (&["foo"], "error: unknown subcommand: `foo'"),
        (&["lis"], "error: unknown subcommand: `lis'"),
        (&["--foo"], "error: unknown option `foo'"),
        (&["-x"], "error: unknown switch `x'"),
        (&["--", "list"], "error: need a subcommand"),
    ] {
        let words = [&["refs"], words].concat();
        let first_line = |bytes: &[u8]| String::from_utf8_lossy(bytes).lines().next().unwrap_or_default().to_owned();
        for said in [refdb(repo.dir(), &words, b""), crate::common::git(repo.dir(), &words, b"")] {
            assert_eq!((first_line(&said.stderr).as_str(), said.status.code()), (message, Some(129)), "{words:?}");
        }
    }
}

#[test]
fn optimizing_packs_as_pack_refs_does() {
    for format in RefFormat::ALL {
        for words in [&["--all"][..], &[], &["--all", "--no-prune"], &["--auto"], &["--include", "refs/heads/m*"]] {
            let twins = Twins::new(format, &set_up);
            twins.same(&[&["refs", "optimize"], words].concat(), b"");
            if format == RefFormat::Files {
                let packed = |repo: &Repo| fs::read_to_string(repo.git_dir().join("packed-refs")).unwrap_or_default();
                let loose = |repo: &Repo| files_below(&repo.git_dir().join("refs"));
                assert_eq!(packed(&twins.git), packed(&twins.refdb), "{words:?}");
                assert_eq!(loose(&twins.git), loose(&twins.refdb), "{words:?}");
            }
        }
    }
}

#[test]
fn a_dry_run_says_what_would_be_packed_and_changes_nothing() {
    let repo = repo(RefFormat::Files, HashKind::Sha1);
    let files = |repo: &Repo| files_below(repo.git_dir());
    let before = files(&repo);
    let told = |words: &[&str]| {
        let output = refdb(repo.dir(), &[&["refs", "optimize", "--dry-run"], words].concat(), b"");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let all = "would pack refs/heads/a/main\nwould pack refs/heads/main\nwould pack refs/tags/light\n\
               would pack refs/tags/v1\nwould rewrite packed-refs\n";
    assert_eq!(told(&["--all"]), all);
    assert_eq!(told(&["--all", "--exclude", "refs/heads/*"]), told(&[]));
    assert_eq!(told(&["--auto"]), "", "it is not worth while");
    assert_eq!(files(&repo), before);
    assert!(refdb(repo.dir(), &["refs", "optimize", "--all"], b"").status.success());
    assert_eq!(told(&["--all"]), "", "all is packed");
}

#[test]
fn a_dry_run_names_the_tables_that_would_be_compacted() {
    let repo = Repo::with_worktree(RefFormat::Reftable, HashKind::Sha1);
    repo.git(["config", "reftable.geometricFactor", "2"]);
    let id = repo.commit();
    for name in ["a", "b", "c"] {
        let mut git = repo.command(refdb_testkit::Git::find().program());
        git.env("GIT_TEST_REFTABLE_AUTOCOMPACTION", "false");
        assert!(git.args(["update-ref", &format!("refs/heads/{name}"), &id.to_string()]).status().unwrap().success());
    }
    let list = || fs::read_to_string(repo.git_dir().join("reftable/tables.list")).unwrap();
    let before = list();
    assert!(before.lines().count() > 2, "{before}");
    let told = || {
        let output = refdb(repo.dir(), &["refs", "optimize", "--dry-run"], b"");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let expected: String = before.lines().map(|name| format!("would compact {name}\n")).collect();
    assert_eq!((told(), list()), (expected, before));
    assert!(refdb(repo.dir(), &["refs", "optimize"], b"").status.success());
    assert_eq!((told(), list().lines().count()), (String::new(), 1));
}

#[test]
fn a_name_too_long_for_a_file_cannot_be_looked_up() {
    for format in RefFormat::ALL {
        let repo = Repo::with_worktree(format, HashKind::Sha1);
        for name in [format!("refs/heads/{}", "x".repeat(300)), format!("refs/{}z", "y/".repeat(2500))] {
            same(repo.dir(), &["refs", "exists", &name], b"");
            same(repo.dir(), &["show-ref", "--exists", &name], b"");
        }
    }
}

#[test]
fn a_repository_that_is_named_is_migrated_whoever_owns_it() {
    let mut twins = Twins::new(RefFormat::Files, &|repo| repo.create_refs([("refs/heads/main", repo.commit())]));
    twins.environment = vec![("GIT_DIR", ".git".into()), ("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1".into())];
    twins.same(&["refs", "migrate", "--ref-format=reftable"], b"");
    twins.same(&["refs", "migrate", "--ref-format=reftable"], b"");
}
