//! Far more projects than files that may be open.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod common;

use common::{
    projects::{self, BRANCH, Projects, id},
    set,
};
use refdb::{
    ObjectError, Precondition,
    transaction::{ObjectCheck, ObjectClass},
};
use refdb_refcache::{Batch, ListOptions, TrustSettings, View, Views, ViewsSettings};
use refdb_types::ObjectId;
use std::{
    fs,
    sync::{Arc, OnceLock},
    time::Duration,
};

const THREADS: usize = 8;

/// Number of files that a query may have open: a view's folder, configuration, list and some tables, or its
/// packed-refs. A commit adds those that it writes.
const FILES_A_QUESTION: usize = 8;

/// Returns the next pseudo-random number.
fn next(seed: &mut u64) -> usize {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    (*seed >> 16) as usize
}

fn ask(projects: &Projects, at: usize, view: &View, what: usize) {
    match what % 16 {
        0..3 => projects.write(at, view),
        3 => {
            let mut listing = view.list(&ListOptions::default()).unwrap();
            let mut refs = 0;
            while listing.next().unwrap().is_some() {
                refs += 1;
            }
            assert!(refs >= 4, "project {at}: {refs} refs");
        }
        4 => assert!(view.resolve("HEAD".into()).unwrap().found.is_some()),
        _ => drop(projects.read(at, view)),
    }
}

/// Has eight threads ask all projects in turn, then some at random. Returns the largest number of open files that was
/// seen.
fn ask_all(projects: &Projects, views: &Views, at_random: usize, trust: TrustSettings) -> usize {
    let held: Vec<Arc<View>> = (0..projects.len()).map(|at| projects.open(views, at, trust)).collect();
    let bytes_max = views.holdings().bytes_max;
    projects.forget_versions();
    std::thread::scope(|scope| {
        let ask_some = |thread: usize| {
            let mut seed = 0x9e37_79b9 + thread as u64;
            let mut most = 0;
            let from = thread * projects.len() / THREADS;
            for turn in 0..projects.len() + at_random {
                let at = if turn < projects.len() { from + turn } else { next(&mut seed) } % projects.len();
                ask(projects, at, &held[at], next(&mut seed));
                // Only now and then, because this looks at all views.
                if turn % THREADS == 0 {
                    let holdings = views.holdings();
                    most = most.max(holdings.files as usize);
                    assert!(holdings.bytes <= bytes_max + (1 << 20), "{holdings:?}");
                }
            }
            most
        };
        let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || ask_some(thread))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).max().unwrap()
    })
}

fn limit_descriptors(max: u64) {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let limit = rustix::process::Rlimit { current: Some(max), ..getrlimit(Resource::Nofile) };
    setrlimit(Resource::Nofile, limit).unwrap();
}

fn settings(open_files: Option<usize>) -> ViewsSettings {
    ViewsSettings::new().memory_bytes(16 << 20).open_files(open_files)
}

#[test]
fn ten_times_more_projects_than_may_be_open_are_served_with_no_more_files_and_no_older_value() {
    const FILES_MAX: usize = 64;
    let projects = Projects::new(FILES_MAX / 3 * 10);
    for believe in [None, Some(Duration::from_secs(3600))] {
        let views = Views::new(&settings(Some(FILES_MAX)));
        let trust = TrustSettings::new().believe(believe);
        let most = ask_all(&projects, &views, 100, trust);
        assert!(most <= FILES_MAX + THREADS * FILES_A_QUESTION, "{most}");
        let holdings = views.holdings();
        assert!(holdings.closed > 500, "{holdings:?}");
        assert_eq!((holdings.views, holdings.open_views, holdings.files), (0, 0, 0), "{holdings:?}");
    }
}

/// Asks other projects until this view is closed.
fn close(views: &Views, others: &Projects, view: &View) {
    let before = view.version();
    let held: Vec<_> = (2..others.len()).map(|at| others.open(views, at, TrustSettings::default())).collect();
    for (at, other) in (2..).zip(&held).cycle().take(4 * others.len()) {
        others.read(at, other);
        if view.stats().bytes == 0 {
            assert!(view.version() > before, "a change missed while it is closed would be no news");
            return;
        }
    }
    panic!("the view stays open: {:?}", views.holdings());
}

/// Runs a function whenever it is asked what an id is.
struct Meanwhile(Box<dyn Fn() + Send + Sync>);

impl ObjectCheck for Meanwhile {
    fn classify(&self, _: &ObjectId) -> Result<ObjectClass, ObjectError> {
        (self.0)();
        Ok(ObjectClass::Commit)
    }
}

#[test]
fn what_is_committed_while_a_view_is_closed_and_opened_again_is_what_it_believes() {
    let projects = Arc::new(Projects::new(20));
    let views = Arc::new(Views::new(&settings(Some(16))));
    for at in [0, 1] {
        let asked = Arc::new(OnceLock::<Arc<View>>::new());
        let meanwhile = {
            let (projects, views, asked) = (Arc::clone(&projects), Arc::clone(&views), Arc::clone(&asked));
            move || {
                let (projects, views, view) = (&projects, &views, asked.get().unwrap());
                // In a thread of its own, as the next query would be.
                std::thread::scope(|scope| {
                    scope
                        .spawn(|| {
                            close(views, projects, view);
                            assert_eq!(projects.read(at, view), 0, "the commit has not begun to lock");
                        })
                        .join()
                        .unwrap()
                });
            }
        };
        let trust = TrustSettings::new().believe(Some(Duration::from_secs(3600)));
        let settings =
            common::unsynced(trust).objects(Some(Arc::new(Meanwhile(Box::new(meanwhile))))).config(projects::config());
        let view = views.open(&projects.path(at), &settings).unwrap();
        assert!(asked.set(Arc::clone(&view)).is_ok());
        let edit = set(BRANCH, id(at, 1), Precondition::Any);
        view.commit(&Batch::atomic(vec![edit])).unwrap();
        assert_eq!(projects.read(at, &view), 1);
    }
}

#[test]
fn whatever_is_changed_while_a_view_is_closed_is_seen_when_it_comes_back() {
    let projects = Projects::new(20);
    let views = Views::new(&settings(Some(16)));
    let trust = TrustSettings::new().believe(Some(Duration::from_secs(3600)));
    let open = |at| projects.open(&views, at, trust);
    // Packed-refs is changed in place, with the same length and the old timestamp. Only an open descriptor would have
    // been a proof.
    let packed = open(0);
    assert_eq!(projects.read(0, &packed), 0);
    close(&views, &projects, &packed);
    let path = projects.path(0).join("packed-refs");
    let (text, stat) = (fs::read_to_string(&path).unwrap(), fs::metadata(&path).unwrap());
    fs::write(&path, text.replace(&id(0, 0).to_string(), &id(0, 5).to_string())).unwrap();
    fs::File::options().write(true).open(&path).unwrap().set_modified(stat.modified().unwrap()).unwrap();
    assert_eq!(projects.read(0, &packed), 5);
    // A loose ref appears whose name was known only as packed.
    close(&views, &projects, &packed);
    fs::write(projects.path(0).join(BRANCH), format!("{}\n", id(0, 6))).unwrap();
    assert_eq!(projects.read(0, &packed), 6);
    // Another repository takes the place of this one, with other settings and the other format.
    close(&views, &projects, &packed);
    fs::remove_dir_all(projects.path(0)).unwrap();
    Projects::copy(&projects.path(1), &projects.path(0));
    assert_eq!(common::direct(&packed, BRANCH), Some(id(1, 0)));
    assert_eq!(packed.format().unwrap(), refdb::RefFormat::Reftable);
    assert_eq!(packed.stats().reopens, 0, "it was not replaced while it was open");
    // Then there is no repository for a while.
    close(&views, &projects, &packed);
    fs::remove_dir_all(projects.path(0)).unwrap();
    assert!(packed.get(BRANCH.into()).is_err());
    Projects::copy(&projects.path(2), &projects.path(0));
    assert_eq!(common::direct(&packed, BRANCH), Some(id(2, 0)), "an error is not kept");
}

#[test]
fn views_that_are_open_count_in_the_bound_of_memory_and_those_not_used_are_closed_for_it() {
    const BYTES_MAX: usize = 1 << 20;
    let projects = Projects::new(200);
    let views = Views::new(&ViewsSettings::new().memory_bytes(BYTES_MAX).open_files(Some(10_000)));
    let held: Vec<_> = (0..projects.len()).map(|at| projects.open(&views, at, TrustSettings::default())).collect();
    for _ in 0..3 {
        for (at, view) in held.iter().enumerate() {
            projects.read(at, view);
            let holdings = views.holdings();
            assert!(holdings.bytes <= BYTES_MAX as u64 + (64 << 10), "{holdings:?}");
        }
    }
    let holdings = views.holdings();
    assert!((20..120).contains(&holdings.open_views) && holdings.views == 200, "{holdings:?}");
    drop(held);
    assert!(views.holdings().bytes < BYTES_MAX as u64 / 2, "{:?}", views.holdings());
}

#[test]
fn views_that_nobody_holds_leave_nothing_behind() {
    let projects = Projects::new(40);
    let views = Views::new(&settings(None));
    for _ in 0..3 {
        for at in 0..projects.len() {
            projects.read(at, &projects.open(&views, at, TrustSettings::default()));
            projects.forget_versions();
        }
    }
    let holdings = views.holdings();
    assert_eq!((holdings.views, holdings.open_views, holdings.files, holdings.closed), (0, 0, 0, 0));
    assert!(views.stats().is_empty());
}

/// Runs in `make test-long` only.
#[test]
#[ignore = "takes minutes"]
fn ten_thousand_projects_are_served_under_the_limit_that_gerrit_sets() {
    limit_descriptors(1024);
    let projects = Projects::new(10_000);
    let views = Views::new(&ViewsSettings::new().memory_bytes(64 << 20));
    let most = ask_all(&projects, &views, 10_000, TrustSettings::default());
    assert!(most <= 300, "{most}");
}
