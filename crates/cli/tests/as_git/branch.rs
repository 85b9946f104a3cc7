//! Compares `refdb branch --list` with git's. Nearly everything else that git-branch does is delegated to git.

use crate::common::{Twins, refdb, same, same_with};
use refdb_testkit::{RefFormat, Repo};
use refdb_types::HashKind;
use std::path::{Path, PathBuf};

const CONFIG: &str = r#"
[remote "origin"]
    url = /nowhere
    fetch = +refs/heads/*:refs/remotes/origin/*
[branch "main"]
    remote = origin
    merge = refs/heads/old
[branch "feature"]
    remote = origin
    merge = refs/heads/gone
[branch "same"]
    remote = .
    merge = refs/heads/main
"#;

/// Creates a repository with branches of all kinds and a second worktree.
fn repo(format: RefFormat, hash: HashKind) -> (Repo, PathBuf) {
    let repo = Repo::with_worktree(format, hash);
    let commits = repo.commits(4);
    repo.create_refs([
        ("refs/heads/main", commits[3]),
        ("refs/heads/feature", commits[2]),
        ("refs/heads/same", commits[3]),
        ("refs/heads/Upper", commits[0]),
        ("refs/heads/other/long-name", commits[1]),
        ("refs/heads/\u{6f22}\u{5b57}", commits[1]),
        ("refs/remotes/origin/main", commits[3]),
        ("refs/remotes/origin/old", commits[1]),
        ("refs/tags/v1", repo.tag_object(commits[1], "v1")),
        ("refs/notes/x", commits[0]),
    ]);
    repo.git(["symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/main"]);
    repo.git(["symbolic-ref", "refs/heads/sym", "refs/heads/feature"]);
    repo.git(["reset", "-q", "--hard"]);
    let tree = repo.scratch().join("tree");
    repo.git(["worktree", "add", "-q", tree.to_str().unwrap(), "feature"]);
    let config = repo.git_dir().join("config");
    std::fs::write(&config, std::fs::read_to_string(&config).unwrap() + CONFIG).unwrap();
    (repo, tree)
}

const LINES: &[&[&str]] = &[
    &[],
    &["-a"],
    &["-r"],
    &["-a", "-r"],
    &["-v"],
    &["-vv"],
    &["-avv"],
    &["-rv"],
    &["-rvv"],
    &["--color"],
    &["--color", "-avv"],
    &["--color", "-rv"],
    &["--color=never"],
    &["--color=x"],
    &["-v", "--abbrev=4"],
    &["-v", "--no-abbrev"],
    &["-av", "--abbrev=0"],
    &["-v", "--abbrev=99"],
    &["-v", "--abbrev=x"],
    &["-v", "--no-verbose"],
    &["--list", "f*", "main"],
    &["--list", "*/*", "-a"],
    &["-i", "--list", "u*"],
    &["--list", "u*"],
    &["--list", "H*"],
    &["-v", "--list", "m*"],
    &["feature", "--list"],
    &["--show-current"],
    &["--show-current", "--list"],
    &["--format=%(refname)"],
    &["-a", "--format=%(refname:short)|%(HEAD)|%(objectname:short)|%(symref)|%(worktreepath)|%(upstream)|%(flag)"],
    &["--format=%(refname:lstrip=1)|%(refname:rstrip=1)|%(*refname)|%(is-base:main)|%(ahead-behind:main)"],
    &["--format=%(color:red)%(refname)", "--color"],
    &["--format=%(foo)"],
    &["--format=%(foo"],
    &["--format=%(rest)"],
    &["--omit-empty", "--format=%(symref)"],
    &["--sort=-refname"],
    &["-a", "--sort=objectname"],
    &["--sort=-committerdate", "--sort=HEAD"],
    &["-i", "--sort=refname"],
    &["--sort=foo"],
    &["--no-sort"],
    &["--contains"],
    &["--contains", "v1"],
    &["-a", "--no-contains", "v1"],
    &["--merged"],
    &["--merged", "v1"],
    &["-r", "--no-merged=v1"],
    &["--points-at", "main"],
    &["--points-at"],
    &["--contains=nothing"],
    &["--merged=nothing"],
    &["--points-at=nothing"],
    &["--contains", "main", "f*"],
    &["--column"],
    &["--column", "-a"],
    &["--column=row,dense", "-a"],
    &["--column=foo"],
    &["--column", "-v"],
    &["--no-column"],
    &["-l", "--no-list"],
    &["-q"],
    &["-t"],
    &["-f"],
    &["--li"],
    &["--rem"],
    &["--foo"],
    &["-h"],
    &["-d", "none"],
    &["--"],
    &["--list", "--", "m*"],
];

/// Command lines that are compared in other worktrees and repositories too, and with odd HEADs.
const FEW: &[&[&str]] = &[
    &[],
    &["-vv"],
    &["--color", "-av"],
    &["--show-current"],
    &["-a", "--format=%(refname) %(HEAD) %(objectname)"],
    &["--sort=-objectname"],
    &["--list", "H*", "h*"],
    &["-i", "--list", "h*"],
    &["--contains", "main"],
    &["--points-at=HEAD"],
    &["--column", "-a"],
    &["-r"],
];

fn same_few(folder: &Path) {
    for words in FEW {
        same(folder, &[&["branch"], *words].concat(), b"");
    }
}

#[test]
fn branches_are_listed_as_git_lists_them() {
    for (format, hash) in Repo::KINDS {
        let (repo, tree) = repo(format, hash);
        for words in LINES {
            same(repo.dir(), &[&["branch"], *words].concat(), b"");
        }
        same_few(&tree);
        let bare = repo.scratch().join("bare.git");
        repo.git(["clone", "-q", "--bare", ".", bare.to_str().unwrap()]);
        same_few(&bare);
    }
}

#[test]
fn settings_of_lists_are_heard() {
    let (repo, _) = repo(RefFormat::Files, HashKind::Sha1);
    for setting in [
        "branch.sort=-refname",
        "branch.sort=foo",
        "branch.sort",
        "branch.autosetuprebase=garbage",
        "branch.autosetupmerge=inherit",
        "color.ui=always",
        "color.ui=foo",
        "color.branch=always",
        "color.branch=false",
        "color.branch.current=bold blue",
        "color.branch.current=bad",
        "color.branch.worktree=yellow",
        "color.branch.reset=bold",
        "column.ui=always",
        "column.branch=always,dense",
        "column.branch=bad",
        "core.abbrev=12",
    ] {
        for words in [&["branch"][..], &["branch", "-av"], &["-c", "color.ui=always", "branch", "-vv"]] {
            same(repo.dir(), &[&["-c", setting], words].concat(), b"");
        }
    }
    for width in ["20", "60", "200"] {
        same_with(repo.dir(), ("COLUMNS", width), &["branch", "-a", "--column"]);
    }
}

#[test]
fn a_head_that_is_no_branch_is_described_as_in_git() {
    for format in RefFormat::ALL {
        let (repo, _) = repo(format, HashKind::Sha1);
        let commit = repo.rev_parse("v1^{commit}");
        repo.create_refs([("refs/heads/twice", commit), ("refs/tags/twice", commit)]);
        let steps: &[&[&str]] = &[
            &["checkout", "-q", "--detach"],
            &["checkout", "-q", "v1"],
            &["checkout", "-q", "main"],
            &["checkout", "-q", "origin/old"],
            &["commit", "-q", "--allow-empty", "-m", "x"],
            &["checkout", "-q", "HEAD~1"],
            &["checkout", "-q", "--detach", "main"],
            &["update-ref", "--no-deref", "HEAD", "main~1"],
            // This message does not say what was checked out.
            &["update-ref", "--no-deref", "-m", "checkout: moving from here", "HEAD", "main"],
            &["checkout", "-q", "main"],
            &["checkout", "-q", "--detach", "refs/heads/twice"],
            &["tag", "-f", "v1", "main"],
        ];
        for step in steps {
            repo.git(*step);
            same_few(repo.dir());
        }
        // Without HEAD's reflog, git cannot tell what HEAD was detached from.
        repo.git(["reflog", "expire", "--expire=all", "HEAD"]);
        same_few(repo.dir());
    }
}

#[test]
fn a_rebase_and_a_bisection_are_told() {
    for format in RefFormat::ALL {
        let (repo, _) = repo(format, HashKind::Sha1);
        let write = |text: &str| std::fs::write(repo.dir().join("file"), text).unwrap();
        for (branch, text) in [("main", "one\n"), ("same", "two\n")] {
            repo.git(["checkout", "-q", branch]);
            write(text);
            repo.git(["add", "file"]);
            repo.git(["commit", "-q", "-m", text]);
        }
        for start in [&["checkout", "-q", "same"][..], &["checkout", "-q", "--detach", "same"]] {
            for how in ["--merge", "--apply"] {
                repo.git(start);
                assert!(!repo.try_git(["rebase", how, "main"], "").status.success());
                same_few(repo.dir());
                repo.git(["rebase", "--abort"]);
            }
            repo.git(["bisect", "start", "HEAD", "HEAD~3"]);
            same_few(repo.dir());
            repo.git(["bisect", "reset"]);
        }
    }
}

#[test]
fn odd_heads_and_odd_branches_are_treated_as_in_git() {
    for format in RefFormat::ALL {
        let (repo, _) = repo(format, HashKind::Sha1);
        for target in ["refs/heads/unborn", "refs/tags/v1", "refs/heads/sym", "refs/heads/main"] {
            repo.git(["symbolic-ref", "HEAD", target]);
            same_few(repo.dir());
        }
        let latin = repo.git_with_input(
            ["hash-object", "-w", "-t", "commit", "--stdin"],
            [
                format!("tree {}\n", repo.rev_parse("main^{tree}")).as_bytes(),
                b"author A <a@x> 1 +0000\ncommitter A <a@x> 1 +0000\nencoding ISO-8859-1\n\nm\xe9ssage\n",
            ]
            .concat(),
        );
        repo.git(["update-ref", "refs/heads/latin", &latin]);
        repo.git_with_input(
            ["update-ref", "--stdin"],
            [b"create refs/heads/bad\xff ".as_slice(), latin.as_bytes(), b"\n"].concat(),
        );
        for encoding in ["UTF-8", "ISO-8859-1"] {
            let setting = format!("i18n.logOutputEncoding={encoding}");
            same(repo.dir(), &["-c", &setting, "branch", "-v"], b"");
        }
        same_few(repo.dir());
        if format == RefFormat::Files {
            let heads = repo.git_dir().join("refs/heads");
            std::fs::write(heads.join("broken"), "text\n").unwrap();
            std::fs::write(heads.join("blob"), format!("{}\n", repo.blob("text"))).unwrap();
            same_few(repo.dir());
            std::fs::write(heads.join("gone"), "1".repeat(40) + "\n").unwrap();
            same_few(repo.dir());
            std::fs::write(repo.git_dir().join("HEAD"), "text\n").unwrap();
            same_few(repo.dir());
        }
    }
}

/// Regression: such a worktree was not seen, so that a push moved its branch, a migration lost its refs, and
/// `refs verify` passed over it.
#[test]
fn a_worktree_whose_entry_is_a_symbolic_link_is_a_worktree() {
    for format in RefFormat::ALL {
        let (repo, tree) = repo(format, HashKind::Sha1);
        let entries = repo.git_dir().join("worktrees");
        let entry = std::fs::read_dir(&entries).unwrap().next().unwrap().unwrap().path();
        let elsewhere = repo.scratch().join("entry");
        std::fs::rename(&entry, &elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &entry).unwrap();
        // A relative path in `commondir` would lead elsewhere from the new place of the entry.
        std::fs::write(elsewhere.join("commondir"), repo.git_dir().to_str().unwrap()).unwrap();
        let tree = tree.to_str().unwrap();
        repo.git(["-C", tree, "update-ref", "refs/worktree/kept", "HEAD"]);
        same(repo.dir(), &["branch"], b"");
        same(repo.dir(), &["for-each-ref", "--format=%(refname) %(worktreepath)"], b"");
        let list = || repo.git(["-C", tree, "for-each-ref", "--include-root-refs"]);
        let before = list();
        assert!(before.contains("refs/worktree/kept"), "{before}");
        let (other, broken) = match format {
            RefFormat::Files => ("reftable", "reftable/tables.list"),
            RefFormat::Reftable => ("files", "refs/worktree/bad"),
        };
        // Git does not migrate repositories with worktrees.
        refdb(repo.dir(), &["refs", "migrate", &format!("--ref-format={other}")], b"");
        assert_eq!(list(), before);
        let broken = elsewhere.join(broken);
        std::fs::write(broken, "bad\n").unwrap();
        same(repo.dir(), &["refs", "verify"], b"");
    }
}

#[test]
fn a_repository_without_commits_has_no_branches() {
    for format in RefFormat::ALL {
        let repo = Repo::with_worktree(format, HashKind::Sha1);
        same_few(repo.dir());
        same(repo.dir(), &["tag"], b"");
        same(repo.scratch(), &["branch"], b"");
    }
}

#[test]
fn what_is_no_list_is_left_to_git_before_anything_is_done() {
    for format in RefFormat::ALL {
        let twins = Twins::new(format, &|repo| repo.create_refs([("refs/heads/main", repo.commit())]));
        for words in [
            &["branch", "new"][..],
            &["branch", "new"],
            &["branch", "-m", "new", "other"],
            &["branch", "-c", "other", "new"],
            &["--no-pager", "branch", "-f", "new", "main"],
            &["-c", "core.logAllRefUpdates=false", "branch", "quiet"],
            &["branch", "-d", "other"],
            &["branch", "--set-upstream-to=main", "new"],
            &["branch", "-vv"],
        ] {
            twins.same(words, b"");
        }
    }
}

#[test]
fn a_head_whose_branch_leads_to_a_bad_name_is_as_in_git() {
    let repo = Repo::with_worktree(RefFormat::Files, HashKind::Sha1);
    repo.create_refs([("refs/heads/other", repo.commit())]);
    for target in ["refs/heads/bad..name", "refs/heads/a*b", "refs/heads/none"] {
        std::fs::write(repo.git_dir().join("refs/heads/main"), format!("ref: {target}\n")).unwrap();
        for words in [&["branch"][..], &["branch", "--show-current"], &["branch", "-a", "-v"], &["tag"]] {
            same(repo.dir(), words, b"");
        }
    }
}

/// Regression: `column.branch` outranked every `column.ui`, and not only those before it.
#[test]
fn settings_of_columns_apply_in_their_order() {
    let repo = Repo::with_worktree(RefFormat::Files, HashKind::Sha1);
    let id = repo.commit();
    repo.create_refs(["main", "a", "b", "c", "d"].map(|name| (format!("refs/heads/{name}"), id)));
    repo.create_refs(["a", "b", "c", "d"].map(|name| (format!("refs/tags/{name}"), id)));
    for command in ["branch", "tag"] {
        let own = format!("column.{command}");
        for (first, last) in [("row", "never"), ("never", "always"), ("always", "never"), ("dense", "always,nodense")] {
            for (one, two) in [("column.ui", own.as_str()), (&own, "column.ui")] {
                let (one, two) = (format!("{one}={first}"), format!("{two}={last}"));
                same(repo.dir(), &["-c", &one, "-c", &two, command], b"");
            }
        }
    }
}

/// Regression: what is wrong with the configuration was told by refdb, and again by the git to which it left the rest.
#[test]
fn warnings_are_told_once_also_where_git_goes_on() {
    for setting in ["core.fsync=bogus", "core.fsyncMethod=bogus"] {
        let twins = Twins::new(RefFormat::Files, &|repo| {
            repo.create_refs([("refs/heads/main", repo.commit())]);
        });
        for words in [
            &["branch"][..],
            &["branch", "--show-current"],
            &["tag", "-l"],
            &["tag", "-l", "--contains=main"],
            &["branch", "--contains=none"],
            &["tag", "--points-at=none"],
            &["reflog", "show", "main"],
            &["reflog", "show", "none"],
            &["-c", "core.abbrev=bogus", "branch"],
            &["-c", "tag.gpgSign=bogus", "tag"],
            &["-c", "log.showSignature=false", "reflog", "show", "main"],
            &["branch", "new"],
            &["tag", "new"],
        ] {
            twins.same(&[&["-c", setting], words].concat(), b"");
        }
    }
}

#[test]
fn a_bad_color_of_any_slot_stops_the_list() {
    let repo = Repo::with_worktree(RefFormat::Files, HashKind::Sha1);
    repo.create_refs([("refs/heads/main", repo.commit())]);
    for slot in ["plain", "reset", "remote", "local", "current", "upstream", "worktree", "Plain", "other"] {
        same(repo.dir(), &["-c", &format!("color.branch.{slot}=bogus"), "branch"], b"");
    }
}
