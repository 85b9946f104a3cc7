//! Reflogs that a writer of the old format changes while the refs are copied. Afterwards they are as the files were.

use crate::{
    common::{State, assert_clean, format_of, migrate, scene, state},
    late::{Interloper, git, is_commit, is_fence},
};
use refdb::{HashKind, RefFormat};
use refdb_testkit::Repo;
use refdb_vfs::{Fs, IoHook, Op, Verdict};
use std::{
    path::Path,
    sync::{Arc, Mutex, atomic::AtomicBool},
};

const HASHES: [HashKind; 2] = [HashKind::Sha1, HashKind::Sha256];

/// Runs git as a process that opened the repository before the switch, and so takes the refs to be files.
fn files(dir: &Path, words: &[&str]) {
    let output = git(dir).env("GIT_REFERENCE_BACKEND", "files").args(words).output().unwrap();
    assert!(output.status.success(), "{words:?} {output:?}");
}

/// Migrates while `act` changes the files right before the new format takes effect, and returns the state of the files
/// then.
fn migrate_beside(dir: &Path, act: impl Fn() + Send + Sync + 'static) -> State {
    let seen = Arc::new(Mutex::new(None));
    let (noted, at) = (Arc::clone(&seen), dir.to_owned());
    let act = move || {
        act();
        assert_eq!(format_of(&at), RefFormat::Files);
        *noted.lock().unwrap() = Some(state(&at));
    };
    let fs = Fs::with_hook(Arc::new(Interloper { when: is_commit, act, is_done: AtomicBool::new(false) }));
    let migrated = migrate(&fs, dir, RefFormat::Reftable).unwrap();
    assert!(migrated.conflicts.is_empty() && migrated.strays.is_empty(), "{migrated:?}");
    assert_clean(dir);
    let had = seen.lock().unwrap().take();
    had.unwrap()
}

/// Creates a repository whose topic has a reflog of three entries, and returns it with five ids.
fn topic(hash: HashKind) -> (Repo, Vec<String>) {
    let repo = scene(RefFormat::Files, hash);
    let ids: Vec<String> = repo.commits(5).iter().map(ToString::to_string).collect();
    for (id, why) in ids.iter().zip(["one", "two", "three"]) {
        repo.git(["update-ref", "-m", why, "refs/heads/topic", id]);
    }
    (repo, ids)
}

#[test]
fn an_entry_behind_a_late_expiry_is_kept_and_what_expired_stays_away() {
    for hash in HASHES {
        let (repo, ids) = topic(hash);
        let dir = repo.git_dir().to_owned();
        let at = dir.clone();
        let had = migrate_beside(&dir, move || {
            files(&at, &["reflog", "expire", "--expire=all", "refs/heads/topic"]);
            files(&at, &["update-ref", "-m", "LATE", "refs/heads/topic", &ids[3]]);
        });
        assert!(had.1["refs/heads/topic"].len() == 1 && had.1["refs/heads/topic"][0].contains("LATE"));
        assert_eq!(state(&dir), had);
        repo.verify();
    }
}

#[test]
fn a_late_stash_in_the_place_of_a_dropped_one_is_kept() {
    for hash in HASHES {
        let repo = Repo::with_worktree(refdb_testkit::RefFormat::Files, hash);
        let folder = repo.dir().to_owned();
        std::fs::write(folder.join("file"), "0").unwrap();
        repo.git(["add", "file"]);
        repo.git(["commit", "--quiet", "-m", "first"]);
        for why in ["kept", "dropped"] {
            std::fs::write(folder.join("file"), why).unwrap();
            repo.git(["stash", "push", "--quiet", "-m", why]);
        }
        let had = migrate_beside(repo.git_dir(), move || {
            let run = |words: &[&str]| {
                let mut command = refdb_testkit::Git::find().command(&folder);
                let output = command.env("GIT_REFERENCE_BACKEND", "files").args(words).output().unwrap();
                assert!(output.status.success(), "{words:?} {output:?}");
            };
            run(&["stash", "drop", "--quiet"]);
            std::fs::write(folder.join("file"), "important").unwrap();
            run(&["stash", "push", "--quiet", "-m", "IMPORTANT"]);
        });
        let stash = &had.1["refs/stash"];
        assert!(stash.len() == 2 && stash[0].contains("IMPORTANT") && stash[1].contains("kept"), "{stash:?}");
        assert_eq!(state(repo.git_dir()), had);
    }
}

/// All entries of these tests have the same timestamp.
#[test]
fn a_late_entry_that_equals_an_older_one_is_kept() {
    for hash in HASHES {
        let (repo, ids) = topic(hash);
        let dir = repo.git_dir().to_owned();
        for id in [&ids[0], &ids[1]] {
            repo.git(["update-ref", "-m", "to and fro", "refs/heads/topic", id]);
        }
        let at = dir.clone();
        let had = migrate_beside(&dir, move || {
            for id in [&ids[0], &ids[1], &ids[0], &ids[1]] {
                files(&at, &["update-ref", "-m", "to and fro", "refs/heads/topic", id]);
            }
        });
        let topic = &had.1["refs/heads/topic"];
        assert!(topic.len() == 9 && topic[0] == topic[2] && topic[0] == topic[4], "{topic:?}");
        assert_eq!(state(&dir), had);
    }
}

#[test]
fn reflogs_that_were_emptied_thinned_deleted_or_made_anew_are_what_the_files_had() {
    for hash in HASHES {
        let (repo, ids) = topic(hash);
        let dir = repo.git_dir().to_owned();
        repo.git(["update-ref", "-m", "other", "refs/heads/other", &ids[0]]);
        repo.git(["update-ref", "-m", "gone", "refs/heads/gone", &ids[0]]);
        let at = dir.clone();
        let had = migrate_beside(&dir, move || {
            files(&at, &["reflog", "delete", "refs/heads/topic@{1}"]);
            files(&at, &["reflog", "expire", "--expire=all", "refs/heads/main"]);
            files(&at, &["reflog", "delete", "--rewrite", "refs/heads/other@{0}"]);
            files(&at, &["update-ref", "-m", "again", "refs/heads/other", &ids[1]]);
            // This is what a deletion does. Git itself deletes nothing while packed-refs is locked.
            for path in ["logs/refs/heads/a/b", "logs/refs/heads/gone", "refs/heads/gone", "logs/refs/heads/loose"] {
                std::fs::remove_file(at.join(path)).unwrap();
            }
            files(&at, &["update-ref", "-m", "anew", "refs/heads/a/b", &ids[2]]);
            std::fs::write(at.join("logs/refs/heads/void"), "").unwrap();
            files(&at.join("worktrees/tree"), &["update-ref", "-m", "late", "--no-deref", "HEAD", &ids[3]]);
        });
        assert_eq!((had.1["refs/heads/topic"].len(), had.1["refs/heads/main"].len()), (2, 0));
        assert!(had.1["refs/heads/a/b"].len() == 1 && had.1["refs/heads/void"].is_empty());
        assert!(!had.1.contains_key("refs/heads/loose") && !had.1.contains_key("refs/heads/gone"));
        assert_eq!(state(&dir), had);
        repo.verify();
    }
}

/// Acts before the new format takes effect, and refuses the operations for which `refused` returns true.
struct Breaker<F> {
    late: Interloper<F>,
    refused: fn(&Op<'_>) -> bool,
}

impl<F: Fn() + Send + Sync> IoHook for Breaker<F> {
    fn before(&self, op: Op<'_>) -> Verdict {
        if (self.refused)(&op) {
            return Verdict::Fail(std::io::ErrorKind::StorageFull.into());
        }
        self.late.before(op)
    }
}

fn is_end(op: &Op<'_>) -> bool {
    matches!(op, Op::Rename(from, to) if from.ends_with("plan") && to.ends_with("done"))
}

/// The first run ends before it looks for late changes or right after that. The new format is then written to, and the
/// next run finishes the migration.
#[test]
fn the_next_run_adds_nothing_twice_and_keeps_what_the_new_format_gained() {
    for (hash, refused) in HASHES.into_iter().flat_map(|hash| [(hash, is_fence as fn(&Op<'_>) -> bool), (hash, is_end)])
    {
        let (repo, ids) = topic(hash);
        // No table has room for this entry, so the copy has it cut, which does not count as a change.
        repo.git(["update-ref", "-m", &"long ".repeat(2000), "refs/heads/quiet", &ids[0]]);
        let dir = repo.git_dir().to_owned();
        let (at, seen) = (dir.clone(), Arc::new(Mutex::new(State::default())));
        let (noted, id) = (Arc::clone(&seen), ids[0].clone());
        let act = move || {
            files(&at, &["update-ref", "-m", "late", "refs/heads/topic", &id]);
            files(&at, &["update-ref", "-m", "late", "refs/heads/topic", &id]);
            files(&at, &["reflog", "delete", "refs/heads/main@{1}"]);
            files(&at, &["reflog", "expire", "--expire=all", "refs/heads/loose"]);
            *noted.lock().unwrap() = state(&at);
        };
        let late = Interloper { when: is_commit, act, is_done: AtomicBool::new(false) };
        let fs = Fs::with_hook(Arc::new(Breaker { late, refused }));
        migrate(&fs, &dir, RefFormat::Reftable).unwrap_err();
        assert_eq!(format_of(&dir), RefFormat::Reftable);
        for (name, id) in [("main", &ids[3]), ("quiet", &ids[4])] {
            repo.git(["update-ref", "-m", "new format", &format!("refs/heads/{name}"), id]);
        }
        let new = state(&dir).1;
        let migrated = migrate(&Fs::real(), &dir, RefFormat::Reftable).unwrap();
        assert!(migrated.conflicts.is_empty(), "{migrated:?}");
        let mut expected = seen.lock().unwrap().1.clone();
        for (name, log) in &mut expected {
            if name.ends_with("refs/heads/quiet") {
                // Nothing has happened to this reflog among the files.
                log.clone_from(&new[name]);
            } else if let Some(new) = new.get(name) {
                log.splice(..0, new.iter().filter(|line| line.contains("new format")).cloned());
            }
        }
        let after = state(&dir).1;
        for (name, log) in &expected {
            assert_eq!(after[name], *log, "{name}");
        }
        assert_eq!(after.len(), expected.len());
        assert_clean(&dir);
        repo.verify();
    }
}

/// The first run ends after the switch. HEAD's reflog gains entries in both formats, and the late one is the oldest.
#[test]
fn a_late_entry_comes_below_newer_ones_of_the_new_format() {
    for hash in HASHES {
        let (repo, ids) = topic(hash);
        let (dir, id) = (repo.git_dir().to_owned(), ids[0].clone());
        let at = dir.clone();
        let act = move || files(&at, &["update-ref", "-m", "late", "HEAD", &id]);
        let late = Interloper { when: is_commit, act, is_done: AtomicBool::new(false) };
        let fs = Fs::with_hook(Arc::new(Breaker { late, refused: is_fence }));
        migrate(&fs, &dir, RefFormat::Reftable).unwrap_err();
        for target in ["topic", "main"] {
            repo.git(["symbolic-ref", "-m", &format!("to {target}"), "HEAD", &format!("refs/heads/{target}")]);
        }
        // If the next run ends after it has looked for late changes, the last run changes nothing more.
        let again = Interloper { when: is_end, act: || {}, is_done: AtomicBool::new(false) };
        migrate(&Fs::with_hook(Arc::new(Breaker { late: again, refused: is_end })), &dir, RefFormat::Reftable)
            .unwrap_err();
        migrate(&Fs::real(), &dir, RefFormat::Reftable).unwrap();
        let log = &state(&dir).1["HEAD"];
        let is_in_order = log.iter().zip(["to main", "to topic", "late"]).all(|(line, message)| line.contains(message));
        assert!(is_in_order, "{log:#?}");
        assert_clean(&dir);
        repo.verify();
    }
}
