//! Reflogs of a linked worktree are pruned from another worktree while their refs change, or are taken over by refs of
//! another stack.
#![allow(clippy::unwrap_used, reason = "tests")]

use bstr::BStr;
use refdb::{Error, HashKind, LogJudge, LoggedChange, ObjectId, Precondition, PruneLogs, RefName, Store};
use refdb_testkit::{RefFormat, Repo};

const FORMATS: [RefFormat; 2] = [RefFormat::Files, RefFormat::Reftable];
const HEAD: &str = "worktrees/w/HEAD";

/// Removes the entries with this new value. Before the first answer, `meddle` does what another process could do.
struct Without<'m> {
    new: ObjectId,
    meddle: Option<&'m dyn Fn()>,
}

impl LogJudge for Without<'_> {
    fn begin(&mut self, _: &BStr, _: &mut dyn ExactSizeIterator<Item = u64>) -> refdb::Result<()> {
        Ok(())
    }

    fn goes(&mut self, change: &LoggedChange<'_>) -> refdb::Result<bool> {
        if let Some(meddle) = self.meddle.take() {
            meddle();
        }
        Ok(change.new == self.new)
    }

    fn told(&mut self, _: &LoggedChange<'_>, _: bool) {}

    fn failed(&mut self, name: &RefName, error: Error) {
        panic!("{name}: {error}");
    }
}

/// Creates a repository whose linked worktree has a detached HEAD that moved from commit to commit, all but the last.
fn repository(format: RefFormat) -> (Repo, Vec<ObjectId>) {
    let repo = Repo::with_worktree(format, HashKind::Sha1);
    let ids = repo.commits(4);
    repo.git(["worktree", "add", "-q", "--detach", "../w", &ids[0].to_string()]);
    ids[1..3].iter().for_each(|id| move_head(&repo, *id));
    (repo, ids)
}

fn move_head(repo: &Repo, id: ObjectId) {
    repo.git(["-C", "../w", "update-ref", "--no-deref", "HEAD", &id.to_string()]);
}

fn prune(repo: &Repo, new: ObjectId, meddle: &dyn Fn()) {
    let mut judge = Without { new, meddle: Some(meddle) };
    let how = PruneLogs::new().rewrite(true).update_ref(true);
    let store = Store::open(repo.git_dir()).unwrap();
    store.prune_logs(&[RefName::new(HEAD).unwrap()], how, &mut judge).unwrap();
}

#[test]
fn a_head_that_moves_while_its_reflog_is_judged_stays_where_it_went() {
    for format in FORMATS {
        let (repo, ids) = repository(format);
        prune(&repo, ids[2], &|| move_head(&repo, ids[3]));
        assert_eq!(Store::open(repo.git_dir()).unwrap().id_of(HEAD).unwrap(), Some(ids[3]), "{format:?}");
        let log = repo.git(["-C", "../w", "reflog", "show", "--format=%H", "HEAD"]);
        let kept = [ids[3], ids[1], ids[0]].map(|id| id.to_string());
        assert_eq!(log.lines().collect::<Vec<_>>(), kept, "{format:?}");
    }
}

/// Previously, the second name failed, because the lock of its ref was held already.
#[test]
fn a_reflog_that_is_given_by_two_names_is_pruned() {
    for format in FORMATS {
        let (repo, ids) = repository(format);
        for id in &ids {
            repo.git(["update-ref", "--no-deref", "HEAD", &id.to_string()]);
        }
        let names = ["HEAD", "main-worktree/HEAD"].map(|name| RefName::new(name).unwrap());
        let store = Store::open(repo.git_dir()).unwrap();
        for (new, how) in [(ids[2], PruneLogs::new()), (ids[3], PruneLogs::new().update_ref(true))] {
            store.prune_logs(&names, how, &mut Without { new, meddle: None }).unwrap();
            let log = repo.git(["reflog", "show", "--format=%H", "HEAD"]);
            assert!(!log.contains(&new.to_string()) && log.contains(&ids[1].to_string()), "{format:?}: {log}");
        }
        assert_eq!(store.id_of("HEAD").unwrap(), Some(ids[1]), "{format:?}");
    }
}

#[test]
fn a_worktree_that_is_removed_while_its_reflog_is_judged_is_no_failure() {
    for format in FORMATS {
        let (repo, ids) = repository(format);
        prune(&repo, ids[2], &|| drop(repo.git(["worktree", "remove", "--force", "../w"])));
        assert!(!repo.git_dir().join("worktrees/w").exists(), "{format:?}");
    }
}

/// Previously, the entries kept the update indexes of the busy shared stack, which were beyond those of the worktree's
/// stack.
#[test]
fn a_branch_with_a_long_reflog_becomes_a_ref_of_the_worktrees_own() {
    for format in FORMATS {
        let (repo, ids) = repository(format);
        let (old, new) = (RefName::new("refs/heads/t").unwrap(), RefName::new("refs/worktree/t").unwrap());
        let values = ids.repeat(5);
        for id in &values {
            repo.git(["update-ref", "--create-reflog", &old.to_string(), &id.to_string()]);
        }
        let store = Store::open(repo.git_dir().join("worktrees/w")).unwrap();
        // The worktree's ref that has the name first leaves entries, which must not show up again.
        let mut before = store.transaction();
        before.create(&new, ids[3]);
        before.commit().unwrap();
        store.append_log(&new, ids[3], ids[3], "stale".into()).unwrap();
        let mut delete = store.transaction();
        delete.delete(&new, Precondition::Any);
        delete.commit().unwrap();
        store.append_log(&new, ids[3], ids[3], "stale".into()).unwrap();
        let mut rename = store.transaction();
        rename.rename(&old, &new, ids[3]).message("renamed");
        rename.commit().unwrap();
        let log = repo.git(["-C", "../w", "reflog", "show", "--format=%H %gs", &new.to_string()]);
        let expected =
            [format!("{} renamed", ids[3])].into_iter().chain(values.iter().rev().map(|id| format!("{id} ")));
        assert_eq!(log.lines().map(str::to_owned).collect::<Vec<_>>(), expected.collect::<Vec<_>>(), "{format:?}");
        repo.verify();
    }
}
