//! The drivers of real git behave as their documentation says.

use refdb_testkit::{RefFormat, Repo};

#[test]
fn a_repository_has_the_asked_format_and_no_refs_of_its_own() {
    for (format, hash) in Repo::KINDS {
        let repo = Repo::bare(format, hash);
        assert_eq!(
            repo.git(["rev-parse", "--show-ref-format", "--show-object-format"]),
            format!("{}\n{}", format.name(), hash.name())
        );
        let commits = repo.commits(3);
        assert_eq!(repo.refs(), []);
        assert_eq!(repo.rev_parse(&format!("{}^", commits[2])), commits[1]);
        assert_eq!(repo.git(["symbolic-ref", "HEAD"]), "refs/heads/main");
        repo.verify();
    }
}

#[test]
fn commits_are_the_same_in_every_run() {
    let [one, two] = [RefFormat::Files, RefFormat::Reftable].map(|format| Repo::bare(format, Default::default()));
    assert_eq!(one.commits(2), two.commits(2));
}

#[test]
fn refs_can_be_made_listed_and_filled_in_both_formats() {
    for (format, hash) in Repo::KINDS {
        let repo = Repo::bare(format, hash);
        let commits = repo.commits(7);
        let names = repo.fill(2500, &commits);
        let tag = repo.tag_object(commits[0], "v1");
        repo.create_refs([("refs/tags/v1", tag), ("refs/heads/main", commits[6])]);
        repo.verify();
        let refs = repo.refs();
        assert_eq!(refs.len(), names.len() + 3);
        assert_eq!(refs[0].name, "HEAD");
        assert_eq!(refs[0].symref, Some("refs/heads/main".into()));
        assert_eq!((&refs[1].name, refs[1].oid), (&names[0], commits[0]));
        assert_eq!(repo.rev_parse("refs/tags/v1^{}"), commits[0]);
    }
}

#[test]
fn git_leaves_nothing_running_that_a_copy_could_meet() {
    let repo = Repo::with_worktree(RefFormat::Files, Default::default());
    for _ in 0..50 {
        repo.git(["commit", "--quiet", "--allow-empty", "-m", "any"]);
        assert!(!repo.git_dir().join("objects/maintenance.lock").exists());
        assert!(repo.twin().is_some());
    }
}

#[test]
fn reflogs_are_read_with_both_ids() {
    for (format, hash) in Repo::KINDS {
        let repo = Repo::with_worktree(format, hash);
        let commits = repo.commits(2);
        for (i, commit) in commits.iter().enumerate() {
            repo.git(["update-ref", "-m", &format!("step {i}"), "refs/heads/x", &commit.to_string()]);
        }
        let log = repo.reflog("refs/heads/x");
        assert_eq!(log.len(), 2, "{log:?}");
        let expected =
            format!("{} {} C O Mitter <committer@example.com> 1700000000 +0000\tstep 1", commits[0], commits[1]);
        assert_eq!(log[1], expected);
        assert_eq!(repo.reflog("refs/heads/none").len(), 0);
    }
}

#[test]
#[should_panic(expected = "git refs verify")]
fn verify_sees_a_broken_ref() {
    let repo = Repo::bare(RefFormat::Files, Default::default());
    std::fs::create_dir_all(repo.git_dir().join("refs/heads")).unwrap();
    std::fs::write(repo.git_dir().join("refs/heads/x"), "no id\n").unwrap();
    repo.verify();
}
