//! What docs/crash-model.md promises of one reftable stack: the whole transaction or nothing, wherever it stops.

use crate::common::{Subject, With, backend, committer, create, delete, rest, set};
use refdb::{
    Edit, HashKind, ObjectId, Result, Transaction, TransactionOptions,
    backend::OptimizeOptions,
    transaction::{Context, LogPolicy, NoHook},
};
use refdb_testkit::{
    RefFormat,
    crash::{Crash, kill_everywhere, refuse_everywhere},
};
use refdb_vfs::Fs;
use std::path::Path;

struct Scene {
    subject: Subject,
    ids: Vec<ObjectId>,
    before: Vec<String>,
}

impl Scene {
    fn new() -> Self {
        let mut subject = Subject::new(RefFormat::Reftable, HashKind::Sha1, Fs::real());
        subject.policy = LogPolicy::Usual;
        let ids = subject.commits(2);
        subject.succeed([create("refs/heads/a", ids[0]), create("refs/heads/b", ids[0])]);
        subject.succeed([set("refs/heads/b", ids[1])]);
        let before = state(subject.repo.git_dir());
        Scene { subject, ids, before }
    }

    fn edits(&self) -> Vec<Edit> {
        vec![
            set("refs/heads/a", self.ids[1]).message("moved"),
            delete("refs/heads/b"),
            create("refs/heads/c/d", self.ids[0]).message("new"),
            set("HEAD", "refs/heads/a").no_deref(),
        ]
    }

    fn transact(&self, fs: &Fs, dir: &Path) -> Result<()> {
        let backend = open(fs, dir, &self.subject);
        let context = Context { backend: &*backend, hooks: &NoHook, committer: &committer, ..self.subject.context() };
        let mut transaction = Transaction::new(context, TransactionOptions::default());
        self.edits().into_iter().try_for_each(|edit| transaction.add(edit))?;
        transaction.commit().map(drop)
    }
}

fn open(fs: &Fs, dir: &Path, subject: &Subject) -> Box<dyn refdb::Backend> {
    backend(RefFormat::Reftable, HashKind::Sha1, fs.clone(), dir, dir, subject.objects())
}

/// All refs and reflogs.
fn state(dir: &Path) -> Vec<String> {
    let nothing = std::sync::Arc::new(crate::common::Objects::default());
    let backend = backend(RefFormat::Reftable, HashKind::Sha1, Fs::real(), dir, dir, nothing);
    let snapshot = backend.snapshot().unwrap();
    let mut lines = rest(&mut *snapshot.cursor(true).unwrap());
    for name in snapshot.log_names().unwrap() {
        snapshot
            .log(&name, &mut |entry| {
                lines.push(format!("{name}: {} {} {}", entry.old, entry.new, entry.message));
                std::ops::ControlFlow::Continue(())
            })
            .unwrap();
    }
    lines
}

#[test]
fn a_transaction_is_whole_or_absent_wherever_it_is_killed() {
    let scene = Scene::new();
    let after = {
        let copy = tempfile::tempdir().unwrap();
        let done = std::process::Command::new("cp")
            .arg("-a")
            .arg(scene.subject.repo.git_dir())
            .arg(copy.path().join("r"))
            .status();
        assert!(done.unwrap().success());
        scene.transact(&Fs::real(), &copy.path().join("r")).unwrap();
        state(&copy.path().join("r"))
    };
    assert_ne!(scene.before, after);
    let check = |dir: &Path, crash: &Crash| {
        let now = state(dir);
        assert!(now == scene.before || now == after, "{crash}: {now:#?}");
        assert!(!crash.claimed || now == after, "{crash}: it is lost");
    };
    let work = |fs: &Fs, dir: &Path| scene.transact(fs, dir);
    kill_everywhere(scene.subject.repo.git_dir(), work, check);
    refuse_everywhere(scene.subject.repo.git_dir(), work, |dir, crash| {
        check(dir, crash);
        assert!(!dir.join("reftable/tables.list.lock").exists(), "{crash}: the lock was left behind");
    });
}

#[test]
fn compaction_changes_nothing_wherever_it_is_stopped() {
    let scene = Scene::new();
    let work = |fs: &Fs, dir: &Path| {
        let options = OptimizeOptions { all: true, prune: true, auto: false, include: Vec::new(), exclude: Vec::new() };
        open(fs, dir, &scene.subject).optimize(&options).map(drop)
    };
    kill_everywhere(scene.subject.repo.git_dir(), work, |dir, crash| {
        assert_eq!(state(dir), scene.before, "{crash}");
    });
}
