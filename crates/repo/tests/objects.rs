//! Where objects are looked for, and which exist without being stored: as real git.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on shall panic")]

mod place;

use place::Place;
use refdb_repo::{ObjectCheck as _, ObjectClass, Objects, Repository, types::ObjectId};
use refdb_testkit::Git;
use refdb_vfs::Fs;
use std::{fs, os::unix::fs::symlink};

#[test]
fn object_folders_of_the_environment_are_searched_as_by_git() {
    let place = Place::new();
    fs::create_dir(place.path("co:lon")).unwrap();
    place.git("co:lon", &["init", "-q", "r"]);
    fs::write(place.path("content"), "only there\n").unwrap();
    let id = place.git("co:lon/r", &["hash-object", "-w", "../../content"]);
    let long = place.path("co:lon/r/.git/objects").display().to_string();
    place.git("", &["init", "-q", "between"]);
    fs::write(place.path("between/.git/objects/info/alternates"), format!("{long}\n")).unwrap();
    symlink(place.path("co:lon/r"), place.path("plain")).unwrap();
    let plain = place.path("plain/.git/objects").display().to_string();
    let mut found = 0;
    for list in [
        String::new(),
        long.clone(),
        plain.clone(),
        format!("\"{long}\""),
        format!("/gone:{plain}/"),
        format!("\"{}\"", long.replace('/', "\\057")),
        format!("\"{long}"),
        format!("#:{plain}:"),
        format!("# {plain}"),
        format!("\"/gone\"x{plain}"),
        place.path("between/.git/objects").display().to_string(),
        "../plain/.git/objects".into(),
        "../../plain/.git/objects".into(),
        "../../../plain/.git/objects".into(),
    ] {
        for dir in ["main", "main/sub", "main/.git/refs", "linked", "bare.git"] {
            for git_dir in [None, Some(place.path("main/.git").display().to_string())] {
                let mut variables = vec![("GIT_ALTERNATE_OBJECT_DIRECTORIES", &*list)];
                variables.extend(git_dir.as_deref().map(|git_dir| ("GIT_DIR", git_dir)));
                let mut git = Git::find().command(&place.path(dir));
                git.args(["cat-file", "-e", id.trim()]).envs(variables.iter().copied());
                let environment = place.environment(dir, &variables);
                let repository = Repository::discover(&Fs::real(), &environment).unwrap();
                let objects = Objects::of(&repository, &environment);
                let id = ObjectId::from_hex(repository.hash(), id.trim().as_bytes()).unwrap();
                let is_there = objects.exists(&id).unwrap();
                assert_eq!(is_there, git.output().unwrap().status.success(), "in {dir} with {variables:?}");
                found += usize::from(is_there);
                assert_eq!(objects.kind(&id).unwrap().is_some(), is_there);
                assert_eq!(objects.classify(&id).unwrap() != ObjectClass::Missing, is_there);
                assert_eq!(objects.with_prefix(&id.to_string()[..12]).unwrap().len(), usize::from(is_there));
                assert_eq!(objects.ids().unwrap().contains(&id), is_there);
                assert_eq!(objects.content(&id, &mut Vec::new()).unwrap().is_some(), is_there);
                assert_eq!(objects.abbreviate(&id, None).unwrap(), 7);
            }
        }
    }
    assert!(found > 60, "{found}");
}

#[test]
fn the_empty_tree_exists_without_being_stored_as_in_git() {
    let place = Place::new();
    for dir in ["tables", "long"] {
        let id = place.git(dir, &["hash-object", "-t", "tree", "/dev/null"]);
        let environment = place.environment(dir, &[]);
        let repository = Repository::discover(&Fs::real(), &environment).unwrap();
        let objects = Objects::of(&repository, &environment);
        let id = ObjectId::from_hex(repository.hash(), id.trim().as_bytes()).unwrap();
        assert_eq!(place.git(dir, &["cat-file", "-t", &id.to_string()]), "tree\n");
        assert!(objects.exists(&id).unwrap());
        assert_eq!(objects.classify(&id).unwrap(), ObjectClass::Other);
        assert_eq!(objects.peel(&id).unwrap(), Some(id));
        let mut data = b"x".to_vec();
        assert_eq!(objects.content(&id, &mut data).unwrap().map(|kind| kind.name()), Some("tree"));
        assert_eq!((&*data, objects.header(&id).unwrap().unwrap().size_bytes), (&b""[..], 0));
        let by_prefix = Git::find().command(&place.path(dir)).args(["cat-file", "-t", &id.to_string()[..12]]).output();
        assert!(!by_prefix.unwrap().status.success() && objects.with_prefix(&id.to_string()[..12]).unwrap().is_empty());
    }
}

#[test]
fn a_commit_is_taken_for_one_and_has_the_parents_as_in_git() {
    let place = Place::new();
    let tree = place.git("main", &["write-tree"]);
    let hash = |content: &str| {
        fs::write(place.path("content"), content).unwrap();
        let id = place.git("main", &["hash-object", "-t", "commit", "-w", "--literally", "../content"]);
        id.trim().to_owned()
    };
    let begin = format!("tree {}\n", tree.trim());
    let parent = format!("parent {}", hash(&format!("{begin}\nthe parent")));
    let missing = format!("parent {}", "1".repeat(40));
    let repository = Repository::discover(&Fs::real(), &place.environment("main", &[])).unwrap();
    let objects = Objects::of(&repository, &place.environment("main", &[]));
    let mut taken = [0, 0];
    for end in ["", "\n", "\n\n", "x", "xx", "\nx", "\nparent"] {
        for parents in ["", &parent, &missing, &format!("{parent}\n{parent}"), &format!("{parent}\n{missing}")] {
            let content = format!("{begin}{parents}{end}");
            let id = hash(&content);
            let mut git = Git::find().command(&place.path("main"));
            let is_commit = git.args(["update-ref", "refs/tags/t", &id]).output().unwrap().status.success();
            let commit = objects.commit(&ObjectId::from_hex(repository.hash(), id.as_bytes()).unwrap()).unwrap();
            assert_eq!(commit.is_some(), is_commit, "{content:?}");
            taken[usize::from(is_commit)] += 1;
            if let Some(commit) = commit {
                let shown = place.git("main", &["log", "-1", "--no-walk", "--format=%P", &id]);
                let parents: Vec<_> = commit.parents.iter().map(ToString::to_string).collect();
                assert_eq!(parents.join(" "), shown.trim(), "{content:?}");
            }
        }
    }
    assert!(taken[0] > 5 && taken[1] > 10, "{taken:?} were refused and taken");
}

#[test]
fn a_missing_id_is_abbreviated_so_that_it_names_no_other_object() {
    let place = Place::new();
    fs::write(place.path("content"), "x\n").unwrap();
    let there = place.git("main", &["hash-object", "-w", "../content"]);
    let mut missing = there.trim().to_owned();
    let last = missing.pop().unwrap();
    missing.push(if last == '0' { '1' } else { '0' });
    fs::write(place.path("main/.git/refs/heads/missing"), format!("{missing}\n")).unwrap();
    let short = place.git("main", &["for-each-ref", "--format=%(objectname:short)", "refs/heads/missing"]);
    let repository = Repository::discover(&Fs::real(), &place.environment("main", &[])).unwrap();
    let objects = Objects::of(&repository, &place.environment("main", &[]));
    let id = ObjectId::from_hex(repository.hash(), missing.as_bytes()).unwrap();
    assert_eq!(objects.abbreviate(&id, None).unwrap(), short.trim().len());
}
