//! Compares `refdb tag --list` with git's. Nearly everything else that git-tag does is delegated to git.

use crate::common::{Twins, refdb_with, same};
use refdb_testkit::{RefFormat, Repo};
use refdb_types::HashKind;

fn repo(format: RefFormat, hash: HashKind) -> Repo {
    let repo = Repo::with_worktree(format, hash);
    let commits = repo.commits(4);
    let tag = repo.tag_object(commits[0], "v1");
    let blob = repo.blob("text");
    repo.create_refs([
        ("refs/heads/main", commits[3]),
        ("refs/tags/v1", tag),
        ("refs/tags/v1.10", commits[1]),
        ("refs/tags/v1.9", commits[2]),
        ("refs/tags/v1.9-rc1", commits[2]),
        ("refs/tags/dir/V2", commits[3]),
        ("refs/tags/blob", blob),
        ("refs/tags/nested", repo.tag_object(tag, "nested")),
        ("refs/tags/\u{6f22}\u{5b57}", commits[3]),
    ]);
    let long =
        format!("object {}\ntype commit\ntag long\ntagger T <t@x> 1 +0000\n\n{}", commits[0], "line\n".repeat(50_000));
    let long = repo.git_with_input(["hash-object", "-w", "-t", "tag", "--stdin"], long);
    repo.git(["update-ref", "refs/tags/long", &long]);
    repo
}

const LINES: &[&[&str]] = &[
    &[],
    &["-l"],
    &["--list", "v*"],
    &["v*", "-l", "blob"],
    &["-l", "V*"],
    &["-il", "V*"],
    &["-l", "*"],
    &["-l", "v1"],
    &["-l", "dir"],
    &["-n"],
    &["-n3"],
    &["-n0"],
    &["-n", "v1"],
    &["-nx"],
    &["-n-1"],
    &["-n99999999999"],
    &["-n2k", "long"],
    &["--sort=-v:refname"],
    &["--sort=objectname", "--sort=-objecttype"],
    &["--sort=-creatordate"],
    &["--no-sort"],
    &["--sort=foo"],
    &["--sort"],
    &["--format=%(refname) %(objecttype) %(HEAD)"],
    &["--format=%(contents:lines=2)|%(trailers)", "-l", "v1"],
    &["--format=%(foo)"],
    &["--format=%(refname"],
    &["--format=%(rest)"],
    &["--format=%(is-base:main)%(refname)"],
    &["--format=%(color:red)%(refname)"],
    &["--format=%(color:red)%(refname)", "--color"],
    &["--format=%(color:red)%(refname)", "--color=never"],
    &["--color=foo"],
    &["--omit-empty", "--format=%(symref)"],
    &["--contains"],
    &["--contains", "v1.9"],
    &["--contains=nothing"],
    &["--no-contains", "v1.9"],
    &["--merged", "v1.9"],
    &["--no-merged=v1.9"],
    &["--merged=blob"],
    &["--points-at"],
    &["--points-at", "v1"],
    &["--points-at=v1.9", "v1*"],
    &["--no-points-at"],
    &["--column"],
    &["--column=row,dense"],
    &["--column=plain"],
    &["--column=foo"],
    &["--column", "-n"],
    &["--column", "--format=%(foo)"],
    &["--no-column"],
    &["--li"],
    &["--no-list"],
    &["--foo"],
    &["-h"],
    &["-d", "none"],
    &["-l", "-d", "v1"],
    &["-v", "none"],
    &["--end-of-options"],
    &["--"],
];

#[test]
fn tags_are_listed_as_git_lists_them() {
    for (format, hash) in Repo::KINDS {
        let repo = repo(format, hash);
        repo.git(["pack-refs", "--all"]);
        for words in LINES {
            same(repo.dir(), &[&["tag"], *words].concat(), b"");
        }
    }
}

#[test]
fn settings_of_lists_are_heard() {
    let repo = repo(RefFormat::Files, HashKind::Sha1);
    for setting in [
        "tag.sort=-v:refname",
        "tag.sort=foo",
        "tag.sort",
        "versionsort.suffix=-rc",
        "color.ui=always",
        "color.ui=never",
        "color.ui=foo",
        "column.ui=always",
        "column.ui=auto",
        "column.tag=row",
        "column.tag=bad",
        "core.abbrev=5",
    ] {
        for words in [
            &["tag"][..],
            &["tag", "-n", "v1*"],
            &["tag", "--sort=objectname"],
            &["tag", "--sort=version:refname", "--no-column"],
            &["tag", "--format=%(color:red)%(objectname:short)"],
        ] {
            same(repo.dir(), &[&["-c", setting], words].concat(), b"");
        }
    }
}

/// Previously, refdb printed the warning before it delegated a mistake to git, which prints the warning itself.
#[test]
fn an_ambiguous_name_is_warned_of_no_more_often_than_by_git() {
    let repo = repo(RefFormat::Files, HashKind::Sha1);
    repo.git(["update-ref", "refs/heads/v1", "refs/tags/v1.9"]);
    for line in [
        &["tag", "--points-at=v1"][..],
        &["-c", "color.ui=bogus", "tag", "--points-at=v1"],
        &["tag", "--points-at=v1", "--color=bogus"],
        &["tag", "--points-at=v1", "--column=bogus"],
        &["tag", "--points-at=v1", "--column", "-n"],
        &["-c", "color.branch=bogus", "branch", "--contains=v1"],
        &["branch", "--contains=v1", "--column", "-v"],
        &["branch", "--contains=v1", "--color=bogus"],
    ] {
        same(repo.dir(), line, b"");
    }
}

#[test]
fn what_is_no_list_is_left_to_git_before_anything_is_done() {
    for format in RefFormat::ALL {
        let twins = Twins::new(format, &|repo| repo.create_refs([("refs/heads/main", repo.commit())]));
        for words in [
            &["tag", "made"][..],
            &["tag", "-a", "-m", "text", "noted"],
            &["tag", "made"],
            &["tag", "-f", "made", "HEAD"],
            &["--no-pager", "--literal-pathspecs", "tag", "more"],
            &["-c", "core.logAllRefUpdates=always", "tag", "logged"],
            &["-C", ".", "tag", "-d", "made"],
            &["tag", "-l"],
        ] {
            twins.same(words, b"");
        }
    }
}

/// The git that refdb calls is refdb again, as in a folder for GIT_EXEC_PATH that is set up wrongly.
#[test]
fn a_git_that_leads_back_is_noticed() {
    let repo = Repo::with_worktree(RefFormat::Files, HashKind::Sha1);
    let output = refdb_with(repo.dir(), ("REFDB_GIT", env!("CARGO_BIN_EXE_refdb")), &["tag", "made"]);
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.ends_with(" tag' leads back to refdb: set REFDB_GIT to the path of the real git\n"), "{told}");
    assert_eq!(output.status.code(), Some(128));
}

#[test]
fn broken_tags_are_warned_of_and_others_listed() {
    let repo = repo(RefFormat::Files, HashKind::Sha1);
    let tags = repo.git_dir().join("refs/tags");
    std::fs::write(tags.join("broken"), "text\n").unwrap();
    for words in [&["tag"][..], &["tag", "-n"], &["tag", "-l", "v*"], &["tag", "--contains", "main"]] {
        same(repo.dir(), words, b"");
    }
    std::fs::write(tags.join("broken"), "1".repeat(40) + "\n").unwrap();
    for words in [&["tag"][..], &["tag", "-n"], &["tag", "-n1", "v1"], &["tag", "--merged", "main"]] {
        same(repo.dir(), words, b"");
    }
}

#[test]
fn a_list_ends_at_a_setting_that_git_stops_at() {
    let repo = repo(RefFormat::Files, HashKind::Sha1);
    let settings = [
        "tag.gpgSign=x",
        "tag.forceSignAnnotated=x",
        "core.abbrev=x",
        "core.abbrev=3",
        "core.abbrev=99",
        "core.abbrev=no",
        "color.branch=x",
        "color.branch.current=x",
        "color.ui=x",
        "column.ui=x",
        "column.branch=x",
        "column.tag=x",
        "branch.sort=x",
        "tag.sort=x",
    ];
    for setting in settings {
        for command in [&["tag"][..], &["branch"], &["branch", "--show-current"], &["branch", "-v"]] {
            same(repo.dir(), &[&["-c", setting], command].concat(), b"");
        }
    }
    same(repo.dir(), &["-c", "color.branch.local=x", "-c", "color.branch.local=red", "branch"], b"");
}
