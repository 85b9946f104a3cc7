//! Compares with git which ref a name stands for, and what happens when two names stand for the same ref.

use crate::common::{Twins, refdb, same, within};
use refdb_testkit::{RefFormat, Repo};
use refdb_types::ObjectId;
use std::{
    path::{Path, PathBuf},
    process::Output,
};

/// Creates three branches and the linked worktree `w` beside the main worktree.
fn with_linked(repo: &Repo) {
    let commits = repo.commits(3);
    repo.create_refs([("refs/heads/main", commits[0]), ("refs/heads/w", commits[1])]);
    repo.create_refs([("refs/heads/unborn/other", commits[2])]);
    repo.git(["worktree", "add", "-q", &linked(repo).to_string_lossy(), "w"]);
}

fn linked(repo: &Repo) -> PathBuf {
    repo.scratch().join("w")
}

fn folders(repo: &Repo) -> [PathBuf; 2] {
    [repo.dir().to_owned(), linked(repo)]
}

/// Returns the object id that real git finds under `name`.
fn by_git(repo: &Repo, folder: &Path, name: &str) -> String {
    let folder = folder.to_string_lossy();
    repo.git(["-C", &folder, "rev-parse", "--verify", "-q", name]).trim().to_owned()
}

fn said(output: &Output) -> (Option<i32>, String) {
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// All refs that git sees in either worktree.
fn all(repo: &Repo) -> String {
    let list = |folder: &Path| {
        repo.git([
            "-C",
            &folder.to_string_lossy(),
            "for-each-ref",
            "--include-root-refs",
            "--format=%(refname) %(objectname)",
        ])
    };
    folders(repo).iter().map(|folder| list(folder)).collect()
}

#[test]
fn behind_a_worktrees_prefix_only_its_own_refs_are_its_refs() {
    for format in RefFormat::ALL {
        for at in 0..2 {
            let twins = Twins::new(format, &with_linked);
            let id = by_git(&twins.git, twins.git.dir(), "main");
            for name in [
                "main-worktree/refs/heads/main",
                "main-worktree/refs/heads/new",
                "main-worktree/refs/bisect",
                "main-worktree/foo",
                "main-worktree/main-worktree/HEAD",
                "main-worktree/worktrees/w/HEAD",
                "worktrees/w/refs/heads/main",
                "worktrees/w/foo",
                "worktrees/w/main-worktree/HEAD",
                "refs/worktrees/x",
            ] {
                let words = ["update-ref", name, &id];
                twins.same_in(&folders(&twins.git)[at], &folders(&twins.refdb)[at], &words, b"");
                for folder in folders(&twins.refdb) {
                    same(&folder, &["show-ref", "--exists", name], b"");
                    assert_eq!(by_git(&twins.refdb, &folder, name), id, "{format:?}: {name}");
                }
            }
            // No branch is created or moved, as with git.
            assert_eq!(all(&twins.git), all(&twins.refdb));
            let wrong = "1".repeat(40);
            for name in ["main-worktree/refs/heads/main", "worktrees/w/foo"] {
                let words = ["update-ref", name, &id, &wrong];
                twins.same_in(&folders(&twins.git)[at], &folders(&twins.refdb)[at], &words, b"");
            }
        }
    }
}

/// Previously, the missing tree itself was asked whether it is a tree, so that names that end with a slash were refused.
#[test]
fn a_slash_is_allowed_behind_a_folder_whose_tree_is_missing() {
    for format in RefFormat::ALL {
        let set_up = |repo: &Repo| {
            let file = format!("100644 blob {}\tfile\n", repo.blob("content"));
            let folder = repo.git_with_input(["mktree"], &file).trim().to_owned();
            let module = format!("160000 commit {}\tmodule\n", "1".repeat(40));
            let all = format!("{file}{module}040000 tree {folder}\tfolder\n");
            let tree = repo.git_with_input(["mktree"], &all).trim().to_owned();
            let commit = repo.git(["commit-tree", "-m", "x", &tree]).trim().to_owned();
            repo.git(["update-ref", "refs/heads/main", &commit]);
            for number in 0..5 {
                repo.git(["update-ref", &format!("refs/tags/{number}"), &folder]);
            }
            std::fs::remove_file(repo.git_dir().join("objects").join(&folder[..2]).join(&folder[2..])).unwrap();
        };
        let twins = Twins::new(format, &set_up);
        for (number, path) in ["folder/", "folder", "folder//", "file/", "module/"].into_iter().enumerate() {
            twins.same(&["update-ref", "-d", &format!("refs/tags/{number}"), &format!("main:{path}")], b"");
        }
    }
}

#[test]
fn a_worktree_itself_is_no_ref_and_nothing_is_written_among_worktrees() {
    for format in RefFormat::ALL {
        let repo = Repo::with_worktree(format, refdb_types::HashKind::Sha1);
        with_linked(&repo);
        let id = by_git(&repo, repo.dir(), "main");
        for folder in folders(&repo) {
            for name in ["worktrees/w", "worktrees/none", "worktrees/HEAD"] {
                for words in [&["update-ref", name, &id][..], &["symbolic-ref", name, "refs/heads/main"]] {
                    let (code, text) = said(&refdb(&folder, words, b""));
                    assert!(matches!(code, Some(1 | 128)) && text.contains("bad name"), "{words:?}: {code:?} {text}");
                }
                // Such a name cannot be written through a symbolic ref either.
                repo.git(["symbolic-ref", "refs/heads/link", name]);
                let (code, text) = said(&refdb(&folder, &["update-ref", "refs/heads/link", &id], b""));
                assert!(code == Some(128) && text.contains("bad name"), "{code:?} {text}");
                same(&folder, &["show-ref", "--exists", name], b"");
            }
        }
        let worktrees: Vec<_> = std::fs::read_dir(repo.git_dir().join("worktrees")).unwrap().collect();
        assert_eq!(worktrees.len(), 1);
    }
}

#[test]
fn a_worktrees_own_ref_by_its_long_name_is_written_once_and_does_not_hang() {
    for format in RefFormat::ALL {
        for (at, long, branch) in [(0, "main-worktree/", "refs/heads/main"), (1, "worktrees/w/", "refs/heads/w")] {
            let repo = Repo::with_worktree(format, refdb_types::HashKind::Sha1);
            with_linked(&repo);
            let folder = &folders(&repo)[at];
            let other = by_git(&repo, repo.dir(), "refs/heads/unborn/other");
            let log = |name: &str| repo.git(["-C", &folder.to_string_lossy(), "reflog", "show", name]).lines().count();
            let before = log("HEAD");
            // The change of a branch must add an entry to the reflog of the HEAD that leads to it.
            let output = within(folder, &["update-ref", "-m", "long", &format!("{long}HEAD"), &other], b"");
            assert_eq!(said(&output), (Some(0), String::new()), "{format:?}");
            assert_eq!(by_git(&repo, folder, branch), other);
            assert_eq!(log("HEAD"), before + 1);
            let bisect = format!("{long}refs/bisect/bad");
            let output = within(folder, &["update-ref", &bisect, &other], b"");
            assert_eq!(said(&output), (Some(0), String::new()), "{format:?}");
            assert_eq!(by_git(&repo, folder, "refs/bisect/bad"), other);
            assert_eq!(by_git(&repo, folder, &bisect), other);
            repo.verify();
        }
    }
}

#[test]
fn two_names_for_one_ref_in_a_transaction_are_refused_at_once() {
    for format in RefFormat::ALL {
        let repo = Repo::with_worktree(format, refdb_types::HashKind::Sha1);
        with_linked(&repo);
        let id = by_git(&repo, repo.dir(), "refs/heads/unborn/other");
        for (at, one, other) in [
            (0, "refs/bisect/bad", "main-worktree/refs/bisect/bad"),
            (0, "main-worktree/refs/bisect/bad", "refs/bisect/bad"),
            (0, "HEAD", "main-worktree/HEAD"),
            (1, "refs/bisect/bad", "worktrees/w/refs/bisect/bad"),
            (1, "worktrees/w/HEAD", "HEAD"),
        ] {
            let before = all(&repo);
            for options in [&["update-ref", "--stdin"][..], &["update-ref", "--stdin", "--batch-updates"]] {
                let input = format!("update {one} {id}\nupdate {other} {id}\n");
                let (code, text) = said(&within(&folders(&repo)[at], options, input.as_bytes()));
                let expected =
                    format!("fatal: multiple updates for ref '{one}' not allowed: '{other}' is the same ref\n");
                assert_eq!((code, text.as_str()), (Some(128), expected.as_str()), "{format:?}");
            }
            assert_eq!(all(&repo), before);
        }
        // From the linked worktree the two names stand for different refs.
        let input = format!("update refs/bisect/bad {id}\nupdate main-worktree/refs/bisect/bad {id}\n");
        let output = within(&linked(&repo), &["update-ref", "--stdin"], input.as_bytes());
        assert_eq!(said(&output), (Some(0), String::new()));
        repo.verify();
    }
}

/// Returns exit code, output, and the first line of the message about an existing lock, without the lock's folder. The
/// advice after that line differs between the programs.
fn lock_exists(output: &Output) -> (Option<i32>, String, String) {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let line = text.lines().next().unwrap_or_default();
    let (start, path) = line.split_once("Unable to create '").unwrap_or((line, ""));
    let path = path.rsplit('/').next().unwrap_or_default();
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned(), format!("{start}...{path}"))
}

#[test]
fn two_paths_through_a_linked_folder_end_as_with_git() {
    for (others, batch) in [(0, false), (0, true), (40, false), (40, true)] {
        let twins = Twins::new(RefFormat::Files, &|repo| {
            with_linked(repo);
            let heads = repo.git_dir().join("refs/heads");
            std::fs::create_dir(heads.join("b")).unwrap();
            std::os::unix::fs::symlink("b", heads.join("a")).unwrap();
        });
        let id = by_git(&twins.git, twins.git.dir(), "main");
        let mut input = format!("create refs/heads/a/x {id}\ncreate refs/heads/b/x {id}\n");
        (0..others).for_each(|other| input += &format!("create refs/heads/z{other} {id}\n"));
        let words: &[&str] =
            if batch { &["update-ref", "--stdin", "--batch-updates"] } else { &["update-ref", "--stdin"] };
        let git = crate::common::git(twins.git.dir(), words, input.as_bytes());
        let ours = within(twins.refdb.dir(), words, input.as_bytes());
        assert_eq!(lock_exists(&ours), lock_exists(&git), "{others} {batch}");
        assert!(String::from_utf8_lossy(&ours.stderr).contains("This transaction holds it for 'refs/heads/a/x'"));
        let listed = |repo: &Repo| all(repo).lines().count();
        assert_eq!(listed(&twins.refdb), listed(&twins.git));
        assert!(!has_lock(twins.refdb.git_dir()));
    }
}

#[test]
fn a_bulk_update_through_a_linked_folder_keeps_the_refs_under_both_names() {
    let twins = Twins::new(RefFormat::Files, &|repo| {
        with_linked(repo);
        std::fs::create_dir_all(repo.git_dir().join("refs/x/real")).unwrap();
        std::os::unix::fs::symlink("x", repo.git_dir().join("refs/linked")).unwrap();
        std::os::unix::fs::symlink("real", repo.git_dir().join("refs/x/linked")).unwrap();
        repo.git(["update-ref", "refs/x/real/old", "main"]);
        repo.git(["update-ref", "refs/x/old", "main"]);
    });
    let [id, same] = [&twins.git, &twins.refdb].map(Repo::commit);
    assert_eq!(id, same);
    let new = |lead: &str| (0..40).map(|turn| format!("create {lead}/{turn} {id}\n")).collect::<String>();
    for (lead, others) in
        [("refs/x/linked", "refs/heads"), ("refs/linked", "refs/linked/new"), ("refs/linked/real", "refs/y")]
    {
        let input = format!("update {lead}/old {id}\n{}{}", new(&format!("{lead}/a")), new(others));
        twins.same(&["update-ref", "--stdin"], input.as_bytes());
        assert_eq!(all(&twins.refdb), all(&twins.git), "{lead}");
        assert!(all(&twins.refdb).contains("refs/x/real/old "));
    }
    // A linked folder is packed under both of its names. Git complains about folders that it has removed under the
    // other name.
    crate::common::git(twins.git.dir(), &["pack-refs", "--all"], b"");
    within(twins.refdb.dir(), &["pack-refs", "--all"], b"");
    assert_eq!(all(&twins.refdb), all(&twins.git));
    let packed = |repo: &Repo| std::fs::read(repo.git_dir().join("packed-refs")).unwrap();
    assert_eq!(packed(&twins.refdb), packed(&twins.git));
}

#[test]
fn messages_have_the_long_name_that_was_given() {
    for format in RefFormat::ALL {
        let twins = Twins::new(format, &with_linked);
        let id = by_git(&twins.git, twins.git.dir(), "main");
        for name in ["main-worktree/X_HEAD", "main-worktree/refs/bisect/bad", "worktrees/w/X_HEAD", "X_HEAD"] {
            twins.same(&["update-ref", name, &id, &id], b"");
            twins.same(&["update-ref", "-d", name, &id], b"");
            twins.same(&["update-ref", "--stdin"], format!("verify {name} {id}\n").as_bytes());
        }
    }
}

/// Returns whether a lock file is left in the git directory itself, in `refs/heads` or in `refs/heads/b`.
fn has_lock(git_dir: &Path) -> bool {
    let heads = git_dir.join("refs/heads");
    [&heads, &heads.join("b"), git_dir].iter().any(|dir| {
        std::fs::read_dir(dir).unwrap().any(|entry| entry.unwrap().path().to_string_lossy().ends_with(".lock"))
    })
}

#[test]
fn a_lock_of_someone_else_costs_a_batch_one_ref_only() {
    let twins = Twins::new(RefFormat::Files, &|repo| {
        with_linked(repo);
        repo.config("core.filesRefLockTimeout", "20");
        std::fs::write(repo.git_dir().join("refs/heads/x.lock"), "").unwrap();
    });
    let id = by_git(&twins.git, twins.git.dir(), "main");
    let input = format!("create refs/heads/x {id}\ncreate refs/heads/y {id}\n");
    let words = ["update-ref", "--stdin", "--batch-updates"];
    let git = crate::common::git(twins.git.dir(), &words, input.as_bytes());
    let ours = within(twins.refdb.dir(), &words, input.as_bytes());
    assert_eq!(lock_exists(&ours), lock_exists(&git));
    assert_eq!(all(&twins.refdb), all(&twins.git));
}

#[test]
fn a_symbolic_ref_to_a_worktree_that_is_gone_can_be_deleted_through() {
    let to_gone = |target: &'static str| {
        move |repo: &Repo| {
            with_linked(repo);
            repo.git(["symbolic-ref", "refs/heads/s", target]);
            std::fs::remove_dir_all(repo.git_dir().join("worktrees/w")).unwrap();
        }
    };
    for format in RefFormat::ALL {
        for target in ["worktrees/w/refs/bisect/bad", "worktrees/w/HEAD", "worktrees/never/refs/bisect/bad"] {
            let id: ObjectId = Repo::with_worktree(format, refdb_types::HashKind::Sha1).commit();
            for (words, input) in [
                (&["update-ref", "-d", "refs/heads/s"][..], ""),
                (&["update-ref", "-d", "refs/heads/s", &id.to_string()], ""),
                (&["update-ref", "--no-deref", "-d", "refs/heads/s"], ""),
                (&["update-ref", "--stdin"], "delete refs/heads/s\n"),
                (&["symbolic-ref", "-d", "refs/heads/s"], ""),
            ] {
                Twins::new(format, &to_gone(target)).same(words, input.as_bytes());
            }
        }
    }
}

/// Git's message names the folder rather than a file in it, because objects and logs are no refs.
#[test]
fn a_name_that_is_a_folder_of_the_repository_is_refused_as_git_refuses_it() {
    for format in RefFormat::ALL {
        let twins = Twins::new(format, &|repo| {
            let commits = repo.commits(2);
            repo.create_refs([("refs/heads/main", commits[1]), ("refs/heads/other", commits[0])]);
            std::fs::create_dir_all(repo.git_dir().join("branches/empty")).unwrap();
        });
        for name in ["objects", "logs", "refs", "branches", "worktrees", "refs/heads", "reftable"] {
            twins.same(&["update-ref", name, "main"], b"");
            for request in ["update NAME main", "create NAME main", "verify NAME", "delete NAME main", "delete NAME"] {
                let request = format!("start\n{}\nprepare\nabort\n", request.replace("NAME", name));
                twins.same(&["update-ref", "--stdin"], request.as_bytes());
            }
            same(twins.git.dir(), &["show-ref", "--verify", name], b"");
            same(twins.git.dir(), &["show-ref", "--exists", name], b"");
            same(twins.git.dir(), &["symbolic-ref", name], b"");
        }
    }
}
