//! refdb writes to one repository at the same time as git and JGit (with reftable, as one of them). Nothing is lost.

use refdb_testkit::{Git, JGit, RefFormat, Repo, UpdateRefs};
use refdb_types::{HashKind, ObjectId};
use std::{
    collections::BTreeMap,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

/// Number of transactions of each writer; JGit makes half as many.
const COUNT: usize = 300;

/// How long JGit may try to create one ref. All writers together need seconds, so this allows for a very busy machine.
const TIMEOUT: Duration = Duration::from_secs(300);

fn refdb() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_refdb"))
}

/// Returns the refs of a writer after its last transaction. Every transaction creates one ref and moves another, which
/// is the same in all of them. Every fifth also deletes the ref that the transaction before created.
fn own_refs(who: &str, commits: &[ObjectId]) -> BTreeMap<String, ObjectId> {
    let mut refs = BTreeMap::new();
    for turn in 0..COUNT {
        refs.insert(format!("refs/heads/{who}/{turn:04}"), commits[turn % commits.len()]);
        refs.insert(format!("refs/heads/{who}/moved"), commits[turn % commits.len()]);
        if turn % 5 == 4 {
            refs.remove(&format!("refs/heads/{who}/{:04}", turn - 1));
        }
    }
    refs
}

fn write_all(repo: &Repo, program: &Path, who: &str, commits: &[ObjectId]) {
    let mut writer = UpdateRefs::start(repo, program, &[]);
    let value = |turn: usize| commits[turn % commits.len()];
    for turn in 0..COUNT {
        let old = if turn == 0 { ObjectId::null(repo.hash()) } else { value(turn - 1) };
        let mut commands = format!("create refs/heads/{who}/{turn:04} {}\n", value(turn));
        commands += &format!("update refs/heads/{who}/moved {} {old}\n", value(turn));
        if turn % 5 == 4 {
            commands += &format!("delete refs/heads/{who}/{:04} {}\n", turn - 1, value(turn - 1));
        }
        assert!(writer.transact(&commands), "after {commands}");
    }
    assert!(writer.end().success());
}

/// Packs the repository again and again until the writers are done, with git and refdb in turn.
fn pack_until(repo: &Repo, done: &AtomicBool) {
    for turn in 0.. {
        if done.load(Ordering::Relaxed) {
            return;
        }
        let program = if turn % 2 == 0 { refdb() } else { Git::find().program() };
        // Either program may find the lock taken; all that counts here is that nothing is lost.
        repo.try_run(program, ["pack-refs", "--all"], "");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Makes git and refdb wait for locks without a limit, because by default a writer gives up after a second or less.
fn let_git_wait(repo: &Repo) {
    for key in ["reftable.lockTimeout", "core.filesRefLockTimeout", "core.packedRefsTimeout"] {
        repo.config(key, "-1");
    }
}

#[test]
fn refdb_and_git_write_and_pack_at_the_same_time_and_nothing_is_lost() {
    for (format, hash) in Repo::KINDS {
        let repo = Repo::bare(format, hash);
        let_git_wait(&repo);
        let commits = repo.commits(7);
        let done = AtomicBool::new(false);
        let writers = [("git-0", false), ("git-1", false), ("refdb-0", true), ("refdb-1", true)];
        thread::scope(|scope| {
            let packer = scope.spawn(|| pack_until(&repo, &done));
            let running: Vec<_> = writers
                .iter()
                .map(|(who, is_refdb)| {
                    let program = if *is_refdb { refdb() } else { Git::find().program() };
                    scope.spawn(|| write_all(&repo, program, who, &commits))
                })
                .collect();
            let ended: Vec<_> = running.into_iter().map(|writer| writer.join()).collect();
            done.store(true, Ordering::Relaxed);
            packer.join().expect("the packer ends");
            assert!(ended.iter().all(Result::is_ok), "{format:?} {hash:?}");
        });
        let expected = writers.iter().flat_map(|(who, _)| own_refs(who, &commits)).collect();
        assert_refs(&repo, &expected);
    }
}

/// Requires that git and refdb both list exactly these branches, and that git finds nothing wrong.
fn assert_refs(repo: &Repo, expected: &BTreeMap<String, ObjectId>) {
    let expected: String = expected.iter().map(|(name, id)| format!("{id} {name}\n")).collect();
    for program in [Git::find().program(), refdb()] {
        let listed = repo.try_run(program, ["for-each-ref", "--format=%(objectname) %(refname)"], "");
        assert!(listed.status.success(), "{listed:?}");
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        let (missing, extra) = difference(&expected, &listed);
        assert!(listed == expected, "{}: missing {missing:?}, too many {extra:?}", program.display());
    }
    repo.verify();
}

fn difference<'a>(expected: &'a str, listed: &'a str) -> (Vec<&'a str>, Vec<&'a str>) {
    let only_in = |one: &'a str, other: &'a str| {
        let other: std::collections::HashSet<_> = other.lines().collect();
        one.lines().filter(|line| !other.contains(line)).collect()
    };
    (only_in(expected, listed), only_in(listed, expected))
}

/// With reftable, JGit and C git are kept apart, because they lose refs beside each other even without refdb. C git
/// also deletes tables that JGit is about to delete, so that JGit reports an error for an update that it has made.
#[test]
fn jgit_writes_and_compacts_beside_refdb_and_nothing_is_lost() {
    for format in RefFormat::ALL {
        let repo = Repo::bare(format, HashKind::Sha1);
        let_git_wait(&repo);
        let commits = repo.commits(7);
        let mut jgit = JGit::open(&repo);
        let beside = match format {
            RefFormat::Files => [("git", Git::find().program()), ("refdb", refdb())],
            RefFormat::Reftable => [("refdb-0", refdb()), ("refdb-1", refdb())],
        };
        thread::scope(|scope| {
            for (who, program) in beside {
                let (repo, commits) = (&repo, &commits);
                scope.spawn(move || write_all(repo, program, who, commits));
            }
            write_with_jgit(&mut jgit, &commits, format == RefFormat::Reftable);
        });
        let mut expected: BTreeMap<_, _> = beside.iter().flat_map(|(who, _)| own_refs(who, &commits)).collect();
        expected.extend((0..COUNT / 2).map(|turn| (format!("refs/heads/jgit/{turn:04}"), commits[turn % 7])));
        assert_refs(&repo, &expected);
        let seen: BTreeMap<_, _> = jgit
            .list("refs/heads/")
            .expect("JGit lists")
            .into_iter()
            .map(|listed| (listed.name.to_string(), listed.oid))
            .collect();
        assert_eq!(seen, expected, "as JGit sees it");
    }
}

fn write_with_jgit(jgit: &mut JGit, commits: &[ObjectId], compact: bool) {
    for turn in 0..COUNT / 2 {
        make_with_jgit(jgit, &format!("refs/heads/jgit/{turn:04}"), commits[turn % commits.len()]);
        if compact && turn % 25 == 24 {
            // JGit may find a lock taken, and a compaction that is not done is no loss.
            let _ = jgit.compact();
        }
    }
}

/// Creates a ref with JGit. JGit gives up when it finds the lock taken, so this tries again until [`TIMEOUT`].
fn make_with_jgit(jgit: &mut JGit, name: &str, id: ObjectId) {
    let none = ObjectId::null(HashKind::Sha1);
    let since = Instant::now();
    loop {
        let answer = jgit.update(name, id, Some(none), "made");
        // JGit also reports a failure if it has made the ref but cannot clean up or read the stack in time.
        if answer.as_deref() == Ok("NEW") || matches!(jgit.get(name), Ok(Some(listed)) if listed.oid == id) {
            return;
        }
        assert!(since.elapsed() < TIMEOUT, "JGit cannot make {name}: {answer:?}");
        thread::sleep(Duration::from_millis(1));
    }
}
