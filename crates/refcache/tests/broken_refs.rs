//! Refs whose own files are broken, as a power cut, an editor or a backup leaves them below refs/, affect no other ref.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod common;

use bstr::BStr;
use common::{delete, direct, names, open, prefixed, set};
use refdb::{Precondition, Target};
use refdb_refcache::{Batch, ListOptions, View};
use refdb_testkit::{RefFormat, Repo};
use refdb_types::{HashKind, ObjectId};
use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
};

const EMPTY: &str = "refs/changes/77/77/1";
const BACKUP: &str = "refs/heads/x.bak";
const README: &str = "refs/README";

fn write(repo: &Repo, name: &str, content: &str) {
    let path = repo.git_dir().join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

/// Creates a repository with good refs and the three broken ones found in a Gerrit, two of which hide packed values.
fn broken() -> (Repo, Vec<ObjectId>) {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let ids = repo.commits(3);
    repo.create_refs([("refs/heads/main", ids[0]), (BACKUP, ids[1]), (EMPTY, ids[1]), ("refs/tags/t", ids[2])]);
    repo.git(["pack-refs", "--all"]);
    write(&repo, "refs/heads/loose", &format!("{}\n", ids[2]));
    write(&repo, EMPTY, "");
    write(&repo, BACKUP, "what an editor left behind, longer than an object id is\n");
    write(&repo, README, "Do not touch.\n");
    (repo, ids)
}

fn mending(mut batch: Batch) -> Batch {
    batch.options = batch.options.allow_broken(true);
    batch
}

fn broken_names(view: &View) -> Vec<String> {
    view.broken().unwrap().into_iter().map(|broken| broken.name.to_string()).collect()
}

#[test]
fn broken_files_are_left_out_of_every_list_and_hide_what_is_packed_beneath() {
    let (repo, ids) = broken();
    let view = open(&repo);
    let whole = ["refs/heads/loose", "refs/heads/main", "refs/tags/t"];
    assert_eq!(names(&view, &ListOptions::default()), whole);
    assert_eq!(names(&view, &prefixed(&["refs/heads/"])), whole[..2]);
    assert_eq!(names(&view, &prefixed(&["refs/changes/77/77/"])), [""; 0]);
    let left_out = |prefixes: &[&str]| -> Vec<String> {
        view.list(&prefixed(prefixes)).unwrap().left_out().map(ToString::to_string).collect()
    };
    assert_eq!(left_out(&["refs/"]), [README, EMPTY, BACKUP]);
    assert_eq!(left_out(&["refs/changes/"]), [EMPTY]);
    assert_eq!(names(&view, &prefixed(&["refs/heads/x"])), [""; 0]);
    let mut seen = Vec::new();
    view.list(&ListOptions::default())
        .unwrap()
        .each(&mut |row| {
            seen.push(row.name.to_string());
            std::ops::ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(seen, whole);
    assert!(view.has_refs().unwrap());
    assert_eq!(view.pointing_at(&ids[1]).unwrap(), [""; 0], "the packed value of a broken ref is not its value");
    assert_eq!(view.pointing_at(&ids[2]).unwrap(), ["refs/heads/loose", "refs/tags/t"]);
    // Git lists the same.
    assert_eq!(repo.git(["for-each-ref", "--format=%(refname)"]), whole.join("\n"));
}

#[test]
fn asking_for_a_broken_ref_is_an_error_that_names_its_file_and_others_are_answered() {
    let (repo, ids) = broken();
    let view = open(&repo);
    for name in [EMPTY, BACKUP, README] {
        for _ in 0..2 {
            let error = view.get(BStr::new(name)).unwrap_err();
            let broken = error.broken_ref().expect("it is about the ref");
            assert_eq!((broken.name.to_string(), &broken.path), (name.to_string(), &repo.git_dir().join(name)));
            assert!(error.to_string().contains(name) && error.to_string().contains("reference broken"), "{error}");
        }
    }
    assert_eq!(direct(&view, "refs/heads/main"), Some(ids[0]));
    assert!(view.get_many(&[BStr::new("refs/heads/main"), BStr::new(BACKUP)]).is_err());
    // A symbolic ref to a broken ref leads nowhere.
    repo.git(["symbolic-ref", "HEAD", BACKUP]);
    let head = view.resolve("HEAD".into()).unwrap();
    assert_eq!((head.name.to_string(), head.found), (BACKUP.to_string(), None));
    // A broken file is in the way of a ref below its name, and of a ref that is a folder of its name.
    assert_eq!(view.conflicting("refs/heads/x.bak/below".into()).unwrap(), [BACKUP]);
    assert_eq!(view.conflicting("refs/changes/77/77".into()).unwrap(), [EMPTY]);
}

#[test]
fn broken_refs_are_counted_told_once_and_forgotten_when_they_are_whole() {
    let (repo, ids) = broken();
    let view = open(&repo);
    assert_eq!(view.stats().broken, 0);
    let told = || view.take_unreported().into_iter().map(|broken| broken.name.to_string()).collect::<Vec<_>>();
    names(&view, &prefixed(&["refs/heads/"]));
    assert_eq!((view.stats().broken, view.unreported(), told()), (1, 1, vec![BACKUP.to_string()]));
    for _ in 0..3 {
        names(&view, &ListOptions::default());
    }
    assert_eq!(told(), [README, EMPTY], "each file once, however many lists meet it");
    assert_eq!((view.stats().broken, view.unreported()), (3, 0));
    // The view is opened again, and does not repeat what it has reported.
    view.flush().unwrap();
    names(&view, &ListOptions::default());
    assert_eq!(view.unreported(), 0);
    write(&repo, BACKUP, &format!("{}\n", ids[0]));
    fs::remove_file(repo.git_dir().join(README)).unwrap();
    assert_eq!(direct(&view, BACKUP), Some(ids[0]));
    assert_eq!(names(&view, &ListOptions::default()).len(), 4);
    assert_eq!((view.stats().broken, broken_names(&view)), (1, vec![EMPTY.to_string()]));
}

/// Regression: the files of a repository that has become one of reftables stayed in the way of new refs.
#[test]
fn broken_files_are_forgotten_when_the_refs_move_to_reftables() {
    let (repo, _) = broken();
    let view = open(&repo);
    names(&view, &ListOptions::default());
    assert_eq!(view.stats().broken, 3);
    for name in [EMPTY, BACKUP, README] {
        fs::remove_file(repo.git_dir().join(name)).unwrap();
    }
    repo.git(["refs", "migrate", "--ref-format=reftable"]);
    assert_eq!(view.conflicting("refs".into()).unwrap().len(), 5);
    assert_eq!((view.stats().broken, view.unreported(), broken_names(&view)), (0, 0, Vec::new()));
}

/// Regression: any error but that of a broken ref was taken for the news that the ref is whole.
#[test]
fn a_broken_ref_that_cannot_be_looked_at_stays_broken() {
    let (repo, _) = broken();
    let view = open(&repo);
    assert_eq!(broken_names(&view).len(), 3);
    let folder = repo.git_dir().join("refs/changes/77/77");
    fs::rename(&folder, repo.git_dir().join("aside")).unwrap();
    symlink("77", &folder).unwrap();
    let error = view.get(EMPTY.into()).unwrap_err();
    assert!(error.broken_ref().is_none(), "{error}");
    assert_eq!(view.stats().broken, 3);
}

#[test]
fn a_broken_ref_failed_questions_about_others() {
    let (repo, ids) = broken();
    let view = open(&repo);
    let [backup, main, none] = [BACKUP, "refs/heads/main", "refs/heads/none"].map(BStr::new);
    let resolved = view.resolve_many(&[backup, main, none]).unwrap();
    let targets: Vec<_> = resolved.into_iter().map(|one| one.found.map(|found| found.target)).collect();
    assert_eq!(targets, [None, Some(Target::Direct(ids[0])), None]);
    let error = view.resolve_many(&[backup, none]).unwrap_err();
    assert!(error.to_string().contains(BACKUP), "where there is no other ref, it is told");
}

#[test]
fn a_verification_names_broken_refs_and_is_right_about_all_others() {
    let (repo, _) = broken();
    let view = open(&repo);
    names(&view, &ListOptions::default());
    let report = view.verify().unwrap();
    assert_eq!(report.differences, []);
    let found: Vec<String> = report.broken.iter().map(|broken| broken.name.to_string()).collect();
    assert_eq!(found, [README, EMPTY, BACKUP]);
}

#[test]
fn a_broken_ref_can_be_deleted_and_written_again_where_that_is_asked_for() {
    for whole in [false, true] {
        let (repo, ids) = broken();
        let view = open(&repo);
        // As by git, the batch is refused whatever the edit expects.
        let refused = view.commit(&Batch::atomic(vec![set(BACKUP, ids[0], Precondition::Any)])).unwrap_err();
        assert!(refused.to_string().contains("reference broken"), "{refused}");
        let expected = set(BACKUP, ids[0], Precondition::MustMatch(Target::Direct(ids[1])));
        assert!(view.commit(&mending(Batch::atomic(vec![expected]))).is_err(), "nobody knows that it holds this");
        let mut batch = mending(Batch::atomic(vec![
            set(BACKUP, ids[0], Precondition::MustNotExist),
            set(EMPTY, ids[2], Precondition::Any),
            delete(README),
        ]));
        batch.options.atomic_visibility = whole;
        view.commit(&batch).unwrap();
        assert_eq!(
            (direct(&view, BACKUP), direct(&view, EMPTY), direct(&view, README)),
            (Some(ids[0]), Some(ids[2]), None)
        );
        assert!(!repo.git_dir().join(README).exists());
        assert_eq!((broken_names(&view).len(), names(&view, &ListOptions::default()).len()), (0, 5));
        // A broken ref that is deleted takes the packed ref beneath with it.
        write(&repo, BACKUP, "");
        view.commit(&mending(Batch::atomic(vec![delete(BACKUP), delete(EMPTY)]))).unwrap();
        assert_eq!(
            repo.git(["for-each-ref", "--format=%(refname)", "refs/heads", "refs/changes"]),
            "refs/heads/loose\nrefs/heads/main"
        );
        assert_eq!(view.verify().unwrap().differences, []);
    }
}

/// So many refs in one transaction are written to packed-refs, where a broken file would hide one of them.
#[test]
fn a_broken_ref_among_many_is_written_to_its_own_file() {
    let (repo, ids) = broken();
    let view = open(&repo);
    let mut edits: Vec<_> =
        (0..100).map(|at| set(&format!("refs/many/{at:03}"), ids[0], Precondition::MustNotExist)).collect();
    edits.push(set(BACKUP, ids[0], Precondition::MustNotExist));
    view.commit(&mending(Batch::atomic(edits))).unwrap();
    assert_eq!((direct(&view, BACKUP), direct(&view, "refs/many/007")), (Some(ids[0]), Some(ids[0])));
    assert_eq!(repo.git(["rev-parse", BACKUP]), ids[0].to_string());
}

/// Whether permissions bind this user. They do not bind root, so scripts/tests/test-as-user runs this as another user.
fn is_bound(repo: &Repo) -> bool {
    let probe = repo.git_dir().join("probe");
    fs::write(&probe, "").unwrap();
    fs::set_permissions(&probe, fs::Permissions::from_mode(0o000)).unwrap();
    let is_bound = fs::read(&probe).is_err();
    fs::remove_file(probe).unwrap();
    is_bound
}

#[test]
fn a_ref_that_may_not_be_read_is_broken_as_for_git_and_whole_again_when_it_may() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let ids = repo.commits(2);
    repo.create_refs([("refs/heads/main", ids[0]), ("refs/heads/secret", ids[1])]);
    if !is_bound(&repo) {
        return;
    }
    let secret = repo.git_dir().join("refs/heads/secret");
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o000)).unwrap();
    let view = open(&repo);
    for _ in 0..2 {
        assert_eq!(names(&view, &ListOptions::default()), ["refs/heads/main"]);
        assert_eq!(repo.git(["for-each-ref", "--format=%(refname)"]), "refs/heads/main");
        assert_eq!(view.stats().broken, 1);
    }
    let told = view.take_unreported();
    assert!(told.len() == 1 && told[0].to_string().contains("Permission denied"), "{told:?}");
    assert!(view.get("refs/heads/secret".into()).unwrap_err().to_string().contains("refs/heads/secret"));
    assert_eq!(direct(&view, "refs/heads/main"), Some(ids[0]));
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(names(&view, &ListOptions::default()), ["refs/heads/main", "refs/heads/secret"]);
    assert_eq!(view.stats().broken, 0);
}

#[test]
fn a_folder_that_may_not_be_read_takes_no_other_ref_along() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let ids = repo.commits(2);
    repo.create_refs([("refs/heads/closed/x", ids[1]), ("refs/heads/main", ids[0])]);
    if !is_bound(&repo) {
        return;
    }
    let closed = repo.git_dir().join("refs/heads/closed");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
    let view = open(&repo);
    for _ in 0..2 {
        assert_eq!(names(&view, &ListOptions::default()), ["refs/heads/main"]);
        assert_eq!(names(&view, &prefixed(&["refs/heads/closed/"])), [""; 0]);
        assert_eq!(repo.git(["for-each-ref", "--format=%(refname)"]), "refs/heads/main");
        assert_eq!(view.stats().broken, 1);
    }
    assert!(view.get("refs/heads/closed/x".into()).is_err(), "a ref in it is not taken for missing");
    let set_mode = |mode| fs::set_permissions(&closed, fs::Permissions::from_mode(mode)).unwrap();
    set_mode(0o700);
    // Previously, only a list that began above the folder noticed the repair.
    assert_eq!(names(&view, &prefixed(&["refs/heads/closed/x"])), ["refs/heads/closed/x"]);
    assert_eq!(view.stats().broken, 0);
    set_mode(0o000);
    assert_eq!(names(&view, &ListOptions::default()), ["refs/heads/main"]);
    assert_eq!(view.stats().broken, 1);
    set_mode(0o700);
    assert_eq!(names(&view, &ListOptions::default()), ["refs/heads/closed/x", "refs/heads/main"]);
    assert_eq!(view.stats().broken, 0);
}
