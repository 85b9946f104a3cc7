//! The behaviour of this crate in what cannot be compared with gix-ref's file store, such as locks, hooks' files and
//! the limits of reftables, or differs from it on purpose.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed, which is what it should do")]
#![allow(dead_code, unreachable_pub, reason = "the example is a program of its own")]

use gix_ref::{
    Target,
    transaction::{Change, LogChange, PreviousValue, RefEdit, RefLog},
};
use gix_refdb::{Error, ReferenceExt, Store};
use refdb_testkit::{RefFormat, Repo, run_with_fault};

#[path = "../examples/first_steps.rs"]
mod first_steps;
#[path = "../examples/summary.rs"]
mod summary;

fn each(test: impl Fn(&Repo, &Store)) {
    for format in RefFormat::ALL {
        let repo = Repo::with_worktree(format, refdb::HashKind::Sha1);
        repo.config("user.name", "U");
        repo.config("user.email", "u@example.com");
        let store = Store::at(repo.git_dir()).unwrap();
        test(&repo, &store);
    }
}

fn object(id: refdb::ObjectId) -> gix_hash::ObjectId {
    gix_hash::ObjectId::from_bytes_or_panic(id.as_bytes())
}

fn update(name: &str, new: impl Into<Target>) -> RefEdit {
    RefEdit::update(name.try_into().unwrap(), new, PreviousValue::Any, "why")
}

#[test]
fn the_first_steps_tag_head_and_list_all_refs() {
    each(|repo, _| {
        let id = repo.commit();
        repo.create_refs([("refs/heads/main", id)]);
        let lines = first_steps::run(repo.git_dir(), "v1").unwrap();
        assert_eq!(lines, [format!("{id} main"), format!("{id} v1")]);
        assert_eq!(
            first_steps::run(repo.git_dir(), "v1").unwrap(),
            lines,
            "as in gix-ref, a ref with that value may be there"
        );
    });
}

#[test]
fn a_prepared_transaction_locks_others_out_and_leaves_no_trace_when_dropped() {
    each(|repo, store| {
        repo.config("core.filesRefLockTimeout", "0");
        repo.config("reftable.lockTimeout", "0");
        let (id, other) = (object(repo.commit()), Store::at(repo.git_dir()).unwrap());
        let transaction = store.transaction(None).unwrap();
        let prepared = transaction.prepare([update("refs/heads/a", id)]).unwrap();
        assert_eq!(prepared.edits().len(), 1);
        assert!(other.edit_references([update("refs/heads/a", id)], None).is_err());
        drop(prepared);
        assert!(store.try_find("refs/heads/a").unwrap().is_none());
        other.edit_references([update("refs/heads/a", id)], None).unwrap();
    });
}

#[test]
fn configuration_names_the_committer_and_a_given_one_outranks_it() {
    each(|repo, store| {
        let ids: Vec<_> = repo.commits(2).into_iter().map(object).collect();
        store.edit_references([update("refs/heads/a", ids[0])], None).unwrap();
        let time = "1700000000 -0330";
        let given = gix_actor::SignatureRef { name: "G".into(), email: "g@example.com".into(), time };
        store.edit_references([update("refs/heads/a", ids[1])], given).unwrap();
        let name = "refs/heads/a".try_into().unwrap();
        let log = store.reflog_rev(name).unwrap().unwrap();
        assert_eq!([&log[0].signature.name, &log[1].signature.name], ["G", "U"]);
        assert_eq!((log[0].previous_oid, log[0].new_oid), (ids[0], ids[1]));
        assert_eq!((log[0].signature.time.to_string().as_str(), log[0].message.to_string()), (time, "why".into()));
        assert!(store.find(name).unwrap().log_exists(store).unwrap());
        assert!(repo.reflog("refs/heads/a")[1].to_string().contains("G <g@example.com> 1700000000 -0330\twhy"));
    });
}

#[test]
fn an_object_is_not_what_a_symbolic_ref_holds() {
    each(|repo, store| {
        let ids: Vec<_> = repo.commits(2).into_iter().map(object).collect();
        store.edit_references([update("refs/heads/main", ids[0])], None).unwrap();
        let held = PreviousValue::MustExistAndMatch(Target::Object(ids[0]));
        let detach = RefEdit::update("HEAD".try_into().unwrap(), ids[1], held, "why");
        let error = store.edit_references([detach.clone()], None).unwrap_err();
        assert!(matches!(error, Error::OutOfDate(ref found) if found.actual.try_name().is_some()), "{error}");
        assert_eq!(store.find("HEAD").unwrap().target.try_name().unwrap(), "refs/heads/main");
        let made = store.edit_references([detach.with_deref(true)], None).unwrap();
        assert_eq!(made.len(), 2, "HEAD, and the branch that it leads to");
        assert_eq!(store.find("main").unwrap().target, Target::Object(ids[1]));
    });
}

#[test]
fn what_git_refuses_is_refused() {
    each(|repo, store| {
        let id = object(repo.commit());
        store.edit_references([update("refs/heads/a", id)], None).unwrap();
        let missing = gix_hash::ObjectId::from_hex(b"1234567890123456789012345678901234567890").unwrap();
        for edit in [update("refs/heads/a/b", id), update("refs/heads/x", missing)] {
            let error = store.edit_references([edit], None).unwrap_err();
            assert!(matches!(error, Error::Refdb(refdb::Error::Rejected(_))), "{error}");
        }
        let twice = [update("refs/heads/y", id), update("refs/heads/y", id)];
        assert!(store.edit_references(twice, None).is_err());
        assert!(store.try_find("y").unwrap().is_none());
    });
}

#[test]
fn a_name_too_long_for_the_index_of_a_reftable_is_refused_with_its_reason() {
    let repo = Repo::with_worktree(RefFormat::Reftable, refdb::HashKind::Sha1);
    let (id, store) = (object(repo.commit()), Store::at(repo.git_dir()).unwrap());
    let name = |len: usize| format!("refs/heads/{}", "n".repeat(len - "refs/heads/".len()));
    store.edit_references([update(&name(2008), id)], None).unwrap();
    let beside = update("refs/heads/beside", id);
    for new in [Target::from(id), Target::Symbolic("refs/heads/beside".try_into().unwrap())] {
        let refused = store.edit_references([update(&name(2009), new), beside.clone()], None).unwrap_err();
        let Error::Refdb(refdb::Error::Rejected(rejection)) = &refused else { panic!("{refused}") };
        assert_eq!(rejection.class(), refdb::RejectionClass::TooLarge);
        assert!(store.try_find("refs/heads/beside").unwrap().is_none(), "nothing is written");
    }
}

#[test]
fn edits_that_mean_nothing_to_refdb_are_refused_by_name() {
    each(|repo, store| {
        let id = object(repo.commit());
        let log = LogChange { mode: RefLog::Only, ..LogChange::default() };
        let name: gix_ref::FullName = "refs/heads/a".try_into().unwrap();
        let only = RefEdit::update_with_log(name.clone(), id, PreviousValue::Any, log);
        assert!(matches!(store.edit_references([only], None), Err(Error::LogOnly { name }) if name == "refs/heads/a"));
        let only = RefEdit::delete_with_log(name.clone(), PreviousValue::Any, RefLog::Only);
        assert!(matches!(store.edit_references([only], None), Err(Error::LogOnly { .. })));
        let nothing =
            RefEdit::new(name, Change::Delete { expected: PreviousValue::MustNotExist, log: RefLog::AndReference });
        assert!(matches!(store.edit_references([nothing], None), Err(Error::DeletesNothing { .. })));
    });
}

#[test]
fn lists_keep_to_their_prefix_and_go_on_behind_a_broken_ref() {
    each(|repo, store| {
        let id = repo.commit();
        let names = ["refs/heads/a", "refs/heads/b", "refs/heads/bc", "refs/remotes/o/x", "refs/tags/t"];
        repo.create_refs(names.map(|name| (name, id)));
        repo.git(["update-ref", "ORIG_HEAD", &id.to_string()]);
        let platform = store.iter().unwrap();
        let listed = |iter: gix_refdb::Iter<'_>| -> Vec<String> {
            iter.map(|found| found.map_or_else(|_| "broken".into(), |found| found.name.to_string())).collect()
        };
        assert_eq!(listed(platform.all().unwrap()), names);
        assert_eq!(listed(platform.prefixed("refs/heads/b".try_into().unwrap()).unwrap()), names[1..3]);
        assert_eq!(listed(platform.prefixed("refs/x/".try_into().unwrap()).unwrap()), [""; 0]);
        assert_eq!(listed(platform.local_branches().unwrap()), names[..3]);
        assert_eq!(listed(platform.remote_branches().unwrap()), names[3..4]);
        assert_eq!(listed(platform.tags().unwrap()), names[4..]);
        assert_eq!(listed(platform.pseudo().unwrap()), ["HEAD", "ORIG_HEAD"]);
        if repo.format() == RefFormat::Files {
            std::fs::write(repo.git_dir().join("refs/heads/b"), "no id\n").unwrap();
            assert_eq!(listed(store.iter().unwrap().local_branches().unwrap()), [names[0], "broken", names[2]]);
            assert!(store.try_find("refs/heads/b").is_err());
            store.edit_references([update("refs/heads/b", object(id))], None).expect("it may be replaced");
        }
    });
}

#[test]
fn a_chain_of_symbolic_refs_may_have_four_steps() {
    each(|repo, store| {
        let id = object(repo.commit());
        store.edit_references([update("refs/heads/0", id)], None).unwrap();
        for step in 1..=5 {
            let target: gix_ref::FullName = format!("refs/heads/{}", step - 1).try_into().unwrap();
            store.edit_references([update(&format!("refs/heads/{step}"), target)], None).unwrap();
        }
        let mut four = store.find("refs/heads/4").unwrap();
        assert_eq!(four.follow(store).unwrap().unwrap().name, "refs/heads/3");
        assert_eq!(four.follow_to_object(store).unwrap(), id);
        assert_eq!((four.name.to_string().as_str(), four.follow(store).is_none()), ("refs/heads/0", true));
        let error = store.find("refs/heads/5").unwrap().follow_to_object(store).unwrap_err();
        assert!(matches!(&error, Error::Depth { name } if name == "refs/heads/5"), "{error}");
        let through = ["refs/heads/5", "refs/heads/z"].map(|name| RefEdit { deref: true, ..update(name, id) });
        let error = store.edit_references(through, None).unwrap_err();
        assert!(matches!(&error, Error::Depth { name } if name == "refs/heads/5"), "{error}");
    });
}

#[test]
fn the_example_counts_what_git_counts() {
    each(|repo, _| {
        let commits = repo.commits(3);
        let tag = repo.tag_object(commits[2], "v2");
        repo.create_refs([
            ("refs/heads/main", commits[0]),
            ("refs/remotes/o/main", commits[0]),
            ("refs/remotes/o/x", commits[1]),
            ("refs/tags/v1", commits[1]),
            ("refs/tags/v2", tag),
        ]);
        repo.git(["symbolic-ref", "refs/remotes/o/HEAD", "refs/remotes/o/main"]);
        let version = Some("v2".into());
        let expected = summary::Summary { head: "main".into(), branches: 2, tags: 2, version };
        assert_eq!(summary::run(repo.git_dir()).unwrap(), expected);
    });
}

#[test]
fn an_edit_replaced_a_hook_as_if_it_were_a_broken_ref() {
    each(|repo, store| {
        let id = object(repo.commit());
        let kept = ["hooks/pre-receive", "info/attributes", "foo/bar"];
        for name in kept {
            let path = repo.git_dir().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "kept\n").unwrap();
        }
        for name in kept {
            let outcome = store.edit_references([update(name, id)], None);
            // With reftables, `foo/bar` is a ref that can exist beside the file of that name.
            assert!(outcome.is_err() || (repo.format() == RefFormat::Reftable && name == "foo/bar"), "{name}");
            assert_eq!(std::fs::read(repo.git_dir().join(name)).unwrap(), b"kept\n", "{name}");
        }
    });
}

#[test]
fn a_list_that_loses_its_file_begins_again_or_fails_clearly() {
    run_with_fault("lists_begin_again", "vfs-stale-early");
    run_with_fault("a_list_ends_early", "vfs-stale-late");
}

fn many(format: RefFormat) -> (Repo, Store) {
    let repo = Repo::bare(format, refdb::HashKind::Sha1);
    let id = repo.commit();
    repo.create_refs((0..20_000).map(|at| (format!("refs/heads/{at:06}"), id)));
    repo.git(["pack-refs", "--all"]);
    let store = Store::at(repo.git_dir()).unwrap();
    (repo, store)
}

#[test]
#[ignore = "run by another test, in an environment of its own"]
fn lists_begin_again() {
    let (_repo, store) = many(RefFormat::Reftable);
    let platform = store.iter().unwrap();
    // The loss of one list's file makes the other begin again too, so that both show one state.
    let (one, other) = (platform.all().unwrap(), platform.prefixed("refs/heads/0010".try_into().unwrap()).unwrap());
    assert_eq!(other.map(Result::unwrap).count(), 100);
    assert_eq!(one.map(Result::unwrap).count(), 20_000);
}

#[test]
#[ignore = "run by another test, in an environment of its own"]
fn a_list_ends_early() {
    let (_repo, store) = many(RefFormat::Reftable);
    let platform = store.iter().unwrap();
    let mut all = platform.all().unwrap();
    let shown = all.by_ref().take_while(Result::is_ok).count();
    assert!(shown > 5_000 && shown < 20_000, "{shown}");
    assert!(all.next().is_none(), "an error ends the list");
    assert_eq!(platform.all().unwrap().map(Result::unwrap).count(), 20_000, "it is lost once");
}
