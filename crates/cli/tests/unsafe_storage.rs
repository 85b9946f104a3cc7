//! Commands in repositories on mounts on which updates can be lost. Planted faults make a folder look like such a
//! mount.
#![allow(clippy::unwrap_used, reason = "tests")]

use refdb_testkit::{RefFormat, Repo};
use refdb_types::HashKind;
use std::process::Output;

fn run(repo: &Repo, fault: &str, words: &[&str]) -> Output {
    repo.run_with_fault(env!("CARGO_BIN_EXE_refdb"), fault, words)
}

#[test]
fn refs_are_not_written_where_updates_can_be_lost_unless_a_setting_says_so() {
    for (fault, format, is_refused) in [
        ("vfs-nocto", RefFormat::Files, true),
        ("vfs-nocto", RefFormat::Reftable, false),
        ("vfs-sshfs", RefFormat::Files, true),
        ("vfs-sshfs", RefFormat::Reftable, true),
        // Previously, a mount that could not be found counted as safe.
        ("vfs-no-mount", RefFormat::Files, true),
        ("vfs-no-mount", RefFormat::Reftable, true),
    ] {
        let repo = Repo::bare(format, HashKind::Sha1);
        let id = repo.commit().to_string();
        repo.git(["update-ref", "refs/heads/old", &id]);
        let writes: [&[&str]; 4] = [
            &["update-ref", "refs/heads/new", &id],
            &["symbolic-ref", "refs/heads/link", "refs/heads/old"],
            &["pack-refs", "--all"],
            &["update-ref", "-d", "refs/heads/old"],
        ];
        for words in writes {
            let output = run(&repo, fault, words);
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(said.contains("refdb.unsafeStorage=true writes nevertheless"), is_refused, "{words:?}: {said}");
            assert_eq!(output.status.success(), !is_refused, "{words:?}: {said}");
        }
        let listed = run(&repo, fault, &["for-each-ref", "--format=%(refname)"]);
        let expected = if is_refused { "refs/heads/old\n" } else { "refs/heads/new\n" };
        assert_eq!(String::from_utf8_lossy(&listed.stdout), expected, "refs are read, {fault}, {format:?}");
        repo.config("refdb.unsafeStorage", "true");
        let output = run(&repo, fault, &["update-ref", "refs/heads/allowed", &id]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}
