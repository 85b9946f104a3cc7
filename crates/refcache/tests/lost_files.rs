//! Lists of a view whose files another machine replaces on a network file system while they are read. A planted fault
//! lets them be lost with their last name, as a server of NFS 3 does.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use bstr::BStr;
use common::{direct, each, open};
use refdb_refcache::{ListOptions, Listing};
use refdb_testkit::{Repo, run_with_fault};
use std::ops::ControlFlow;

const COUNT: usize = 20_000;

/// Runs a test of this file again, in a process in which files are lost.
fn with_losses(test: &str) {
    run_with_fault(test, "vfs-stale");
}

/// Creates refs, all of them in one file that is read in many parts.
fn fill(repo: &Repo) {
    let commit = repo.commits(1)[0];
    let names: Vec<String> = (0..COUNT).map(|at| format!("refs/heads/{at:06}")).collect();
    repo.create_refs(names.iter().map(|name| (name, commit)));
    repo.git(["pack-refs", "--all"]);
}

/// Replaces the file with the refs that [`fill`] has created, as another machine does.
fn replace(repo: &Repo) {
    repo.git(["update-ref", "-d", "refs/heads/000000"]);
    repo.git(["pack-refs", "--all"]);
}

/// The number of refs to the end of the list, or what its error says.
fn count(listing: &mut Listing) -> Result<usize, String> {
    let mut count = 0;
    while let Some(row) = listing.next().map_err(|error| {
        assert!(error.is_stale(), "{error}");
        error.to_string()
    })? {
        assert!(row.name.starts_with(b"refs/heads/"));
        count += 1;
    }
    Ok(count)
}

#[test]
fn a_list_that_has_lost_its_file_fails_clearly_and_can_be_repeated() {
    with_losses("lists_of_files_that_are_lost");
}

#[test]
#[ignore = "run by another test, in an environment of its own"]
fn lists_of_files_that_are_lost() {
    each(|repo| {
        fill(repo);
        let view = open(repo);
        let mut listing = view.list(&ListOptions::default()).unwrap();
        replace(repo);
        // The view has read the first row before it returned the listing, because until then it can begin again.
        let first = listing.next().unwrap().map(|row| row.name.to_string());
        assert_eq!(first.as_deref(), Some("refs/heads/000000"));
        let error = count(&mut listing).unwrap_err();
        assert!(error.contains("another machine replaced or removed the file on the file server"), "{error}");
        assert!(error.ends_with("try again"), "{error}");
        assert_eq!(count(&mut view.list(&ListOptions::default()).unwrap()), Ok(COUNT - 1), "of the new state alone");
        assert_eq!(direct(&view, "refs/heads/000000"), None);
        assert!(direct(&view, "refs/heads/019999").is_some());
    });
}

#[test]
fn a_list_that_looks_ahead_shows_each_ref_once() {
    with_losses("lists_that_look_ahead");
}

#[test]
#[ignore = "run by another test, in an environment of its own"]
fn lists_that_look_ahead() {
    each(|repo| {
        fill(repo);
        let view = open(repo);
        let options = ListOptions::default().prefixes(vec!["refs/heads/0000".into(), "refs/heads/0123".into()]);
        assert_eq!(count(&mut view.list(&options).unwrap()), Ok(200));
        let (mut listing, mut shown) = (view.list(&options).unwrap(), Vec::new());
        for stop in [1, 5, usize::MAX] {
            let show = &mut |row: &refdb_refcache::Row<'_>| {
                shown.push(row.name.to_string());
                if shown.len() == stop { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            };
            listing.each(show).unwrap();
        }
        assert!(shown.len() == 200 && shown.is_sorted_by(|one, other| one < other), "{shown:?}");
        assert_eq!(shown[0], "refs/heads/000000");
        let none = ListOptions::default().prefixes(vec!["refs/none/".into()]);
        assert_eq!(count(&mut view.list(&none).unwrap()), Ok(0));
        assert!(view.has_refs().unwrap());
        assert_eq!(view.conflicting(BStr::new("refs/heads")).unwrap().len(), COUNT);
    });
}
