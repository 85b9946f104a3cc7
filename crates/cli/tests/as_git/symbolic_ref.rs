//! Compares `refdb symbolic-ref` with git's.

use crate::common::{Twins, same, same_with};
use refdb_testkit::{RefFormat, Repo};
use refdb_types::HashKind;

fn set_up(repo: &Repo) {
    let commits = repo.commits(2);
    repo.create_refs([
        ("refs/heads/main", commits[1]),
        ("refs/heads/other", commits[0]),
        ("refs/tags/main", commits[0]),
    ]);
    repo.git(["symbolic-ref", "refs/heads/link", "refs/heads/other"]);
    repo.git(["symbolic-ref", "refs/heads/link2", "refs/heads/link"]);
    repo.git(["symbolic-ref", "refs/heads/dangling", "refs/heads/none"]);
    repo.git(["symbolic-ref", "refs/heads/loop", "refs/heads/loop"]);
    repo.git(["symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/x"]);
    repo.git(["symbolic-ref", "TOP", "refs/remotes/origin/HEAD"]);
}

#[test]
fn symbolic_refs_are_read_as_git_reads_them() {
    for format in RefFormat::ALL {
        let repo = Repo::with_worktree(format, HashKind::Sha1);
        set_up(&repo);
        for name in [
            "HEAD",
            "refs/heads/main",
            "refs/heads/link",
            "refs/heads/link2",
            "refs/heads/dangling",
            "refs/heads/loop",
            "refs/heads/none",
            "none",
            "bad..name",
            "TOP",
            "refs/remotes/origin/HEAD",
            "",
        ] {
            for options in
                [&[][..], &["-q"], &["--short"], &["--no-recurse"], &["--no-recurse", "--short"], &["--recurse"]]
            {
                same(repo.dir(), &[&["symbolic-ref"], options, &[name]].concat(), b"");
            }
        }
        for words in [&[][..], &["a", "b", "c"], &["-d"], &["-d", "a", "b"], &["--foo"], &["-m"]] {
            same(repo.dir(), &[&["symbolic-ref"], words].concat(), b"");
        }
    }
}

#[test]
fn symbolic_refs_are_changed_as_git_changes_them() {
    for format in RefFormat::ALL {
        let twins = Twins::new(format, &set_up);
        for words in [
            &["HEAD", "refs/heads/other"][..],
            &["-m", "to main", "HEAD", "refs/heads/main"],
            &["-m", "", "HEAD", "refs/heads/main"],
            &["HEAD", "foo"],
            &["HEAD", "refs/heads/unborn"],
            &["HEAD", "refs/heads/main"],
            &["low", "refs/heads/main"],
            &["bad..name", "refs/heads/main"],
            &["refs/foo/new", "bad..name"],
            &["refs/foo/new", "ORIG_HEAD"],
            &["-m", "why", "refs/foo/new", "refs/heads/main"],
            &["refs/heads/main/below", "refs/heads/other"],
            &["refs/heads", "refs/heads/other"],
            &["-d", "refs/foo/new"],
            &["-d", "refs/foo/new"],
            &["-d", "refs/heads/main"],
            &["-d", "HEAD"],
            &["-d", "refs/heads/dangling"],
            &["-d", "bad..name"],
            &["-qd", "refs/heads/loop"],
            // A reftable keeps the reflog of a deleted symbolic ref.
            &["-m", "made", "refs/heads/new", "refs/heads/main"],
            &["-d", "refs/heads/new"],
            &["-m", "made again", "refs/heads/new", "refs/heads/other"],
        ] {
            twins.same(&[&["symbolic-ref"], words].concat(), b"");
        }
    }
}

#[test]
fn who_makes_a_change_is_found_out_before_it_is_made() {
    let repo = Repo::with_worktree(RefFormat::Files, HashKind::Sha1);
    set_up(&repo);
    for date in ["bogus", "1700000000", "yesterday"] {
        let variable = ("GIT_COMMITTER_DATE", date);
        same_with(repo.dir(), variable, &["symbolic-ref", "-m", "why", "HEAD", "refs/heads/other"]);
        same_with(repo.dir(), variable, &["symbolic-ref", "HEAD", "refs/heads/main"]);
        same_with(repo.dir(), variable, &["update-ref", "refs/heads/main", "refs/heads/other"]);
    }
    same_with(repo.dir(), ("GIT_COMMITTER_NAME", "<>"), &["symbolic-ref", "HEAD", "refs/heads/other"]);
}

#[test]
fn a_name_that_no_ref_may_have_is_no_ref() {
    for format in RefFormat::ALL {
        let repo = Repo::with_worktree(format, HashKind::Sha1);
        for name in
            ["refs/heads/.x", "refs/heads/a\\b", "refs/heads/a\tb", "refs/heads/x.lock", "a b", "refs/heads/a..b"]
        {
            same(repo.dir(), &["symbolic-ref", name], b"");
            same(repo.dir(), &["symbolic-ref", "-q", name], b"");
            same(repo.dir(), &["symbolic-ref", "-d", name], b"");
        }
    }
}

#[test]
fn a_symbolic_ref_to_no_name_is_read_without_its_target_and_deleted() {
    for content in ["ref: ", "ref:\n", "ref: bad..name\n", "ref: refs/heads/.x\n", "ref: ../HEAD\n", "re: x\n"] {
        let twins = Twins::new(RefFormat::Files, &|repo| {
            set_up(repo);
            let folder = repo.git_dir().join("refs/heads");
            std::fs::write(folder.join("broken"), content).unwrap();
            std::fs::write(folder.join("to-broken"), "ref: refs/heads/broken\n").unwrap();
        });
        for name in ["refs/heads/broken", "refs/heads/to-broken"] {
            for options in [&[][..], &["--no-recurse"], &["--no-recurse", "--short"], &["-q", "-d"]] {
                twins.same(&[&["symbolic-ref"], options, &[name]].concat(), b"");
            }
        }
        twins.same(&["for-each-ref"], b"");
    }
}

/// Replaces the only occurrence of `old` in the repository's reftables. Ref blocks have no checksum.
fn patch_tables(repo: &Repo, old: &[u8], new: &[u8]) {
    for entry in std::fs::read_dir(repo.git_dir().join("reftable")).unwrap() {
        let path = entry.unwrap().path();
        let mut bytes = std::fs::read(&path).unwrap();
        if let Some(at) = bytes.windows(old.len()).position(|window| window == old) {
            bytes[at..at + old.len()].copy_from_slice(new);
            return std::fs::write(path, bytes).unwrap();
        }
    }
    panic!("no table has {old:?}");
}

/// Regression: in a reftable, a symbolic ref whose target led out of `refs/` could be neither read nor deleted.
#[test]
fn a_symbolic_ref_to_no_name_in_a_reftable_is_read_without_its_target_and_deleted() {
    for target in ["refs/heads/a..b", "../heads/abcde"] {
        let twins = Twins::new(RefFormat::Reftable, &|repo| {
            repo.create_refs([("refs/heads/main", repo.commit())]);
            repo.git(["symbolic-ref", "refs/heads/broken", "refs/heads/axxb"]);
            repo.git(["symbolic-ref", "refs/heads/to-broken", "refs/heads/broken"]);
            let old = &b"refs/heads/axxb"[..target.len()];
            patch_tables(repo, old, target.as_bytes());
        });
        for name in ["refs/heads/broken", "refs/heads/to-broken"] {
            twins.same(&["show-ref", "--exists", name], b"");
            twins.same(&["show-ref", "--verify", name], b"");
            twins.same(&["update-ref", "refs/heads/new", name], b"");
        }
        for name in ["refs/heads/to-broken", "refs/heads/broken"] {
            for options in [&[][..], &["--no-recurse"], &["--no-recurse", "--short"], &["-q"], &["-q", "-d"]] {
                twins.same(&[&["symbolic-ref"], options, &[name]].concat(), b"");
            }
        }
        twins.same(&["for-each-ref"], b"");
    }
}
