//! Reflog messages, and committers, too long for a block of a reftable.

use crate::common::{Twins, refdb};
use refdb_testkit::{RefFormat, Repo};

fn set_up(repo: &Repo) {
    let commits = repo.commits(2);
    repo.create_refs([("refs/heads/main", commits[1]), ("refs/heads/other", commits[0])]);
}

#[test]
fn a_reflog_message_is_cut_where_git_cuts_it() {
    for (block_size, half) in [("0", 2048), ("201", 100), ("65536", 32_768)] {
        let twins = Twins::new(RefFormat::Reftable, &set_up);
        let setting = format!("reftable.blockSize={block_size}");
        for len in [half - 1, half, 3 * half] {
            let text = "x".repeat(len);
            for (message, target) in [(format!("{text} éé"), "main"), (format!("{text}é"), "main~1")] {
                let words = ["-c", &setting, "update-ref", "--create-reflog", "-m", &message, "refs/heads/new", target];
                twins.same(&words, b"");
            }
        }
    }
}

#[test]
fn git_goes_on_writing_after_refdb_wrote_the_longest_messages() {
    let repo = Repo::with_worktree(RefFormat::Reftable, refdb_types::HashKind::Sha1);
    set_up(&repo);
    let message = "m".repeat(20_000);
    for at in 0..4 {
        let name = format!("refs/heads/new{at}");
        let written = refdb(repo.dir(), &["update-ref", "--create-reflog", "-m", &message, &name, "main"], b"");
        assert!(written.status.success(), "{written:?}");
        repo.git(["update-ref", &format!("refs/heads/git{at}"), "main"]);
    }
    repo.git(["pack-refs"]);
    assert_eq!(repo.git(["log", "-g", "--format=%gs", "refs/heads/new0"]).trim_end().len(), 2048);
    repo.verify();
}

#[test]
fn a_committer_too_long_for_any_block_is_refused_as_git_does() {
    for variable in ["GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"] {
        for (words, input) in [
            (&["update-ref", "-m", "x", "refs/heads/new", "main"][..], ""),
            (&["update-ref", "--stdin"], "create refs/heads/new refs/heads/main\n"),
            (&["update-ref", "--stdin", "--batch-updates"], "create refs/heads/new refs/heads/main\n"),
            (&["symbolic-ref", "-m", "x", "HEAD", "refs/heads/other"], ""),
            (&["-c", "core.logAllRefUpdates=false", "update-ref", "refs/tags/new", "main"], ""),
        ] {
            let mut twins = Twins::new(RefFormat::Reftable, &set_up);
            twins.environment.push((variable, "n".repeat(4200)));
            twins.same(words, input.as_bytes());
        }
    }
}

#[test]
fn refdb_repairs_a_stack_that_git_cannot_compact_and_stat_names_what_is_wrong() {
    let repo = Repo::with_worktree(RefFormat::Reftable, refdb_types::HashKind::Sha1);
    set_up(&repo);
    let message = &*"m".repeat(9000);
    let large = ["-c", "reftable.blockSize=65536"];
    for table_count in [1, 2] {
        // As an older refdb left it.
        let name = &*format!("refs/heads/new{table_count}");
        repo.git([&large[..], &["update-ref", "--create-reflog", "-m", message, name, "main"]].concat());
        repo.git([&large[..], &["pack-refs"]].concat());
        if table_count > 1 {
            repo.git(["update-ref", "refs/heads/small", "main"]);
            let packed = repo.try_git(["pack-refs"], "");
            assert!(!packed.status.success(), "git can compact it: there is nothing to repair");
        }
        let text = String::from_utf8(refdb(repo.dir(), &["stat"], b"").stdout).unwrap();
        let expected = format!(
            "log records too large for git, which cannot write any more: 1, the first of {name}; `refdb pack-refs` cuts \
             them"
        );
        assert!(text.contains(&expected), "{text}");
        assert!(refdb(repo.dir(), &["pack-refs"], b"").status.success());
        let text = String::from_utf8(refdb(repo.dir(), &["stat", "--json"], b"").stdout).unwrap();
        assert!(!text.contains("too_large"), "{text}");
        repo.git(["update-ref", "refs/heads/after", "main"]);
        repo.git(["pack-refs"]);
        assert_eq!(repo.git(["log", "-g", "--format=%gs", name]).trim_end(), &message[..2048]);
    }
}
