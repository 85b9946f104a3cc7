//! Compares `refdb update-ref` for a single ref with git's.

use crate::common::{Twins, git, refdb};
use bstr::ByteSlice;
use refdb_testkit::{RefFormat, Repo};

const ZERO: &str = "0000000000000000000000000000000000000000";
const NO_OBJECT: &str = "1234567890123456789012345678901234567890";

fn set_up(repo: &Repo) {
    let commits = repo.commits(3);
    repo.create_refs([("refs/heads/main", commits[2]), ("refs/heads/other", commits[1])]);
    repo.git(["symbolic-ref", "refs/heads/link", "refs/heads/other"]);
    repo.git(["symbolic-ref", "refs/heads/dangling", "refs/heads/none"]);
}

#[test]
fn one_ref_is_changed_as_git_changes_it() {
    for format in RefFormat::ALL {
        let twins = Twins::new(format, &set_up);
        for words in [
            &[][..],
            &["-d"],
            &["refs/heads/new"],
            &["a", "b", "c", "d"],
            &["-d", "a", "b", "c"],
            &["--stdin", "x"],
            &["-z"],
            &["-m"],
            &["-m", "", "refs/heads/new", "main"],
            &["--batch-updates"],
            &["--batch-updates", "refs/heads/new", "main"],
            &["refs/heads/new", "bad"],
            &["refs/heads/new", ""],
            &["refs/heads/new", "main", "bad"],
            &["refs/heads/new", "main"],
            &["refs/heads/new", "main", ""],
            &["refs/heads/new", "main~1", "main"],
            &["refs/heads/new", "main", "main"],
            &["-m", "why not\nnow", "refs/heads/new", "main", "main^"],
            &["-d", "refs/heads/new", "main~1"],
            &["-d", "refs/heads/new", "bad"],
            &["-d", "refs/heads/new", "main"],
            &["-d", "refs/heads/new"],
            &["-d", "refs/heads/new", ZERO],
            &["refs/heads/new", NO_OBJECT],
            &["refs/heads/new", "main^{tree}"],
            &["refs/tags/tree", "main^{tree}"],
            &["refs/heads/new", "main", "main"],
            &["refs/heads/new", ZERO],
            &["refs/heads/main/below", "main"],
            &["refs/heads", "main"],
            &["bad..name", "main"],
            &["-d", "bad..name"],
            &["-d", "low"],
            &["FETCH_HEAD", "main"],
            &["-d", "FETCH_HEAD"],
            &["refs/heads/a b", "main"],
            &["refs/heads/link", "main~2"],
            &["--no-deref", "refs/heads/link", "main"],
            &["refs/heads/dangling", "main"],
            &["-d", "--no-deref", "refs/heads/dangling"],
            &["-m", "by HEAD", "HEAD", "main~1"],
            &["--create-reflog", "refs/notes/x", "main"],
            &["--no-create-reflog", "-m", "quiet", "refs/heads/new", "main"],
            &["--no-deref", "HEAD", "main"],
            &["HEAD", "main~1"],
            &["ORIG_HEAD", "main"],
            &["-d", "ORIG_HEAD"],
            &["refs/heads/main", "@{1}"],
            &["-d", "refs/heads/other"],
            &["-d", "refs/heads/new"],
        ] {
            twins.same(&[&["update-ref"], words].concat(), b"");
        }
    }
}

#[test]
fn names_of_objects_are_found_with_gits_warnings() {
    for format in RefFormat::ALL {
        let twins = Twins::new(format, &|repo| {
            set_up(repo);
            repo.git(["symbolic-ref", "refs/tags/lost", "refs/heads/none"]);
            repo.git(["update-ref", "refs/tags/main", "refs/heads/main~1"]);
            repo.git(["update-ref", "-m", "checkout: moving from main to other", "HEAD", "HEAD~1"]);
            repo.git(["update-ref", "-m", "checkout: moving from dangling to other", "HEAD", "HEAD~1"]);
            repo.git(["update-ref", "-m", "checkout: moving from tags/main", "HEAD", "refs/tags/main"]);
        });
        for revision in [
            "lost",
            "dangling",
            "main",
            "tags/main",
            "@{1}",
            "@{9}",
            "main@{0}",
            "main@{9}",
            "@{-1}",
            "@{-2}",
            "HEAD@{9}",
            "@@{0}",
            "@@{9}",
        ] {
            twins.same(&["update-ref", "refs/heads/new", revision], b"");
        }
    }
}

#[test]
fn a_reflog_without_a_name_is_that_of_what_head_stands_for() {
    for format in RefFormat::ALL {
        for unborn in [false, true] {
            let twins = Twins::new(format, &|repo| {
                set_up(repo);
                repo.git(["update-ref", "-m", "one", "--create-reflog", "refs/heads/HEAD", "refs/heads/main~1"]);
                repo.git(["update-ref", "-m", "two", "refs/heads/HEAD", "refs/heads/main"]);
                if unborn {
                    repo.git(["symbolic-ref", "HEAD", "refs/heads/unborn"]);
                }
            });
            for revision in ["@{0}", "@{1}", "@{9}", "@{0}^0", "HEAD@{0}", "@@{0}"] {
                twins.same(&["update-ref", "refs/heads/new", revision], b"");
                twins.same(&["-c", "core.warnAmbiguousRefs=false", "update-ref", "refs/heads/new", revision], b"");
            }
        }
    }
}

#[test]
fn a_folder_in_the_place_of_merge_head_is_no_ref() {
    for format in RefFormat::ALL {
        let twins = Twins::new(format, &|repo| {
            set_up(repo);
            std::fs::create_dir(repo.git_dir().join("MERGE_HEAD")).unwrap();
        });
        twins.same(&["update-ref", "refs/heads/new", "MERGE_HEAD"], b"");
        twins.same(&["show-ref", "--verify", "MERGE_HEAD"], b"");
        twins.same(&["show-ref", "--exists", "MERGE_HEAD"], b"");
    }
}

#[test]
fn reflogs_that_are_left_below_a_new_ref_are_told_of_as_by_git() {
    let twins = Twins::new(RefFormat::Files, &|repo| {
        set_up(repo);
        repo.git(["update-ref", "refs/heads/new/x", "main"]);
        std::fs::remove_dir_all(repo.git_dir().join("refs/heads/new")).unwrap();
    });
    twins.same(&["update-ref", "refs/heads/new", "main"], b"");
    for repo in [&twins.git, &twins.refdb] {
        std::fs::remove_file(repo.git_dir().join("logs/refs/heads/new/x")).unwrap();
    }
    twins.same(&["update-ref", "refs/heads/new", "main"], b"");
}

#[test]
fn reflogs_without_entries_are_named_as_git_names_them() {
    for format in RefFormat::ALL {
        let twins = Twins::new(format, &|repo| {
            set_up(repo);
            repo.config("core.logAllRefUpdates", "false");
            repo.git(["update-ref", "refs/heads/mute", "main"]);
            repo.git(["update-ref", "--create-reflog", "refs/heads/expired", "main"]);
            repo.git(["reflog", "expire", "--expire=all", "refs/heads/expired"]);
            repo.git(["symbolic-ref", "refs/heads/to-mute", "refs/heads/mute"]);
            repo.git(["symbolic-ref", "refs/heads/to-expired", "refs/heads/expired"]);
        });
        let names = ["", "HEAD", "mute", "expired", "to-mute", "refs/heads/to-expired"];
        for head in ["expired", "mute", "to-expired", "to-mute", "unborn"] {
            twins.same(&["symbolic-ref", "HEAD", &format!("refs/heads/{head}")], b"");
            for revision in names.iter().flat_map(|name| [0, 1, 7].map(|number| format!("{name}@{{{number}}}"))) {
                twins.same(&["update-ref", "refs/x/new", &revision], b"");
            }
        }
    }
}

#[test]
fn a_reflog_that_is_asked_for_is_heads_as_well() {
    for format in RefFormat::ALL {
        for (words, input) in [
            (&["update-ref", "--create-reflog", "refs/heads/main", "main~1"][..], ""),
            (&["update-ref", "--create-reflog", "--stdin"], "update refs/heads/main main~1\ncreate refs/x/y main\n"),
            (&["update-ref", "--create-reflog", "refs/heads/other", "main~1"], ""),
            (&["update-ref", "--create-reflog", "-d", "refs/heads/main"], ""),
            (&["update-ref", "--create-reflog", "-d", "HEAD"], ""),
        ] {
            let twins = Twins::new(format, &|repo| {
                repo.config("core.logAllRefUpdates", "false");
                set_up(repo);
            });
            twins.same(words, input.as_bytes());
            assert_eq!(twins.refdb.reflog("HEAD"), twins.git.reflog("HEAD"));
        }
    }
}

#[test]
fn names_are_not_called_ambiguous_where_that_is_switched_off() {
    for format in RefFormat::ALL {
        let twins = Twins::new(format, &|repo| {
            set_up(repo);
            repo.config("core.warnAmbiguousRefs", "false");
            repo.git(["update-ref", "refs/tags/main", "refs/heads/main~1"]);
            repo.git(["symbolic-ref", "refs/remotes/main/HEAD", "refs/heads/none"]);
        });
        for revision in ["main", "main^0", "main@{0}", "refs/heads/main"] {
            twins.same(&["update-ref", "refs/heads/new", revision], b"");
        }
    }
}

/// Commands must refuse to write because they do not ask the global ref database, but they may read.
#[test]
fn where_a_global_ref_database_decides_no_command_writes() {
    for format in RefFormat::ALL {
        let repo = Repo::bare(format, refdb_types::HashKind::Sha1);
        set_up(&repo);
        repo.config("refdb.global", "etcd");
        let before = repo.refs();
        for words in [
            &["update-ref", "refs/heads/main", "main~1"][..],
            &["update-ref", "-d", "refs/heads/main"],
            &["update-ref", "refs/heads/new", "main"],
            &["symbolic-ref", "refs/heads/link", "refs/heads/main"],
        ] {
            let output = repo.command(env!("CARGO_BIN_EXE_refdb")).args(words).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(!output.status.success() && said.contains("refdb.global = etcd"), "{format:?}, {words:?}: {said}");
        }
        assert_eq!(repo.refs(), before, "{format:?}");
        let shown = repo.command(env!("CARGO_BIN_EXE_refdb")).args(["show-ref", "refs/heads/main"]).output().unwrap();
        assert!(shown.status.success(), "{format:?}");
    }
}

/// Previously, HEAD's reflog recorded the change although it was not made.
#[test]
fn a_log_that_cannot_be_written_leaves_heads_log_alone() {
    let twins = Twins::new(RefFormat::Files, &|repo| {
        let ids = repo.commits(2);
        repo.create_refs([("refs/heads/main", ids[0]), ("refs/heads/other", ids[1])]);
        repo.git(["symbolic-ref", "HEAD", "refs/heads/a"]);
        let [one, two] = [0, 1].map(|at: usize| ids[at].to_string());
        repo.git(["reflog", "write", "refs/heads/a/c", &one, &two, "in the way"]);
    });
    let before = twins.refdb.reflog("HEAD");
    twins.same(&["update-ref", "refs/heads/a", "main"], b"");
    // Checked without git, which does log this failed change in HEAD's reflog.
    let failed = refdb(twins.refdb.dir(), &["update-ref", "HEAD", "main"], b"");
    assert!(failed.stderr.contains_str("there are still logs under"), "{failed:?}");
    assert_eq!(twins.refdb.reflog("HEAD"), before);
}

/// Regression: a name that is a file of the repository is refused. Git creates the file, and after a write to
/// `packed-refs` it can no longer read its refs.
#[test]
fn update_ref_made_packed_refs_a_ref() {
    for format in RefFormat::ALL {
        let repo = Repo::bare(format, refdb_types::HashKind::Sha1);
        set_up(&repo);
        let before = repo.refs();
        for name in ["packed-refs", "shallow", "info/grafts", "hooks/post-update", "worktrees/w/index"] {
            for words in [&["update-ref", name, "main"][..], &["update-ref", "--no-deref", name, "main", ""]] {
                let said = refdb(repo.dir(), words, b"");
                assert!(said.stderr.contains_str("git keeps something else in the file of this name"), "{said:?}");
            }
            let line = format!("create {name} {}\n", repo.rev_parse("main"));
            assert!(!refdb(repo.dir(), &["update-ref", "--stdin"], line.as_bytes()).status.success(), "{name}");
            assert!(!repo.git_dir().join(name).exists(), "{name}");
        }
        assert_eq!(repo.refs(), before, "{format:?}");
    }
}

/// Importers write tags without a name, a tagger or a message.
#[test]
fn a_ref_can_hold_each_tag_that_git_can_parse() {
    let twins = Twins::new(RefFormat::Files, &|repo| {
        repo.commit();
    });
    let tree = twins.git.git_with_input(["hash-object", "-t", "tree", "-w", "--stdin"], "");
    twins.refdb.git_with_input(["hash-object", "-t", "tree", "-w", "--stdin"], "");
    let upper = tree.to_uppercase();
    for content in [
        format!("object {tree}\ntype tree\ntag v\n"),
        format!("object {tree}\ntype tree\ntag v"),
        format!("object {tree}\ntype tree\ntag \n"),
        format!("object {tree}\ntype tree\ntag \n\n"),
        format!("object {tree}\ntype tree\ntag \r\n"),
        format!("object {tree}\ntype tree\ntag\n\n\n"),
        format!("object {tree}\ntype tree\n\n\n\n\n\n\n"),
        format!("object {tree} \ntype tree\ntag v\n\n"),
        format!("object {tree}\n\ntype tree\ntag v\n\n"),
        format!("object {upper}\ntype tree\ntag v\n\n"),
        format!("object {tree}\ntype blob\ntag v\ntagger x"),
        format!("object {tree}\ntype blob\ntag \0v\nx"),
        format!("object {tree}\ntype commit\ntag v\nx"),
        format!("object {tree}\ntype tag\ntag v\nx"),
        format!("object {}\ntype tree\ntag v\nx", "0".repeat(40)),
        format!("Object {tree}\ntype tree\ntag v\nx"),
    ] {
        let ids = [&twins.git, &twins.refdb].map(|repo| {
            repo.git_with_input(["hash-object", "-t", "tag", "-w", "--literally", "--stdin"], content.as_str())
        });
        // Only the exit codes are compared, because git remembers which type a tag states for its target, and warns if
        // the type is wrong.
        for name in ["refs/tags/odd", "refs/heads/odd"] {
            let [by_git, by_refdb] = [
                git(twins.git.dir(), &["update-ref", name, &ids[0]], b""),
                refdb(twins.refdb.dir(), &["update-ref", name, &ids[0]], b""),
            ];
            assert_eq!(by_git.status, by_refdb.status, "{name} {content:?}: {by_git:?} {by_refdb:?}");
        }
    }
}

/// Regression: a full id, which means the object whatever refs there are, was refused if the setting was bad.
#[test]
fn a_full_id_does_not_depend_on_whether_names_may_be_ambiguous() {
    let twins = Twins::new(RefFormat::Files, &|repo| {
        repo.create_refs([("refs/heads/main", repo.commit())]);
    });
    let id = twins.git.rev_parse("main").to_string();
    for name in [&id, &id.to_uppercase(), &format!("{id}^{{commit}}"), "main", "refs/heads/main", "main^{commit}"] {
        twins.same(&["-c", "core.warnAmbiguousRefs=x", "update-ref", "refs/heads/new", name], b"");
    }
}
