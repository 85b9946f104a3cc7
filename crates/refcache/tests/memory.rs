//! What views keep in memory, and what they drop when it is too much.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod common;

use bstr::ByteSlice;
use common::{direct, prefixed};
use refdb_refcache::{TrustSettings, View, Views, ViewsSettings};
use refdb_testkit::{RefFormat, Repo};
use refdb_types::{HashKind, ObjectId};
use std::{fmt::Write, sync::Arc};

/// These refs take 2.1 MB in packed-refs, and 0.9 MB in the form in which names are looked up. The index from objects
/// to refs takes 0.2 MB.
const REFS: usize = 30_000;

fn name(at: usize) -> String {
    format!("refs/changes/{:02}/{at:06}/meta", at / 1000)
}

fn id(at: usize) -> ObjectId {
    let mut bytes = [0; 20];
    bytes[..8].copy_from_slice(&(at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    bytes[8..16].copy_from_slice(&(at as u64).to_be_bytes());
    ObjectId::from_bytes(HashKind::Sha1, &bytes).unwrap()
}

fn filled() -> Repo {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let mut text = String::from("# pack-refs with: peeled fully-peeled sorted \n");
    for at in 0..REFS {
        writeln!(text, "{} {}", id(at), name(at)).unwrap();
    }
    std::fs::write(repo.git_dir().join("packed-refs"), text).unwrap();
    // A timestamp that is too recent proves nothing, so the file would be read again at each look.
    std::thread::sleep(std::time::Duration::from_millis(100));
    repo
}

fn open(views: &Views, repo: &Repo) -> Arc<View> {
    views.open(repo.git_dir(), &common::unsynced(TrustSettings::default())).unwrap()
}

/// Looks up all refs, and returns for how many a file had to be read.
fn misses(view: &View, views: &Views, bound: usize) -> u64 {
    misses_of(REFS, view, views, bound)
}

fn misses_of(refs: usize, view: &View, views: &Views, bound: usize) -> u64 {
    let before = view.stats().misses;
    for at in (0..refs).map(|at| at * 7919 % REFS) {
        assert_eq!(direct(view, &name(at)), Some(id(at)));
        // One page may be too many until the next query.
        assert!(views.held_bytes() <= bound + (32 << 10), "{} of {bound}", views.held_bytes());
    }
    view.stats().misses - before
}

#[test]
fn all_refs_stay_in_memory_with_the_index_from_objects_as_long_as_they_fit() {
    const BOUND: usize = 3 << 19;
    let repo = filled();
    let views = Views::new(&ViewsSettings::new().memory_bytes(BOUND));
    let view = open(&views, &repo);
    assert!(misses(&view, &views, BOUND) > 0);
    assert_eq!(view.pointing_at(&id(1)).unwrap(), [name(1).as_bytes().as_bstr()]);
    let loads = view.stats().loads;
    for at in (0..REFS).step_by(17) {
        assert_eq!(view.pointing_at(&id(at)).unwrap(), [name(at).as_bytes().as_bstr()]);
        // Text that is read for a listing does not evict what all look-ups need.
        assert_eq!(common::names(&view, &prefixed(&[&name(at)])), [name(at)]);
        assert!(views.held_bytes() <= BOUND + (64 << 10), "{} of {BOUND}", views.held_bytes());
    }
    assert_eq!(view.stats().loads, loads, "the index was made again");
    assert_eq!(misses(&view, &views, BOUND), 0, "pages were given up although all fit");
    assert!(views.held_bytes() > (1 << 20), "{}", views.held_bytes());
}

#[test]
fn beyond_the_bound_the_view_that_was_not_used_for_the_longest_time_gives_up_its_pages() {
    const BOUND: usize = 5 << 19;
    let repos: Vec<Repo> = (0..3).map(|_| filled()).collect();
    let views = Views::new(&ViewsSettings::new().memory_bytes(BOUND));
    let [a, b, c] = [0, 1, 2].map(|at| open(&views, &repos[at]));
    for view in [&a, &b] {
        assert!(misses(view, &views, BOUND) > 0);
    }
    // Both fit.
    for view in [&b, &a] {
        assert_eq!(misses(view, &views, BOUND), 0);
    }
    // The clock that tells which view was used last stands still while there is room.
    assert!(misses(&c, &views, BOUND) > 0);
    assert!(misses(&c, &views, BOUND) == 0, "refs in use stay");
    let kept = [&a, &b].map(|view| view.stats().bytes > 1 << 19);
    assert!(kept == [true, false] || kept == [false, true], "{kept:?}: one was enough");
}

#[test]
fn a_view_that_outgrows_the_bound_keeps_the_pages_that_are_asked_for_most() {
    const BOUND: usize = 1 << 19;
    // A fifth of all pages, for which there is room, but too many for the memory of single names.
    const HOT: usize = REFS / 5;
    let repo = filled();
    let views = Views::new(&ViewsSettings::new().memory_bytes(BOUND));
    let view = open(&views, &repo);
    let (mut asked, mut missed) = (0, 0);
    for turn in 0..REFS {
        let is_hot = turn % 4 != 0;
        let at = turn * 7919 % if is_hot { HOT } else { REFS };
        let before = view.stats().misses;
        assert_eq!(direct(&view, &name(at)), Some(id(at)));
        if is_hot && turn > REFS / 2 {
            (asked, missed) = (asked + 1, missed + view.stats().misses - before);
        }
        assert!(views.held_bytes() <= BOUND + (32 << 10), "{} of {BOUND}", views.held_bytes());
    }
    assert!(missed * 50 < asked, "{missed} of {asked} had to be read for");
}

#[test]
fn an_index_for_which_there_is_no_room_answers_once_and_goes() {
    const BOUND: usize = 1 << 17;
    let repo = filled();
    let views = Views::new(&ViewsSettings::new().memory_bytes(BOUND));
    let view = open(&views, &repo);
    for at in [1, 2] {
        assert_eq!(view.pointing_at(&id(at)).unwrap(), [name(at).as_bytes().as_bstr()]);
        assert!(views.held_bytes() <= BOUND, "{} of {BOUND}", views.held_bytes());
    }
}

#[test]
fn less_memory_than_the_refs_take_makes_look_ups_slower_and_no_answer_wrong() {
    const BOUND: usize = 1 << 19;
    let repo = filled();
    let views = Views::new(&ViewsSettings::new().memory_bytes(BOUND));
    let view = open(&views, &repo);
    for _ in 0..2 {
        assert!(misses_of(3000, &view, &views, BOUND) > 0);
    }
    for at in (0..REFS).step_by(997) {
        assert_eq!(view.pointing_at(&id(at)).unwrap(), [name(at).as_bytes().as_bstr()]);
    }
}

#[test]
fn a_page_in_memory_is_void_once_the_file_is_another_one() {
    let repo = filled();
    let views = Views::new(&ViewsSettings::default());
    let view = open(&views, &repo);
    for at in 0..REFS {
        direct(&view, &name(at));
    }
    let version = view.version();
    let path = repo.git_dir().join("packed-refs");
    let text = std::fs::read_to_string(&path).unwrap();
    let changed = text.replacen(&id(5).to_string(), &id(6).to_string(), 1);
    // The file is changed in place twice, with the same length; below, another file replaces it.
    for (text, expected) in [(&changed, id(6)), (&text, id(5))] {
        std::fs::write(&path, text).unwrap();
        assert_eq!(direct(&view, &name(5)), Some(expected));
        assert_eq!(view.verify().unwrap().differences, []);
    }
    assert!(view.version() > version, "a thread that waits for changes is told");
    std::fs::write(repo.git_dir().join("new"), &changed).unwrap();
    std::fs::rename(repo.git_dir().join("new"), &path).unwrap();
    assert_eq!(direct(&view, &name(5)), Some(id(6)));
}
