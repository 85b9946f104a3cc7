//! Compares `refdb reflog` with git's: its output, and the reflogs that it leaves.

use crate::common::{Twins, refdb, same};
use refdb_testkit::{Git, RefFormat, Repo, files_below};
use std::{fs, os::unix::fs::PermissionsExt, path::Path, process::Command};

/// Creates `main` with four commits, the branches `b` and `c`, and the symbolic ref `link`, with entries in the reflogs
/// of the branches.
pub(crate) fn set_up(repo: &Repo) {
    let commits = repo.commits(4);
    for (turn, commit) in commits.iter().enumerate() {
        at(repo, turn, &["update-ref", "-m", &format!("commit: c{turn}"), "HEAD", &commit.to_string()]);
    }
    at(repo, 4, &["update-ref", "-m", "branch: Created from main~2", "refs/heads/b", &commits[1].to_string()]);
    at(repo, 5, &["update-ref", "-m", "branch: Created from main", "refs/heads/c", &commits[3].to_string()]);
    at(repo, 6, &["update-ref", "-m", "rewind", "refs/heads/c", &commits[0].to_string()]);
    repo.git(["symbolic-ref", "refs/heads/link", "refs/heads/b"]);
}

/// Runs git as if it were `turn` times 1000 seconds after 2023-11-14 22:13:20.
pub(crate) fn at(repo: &Repo, turn: usize, words: &[&str]) {
    let date = format!("{} +0000", 1_700_000_000 + turn * 1000);
    let status = repo.command(Git::find().program()).env("GIT_COMMITTER_DATE", date).args(words).status().unwrap();
    assert!(status.success(), "{words:?}");
}

/// Describes all refs, all reflogs (as bytes of files, or as git reads them from tables), and, among files, the
/// remaining locks.
pub(crate) fn everything(repo: &Repo) -> String {
    let mut told = repo.git(["for-each-ref", "--include-root-refs", "--format=%(refname) %(objectname) %(symref)"]);
    match repo.format() {
        RefFormat::Files => tell_files(repo.git_dir(), &mut told),
        RefFormat::Reftable => {
            for tree in trees(repo) {
                let list = Git::find().command(&tree).args(["reflog", "list"]).output().unwrap();
                for name in String::from_utf8(list.stdout).unwrap().lines() {
                    let mut tool = Command::new(Git::find().test_tool());
                    let output =
                        tool.current_dir(&tree).args(["ref-store", "main", "for-each-reflog-ent", name]).output();
                    told += &format!("{name}:\n{}", String::from_utf8_lossy(&output.unwrap().stdout));
                }
            }
        }
    }
    told
}

fn trees(repo: &Repo) -> Vec<std::path::PathBuf> {
    let list = repo.git(["worktree", "list", "--porcelain"]);
    list.lines().filter_map(|line| line.strip_prefix("worktree ")).map(Into::into).collect()
}

/// Appends the content of all reflog files and the names of all lock files.
fn tell_files(folder: &Path, told: &mut String) {
    let mut entries: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() && !path.ends_with("objects") {
            tell_files(&path, told);
        } else if path.extension().is_some_and(|end| end == "lock") {
            *told += &format!("lock {}\n", path.file_name().unwrap().display());
        } else if path.components().any(|part| part.as_os_str() == "logs") {
            *told += &format!(
                "{}:\n{}",
                path.file_name().unwrap().display(),
                String::from_utf8_lossy(&fs::read(&path).unwrap())
            );
        }
    }
}

/// Runs the command lines in turn in both repositories, and requires the same output, refs, reflogs and locks after
/// each.
pub(crate) fn do_all(twins: &Twins, lines: &[&[&str]]) {
    for words in lines {
        twins.same(&[&["reflog"], *words].concat(), b"");
        assert_eq!(everything(&twins.git), everything(&twins.refdb), "{words:?}");
    }
}

#[test]
fn reflogs_are_listed_in_the_order_of_the_formats_walk() {
    for format in RefFormat::ALL {
        let twins = Twins::new(format, &|repo| {
            let commit = repo.commits(1)[0].to_string();
            for name in [
                "refs/heads/a-b",
                "refs/heads/a/b",
                "refs/heads/a.b",
                "refs/heads/a0",
                "refs/heads/b/c/d",
                "refs/heads/b/c.d",
            ] {
                repo.git(["update-ref", name, &commit]);
            }
        });
        twins.same(&["reflog", "list"], b"");
    }
}

#[test]
fn what_only_reads_is_answered_as_git_does() {
    for format in RefFormat::ALL {
        let repo = Repo::with_worktree(format, Default::default());
        set_up(&repo);
        // No file can have this name.
        let long = format!("refs/heads/{}", "a".repeat(256));
        for words in [
            &["list"][..],
            &["exists", &long],
            &["show", &long, "--"],
            &["list", "x"],
            &["list", "x", "y"],
            &["list", "--all"],
            &["exists"],
            &["exists", "HEAD", "x"],
            &["exists", "main"],
            &["exists", "refs/heads/main"],
            &["exists", "refs/heads/link"],
            &["exists", "refs/heads/none"],
            &["exists", "a..b"],
            &["exists", "a/"],
            &["exists", ""],
            &["exists", "refs/heads"],
            &["exists", "--", "refs/heads/b"],
            &["exists", "main-worktree/HEAD"],
            &["exists", "worktrees/x/HEAD"],
            &["exists", "-x"],
            &["show", "-h"],
            &["expire", "-h"],
            &["-h"],
            &["--git-completion-helper"],
            &["expire", "--git-completion-helper"],
            &["list", "-h"],
            &["exists", "-h"],
            &["write", "-h"],
            &["delete", "-h"],
            &["drop", "-h"],
            &["delete", "--git-completion-helper"],
            &["drop", "--git-completion-helper"],
        ] {
            same(repo.dir(), &[&["reflog"], words].concat(), b"");
        }
    }
}

#[test]
fn entries_are_written_as_git_writes_them() {
    for format in RefFormat::ALL {
        let twins = Twins::new(format, &set_up);
        let [main, none] = [twins.git.rev_parse("main").to_string(), "0".repeat(40)];
        let missing = "1".repeat(40);
        let [main, none, missing, upper, long] = [&*main, &none, &missing, &main.to_uppercase(), &format!("{main}0")];
        do_all(
            &twins,
            &[
                &["write"],
                &["write", "refs/heads/b", none, main],
                &["write", "refs/heads/b", none, main, "m", "x"],
                &["write", "refs/heads/b", none, main, "  a  b\nc "],
                &["write", "refs/heads/b", main, main, ""],
                &["write", "refs/heads/none", none, main, "there is no such ref"],
                &["write", "refs/heads/link", none, main, "not the branch"],
                &["write", "HEAD", none, main, "head"],
                &["write", "ORIG_HEAD", none, main, "m"],
                &["write", "a/b", none, main, "m"],
                &["write", "refs/heads/b", upper, long, "m"],
                &["write", "refs/heads/b", "x", main, "m"],
                &["write", "refs/heads/b", none, &main[..12], "m"],
                &["write", "refs/heads/b", none, missing, "m"],
                &["write", "refs/heads/b", missing, "x", "m"],
                &["write", "main", none, main, "m"],
                &["write", "FOO", none, main, "m"],
                &["write", "refs", none, main, "m"],
                &["write", "refs/", none, main, "m"],
                &["write", "@", none, main, "m"],
                &["write", "FETCH_HEAD", none, main, "m"],
                &["write", "refs/heads/a..b", none, main, "m"],
                &["write", "refs/heads/x.lock", none, main, "m"],
                &["write", "", none, main, "m"],
                &["write", "-x", none, main, "m"],
                &["write", "--", "refs/heads/z", none, main, "m"],
            ],
        );
    }
}

#[test]
fn single_entries_are_deleted_as_git_deletes_them() {
    for format in RefFormat::ALL {
        for lines in [
            &[
                &["delete"][..],
                &["delete", "main"],
                &["delete", "main@{9}"],
                &["delete", "none@{0}"],
                &["delete", "@{0}"],
                &["delete", "--verbose", "main@{1}", "none@{0}", "HEAD@{0}"],
                &["delete", "-n", "--verbose", "main@{0}"],
                &["delete", "main@{0}x", "main@{00}"],
                &["delete", "-v", "main@{0}"],
            ][..],
            &[
                &["delete", "--rewrite", "--verbose", "HEAD@{2}", "main@{0}", "c@{0}"],
                &["delete", "--rewrite", "HEAD@{2}"],
                &["delete", "--updateref", "HEAD@{0}"],
                &["delete", "--updateref", "--rewrite", "--verbose", "main@{0}"],
                &["delete", "--updateref", "main@{0}"],
                &["delete", "--updateref", "main@{0}"],
                &["delete", "--updateref", "main@{0}"],
                &["delete", "link@{0}"],
                &["delete", "c@{1}", "heads/c@{0}", "refs/heads/c@{0}"],
            ],
            &[
                &["delete", "main@{2023-11-14 22:45:00}"],
                &["delete", "HEAD@{1 day ago}"],
                &["delete", "main@{never}", "main@{-1}", "main@{1999-01-01}"],
                &["delete", "main@{0"],
                &["delete", "b@{x}"],
            ],
        ] {
            do_all(&Twins::new(format, &set_up), lines);
        }
    }
}

#[test]
fn logs_are_dropped_as_git_drops_them() {
    for format in RefFormat::ALL {
        for lines in [
            &[
                &["drop"][..],
                &["drop", "none"],
                &["drop", "main", "none", "c", "c"],
                &["drop", "--single-worktree", "link"],
                &["drop", "b@{0}"],
                &["drop", "@"],
            ][..],
            &[&["drop", "--all", "x"], &["drop", "--all", "--single-worktree"], &["drop", "--all"], &["drop", "-x"]],
        ] {
            do_all(&Twins::new(format, &set_up), lines);
        }
    }
}

/// Sets up the same as [`set_up`] and a second worktree, `../wt`, with reflogs of its own.
pub(crate) fn set_up_tree(repo: &Repo) {
    set_up(repo);
    at(repo, 7, &["worktree", "add", "-q", "-b", "wt", "../wt"]);
    at(repo, 8, &["-C", "../wt", "update-ref", "--create-reflog", "refs/worktree/own", "main"]);
}

#[test]
fn logs_of_other_worktrees_stay_if_only_this_ones_are_meant() {
    for format in RefFormat::ALL {
        for in_tree in [false, true] {
            let twins = Twins::new(format, &set_up_tree);
            let folder = |repo: &Repo| if in_tree { repo.dir().join("../wt") } else { repo.dir().to_owned() };
            let words = ["reflog", "drop", "--all", "--single-worktree"];
            twins.same_in(&folder(&twins.git), &folder(&twins.refdb), &words, b"");
            assert_eq!(everything(&twins.git), everything(&twins.refdb), "{in_tree}");
        }
    }
}

/// Follows git's documentation, although git 2.55 keeps the reflogs of other worktrees.
#[test]
fn logs_of_all_worktrees_are_dropped_with_all() {
    for format in RefFormat::ALL {
        for in_tree in [false, true] {
            let repo = Repo::with_worktree(format, Default::default());
            set_up_tree(&repo);
            let folder = if in_tree { repo.dir().join("../wt") } else { repo.dir().to_owned() };
            let output = refdb(&folder, &["reflog", "drop", "--all"], b"");
            assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
            for tree in [repo.dir().to_owned(), repo.dir().join("../wt")] {
                assert!(refdb(&tree, &["reflog", "list"], b"").stdout.is_empty(), "{in_tree} {}", tree.display());
            }
        }
    }
}

/// Git's reftables lose the whole reflog here, because they mistake the entry for a deletion of the ref.
#[test]
fn an_entry_of_a_deletion_leaves_the_others() {
    for format in RefFormat::ALL {
        let repo = Repo::with_worktree(format, Default::default());
        set_up(&repo);
        let main = repo.rev_parse("main").to_string();
        let output = refdb(repo.dir(), &["reflog", "write", "refs/heads/c", &main, &"0".repeat(40), "gone"], b"");
        assert!(output.status.success(), "{output:?}");
        assert_eq!(repo.reflog("refs/heads/c").len(), 3);
    }
}

#[test]
fn a_reflog_is_written_only_where_its_ref_could_be_among_files() {
    for format in RefFormat::ALL {
        let twins = Twins::new(format, &|repo| {
            set_up(repo);
            repo.git(["update-ref", "refs/x/y/z", "main"]);
            repo.git(["update-ref", "refs/x/packed", "main"]);
            repo.git(["pack-refs", "--all"]);
            repo.git(["symbolic-ref", "refs/bisect/bad/x", "refs/heads/b"]);
            repo.git(["symbolic-ref", "refs/x/q/dangling", "refs/heads/nowhere"]);
        });
        let [null, id] = ["0".repeat(40), twins.git.rev_parse("main").to_string()];
        for name in ["refs/x", "refs/x/y", "refs/x/packed/below", "refs/bisect/bad", "refs/x/q", "refs/x/new", "X_HEAD"]
        {
            twins.same(&["reflog", "write", name, &null, &id, "why"], b"");
        }
        assert_eq!(everything(&twins.git), everything(&twins.refdb));
    }
}

#[test]
fn reflogs_of_names_that_no_ref_should_have_are_passed_over() {
    for format in RefFormat::ALL {
        let twins = Twins::new(format, &|repo| {
            set_up(repo);
            let mut tool = repo.command(Git::find().test_tool());
            tool.args(["ref-store", "main", "update-ref", "made", "refs/heads/bad..name"]);
            tool.args([&repo.rev_parse("main").to_string(), &"0".repeat(40)]);
            tool.arg("REF_SKIP_OID_VERIFICATION,REF_SKIP_REFNAME_VERIFICATION");
            assert!(tool.status().unwrap().success());
        });
        for words in [&["reflog", "list"][..], &["reflog", "expire", "--all"], &["reflog", "drop", "--all"]] {
            twins.same(words, b"");
            assert_eq!(everything(&twins.git), everything(&twins.refdb), "{words:?}");
        }
    }
}

#[test]
fn no_empty_folder_is_left_where_reflogs_are_dropped() {
    for words in [&["reflog", "drop", "--all"][..], &["reflog", "drop", "HEAD", "refs/heads/b", "refs/heads/deep/er/x"]]
    {
        let twins = Twins::new(RefFormat::Files, &|repo| {
            set_up(repo);
            repo.git(["update-ref", "refs/heads/deep/er/x", "main"]);
        });
        twins.same(words, b"");
        let folders = [&twins.git, &twins.refdb].map(|repo| {
            let logs = ["logs", "logs/refs", "logs/refs/heads", "logs/refs/heads/deep"];
            logs.map(|folder| repo.git_dir().join(folder).exists())
        });
        assert_eq!(folders[0], folders[1], "{words:?}");
    }
}

#[test]
fn a_symbolic_link_to_another_reflog_is_no_reflog_and_that_one_stays() {
    for words in [
        &["reflog", "list"][..],
        &["reflog", "exists", "refs/heads/b"],
        &["reflog", "expire", "--expire=all", "b"],
        &["reflog", "expire", "--expire=all", "refs/heads/b"],
        &["reflog", "delete", "b@{0}"],
        &["reflog", "drop", "refs/heads/b"],
        &["update-ref", "-m", "through the link", "refs/heads/b", "main"],
        &["update-ref", "-d", "refs/heads/b"],
    ] {
        let twins = Twins::new(RefFormat::Files, &|repo| {
            set_up(repo);
            let log = repo.git_dir().join("logs/refs/heads/b");
            std::fs::remove_file(&log).unwrap();
            std::os::unix::fs::symlink("main", &log).unwrap();
        });
        twins.same(words, b"");
        assert_eq!(everything(&twins.git), everything(&twins.refdb), "{words:?}");
    }
}

#[test]
fn an_empty_name_is_written_as_git_writes_it() {
    for (name, email) in [(" ", "a@b"), ("<>", "<>"), (" ", " ")] {
        let mut twins = Twins::new(RefFormat::Files, &set_up);
        twins.environment.push(("GIT_COMMITTER_NAME", name.to_owned()));
        twins.environment.push(("GIT_COMMITTER_EMAIL", email.to_owned()));
        twins.environment.push(("GIT_COMMITTER_DATE", "1700000000 +0000".to_owned()));
        twins.same(&["update-ref", "-m", "nobody", "refs/heads/b", "main"], b"");
        let [git, refdb] = [&twins.git, &twins.refdb]
            .map(|repo| std::fs::read_to_string(repo.git_dir().join("logs/refs/heads/b")).unwrap());
        assert_eq!(git.lines().last(), refdb.lines().last());
    }
}

#[test]
fn a_hook_that_refuses_an_entry_or_is_ignored_is_told_of_as_by_git() {
    for format in RefFormat::ALL {
        for (script, mode) in [("#!/bin/sh\ntest \"$1\" != prepared\n", 0o755), ("#!/bin/sh\nexit 1\n", 0o644)] {
            let twins = Twins::new(format, &|repo| {
                repo.create_refs([("refs/heads/main", repo.commit())]);
                let hook = repo.git_dir().join("hooks/reference-transaction");
                fs::create_dir_all(hook.parent().unwrap()).unwrap();
                fs::write(&hook, script).unwrap();
                fs::set_permissions(&hook, fs::Permissions::from_mode(mode)).unwrap();
            });
            let id = twins.git.rev_parse("main").to_string();
            twins.same(&["reflog", "write", "refs/heads/main", &id, &id, "m"], b"");
            // Git reports an ignored hook at the point where it would have called the hook, so a mistake that git finds
            // earlier hides the report.
            twins.same(&["update-ref", "refs/heads/new", "nothing"], b"");
            twins.same(&["update-ref", "refs/heads/new", &id], b"");
            twins.same(&["update-ref", "--stdin"], b"create refs/heads/new nothing\n");
            twins.same(&["update-ref", "--stdin"], b"start\nabort\nstart\ncommit\nstart\nprepare\nabort\n");
            twins.same(&["symbolic-ref", "refs/heads/a", "refs/heads/.b"], b"");
            twins.same(&["symbolic-ref", "refs/heads/a", "refs/heads/b"], b"");
            // A hook without a command is reported, and nothing else.
            let faulty = ["-c", "hook.x.event=reference-transaction", "update-ref", "refs/heads/x", &id];
            twins.same(&faulty, b"");
        }
    }
}

#[test]
fn reflogs_of_refs_with_bad_names_are_listed_and_expire_as_in_git() {
    let twins = Twins::new(RefFormat::Files, &|repo| {
        repo.create_refs([("refs/heads/main", repo.commit())]);
        // Git creates a symbolic ref with a bad name, and a reflog for it, and warns only afterwards.
        for name in ["refs/heads/x.lock/y", "refs/heads/a..b/c", "refs/heads/a b/c", "refs/heads/good/c"] {
            let mut link = repo.command(Git::find().program());
            assert!(link.args(["symbolic-ref", "-m", "made", name, "refs/heads/main"]).status().unwrap().success());
        }
        let logs = repo.git_dir().join("logs/refs/heads");
        for name in ["a/b..c", "a/b c", "a/b.lock"] {
            fs::create_dir_all(logs.join("a")).unwrap();
            fs::copy(logs.join("good/c"), logs.join(name)).unwrap();
        }
    });
    twins.same(&["reflog", "list"], b"");
    let logs = |repo: &Repo| {
        let logs = repo.git_dir().join("logs");
        files_below(&logs).into_iter().map(|name| (fs::read(logs.join(&name)).unwrap().len(), name)).collect::<Vec<_>>()
    };
    // Expiry does not look at the target of a ref with a bad name.
    for expire in ["--expire=never", "--expire=now"] {
        let words = ["reflog", "expire", "--verbose", expire, "--expire-unreachable=now", "--all"];
        twins.same(&[&words[..], &["--dry-run"]].concat(), b"");
        twins.same(&words, b"");
        assert_eq!(logs(&twins.refdb), logs(&twins.git), "{expire}");
    }
}
