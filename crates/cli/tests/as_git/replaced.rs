//! History that differs from what its commits say: replaced objects, missing ancestors, cycles, tags that state a wrong
//! type.

use crate::common::{Twins, git, refdb, same, same_with, within};
use bstr::ByteSlice;
use refdb_testkit::{RefFormat, Repo};
use refdb_types::ObjectId;
use std::fs;

const LINES: [&[&str]; 13] = [
    &["for-each-ref"],
    &["for-each-ref", "--format=%(refname) %(subject) %(parent) %(tree) %(objectsize) %(contents:size)", "refs/heads"],
    &["for-each-ref", "--format=%(refname) %(*subject) %(*objectname)", "refs/tags"],
    &["for-each-ref", "--format=%(refname)", "--merged=main"],
    &["for-each-ref", "--format=%(refname)", "--no-merged=main"],
    &["for-each-ref", "--format=%(refname)", "--contains=topic"],
    &["for-each-ref", "--format=%(refname)", "--no-contains=topic"],
    &["for-each-ref", "--format=%(refname)", "--points-at=main"],
    &["for-each-ref", "--format=%(refname) %(ahead-behind:topic)"],
    &["for-each-ref", "--sort=contents", "--format=%(refname)"],
    &["show-ref", "-d"],
    &["branch", "--contains", "topic"],
    &["tag", "--list", "--merged", "main"],
];

/// Creates four commits on `main`, with `old` at the first, `topic` at the second, and the tag `v1` of the third.
fn set_up(repo: &Repo) {
    let ids = repo.commits(4);
    repo.create_refs([("refs/heads/main", ids[3]), ("refs/heads/topic", ids[1]), ("refs/heads/old", ids[0])]);
    let tag = repo.tag_object(ids[2], "v1");
    repo.create_refs([("refs/tags/v1", tag)]);
}

fn set_up_replaced(repo: &Repo) {
    set_up(repo);
    let new = repo.git(["commit-tree", "-p", "main~1", "-m", "in its place", "main^{tree}"]);
    repo.git(["replace", "main", new.trim_end()]);
    repo.git(["replace", "--graft", "main~1"]);
    let other = repo.git(["commit-tree", "-m", "elsewhere", "main^{tree}"]);
    repo.git(["update-ref", &format!("refs/other/{}", repo.rev_parse("main")), other.trim_end()]);
}

#[test]
fn replaced_objects_are_shown_as_git_shows_them() {
    for (format, hash) in Repo::KINDS {
        let repo = Repo::with_worktree(format, hash);
        set_up_replaced(&repo);
        for words in LINES {
            same(repo.dir(), words, b"");
            for option in [&["--no-replace-objects"][..], &["-c", "core.useReplaceRefs=false"]] {
                same(repo.dir(), &[option, words].concat(), b"");
            }
            same_with(repo.dir(), ("GIT_NO_REPLACE_OBJECTS", ""), words);
            same_with(repo.dir(), ("GIT_REPLACE_REF_BASE", "refs/other/"), words);
        }
        repo.git(["update-ref", "refs/replace/no-object", "main"]);
        same(repo.dir(), &["for-each-ref", "--format=%(refname) %(subject)"], b"");
        same(repo.dir(), &["for-each-ref", "--format=%(refname)"], b"");
    }
}

#[test]
fn names_and_reflogs_follow_replaced_history_as_in_git() {
    for format in RefFormat::ALL {
        let twins = Twins::new(format, &|repo| {
            set_up_replaced(repo);
            for (new, old) in [("main~1", "topic"), ("main", "old"), ("topic", "main")] {
                let [new, old] = [new, old].map(|name| repo.git(["--no-replace-objects", "rev-parse", name]));
                repo.git(["reflog", "write", "refs/heads/main", old.trim_end(), new.trim_end(), "why"]);
            }
        });
        for name in ["main~1", "main~2", "main^2", "main^{tree}", "v1~1", "main^0"] {
            twins.same(&["update-ref", "refs/notes/x", name], b"");
            twins.same(&["--no-replace-objects", "update-ref", "refs/notes/x", name], b"");
        }
        twins.same(&["reflog", "expire", "--all", "--expire=never", "--expire-unreachable=now"], b"");
    }
}

#[test]
fn a_chain_of_replacements_is_followed_as_far_as_git_follows_it() {
    let repo = Repo::with_worktree(RefFormat::Files, Default::default());
    set_up(&repo);
    let (mut last, tree) = (repo.rev_parse("main"), repo.rev_parse("main^{tree}").to_string());
    for at in 0..6 {
        let new = repo.git(["commit-tree", "-m", &format!("number {at}"), &tree]);
        repo.git(["update-ref", &format!("refs/replace/{last}"), new.trim_end()]);
        last = ObjectId::from_hex(repo.hash(), new.trim_end().as_bytes()).unwrap();
        same(repo.dir(), &["for-each-ref", "--format=%(refname) %(subject)", "refs/heads"], b"");
        same(repo.dir(), &["for-each-ref", "--merged=old", "refs/heads/main", "--format=%(refname)"], b"");
    }
}

/// Git repeats the error about a missing commit more often than refdb, so stderr is not compared.
#[test]
fn a_missing_ancestor_stops_no_list_of_what_is_merged() {
    let repo = Repo::with_worktree(RefFormat::Files, Default::default());
    set_up(&repo);
    let missing = repo.rev_parse("topic").to_string();
    repo.git(["update-ref", "-d", "refs/heads/topic"]);
    fs::remove_file(repo.git_dir().join("objects").join(&missing[..2]).join(&missing[2..])).unwrap();
    for words in [
        &["for-each-ref", "--format=%(refname)", "--merged=main"][..],
        &["for-each-ref", "--format=%(refname)", "--no-merged=main"],
        &["for-each-ref", "--format=%(refname) %(ahead-behind:old)"],
        &["branch", "--merged", "main"],
        &["tag", "--list", "--no-merged", "main"],
    ] {
        let [git, refdb] = [git(repo.dir(), words, b""), refdb(repo.dir(), words, b"")];
        assert_eq!((git.status.code(), &git.stdout), (refdb.status.code(), &refdb.stdout), "{words:?}");
        let expected = format!("error: Could not read {missing}");
        let said = String::from_utf8_lossy(&refdb.stderr);
        assert!(!said.is_empty() && said.lines().all(|line| line == expected), "{words:?}: {said}");
    }
    // For `--contains`, git 2.55 lists refs that do not contain the commit; from 2.56 on, the missing ancestor is an
    // error.
    let said = refdb(repo.dir(), &["for-each-ref", "--contains=old"], b"");
    let expected = format!(
        "error: Could not read {missing}\nerror: could not parse commit {missing}\nfatal: failed to check reachability\n"
    );
    assert_eq!((said.status.code(), &*String::from_utf8_lossy(&said.stderr)), (Some(128), &*expected));
}

/// Checked without git, because git 2.55 reports a cycle in other words or never ends.
#[test]
fn history_in_a_circle_ends() {
    for format in RefFormat::ALL {
        let repo = Repo::with_worktree(format, Default::default());
        let ids = repo.commits(80);
        repo.create_refs([("refs/heads/main", ids[79]), ("refs/heads/topic", ids[0])]);
        repo.git(["reflog", "write", "refs/heads/main", &ids[2].to_string(), &ids[79].to_string(), "why"]);
        repo.git(["replace", "--graft", &ids[3].to_string(), &ids[8].to_string()]);
        let said = within(repo.dir(), &["for-each-ref", "--contains=topic"], b"");
        assert_eq!(said.stderr, b"fatal: commit ancestry contains a cycle\n");
        for words in [
            &["for-each-ref", "--merged=main"][..],
            &["for-each-ref", "--format=%(ahead-behind:topic)"],
            &["for-each-ref", "--format=%(is-base:topic)"],
            &["reflog", "expire", "--all", "--expire=never", "--expire-unreachable=now"],
        ] {
            assert!(within(repo.dir(), words, b"").status.success(), "{words:?}");
        }
        // The walk from commit 8 comes back to it, and it stays the nearest.
        repo.create_refs([("refs/heads/near", ids[8]), ("refs/heads/far", ids[4])]);
        let words = ["for-each-ref", "--format=%(refname)%(is-base:near)", "refs/heads/far", "refs/heads/near"];
        let said = within(repo.dir(), &words, b"");
        assert_eq!(said.stdout.as_bstr(), "refs/heads/far\nrefs/heads/near(near)\n");
    }
}

/// Adds a tag that calls a commit a blob, and a branch whose reflog has entries from and to that tag.
fn set_up_lie(repo: &Repo) {
    set_up(repo);
    let tag = format!("object {}\ntype blob\ntag lie\ntagger T <t@e> 1600000000 +0000\n\nm\n", repo.rev_parse("topic"));
    let lie = repo.git_with_input(["hash-object", "-w", "--literally", "-t", "tag", "--stdin"], tag);
    let [lie, old] = [lie.trim_end().to_owned(), repo.rev_parse("old").to_string()];
    fs::create_dir_all(repo.git_dir().join("refs/lies")).unwrap();
    repo.git(["update-ref", "refs/lies/x", &lie]);
    repo.git(["update-ref", "refs/heads/other", "old"]);
    repo.git(["reflog", "write", "refs/heads/other", &lie, &old, "from a lie"]);
    repo.git(["reflog", "write", "refs/heads/other", &old, &lie, "to a lie"]);
}

#[test]
fn a_tag_that_lies_leads_to_no_commit() {
    for format in RefFormat::ALL {
        let twins = Twins::new(format, &set_up_lie);
        for words in [
            &["for-each-ref", "--format=%(refname)", "--merged=main"][..],
            &["for-each-ref", "--format=%(refname)", "--no-merged=old"],
            &["for-each-ref", "--format=%(refname)", "--contains=old"],
            &["for-each-ref", "--format=%(refname)", "--no-contains=main"],
        ] {
            // Stderr is not compared, because git reports the wrong type only once it has met the object as both types.
            let [git, refdb] = [git(twins.git.dir(), words, b""), refdb(twins.refdb.dir(), words, b"")];
            assert_eq!((git.status.code(), git.stdout), (refdb.status.code(), refdb.stdout), "{words:?}");
        }
        twins.same(&["reflog", "expire", "--expire=never", "--expire-unreachable=now", "refs/heads/other"], b"");
        let kept = twins.refdb.reflog("refs/heads/other");
        assert_eq!(kept.iter().filter(|entry| entry.contains_str("a lie")).count(), 2, "{kept:?}");
    }
}

/// Regression: only direct refs whose whole name after the base is an id replaced an object.
#[test]
fn a_replace_ref_may_be_symbolic_and_lie_in_a_folder() {
    for format in RefFormat::ALL {
        let repo = Repo::with_worktree(format, Default::default());
        set_up(&repo);
        let (main, topic) = (repo.rev_parse("main").to_string(), repo.rev_parse("topic").to_string());
        let shown = || {
            for words in [
                &["for-each-ref", "--format=%(refname) %(subject) %(parent)", "refs/heads/"][..],
                &["for-each-ref", "--merged=main", "refs/heads/"],
            ] {
                same(repo.dir(), words, b"");
            }
        };
        for folder in ["a", "a/b"] {
            let name = format!("refs/replace/{folder}/{main}");
            repo.git(["update-ref", &name, &topic]);
            shown();
            repo.git(["--no-replace-objects", "update-ref", "-d", &name]);
        }
        let name = format!("refs/replace/{main}");
        for target in ["refs/heads/topic", "refs/heads/alias"] {
            repo.git(["symbolic-ref", "refs/heads/alias", "refs/heads/old"]);
            repo.git(["symbolic-ref", &name, target]);
            shown();
            repo.git(["symbolic-ref", "-d", &name]);
            repo.git(["symbolic-ref", "-d", "refs/heads/alias"]);
        }
        repo.git(["symbolic-ref", &name, "refs/heads/dangling"]);
        same(repo.dir(), &["for-each-ref", "--format=%(subject)", "refs/heads/main"], b"");
        repo.git(["symbolic-ref", "-d", &name]);
        repo.git(["update-ref", "refs/replace/a/no-id", &topic]);
        shown();
        repo.git(["update-ref", &format!("refs/replace/b/{main}"), &topic]);
        repo.git(["update-ref", &format!("refs/replace/a/{main}"), &topic]);
        shown();
    }
}

/// Regression: grafts were ignored, so that `--merged` and `--contains` listed other refs than git, and said nothing.
#[test]
fn grafts_change_what_a_list_is_about() {
    let repo = Repo::with_worktree(RefFormat::Files, Default::default());
    set_up(&repo);
    repo.config("advice.graftFileDeprecated", "false");
    let id = |name: &str| repo.rev_parse(name).to_string();
    let (main, topic, old) = (id("main"), id("topic"), id("old"));
    let orphan = repo.git(["commit-tree", "-m", "elsewhere", "main^{tree}"]).trim_end().to_owned();
    repo.git(["update-ref", "refs/heads/orphan", &orphan]);
    let file = repo.git_dir().join("info/grafts");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    let lines = [
        &["for-each-ref", "--format=%(refname) %(ahead-behind:topic) %(is-base:main) %(parent) %(numparent)"][..],
        &["branch", "-v", "--contains", "topic"],
    ];
    for grafts in [
        format!("{main} {old}\n"),
        format!("{main}\n"),
        format!("# why\n\n{main} {old} {orphan}\n{topic}\n"),
        format!("{old} {orphan}\r\n{orphan}"),
    ] {
        fs::write(&file, &grafts).unwrap();
        let graft_file = ("GIT_GRAFT_FILE", file.to_str().unwrap());
        for words in LINES.iter().chain(&lines) {
            same(repo.dir(), words, b"");
            same_with(repo.dir(), ("GIT_GRAFT_FILE", "/dev/null"), words);
            same_with(repo.dir(), graft_file, words);
        }
    }
    // Git tells of bad lines whenever it reads an object, refdb only where parents matter.
    fs::write(&file, format!("{main} {topic}\nrubbish\n{topic}  {old}\n{main} {old}\n{old}\n")).unwrap();
    for words in LINES.iter().chain(&lines) {
        let [of_git, own] = [git, refdb].map(|run| run(repo.dir(), words, b"").stdout);
        assert_eq!(own, of_git, "{words:?}");
    }
}
