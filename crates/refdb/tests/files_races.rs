//! Writers and readers beside each other and beside real git: no update is lost, and no ref exists beside its parent.
#![allow(clippy::unwrap_used, reason = "tests")]

mod files_common;

use bstr::ByteSlice;
use files_common::*;
use refdb::{
    Backend, Error, HashKind, Limit, Maintenance, ObjectId, RejectionClass,
    files::{FilesBackend, FilesOptions},
};
use refdb_testkit::{RefFormat, Repo, Rng};
use refdb_vfs::{Fs, IoHook, LockTimeout, Op, Verdict};
use std::{
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::{Arc, Barrier, Mutex},
    thread,
    time::{Duration, Instant},
};

/// Acts once, just before packed-refs is replaced, as a rival that has checked the old packed-refs would.
struct AtReplacement(Mutex<Option<Box<dyn FnOnce() + Send>>>);

impl IoHook for AtReplacement {
    fn before(&self, op: Op<'_>) -> Verdict {
        if let Op::Rename(_, to) = op
            && to.ends_with("packed-refs")
            && let Some(act) = self.0.lock().unwrap().take()
        {
            act();
        }
        Verdict::Proceed
    }
}

/// Long enough for a lock that another thread releases in a moment, however busy the machine is.
const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(50);

fn racing(repo: &Repo, lock_timeout: Duration, act: impl FnOnce() + Send + 'static) -> FilesBackend {
    let fs = Fs::with_hook(Arc::new(AtReplacement(Mutex::new(Some(Box::new(act))))));
    let mut options = options(fs, repo.git_dir(), repo.hash());
    options.ref_lock_timeout = Some(LockTimeout::For(lock_timeout));
    FilesBackend::new(options)
}

fn bulk(id: ObjectId) -> Vec<Wish> {
    (0..40).map(|i| create(format!("refs/heads/deep/b{i:02}"), id)).collect()
}

fn put(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn listing(repo: &Repo) -> Vec<String> {
    rest(&mut *backend(repo).snapshot().unwrap().cursor(false).unwrap())
}

#[test]
fn a_child_that_was_committed_before_our_packed_refs_wins_and_ours_is_taken_back() {
    for with_packed in [false, true] {
        let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
        let id = repo.commit();
        repo.create_refs([("refs/heads/main", id)]);
        if with_packed {
            repo.git(["pack-refs", "--all"]);
        }
        let packed = std::fs::read(repo.git_dir().join("packed-refs")).ok();
        let child = repo.git_dir().join("refs/heads/deep/b07/child");
        let store = racing(&repo, LONG, move || put(&child, &format!("{id}\n")));
        let error = transact(&store, &bulk(id)).unwrap_err();
        assert!(
            matches!(&error, Error::Rejected(rejection) if rejection.class() == RejectionClass::NameConflict
                && rejection.to_string().contains("'refs/heads/deep/b07/child' exists; cannot create 'refs/heads/deep/b07'")),
            "{error}"
        );
        assert_eq!(std::fs::read(repo.git_dir().join("packed-refs")).ok(), packed);
        assert_eq!(listing(&repo), [format!("refs/heads/deep/b07/child {id}"), format!("refs/heads/main {id}")]);
        assert_eq!(leftovers(repo.git_dir()), Vec::<std::path::PathBuf>::new());
    }
}

/// Acts as [`AtReplacement`] does, and notes the removals of packed-refs and the syncs of the repository's folder.
struct Noted(AtReplacement, PathBuf, Arc<Mutex<Vec<&'static str>>>);

impl IoHook for Noted {
    fn before(&self, op: Op<'_>) -> Verdict {
        let mut noted = self.2.lock().unwrap();
        match op {
            Op::SyncDir(folder) if folder == self.1 => noted.push("synced"),
            Op::Remove(path) if path.ends_with("packed-refs") => noted.push("removed"),
            _ => {}
        }
        self.0.before(op)
    }
}

/// Otherwise, the refs of a transaction that failed would be there after a loss of power.
#[test]
fn the_removal_of_a_packed_refs_that_is_taken_back_is_synced() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let id = repo.commit();
    let child = repo.git_dir().join("refs/heads/deep/b07/child");
    let act = AtReplacement(Mutex::new(Some(Box::new(move || put(&child, &format!("{id}\n"))))));
    let noted = Arc::default();
    let hook = Noted(act, repo.git_dir().to_owned(), Arc::clone(&noted));
    let options = options(Fs::with_hook(Arc::new(hook)), repo.git_dir(), HashKind::Sha1);
    transact(&FilesBackend::new(FilesOptions { sync: true, ..options }), &bulk(id)).unwrap_err();
    assert_eq!(*noted.lock().unwrap(), ["synced", "removed", "synced"]);
}

#[test]
fn our_packed_refs_is_taken_back_if_rivals_cannot_be_looked_for() {
    for with_packed in [false, true] {
        let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
        let id = repo.commit();
        repo.create_refs([("refs/heads/main", id)]);
        if with_packed {
            repo.git(["pack-refs", "--all"]);
        }
        let packed = std::fs::read(repo.git_dir().join("packed-refs")).ok();
        // A link that leads to itself cannot be read.
        let link = repo.git_dir().join("refs/heads/deep/b07");
        let store = racing(&repo, LONG, move || std::os::unix::fs::symlink("b07", link).unwrap());
        let error = transact(&store, &bulk(id)).unwrap_err();
        assert!(!matches!(error, Error::Rejected(_)), "{error}");
        assert_eq!(std::fs::read(repo.git_dir().join("packed-refs")).ok(), packed);
        std::fs::remove_file(repo.git_dir().join("refs/heads/deep/b07")).unwrap();
        assert_eq!(listing(&repo), [format!("refs/heads/main {id}")]);
    }
}

#[test]
fn a_child_in_flight_is_waited_for_and_wins_if_it_commits() {
    for commits in [false, true] {
        let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
        let id = repo.commit();
        let child = repo.git_dir().join("refs/heads/deep/b07/child");
        let store = racing(&repo, LONG, move || {
            let lock = child.with_extension("lock");
            put(&lock, &format!("{id}\n"));
            thread::spawn(move || {
                thread::sleep(Duration::from_millis(60));
                if commits { std::fs::rename(&lock, &child).unwrap() } else { std::fs::remove_file(&lock).unwrap() }
            });
        });
        assert_eq!(transact(&store, &bulk(id)).is_err(), commits);
        assert_eq!(listing(&repo).len(), if commits { 1 } else { 40 });
    }
}

#[test]
fn a_parent_in_flight_is_waited_out_before_our_folders_go() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let id = repo.commit();
    let folder = repo.git_dir().join("refs/heads/deep");
    let store = racing(&repo, LONG, move || {
        let lock = folder.with_extension("lock");
        put(&lock, &format!("{id}\n"));
        thread::spawn(move || {
            thread::sleep(Duration::from_millis(60));
            // Git, too, would remove an empty folder here, and gives up on a full one.
            assert!(std::fs::rename(&lock, &folder).is_err(), "our locks keep the folder there");
            std::fs::remove_file(&lock).unwrap();
        });
    });
    transact(&store, &bulk(id)).unwrap();
    assert_eq!(listing(&repo).len(), 40);
    // A lock that never disappears fails the transaction.
    let stale = repo.git_dir().join("refs/heads/other.lock");
    let store = racing(&repo, SHORT, move || put(&stale, ""));
    let wishes: Vec<Wish> = (0..40).map(|i| create(format!("refs/heads/other/b{i}"), id)).collect();
    let error = transact(&store, &wishes).unwrap_err().to_string();
    assert!(error.contains("'refs/heads/other'"), "{error}");
    assert_eq!(listing(&repo).len(), 40);
}

/// A git process that carries out one transaction after the other.
struct LongGit {
    command: Box<dyn Fn() -> Command + Send>,
    running: Option<(Child, ChildStdin, BufReader<std::process::ChildStdout>)>,
}

impl LongGit {
    fn new(repo: &Repo) -> Self {
        let program = refdb_testkit::Git::find().program().to_owned();
        let dir = repo.dir().to_owned();
        let environment: Vec<_> =
            repo.command(&program).get_envs().map(|(k, v)| (k.to_owned(), v.map(ToOwned::to_owned))).collect();
        let command = move || {
            let mut command = Command::new(&program);
            command.current_dir(&dir).env_clear().args(["update-ref", "--stdin", "--batch-updates"]);
            command.envs(environment.iter().filter_map(|(key, value)| value.as_ref().map(|value| (key, value))));
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
            command
        };
        LongGit { command: Box::new(command), running: None }
    }

    /// Returns whether git says that the transaction was committed. An error ends git, and the next transaction starts
    /// another one.
    fn transact(&mut self, lines: &str) -> bool {
        let (_, stdin, stdout) = self.running.get_or_insert_with(|| {
            let mut child = (self.command)().spawn().unwrap();
            let (stdin, stdout) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
            (child, stdin, stdout)
        });
        let sent = stdin.write_all(format!("start\n{lines}commit\n").as_bytes()).and_then(|()| stdin.flush());
        let mut answer = String::new();
        let mut ok = sent.is_ok();
        while ok && !answer.ends_with("commit: ok\n") {
            ok = stdout.read_line(&mut answer).unwrap() > 0;
        }
        if ok {
            // In this mode a refusal does not end git.
            ok = !answer.contains("rejected ");
        } else {
            let (mut child, stdin, _) = self.running.take().unwrap();
            drop(stdin);
            child.wait().unwrap();
        }
        ok
    }
}

#[test]
fn in_thousands_of_races_with_git_no_ref_stands_beside_its_parent_and_none_is_lost() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let id = repo.commit();
    let store = backend(&repo);
    let mut git = LongGit::new(&repo);
    let mut rng = Rng::new(7);
    let seconds = std::env::var("REFDB_RACE_SECONDS").map_or(15, |seconds| seconds.parse().unwrap());
    let time = Duration::from_secs(seconds);
    let begun = Instant::now();
    let (mut rounds, mut ours_won, mut git_won) = (0, 0, 0);
    let mut expected: Vec<String> = Vec::new();
    // A race needs winners on both sides, and on a busy machine one side may win for long.
    while begun.elapsed() < time || ours_won.min(git_won) == 0 && begun.elapsed() < time * 10 {
        let base = format!("refs/heads/r{}/{rounds}", rounds % 5);
        let ours: Vec<String> = (0..33).map(|i| format!("{base}/x{i:02}")).collect();
        // Git creates a child of one of refdb's refs, or the parent of all.
        let theirs = if rng.one_in(2) { format!("{}/child", rng.pick(&ours)) } else { base.clone() };
        let delays = [rng.below(1500) as u64, rng.below(1500) as u64];
        let barrier = Barrier::new(2);
        let (we, it) = thread::scope(|scope| {
            let (git, barrier, theirs) = (&mut git, &barrier, &theirs);
            let it = scope.spawn(move || {
                barrier.wait();
                thread::sleep(Duration::from_micros(delays[0]));
                git.transact(&format!("create {theirs} {id}\n"))
            });
            barrier.wait();
            thread::sleep(Duration::from_micros(delays[1]));
            let wishes: Vec<Wish> = ours.iter().map(|name| create(name, id)).collect();
            let we = transact(&store, &wishes);
            (we, it.join().unwrap())
        });
        assert!(!(we.is_ok() && it), "round {rounds}: both committed, {theirs}");
        let snapshot = store.snapshot().unwrap();
        let exists = |name: &str| snapshot.get(name.as_bytes().as_bstr()).unwrap().is_some();
        assert_eq!(exists(&theirs), it, "round {rounds}: {theirs}");
        for name in &ours {
            assert_eq!(exists(name), we.is_ok(), "round {rounds}: {name}, {we:?}");
        }
        expected.extend(ours.into_iter().filter(|_| we.is_ok()).chain(it.then_some(theirs)));
        rounds += 1;
        ours_won += usize::from(we.is_ok());
        git_won += usize::from(it);
        if rounds % 100 == 0 {
            // packed-refs stays small, because otherwise refdb's 33 refs would not be written there.
            expect_and_delete(&repo, &store, &mut expected);
        }
    }
    drop(git);
    expect_and_delete(&repo, &store, &mut expected);
    eprintln!("{rounds} rounds: {ours_won} won by refdb, {git_won} by git");
    assert!(ours_won > 0 && git_won > 0, "{ours_won} and {git_won} of {rounds}: no race");
    repo.verify();
    assert_eq!(leftovers(repo.git_dir()), Vec::<std::path::PathBuf>::new());
}

/// Requires that git lists exactly these refs and refdb as many, and deletes them.
fn expect_and_delete(repo: &Repo, store: &FilesBackend, expected: &mut Vec<String>) {
    expected.sort();
    let git = repo.git(["for-each-ref", "--format=%(refname)"]);
    assert!(git.lines().eq(expected.iter().map(String::as_str)), "git lists other refs");
    assert_eq!(listing(repo).len(), expected.len());
    let wishes: Vec<Wish> = expected.drain(..).map(delete).collect();
    transact(store, &wishes).unwrap();
}

#[test]
fn writers_of_ours_and_gits_beside_packers_lose_nothing() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let ids = repo.commits(2);
    repo.config("core.packedRefsTimeout", "20000");
    repo.config("core.filesRefLockTimeout", "20000");
    let end = Instant::now() + Duration::from_secs(8);
    let ids = &ids;
    let done = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for writer in 0..3usize {
            let (repo, done) = (&repo, &done);
            scope.spawn(move || {
                let store = backend(repo);
                let mut rng = Rng::new(writer as u64);
                let mut mine: Vec<(String, ObjectId)> = Vec::new();
                let mut turn = 0;
                while Instant::now() < end {
                    turn += 1;
                    let count = if turn % 4 == 0 { 40 } else { 1 + rng.below(3) };
                    let names: Vec<String> = (0..count)
                        .map(|i| format!("refs/heads/w{writer}/{}/n{i}", rng.below(2) * 1_000_000 + turn))
                        .collect();
                    let wishes: Vec<Wish> = names.iter().map(|name| create(name, ids[0])).collect();
                    transact(&store, &wishes).unwrap();
                    mine.extend(names.into_iter().map(|name| (name, ids[0])));
                    if mine.len() > 20 && rng.one_in(2) {
                        let (name, _) = mine.swap_remove(rng.below(mine.len()));
                        transact(&store, &[delete(&name)]).unwrap();
                        assert_eq!(store.snapshot().unwrap().get(name.as_bytes().as_bstr()).unwrap(), None);
                    }
                    let at = rng.below(mine.len());
                    mine[at].1 = ids[1];
                    transact(&store, &[set(&mine[at].0, ids[1])]).unwrap();
                }
                done.lock().unwrap().extend(mine);
            });
        }
        let (git_repo, git_done) = (&repo, &done);
        scope.spawn(move || {
            let mut git = LongGit::new(git_repo);
            let mut turn = 0;
            let mut mine = Vec::new();
            // On a busy machine the others may be done before git had a turn.
            while Instant::now() < end || turn < 10 {
                turn += 1;
                let name = format!("refs/heads/git/{turn}");
                if git.transact(&format!("create {name} {}\n", ids[0])) {
                    mine.push((name, ids[0]));
                }
                if turn % 7 == 0 {
                    let (name, _) = mine.swap_remove(0);
                    if !git.transact(&format!("delete {name}\n")) {
                        mine.push((name, ids[0]));
                    }
                }
            }
            assert!(mine.len() > turn / 2, "git was starved: {} of {turn}", mine.len());
            git_done.lock().unwrap().extend(mine);
        });
        let (packer, our_packer) = (&repo, &repo);
        scope.spawn(move || {
            while Instant::now() < end {
                packer.try_git(["pack-refs", "--all"], "");
            }
        });
        scope.spawn(move || {
            let store = backend(our_packer);
            let mut packed = 0;
            // The other packer, which never pauses, may spoil all attempts on a busy machine.
            while Instant::now() < end || packed == 0 {
                match store.optimize(&pack_all()) {
                    Err(Error::Limit(Limit::Packing)) => {}
                    done => {
                        done.unwrap();
                        packed += 1;
                    }
                }
                thread::sleep(Duration::from_millis(20));
            }
        });
    });
    let mut expected: Vec<String> =
        done.into_inner().unwrap().iter().map(|(name, id)| format!("{name} {id}")).collect();
    expected.sort();
    let ours = listing(&repo);
    let missing = expected.iter().find(|line| !ours.contains(line));
    assert!(ours == expected, "{} for {}; {missing:?}", ours.len(), expected.len());
    eprintln!("{} refs at the end", ours.len());
    repo.verify();
    assert_eq!(leftovers(repo.git_dir()), Vec::<std::path::PathBuf>::new());
}

#[test]
fn readers_never_miss_a_ref_that_moves_between_loose_and_packed() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let ids = repo.commits(2);
    let names: Vec<String> = (0..30).map(|i| format!("refs/heads/d{}/n{i:02}", i % 3)).collect();
    repo.create_refs(names.iter().map(|name| (name, ids[0])));
    let end = Instant::now() + Duration::from_secs(4);
    let mut sorted: Vec<&str> = names.iter().map(String::as_str).collect();
    sorted.sort_unstable();
    thread::scope(|scope| {
        let (repo, names, ids) = (&repo, &names, &ids);
        scope.spawn(move || {
            let store = backend(repo);
            let mut turn = 0;
            while Instant::now() < end {
                store.optimize(&pack_all()).unwrap();
                turn += 1;
                for name in names {
                    transact(&store, &[set(name, ids[turn % 2])]).unwrap();
                }
            }
        });
        scope.spawn(move || {
            while Instant::now() < end {
                repo.try_git(["pack-refs", "--all"], "");
            }
        });
        let store = backend(repo);
        while Instant::now() < end {
            let snapshot = store.snapshot().unwrap();
            assert_eq!(rest(&mut *snapshot.cursor(false).unwrap()).len(), 30);
            assert_eq!(probe(&*snapshot, sorted.iter().copied()).values.iter().flatten().count(), 30);
            assert!(snapshot.get(names[7].as_bytes().as_bstr()).unwrap().is_some());
        }
    });
}

/// A packer that removes a loose ref and its folder between the ref's rename and the folder's sync.
struct PacksBeforeSync(PathBuf);

impl IoHook for PacksBeforeSync {
    fn before(&self, op: Op<'_>) -> Verdict {
        if let Op::SyncDir(folder) = op
            && folder.ends_with("refs/heads/w/d")
        {
            let packed = Command::new(refdb_testkit::Git::find().program())
                .arg("-C")
                .arg(&self.0)
                .args(["pack-refs", "--all"])
                .status();
            assert!(packed.unwrap().success() && !folder.exists());
        }
        Verdict::Proceed
    }
}

#[test]
fn a_folder_that_a_packer_removes_before_it_is_synced_is_no_failure() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let id = repo.commit();
    let fs = Fs::with_hook(Arc::new(PacksBeforeSync(repo.git_dir().to_owned())));
    let store = FilesBackend::new(FilesOptions { sync: true, ..options(fs, repo.git_dir(), repo.hash()) });
    transact(&store, &[create("refs/heads/w/d/1", id)]).unwrap();
    assert_eq!(listing(&repo), [format!("refs/heads/w/d/1 {id}")]);
}

#[test]
fn locks_are_waited_for_in_order_so_that_opposite_writers_both_finish() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let ids = repo.commits(2);
    let names: Vec<String> = (0..12).map(|i| format!("refs/heads/n{i:02}")).collect();
    thread::scope(|scope| {
        for writer in 0..4 {
            let (repo, names, ids) = (&repo, &names, &ids);
            scope.spawn(move || {
                let store = backend(repo);
                let mut rng = Rng::new(writer);
                for turn in 0..60 {
                    let mut picked: Vec<&String> = names.iter().collect();
                    rng.shuffle(&mut picked);
                    let wishes: Vec<Wish> = picked[..6].iter().map(|name| set(*name, ids[turn % 2])).collect();
                    transact(&store, &wishes).unwrap();
                }
            });
        }
    });
    assert_eq!(leftovers(repo.git_dir()), Vec::<std::path::PathBuf>::new());
}

#[test]
fn a_stale_lock_is_reported_with_path_age_and_owner_and_stays() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let id = repo.commit();
    let mut options = options(Fs::real(), repo.git_dir(), HashKind::Sha1);
    options.ref_lock_timeout = Some(LockTimeout::For(SHORT));
    options.packed_lock_timeout = Some(LockTimeout::For(SHORT));
    let store = FilesBackend::new(options);
    for (stale, wishes) in [
        ("refs/heads/a", vec![create("refs/heads/a", id)]),
        ("refs/heads/b", vec![create("refs/heads/a", id), create("refs/heads/b", id)]),
        ("refs/heads/deep/b07", bulk(id)),
    ] {
        let lock: PathBuf = repo.git_dir().join(format!("{stale}.lock"));
        put(&lock, "");
        let error = transact(&store, &wishes).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!(
                "cannot lock ref '{stale}': Unable to create '{}': File exists.",
                lock.display()
            )),
            "{error}"
        );
        assert!(error.contains("s old and belongs to user"), "{error}");
        assert!(lock.exists());
        std::fs::remove_file(lock).unwrap();
        assert_eq!(listing(&repo), Vec::<std::path::PathBuf>::new());
    }
    put(&repo.git_dir().join("packed-refs.lock"), "");
    let error = transact(&store, &[delete("refs/heads/a")]).unwrap_err().to_string();
    assert!(error.contains("packed-refs.lock") && error.contains("held by someone else"), "{error}");
}

#[test]
fn a_read_only_folder_and_a_bad_name_are_refused_with_their_reason() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let id = repo.commit();
    struct ReadOnly;
    impl IoHook for ReadOnly {
        fn before(&self, _: Op<'_>) -> Verdict {
            // A hook refuses, because tests may run as root, whom no permission bit stops.
            Verdict::Fail(std::io::Error::from_raw_os_error(13))
        }
    }
    let store = FilesBackend::new(options(Fs::with_hook(Arc::new(ReadOnly)), repo.git_dir(), HashKind::Sha1));
    for wishes in [vec![create("refs/heads/a", id)], bulk(id)] {
        let error = transact(&store, &wishes).unwrap_err().to_string();
        assert!(error.contains("Unable to create") && error.ends_with("Permission denied"), "{error}");
    }
    assert!(store.optimize(&pack_all()).unwrap_err().to_string().contains("Permission denied"));
    let error = transact(&backend(&repo), &[create("refs/heads/../../config", id)]).unwrap_err().to_string();
    assert!(error.contains("no ref can be called") || error.contains("bad name"), "{error}");
    let newline: Vec<Wish> = (0..40).map(|i| create(format!("refs/heads/n{i}\nrefs/heads/x"), id)).collect();
    assert!(transact(&backend(&repo), &newline).is_err());
    assert_eq!(listing(&repo), Vec::<std::path::PathBuf>::new());
}

/// Lets no reflog be removed.
struct KeepLogs;

impl IoHook for KeepLogs {
    fn before(&self, op: Op<'_>) -> Verdict {
        match op {
            Op::Remove(path) if path.to_string_lossy().contains("/logs/") => {
                Verdict::Fail(std::io::Error::from_raw_os_error(13))
            }
            _ => Verdict::Proceed,
        }
    }
}

/// The ref is already deleted when the removal of its reflog fails, so a reported failure would be wrong.
#[test]
fn a_reflog_that_may_not_be_removed_fails_no_deletion() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    repo.config("core.logAllRefUpdates", "always");
    let id = repo.commit();
    for name in ["refs/heads/a", "refs/heads/b", "refs/heads/main"] {
        repo.git(["update-ref", name, &id.to_string()]);
    }
    let store = FilesBackend::new(options(Fs::with_hook(Arc::new(KeepLogs)), repo.git_dir(), HashKind::Sha1));
    transact(&store, &[delete("refs/heads/a"), delete("refs/heads/b")]).unwrap();
    assert_eq!(listing(&repo), [format!("refs/heads/main {id}")]);
    let logs = repo.git(["reflog", "list"]);
    assert!(logs.contains("refs/heads/a") && logs.contains("refs/heads/b"), "the reflogs stay: {logs}");
}
