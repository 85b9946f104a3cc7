//! `refdb refs locks` lists the locks of a repository, each with its owner if it is signed, and removes those of a
//! machine that is gone.
#![allow(clippy::unwrap_used, reason = "tests")]

use bstr::ByteSlice;
use refdb::{
    RefName,
    files::{JournalEntry, JournalRef},
};
use refdb_testkit::{RefFormat, Repo};
use refdb_types::{HashKind, ObjectId};
use refdb_vfs::{BatchId, Fs, Lock, LockTimeout, boot_id};
use std::{
    collections::BTreeMap,
    os::unix::fs::{PermissionsExt, symlink},
    path::PathBuf,
    process::Output,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

const REFDB: &str = env!("CARGO_BIN_EXE_refdb");

/// Boot ids that no machine has.
const OTHER: &str = "00000000-aaaa-4aaa-8aaa-000000000000";
const ANOTHER: &str = "11111111-aaaa-4aaa-8aaa-000000000000";

/// Returns the signature that a process leaves in a lock if its machine has the boot id `boot`.
fn signature(boot: &str) -> String {
    format!("held by refdb, process 7, boot {boot}, host node-b\n")
}

fn write(path: PathBuf, content: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, content).unwrap();
}

fn locks<'a>(repo: &Repo, options: impl IntoIterator<Item = &'a str>) -> Output {
    repo.try_run(REFDB, ["refs", "locks"].into_iter().chain(options), "")
}

fn remove(repo: &Repo, boot: &str) -> Output {
    locks(repo, ["--remove", "--porcelain", &format!("--boot={boot}")])
}

/// Runs the command as if the local disk were a file system that machines share, where `flock` may hold on one of them
/// only.
fn on_shared_storage(repo: &Repo, options: &[&str]) -> Output {
    let mut command = repo.command(REFDB);
    command.env("REFDB_PLANTED_FAULT", "vfs-local").args(["refs", "locks", "--porcelain"]).args(options);
    command.output().unwrap()
}

/// Returns the fields of each line, by the path of the lock below the repository.
fn fields(repo: &Repo, output: &Output) -> BTreeMap<String, Vec<String>> {
    let lines = output.stdout.to_str().unwrap().lines();
    let split = lines.map(|line| {
        let mut fields: Vec<String> = line.split('\t').map(str::to_owned).collect();
        let path = repo.dir().join(fields.pop().unwrap());
        let path = path.canonicalize().unwrap_or(path);
        let below = path.strip_prefix(repo.git_dir().canonicalize().unwrap()).unwrap_or(&path);
        let below: PathBuf = below.components().collect();
        (below.to_str().unwrap().to_owned(), fields)
    });
    split.collect()
}

fn states(repo: &Repo, output: &Output) -> BTreeMap<String, String> {
    fields(repo, output).into_iter().map(|(path, fields)| (path, fields[0].clone())).collect()
}

#[test]
fn every_lock_is_listed_with_its_maker_wherever_it_lies() {
    for (format, hash) in Repo::KINDS {
        for repo in [Repo::bare(format, hash), Repo::with_worktree(format, hash)] {
            let id = repo.commit();
            repo.git(["update-ref", "refs/heads/main", &id.to_string()]);
            repo.git(["worktree", "add", "--quiet", "--detach", repo.scratch().join("w").to_str().unwrap(), "main"]);
            let dir = repo.git_dir();
            let mut expected = BTreeMap::new();
            for name in [
                "HEAD.lock",
                "config.lock",
                "packed-refs.lock",
                "packed-refs.refdb-fold.lock",
                "refs/a/b.lock",
                "logs/refs/heads/main.lock",
                "reftable/tables.list.lock",
                "reftable/0x000000000001-0x000000000002-624fa1ae.ref.lock",
                "worktrees/w/HEAD.lock",
                "worktrees/w/refs/bisect/bad.lock",
                "worktrees/w/reftable/tables.list.lock",
            ] {
                write(dir.join(name), &signature(OTHER));
                expected.insert(name.to_owned(), ["stale", "node-b", "7", OTHER].map(str::to_owned));
            }
            write(dir.join("refs/gits.lock"), &format!("{id}\n"));
            expected.insert("refs/gits.lock".into(), ["unsigned", "-", "-", "-"].map(str::to_owned));
            // A file with the new content belongs to its lock, and is not listed.
            write(dir.join("refs/a/b.lock.lock"), "");
            let listed = locks(&repo, ["--porcelain"]);
            assert!(listed.status.success() && listed.stderr.is_empty(), "{listed:?}");
            let found: BTreeMap<String, [String; 4]> = fields(&repo, &listed)
                .into_iter()
                .map(|(path, field)| (path, [&field[0], &field[2], &field[3], &field[4]].map(String::clone)))
                .collect();
            assert_eq!(found, expected);
            let ages = fields(&repo, &listed).into_values().map(|fields| fields[1].parse::<u64>().unwrap());
            assert!(ages.max().unwrap() < 60);
            let removed = remove(&repo, OTHER);
            assert!(removed.status.success(), "{removed:?}");
            assert_eq!(removed.stdout.lines().count(), expected.len() - 1);
            assert_eq!(states(&repo, &locks(&repo, ["--porcelain"])).len(), 1);
            assert!(!dir.join("refs/a/b.lock.lock").exists() && dir.join("refs/gits.lock").exists());
            std::fs::remove_file(dir.join("refs/gits.lock")).unwrap();
            repo.verify();
        }
    }
}

#[test]
fn each_state_is_told_from_the_others() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let heads = repo.git_dir().join("refs/heads");
    let held = Lock::acquire(&Fs::real().signing_locks(), &heads.join("held"), 0o666, LockTimeout::None).unwrap();
    write(heads.join("elsewhere.lock"), &signature(OTHER));
    let elsewhere = Fs::real().open(&heads.join("elsewhere.lock")).unwrap();
    assert!(elsewhere.try_lock().unwrap());
    write(heads.join("gits.lock"), "");
    write(heads.join("left.lock"), &signature(OTHER));
    write(heads.join("own.lock"), &signature(boot_id().unwrap()));
    let expect = |left: &str| {
        let names = ["elsewhere", "gits", "held", "left", "own"].map(|name| format!("refs/heads/{name}.lock"));
        let states = ["held-elsewhere", "unsigned", "held", left, "stale"].map(str::to_owned);
        names.into_iter().zip(states).collect::<BTreeMap<_, _>>()
    };
    assert_eq!(states(&repo, &locks(&repo, ["--porcelain"])), expect("stale"));
    assert_eq!(states(&repo, &on_shared_storage(&repo, &[])), expect("doubtful"));
    let of_one = locks(&repo, ["--porcelain", "--boot", boot_id().unwrap()]);
    assert_eq!(states(&repo, &of_one).into_values().collect::<Vec<_>>(), ["held", "stale"]);
    let text = locks(&repo, []).stdout;
    assert_eq!(text.lines().count(), 5);
    assert!(text.contains_str(format!("process 7 of node-b (boot {OTHER})")), "{}", text.as_bstr());
    held.release().unwrap();
}

#[test]
fn only_locks_of_the_named_boot_that_nobody_holds_are_removed() {
    for format in RefFormat::ALL {
        let repo = Repo::bare(format, HashKind::Sha256);
        let dir = repo.git_dir();
        for (name, boot) in [("HEAD", OTHER), ("config", ANOTHER), ("ORIG_HEAD", boot_id().unwrap())] {
            write(dir.join(format!("{name}.lock")), &signature(boot));
        }
        write(dir.join("packed-refs.lock"), &signature(OTHER).replace(", host node-b", ""));
        write(dir.join("refs/held.lock"), &signature(OTHER));
        write(dir.join("refs/gits.lock"), &format!("held by git, process 7, boot {OTHER}\n"));
        let held = Fs::real().open(&dir.join("refs/held.lock")).unwrap();
        assert!(held.try_lock().unwrap());
        let output = remove(&repo, OTHER);
        assert_eq!(output.status.code(), Some(1), "one stays: {output:?}");
        let expected = [("HEAD.lock", "removed"), ("packed-refs.lock", "removed"), ("refs/held.lock", "held")];
        let expected = expected.map(|(path, state)| (path.to_owned(), state.to_owned()));
        assert_eq!(states(&repo, &output), BTreeMap::from(expected));
        drop(held);
        assert_eq!(remove(&repo, OTHER).status.code(), Some(0));
        let left: Vec<String> = states(&repo, &locks(&repo, ["--porcelain"])).into_keys().collect();
        assert_eq!(left, ["ORIG_HEAD.lock", "config.lock", "refs/gits.lock"]);
        let again = remove(&repo, OTHER);
        assert!(again.status.success() && again.stderr.contains_str("no lock of boot"), "{again:?}");
    }
}

#[test]
fn neither_the_running_machine_nor_something_that_is_no_boot_id_can_be_named() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    write(repo.git_dir().join("HEAD.lock"), &signature(boot_id().unwrap()));
    write(repo.git_dir().join("config.lock"), "held by refdb, process 7, boot \n");
    for (boot, says) in
        [(boot_id().unwrap(), "is running"), ("", "is not a boot id"), ("node-b", "`refdb refs locks` names")]
    {
        let output = remove(&repo, boot);
        assert_eq!(output.status.code(), Some(128), "{output:?}");
        assert!(output.stderr.contains_str(says), "{output:?}");
    }
    for options in [&["--remove"][..], &["--machine-is-off", "--boot", OTHER], &["HEAD.lock"]] {
        assert_eq!(locks(&repo, options.iter().copied()).status.code(), Some(129), "{options:?}");
    }
    assert!(repo.git_dir().join("HEAD.lock").exists() && repo.git_dir().join("config.lock").exists());
}

#[test]
fn where_flock_may_stay_on_one_machine_the_administrator_must_vouch_for_the_other() {
    for format in RefFormat::ALL {
        let repo = Repo::bare(format, HashKind::Sha1);
        let path = repo.git_dir().join("HEAD.lock");
        write(path.clone(), &signature(OTHER));
        let boot = format!("--boot={OTHER}");
        let kept = on_shared_storage(&repo, &["--remove", &boot]);
        assert_eq!((kept.status.code(), path.exists()), (Some(1), true), "{kept:?}");
        assert_eq!(states(&repo, &kept)["HEAD.lock"], "doubtful");
        let removed = on_shared_storage(&repo, &["--remove", &boot, "--machine-is-off"]);
        assert_eq!((removed.status.code(), path.exists()), (Some(0), false), "{removed:?}");
    }
}

#[test]
fn files_that_locks_are_links_to_are_listed_once_their_process_is_gone() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let spare = repo.git_dir().join("refdb-spare-0123456789abcdef.lock");
    write(spare.clone(), &signature(OTHER));
    std::fs::hard_link(&spare, repo.git_dir().join("HEAD.lock")).unwrap();
    let held = Fs::real().open(&spare).unwrap();
    assert!(held.try_lock().unwrap());
    let listed = || states(&repo, &locks(&repo, ["--porcelain"])).into_keys().collect::<Vec<_>>();
    assert_eq!(listed(), ["HEAD.lock"]);
    drop(held);
    assert_eq!(listed(), ["HEAD.lock", "refdb-spare-0123456789abcdef.lock"]);
    assert_eq!(remove(&repo, OTHER).stdout.lines().count(), 2);
    assert_eq!(listed(), Vec::<String>::new());
}

/// Leaves a batch of another boot that had given one of its two refs the new value, and returns its journal file.
fn half_written_batch(repo: &Repo, ids: &[ObjectId]) -> PathBuf {
    let dir = repo.git_dir();
    repo.create_refs([("refs/heads/a", ids[1]), ("refs/heads/b", ids[0])]);
    let changes = ["refs/heads/a", "refs/heads/b"].map(|name| JournalRef {
        name: RefName::new(name).unwrap(),
        old: Some(ids[0]),
        new: ids[1],
        log: None,
    });
    let entry = JournalEntry { hash: repo.hash(), synced: true, boot: OTHER.into(), refs: changes.into() };
    let id = BatchId::random_slot();
    let mut slot =
        format!("held by a batch of refdb, record {id}, process 7, boot {OTHER}\nhost node-b\n").into_bytes();
    slot.resize(512, 0);
    slot.extend(entry.encode());
    slot.resize(4096, 0);
    let record = dir.join(format!("refdb-batches/{id}"));
    std::fs::create_dir_all(record.parent().unwrap()).unwrap();
    std::fs::write(&record, slot).unwrap();
    for name in ["a", "b"] {
        std::fs::hard_link(&record, dir.join(format!("refs/heads/{name}.lock"))).unwrap();
    }
    write(dir.join("refs/heads/b.lock.lock"), &format!("{}\n", ids[1]));
    record
}

#[test]
fn a_half_written_batch_of_the_named_boot_is_finished_before_its_locks_go() {
    for hash in [HashKind::Sha1, HashKind::Sha256] {
        let repo = Repo::bare(RefFormat::Files, hash);
        let ids = repo.commits(2);
        let record = half_written_batch(&repo, &ids);
        let listed = fields(&repo, &on_shared_storage(&repo, &[]));
        let record_name = record.file_name().unwrap().to_str().unwrap();
        assert_eq!(listed.len(), 3, "{listed:?}");
        for fields in listed.values() {
            assert_eq!((&*fields[0], &*fields[2], &*fields[5]), ("doubtful", "node-b", record_name));
        }
        let boot = format!("--boot={OTHER}");
        let kept = on_shared_storage(&repo, &["--remove", &boot]);
        assert_eq!((kept.status.code(), record.exists()), (Some(1), true), "{kept:?}");
        let other = on_shared_storage(&repo, &["--remove", &format!("--boot={ANOTHER}"), "--machine-is-off"]);
        assert_eq!((other.status.code(), record.exists()), (Some(0), true), "{other:?}");
        // While a process holds the journal file, all locks of the batch are kept.
        let held = Fs::real().open(&record).unwrap();
        assert!(held.try_lock().unwrap());
        let busy = on_shared_storage(&repo, &["--remove", &boot, "--machine-is-off"]);
        assert_eq!((busy.status.code(), record.exists()), (Some(1), true), "{busy:?}");
        drop(held);
        let output = on_shared_storage(&repo, &["--remove", &boot, "--machine-is-off"]);
        assert!(output.status.success(), "{output:?}");
        assert_eq!(
            states(&repo, &output),
            BTreeMap::from([(format!("refdb-batches/{record_name}"), "finished".into())])
        );
        assert_eq!(repo.rev_parse("refs/heads/b"), ids[1]);
        assert_eq!(locks(&repo, []).stdout, b"");
        assert!(!record.exists() && !repo.git_dir().join("refs/heads/b.lock.lock").exists());
    }
}

#[test]
fn a_batch_without_its_locks_is_recovered_where_they_can_be_made_again() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let ids = repo.commits(2);
    let record = half_written_batch(&repo, &ids);
    for name in ["a", "b"] {
        std::fs::remove_file(repo.git_dir().join(format!("refs/heads/{name}.lock"))).unwrap();
    }
    let output = remove(&repo, OTHER);
    assert!(output.status.success() && !record.exists(), "{output:?}");
    assert_eq!(repo.rev_parse("refs/heads/b"), ids[1]);
}

#[test]
fn links_in_the_tree_of_refs_are_not_followed() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let outside = repo.scratch().join("outside");
    write(outside.join("x.lock"), &signature(OTHER));
    symlink(&outside, repo.git_dir().join("refs/heads/folder")).unwrap();
    symlink(outside.join("x.lock"), repo.git_dir().join("refs/heads/link.lock")).unwrap();
    let listed = states(&repo, &locks(&repo, ["--porcelain"]));
    assert_eq!(listed.into_values().collect::<Vec<_>>(), ["unsigned"]);
    assert!(remove(&repo, OTHER).status.success());
    assert!(outside.join("x.lock").exists() && repo.git_dir().join("refs/heads/link.lock").is_symlink());
    // All refs may be those of another repository, through symbolic links.
    let sharer = Repo::bare(RefFormat::Files, HashKind::Sha1);
    std::fs::remove_dir_all(sharer.git_dir().join("refs")).unwrap();
    symlink(repo.git_dir().join("refs"), sharer.git_dir().join("refs")).unwrap();
    symlink(repo.git_dir().join("packed-refs"), sharer.git_dir().join("packed-refs")).unwrap();
    write(repo.git_dir().join("refs/heads/a.lock"), &signature(OTHER));
    write(repo.git_dir().join("packed-refs.lock"), &signature(OTHER));
    assert_eq!(remove(&sharer, OTHER).stdout.lines().count(), 2);
    assert!(!repo.git_dir().join("packed-refs.lock").exists());
}

#[test]
fn what_cannot_be_read_or_removed_is_named_and_the_rest_is_done() {
    if rustix::process::geteuid().as_raw() != 0 {
        return;
    }
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let dir = repo.git_dir();
    for name in ["refs/heads/closed/a.lock", "refs/heads/fixed/b.lock", "refs/heads/open/c.lock"] {
        write(dir.join(name), &signature(OTHER));
    }
    repo.git(["config", "core.sharedRepository", "group"]);
    let chown = ["-R", "65534:65534", dir.to_str().unwrap()];
    assert!(std::process::Command::new("chown").args(chown).status().unwrap().success());
    for (name, mode) in [("closed", 0o700), ("fixed", 0o755)] {
        let folder = dir.join("refs/heads").join(name);
        std::os::unix::fs::chown(&folder, Some(0), Some(0)).unwrap();
        std::fs::set_permissions(&folder, PermissionsExt::from_mode(mode)).unwrap();
    }
    let listed = as_another(&repo, &[]);
    assert_eq!(listed.status.code(), Some(1));
    assert!(
        listed.stderr.contains_str("heads/closed'") && listed.stderr.contains_str("owns the repository"),
        "{listed:?}"
    );
    assert_eq!(listed.stdout.lines().count(), 2, "{listed:?}");
    let removed = as_another(&repo, &["--remove", &format!("--boot={OTHER}")]);
    assert_eq!(removed.status.code(), Some(1));
    assert!(removed.stderr.contains_str("fixed/b.lock'"), "{removed:?}");
    assert!(dir.join("refs/heads/fixed/b.lock").exists() && !dir.join("refs/heads/open/c.lock").exists());
}

fn as_another(repo: &Repo, options: &[&str]) -> Output {
    std::fs::set_permissions(repo.scratch(), PermissionsExt::from_mode(0o755)).unwrap();
    let program = repo.scratch().join("refdb");
    // The copy is made by another process, because a child that another test starts could keep a file open for writing
    // that this process opened.
    repo.command("install").args(["-m", "755", REFDB]).arg(&program).status().unwrap();
    let mut command = repo.command("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(&program);
    command.args(["-c", "safe.directory=*", "refs", "locks"]).args(options);
    command.output().unwrap()
}

#[test]
fn ten_thousand_locks_of_one_transaction_are_listed_and_removed() {
    const COUNT: usize = 10_000;
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let heads = repo.git_dir().join("refs/heads");
    write(heads.join("0.lock"), &signature(OTHER));
    for number in 1..COUNT {
        std::fs::hard_link(heads.join("0.lock"), heads.join(format!("{number}.lock"))).unwrap();
    }
    let begin = Instant::now();
    let listed = locks(&repo, ["-z"]);
    assert_eq!(listed.stdout.iter().filter(|byte| **byte == b'\0').count(), COUNT);
    let listed_after = begin.elapsed();
    let removed = remove(&repo, OTHER);
    assert!(removed.status.success() && removed.stdout.lines().count() == COUNT);
    eprintln!("listed in {listed_after:?}, removed in {:?}", begin.elapsed() - listed_after);
    assert_eq!(std::fs::read_dir(heads).unwrap().count(), 0);
}

/// While the command runs, a live server finds the lock of the other boot, removes it and takes the lock itself.
#[test]
fn the_command_never_removes_the_lock_that_a_live_server_takes_meanwhile() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let target = repo.git_dir().join("packed-refs");
    let (old, lock) = (repo.git_dir().join("old"), Lock::path_of(&target));
    let is_over = AtomicBool::new(false);
    let (mut rounds, mut removals) = (0, 0);
    std::thread::scope(|scope| {
        let server = scope.spawn(|| {
            let mut rounds = 0;
            while !is_over.load(Ordering::Relaxed) {
                write(old.clone(), &signature(OTHER));
                std::fs::rename(&old, &lock).unwrap();
                std::thread::sleep(Duration::from_millis(rounds % 4));
                let take = || Lock::acquire(&Fs::real().signing_locks(), &target, 0o666, LockTimeout::None).ok();
                let held = std::iter::repeat_with(take).flatten().next().unwrap();
                std::thread::yield_now();
                assert!(lock.exists(), "the lock of a live process is removed in round {rounds}");
                held.release().unwrap();
                rounds += 1;
            }
            rounds
        });
        for _ in 0..150 {
            removals += remove(&repo, OTHER).stdout.lines().filter(|line| line.starts_with(b"removed")).count();
        }
        is_over.store(true, Ordering::Relaxed);
        rounds = server.join().unwrap();
    });
    eprintln!("{rounds} locks were taken, {removals} were removed by the command");
    assert!(rounds > 20 && removals > 0);
}
