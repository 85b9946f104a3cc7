//! A migration does not read old files again that look the same as when they were copied. These tests check that every
//! change to them is found all the same.

use crate::{
    common::{assert_clean, migrate, scene, state},
    late::{Interloper, is_commit},
};
use refdb::{HashKind, Migrated, RefFormat};
use refdb_testkit::Repo;
use refdb_vfs::Fs;
use std::{fs, path::Path, sync::atomic::AtomicBool, time::Duration};

/// A repository with loose refs, packed refs and reflogs, all old enough for a `stat` to prove that they have not
/// changed.
fn settled() -> Repo {
    let repo = scene(RefFormat::Files, HashKind::Sha1);
    let ids = repo.commits(3);
    for (at, id) in ids.iter().enumerate() {
        repo.git(["update-ref", "-m", &format!("step {at}"), "refs/heads/topic", &id.to_string()]);
    }
    std::thread::sleep(Duration::from_millis(60));
    repo
}

/// Migrates a repository whose files `act` changes right before the new format takes effect. Checks that the refs are
/// then those of the changed files.
fn changed_meanwhile(act: impl Fn(&Path) + Send + Sync + 'static) -> Migrated {
    let repo = settled();
    let dir = repo.git_dir();
    let at = dir.to_owned();
    // A copy with the same changes, which is not migrated, shows the expected state.
    let twin = repo.scratch().join("twin");
    let copied = std::process::Command::new("cp").arg("-a").arg(dir).arg(&twin).status().unwrap();
    assert!(copied.success());
    act(&twin);
    let expected = state(&twin);
    fs::remove_dir_all(&twin).unwrap();
    let act = move || act(&at);
    let fs = Fs::with_hook(std::sync::Arc::new(Interloper { when: is_commit, act, is_done: AtomicBool::new(false) }));
    let migrated = migrate(&fs, dir, RefFormat::Reftable).unwrap();
    assert_clean(dir);
    assert!(migrated.conflicts.is_empty(), "{migrated:?}");
    let after = state(dir);
    assert_eq!(after.0, expected.0);
    assert_eq!(after.1, expected.1);
    migrated
}

fn names(migrated: &Migrated) -> Vec<String> {
    migrated.taken_over.iter().map(ToString::to_string).collect()
}

fn id_of(dir: &Path, name: &str) -> String {
    state(dir).0[name].clone()
}

#[test]
fn nothing_is_taken_over_where_nothing_changed() {
    assert_eq!(names(&changed_meanwhile(|_| {})), Vec::<String>::new());
}

#[test]
fn loose_refs_that_come_go_and_change_are_found_beside_a_packed_refs_that_stays() {
    let migrated = changed_meanwhile(|dir| {
        let id = id_of(dir, "refs/heads/loose");
        // Without the loose file, the packed value counts again.
        fs::remove_file(dir.join("refs/heads/main")).unwrap();
        fs::remove_file(dir.join("refs/heads/topic")).unwrap();
        // The last ref in order of name.
        fs::remove_file(dir.join("refs/worktree/own")).unwrap();
        fs::create_dir_all(dir.join("refs/heads/a")).unwrap();
        fs::write(dir.join("refs/heads/a/b"), format!("{id}\n")).unwrap();
        fs::write(dir.join("refs/heads/zz"), format!("{id}\n")).unwrap();
        fs::write(dir.join("refs/heads/dangling"), "ref: refs/heads/other\n").unwrap();
        fs::write(dir.join("ORIG_HEAD"), format!("{id}\n")).unwrap();
        // The same value, now in a loose file.
        fs::write(dir.join("refs/tags/v1"), format!("{}\n", id_of(dir, "refs/tags/v1"))).unwrap();
    });
    let changed = ["heads/a/b", "heads/dangling", "heads/main", "heads/topic", "heads/zz", "worktree/own"];
    let mut expected = vec!["ORIG_HEAD".to_owned()];
    expected.extend(changed.map(|name| format!("refs/{name}")));
    assert_eq!(names(&migrated), expected);
}

#[test]
fn a_packed_refs_that_was_replaced_or_edited_is_read_again() {
    for in_place in [false, true] {
        let migrated = changed_meanwhile(move |dir| {
            let path = dir.join("packed-refs");
            let text = fs::read_to_string(&path).unwrap();
            let (from, to) = (id_of(dir, "refs/heads/a/b"), id_of(dir, "refs/heads/loose"));
            // The file keeps its length.
            let text = text.replace(&format!("{from} refs/heads/a/b"), &format!("{to} refs/heads/a/b"));
            let new = if in_place { path.clone() } else { dir.join("packed-refs.new") };
            fs::write(&new, text).unwrap();
            fs::rename(&new, &path).unwrap();
        });
        assert_eq!(names(&migrated), ["refs/heads/a/b"], "in place: {in_place}");
    }
}

#[test]
fn reflogs_that_come_go_and_change_are_found_beside_those_that_stay() {
    changed_meanwhile(|dir| {
        let log = |name: &str| dir.join("logs").join(name);
        let topic = fs::read_to_string(log("refs/heads/topic")).unwrap();
        // The reflog keeps its length and its modification time.
        let other = topic.replacen("step 1", "STEP 1", 1);
        assert!(other != topic && other.len() == topic.len());
        let before = fs::metadata(log("refs/heads/topic")).unwrap();
        fs::write(log("refs/heads/topic"), other).unwrap();
        let file = fs::File::options().write(true).open(log("refs/heads/topic")).unwrap();
        file.set_modified(before.modified().unwrap()).unwrap();
        fs::remove_file(log("refs/heads/loose")).unwrap();
        fs::write(log("refs/heads/main"), topic.lines().next().unwrap().to_owned() + "\n").unwrap();
        fs::write(log("refs/heads/empty"), topic).unwrap();
    });
}
