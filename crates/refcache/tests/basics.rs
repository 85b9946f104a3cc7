//! The answers of a view, with both formats and with real git as the other writer.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use bstr::{BStr, BString};
use refdb::{Change, Edit, Precondition, RefName, Target};
use refdb_refcache::{Batch, Error, ListOptions, View, ViewSettings, Views, ViewsSettings};
use refdb_testkit::{RefFormat, Repo};
use refdb_types::{HashKind, ObjectId};
use std::sync::Arc;

fn open(repo: &Repo) -> Arc<View> {
    Views::new(&ViewsSettings::default()).open(repo.git_dir(), &ViewSettings::default()).unwrap()
}

fn direct(view: &View, name: &str) -> Option<ObjectId> {
    view.get(BStr::new(name)).unwrap().map(|found| found.target.id().unwrap())
}

fn names(view: &View, options: &ListOptions) -> Vec<String> {
    let mut listing = view.list(options).unwrap();
    let mut names = Vec::new();
    while let Some(row) = listing.next().unwrap() {
        names.push(row.name.to_string());
    }
    names
}

fn set(name: &str, id: ObjectId, expected: Precondition) -> Edit {
    Edit::new(RefName::new(name).unwrap(), Change::Set(Target::Direct(id)), expected)
}

fn each(test: impl Fn(&Repo)) {
    for format in RefFormat::ALL {
        test(&Repo::bare(format, HashKind::Sha1));
    }
}

#[test]
fn what_git_writes_is_seen_at_once_and_so_is_what_we_write() {
    each(|repo| {
        let ids = repo.commits(3);
        let view = open(repo);
        assert_eq!(direct(&view, "refs/heads/main"), None);
        assert!(!view.has_refs().unwrap());
        repo.git(["update-ref", "refs/heads/main", &ids[0].to_string()]);
        assert_eq!(direct(&view, "refs/heads/main"), Some(ids[0]));
        let edit = set("refs/heads/main", ids[1], Precondition::MustMatch(Target::Direct(ids[0])));
        view.commit(&Batch::atomic(vec![edit])).unwrap();
        assert_eq!(direct(&view, "refs/heads/main"), Some(ids[1]));
        assert_eq!(repo.git(["rev-parse", "refs/heads/main"]), ids[1].to_string());
        repo.git(["pack-refs", "--all"]);
        assert_eq!(direct(&view, "refs/heads/main"), Some(ids[1]));
        repo.git(["update-ref", "-d", "refs/heads/main"]);
        assert_eq!(direct(&view, "refs/heads/main"), None);
    });
}

#[test]
fn symbolic_refs_are_links_and_an_unborn_branch_is_told_from_a_missing_ref() {
    each(|repo| {
        let ids = repo.commits(1);
        let view = open(repo);
        let head = view.resolve("HEAD".into()).unwrap();
        assert_eq!((head.links.len(), head.name.to_string(), head.found), (1, "refs/heads/main".into(), None));
        repo.git(["update-ref", "HEAD", &ids[0].to_string()]);
        let head = view.resolve("HEAD".into()).unwrap();
        assert_eq!(head.found.unwrap().target, Target::Direct(ids[0]));
        let missing = view.resolve("refs/heads/none".into()).unwrap();
        assert!(missing.links.is_empty() && missing.found.is_none());
        repo.git(["symbolic-ref", "refs/heads/a", "refs/heads/b"]);
        repo.git(["symbolic-ref", "refs/heads/b", "refs/heads/a"]);
        assert_eq!(view.resolve("refs/heads/a".into()).unwrap().found, None);
    });
}

#[test]
fn listings_have_prefixes_exclusions_and_root_refs() {
    each(|repo| {
        let id = repo.commit().to_string();
        for name in ["refs/heads/a", "refs/heads/b", "refs/tags/t", "refs/changes/01/1/1", "refs/changes/01/1/meta"] {
            repo.git(["update-ref", name, &id]);
        }
        let view = open(repo);
        let list = |prefixes: &[&str], exclude: &[&str], root_refs| {
            let own = |names: &[&str]| names.iter().map(|name| BString::from(*name)).collect();
            names(&view, &ListOptions::new().prefixes(own(prefixes)).exclude(own(exclude)).root_refs(root_refs))
        };
        assert_eq!(list(&[], &["refs/changes/"], true), ["HEAD", "refs/heads/a", "refs/heads/b", "refs/tags/t"]);
        assert_eq!(list(&["refs/heads/"], &[], true), ["refs/heads/a", "refs/heads/b"]);
        assert_eq!(list(&["refs/tags/", "refs/heads/b"], &[], false), ["refs/heads/b", "refs/tags/t"]);
        assert_eq!(list(&["HEAD"], &[], true), ["HEAD"]);
        assert_eq!(list(&[], &[], false).len(), 5);
        let conflicting = view.conflicting("refs/changes/01/1/meta/x".into()).unwrap();
        assert_eq!(conflicting, ["refs/changes/01/1/meta"]);
        assert_eq!(view.conflicting("refs/changes/01".into()).unwrap().len(), 2);
        assert_eq!(view.verify().unwrap().differences, []);
    });
}

#[test]
fn tips_are_found_by_object_and_by_what_a_tag_leads_to() {
    each(|repo| {
        let id = repo.commit();
        let tag = repo.tag_object(id, "v1");
        repo.git(["update-ref", "refs/heads/main", &id.to_string()]);
        repo.git(["update-ref", "refs/tags/v1", &tag.to_string()]);
        repo.git(["pack-refs", "--all"]);
        let view = open(repo);
        assert_eq!(view.pointing_at(&id).unwrap(), ["refs/heads/main", "refs/tags/v1"]);
        assert_eq!(view.pointing_at(&tag).unwrap(), ["refs/tags/v1"]);
    });
}

#[test]
fn many_objects_are_asked_about_in_one_question() {
    each(|repo| {
        let ids = repo.commits(4);
        let tag = repo.tag_object(ids[0], "v1");
        repo.git(["update-ref", "refs/heads/packed", &ids[0].to_string()]);
        repo.git(["update-ref", "refs/tags/v1", &tag.to_string()]);
        repo.git(["update-ref", "refs/heads/moved", &ids[2].to_string()]);
        repo.git(["pack-refs", "--all"]);
        repo.git(["update-ref", "refs/heads/moved", &ids[1].to_string()]);
        repo.git(["update-ref", "refs/tags/late", &tag.to_string()]);
        let view = open(repo);
        let asked = [ids[3], tag, ids[0], ids[1], ids[0], ids[2]];
        let found = view.pointing_at_each(&asked).unwrap();
        assert_eq!(found[&ids[0]], ["refs/heads/packed", "refs/tags/late", "refs/tags/v1"]);
        assert_eq!(found[&tag], ["refs/tags/late", "refs/tags/v1"]);
        assert_eq!(found[&ids[1]], ["refs/heads/moved"]);
        assert!(found[&ids[2]].is_empty() && found[&ids[3]].is_empty(), "{found:?}");
        for id in asked {
            assert_eq!(view.pointing_at(&id).unwrap(), found[&id]);
        }
    });
}

#[test]
fn a_conversion_by_another_process_is_noticed_and_never_read_as_an_empty_repository() {
    each(|repo| {
        let ids = repo.commits(2);
        repo.git(["update-ref", "refs/heads/main", &ids[0].to_string()]);
        let view = open(repo);
        assert_eq!(direct(&view, "refs/heads/main"), Some(ids[0]));
        let other = match repo.format() {
            RefFormat::Files => "reftable",
            RefFormat::Reftable => "files",
        };
        repo.git(["refs", "migrate", &format!("--ref-format={other}")]);
        assert_eq!(direct(&view, "refs/heads/main"), Some(ids[0]));
        assert_eq!(names(&view, &ListOptions::default()), ["refs/heads/main"]);
        let edit = set("refs/heads/main", ids[1], Precondition::Any);
        view.commit(&Batch::atomic(vec![edit])).unwrap();
        assert_eq!(repo.git(["rev-parse", "refs/heads/main"]), ids[1].to_string());
        assert_eq!(view.stats().reopens, 1);
    });
}

#[test]
fn refs_by_object_are_those_of_the_repository_after_its_conversion() {
    each(|repo| {
        let id = repo.commit();
        repo.git(["update-ref", "refs/heads/main", &id.to_string()]);
        repo.git(["pack-refs", "--all"]);
        let view = open(repo);
        assert_eq!(view.pointing_at(&id).unwrap(), ["refs/heads/main"]);
        let other = match repo.format() {
            RefFormat::Files => "reftable",
            RefFormat::Reftable => "files",
        };
        repo.git(["refs", "migrate", &format!("--ref-format={other}")]);
        assert_eq!(
            view.pointing_at(&id).unwrap(),
            ["refs/heads/main"],
            "the first question since, from {:?}",
            repo.format()
        );
    });
}

#[test]
fn a_repository_that_is_removed_is_gone_and_not_empty_and_one_made_anew_is_read_anew() {
    each(|repo| {
        let id = repo.commit();
        repo.git(["update-ref", "refs/heads/main", &id.to_string()]);
        let view = open(repo);
        assert_eq!(direct(&view, "refs/heads/main"), Some(id));
        let away = repo.scratch().join("away");
        std::fs::rename(repo.git_dir(), &away).unwrap();
        assert!(matches!(view.get("refs/heads/main".into()), Err(Error::Gone(_))));
        assert!(matches!(view.list(&ListOptions::default()), Err(Error::Gone(_))));
        // The new repository is made with git in a folder of its own, and then copied here.
        let fresh = Repo::bare(repo.format(), HashKind::Sha1);
        let other = fresh.commit();
        fresh.git(["update-ref", "refs/heads/other", &other.to_string()]);
        let copied = std::process::Command::new("cp").arg("-a").arg(fresh.git_dir()).arg(repo.git_dir()).status();
        assert!(copied.unwrap().success());
        assert_eq!(direct(&view, "refs/heads/main"), None);
        assert_eq!(direct(&view, "refs/heads/other"), Some(other));
    });
}

#[test]
fn an_include_for_the_repositorys_own_folder_counts_as_in_receive_pack() {
    each(|repo| {
        let id = repo.commit();
        let folder = repo.git_dir().canonicalize().unwrap();
        let (included, config) = (folder.join("included"), folder.join("config"));
        std::fs::write(&included, "[core]\n\tlogAllRefUpdates = always\n").unwrap();
        let before = std::fs::read_to_string(&config).unwrap();
        let parent = folder.parent().unwrap().display();
        let patterns = [
            (format!("gitdir:{}/", folder.display()), true),
            (format!("gitdir:{parent}/*/"), true),
            (format!("gitdir:{}", folder.display()), true),
            ("gitdir:./".to_owned(), false),
            (format!("gitdir:{parent}/elsewhere/"), false),
        ];
        for (at, (pattern, holds)) in patterns.into_iter().enumerate() {
            let condition = format!("{before}[includeIf \"{pattern}\"]\n\tpath = included\n");
            std::fs::write(&config, condition).unwrap();
            let view = open(repo);
            let name = format!("refs/made/{at}");
            view.commit(&Batch::atomic(vec![set(&name, id, Precondition::Any)])).unwrap();
            assert_eq!(view.has_log(BStr::new(&name)).unwrap(), holds, "{pattern}");
        }
    });
}
