//! A packed-refs that claims to be sorted and is not, because somebody has edited it or a bit has flipped.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod common;

use common::{names, open, prefixed};
use refdb_refcache::{Error, ListOptions, View};
use refdb_testkit::{RefFormat, Repo};
use refdb_types::{HashKind, ObjectId};
use std::{fs, ops::ControlFlow};

fn write(repo: &Repo, id: ObjectId, names: &[String]) {
    let lines: String = names.iter().map(|name| format!("{id} {name}\n")).collect();
    let head = "# pack-refs with: peeled fully-peeled sorted \n";
    std::fs::write(repo.git_dir().join("packed-refs"), format!("{head}{lines}")).unwrap();
}

/// Returns two lists of the names followed by tags: one with few tags, whose file is small, and one with so many that
/// its file is read page by page.
fn sizes(names: &[&str]) -> [Vec<String>; 2] {
    [10, 5000].map(|tags| {
        let tags = (0..tags).map(|at| format!("refs/tags/{at:06}"));
        names.iter().map(|name| (*name).to_owned()).chain(tags).collect()
    })
}

fn unsorted(view: &View) -> u64 {
    view.stats().unsorted
}

#[test]
fn a_prefix_list_is_whole_the_first_time_though_a_misplaced_name_ends_or_begins_it() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let id = repo.commit();
    // One bit of `refs/heads/b` has flipped, or a ref that belongs before all branches stands behind the first of them.
    let ends = ["refs/heads/a", "refs/xeads/b", "refs/heads/c"];
    let begins = ["refs/heads/c", "refs/changes/a", "refs/heads/d"];
    for (names_there, below) in [(ends, ["refs/heads/a", "refs/heads/c"]), (begins, ["refs/heads/c", "refs/heads/d"])] {
        for all in sizes(&names_there) {
            write(&repo, id, &all);
            let view = open(&repo);
            assert_eq!(names(&view, &prefixed(&["refs/heads/"])), below, "of {} refs", all.len());
            assert_eq!(unsorted(&view), 1);
        }
    }
}

#[test]
fn a_listing_that_finds_a_wrong_order_does_not_go_on_in_a_file_that_replaced_it() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let [old, new] = repo.commits(2)[..] else { panic!("two") };
    // The walk begins too far from the misplaced name to notice it there.
    let names_there = ["a", "b", "c", "d", "e", "f", "h", "g"].map(|name| format!("refs/heads/{name}"));
    for all in sizes(&names_there.each_ref().map(String::as_str)) {
        write(&repo, old, &all);
        let view = open(&repo);
        let mut listing = view.list(&ListOptions::default()).unwrap();
        let mut shown = Vec::new();
        let listed = listing.each(&mut |row| {
            if shown.is_empty() {
                let mut sorted = all.clone();
                sorted.sort_unstable();
                fs::remove_file(repo.git_dir().join("packed-refs")).unwrap();
                write(&repo, new, &sorted);
            }
            shown.push(row.target.to_target().unwrap().id().unwrap());
            ControlFlow::Continue(())
        });
        assert!(listed.as_ref().is_err_and(Error::is_stale), "{listed:?}");
        assert!(shown.iter().all(|id| *id == old), "{} rows", shown.len());
        assert_eq!(names(&view, &ListOptions::default()).len(), all.len());
    }
}

#[test]
fn an_order_that_is_wrong_is_counted_and_told_of_once_until_packed_refs_is_another() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let id = repo.commit();
    for all in sizes(&["refs/heads/a", "refs/heads/c", "refs/heads/b"]) {
        write(&repo, id, &all);
        let view = open(&repo);
        assert_eq!((unsorted(&view), view.unreported()), (0, 0), "nobody has looked");
        let mut sorted = all.clone();
        sorted.sort_unstable();
        for _ in 0..2 {
            let mut listed = names(&view, &ListOptions::default());
            listed.sort_unstable();
            assert_eq!(listed, sorted);
            assert_eq!(unsorted(&view), 1);
        }
        assert_eq!(view.unreported(), 1);
        let told = view.take_disorder().unwrap();
        assert_eq!((told.path, told.name), (repo.git_dir().join("packed-refs"), "refs/heads/b".into()));
        let offset = "# pack-refs with: peeled fully-peeled sorted \n".len() + 2 * (41 + "refs/heads/a\n".len());
        assert_eq!(told.offset, offset as u64);
        assert_eq!((view.take_disorder(), view.unreported(), unsorted(&view)), (None, 0, 1));
        repo.git(["update-ref", "refs/heads/new", &id.to_string()]);
        write(&repo, id, &sorted);
        assert_eq!(names(&view, &prefixed(&["refs/heads/"])).len(), 4);
        assert_eq!(unsorted(&view), 0, "it was mended");
        repo.git(["update-ref", "-d", "refs/heads/new"]);
    }
}

#[test]
fn refs_by_object_notice_a_wrong_order_too() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let ids = repo.commits(2);
    for all in sizes(&["refs/heads/b", "refs/heads/a"]) {
        write(&repo, ids[0], &all);
        let view = open(&repo);
        let mut sorted = all.clone();
        sorted.sort_unstable();
        assert_eq!(view.pointing_at(&ids[0]).unwrap(), sorted);
        assert_eq!(unsorted(&view), 1);
        assert_eq!(view.take_disorder().unwrap().name, "refs/heads/a");
        assert_eq!(view.pointing_at(&ids[1]).unwrap(), [""; 0]);
    }
}

/// SHORTCOMINGS documents this: a list reads its range and two refs on either side, no more.
#[test]
fn a_name_far_from_its_place_is_missed_until_a_walk_has_met_it() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let id = repo.commit();
    let mut all = sizes(&["refs/heads/a", "refs/heads/c"])[1].clone();
    all.insert(3000, "refs/heads/b".to_owned());
    write(&repo, id, &all);
    let view = open(&repo);
    let heads = || names(&view, &prefixed(&["refs/heads/"]));
    assert_eq!(heads(), ["refs/heads/a", "refs/heads/c"]);
    assert_eq!(names(&view, &ListOptions::default()).len(), all.len());
    assert_eq!(heads(), ["refs/heads/a", "refs/heads/b", "refs/heads/c"]);
    assert_eq!(unsorted(&view), 1);
}
