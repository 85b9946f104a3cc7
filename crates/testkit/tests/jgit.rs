//! JGit and git see the same refs, in both formats, through the driver.

use refdb_testkit::{JGit, RefFormat, Repo};
use refdb_types::{HashKind, ObjectId};

const NONE: ObjectId = ObjectId::null(HashKind::Sha1);

fn open(format: RefFormat) -> (Repo, JGit, Vec<ObjectId>) {
    let repo = Repo::with_worktree(format, HashKind::Sha1);
    let commits = repo.commits(3);
    let jgit = JGit::open(&repo);
    (repo, jgit, commits)
}

#[test]
fn what_git_writes_jgit_sees_at_once() {
    for format in RefFormat::ALL {
        let (repo, mut jgit, commits) = open(format);
        for turn in 0..20 {
            repo.create_refs([(format!("refs/heads/b{turn:02}"), commits[turn % 3])]);
            assert_eq!(jgit.list("refs/heads/").unwrap().len(), turn + 1);
        }
        let tag = repo.tag_object(commits[0], "v1");
        repo.create_refs([("refs/tags/v1", tag)]);
        assert_eq!(jgit.get("refs/tags/v1").unwrap().unwrap().oid, tag);
        assert_eq!(jgit.get("HEAD").unwrap().unwrap().symref, Some("refs/heads/main".into()));
        assert_eq!(jgit.get("refs/heads/none"), Ok(None));
        assert_eq!(jgit.points_at(commits[2]).unwrap().len(), 6);
    }
}

#[test]
fn what_jgit_writes_git_sees() {
    for format in RefFormat::ALL {
        let (repo, mut jgit, commits) = open(format);
        assert_eq!(jgit.update("refs/heads/a", commits[0], Some(NONE), "made").unwrap(), "NEW");
        assert_eq!(jgit.update("refs/heads/a", commits[1], Some(commits[0]), "moved").unwrap(), "FORCED");
        assert_eq!(jgit.update("refs/heads/a", commits[2], Some(commits[0]), "late").unwrap(), "LOCK_FAILURE");
        assert_eq!(repo.rev_parse("refs/heads/a"), commits[1]);
        assert_eq!(jgit.link("refs/heads/link", "refs/heads/a").unwrap(), "NEW");
        assert_eq!(repo.git(["symbolic-ref", "refs/heads/link"]), "refs/heads/a");
        let log = jgit.reflog("refs/heads/a").unwrap();
        assert_eq!(log.len(), 2);
        assert!(log[1].starts_with(format!("{} {} J Git <", commits[0], commits[1]).as_bytes()), "{}", log[1]);
        // Messages are not compared, because git strips the last letter in place of the newline that JGit omits in a
        // reftable.
        let seen = repo.git(["reflog", "show", "--format=%H", "refs/heads/a"]);
        assert_eq!(seen, format!("{}\n{}", commits[1], commits[0]));
        assert_eq!(jgit.delete("refs/heads/a").unwrap(), "FORCED");
        assert_eq!(repo.try_git(["rev-parse", "--verify", "refs/heads/a"], "").status.code(), Some(128));
        repo.verify();
    }
}

#[test]
fn batches_packs_and_compactions_keep_every_ref() {
    for format in RefFormat::ALL {
        let (repo, mut jgit, commits) = open(format);
        repo.create_refs([("refs/heads/old", commits[0])]);
        let edits = [
            ("refs/heads/new", NONE, commits[1]),
            ("refs/heads/old", commits[1], commits[2]),
            ("refs/heads/other", NONE, commits[2]),
        ];
        assert_eq!(jgit.batch(false, &edits).unwrap(), ["OK", "LOCK_FAILURE", "OK"], "{format:?}");
        let atomic = jgit.batch(true, &[("refs/heads/x", NONE, commits[0]), edits[1]]).unwrap();
        assert_ne!(atomic[0], "OK");
        let before = repo.refs();
        assert_eq!(before.len(), 3, "HEAD leads nowhere, so git does not list it");
        jgit.pack().unwrap();
        if format == RefFormat::Reftable {
            jgit.compact().unwrap();
        }
        assert_eq!(repo.refs(), before);
    }
}
