//! The calls that most users of the crate need, on both formats.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed, which is what it should do")]

use refdb::{Error, HashKind, Misuse, Precondition, Reason, RepositoryError, Store, Target, Why, was};
use refdb_testkit::{RefFormat, Repo};
use std::{fs, os::unix::fs::PermissionsExt, path::Path};

const FORMATS: [RefFormat; 2] = [RefFormat::Files, RefFormat::Reftable];

fn names(store: &Store, prefix: &str) -> Vec<String> {
    store.refs(prefix).unwrap().map(|found| found.unwrap().name.to_string()).collect()
}

#[test]
fn what_one_transaction_says_git_reads() {
    for format in FORMATS {
        let repo = Repo::bare(format, HashKind::Sha1);
        let [old, new] = repo.commits(2)[..] else { panic!("two") };
        repo.create_refs([("refs/heads/main", old), ("refs/heads/gone", old)]);
        let store = Store::open(repo.git_dir()).unwrap();
        let mut tx = store.transaction();
        tx.create("refs/heads/new", new)
            .and_then(|tx| tx.update("HEAD", new, was(old)))
            .and_then(|tx| tx.delete("refs/heads/gone", was(old)))
            .and_then(|tx| tx.verify("refs/heads/none", Precondition::MustNotExist))
            .unwrap();
        tx.message("why");
        let prepared = tx.prepare().unwrap();
        assert_eq!(store.id_of("HEAD").unwrap(), Some(old), "nothing is seen before the commit");
        prepared.commit().unwrap();
        let listed: Vec<_> = repo.refs().into_iter().map(|row| (row.name.to_string(), row.oid.to_string())).collect();
        let expected = ["refs/heads/main", "refs/heads/new"].map(|name| (name.to_owned(), new.to_string()));
        assert_eq!(listed[1..], expected);
        assert_eq!(store.id_of("HEAD").unwrap(), Some(new));
        assert_eq!(names(&store, "refs/heads/n"), ["refs/heads/new"]);
    }
}

#[test]
fn why_it_was_rejected_is_a_value() {
    for format in FORMATS {
        let repo = Repo::bare(format, HashKind::Sha1);
        let [a, b] = repo.commits(2)[..] else { panic!("two") };
        repo.create_refs([("refs/heads/main", a)]);
        let store = Store::open(repo.git_dir()).unwrap();
        let reject = |name: &str, expected: Precondition| {
            let mut tx = store.transaction();
            tx.update(name, b, expected).unwrap();
            match tx.commit().unwrap_err() {
                Error::Rejected(rejection) => *rejection,
                other => panic!("{other:?}"),
            }
        };
        let rejection = reject("HEAD", was(b));
        let mismatch = Why::Mismatch { expected: Target::Direct(b), actual: Some(Target::Direct(a)) };
        assert_eq!(
            (rejection.given.to_string(), rejection.resolved.to_string()),
            (String::from("HEAD"), String::from("refs/heads/main"))
        );
        assert_eq!((&rejection.why, rejection.reason()), (&mismatch, Reason::IncorrectOldValue));
        assert_eq!(rejection.to_string(), format!("cannot lock ref 'HEAD': is at {a} but expected {b}"));
        assert_eq!(reject("refs/heads/main", Precondition::MustNotExist).why, Why::Exists { is_dangling: false });
        assert_eq!(reject("refs/heads/none", was(b)).why, Why::Missing);
        let below = reject("refs/heads/main/below", Precondition::Any).why;
        assert!(matches!(&below, Why::Conflict { with, is_new: false, .. } if with == "refs/heads/main"), "{below:?}");
        let bad = store.transaction().create("refs/heads/a..b", a).map(drop).unwrap_err();
        assert!(matches!(bad, Error::Misuse(Misuse::BadName(_))), "{bad:?}");
    }
}

#[test]
fn a_held_lock_is_named() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let id = repo.commit();
    let lock = repo.git_dir().join("refs/heads/main.lock");
    fs::write(&lock, "").unwrap();
    let store = Store::builder(repo.git_dir()).config("core.filesRefLockTimeout=0").open().unwrap();
    let mut tx = store.transaction();
    tx.create("refs/heads/main", id).unwrap();
    match tx.commit().unwrap_err() {
        Error::Rejected(rejection) => {
            assert!(matches!(&rejection.why, Why::Locked { path, .. } if path.ends_with("refs/heads/main.lock")));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_broken_ref_is_one_row_among_the_others() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let id = repo.commit();
    repo.create_refs([("refs/heads/a", id), ("refs/heads/c", id)]);
    fs::write(repo.git_dir().join("refs/heads/b"), "nonsense").unwrap();
    let store = Store::open(repo.git_dir()).unwrap();
    let rows: Vec<_> = store.refs("refs/heads/").unwrap().map(|row| row.is_ok()).collect();
    assert_eq!(rows, [true, false, true]);
}

#[test]
fn a_folder_that_is_no_repository_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let below = folder.path().join("below");
    fs::create_dir(&below).unwrap();
    for part in [".git/objects", ".git/refs"] {
        fs::create_dir_all(folder.path().join(part)).unwrap();
    }
    fs::write(folder.path().join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
    assert!(Store::open(folder.path()).is_ok() && Store::open(folder.path().join(".git")).is_ok());
    // Folders above are not searched.
    let error = Store::open(&below).map(drop).unwrap_err();
    assert!(matches!(error, Error::Repository(RepositoryError::NotARepository(_))), "{error:?}");
}

/// Runs in a process of its own, with variables that mean another repository.
#[test]
#[ignore = "started by the test below"]
fn child() {
    let path = std::env::var_os("REFDB_TEST_REPOSITORY").unwrap();
    let store = Store::open(&path).unwrap();
    assert_eq!(names(&store, "refs/heads/"), ["refs/heads/mine"]);
    let id = store.id_of("refs/heads/mine").unwrap().unwrap();
    let mut tx = store.transaction();
    tx.create("refs/heads/second", id).unwrap();
    tx.commit().unwrap();
}

#[test]
fn no_git_variable_leads_elsewhere_neither_us_nor_the_hook() {
    for format in FORMATS {
        let (mine, other) = (Repo::bare(format, HashKind::Sha1), Repo::bare(format, HashKind::Sha1));
        mine.create_refs([("refs/heads/mine", mine.commit())]);
        other.create_refs([("refs/heads/other", other.commit())]);
        let hook = mine.git_dir().join("hooks/reference-transaction");
        fs::create_dir_all(hook.parent().unwrap()).unwrap();
        fs::write(&hook, "#!/bin/sh\nenv | grep ^GIT_ >\"$PWD/seen\"\n").unwrap();
        fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
        let child = refdb_testkit::this_program()
            .args(["--exact", "child", "--ignored"])
            .env("REFDB_TEST_REPOSITORY", mine.git_dir())
            .env("GIT_DIR", other.git_dir())
            .env("GIT_COMMON_DIR", other.git_dir())
            .env("GIT_OBJECT_DIRECTORY", other.git_dir().join("objects"))
            .env("GIT_NAMESPACE", "elsewhere")
            .output()
            .unwrap();
        assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stdout));
        let seen = fs::read_to_string(mine.git_dir().join("seen")).unwrap();
        let git_dir = seen.lines().find_map(|line| line.strip_prefix("GIT_DIR=")).map(Path::new);
        assert_eq!(git_dir, Some(mine.git_dir()), "{seen}");
        assert!(!seen.contains("elsewhere") && !seen.contains(&*other.git_dir().to_string_lossy()), "{seen}");
    }
}

#[test]
fn a_repository_that_was_moved_away_takes_no_commit_and_is_not_made_anew() {
    for format in FORMATS {
        let repo = Repo::bare(format, HashKind::Sha1);
        let id = repo.commit();
        let store = Store::open(repo.git_dir()).unwrap();
        for round in ["before", "behind"] {
            let mut transaction = store.transaction();
            transaction.create(&*format!("refs/heads/{round}"), id).unwrap();
            let done = transaction.commit();
            if round == "before" {
                done.unwrap();
                fs::rename(repo.git_dir(), repo.scratch().join("moved")).unwrap();
            } else {
                assert!(done.is_err(), "{format:?}: a ref was acknowledged that is nowhere");
            }
        }
        assert!(!repo.git_dir().exists(), "{format:?}");
    }
}

#[test]
fn a_repository_that_was_moved_away_has_no_refs_to_read_and_says_so() {
    for format in FORMATS {
        let repo = Repo::bare(format, HashKind::Sha1);
        repo.create_refs([("refs/heads/main", repo.commit())]);
        let store = Store::open(repo.git_dir()).unwrap();
        // A server may have read it before, or not.
        let fresh = Store::open(repo.git_dir()).unwrap();
        assert_eq!(names(&store, "refs/"), ["refs/heads/main"]);
        assert_eq!(names(&store, "refs/none/"), [] as [&str; 0]);
        fs::rename(repo.git_dir(), repo.scratch().join("moved")).unwrap();
        for store in [store, fresh] {
            let answers = [
                store.find("refs/heads/main").map(drop),
                store.id_of("HEAD").map(drop),
                store.refs("refs/").map(drop),
                store.visit("refs/heads/", |_| Ok(std::ops::ControlFlow::Continue(()))),
            ];
            for (at, answer) in answers.into_iter().enumerate() {
                assert!(answer.is_err(), "{format:?}: question {at} was answered about a repository that is gone");
            }
        }
    }
}

#[test]
fn an_id_of_another_hash_is_misuse() {
    for (format, hash, other) in [
        (RefFormat::Files, HashKind::Sha1, HashKind::Sha256),
        (RefFormat::Reftable, HashKind::Sha1, HashKind::Sha256),
        (RefFormat::Files, HashKind::Sha256, HashKind::Sha1),
        (RefFormat::Reftable, HashKind::Sha256, HashKind::Sha1),
    ] {
        let repo = Repo::bare(format, hash);
        let id = repo.commit();
        let store = Store::open(repo.git_dir()).unwrap();
        let foreign = refdb::ObjectId::from_hex(other, "1".repeat(other.len_hex()).as_bytes()).unwrap();
        let is_misuse = |done: refdb::Result<()>| matches!(done, Err(Error::Misuse(Misuse::BadId(_))));
        let mut tx = store.transaction();
        assert!(is_misuse(tx.create("refs/heads/x", foreign).map(drop)));
        assert!(is_misuse(tx.update("refs/heads/x", id, was(foreign)).map(drop)));
        assert!(is_misuse(tx.delete("refs/heads/x", was(foreign)).map(drop)));
        assert!(is_misuse(tx.verify("refs/heads/x", was(foreign)).map(drop)));
        let objects = store.objects();
        assert!(is_misuse(objects.exists(&foreign).map(drop).map_err(Error::from)));
        assert!(is_misuse(objects.kind(&foreign).map(drop).map_err(Error::from)));
        assert!(is_misuse(objects.peel(&foreign).map(drop).map_err(Error::from)));
        assert!(is_misuse(objects.content(&foreign, &mut Vec::new()).map(drop).map_err(Error::from)));
        assert!(is_misuse(objects.abbreviate(&foreign, None).map(drop).map_err(Error::from)));
    }
}

#[test]
fn who_waits_for_itself_is_not_told_to_remove_the_lock() {
    for format in FORMATS {
        let repo = Repo::bare(format, HashKind::Sha1);
        let id = repo.commit();
        let settings = ["reftable.lockTimeout=50", "core.filesRefLockTimeout=50"];
        let builder = settings.iter().fold(Store::builder(repo.git_dir()), |builder, setting| builder.config(setting));
        let store = builder.open().unwrap();
        let mut first = store.transaction();
        first.create("refs/heads/a", id).unwrap();
        let first = first.prepare().unwrap();
        let mut second = store.transaction();
        second.create("refs/heads/b", id).unwrap();
        match second.commit() {
            // In files only the same ref is locked.
            Ok(_) => assert_eq!(format, RefFormat::Files),
            Err(error) => {
                let said = error.to_string();
                assert!(said.contains("held by this process itself") && !said.contains("remove the file"), "{said}");
            }
        }
        first.commit().unwrap();
    }
}
