//! `refdb refs rename`, which git has from version 2.56 on.

use crate::{
    common::refdb,
    reflog::{at, everything, set_up},
};
use refdb_testkit::{RefFormat, Repo};

fn repo(format: RefFormat) -> Repo {
    let repo = Repo::with_worktree(format, Default::default());
    set_up(&repo);
    repo
}

fn logged(repo: &Repo, name: &str) -> Vec<String> {
    let message = |line: &bstr::BString| line.to_string().split('\t').nth(1).unwrap_or_default().to_owned();
    repo.reflog(name).iter().map(message).collect()
}

#[test]
fn a_ref_is_renamed_with_its_reflog() {
    for format in RefFormat::ALL {
        for packed in [false, true] {
            for name in ["refs/heads/new", "refs/heads/deep/er/new", "refs/tags/new"] {
                let repo = repo(format);
                if packed {
                    repo.git(["pack-refs", "--all"]);
                }
                let id = repo.rev_parse("c");
                let before = logged(&repo, "refs/heads/c");
                let output = refdb(repo.dir(), &["refs", "rename", "--message=why  so", "refs/heads/c", name], b"");
                assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
                assert_eq!(repo.rev_parse(name), id);
                assert!(!repo.git(["for-each-ref"]).contains("refs/heads/c\n"));
                assert_eq!(logged(&repo, name), [&before[..], &["why so".to_owned()]].concat(), "{name}");
                assert!(!repo.git(["reflog", "list"]).contains("refs/heads/c\n"));
                repo.verify();
            }
        }
    }
}

#[test]
fn a_log_that_is_left_of_another_ref_of_the_new_name_is_replaced() {
    for format in RefFormat::ALL {
        let repo = repo(format);
        let main = repo.rev_parse("main").to_string();
        for _ in 0..2 {
            at(&repo, 9, &["reflog", "write", "refs/heads/new", &"0".repeat(40), &main, "stale"]);
        }
        assert!(refdb(repo.dir(), &["refs", "rename", "refs/heads/b", "refs/heads/new"], b"").status.success());
        assert_eq!(logged(&repo, "refs/heads/new"), ["branch: Created from main~2", ""]);
    }
}

#[test]
fn a_ref_without_a_reflog_is_renamed_too() {
    for format in RefFormat::ALL {
        let repo = repo(format);
        repo.git(["tag", "t", "main~1"]);
        let id = repo.rev_parse("t");
        assert!(refdb(repo.dir(), &["refs", "rename", "refs/tags/t", "refs/tags/u"], b"").status.success());
        assert_eq!(repo.rev_parse("refs/tags/u"), id);
        assert_eq!(logged(&repo, "refs/tags/u"), [""; 0]);
    }
}

#[test]
fn a_rename_that_cannot_be_changes_nothing_and_says_why() {
    for format in RefFormat::ALL {
        let repo = repo(format);
        repo.git(["symbolic-ref", "refs/heads/dangling", "refs/heads/nowhere"]);
        let before = everything(&repo);
        for (words, said) in [
            (&["refs/heads/none", "refs/heads/new"][..], "reference does not exist"),
            (&["refs/heads/c", "refs/heads/b"], "reference already exists"),
            (&["refs/heads/c", "refs/heads/c"], "reference already exists"),
            (
                &["refs/heads/link", "refs/heads/new"],
                "error: refname refs/heads/link is a symbolic ref, renaming it is not",
            ),
            (&["refs/heads/link", "refs/heads/b"], "fatal: reference already exists"),
            (&["--message=", "refs/heads/c", "refs/heads/new"], "empty message"),
            (&["refs/heads/a..b", "refs/heads/new"], "invalid ref format"),
            (&["refs/heads/c", "refs/heads/a..b"], "invalid ref format"),
            (&["HEAD", "refs/heads/new"], "fatal: invalid ref format: 'HEAD'"),
            (&["refs/heads/c", "FOO_HEAD"], "fatal: invalid ref format: 'FOO_HEAD'"),
            (&["refs/heads/dangling", "refs/heads/new"], "fatal: reference does not exist: 'refs/heads/dangling'"),
            (&["refs/heads/c", "refs/heads/main/x"], "error: 'refs/heads/main' exists; cannot create"),
            (&["refs/heads/c"], "usage: rename requires old and new reference name"),
            (&["refs/heads/c", "refs/heads/d", "refs/heads/e"], "requires old and new reference name"),
            (&["refs/heads/c", "refs/heads/main/below"], "'refs/heads/main' exists; cannot create"),
        ] {
            let output = refdb(repo.dir(), &[&["refs", "rename"], words].concat(), b"");
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(!output.status.success() && text.contains(said), "{words:?}: {text}");
        }
        assert_eq!(everything(&repo), before);
    }
}

#[test]
fn a_ref_gets_a_name_below_its_own_and_back() {
    for format in RefFormat::ALL {
        for packed in [false, true] {
            let repo = repo(format);
            if packed {
                repo.git(["pack-refs", "--all"]);
            }
            let (id, before) = (repo.rev_parse("c"), logged(&repo, "refs/heads/c"));
            assert!(!before.is_empty());
            for (old, new) in [
                ("refs/heads/c", "refs/heads/c/deep/below"),
                ("refs/heads/c/deep/below", "refs/heads/c/deep"),
                ("refs/heads/c/deep", "refs/heads/c"),
            ] {
                let output = refdb(repo.dir(), &["refs", "rename", old, new], b"");
                assert!(output.status.success() && output.stderr.is_empty(), "{format:?}, packed {packed}: {output:?}");
                assert_eq!(repo.rev_parse(new), id);
                assert!(!repo.git(["for-each-ref", "--format=%(refname)|"]).contains(&format!("{old}|")));
                assert!(!repo.git(["reflog", "list"]).lines().any(|line| line == old));
                repo.verify();
            }
            assert_eq!(logged(&repo, "refs/heads/c")[..before.len()], before);
        }
    }
}

/// Git, too, leaves everything as it was, but says that the folder is not empty.
#[test]
fn a_ref_gets_no_name_above_its_own_where_other_refs_or_reflogs_lie() {
    let repo = repo(RefFormat::Files);
    let rename = |words: &[&str]| refdb(repo.dir(), &[&["refs", "rename"], words].concat(), b"");
    assert!(rename(&["refs/heads/c", "refs/heads/d/e"]).status.success());
    std::fs::write(repo.git_dir().join("logs/refs/heads/d/gone"), "").unwrap();
    let before = everything(&repo);
    let output = rename(&["refs/heads/d/e", "refs/heads/d"]);
    assert!(!output.status.success(), "{output:?}");
    assert_eq!(everything(&repo), before);
    std::fs::remove_file(repo.git_dir().join("logs/refs/heads/d/gone")).unwrap();
    repo.git(["branch", "d/f", "main"]);
    let before = everything(&repo);
    let output = rename(&["refs/heads/d/e", "refs/heads/d"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("'refs/heads/d/f' exists; cannot create"), "{output:?}");
    assert_eq!(everything(&repo), before);
}

/// Previously, the search for refs below the new name read the next loose ref outside that folder too.
#[test]
fn a_broken_ref_elsewhere_does_not_keep_a_ref_from_a_name_above_its_own() {
    let repo = repo(RefFormat::Files);
    let rename = |words: &[&str]| refdb(repo.dir(), &[&["refs", "rename"], words].concat(), b"");
    assert!(rename(&["refs/heads/c", "refs/heads/a2/b"]).status.success());
    std::fs::write(repo.git_dir().join("refs/heads/broken"), "garbage\n").unwrap();
    let output = rename(&["refs/heads/a2/b", "refs/heads/a2"]);
    assert!(output.status.success(), "{output:?}");
    // A broken ref below the new name is in the way like any other ref.
    repo.git(["branch", "c/d", "main"]);
    std::fs::write(repo.git_dir().join("refs/heads/c/e"), "garbage\n").unwrap();
    let output = rename(&["refs/heads/c/d", "refs/heads/c"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("'refs/heads/c/e' exists; cannot create"), "{output:?}");
}

/// Previously, such a rename packed all loose refs on the way.
#[test]
fn a_ref_that_gets_a_name_below_its_own_leaves_the_others_loose() {
    let repo = repo(RefFormat::Files);
    repo.git(["branch", "other", "main"]);
    let output = refdb(repo.dir(), &["refs", "rename", "refs/heads/c", "refs/heads/c/d"], b"");
    assert!(output.status.success(), "{output:?}");
    assert!(repo.git_dir().join("refs/heads/other").is_file());
}

/// Matches git 2.56, compared by hand; only `git branch -m` makes HEAD follow the new name.
#[test]
fn head_keeps_the_old_name_of_its_branch_and_logs_that_it_is_gone() {
    for format in RefFormat::ALL {
        let repo = repo(format);
        let before = logged(&repo, "HEAD");
        let output = refdb(repo.dir(), &["refs", "rename", "--message=why", "refs/heads/main", "refs/heads/new"], b"");
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        assert_eq!(repo.git(["symbolic-ref", "HEAD"]).trim_end(), "refs/heads/main");
        assert_eq!(logged(&repo, "HEAD"), [&before[..], &["why".to_owned()]].concat());
    }
}
