//! What a user may not read or write is refused by name, and nothing changes. Root may do all of it, so
//! scripts/tests/test-as-user runs these tests as another user.

#![allow(clippy::unwrap_used, reason = "tests")]

mod files_common;

use bstr::ByteSlice;
use files_common::*;
use refdb::{Backend, Error, HashKind, Maintenance, ObjectId, Store, files::FilesBackend};
use refdb_testkit::{RefFormat, Repo};
use std::{fs, os::unix::fs::PermissionsExt, path::Path};

const MAIN: &str = "refs/heads/main";

/// Whether permissions bind this user.
fn is_bound(dir: &Path) -> bool {
    let probe = dir.join("probe");
    fs::write(&probe, "").unwrap();
    allow(&probe, 0o000);
    let bound = fs::read(&probe).is_err();
    fs::remove_file(probe).unwrap();
    bound
}

fn allow(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Creates a repository with a loose ref and a packed one. Returns `None` if permissions do not bind this user.
fn repo() -> Option<(Repo, Vec<ObjectId>)> {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let ids = repo.commits(2);
    repo.create_refs([("refs/heads/packed", ids[0])]);
    repo.git(["pack-refs", "--all"]);
    transact(&backend(&repo), &[create(MAIN, ids[0])]).unwrap();
    is_bound(repo.git_dir()).then_some((repo, ids))
}

fn value(repo: &Repo, name: &str) -> String {
    let snapshot = backend(repo).snapshot().unwrap();
    show_target(&snapshot.get(name.as_bytes().as_bstr()).unwrap().unwrap())
}

#[test]
fn a_folder_that_may_not_be_written_refuses_the_whole_update_and_names_itself() {
    let Some((repo, ids)) = repo() else { return };
    let heads = repo.git_dir().join("refs/heads");
    for change in [set(MAIN, ids[1]), delete(MAIN), create("refs/heads/new", ids[1])] {
        allow(&heads, 0o500);
        let error = transact(&backend(&repo), &[set("refs/tags/a", ids[1]), change]).unwrap_err();
        allow(&heads, 0o700);
        assert!(error.to_string().contains("refs/heads"), "{error}");
        let listed: Vec<String> = git_list(&repo).into_iter().filter(|line| line.starts_with("refs/")).collect();
        assert_eq!(listed, [format!("{MAIN} {}", ids[0]), format!("refs/heads/packed {}", ids[0])]);
        assert_eq!(leftovers(repo.git_dir()), Vec::<std::path::PathBuf>::new());
    }
}

#[test]
fn a_repository_that_may_not_be_written_refuses_packing_and_keeps_its_refs() {
    let Some((repo, ids)) = repo() else { return };
    allow(repo.git_dir(), 0o500);
    let error = backend(&repo).optimize(&pack_all()).unwrap_err();
    allow(repo.git_dir(), 0o700);
    assert!(error.to_string().contains("packed-refs"), "{error}");
    assert_eq!(value(&repo, MAIN), ids[0].to_string());
    assert_eq!(leftovers(repo.git_dir()), Vec::<std::path::PathBuf>::new());
}

#[test]
fn a_file_that_may_not_be_read_is_an_error_and_no_missing_ref() {
    let Some((repo, _)) = repo() else { return };
    for (file, name) in [(MAIN, MAIN), ("packed-refs", "refs/heads/packed")] {
        let path = repo.git_dir().join(file);
        allow(&path, 0o000);
        let answer = backend(&repo).snapshot().and_then(|snapshot| snapshot.get(name.as_bytes().as_bstr()));
        allow(&path, 0o600);
        let error = answer.unwrap_err();
        assert!(error.to_string().contains(file), "{error}");
    }
}

#[test]
fn a_folder_that_may_not_be_read_is_named_and_left_out_of_a_list() {
    let Some((repo, ids)) = repo() else { return };
    transact(&backend(&repo), &[create("refs/heads/closed/x", ids[0]), create("refs/tags/t", ids[1])]).unwrap();
    let closed = repo.git_dir().join("refs/heads/closed");
    let backend = backend(&repo);
    let (mut names, mut broken) = (Vec::new(), Vec::new());
    allow(&closed, 0o000);
    let snapshot = backend.snapshot().unwrap();
    let mut cursor = snapshot.cursor(false).unwrap();
    loop {
        match cursor.next() {
            Ok(None) => break,
            Ok(Some(view)) => names.push(view.name.to_string()),
            Err(Error::BrokenRef(folder)) => broken.push((folder.name.to_string(), folder.path.clone())),
            Err(error) => panic!("{error}"),
        }
    }
    let packed = backend.optimize(&pack_all());
    allow(&closed, 0o700);
    assert_eq!(names, ["refs/heads/main", "refs/heads/packed", "refs/tags/t"]);
    assert_eq!(broken, [("refs/heads/closed".to_owned(), closed.join(""))]);
    packed.unwrap();
    assert!(closed.join("x").is_file(), "what may not be read is not packed");
    assert_eq!(value(&repo, "refs/heads/closed/x"), ids[0].to_string());
}

#[test]
fn a_list_in_a_folder_that_may_not_be_read_names_the_folder_once_and_has_the_packed_refs() {
    let Some((repo, ids)) = repo() else { return };
    let packed: Vec<String> = (0..40).map(|at| format!("refs/heads/closed/packed-{at:02}")).collect();
    repo.create_refs(packed.iter().map(|name| (name, ids[0])));
    repo.git(["pack-refs", "--all"]);
    transact(&backend(&repo), &[create("refs/heads/closed/x", ids[0])]).unwrap();
    let closed = repo.git_dir().join("refs/heads/closed");
    let store = Store::open(repo.git_dir()).unwrap();
    for prefix in ["refs/heads/closed/", "refs/heads/closed/pack", "refs/heads/", "refs/"] {
        allow(&closed, 0o000);
        let listed: Vec<_> = store.refs(prefix).unwrap().collect();
        allow(&closed, 0o700);
        let (mut names, mut broken) = (Vec::new(), Vec::new());
        for found in listed {
            match found {
                Ok(found) => names.push(found.name.to_string()),
                Err(Error::BrokenRef(folder)) => broken.push(folder.name.to_string()),
                Err(error) => panic!("{error}"),
            }
        }
        names.retain(|name| name.starts_with("refs/heads/closed/"));
        assert_eq!((names, broken), (packed.clone(), vec!["refs/heads/closed".to_owned()]), "{prefix}");
    }
}

#[test]
fn a_folder_that_may_not_be_read_is_named_in_its_place_whichever_portion_of_a_list_it_ends() {
    let Some((repo, ids)) = repo() else { return };
    let closed = repo.git_dir().join("refs/heads/closed");
    transact(&backend(&repo), &[create("refs/heads/closed/x", ids[0])]).unwrap();
    let store = Store::open(repo.git_dir()).unwrap();
    // The first portion of a list has 16 refs.
    for at in 0..18 {
        transact(&backend(&repo), &[create(format!("refs/heads/closed-{at:02}"), ids[0])]).unwrap();
        allow(&closed, 0o000);
        let listed: Vec<_> = store.refs("refs/heads/closed").unwrap().collect();
        allow(&closed, 0o700);
        let names: Vec<String> = listed
            .into_iter()
            .map(|found| match found {
                Ok(found) => found.name.to_string(),
                Err(Error::BrokenRef(folder)) => format!("{}/", folder.name),
                Err(error) => panic!("{error}"),
            })
            .collect();
        let mut expected: Vec<String> = (0..=at).map(|at| format!("refs/heads/closed-{at:02}")).collect();
        expected.push("refs/heads/closed/".into());
        assert_eq!(names, expected);
    }
}

type Commit = fn(&FilesBackend, &[Wish]) -> refdb::Result<()>;

#[test]
fn refs_in_a_folder_that_may_be_searched_but_not_read_are_found_by_their_names() {
    let Some((repo, ids)) = repo() else { return };
    let names: Vec<String> = (0..40).map(|at| format!("refs/heads/searched/{at:02}")).collect();
    let all = |wish: &dyn Fn(&String) -> Wish| names.iter().map(wish).collect::<Vec<_>>();
    repo.create_refs(names.iter().map(|name| (name, ids[0])));
    let folder = repo.git_dir().join("refs/heads/searched");
    // The folder stays when it has no refs any more.
    fs::write(folder.join(".keep"), "").unwrap();
    for (commit, id) in [(transact as Commit, ids[1]), (transact_whole, ids[0])] {
        allow(&folder, 0o300);
        let changed = commit(&backend(&repo), &all(&|name| set(name, id)));
        allow(&folder, 0o700);
        changed.unwrap();
        assert_eq!(value(&repo, &names[39]), id.to_string());
    }
    // The refs have been packed, and some of them are loose again.
    names[..3].iter().for_each(|name| drop(repo.git(["update-ref", name, &ids[1].to_string()])));
    allow(&folder, 0o300);
    let deleted = transact_whole(&backend(&repo), &all(&|name| delete(name))[1..]);
    allow(&folder, 0o700);
    deleted.unwrap();
    assert_eq!(git_list(&repo).iter().filter(|line| line.contains("searched")).count(), 1);
}

/// Previously, reftables failed with an I/O error.
#[test]
fn a_pseudoref_whose_file_cannot_be_read_is_a_broken_ref_in_each_format() {
    for format in [RefFormat::Files, RefFormat::Reftable] {
        let repo = Repo::bare(format, HashKind::Sha1);
        let store = Store::open(repo.git_dir()).unwrap();
        for name in ["FETCH_HEAD", "MERGE_HEAD"] {
            let path = repo.git_dir().join(name);
            let get = || store.snapshot().unwrap().get(name.into());
            fs::create_dir(&path).unwrap();
            assert_eq!(get().unwrap(), None, "{format:?}: a folder is no ref");
            fs::remove_dir(&path).unwrap();
            std::os::unix::fs::symlink(&path, &path).unwrap();
            let error = get().unwrap_err();
            assert!(matches!(&error, Error::BrokenRef(broken) if broken.name == name), "{format:?}: {error:?}");
            fs::remove_file(&path).unwrap();
        }
    }
}
