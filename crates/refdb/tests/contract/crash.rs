//! The promises of docs/crash-model.md about whole transactions, wherever they stop because the process is killed, the
//! disk is full, or the power fails.

use crate::common::{Objects, Subject, With, committer, create, delete, files_options, rest, set};
use bstr::BStr;
use refdb::{
    Edit, HashKind, LogJudge, LoggedChange, Maintenance, ObjectId, PruneLogs, RefName, Result, Transaction,
    TransactionOptions,
    backend::OptimizeOptions,
    files::{FilesBackend, FilesOptions},
    reftable::{ReftableBackend, ReftableOptions},
    transaction::{Context, LogPolicy, NoHook},
};
use refdb_testkit::{
    RefFormat,
    crash::{Crash, Disk, kill_everywhere, lose_power_everywhere, refuse_everywhere},
};
use refdb_vfs::Fs;
use reftable::{
    WriteOptions,
    stack::{Durability, StackOptions},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::ControlFlow,
    path::Path,
    sync::Arc,
};
use tempfile::TempDir;

const HASH: HashKind = HashKind::Sha1;
const DISKS: [Disk; 2] = [Disk::Journaled, Disk::Unordered];

/// A repository, without its objects, from which transactions start.
struct Scene {
    subject: Subject,
    ids: Vec<ObjectId>,
    start: TempDir,
    /// Whether the refs are seen, and changed, from the linked worktree `w1`.
    linked: bool,
}

/// The state of a repository: refs by name, and the lines of reflogs, oldest first.
#[derive(Clone, PartialEq, Eq, Debug)]
struct State {
    refs: BTreeMap<String, String>,
    logs: BTreeMap<String, Vec<String>>,
}

impl Scene {
    fn new(format: RefFormat, linked: bool) -> Self {
        let mut subject = Subject::new(format, HASH, Fs::real());
        subject.policy = LogPolicy::Usual;
        let ids = subject.commits(2);
        subject.succeed([create("refs/heads/a", ids[0]), create("refs/heads/b", ids[0])]);
        subject.repo.git(["pack-refs", "--all"]);
        subject.succeed([set("refs/heads/b", ids[1])]);
        if linked {
            let dir = subject.repo.scratch().join("w1").to_string_lossy().into_owned();
            subject.repo.git(["worktree", "add", "-q", "--no-checkout", "-b", "w1", &dir, "refs/heads/a"]);
        }
        let start = tempfile::tempdir().unwrap();
        for part in ["reftable", "worktrees", "refs", "logs", "packed-refs", "HEAD"] {
            let from = subject.repo.git_dir().join(part);
            if from.exists() {
                let copied = std::process::Command::new("cp").arg("-a").arg(from).arg(start.path()).status();
                assert!(copied.unwrap().success());
            }
        }
        Scene { subject, ids, start, linked }
    }

    fn backend(&self, fs: &Fs, dir: &Path, sync: bool) -> Box<dyn Maintenance> {
        let git_dir = if self.linked { dir.join("worktrees/w1") } else { dir.to_owned() };
        let (fs, common_dir) = (fs.clone(), dir.to_owned());
        let worktree = self.linked.then(|| "w1".into());
        match self.subject.repo.format() {
            RefFormat::Files => {
                let options = files_options(HASH, fs, &git_dir, &common_dir, Arc::new(Objects::default()));
                Box::new(FilesBackend::new(FilesOptions { sync, ..options }))
            }
            RefFormat::Reftable => {
                let mut stack = StackOptions::new(WriteOptions::new(HASH));
                stack.durability = if sync { Durability::Sync } else { Durability::None };
                let lock_timeout = None;
                let format = None;
                let options = ReftableOptions {
                    fs,
                    git_dir,
                    common_dir,
                    worktree,
                    stack,
                    lock_timeout,
                    may_be_unsafe: false,
                    format,
                };
                Box::new(ReftableBackend::new(options))
            }
        }
    }

    fn transact(&self, fs: &Fs, dir: &Path, sync: bool, edits: &[Edit]) -> Result<()> {
        let whole = edits.iter().any(|edit| edit.log.take_over.is_some());
        self.transact_as(fs, dir, sync, whole, edits)
    }

    fn transact_as(&self, fs: &Fs, dir: &Path, sync: bool, whole: bool, edits: &[Edit]) -> Result<()> {
        let backend = self.backend(fs, dir, sync);
        let context = Context { backend: &*backend, hooks: &NoHook, committer: &committer, ..self.subject.context() };
        let mut transaction = Transaction::new(context, TransactionOptions::new().atomic_visibility(whole));
        edits.iter().try_for_each(|edit| transaction.add(edit.clone()))?;
        transaction.commit().map(drop)
    }

    fn state(&self, dir: &Path) -> State {
        let backend = self.backend(&Fs::real(), dir, false);
        let snapshot = backend.snapshot().unwrap();
        let refs = rest(&mut *snapshot.cursor(true).unwrap());
        let refs =
            refs.iter().map(|line| line.split_once(' ').unwrap()).map(|(name, value)| (name.into(), value.into()));
        let refs = refs.collect();
        let mut logs = BTreeMap::new();
        for name in snapshot.log_names().unwrap() {
            let mut lines = Vec::new();
            let seen = snapshot.log(&name, &mut |entry| {
                lines.insert(0, format!("{} {} {}", entry.old, entry.new, entry.message));
                ControlFlow::Continue(())
            });
            assert!(seen.unwrap());
            logs.insert(name.to_string(), lines);
        }
        State { refs, logs }
    }

    /// Returns the state after these edits if nothing stops them.
    fn after(&self, edits: &[Edit]) -> State {
        let copy = tempfile::tempdir().unwrap();
        let dir = copy.path().join("r");
        assert!(
            std::process::Command::new("cp").arg("-a").arg(self.start.path()).arg(&dir).status().unwrap().success()
        );
        self.transact(&Fs::real(), &dir, false, edits).unwrap();
        self.state(&dir)
    }

    /// Returns edits of refs in the common stack or folder.
    fn common(&self) -> Vec<Edit> {
        vec![
            set("refs/heads/a", self.ids[1]).message("moved"),
            delete("refs/heads/b"),
            create("refs/heads/c/d", self.ids[0]).message("new"),
        ]
    }

    /// Returns edits of refs in the worktree's own stack or folder.
    fn own(&self) -> Vec<Edit> {
        vec![
            create("refs/worktree/mine", self.ids[1]),
            create("refs/bisect/bad", self.ids[0]),
            set("HEAD", self.ids[1]).no_deref().message("detached"),
        ]
    }
}

/// Stops the edits at each operation: by a kill, by a refusal, and by a loss of power on each of `disks`. `check` gets
/// the state that was left, and what stopped the edits.
fn stop_everywhere(scene: &Scene, edits: &[Edit], disks: &[Disk], check: impl Fn(&State, &Crash)) {
    let start = scene.start.path();
    let look = |dir: &Path, crash: &Crash| check(&scene.state(dir), crash);
    for sync in [false, true] {
        kill_everywhere(start, |fs, dir| scene.transact(fs, dir, sync, edits), look);
    }
    refuse_everywhere(
        start,
        |fs, dir| scene.transact(fs, dir, true, edits),
        |dir, crash| {
            look(dir, crash);
            let stays = crash.next.starts_with("remove");
            assert!(stays || locks(dir).is_empty(), "{:?} stayed", locks(dir));
        },
    );
    for &disk in disks {
        lose_power_everywhere(start, disk, |fs, dir| scene.transact(fs, dir, true, edits), look);
    }
}

fn locks(dir: &Path) -> Vec<String> {
    refdb_testkit::files_below(dir).into_iter().filter(|path| path.ends_with(".lock")).collect()
}

#[test]
fn a_transaction_on_one_stack_is_whole_or_absent_wherever_it_stops() {
    let scene = Scene::new(RefFormat::Reftable, false);
    let mut edits = scene.common();
    edits.push(set("HEAD", "refs/heads/a").no_deref());
    let (before, after) = (scene.state(scene.start.path()), scene.after(&edits));
    assert_ne!(before, after);
    stop_everywhere(&scene, &edits, &DISKS, |now, crash| {
        assert!(*now == after || !crash.claimed && *now == before, "{now:#?}");
    });
}

#[test]
fn of_a_transaction_on_two_stacks_each_is_whole_and_the_common_one_comes_first() {
    let scene = Scene::new(RefFormat::Reftable, true);
    let edits = [scene.common(), scene.own()].concat();
    let before = scene.state(scene.start.path());
    let (common, after) = (scene.after(&scene.common()), scene.after(&edits));
    assert!(before != common && common != after);
    let met = std::cell::RefCell::new(BTreeSet::new());
    stop_everywhere(&scene, &edits, &DISKS, |now, crash| {
        let allowed = [&before, &common, &after].iter().position(|state| *state == now);
        assert!(allowed.is_some_and(|at| at == 2 || !crash.claimed), "{now:#?}");
        met.borrow_mut().extend(allowed);
    });
    assert_eq!(met.into_inner().len(), 3, "it was stopped between the two as well");
}

#[test]
fn of_a_transaction_on_files_each_ref_is_old_or_new_and_its_reflog_is_not_behind_it() {
    for linked in [false, true] {
        let scene = Scene::new(RefFormat::Files, linked);
        let edits = if linked { [scene.common(), scene.own()].concat() } else { scene.common() };
        // On a disk without any order the folders have too many states to try all of them twice.
        let disks = if linked { &DISKS[..1] } else { &DISKS };
        let (before, after) = (scene.state(scene.start.path()), scene.after(&edits));
        stop_everywhere(&scene, &edits, disks, |now, crash| {
            // Git does not sync lines that it adds to reflogs, whatever core.fsync says, and neither does refdb.
            let may_lack_lines = crash.how.starts_with("power lost");
            assert!(!crash.claimed || now.refs == after.refs && (may_lack_lines || *now == after), "{now:#?}");
            for name in before.refs.keys().chain(after.refs.keys()).chain(now.refs.keys()) {
                let [old, new, value] = [&before, &after, now].map(|state| state.refs.get(name));
                assert!(value == old || value == new, "{name}: {value:?}");
                let [log_new, log] = [&after, now].map(|state| state.logs.get(name));
                let is_logged = value == old || value.is_none() || log == log_new;
                assert!(is_logged || may_lack_lines, "{name} has its new value, and its reflog {log:?}");
            }
        });
    }
}

#[test]
fn a_renamed_ref_is_there_once_with_its_reflog_wherever_it_stops() {
    for format in RefFormat::ALL {
        let scene = Scene::new(format, false);
        let mut taker = create("refs/heads/new", scene.ids[1]).message("renamed");
        taker.log.take_over = Some(RefName::new("refs/heads/b").unwrap());
        let edits = [delete("refs/heads/b"), taker];
        let (before, after) = (scene.state(scene.start.path()), scene.after(&edits));
        let (old, new) = (&before.logs["refs/heads/b"], &after.logs["refs/heads/new"]);
        assert!(old.len() == 2 && new[..2] == old[..] && new.len() == 3, "{new:?}");
        assert!(!after.logs.contains_key("refs/heads/b"));
        stop_everywhere(&scene, &edits, &DISKS, |now, crash| {
            assert!(now.refs == after.refs || !crash.claimed && now.refs == before.refs, "{now:#?}");
            let name = if now.refs == after.refs { "refs/heads/new" } else { "refs/heads/b" };
            assert!(now.logs.get(name).is_some_and(|log| log.starts_with(old)), "{now:#?}");
        });
    }
}

/// Previously, the reflog that the ref of the new name had was lost if the rename failed, because that of the old ref
/// had replaced it. After a first fix, it was still lost if the deletion of the old ref was visible already, in
/// packed-refs, and the new value, in a loose file, was not.
#[test]
fn a_rename_that_fails_leaves_the_reflog_that_the_new_name_had() {
    for (whole, is_packed, is_symbolic) in
        [(true, false, false), (false, false, false), (false, true, false), (true, true, true), (false, true, true)]
    {
        let scene = Scene::new(RefFormat::Files, false);
        let start = scene.start.path();
        let old = if is_packed { "refs/heads/b" } else { "refs/heads/loose" };
        let new = "refs/heads/a";
        if !is_packed {
            scene.transact(&Fs::real(), start, false, &[create(old, scene.ids[1]).message("made")]).unwrap();
        }
        let taker = if is_symbolic { set(new, "refs/heads/c").no_deref() } else { set(new, scene.ids[1]) };
        let mut taker = taker.message("renamed");
        taker.log.take_over = Some(RefName::new(old).unwrap());
        let (edits, before) = ([delete(old), taker], scene.state(start));
        refuse_everywhere(
            start,
            |fs, dir| scene.transact_as(fs, dir, true, whole, &edits),
            |dir, crash| {
                let now = scene.state(dir);
                let is_unchanged = now.refs.get(new) == before.refs.get(new);
                let is_kept = !is_unchanged || now.logs[new] == before.logs[new];
                assert!(is_kept, "{whole} {is_packed} {is_symbolic} {crash:?} {now:#?}");
            },
        );
    }
}

/// Removes the oldest entry of each reflog.
struct Oldest(bool);

impl LogJudge for Oldest {
    fn begin(&mut self, _: &BStr, _: &mut dyn ExactSizeIterator<Item = u64>) -> Result<()> {
        self.0 = true;
        Ok(())
    }

    fn goes(&mut self, _: &LoggedChange<'_>) -> Result<bool> {
        Ok(std::mem::take(&mut self.0))
    }

    fn told(&mut self, _: &LoggedChange<'_>, _: bool) {}

    fn failed(&mut self, name: &RefName, error: refdb::Error) {
        assert!(!name.is_empty() && !error.to_string().is_empty());
    }
}

#[test]
fn each_log_is_old_or_new_wherever_its_pruning_is_stopped() {
    for format in RefFormat::ALL {
        let scene = Scene::new(format, false);
        let names = ["refs/heads/a", "refs/heads/b"].map(|name| RefName::new(name).unwrap());
        let work = |fs: &Fs, dir: &Path| {
            scene.backend(fs, dir, true).prune_logs(
                &names,
                PruneLogs::default(),
                &Objects::default(),
                &mut Oldest(true),
            )
        };
        let before = scene.state(scene.start.path());
        let look = |dir: &Path, _: &Crash| {
            let now = scene.state(dir);
            assert_eq!(now.refs, before.refs);
            for (name, log) in &before.logs {
                let kept = &now.logs[name];
                assert!(kept == log || *kept == log[1..], "{name}: {kept:?}");
            }
        };
        kill_everywhere(scene.start.path(), work, look);
        refuse_everywhere(scene.start.path(), work, |dir, crash| {
            look(dir, crash);
            assert!(crash.next.starts_with("remove") || locks(dir).is_empty(), "{:?} stayed", locks(dir));
        });
        for disk in DISKS {
            lose_power_everywhere(scene.start.path(), disk, work, look);
        }
    }
}

#[test]
fn compaction_changes_nothing_wherever_it_is_stopped() {
    let scene = Scene::new(RefFormat::Reftable, false);
    let before = scene.state(scene.start.path());
    let work = |fs: &Fs, dir: &Path| {
        let options = OptimizeOptions::new().all(true);
        scene.backend(fs, dir, true).optimize(&options).map(drop)
    };
    let look = |dir: &Path, _: &Crash| assert_eq!(scene.state(dir), before);
    kill_everywhere(scene.start.path(), work, look);
    for disk in DISKS {
        lose_power_everywhere(scene.start.path(), disk, work, look);
    }
}
