//! A linked worktree has refs of its own, and sees those of others under longer names: git-worktree(1), "REFS".

use crate::common::{Subject, With, backend, create, delete, on_disk, reftable_backend, rest, set};
use refdb::{Backend, HashKind, Maintenance, Target, Transaction, TransactionOptions};
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
