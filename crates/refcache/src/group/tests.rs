use super::Job;
use crate::{
    Batch, Error, Outcome, Result, View, ViewSettings, Views, ViewsSettings,
    view::tests::{groups_of, opened_of},
};
use refdb::{Change, Edit, LogOptions, Precondition, RefName, RejectionClass, Target};
use refdb_testkit::{RefFormat, Repo};
use refdb_types::{HashKind, Ident, ObjectId};
use std::{path::Path, sync::Arc, thread, time::Duration};

fn create(name: &str, id: ObjectId) -> Edit {
    let message = Some(Arc::new(format!("create {name}").into()));
    let edit = Edit::new(RefName::new(name).unwrap(), Change::Set(Target::Direct(id)), Precondition::MustNotExist);
    Edit { log: LogOptions::new().message(message).force_create(true), ..edit }
}

fn open(git_dir: &Path) -> Arc<View> {
    Views::new(&ViewsSettings::default()).open(git_dir, &ViewSettings::default()).unwrap()
}

/// Commits each of the batches in a thread of its own. All of them are in the queue before the leader gets the stack's
/// lock.
fn together(repo: &Repo, view: &Arc<View>, batches: Vec<Batch>) -> Vec<Result<Outcome>> {
    let lock = repo.git_dir().join("reftable/tables.list.lock");
    std::fs::write(&lock, "").unwrap();
    let count = batches.len();
    let threads: Vec<_> = batches
        .into_iter()
        .map(|batch| {
            let view = Arc::clone(view);
            thread::spawn(move || view.commit(&batch))
        })
        .collect();
    while groups_of(view).queue().waiting.len() < count {
        thread::sleep(Duration::from_millis(1));
    }
    std::fs::remove_file(&lock).unwrap();
    threads.into_iter().map(|thread| thread.join().unwrap()).collect()
}

fn repo() -> (Repo, ObjectId) {
    let repo = Repo::bare(RefFormat::Reftable, HashKind::Sha1);
    let id = repo.commit();
    (repo, id)
}

#[test]
fn batches_that_have_nothing_to_do_with_each_other_are_made_in_one_addition() {
    let (repo, id) = repo();
    let view = open(repo.git_dir());
    let names = ["refs/heads/a", "refs/heads/b", "refs/tags/c", "refs/changes/01/1/1"];
    let outcomes = together(&repo, &view, names.iter().map(|name| Batch::atomic(vec![create(name, id)])).collect());
    assert!(outcomes.iter().all(|outcome| outcome.as_ref().is_ok_and(|outcome| outcome.group == 4)), "{outcomes:?}");
    let mut indexes: Vec<u64> =
        names.iter().map(|name| view.get((*name).into()).unwrap().unwrap().update_index).collect();
    indexes.sort_unstable();
    assert!(indexes.windows(2).all(|pair| pair[0] + 1 == pair[1]), "each has an update index of its own: {indexes:?}");
    for name in names {
        assert_eq!(repo.rev_parse(name), id);
        assert_eq!(repo.git(["reflog", "show", "--format=%gs", name]), format!("create {name}"));
    }
    assert_eq!(view.stats().largest_group, 4);
    repo.verify();
}

#[test]
fn a_refused_member_leaves_nothing_and_the_others_are_made() {
    let (repo, id) = repo();
    repo.git(["update-ref", "refs/heads/taken", &id.to_string()]);
    let view = open(repo.git_dir());
    let bad = Batch::atomic(vec![create("refs/heads/new", id), create("refs/heads/taken", id)]);
    let good = Batch::atomic(vec![create("refs/heads/good", id)]);
    let outcomes = together(&repo, &view, vec![bad, good]);
    let error = outcomes[0].as_ref().unwrap_err();
    assert!(
        matches!(error.store(), Some(refdb::Error::Rejected(refused)) if refused.class() == RejectionClass::CreateExists),
        "{error}"
    );
    assert_eq!(outcomes[1].as_ref().unwrap().group, 1);
    assert_eq!(repo.refs().len(), 2);
    assert!(view.get("refs/heads/new".into()).unwrap().is_none());
}

#[test]
fn a_member_that_no_block_can_hold_fails_alone() {
    let (repo, id) = repo();
    let view = open(repo.git_dir());
    let mut batches: Vec<_> =
        ["refs/heads/a", "refs/heads/b"].map(|name| Batch::atomic(vec![create(name, id)])).into_iter().collect();
    let name = "n".repeat(4200).into();
    let committer = Ident { name, email: "e@example.com".into(), time_seconds: 1_700_000_000, offset_decimal: 0 };
    batches.push(Batch { committer: Some(committer), ..Batch::atomic(vec![create("refs/heads/c", id)]) });
    let outcomes = together(&repo, &view, batches);
    assert!(outcomes[..2].iter().all(|outcome| outcome.as_ref().is_ok_and(|made| made.group == 2)), "{outcomes:?}");
    let error = outcomes[2].as_ref().unwrap_err().to_string();
    assert!(error.contains("does not fit in a block of 4096 bytes"), "{error}");
    repo.git(["pack-refs"]);
    assert_eq!(repo.refs().len(), 2);
}

#[test]
fn a_name_too_long_for_an_index_is_rejected_by_itself_unless_its_batch_is_atomic() {
    let (repo, id) = repo();
    let view = open(repo.git_dir());
    let long = format!("refs/heads/{}", "n".repeat(2009));
    let batch = |beside: &str| vec![create(&long, id), create(beside, id)];
    let atomic = Batch::atomic(batch("refs/heads/a"));
    let outcomes = together(&repo, &view, vec![atomic, Batch::per_edit(batch("refs/heads/b"))]);
    let is_too_large = |refused: &refdb::Rejection| refused.class() == RejectionClass::TooLarge;
    let error = outcomes[0].as_ref().unwrap_err();
    assert!(matches!(error.store(), Some(refdb::Error::Rejected(refused)) if is_too_large(refused)), "{error}");
    let rejected = &outcomes[1].as_ref().unwrap().rejected;
    assert!(rejected.len() == 1 && rejected[0].0 == 0 && is_too_large(&rejected[0].1), "{rejected:?}");
    assert_eq!(repo.git(["for-each-ref", "--format=%(refname)"]), "refs/heads/b");
}

#[test]
fn a_member_that_leads_into_another_worktree_is_made_alone_or_fails_alone() {
    let (repo, id) = repo();
    let tree = tempfile::tempdir().unwrap();
    let folder = tree.path().join("w");
    repo.git(["worktree", "add", "--quiet", "--detach", folder.to_str().unwrap(), &id.to_string()]);
    for (name, target) in [("refs/heads/there", "worktrees/w/refs/bisect/x"), ("refs/heads/gone", "worktrees/g/HEAD")] {
        repo.git(["symbolic-ref", name, target]);
    }
    let view = open(repo.git_dir());
    let set = |name: &str| {
        Batch::atomic(vec![Edit {
            deref: true,
            ..Edit::new(RefName::new(name).unwrap(), Change::Set(Target::Direct(id)), Precondition::Any)
        }])
    };
    let names = ["refs/heads/a", "refs/heads/b"];
    let mut batches: Vec<_> = names.iter().map(|name| Batch::atomic(vec![create(name, id)])).collect();
    batches.extend([set("refs/heads/there"), set("refs/heads/gone")]);
    let outcomes = together(&repo, &view, batches);
    let groups: Vec<_> = outcomes[..3].iter().map(|outcome| outcome.as_ref().unwrap().group).collect();
    assert_eq!(groups, [2, 2, 1], "the one that leads out is made, and alone");
    assert!(outcomes[3].is_err(), "there is no such worktree: {outcomes:?}");
    for name in ["refs/heads/a", "refs/heads/b", "worktrees/w/refs/bisect/x"] {
        assert_eq!(repo.rev_parse(name), id);
    }
}

#[test]
fn each_member_is_checked_against_those_before_it() {
    let (repo, id) = repo();
    let view = open(repo.git_dir());
    // Two edits of the same name, and pairs of names in which one is a folder of the other: one edit of each pair
    // succeeds, whichever comes first.
    let names = ["refs/heads/a", "refs/heads/a", "refs/heads/b", "refs/heads/b/c", "refs/heads/d/e", "refs/heads/d"];
    let outcomes = together(&repo, &view, names.iter().map(|name| Batch::atomic(vec![create(name, id)])).collect());
    for pair in outcomes.chunks(2) {
        let made = pair.iter().filter(|outcome| outcome.is_ok()).count();
        assert_eq!(made, 1, "{pair:?}");
        let refused = pair.iter().find_map(|outcome| outcome.as_ref().err()).unwrap();
        assert!(matches!(refused.store(), Some(refdb::Error::Rejected(_))), "{refused}");
    }
    assert_eq!(repo.refs().len(), 3);
    repo.verify();
}

#[test]
fn a_lock_that_nobody_gives_up_is_an_error_for_all_who_wait() {
    let (repo, id) = repo();
    repo.config("reftable.lockTimeout", "300");
    let view = open(repo.git_dir());
    let lock = repo.git_dir().join("reftable/tables.list.lock");
    std::fs::write(&lock, "").unwrap();
    let threads: Vec<_> = ["refs/heads/a", "refs/heads/b", "refs/heads/c"]
        .map(|name| {
            let view = Arc::clone(&view);
            thread::spawn(move || view.commit(&Batch::atomic(vec![create(name, id)])))
        })
        .into();
    for thread in threads {
        let error = thread.join().unwrap().unwrap_err();
        assert!(matches!(error, Error::Shared(_)) && error.to_string().contains("tables.list.lock"), "{error}");
    }
    std::fs::remove_file(&lock).unwrap();
    view.commit(&Batch::atomic(vec![create("refs/heads/a", id)])).unwrap();
}

/// Previously, a batch that was added shortly before its leader gave up failed with it.
#[test]
fn a_batch_that_came_later_waits_on_when_its_leader_gives_up() {
    let (repo, id) = repo();
    repo.config("reftable.lockTimeout", "1000");
    let view = open(repo.git_dir());
    let lock = repo.git_dir().join("reftable/tables.list.lock");
    std::fs::write(&lock, "").unwrap();
    let commit = |name: &'static str| {
        let view = Arc::clone(&view);
        thread::spawn(move || view.commit(&Batch::atomic(vec![create(name, id)])))
    };
    let leader = commit("refs/heads/leader");
    while !groups_of(&view).queue().has_leader {
        thread::sleep(Duration::from_millis(1));
    }
    // The leader has counted the batches that wait by then.
    thread::sleep(Duration::from_millis(200));
    let late = commit("refs/heads/late");
    assert!(leader.join().unwrap().is_err());
    std::fs::remove_file(&lock).unwrap();
    assert_eq!(late.join().unwrap().unwrap().group, 1);
}

#[test]
fn a_batch_waits_for_its_hook_alone() {
    let (repo, id) = repo();
    let hook = repo.git_dir().join("hooks/reference-transaction");
    std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
    std::fs::write(&hook, "#!/bin/sh\nexit 1\n").unwrap();
    std::fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let view = open(repo.git_dir());
    let error = view.commit(&Batch::atomic(vec![create("refs/heads/a", id)])).unwrap_err();
    assert!(matches!(error.store(), Some(refdb::Error::Hook(_))), "{error}");
    assert!(repo.refs().is_empty());
}

#[test]
fn a_batch_whose_leader_panicked_is_an_error_and_the_next_is_made() {
    let (repo, id) = repo();
    let view = open(repo.git_dir());
    // The job is not in the queue, as after its leader has taken it out.
    let batch = Batch::atomic(vec![create("refs/heads/a", id)]);
    let job = Arc::new(Job::new(&opened_of(&view).store, &batch, false).unwrap());
    let (told, outcome) = std::sync::mpsc::channel();
    thread::spawn({
        let view = Arc::clone(&view);
        move || {
            let groups = groups_of(&view);
            told.send(groups.outcome_of(&job, &opened_of(&view).store, &mut None, groups.queue())).unwrap();
        }
    });
    let outcome = outcome.recv_timeout(Duration::from_secs(60)).expect("it waits for ever");
    assert!(matches!(outcome, Err(Error::Abandoned(_))), "{outcome:?}");
    view.commit(&Batch::atomic(vec![create("refs/heads/b", id)])).unwrap();
    assert_eq!(repo.rev_parse("refs/heads/b"), id);
}
