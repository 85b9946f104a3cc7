//! Symbolic refs in long chains and loops, and symbolic refs to what cannot be read.

use crate::common::{Twins, same};
use refdb_testkit::{RefFormat, Repo};
use std::fs;

/// Creates the chain of tags `a0` to `a7`, in which each tag from `a1` on leads to the one before it, and loops of one
/// and of two refs.
fn set_up(repo: &Repo) {
    let commits = repo.commits(2);
    repo.create_refs([("refs/heads/main", commits[1]), ("refs/heads/other", commits[0]), ("refs/tags/a0", commits[0])]);
    for far in 1..8 {
        repo.git(["symbolic-ref", &format!("refs/tags/a{far}"), &format!("refs/tags/a{}", far - 1)]);
    }
    for (from, to) in [("self", "self"), ("one", "two"), ("two", "one"), ("aside", "one"), ("dangling", "none")] {
        repo.git(["symbolic-ref", &format!("refs/tags/{from}"), &format!("refs/tags/{to}")]);
    }
}

#[test]
fn a_chain_is_followed_as_far_as_git_follows_it() {
    for format in RefFormat::ALL {
        let twins = Twins::new(format, &set_up);
        for words in [&["for-each-ref"][..], &["for-each-ref", "--points-at=refs/tags/a0"], &["show-ref", "-d"]] {
            same(twins.git.dir(), words, b"");
        }
        for far in 3..8 {
            let name = format!("refs/tags/a{far}");
            for words in [
                &["show-ref", "--verify", &name][..],
                &["show-ref", "--exists", &name],
                &["symbolic-ref", &name],
                &["symbolic-ref", "--no-recurse", &name],
            ] {
                same(twins.git.dir(), words, b"");
            }
            twins.same(&["update-ref", "refs/heads/new", &name], b"");
            twins.same(&["update-ref", "refs/heads/other", &name[5..]], b"");
        }
    }
}

/// Returns requests of each kind that name the ref `name`. The test carries none of them out, so that each begins with
/// the same refs.
fn requests(name: &str) -> Vec<String> {
    [
        "update NAME refs/heads/main refs/heads/other",
        "update NAME refs/heads/main",
        "create NAME refs/heads/main",
        "delete NAME",
        "delete NAME refs/heads/main",
        "verify NAME refs/heads/main",
        "verify NAME",
        "symref-update NAME refs/heads/x",
        "symref-update NAME refs/heads/x ref NAME",
        "symref-update NAME refs/heads/x oid refs/heads/main",
        "symref-create NAME refs/heads/x",
        "symref-delete NAME NAME",
        "symref-verify NAME NAME",
    ]
    .map(|request| request.replace("NAME", name))
    .into()
}

#[test]
fn what_leads_nowhere_readable_has_no_value_to_compare_with() {
    for format in RefFormat::ALL {
        let twins = Twins::new(format, &|repo| {
            set_up(repo);
            if format == RefFormat::Files {
                repo.git(["symbolic-ref", "refs/tags/spoilt", "refs/tags/rubbish"]);
                fs::write(repo.git_dir().join("refs/tags/rubbish"), "rubbish\n").unwrap();
            }
        });
        for name in ["self", "one", "aside", "a6", "dangling", "spoilt"] {
            for request in requests(&format!("refs/tags/{name}")) {
                let input = format!("start\noption no-deref\n{request}\nprepare\nabort\n");
                twins.same(&["update-ref", "--stdin"], input.as_bytes());
                if !["self", "dangling"].contains(&name) {
                    continue;
                }
                let input = format!("start\noption no-deref\n{request}\ncreate refs/heads/new main\nprepare\nabort\n");
                twins.same(&["update-ref", "--stdin", "--batch-updates"], input.as_bytes());
            }
        }
    }
}

#[test]
fn where_a_symbolic_ref_is_followed_its_own_target_is_compared_as_git_does() {
    for format in RefFormat::ALL {
        let twins = Twins::new(format, &set_up);
        twins.git.git(["symbolic-ref", "refs/heads/sym", "refs/heads/main"]);
        twins.refdb.git(["symbolic-ref", "refs/heads/sym", "refs/heads/main"]);
        for name in ["refs/heads/sym", "refs/tags/dangling", "refs/tags/a2", "refs/heads/main", "refs/heads/none"] {
            for target in ["refs/heads/main", "refs/heads/x", "none", "refs/tags/a1", "refs/tags/a0"] {
                let request = format!("symref-update {name} refs/heads/other ref {target}");
                twins.same(&["update-ref", "--stdin"], format!("start\n{request}\nprepare\nabort\n").as_bytes());
            }
        }
    }
}

/// With files git deletes refs last, so the reflog of a symbolic ref records the value that its target had before.
#[test]
fn a_symbolic_ref_to_a_ref_that_goes_away_with_it_logs_the_value_from_before() {
    for (format, packed) in [(RefFormat::Files, false), (RefFormat::Files, true), (RefFormat::Reftable, false)] {
        for requests in [
            ["symref-create refs/heads/new refs/tags/a0", "delete refs/tags/a0"],
            ["delete refs/tags/a0", "symref-create refs/heads/new refs/tags/a0"],
            ["delete refs/tags/a0", "symref-create refs/heads/new refs/tags/a3"],
            ["option no-deref\ndelete refs/tags/a3", "symref-create refs/heads/new refs/tags/a3"],
            ["delete refs/tags/a0", "option no-deref\nsymref-update HEAD refs/tags/a0"],
            ["update refs/tags/a0 refs/heads/main", "symref-create refs/heads/new refs/tags/a0"],
            ["symref-create refs/heads/new refs/tags/a0", "update refs/tags/a0 refs/heads/main"],
        ] {
            let twins = Twins::new(format, &|repo| {
                set_up(repo);
                if packed {
                    repo.git(["pack-refs", "--all"]);
                }
            });
            let input = requests.map(|request| format!("{request}\n")).concat();
            twins.same(&["update-ref", "--stdin", "-m", "moved"], input.as_bytes());
        }
    }
}

/// A symbolic ref to a bad name counts as having no value, because git cannot read the file that a write through it
/// creates.
#[test]
fn a_symbolic_ref_to_a_bad_name_has_no_value_to_compare_with() {
    for target in ["refs/heads/bad..name", "refs/heads/a*b", "refs/heads/a b"] {
        let twins = Twins::new(RefFormat::Files, &|repo| {
            set_up(repo);
            fs::write(repo.git_dir().join("refs/heads/odd"), format!("ref: {target}\n")).unwrap();
        });
        for words in [
            &["refs/heads/odd", "main"][..],
            &["--no-deref", "refs/heads/odd", "other", "main"],
            &["--no-deref", "refs/heads/odd", "other", "other"],
            &["--no-deref", "-d", "refs/heads/odd", "other"],
            &["--no-deref", "refs/heads/odd", "other"],
        ] {
            twins.same(&[&["update-ref"], words].concat(), b"");
        }
    }
}
