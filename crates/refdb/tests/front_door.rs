//! The calls that most users of the crate need, on files and on reftables.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed, which is what it should do")]

use refdb::{
    Error, HashKind, Misuse, ObjectId, OptimizeOptions, Precondition, RefName, RejectionClass, RejectionReason,
    RepositoryError, Store, Target, Transaction, TransactionOptions,
    transaction::{Context, Hook, HookSource, HookState, Mode},
    verify::{Looking, Verified},
    was,
};
use refdb_testkit::{RefFormat, Repo};
use refdb_vfs::{Fs, LockTimeout};
use reftable::stack::{Stack, StackError, StackOptions};
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

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
            .update("HEAD", new, was(old))
            .delete("refs/heads/gone", was(old))
            .verify("refs/heads/none", Precondition::MustNotExist)
            .message("why");
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
            tx.update(name, b, expected);
            match tx.commit().unwrap_err() {
                Error::Rejected(rejection) => *rejection,
                other => panic!("{other:?}"),
            }
        };
        let rejection = reject("HEAD", was(b));
        let mismatch = RejectionReason::Mismatch { expected: Target::Direct(b), actual: Some(Target::Direct(a)) };
        assert_eq!(
            (rejection.given.to_string(), rejection.resolved.to_string()),
            (String::from("HEAD"), String::from("refs/heads/main"))
        );
        assert_eq!((&rejection.reason, rejection.class()), (&mismatch, RejectionClass::IncorrectOldValue));
        assert_eq!(rejection.to_string(), format!("cannot lock ref 'HEAD': is at {a} but expected {b}"));
        assert_eq!(
            reject("refs/heads/main", Precondition::MustNotExist).reason,
            RejectionReason::Exists { is_dangling: false }
        );
        assert_eq!(reject("refs/heads/none", was(b)).reason, RejectionReason::Missing);
        let below = reject("refs/heads/main/below", Precondition::Any).reason;
        assert!(
            matches!(&below, RejectionReason::Conflict { with, is_new: false, .. } if with == "refs/heads/main"),
            "{below:?}"
        );
        let mut badly_named = store.transaction();
        badly_named.create("refs/heads/a..b", a);
        let bad = badly_named.commit().unwrap_err();
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
    tx.create("refs/heads/main", id);
    match tx.commit().unwrap_err() {
        Error::Rejected(rejection) => {
            assert!(
                matches!(&rejection.reason, RejectionReason::Locked { path, .. } if path.ends_with("refs/heads/main.lock"))
            );
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
    // Parent folders are not searched.
    let error = Store::open(&below).map(drop).unwrap_err();
    assert!(matches!(error, Error::Repository(RepositoryError::NotARepository(_))), "{error:?}");
}

/// Runs in a process of its own, with environment variables that name another repository.
#[test]
#[ignore = "started by the test below"]
fn child() {
    let path = std::env::var_os("REFDB_TEST_REPOSITORY").unwrap();
    let store = Store::open(&path).unwrap();
    assert_eq!(names(&store, "refs/heads/"), ["refs/heads/mine"]);
    let id = store.id_of("refs/heads/mine").unwrap().unwrap();
    let mut tx = store.transaction();
    tx.create("refs/heads/second", id);
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
            transaction.create(&*format!("refs/heads/{round}"), id);
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
        // A server may or may not have read the repository before.
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
        let refused = |edit: &dyn Fn(&mut Transaction<'_>)| {
            let mut tx = store.transaction();
            edit(&mut tx);
            tx.create("refs/heads/behind", id);
            is_misuse(tx.commit().map(drop))
        };
        assert!(refused(&|tx| {
            tx.create("refs/heads/x", foreign);
        }));
        assert!(refused(&|tx| {
            tx.update("refs/heads/x", id, was(foreign));
        }));
        assert!(refused(&|tx| {
            tx.delete("refs/heads/x", was(foreign));
        }));
        assert!(refused(&|tx| {
            tx.verify("refs/heads/x", was(foreign));
        }));
        let objects = store.objects();
        assert!(is_misuse(objects.exists(&foreign).map(drop).map_err(Error::from)));
        assert!(is_misuse(objects.kind(&foreign).map(drop).map_err(Error::from)));
        assert!(is_misuse(objects.peel(&foreign).map(drop).map_err(Error::from)));
        assert!(is_misuse(objects.content(&foreign, &mut Vec::new()).map(drop).map_err(Error::from)));
        assert!(is_misuse(objects.abbreviate(&foreign, None).map(drop).map_err(Error::from)));
    }
}

#[test]
fn a_thread_that_holds_one_file_may_change_another() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let id = repo.commit();
    let store = Store::builder(repo.git_dir()).config("core.filesRefLockTimeout=50").open().unwrap();
    let prepare = |name: &str| {
        let mut tx = store.transaction();
        tx.create(name, id);
        tx.prepare()
    };
    let first = prepare("refs/heads/a").unwrap();
    prepare("refs/heads/b").unwrap().commit().unwrap();
    let Err(Error::Rejected(rejection)) = prepare("refs/heads/a").map(drop) else { panic!("it is locked") };
    assert!(matches!(rejection.reason, RejectionReason::Locked { .. }), "{rejection}");
    first.commit().unwrap();
    assert_eq!(names(&store, "refs/heads/"), ["refs/heads/a", "refs/heads/b"]);
}

/// Previously, the thread waited for itself until `reftable.lockTimeout` had passed, which here means for ever.
#[test]
fn a_thread_that_holds_a_stack_is_told_so_at_once() {
    for hash in [HashKind::Sha1, HashKind::Sha256] {
        let repo = Repo::bare(RefFormat::Reftable, hash);
        let id = repo.commit();
        let link = repo.git_dir().with_extension("link");
        std::os::unix::fs::symlink(repo.git_dir(), &link).unwrap();
        let open = |path: &Path, millis: i32| {
            Store::builder(path).config(format!("reftable.lockTimeout={millis}")).open().unwrap()
        };
        // Another store of the same repository, opened by another path, would wait for the same lock.
        let (store, other, hasty) = (open(repo.git_dir(), -1), open(&link, -1), open(repo.git_dir(), 50));
        let prepare = |store: &Store, name: &str| {
            let mut tx = store.transaction();
            tx.create(name, id);
            tx.prepare().map(|prepared| prepared.commit().map(drop).unwrap())
        };
        let mut first = store.transaction();
        first.create("refs/heads/a", id);
        let first = first.prepare().unwrap();
        for store in [&store, &other] {
            let error = prepare(store, "refs/heads/b").unwrap_err();
            assert!(matches!(error, Error::Misuse(Misuse::OwnLock { .. })), "{error}");
            assert!(error.to_string().contains("/reftable'"), "{error}");
        }
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| prepare(&store, "refs/heads/b"));
            let gives_up = scope.spawn(|| prepare(&hasty, "refs/heads/never"));
            let said = gives_up.join().unwrap().unwrap_err().to_string();
            assert!(said.contains("held by this process itself") && !said.contains("remove the file"), "{said}");
            assert!(!waits.is_finished(), "another thread waits for the first");
            first.commit().unwrap();
            waits.join().unwrap().unwrap();
        });
        prepare(&other, "refs/heads/c").unwrap();
        let mut given_up = store.transaction();
        given_up.create("refs/heads/never", id);
        given_up.prepare().unwrap().abort().unwrap();
        drop({
            let mut dropped = store.transaction();
            dropped.create("refs/heads/never", id);
            dropped.prepare().unwrap()
        });
        prepare(&store, "refs/heads/d").unwrap();
        let all = ["refs/heads/a", "refs/heads/b", "refs/heads/c", "refs/heads/d"];
        assert_eq!(names(&store, "refs/heads/"), all);
    }
}

/// A hook within the program that tries to commit another transaction in each state.
struct Follows(PathBuf, ObjectId);

impl HookSource for Follows {
    fn find(&self) -> refdb::Result<Option<Box<dyn Hook>>> {
        Ok(Some(Box::new(Follows(self.0.clone(), self.1))))
    }
}

impl Hook for Follows {
    fn run(&mut self, state: HookState, _lines: &[u8]) -> refdb::Result<bool> {
        let store = Store::builder(&self.0).config("reftable.lockTimeout=-1").open()?;
        let mut tx = store.transaction();
        tx.create(format!("refs/heads/{}", state.as_str()), self.1);
        match (state, tx.commit()) {
            (HookState::Prepared, Err(Error::Misuse(Misuse::OwnLock { .. }))) => Ok(true),
            (HookState::Preparing | HookState::Committed | HookState::Aborted, Ok(_)) => Ok(true),
            (state, done) => panic!("{state:?}: {done:?}"),
        }
    }
}

#[test]
fn a_hook_may_change_a_stack_that_is_not_locked_any_more() {
    for commits in [true, false] {
        let repo = Repo::bare(RefFormat::Reftable, HashKind::Sha1);
        let id = repo.commit();
        let store = Store::open(repo.git_dir()).unwrap();
        let hooks = Follows(repo.git_dir().to_owned(), id);
        let context = Context { hooks: &hooks, ..store.context() };
        let mut tx = Transaction::new(context, TransactionOptions::default());
        tx.create("refs/heads/first", id);
        let prepared = tx.prepare().unwrap();
        let all: &[&str] = if commits {
            prepared.commit().unwrap();
            &["refs/heads/committed", "refs/heads/first", "refs/heads/preparing"]
        } else {
            prepared.abort().unwrap();
            &["refs/heads/aborted", "refs/heads/preparing"]
        };
        assert_eq!(names(&store, "refs/heads/"), all);
    }
}

#[test]
fn nothing_is_locked_any_more_when_the_hook_is_told_that_it_prevented_the_commit() {
    for format in FORMATS {
        let repo = Repo::bare(format, HashKind::Sha1);
        let id = repo.commit();
        let (hook, seen) = (repo.git_dir().join("hooks/reference-transaction"), repo.scratch().join("seen"));
        fs::create_dir_all(hook.parent().unwrap()).unwrap();
        let script =
            "#!/bin/sh\ncat >/dev/null\necho $1 $(find . -name '*.lock' | wc -l) >>../seen\n[ $1 != prepared ]\n";
        fs::write(&hook, script).unwrap();
        fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
        let store = Store::open(repo.git_dir()).unwrap();
        let mut tx = store.transaction();
        tx.create("refs/heads/a", id);
        tx.commit().unwrap_err();
        let log = refdb::RefName::new("refs/heads/b").unwrap();
        store.append_log(&log, id, id, "why".into()).unwrap_err();
        let told = fs::read_to_string(&seen).unwrap();
        assert_eq!(told, "preparing 0\nprepared 1\naborted 0\n".repeat(2), "{format:?}");
    }
}

/// Returns the path and the content of some files outside `refs/`, if they exist.
fn other_files(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let ours = ["config", "description", "hooks/update", "info/grafts", "packed-refs", "shallow", "foo/bar"];
    let read = |name: &str| fs::read(folder.join(name)).ok().map(|content| (name.into(), content));
    ours.iter().filter_map(|name| read(name)).collect()
}

/// Git replaces the folders by files, after which the repository is none.
#[test]
fn a_ref_replaces_no_folder_of_a_repository_though_it_contains_no_file() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    fs::create_dir(repo.git_dir().join("logs")).unwrap();
    let store = Store::open(repo.git_dir()).unwrap();
    for name in ["logs", "objects", "refs"] {
        let mut tx = store.transaction();
        tx.update(name, RefName::new("refs/heads/main").unwrap(), Precondition::Any);
        let said = tx.commit().unwrap_err().to_string();
        assert!(said.contains("there is a non-empty directory"), "{said}");
        assert!(repo.git_dir().join(name).is_dir(), "{name}");
    }
}

#[test]
fn a_file_of_git_was_made_or_replaced_by_a_ref_of_its_name() {
    for format in FORMATS {
        let repo = Repo::bare(format, HashKind::Sha1);
        let id = repo.commit();
        let folder = repo.git_dir();
        fs::create_dir_all(folder.join("foo")).unwrap();
        fs::create_dir_all(folder.join("hooks")).unwrap();
        fs::write(folder.join("hooks/update"), "#!/bin/sh\n").unwrap();
        fs::write(folder.join("foo/bar"), "of another program\n").unwrap();
        // This content looks like a loose ref.
        fs::write(folder.join("shallow"), format!("{id}\n")).unwrap();
        let before = other_files(folder);
        let store = Store::open(folder).unwrap();
        let tried = [
            ["config", "packed-refs", "shallow", "info/grafts", "hooks/update", "COMMIT_EDITMSG", "logs/HEAD"]
                .as_slice(),
            &["packed-refs.refdb", "packed-refs.refdb-fold", "packed-refs.new"],
        ]
        .concat();
        for mends in [false, true] {
            let begin = || {
                let mut tx = store.transaction();
                tx.options(TransactionOptions::new().allow_broken(mends));
                tx
            };
            for name in tried.iter().copied() {
                let mut creates = begin();
                creates.create(name, id);
                let made = creates.commit().unwrap_err();
                assert!(matches!(made, Error::Misuse(Misuse::FileOfGit(_))), "{name}: {made}");
                let mut updates = begin();
                updates.update(name, id, Precondition::Any);
                assert!(updates.commit().is_err(), "{name}");
                let mut deletes = begin();
                deletes.delete(name, Precondition::Any);
                assert!(deletes.commit().is_err(), "{name}");
                let link = format!("refs/heads/to-{}", name.to_lowercase().replace('/', "-"));
                repo.git(["symbolic-ref", link.as_str(), name]);
                let mut through = begin();
                through.update(&link, id, Precondition::Any);
                assert!(through.commit().is_err(), "{name}");
            }
            if format == RefFormat::Files {
                let mut tx = begin();
                tx.update("foo/bar", id, Precondition::Any);
                assert!(tx.commit().is_err(), "the file need not be a ref that is broken");
            }
        }
        assert_eq!(other_files(folder), before, "{format:?}");
        repo.git(["for-each-ref"]);
    }
}

#[test]
fn a_name_that_reads_do_not_answer_was_written() {
    for format in FORMATS {
        let repo = Repo::bare(format, HashKind::Sha1);
        let id = repo.commit();
        repo.git(["symbolic-ref", "refs/heads/link", "ref/heads/new"]);
        let store = Store::open(repo.git_dir()).unwrap();
        let begin = || {
            let mut tx = store.transaction();
            tx.options(TransactionOptions::new().safe_names(true));
            tx
        };
        let mut outside = begin();
        outside.create("ref/heads/new", id);
        assert!(matches!(outside.commit(), Err(Error::Misuse(Misuse::BadName(_)))));
        let target = Target::Symbolic(refdb::RefName::new("ref/heads/new").unwrap());
        let mut leads_outside = begin();
        leads_outside.create("refs/heads/x", target);
        assert!(matches!(leads_outside.commit(), Err(Error::Misuse(Misuse::BadName(_)))));
        let mut through = begin();
        through.update("refs/heads/link", id, Precondition::Any);
        assert!(
            matches!(through.commit().unwrap_err(), Error::Rejected(rejection) if matches!(rejection.reason, RejectionReason::BadTarget { .. }))
        );
        let mut good = begin();
        good.create("ORIG_HEAD", id).create("refs/heads/new", id);
        good.commit().unwrap();
    }
}

#[test]
fn a_ref_below_1500_folders_is_in_the_way_though_few_files_can_be_open() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let id = repo.commit();
    let deep = format!("refs/heads/top/{}ref", "a/".repeat(1500));
    // A thread of a server has a small stack, and a process has 1,024 descriptors as a rule.
    let small_stack = std::thread::Builder::new().stack_size(512 << 10);
    let created = small_stack.spawn(move || {
        let store = Store::open(repo.git_dir()).unwrap();
        let create = |name: &str| {
            let mut tx = store.transaction();
            tx.create(name, id);
            tx.commit()
        };
        create(&deep).unwrap();
        let refused = create("refs/heads/top").unwrap_err();
        assert_eq!(names(&store, "refs/heads/top/"), [deep.as_str()]);
        store.optimize(&OptimizeOptions::default()).unwrap();
        let mut tx = store.transaction();
        tx.delete(&*deep, was(id));
        tx.commit().unwrap();
        create("refs/heads/top").unwrap();
        refused
    });
    let Error::Rejected(rejection) = created.unwrap().join().unwrap() else { panic!("another error") };
    assert!(matches!(rejection.reason, RejectionReason::Conflict { prevents_lock: true, .. }), "{rejection}");
}

#[test]
fn tables_are_verified_to_their_end_though_they_are_compacted_meanwhile() {
    let repo = Repo::bare(RefFormat::Reftable, HashKind::Sha1);
    let id = repo.commit();
    // The first table is so much larger than the second that git leaves them apart.
    let many: Vec<String> = (0..500).map(|at| format!("refs/heads/{at}")).collect();
    repo.create_refs(many.iter().map(|name| (name.as_str(), id)));
    repo.git(["update-ref", "refs/heads/last", &id.to_string()]);
    let store = Store::open(repo.git_dir()).unwrap();
    let (mut tables, mut others) = (0, Vec::new());
    let verified = store.verify(true, &mut |what| match what {
        Verified::Looking(Looking::Table(_)) => {
            tables += 1;
            store.optimize(&OptimizeOptions::default()).unwrap();
        }
        Verified::Worktree | Verified::Looking(_) => {}
        other => others.push(other),
    });
    assert!(verified.is_ok() && others.is_empty(), "{verified:?}, {others:?}");
    assert!(tables >= 2, "{tables}");
    assert_eq!(fs::read_to_string(repo.git_dir().join("reftable/tables.list")).unwrap().lines().count(), 1);
}

#[test]
fn any_number_of_folders_in_the_way_is_no_reason_to_refuse_the_other_edits() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let id = repo.commit();
    let blocked: Vec<String> = (0..150).map(|at| format!("refs/heads/{at}")).collect();
    for name in &blocked {
        fs::create_dir_all(repo.git_dir().join(name)).unwrap();
        fs::write(repo.git_dir().join(name).join(".lock"), "").unwrap();
    }
    // Beside so large a packed-refs the new refs become loose files, so that the folders are in the way.
    let packed: String = (0..60_000).map(|at| format!("{id} refs/tags/{at:05}\n")).collect();
    fs::write(repo.git_dir().join("packed-refs"), format!("# pack-refs with: peeled fully-peeled sorted \n{packed}"))
        .unwrap();
    let store = Store::open(repo.git_dir()).unwrap();
    let mut transaction = store.transaction();
    transaction.options(TransactionOptions::new().mode(Mode::PerEdit));
    for name in &blocked {
        transaction.create(name, id);
    }
    transaction.create("refs/heads/free", id);
    let committed = transaction.commit().unwrap();
    assert_eq!(committed.rejected.len(), blocked.len());
    assert_eq!(store.id_of("refs/heads/free").unwrap(), Some(id));
}

/// Previously, the list gave the name of the ref itself as that of its target.
#[test]
fn a_ref_that_leads_to_no_possible_name_is_listed_with_that_name() {
    let repo = Repo::bare(RefFormat::Reftable, HashKind::Sha1);
    // No program would write such a ref.
    let options = StackOptions::new(reftable::WriteOptions::new(repo.hash()));
    let stack = Stack::open(Fs::real(), &repo.git_dir().join("reftable"), options).unwrap();
    let mut addition = stack.lock(LockTimeout::None).unwrap();
    let update_index = addition.next_update_index();
    let (name, value) = ("refs/heads/link".into(), reftable::RefValue::Symbolic("../x".into()));
    let link = reftable::RefRecord { name, update_index, value };
    addition.add_table::<StackError>(update_index..=update_index, 0, |writer| writer.add_ref(&link)).unwrap();
    drop(addition.commit().unwrap());
    let store = Store::open(repo.git_dir()).unwrap();
    let listed = store.refs("refs/heads/").unwrap().next().unwrap().unwrap_err();
    for error in [listed, store.get("refs/heads/link".into()).unwrap_err()] {
        let Error::BadTarget { name, target } = error else { panic!("{error}") };
        assert_eq!([name, target], ["refs/heads/link", "../x"]);
    }
}
