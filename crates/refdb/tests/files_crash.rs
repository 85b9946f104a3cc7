//! The files backend is stopped at every operation that changes the disk, and leaves nothing but what
//! docs/crash-model.md allows.
#![allow(clippy::unwrap_used, reason = "tests")]

mod files_common;

use files_common::*;
use refdb::{HashKind, Maintenance, Result, files::FilesBackend};
use refdb_testkit::{
    RefFormat, Repo,
    crash::{Crash, Disk, kill_everywhere, lose_power_everywhere, refuse_everywhere},
};
use refdb_vfs::{Fs, IoHook, Op, Verdict};
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

fn store(fs: &Fs, dir: &Path, sync: bool) -> FilesBackend {
    let mut options = options(fs.clone(), dir, HashKind::Sha1);
    options.sync = sync;
    FilesBackend::new(options)
}

/// A repository from which transactions start, with packed refs, loose refs, and refs that are both.
struct Scene {
    repo: Repo,
    before: Refs,
}

impl Scene {
    fn new() -> Self {
        let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
        let ids = repo.commits(3);
        let names = ["refs/heads/both", "refs/heads/loose", "refs/heads/packed", "refs/heads/deep/er/both"];
        repo.create_refs([0, 2, 3].map(|at| (names[at], ids[0])));
        repo.git(["pack-refs", "--all"]);
        for name in [names[0], names[1], names[3]] {
            repo.git(["update-ref", name, &ids[1].to_string()]);
        }
        let before = read(repo.git_dir());
        assert_eq!(before.len(), 4);
        Scene { repo, before }
    }

    /// Copies the refs without objects and settings, which nobody reads here, because many copies are made of the
    /// result.
    fn refs_only(&self) -> tempfile::TempDir {
        let temp = tempfile::tempdir().unwrap();
        let from = self.repo.git_dir();
        for file in ["packed-refs", "refs/heads/both", "refs/heads/loose", "refs/heads/deep/er/both"] {
            std::fs::create_dir_all(temp.path().join(file).parent().unwrap()).unwrap();
            std::fs::copy(from.join(file), temp.path().join(file)).unwrap();
        }
        temp
    }

    fn after(&self, wishes: &[Wish]) -> Refs {
        let mut refs = self.before.clone();
        for wish in wishes {
            match &wish.new {
                Some(target) => refs.insert(wish.name.clone(), show_target(target)),
                None => refs.remove(&wish.name),
            };
        }
        refs
    }

    /// Returns 40 new refs, and new values for all old refs but one, so that everything is written to packed-refs.
    fn bulk(&self) -> Vec<Wish> {
        let id = self.repo.commits(3)[2];
        let new = (0..40).map(|i| create(format!("refs/heads/new/{}/n{i:02}", i % 2), id));
        let old = self.before.keys().filter(|name| !name.ends_with("packed")).map(|name| set(name, id));
        new.chain(old).collect()
    }

    /// Returns a new ref, a new value, and deletions of refs that are packed, with and without a loose file.
    fn updates_and_deletions(&self) -> Vec<Wish> {
        let id = self.repo.commits(3)[2];
        vec![
            create("refs/heads/a/new", id),
            set("refs/heads/loose", id),
            delete("refs/heads/both"),
            delete("refs/heads/packed"),
            delete("refs/heads/deep/er/both"),
        ]
    }
}

/// Whether each ref has its old or its new value.
fn each_old_or_new(now: &Refs, before: &Refs, after: &Refs) -> bool {
    let names = before.keys().chain(after.keys()).chain(now.keys());
    names.into_iter().all(|name| [before.get(name), after.get(name)].contains(&now.get(name)))
}

/// Requires that git accepts and lists the same refs once the locks are removed.
fn git_agrees(scene: &Scene, dir: &Path) {
    for lock in leftovers(dir) {
        std::fs::remove_file(lock).unwrap();
    }
    let output = scene.repo.try_git(["-C", dir.to_str().unwrap(), "refs", "verify", "--strict"], "");
    assert!(output.status.success(), "{output:?}");
    let listed = scene.repo.git(["-C", dir.to_str().unwrap(), "for-each-ref", "--format=%(refname) %(objectname)"]);
    let ours: Vec<String> = read(dir).iter().map(|(name, value)| format!("{name} {value}")).collect();
    assert_eq!(ours.join("\n"), listed);
}

#[test]
fn a_bulk_transaction_is_whole_wherever_it_is_killed() {
    let scene = Scene::new();
    let wishes = scene.bulk();
    let after = scene.after(&wishes);
    let count = std::cell::Cell::new(0);
    let work = |fs: &Fs, dir: &Path| transact(&store(fs, dir, false), &wishes);
    kill_everywhere(scene.repo.git_dir(), work, |dir, crash| {
        let now = read(dir);
        assert!(now == after || !crash.claimed && now == scene.before);
        // Git takes a while, so it looks at every 20th state.
        count.set(count.get() + 1);
        if u32::is_multiple_of(count.get(), 20) {
            git_agrees(&scene, dir);
        }
    });
    refuse_everywhere(scene.repo.git_dir(), work, |dir, crash| {
        let now = read(dir);
        assert!(now == after || !crash.claimed && now == scene.before);
    });
}

#[test]
fn a_bulk_transaction_is_whole_after_a_loss_of_power_if_it_is_synced() {
    let scene = Scene::new();
    let wishes = scene.bulk();
    let after = scene.after(&wishes);
    let work = |fs: &Fs, dir: &Path| transact(&store(fs, dir, true), &wishes);
    // The locks of 43 refs change folders so often that a disk without any order has too many states to try.
    lose_power_everywhere(scene.refs_only().path(), Disk::Journaled, work, |dir, crash| {
        let now = read(dir);
        assert!(now == after || !crash.claimed && now == scene.before, "{now:?}");
    });
}

#[test]
fn loose_updates_and_deletions_leave_each_ref_old_or_new() {
    let scene = Scene::new();
    let wishes = scene.updates_and_deletions();
    let after = scene.after(&wishes);
    let check = |dir: &Path, crash: &Crash| {
        let now = read(dir);
        assert!(each_old_or_new(&now, &scene.before, &after), "{now:?}");
        assert!(!crash.claimed || now == after);
        if crash.at.is_multiple_of(4) {
            git_agrees(&scene, dir);
        }
    };
    kill_everywhere(scene.repo.git_dir(), |fs, dir| transact(&store(fs, dir, false), &wishes), check);
    refuse_everywhere(scene.repo.git_dir(), |fs, dir| transact(&store(fs, dir, false), &wishes), check);
    for disk in [Disk::Journaled, Disk::Unordered] {
        let work = |fs: &Fs, dir: &Path| transact(&store(fs, dir, true), &wishes);
        lose_power_everywhere(scene.refs_only().path(), disk, work, |dir, crash| {
            let now = read(dir);
            assert!(each_old_or_new(&now, &scene.before, &after), "{now:?}");
            assert!(!crash.claimed || now == after, "{now:?}");
        });
    }
}

#[test]
fn updates_and_deletions_are_whole_wherever_they_are_stopped_if_that_is_asked_for() {
    let scene = Scene::new();
    let wishes = scene.updates_and_deletions();
    let after = scene.after(&wishes);
    let check = |dir: &Path, crash: &Crash| {
        let now = read(dir);
        assert!(now == after || !crash.claimed && now == scene.before, "{now:?}");
        if crash.at.is_multiple_of(4) {
            git_agrees(&scene, dir);
        }
    };
    let work = |sync| {
        let wishes = &wishes;
        move |fs: &Fs, dir: &Path| transact_whole(&store(fs, dir, sync), wishes)
    };
    kill_everywhere(scene.repo.git_dir(), work(false), check);
    refuse_everywhere(scene.repo.git_dir(), work(false), check);
    lose_power_everywhere(scene.refs_only().path(), Disk::Journaled, work(true), |dir, crash| {
        let now = read(dir);
        assert!(now == after || !crash.claimed && now == scene.before, "{now:?}");
    });
}

#[test]
fn many_deletions_never_bring_an_older_value_back() {
    let scene = Scene::new();
    let mut wishes: Vec<Wish> = scene.before.keys().map(delete).collect();
    wishes.extend((0..10).map(|i| delete(format!("refs/heads/none{i}"))));
    let work = |fs: &Fs, dir: &Path| transact(&store(fs, dir, false), &wishes);
    kill_everywhere(scene.repo.git_dir(), work, |dir, crash| {
        let now = read(dir);
        assert!(each_old_or_new(&now, &scene.before, &Refs::new()), "{now:?}");
        assert!(!crash.claimed || now.is_empty());
    });
}

#[test]
fn packing_changes_no_value_wherever_it_is_stopped() {
    let scene = Scene::new();
    let work = |sync| move |fs: &Fs, dir: &Path| -> Result<()> { store(fs, dir, sync).optimize(&pack_all()).map(drop) };
    let check = |dir: &Path, crash: &Crash| {
        assert_eq!(read(dir), scene.before);
        if crash.at.is_multiple_of(4) {
            git_agrees(&scene, dir);
        }
    };
    kill_everywhere(scene.repo.git_dir(), work(false), check);
    refuse_everywhere(scene.repo.git_dir(), work(false), check);
    for disk in [Disk::Journaled, Disk::Unordered] {
        let check = |dir: &Path, _: &Crash| assert_eq!(read(dir), scene.before);
        lose_power_everywhere(scene.refs_only().path(), disk, work(true), check);
    }
}

#[test]
fn a_change_of_packed_refs_right_after_packing_outlasts_a_loss_of_power() {
    let scene = Scene::new();
    let id = scene.repo.commits(3)[2];
    let wishes = ["refs/heads/both", "refs/heads/loose"].map(|name| set(name, id));
    let after = scene.after(&wishes);
    let work = |fs: &Fs, dir: &Path| {
        store(fs, dir, true).optimize(&pack_all())?;
        transact_whole(&store(fs, dir, true), &wishes)
    };
    for disk in [Disk::Journaled, Disk::Unordered] {
        lose_power_everywhere(scene.refs_only().path(), disk, work, |dir, crash| {
            let now = read(dir);
            // If the older loose file were left, it would hide the new packed value.
            assert!(now == after || !crash.claimed && now == scene.before, "{now:?}");
        });
    }
}

#[test]
fn a_failing_disk_leaves_no_lock_behind() {
    let scene = Scene::new();
    let wishes = scene.bulk();
    let work = |fs: &Fs, dir: &Path| transact(&store(fs, dir, false), &wishes);
    refuse_everywhere(scene.repo.git_dir(), work, |dir, crash| {
        // Only the file whose removal failed may stay.
        let expected = usize::from(crash.next.starts_with("remove"));
        assert!(leftovers(dir).len() <= expected, "{:?}", leftovers(dir));
    });
}

/// Requires that the next writer of the same refs succeeds without help, because the locks are signed.
fn next_writer_gets_through(next: &[Wish], dir: &Path) {
    transact(&store(&Fs::real(), dir, false), next).unwrap();
    let now = read(dir);
    let is_made = |wish: &Wish| wish.new.as_ref().is_some_and(|target| now[&wish.name] == show_target(target));
    assert!(next.iter().all(is_made));
    // A stale lock is removed by the next writer that wants it. A few loose refs, for instance, do not need the lock of
    // packed-refs, so that a stale one is removed only when refs are packed.
    store(&Fs::real(), dir, false).optimize(&pack_all()).unwrap();
    assert_eq!(leftovers(dir), Vec::<std::path::PathBuf>::new());
}

#[test]
fn who_comes_after_a_killed_server_needs_nobody_to_remove_its_locks() {
    let scene = Scene::new();
    let id = scene.repo.commits(2)[1];
    for (wishes, whole) in [
        (scene.bulk(), false),
        (scene.updates_and_deletions(), false),
        (scene.updates_and_deletions(), true),
        (vec![set("refs/heads/loose", scene.repo.commits(3)[2])], false),
    ] {
        let after = scene.after(&wishes);
        let next: Vec<Wish> = wishes.iter().map(|wish| set(&wish.name, id)).collect();
        let work = |fs: &Fs, dir: &Path| {
            let store = store(&fs.clone().signing_locks(), dir, false);
            if whole { transact_whole(&store, &wishes) } else { transact(&store, &wishes) }
        };
        kill_everywhere(scene.repo.git_dir(), work, |dir, crash| {
            let now = read(dir);
            assert!(each_old_or_new(&now, &scene.before, &after), "{now:?}");
            assert!(!crash.claimed || now == after);
            next_writer_gets_through(&next, dir);
        });
        refuse_everywhere(scene.repo.git_dir(), work, |dir, crash| {
            let expected = usize::from(crash.next.starts_with("remove"));
            assert!(leftovers(dir).len() <= expected, "{:?}", leftovers(dir));
            next_writer_gets_through(&next, dir);
        });
    }
}

/// Git loses the ref if it is killed half-way through such a rename.
#[test]
fn a_name_below_the_old_one_or_above_it_leaves_one_of_the_two_and_the_reflog_whole() {
    for (old, new) in [("refs/heads/a", "refs/heads/a/b"), ("refs/heads/a/b", "refs/heads/a")] {
        let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
        repo.config("core.logAllRefUpdates", "always");
        let ids = repo.commits(2);
        repo.create_refs([(old, ids[0])]);
        repo.git(["update-ref", "-m", "second", old, &ids[1].to_string()]);
        let [old_name, new_name] = [old, new].map(|name| refdb::RefName::new(name).unwrap());
        let rename = |fs: &Fs, dir: &Path| {
            let store = refdb::Store::builder(dir).fs(fs.clone()).open()?;
            let mut transaction = store.transaction();
            let allowed = refdb::TransactionOptions::new().atomic_visibility(true).allow_replacing_parents(true);
            transaction.options(allowed);
            transaction.rename(&old_name, &new_name, ids[1]);
            transaction.commit().map(drop)
        };
        let one_is_there = |dir: &Path, crash: &Crash| {
            let refs = read(dir);
            let one = |name: &str| Refs::from([(name.to_owned(), ids[1].to_string())]);
            assert!(refs == one(new) || refs == one(old) && !crash.claimed, "{crash}: {refs:?}");
            if refs == one(new) { new } else { old }
        };
        let log = std::fs::read(repo.git_dir().join("logs").join(old)).unwrap();
        let has_log = |dir: &Path, name: &str| {
            std::fs::read(dir.join("logs").join(name)).is_ok_and(|content| content.starts_with(&log))
        };
        kill_everywhere(repo.git_dir(), rename, |dir, crash| {
            one_is_there(dir, crash);
            let places = [old, new, "refs/.tmp-renamed-log"];
            assert!(places.iter().any(|name| has_log(dir, name)), "{crash}");
        });
        refuse_everywhere(repo.git_dir(), rename, |dir, crash| {
            let name = one_is_there(dir, crash);
            assert!(has_log(dir, name), "{crash}");
        });
    }
}

/// Fails to remove one loose ref, and notes the folders in which the removals of others were not synced.
#[derive(Default)]
struct Stuck(Mutex<BTreeSet<PathBuf>>);

impl IoHook for Stuck {
    fn before(&self, op: Op<'_>) -> Verdict {
        let mut unsynced = self.0.lock().unwrap();
        match op {
            Op::Remove(path) if path.ends_with("refs/heads/b/stuck") => {
                return Verdict::Fail(std::io::ErrorKind::PermissionDenied.into());
            }
            Op::Remove(path) if path.ends_with("refs/heads/a/gone") => {
                unsynced.insert(path.parent().unwrap().to_owned());
            }
            Op::RemoveDir(folder) if unsynced.remove(folder) => {
                unsynced.insert(folder.parent().unwrap().to_owned());
            }
            Op::SyncDir(folder) => drop(unsynced.remove(folder)),
            _ => {}
        }
        Verdict::Proceed
    }
}

/// A loose file that came back after a loss of power would hide the next value in packed-refs.
#[test]
fn removals_before_one_that_fails_are_synced() {
    let names = ["refs/heads/a/gone", "refs/heads/b/stuck"];
    for work in ["pack", "set", "delete"] {
        let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
        let ids = repo.commits(2);
        repo.create_refs(names.map(|name| (name, ids[0])));
        let hook = Arc::new(Stuck::default());
        let store = store(&Fs::with_hook(hook.clone()), repo.git_dir(), true);
        let worked = match work {
            "pack" => store.optimize(&pack_all()).map(drop),
            "set" => transact_whole(&store, &names.map(|name| set(name, ids[1]))),
            _ => transact(&store, &names.map(delete)),
        };
        worked.unwrap_err();
        assert!(!repo.git_dir().join(names[0]).exists());
        assert_eq!(*hook.0.lock().unwrap(), BTreeSet::new(), "{work}");
    }
}
