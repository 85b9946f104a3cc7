//! Rivals who checked the packed-refs that a bulk transaction is about to replace: of two of whom only one can have its
//! way, one fails.
#![allow(clippy::unwrap_used, reason = "tests")]

mod files_common;

use files_common::*;
use refdb::{
    Change, Edit, Error, HashKind, Precondition, Reason, RefName, Rejection, Target,
    files::FilesBackend,
    transaction::{Context, LogPolicy, Mode, NoHook, Transaction, TransactionOptions},
};
use refdb_testkit::{RefFormat, Repo};
use refdb_vfs::{Fs, Op, Patience, Verdict, Witness};
use std::{
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

/// Does something once, just before packed-refs is replaced: what a rival does who checked the old packed-refs.
struct AtReplacement(Mutex<Once>);

impl Witness for AtReplacement {
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

/// Long enough for a lock that another thread gives up in a moment, whatever else the machine has to do.
const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(50);

fn racing(repo: &Repo, patience: Duration, act: impl FnOnce() + Send + 'static) -> FilesBackend {
    let fs = Fs::witnessed(Arc::new(AtReplacement(Mutex::new(Some(Box::new(act))))));
    let mut options = options(fs, repo.git_dir(), repo.hash());
    options.ref_patience = Some(Patience::For(patience));
    FilesBackend::new(options)
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
            matches!(&error, Error::Rejected(rejection) if rejection.reason == Reason::NameConflict
                && rejection.text.contains("'refs/heads/deep/b07/child' exists; cannot create 'refs/heads/deep/b07'")),
            "{error}"
        );
        assert_eq!(std::fs::read(repo.git_dir().join("packed-refs")).ok(), packed);
        assert_eq!(listing(&repo), [format!("refs/heads/deep/b07/child {id}"), format!("refs/heads/main {id}")]);
        assert_eq!(leftovers(repo.git_dir()), Vec::<std::path::PathBuf>::new());
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
            // As git does: it would remove an empty folder, and gives up on a full one.
            assert!(std::fs::rename(&lock, &folder).is_err(), "our locks keep the folder there");
            std::fs::remove_file(&lock).unwrap();
        });
    });
    transact(&store, &bulk_with_locks(id)).unwrap();
    assert_eq!(listing(&repo).len(), 40);
    // One that never goes away fails the transaction.
    let stale = repo.git_dir().join("refs/heads/other.lock");
    let store = racing(&repo, SHORT, move || put(&stale, ""));
    let wishes: Vec<Wish> = (0..40).map(|i| create(format!("refs/heads/other/b{i}"), id)).collect();
    let error = transact(&store, &wishes).unwrap_err().to_string();
    assert!(error.contains("'refs/heads/other'"), "{error}");
    assert_eq!(listing(&repo).len(), 40);
}

#[test]
fn a_parent_in_flight_wins_if_it_commits_while_ours_are_not_locked() {
    for commits in [false, true] {
        let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
        let id = repo.commit();
        let folder = repo.git_dir().join("refs/heads/deep");
        let store = racing(&repo, LONG, move || {
            let lock = folder.with_extension("lock");
            put(&lock, &format!("{id}\n"));
            thread::spawn(move || {
                thread::sleep(Duration::from_millis(60));
                if commits { std::fs::rename(&lock, &folder).unwrap() } else { std::fs::remove_file(&lock).unwrap() }
            });
        });
        let done = transact(&store, &bulk(id));
        if commits {
            let error = done.unwrap_err().to_string();
            assert!(error.contains("'refs/heads/deep' exists; cannot create 'refs/heads/deep/b00'"), "{error}");
            assert_eq!(listing(&repo), [format!("refs/heads/deep {id}")]);
        } else {
            done.unwrap();
            assert_eq!(listing(&repo).len(), 40);
        }
    }
}

#[test]
fn whoever_made_one_of_our_refs_before_our_packed_refs_wins_and_ours_are_taken_back() {
    for in_flight in [false, true] {
        let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
        let ids = repo.commits(2);
        let (path, theirs) = (repo.git_dir().join("refs/heads/deep/b07"), ids[1]);
        let store = racing(&repo, LONG, move || {
            let lock = path.with_extension("lock");
            put(&lock, &format!("{theirs}\n"));
            let commit = move || std::fs::rename(&lock, &path).unwrap();
            if in_flight {
                thread::spawn(move || {
                    thread::sleep(Duration::from_millis(60));
                    commit();
                });
            } else {
                commit();
            }
        });
        let error = transact(&store, &bulk(ids[0])).unwrap_err();
        assert!(
            matches!(&error, Error::Rejected(rejection) if rejection.reason == Reason::CreateExists
                && rejection.text == "cannot lock ref 'refs/heads/deep/b07': reference already exists"),
            "{error}"
        );
        assert_eq!(listing(&repo), [format!("refs/heads/deep/b07 {theirs}")]);
        assert_eq!(leftovers(repo.git_dir()), Vec::<std::path::PathBuf>::new());
    }
}

#[test]
fn whoever_gives_up_making_one_of_our_refs_is_waited_for_and_a_stale_lock_fails_before_anything_is_seen() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let id = repo.commit();
    let lock = repo.git_dir().join("refs/heads/deep/b07.lock");
    let store = racing(&repo, LONG, move || {
        put(&lock, "");
        thread::spawn(move || {
            thread::sleep(Duration::from_millis(60));
            std::fs::remove_file(&lock).unwrap();
        });
    });
    transact(&store, &bulk(id)).unwrap();
    assert_eq!(listing(&repo).len(), 40);
    put(&repo.git_dir().join("refs/heads/stale/b07.lock"), "");
    let store = racing(&repo, SHORT, || panic!("packed-refs was replaced"));
    let wishes: Vec<Wish> = (0..40).map(|i| create(format!("refs/heads/stale/b{i:02}"), id)).collect();
    let error = transact(&store, &wishes).unwrap_err().to_string();
    assert!(error.contains("refs/heads/stale/b07.lock': File exists"), "{error}");
    assert_eq!(listing(&repo).len(), 40);
}

/// Does something once, when packed-refs has just been replaced and its folder is about to be synced.
struct AfterReplacement(Mutex<(bool, Once)>);

type Once = Option<Box<dyn FnOnce() + Send>>;

impl Witness for AfterReplacement {
    fn before(&self, op: Op<'_>) -> Verdict {
        let mut state = self.0.lock().unwrap();
        match op {
            Op::Rename(_, to) if to.ends_with("packed-refs") => state.0 = true,
            Op::SyncDir(_) if state.0 => {
                if let Some(act) = state.1.take() {
                    act();
                }
            }
            _ => {}
        }
        Verdict::Proceed
    }
}

#[test]
fn whoever_changes_one_of_our_refs_as_soon_as_it_is_there_is_no_rival() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let ids = repo.commits(2);
    let (path, theirs) = (repo.git_dir().join("refs/heads/deep/b07"), ids[1]);
    let act = move || {
        // Longer than a tick of the clock that file systems have.
        thread::sleep(Duration::from_millis(30));
        let lock = path.with_extension("lock");
        put(&lock, &format!("{theirs}\n"));
        std::fs::rename(&lock, &path).unwrap();
    };
    let witness = AfterReplacement(Mutex::new((false, Some(Box::new(act)))));
    let mut options = options(Fs::witnessed(Arc::new(witness)), repo.git_dir(), repo.hash());
    options.sync = true;
    transact(&FilesBackend::new(options), &bulk(ids[0])).unwrap();
    let listed = listing(&repo);
    assert_eq!(listed.len(), 40);
    assert!(listed.contains(&format!("refs/heads/deep/b07 {theirs}")), "{listed:?}");
}

#[test]
fn a_transaction_that_met_a_rival_is_done_again_with_locks_and_only_the_rivals_ref_is_refused() {
    for mode in [Mode::Atomic, Mode::PerEdit] {
        let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
        let ids = repo.commits(2);
        let (path, theirs) = (repo.git_dir().join("refs/heads/deep/b07"), ids[1]);
        let store = racing(&repo, LONG, move || put(&path, &format!("{theirs}\n")));
        let context = Context {
            backend: &store,
            objects: &KnownTags::default(),
            hooks: &NoHook,
            committer: &|| panic!("nothing is logged"),
            log_policy: LogPolicy::Never,
            hash: repo.hash(),
            quarantined: false,
        };
        let mut transaction = Transaction::new(context, TransactionOptions { mode, ..TransactionOptions::default() });
        for wish in bulk(ids[0]) {
            let change = Change::Set(Target::Direct(ids[0]));
            let edit = Edit::new(RefName::new(wish.name).unwrap(), change, Precondition::MustNotExist);
            transaction.add(edit).unwrap();
        }
        let done = transaction.commit();
        let is_right = |rejection: &Rejection| {
            rejection.reason == Reason::CreateExists && rejection.name.as_bstr() == "refs/heads/deep/b07"
        };
        match mode {
            Mode::Atomic => {
                assert!(matches!(&done, Err(Error::Rejected(rejection)) if is_right(rejection)), "{done:?}")
            }
            Mode::PerEdit => {
                let rejected = done.unwrap().rejected;
                assert!(matches!(&rejected[..], [(7, rejection)] if is_right(rejection)), "{rejected:?}");
            }
        }
        let listed = listing(&repo);
        assert_eq!(listed.len(), if mode == Mode::Atomic { 1 } else { 40 });
        assert!(listed.contains(&format!("refs/heads/deep/b07 {theirs}")), "{listed:?}");
        assert_eq!(leftovers(repo.git_dir()), Vec::<std::path::PathBuf>::new());
    }
}
