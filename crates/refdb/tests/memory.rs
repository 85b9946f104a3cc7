//! Refs in memory, as the tests of users have them.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed, which is what it should do")]

use bstr::BStr;
use refdb::{
    Error, HashKind, LogJudge, LoggedChange, MigrateError, MigrateOptions, Misuse, ObjectId, PruneLogs, RefFormat,
    RefName, RejectionReason, Result, Store, backend::Peeled, memory::MemoryBackend, transaction::ObjectCheck, was,
};
use refdb_repo::{ObjectClass, ObjectError};
use std::{ops::ControlFlow, sync::Arc, thread, time::Duration};

fn id(byte: u8) -> ObjectId {
    ObjectId::from_bytes(HashKind::Sha1, &[byte; 20]).unwrap()
}

fn name(name: &str) -> RefName {
    RefName::new(name).unwrap()
}

fn set(store: &Store, name: &str, id: ObjectId, message: &str) {
    let mut tx = store.transaction();
    tx.update(name, id, refdb::Precondition::Any).message(message);
    tx.commit().unwrap();
}

/// Returns the messages of a reflog, newest first.
fn log(store: &Store, name: &str) -> Vec<String> {
    let mut messages = Vec::new();
    let snapshot = store.snapshot().unwrap();
    snapshot
        .log(name.into(), &mut |entry| {
            messages.push(entry.message.to_string());
            ControlFlow::Continue(())
        })
        .unwrap();
    messages
}

#[test]
fn stores_share_the_refs_of_one_backend_and_snapshots_stay_as_they_were() {
    let backend = MemoryBackend::new(HashKind::Sha1);
    let [one, other] = [(); 2].map(|()| Store::builder_in_memory(backend.clone()).open().unwrap());
    let before = other.snapshot().unwrap();
    set(&one, "HEAD", id(1), "first");
    assert_eq!(other.id_of("refs/heads/main").unwrap(), Some(id(1)));
    assert_eq!(before.get("refs/heads/main".into()).unwrap(), None);
    assert_eq!(other.find("refs/heads/none").unwrap(), None);
    assert_eq!(log(&other, "HEAD"), ["first"]);
    let separate = Store::in_memory();
    assert_eq!(separate.refs("").unwrap().count(), 0);
}

#[test]
fn a_thread_that_holds_the_lock_is_refused_and_another_waits_for_it() {
    let backend = MemoryBackend::new(HashKind::Sha1);
    let store = Store::builder_in_memory(backend.clone().lock_timeout(Duration::from_millis(50))).open().unwrap();
    let patient = Store::builder_in_memory(backend).open().unwrap();
    let create = |store: &Store, name: &str| {
        let mut tx = store.transaction();
        tx.create(name, id(1));
        tx.commit().map(drop)
    };
    let mut tx = store.transaction();
    tx.create("refs/heads/a", id(1));
    let prepared = tx.prepare().unwrap();
    assert!(matches!(create(&store, "refs/heads/b"), Err(Error::Misuse(Misuse::OwnLock { .. }))));
    thread::scope(|scope| {
        let refused = scope.spawn(|| create(&store, "refs/heads/b"));
        assert!(matches!(refused.join().unwrap(), Err(Error::StackLocked(_))));
        let waits = scope.spawn(|| create(&patient, "refs/heads/b"));
        thread::sleep(Duration::from_millis(20));
        prepared.commit().unwrap();
        waits.join().unwrap().unwrap();
    });
    assert_eq!(store.refs("refs/heads/").unwrap().count(), 2);
}

#[test]
fn why_an_edit_is_rejected_is_the_same_value_as_on_disk() {
    let store = Store::in_memory();
    set(&store, "refs/heads/a", id(1), "");
    let mut tx = store.transaction();
    tx.create("refs/heads/a/b", id(1));
    let Err(Error::Rejected(rejection)) = tx.commit() else { panic!("the names conflict") };
    assert!(matches!(rejection.reason, RejectionReason::Conflict { .. }), "{rejection}");
    let mut tx = store.transaction();
    tx.delete("refs/heads/a", was(id(2)));
    let Err(Error::Rejected(rejection)) = tx.commit() else { panic!("the value is another") };
    assert!(matches!(rejection.reason, RejectionReason::Mismatch { .. }), "{rejection}");
}

#[test]
fn a_bad_setting_that_only_writers_need_is_named_by_its_key() {
    let builder = Store::builder_in_memory(MemoryBackend::new(HashKind::Sha1));
    assert!(matches!(builder.config("reftable.lockTimeout=12x").open(), Err(Error::Config(_))));
    let repo = refdb_testkit::Repo::bare(refdb_testkit::RefFormat::Files, HashKind::Sha1);
    let store = Store::builder(repo.git_dir()).config("core.packedRefsTimeout=12x").open().unwrap();
    assert!(store.find("HEAD").unwrap().is_some());
    let mut tx = store.transaction();
    tx.create("refs/heads/a", repo.commit());
    let Err(Error::Misuse(Misuse::Setting(bad))) = tx.commit() else { panic!("the setting is bad") };
    assert_eq!(bad.key, "core.packedrefstimeout");
    assert_eq!(bad.value.as_deref().map(|value| value.as_slice()), Some(&b"12x"[..]));
}

#[test]
fn a_renamed_ref_takes_its_reflog_along() {
    let store = Store::in_memory();
    set(&store, "refs/heads/old", id(1), "one");
    let mut tx = store.transaction();
    tx.rename(&name("refs/heads/old"), &name("refs/heads/new"), id(1)).message("moved");
    tx.commit().unwrap();
    assert_eq!(log(&store, "refs/heads/new"), ["moved", "one"]);
    assert!(!store.snapshot().unwrap().has_log("refs/heads/old".into()).unwrap());
}

/// An object check that knows a single tag, which leads to object 1.
struct OneTag;

impl ObjectCheck for OneTag {
    fn classify(&self, asked: &ObjectId) -> std::result::Result<ObjectClass, ObjectError> {
        Ok(if *asked == id(9) { ObjectClass::Tag(Some(id(1))) } else { ObjectClass::Commit })
    }
}

#[test]
fn refs_are_found_by_their_objects_also_through_tags() {
    let backend = MemoryBackend::new(HashKind::Sha1);
    let store = Store::builder_in_memory(backend).objects(Arc::new(OneTag)).open().unwrap();
    set(&store, "refs/heads/a", id(1), "");
    set(&store, "refs/heads/b", id(2), "");
    set(&store, "refs/tags/t", id(9), "");
    let mut found = Vec::new();
    let snapshot = store.snapshot().unwrap();
    let mut note = |view: refdb::RefView<'_>| {
        found.push((view.name.to_string(), view.peeled));
        Ok(())
    };
    snapshot.pointing_at(&id(1), &mut note).unwrap();
    let expected = [("refs/heads/a", Peeled::NotTag), ("refs/tags/t", Peeled::To(id(1)))];
    assert_eq!(found, expected.map(|(name, peeled)| (name.to_owned(), peeled)));
}

/// Removes the entries with this message.
struct Remove(&'static str);

impl LogJudge for Remove {
    fn begin(&mut self, _: &BStr, _: &mut dyn ExactSizeIterator<Item = u64>) -> Result<()> {
        Ok(())
    }
    fn goes(&mut self, entry: &LoggedChange<'_>) -> Result<bool> {
        Ok(entry.message == self.0)
    }
    fn told(&mut self, _: &LoggedChange<'_>, _: bool) {}
    fn failed(&mut self, name: &RefName, error: Error) {
        panic!("{name}: {error}");
    }
}

#[test]
fn reflogs_are_pruned_and_dropped() {
    let store = Store::in_memory();
    for (byte, message) in [(1, "one"), (2, "two"), (3, "three")] {
        set(&store, "refs/heads/a", id(byte), message);
    }
    let names = [name("refs/heads/a")];
    let prune = |message, how| store.prune_logs(&names, how, &mut Remove(message)).unwrap();
    prune("two", PruneLogs::new().dry_run(true));
    assert_eq!(log(&store, "refs/heads/a"), ["three", "two", "one"]);
    prune("three", PruneLogs::new().update_ref(true));
    assert_eq!(log(&store, "refs/heads/a"), ["two", "one"]);
    assert_eq!(store.id_of("refs/heads/a").unwrap(), Some(id(2)));
    store.drop_logs(&names, &mut |name, error| panic!("{name}: {error}")).unwrap();
    assert_eq!(store.snapshot().unwrap().log_names().unwrap(), []);
    assert_eq!(store.id_of("refs/heads/a").unwrap(), Some(id(2)));
}

#[test]
fn what_is_about_files_finds_nothing_to_do() {
    let store = Store::in_memory();
    set(&store, "refs/heads/a", id(1), "");
    store.verify(true, &mut |verified| panic!("{verified:?}")).unwrap();
    let options = MigrateOptions::new(RefFormat::Files);
    let migrated = store.migrate(&options, &mut |_| {});
    assert!(matches!(migrated, Err(MigrateError::InMemory)));
    assert_eq!(store.strays().unwrap(), [""; 0]);
    assert!(!std::path::Path::new("HEAD").exists());
}
