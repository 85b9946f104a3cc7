//! `refdb refs migrate` as a program: beside concurrent writers, and for users who may not write.
#![allow(clippy::unwrap_used, reason = "tests")]

use bstr::ByteSlice;
use refdb_testkit::{Git, JGit, RefFormat, Repo};
use refdb_types::{HashKind, ObjectId};
use std::{
    collections::BTreeMap,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::Output,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

const REFDB: &str = env!("CARGO_BIN_EXE_refdb");

fn migrate(repo: &Repo, to: RefFormat) -> Output {
    repo.try_run(REFDB, ["refs", "migrate", &format!("--ref-format={}", to.name())], "")
}

/// Changes refs of its own until it is told to stop, each change by a new process. Returns the values that each ref may
/// have: the one acknowledged last and those refused since, because git may refuse a change that it has made.
fn write(
    repo: &Repo,
    program: &Path,
    writer: usize,
    ids: &[ObjectId],
    stop: &AtomicBool,
) -> BTreeMap<String, Vec<ObjectId>> {
    let mut possible: BTreeMap<String, Vec<ObjectId>> = BTreeMap::new();
    for turn in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let name = format!("refs/heads/w{writer}/{}", turn % 7);
        let id = ids[turn % ids.len()];
        if repo.try_run(program, ["update-ref", &name, &id.to_string()], "").status.success() {
            possible.insert(name, vec![id]);
        } else if let Some(values) = possible.get_mut(&name) {
            values.push(id);
        }
    }
    possible
}

#[test]
fn what_git_and_refdb_were_told_is_there_after_the_refs_went_there_and_back() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let ids = repo.commits(5);
    repo.fill(2000, &ids);
    let stop = AtomicBool::new(false);
    let (acknowledged, migrations) = thread::scope(|scope| {
        let programs = [Path::new(REFDB), Git::find().program()];
        let writers: Vec<_> = programs
            .into_iter()
            .enumerate()
            .map(|(at, program)| {
                let (repo, ids, stop) = (&repo, &ids, &stop);
                scope.spawn(move || write(repo, program, at, ids, stop))
            })
            .collect();
        let end = Instant::now() + Duration::from_secs(4);
        let mut migrations = Vec::new();
        while Instant::now() < end {
            migrations.extend([RefFormat::Reftable, RefFormat::Files].map(|to| migrate(&repo, to)));
        }
        stop.store(true, Ordering::Relaxed);
        let all: Vec<_> = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
        (all, migrations)
    });
    for output in &migrations {
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    }
    let migrations = migrations.len();
    eprintln!("{migrations} migrations, {:?} refs written", acknowledged.iter().map(BTreeMap::len).collect::<Vec<_>>());
    assert!(migrations >= 2);
    let listed: BTreeMap<String, ObjectId> =
        repo.refs().into_iter().map(|found| (found.name.to_string(), found.oid)).collect();
    for (name, possible) in acknowledged.iter().flatten() {
        let found = listed.get(name);
        assert!(found.is_some_and(|id| possible.contains(id)), "{name}: {found:?}, none of {possible:?}");
    }
    repo.verify();
}

/// JGit, which has the repository open, goes on in the old format after the migration. Each ref that JGit takes for
/// written must be there, unless stray refs are reported.
#[test]
fn what_jgit_was_told_is_there_after_a_migration_or_lies_in_a_place_that_is_named() {
    for format in RefFormat::ALL {
        let repo = Repo::bare(format, HashKind::Sha1);
        let ids = repo.commits(5);
        repo.fill(2000, &ids);
        let mut jgit = JGit::open(&repo);
        let (stop, written) = (AtomicBool::new(false), AtomicUsize::new(0));
        let to = if format == RefFormat::Files { RefFormat::Reftable } else { RefFormat::Files };
        let (acknowledged, output) = thread::scope(|scope| {
            let (ids, stop, written) = (&ids, &stop, &written);
            let writer = scope.spawn(move || {
                let mut acknowledged = BTreeMap::new();
                for turn in (0..).take_while(|_| !stop.load(Ordering::Relaxed)) {
                    let (name, id) = (format!("refs/heads/j/{}", turn % 7), ids[turn % ids.len()]);
                    let result = jgit.update(&name, id, None, "by JGit");
                    if result.is_ok_and(|word| ["NEW", "FORCED", "FAST_FORWARD", "NO_CHANGE"].contains(&&*word)) {
                        acknowledged.insert(name, id);
                        written.fetch_add(1, Ordering::Relaxed);
                    }
                }
                acknowledged
            });
            // JGit needs some seconds to start.
            while written.load(Ordering::Relaxed) < 10 && !writer.is_finished() {
                thread::sleep(Duration::from_millis(10));
            }
            let output = migrate(&repo, to);
            thread::sleep(Duration::from_millis(300));
            stop.store(true, Ordering::Relaxed);
            (writer.join().unwrap(), output)
        });
        assert!(output.status.success(), "{output:?}");
        assert_eq!(acknowledged.len(), 7, "{format:?}: JGit wrote before the switch");
        let listed: BTreeMap<String, ObjectId> =
            repo.refs().into_iter().map(|found| (found.name.to_string(), found.oid)).collect();
        let verified = repo.try_run(REFDB, ["refs", "verify"], "");
        let strays = [&output.stderr[..], &verified.stderr].concat();
        for (name, id) in &acknowledged {
            let is_there = listed.get(name) == Some(id);
            assert!(is_there || strays.contains_str("strayRef"), "{format:?}: {name} {id}: {}", strays.as_bstr());
        }
        eprintln!("{format:?}: {}", strays.as_bstr());
    }
}

#[test]
fn a_killed_migration_is_ended_by_the_next_and_its_locks_go() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let ids = repo.commits(2);
    repo.fill(60_000, &ids);
    let before = repo.refs();
    let mut to = RefFormat::Reftable;
    for millis in [20, 60, 120, 250] {
        let mut command = repo.command(REFDB);
        let mut child = command.args(["refs", "migrate", &format!("--ref-format={}", to.name())]).spawn().unwrap();
        thread::sleep(Duration::from_millis(millis));
        let _ = child.kill();
        child.wait().unwrap();
        assert!(repo.refs() == before, "after {millis} ms");
        // A later refdb process does not wait for the killed one.
        let output = repo.try_run(REFDB, ["update-ref", "refs/heads/new", &ids[1].to_string()], "");
        assert!(output.status.success(), "{output:?}");
        assert!(repo.try_run(REFDB, ["update-ref", "-d", "refs/heads/new"], "").status.success());
        let output = migrate(&repo, to);
        let said = output.stderr.as_bstr();
        assert!(output.status.success() || said.contains_str("already uses"), "{said}");
        assert!(repo.refs() == before, "after {millis} ms and recovery");
        assert!(!repo.git_dir().join("ref_migration.lock").exists());
        to = if to == RefFormat::Files { RefFormat::Reftable } else { RefFormat::Files };
    }
}

#[test]
fn from_a_linked_worktree_the_main_ones_bad_head_is_named() {
    for from in RefFormat::ALL {
        let repo = Repo::with_worktree(from, HashKind::Sha1);
        repo.create_refs([("refs/heads/main", repo.commit())]);
        let tree = repo.scratch().join("tree");
        repo.git(["worktree", "add", "-q", "-f", tree.to_str().unwrap(), "main"]);
        let head = repo.git_dir().join("HEAD");
        std::fs::write(&head, "no ref\n").unwrap();
        let to = if from == RefFormat::Files { RefFormat::Reftable } else { RefFormat::Files };
        let words = ["-C", tree.to_str().unwrap(), "refs", "migrate", &format!("--ref-format={}", to.name())];
        let output = repo.try_run(REFDB, words, "");
        let expected =
            format!("error: the main worktree's '{}' is missing or no good; mend it first\n", head.display());
        assert_eq!((output.status.code(), &*output.stderr.to_str_lossy()), (Some(255), &*expected));
    }
}

/// Git's migration leaves no HEAD here, and without a HEAD the folder is no repository.
#[test]
fn what_had_no_head_among_reftables_is_still_a_repository_when_it_is_migrated_to_files() {
    let repo = Repo::bare(RefFormat::Reftable, HashKind::Sha1);
    let id = repo.commit();
    repo.create_refs([("refs/heads/main", id)]);
    repo.git_with_input(["update-ref", "--stdin"], "option no-deref\nsymref-delete HEAD\n");
    let output = migrate(&repo, RefFormat::Files);
    assert!(output.status.success(), "{}", output.stderr.as_bstr());
    assert_eq!(repo.git(["rev-parse", "refs/heads/main"]), id.to_string());
    repo.git(["symbolic-ref", "HEAD", "refs/heads/main"]);
    assert_eq!(repo.git(["rev-parse", "HEAD"]), id.to_string());
}

#[test]
fn who_may_not_write_changes_nothing() {
    if rustix::process::geteuid().as_raw() != 0 {
        return;
    }
    for (from, to) in [(RefFormat::Files, RefFormat::Reftable), (RefFormat::Reftable, RefFormat::Files)] {
        let repo = Repo::bare(from, HashKind::Sha1);
        let ids = repo.commits(1);
        repo.create_refs([("refs/heads/main", ids[0])]);
        let before = refdb_testkit::files_below(repo.git_dir());
        let output = migrate_as_another(&repo, to);
        assert!(output.stderr.contains_str("Permission denied"), "{output:?}");
        assert_eq!(refdb_testkit::files_below(repo.git_dir()), before);
        assert_eq!(repo.rev_parse("refs/heads/main"), ids[0]);
    }
}

/// Previously, the new format was in effect before such a folder was noticed, and no later run could move the old files
/// away.
#[test]
fn a_folder_of_refs_that_may_not_be_moved_is_found_before_the_new_format_counts() {
    if rustix::process::geteuid().as_raw() != 0 {
        return;
    }
    for (place, mode) in [("refs/heads", 0o755), ("refs/heads/below", 0o755), ("logs/refs", 0o755), ("refs", 0o1777)] {
        let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
        repo.config("core.logAllRefUpdates", "always");
        let ids = repo.commits(1);
        repo.create_refs([("refs/heads/below/a", ids[0]), ("refs/tags/a", ids[0])]);
        let before = repo.refs();
        let place = repo.git_dir().join(place);
        let give = |user: &str| {
            let mut chown = std::process::Command::new("chown");
            assert!(chown.args(["-R", user]).arg(repo.git_dir()).status().unwrap().success());
        };
        give("65534");
        std::os::unix::fs::chown(&place, Some(0), Some(0)).unwrap();
        std::fs::set_permissions(&place, PermissionsExt::from_mode(mode)).unwrap();
        let output = migrate_as_another(&repo, RefFormat::Reftable);
        assert!(output.stderr.contains_str(place.file_name().unwrap().as_encoded_bytes()), "{output:?}");
        assert!(!repo.git_dir().join("reftable").exists(), "{output:?}");
        give("0");
        assert_eq!(repo.refs(), before);
    }
}

fn migrate_as_another(repo: &Repo, to: RefFormat) -> Output {
    let open = |path: &Path| std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
    open(repo.scratch());
    let program = repo.scratch().join("refdb");
    std::fs::copy(REFDB, &program).unwrap();
    open(&program);
    let mut command = repo.command("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(&program);
    command.args(["-c", "safe.directory=*", "refs", "migrate", &format!("--ref-format={}", to.name())]);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(255), "{output:?}");
    output
}
