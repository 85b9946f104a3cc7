//! A process that has no descriptor left. The test is alone in its process, because nobody else in it could open a file
//! meanwhile.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod common;

use common::projects::Projects;
use refdb_refcache::{TrustSettings, View, Views, ViewsSettings};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::{fs::File, sync::Arc};

/// Takes all descriptors that are left.
fn take_all() -> Vec<File> {
    std::iter::from_fn(|| File::open("/dev/null").ok()).collect()
}

#[test]
fn where_others_take_all_descriptors_views_that_are_not_used_give_theirs_to_those_that_are() {
    const LIMIT: u64 = 256;
    setrlimit(Resource::Nofile, Rlimit { current: Some(LIMIT), ..getrlimit(Resource::Nofile) }).unwrap();
    let projects = Projects::new(40);
    // Views take half of what the process may have at most, which is more than these need.
    let views = Views::new(&ViewsSettings::new().open_files(Some(10_000)));
    assert_eq!(views.holdings().files_max, LIMIT / 2);
    let open = |at| projects.open(&views, at, TrustSettings::default());
    let held: Vec<Arc<View>> = (0..projects.len()).map(open).collect();
    for (at, view) in held.iter().enumerate().take(20) {
        projects.read(at, view);
    }
    let others = take_all();
    let open_before = views.holdings().open_views;
    // Reading a folder, opening and locking meet the lack of descriptors at different places.
    for (at, view) in held.iter().enumerate() {
        projects.write(at, view);
        assert_eq!(projects.read(at, view), 1);
        assert!(!common::names(view, &common::prefixed(&["refs/heads/"])).is_empty());
    }
    let holdings = views.holdings();
    assert!(holdings.open_views < open_before, "{holdings:?} after {open_before} open views");
    // With nothing left to close there is an error that says so, until descriptors are free again.
    drop(held);
    let rest = take_all();
    let settings = common::unsynced(TrustSettings::default());
    let error = views.open(&projects.path(1), &settings).err().unwrap().to_string();
    assert!(error.contains("Too many open files") && error.contains("1.git/HEAD"), "{error}");
    drop((others, rest));
    assert!(views.open(&projects.path(1), &settings).is_ok());
}
