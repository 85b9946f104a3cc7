//! A linked worktree has refs of its own, and sees those of others under longer names: git-worktree(1), "REFS".

use crate::common::{Subject, With, backend, create, delete, on_disk, reftable_backend, rest, set};
use refdb::{Backend, HashKind, Maintenance, RefName, Store, Target, Transaction, TransactionOptions};
use refdb_testkit::RefFormat;
use refdb_vfs::{Fs, LockTimeout};
use std::time::Duration;

struct Linked {
    backend: Box<dyn Maintenance>,
    dir: std::path::PathBuf,
}

/// Adds the worktree `w1` with git.
fn linked(subject: &Subject) -> Linked {
    let dir = subject.repo.scratch().join("w1");
    subject.repo.git(["worktree", "add", "-q", "--no-checkout", "-b", "w1", &dir.to_string_lossy(), "refs/heads/main"]);
    let git_dir = subject.repo.git_dir().join("worktrees/w1");
    let objects = subject.objects();
    let backend =
        backend(subject.repo.format(), subject.repo.hash(), Fs::real(), &git_dir, subject.repo.git_dir(), objects);
    Linked { backend, dir }
}

fn git_lists(subject: &Subject, linked: &Linked) -> Vec<String> {
    let dir = linked.dir.to_string_lossy();
    let format = "--format=%(refname)%(if)%(symref)%(then) -> %(symref)%(else) %(objectname)%(end)";
    let text = subject.repo.git(["-C", &dir, "for-each-ref", "--include-root-refs", format]);
    text.lines().map(str::to_owned).collect()
}

fn lists(backend: &dyn Backend) -> Vec<String> {
    let snapshot = backend.snapshot().unwrap();
    let mut cursor = snapshot.cursor(true).unwrap();
    rest(&mut *cursor)
}

#[test]
fn each_worktree_lists_its_own_refs_among_the_shared_ones() {
    on_disk(|subject| {
        let ids = subject.commits(3);
        subject.repo.create_refs([("refs/heads/main", ids[0]), ("refs/bisect/bad", ids[1]), ("refs/zoo/x", ids[0])]);
        let linked = linked(subject);
        let transaction = |edits: Vec<refdb::Edit>| {
            let context = refdb::transaction::Context { backend: &*linked.backend, ..subject.context() };
            let mut transaction = Transaction::new(context, TransactionOptions::default());
            edits.into_iter().try_for_each(|edit| transaction.add(edit)).unwrap();
            transaction.commit().unwrap();
        };
        // One transaction changes both stacks, or both folders.
        transaction(vec![
            create("refs/bisect/bad", ids[2]),
            create("refs/worktree/mine", ids[2]),
            create("refs/heads/shared", ids[1]),
            set("HEAD", ids[1]),
        ]);
        assert_eq!(lists(&*linked.backend), git_lists(subject, &linked));
        assert_eq!(lists(&*subject.backend), subject.git_lists());
        assert_eq!(subject.get("refs/bisect/bad"), Some(Target::Direct(ids[1])));
        assert_eq!(subject.get("refs/heads/w1"), Some(Target::Direct(ids[1])));
        subject.repo.verify();
        // Each worktree's refs are found under the names that the other has for them.
        assert_eq!(subject.get("worktrees/w1/refs/bisect/bad"), Some(Target::Direct(ids[2])));
        let from_linked = linked.backend.snapshot().unwrap();
        let main = |name: &str| from_linked.get(name.into()).unwrap();
        assert_eq!(main("main-worktree/refs/bisect/bad"), Some(Target::Direct(ids[1])));
        assert_eq!(main("main-worktree/HEAD"), Some(crate::common::symbolic("refs/heads/main")));
        subject.succeed([
            set("worktrees/w1/refs/worktree/mine", ids[0]),
            delete("worktrees/w1/refs/bisect/bad"),
            set("worktrees/w1/HEAD", "refs/heads/shared").no_deref(),
        ]);
        let git = git_lists(subject, &linked);
        assert_eq!(lists(&*linked.backend), git);
        assert_eq!(git[0], "HEAD -> refs/heads/shared");
        assert!(git.contains(&format!("refs/worktree/mine {}", ids[0])), "{git:?}");
        assert!(!git.iter().any(|line| line.starts_with("refs/bisect/bad")), "{git:?}");
    });
}

#[test]
fn a_stack_that_stays_locked_does_not_keep_the_other_one_locked() {
    let mut subject = Subject::new(refdb_testkit::RefFormat::Reftable, HashKind::Sha1, Fs::real());
    let ids = subject.commits(1);
    subject.repo.create_refs([("refs/heads/main", ids[0])]);
    linked(&subject);
    let git_dir = subject.repo.git_dir().to_owned();
    let lock = git_dir.join("worktrees/w1/reftable/tables.list.lock");
    std::fs::write(&lock, "").unwrap();
    let patient = |lock_timeout| reftable_backend(HashKind::Sha1, Fs::real(), &git_dir, &git_dir, Some(lock_timeout));
    subject.backend = patient(LockTimeout::For(Duration::from_millis(300)));
    let edits = || [create("refs/heads/new", ids[0]), create("worktrees/w1/refs/bisect/x", ids[0])];
    let said = subject.commit(edits()).map(drop).unwrap_err().to_string();
    assert!(said.starts_with("cannot lock references: ") && said.contains("w1/reftable/tables.list.lock"), "{said}");
    assert!(!git_dir.join("reftable/tables.list.lock").exists());
    subject.backend = patient(LockTimeout::For(Duration::from_secs(60)));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // By then the first stack's lock has been released and taken again a few times.
            std::thread::sleep(Duration::from_millis(300));
            std::fs::remove_file(&lock).unwrap();
        });
        subject.commit(edits()).unwrap();
    });
    subject.repo.verify();
}

fn from_linked(subject: &Subject, linked: &Linked, edits: Vec<refdb::Edit>) -> refdb::Result<refdb::Committed> {
    let context = refdb::transaction::Context { backend: &*linked.backend, ..subject.context() };
    let mut transaction = Transaction::new(context, TransactionOptions::default());
    edits.into_iter().try_for_each(|edit| transaction.add(edit))?;
    transaction.commit()
}

#[test]
fn a_ref_of_another_worktree_is_refused_if_that_worktree_has_refs_below_it() {
    on_disk(|subject| {
        let ids = subject.commits(1);
        subject
            .repo
            .create_refs(["heads/main", "heads/d/e", "worktree/a/b"].map(|name| (format!("refs/{name}"), ids[0])));
        let linked = linked(subject);
        from_linked(subject, &linked, vec![create("refs/worktree/x/y", ids[0])]).unwrap();
        for (name, below) in
            [("main-worktree/refs/worktree/a", "main-worktree/refs/worktree/a/b"), ("refs/heads/d", "refs/heads/d/e")]
        {
            let refused = from_linked(subject, &linked, vec![create(name, ids[0])]).unwrap_err().to_string();
            assert!(refused.ends_with(&format!("'{below}' exists; cannot create '{name}'")), "{refused}");
        }
        let said = subject.refusal([create("worktrees/w1/refs/worktree/x", ids[0])]);
        assert!(said.contains("'worktrees/w1/refs/worktree/x/y' exists"), "{said}");
        // Previously, the files backend called the ref in the way by the name that the main worktree has for it.
        let below = "main-worktree/refs/worktree/a/b/c";
        let refused = from_linked(subject, &linked, vec![create(below, ids[0])]).unwrap_err().to_string();
        assert!(
            refused.ends_with(&format!("'main-worktree/refs/worktree/a/b' exists; cannot create '{below}'")),
            "{refused}"
        );
        // The names in one stack do not ascend as those that are given do.
        let both = vec![create("main-worktree/refs/worktree/a", ids[0]), create("refs/heads/d", ids[0])];
        from_linked(subject, &linked, both).unwrap_err();
        subject.repo.verify();
    });
}

#[test]
fn a_reflog_is_written_although_a_ref_of_another_worktree_is_set_too() {
    on_disk(|subject| {
        let ids = subject.commits(2);
        subject.repo.create_refs([("refs/heads/main", ids[0]), ("refs/zoo/z", ids[0])]);
        subject.repo.git(["update-ref", "--create-reflog", "refs/tags/v1", &ids[0].to_string()]);
        subject.repo.git(["update-ref", "--create-reflog", "refs/worktree/z", &ids[0].to_string()]);
        let linked = linked(subject);
        let edits = vec![set("main-worktree/refs/worktree/foo", ids[1]), set("refs/tags/v1", ids[1])];
        from_linked(subject, &linked, edits).unwrap();
        assert_eq!(subject.repo.reflog("refs/tags/v1").len(), 2, "{:?}", subject.repo.format());
        subject.repo.verify();
    });
}

#[test]
fn a_ref_of_another_worktree_replaces_no_folder_of_refs() {
    on_disk(|subject| {
        let ids = subject.commits(1);
        let names = ["refs/heads/main", "refs/worktree/a/b", "refs/worktree/a/c"];
        subject.repo.create_refs(names.map(|name| (name, ids[0])));
        subject.repo.git(["pack-refs", "--all"]);
        let linked = linked(subject);
        let context = refdb::transaction::Context { backend: &*linked.backend, ..subject.context() };
        let options = TransactionOptions::new().allow_replacing_parents(true);
        let mut transaction = Transaction::new(context, options);
        transaction.add(delete("main-worktree/refs/worktree/a/b")).unwrap();
        transaction.add(create("main-worktree/refs/worktree/a", ids[0])).unwrap();
        transaction.commit().unwrap_err();
        subject.repo.verify();
        assert!(names.iter().all(|name| subject.get(name).is_some()));
        let store = Store::open(subject.repo.git_dir().join("worktrees/w1")).unwrap();
        let name = RefName::new("main-worktree/refs/worktree/a").unwrap();
        let logged = store.append_log(&name, ids[0], ids[0], "why".into());
        assert_eq!(logged.is_err(), subject.repo.format() == RefFormat::Files, "{logged:?}");
    });
}

/// Previously, the value was moved to the packed-refs of all worktrees before the commit, and stayed there.
#[test]
fn an_aborted_deletion_of_a_worktrees_own_ref_shows_it_in_no_other_worktree() {
    on_disk(|subject| {
        let ids = subject.commits(2);
        subject.repo.create_refs([("refs/heads/main", ids[0]), ("refs/heads/loose", ids[0])]);
        let linked = linked(subject);
        let own = ["CHERRY_PICK_HEAD", "HEAD", "refs/bisect/bad", "refs/worktree/a"];
        let set_own = own.iter().map(|name| set(name, ids[1]).no_deref()).collect();
        from_linked(subject, &linked, set_own).unwrap();
        let (before, mains) = (git_lists(subject, &linked), subject.git_lists());
        let context = refdb::transaction::Context { backend: &*linked.backend, ..subject.context() };
        let mut transaction = Transaction::new(context, TransactionOptions::new().atomic_visibility(true));
        let edits = own.iter().map(|name| delete(name).no_deref());
        let edits = edits.chain([create("refs/heads/b", ids[0]), delete("refs/heads/loose")]);
        edits.into_iter().try_for_each(|edit| transaction.add(edit)).unwrap();
        drop(transaction.prepare().unwrap());
        assert_eq!((git_lists(subject, &linked), subject.git_lists()), (before, mains));
        subject.repo.verify();
    });
}
